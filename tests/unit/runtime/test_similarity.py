"""The similarity search at small rings: each step against the clear, the whole, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("penstock_client")

from penstock.errors import PenstockError, UsageError
from penstock.program.database.similarity.comparison import Selection, comparison
from penstock.program.database.similarity.result import encoded_payloads, found_in, tables_of
from penstock.program.database.similarity.scheme import (
    PAYLOAD,
    PERIODS,
    SIZES,
    THRESHOLD,
    Layout,
    SmallRing,
    large_parameters,
)
from penstock.program.database.similarity.search import search_trace
from penstock.program.evaluator.circuits.openfhe.coefficients import slot_of_coefficient
from penstock.runtime.keystore import KeyStore
from penstock.runtime.native.prepared import key_uses
from penstock.runtime.similarity.files import INDEX, PAYLOADS, RECORDS, DatabaseDamaged, read_description
from penstock.runtime.similarity.owner import NotUnit, Owner
from penstock.runtime.similarity.server import Server
from penstock.scheme.params import catalogue
from support.similarity_search import DIM, Searched, expected, unit
from support.small_disk import needs_mounts, on_a_small_disk

SMALL_DIM = 128
"""At N = 2^11, where one small ciphertext has a bucket for each record in one of its tables."""


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    """Records of one small ciphertext."""
    return Searched(tmp_path_factory.mktemp("few"), 2**11, 100)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    """Records of several score ciphertexts: three packed ones, the last not full."""
    return Searched(tmp_path_factory.mktemp("many"), 2**12, 9000)


@pytest.mark.parametrize("name", ["few", "many"])
def test_the_payloads_of_all_matches_come_back(name, request):
    searched = request.getfixturevalue(name)
    answer = searched.server.answer(searched.owner.encrypt_query(searched.query))
    found = searched.owner.decrypt(answer.content, searched.layout)
    wanted = expected(searched.records, searched.payloads, searched.query)
    assert len(wanted) > 2
    np.testing.assert_array_equal(found.payloads, wanted)
    assert found.count == len(wanted)


@pytest.mark.parametrize("name", ["few", "many"])
def test_matches_are_counted_without_payloads(name, request):
    searched = request.getfixturevalue(name)
    one = (searched.records[0],) if name == "few" else ()  # both are searched alike
    for query in (searched.query, unit(np.ones(DIM)), *one):
        answer = searched.server.answer(searched.owner.encrypt_query(query), count_only=True)
        assert searched.owner.decrypt_count(answer.content, searched.layout) == np.sum(
            searched.records @ query > THRESHOLD
        )


def test_a_query_without_matches_has_none(few):
    query = unit(np.random.default_rng(5).standard_normal(DIM))
    assert np.max(few.records @ query) < 0.75
    answer = few.server.answer(few.owner.encrypt_query(query))
    found = few.owner.decrypt(answer.content, few.layout)
    assert (len(found.payloads), found.count) == (0, 0)


def test_records_at_the_threshold_are_decided_by_a_hair(tmp_path):
    """Similarities on both sides of the threshold, a thousandth away: their indicators are far from 0 and 1."""
    query = np.zeros(DIM)
    query[0] = 1.0
    similarities = np.array([0.799, 0.801, 0.81, 0.79, 0.7, 0.9, -1.0, 1.0, 0.0])
    records = np.zeros((len(similarities), DIM))
    records[:, 0], records[:, 1] = similarities, np.sqrt(1 - similarities**2)
    payloads = np.arange(len(records) * PAYLOAD).reshape(-1, PAYLOAD) * 60
    params = large_parameters(2**11, security=0)
    owner = Owner.generate(params, small_dim=SMALL_DIM)
    owner.make_keys(owner.layout(len(records), DIM), KeyStore(tmp_path / "keys"))
    owner.encrypt_database(records, payloads, tmp_path / "database")
    server = Server(tmp_path / "keys", tmp_path / "database", params=params)
    found = owner.decrypt(server.answer(owner.encrypt_query(query)).content, server.layout)
    np.testing.assert_array_equal(found.payloads, payloads[similarities > THRESHOLD])


def test_the_expansion_gives_each_coordinate(few):
    """Each ciphertext decrypts to one coordinate as its constant; the rest of its coefficients are error."""
    server, owner = few.server, few.owner
    vector = server._expanded(server._query(owner.encrypt_query(few.query)))
    assert len(vector) == DIM
    ring, secret = owner._ring, owner._secret
    n, q = SMALL_DIM, server.small.modulus
    # The constant is the mean of the evaluations.
    for each, value in zip(vector, few.query, strict=True):
        assert (each.limbs, each.polynomials) == (1, 2)
        phase = _phase(ring, secret, each, n, q)
        mean = sum(int(word) for word in phase) * pow(n, -1, q) % q
        mean -= q if mean > q // 2 else 0
        assert abs(mean / (q / PERIODS / 2.0**18) - value) < 2.0**-12


def _phase(ring: Any, secret: Any, ciphertext: Any, n: int, q: int) -> Any:
    from penstock._engine import CkksContext, CkksWriter

    writer = CkksWriter(ring.encrypt_seeded(secret, np.zeros(n // 2, dtype=np.complex128), 1, 1))
    context = CkksContext(
        ring_dim=n, moduli_q=[q], moduli_p=[SmallRing.under(large_parameters(2**11, security=0), n).special], dnum=1,
        scaling="fixed-manual", scale_bits=18, threads=1, keep_bytes=0,
    )  # fmt: skip
    return ring.phase(secret, context.export_ciphertext(ciphertext, writer))[0]


@pytest.mark.parametrize("slots", [2, 8, 64])
def test_slots_of_coefficients_are_a_permutation(slots):
    places = [slot_of_coefficient(slots, index) for index in range(2 * slots)]
    assert sorted(places) == [(half, slot) for half in range(2) for slot in range(slots)]


@pytest.mark.parametrize(("records", "scores"), [(1, 1), (256, 1), (257, 2), (9000, 6)])
def test_cells_lie_in_places_of_their_own(records, scores):
    layout = Layout(records, DIM, 2**12, 256)
    score, slot = layout.places
    assert layout.scores == scores
    assert len(set(zip(score.tolist(), slot.tolist(), strict=True))) == layout.blocks * 256
    assert score.max() < scores
    assert slot.max() < 2**11


@pytest.mark.parametrize("scores", [1, 2, 62])
def test_the_buckets_of_a_result_do_not_overlap(scores):
    selection = Selection(2**15, scores)
    for variant in range(selection.variants):
        places = np.concatenate(
            [table.places(selection.slots, column) for table in selection.tables(variant) for column in range(4)]
        )
        assert len(np.unique(places)) == len(places) == selection.slots


def test_no_two_records_share_buckets_of_two_tables_of_a_variant():
    """Where two slots are added into one bucket by one stride, they are not by the other."""
    selection = Selection(2**15, 62)
    slots = np.arange(selection.slots)
    for variant in range(2):
        windows = [(slots // (8 * table.stride), slots % table.stride) for table in selection.tables(variant)]
        together = np.stack([*windows[0], *windows[1]])
        assert len(np.unique(together, axis=1).T) == selection.slots


def test_distances_of_score_ciphertexts_stay_apart():
    selection = Selection(2**15, 612)
    distances = np.array([selection.distance(score) for score in range(selection.scores)])
    assert len(np.unique(distances)) == len(distances)
    for table in selection.tables(0):
        # At one slot of two score ciphertexts: in the second variant another bucket of at least one table.
        assert table.stride in (1, 4096)
    # One of 32 matches in random places is alone in no bucket: no two records share buckets of two tables of one
    # variant, and where they share one of each it is by chance, so it needs a neighbour in each table.
    neighbour = 31 / selection.buckets
    assert np.log2(32) + 2 * selection.variants * np.log2(neighbour) < -20


def test_the_comparison_is_a_step():
    sign = comparison()
    similarities = np.linspace(-1, 1, 20001)
    sine = np.sin(2 * np.pi * (similarities - THRESHOLD) / PERIODS)
    indicator = (1 + sign(sine)) / 2
    below, above = similarities < THRESHOLD - 0.02, similarities > THRESHOLD + 0.02
    assert np.abs(indicator[below]).max() < 2.0**-22
    assert np.abs(indicator[above] - 1).max() < 2.0**-22
    near = ~below & ~above
    assert np.all((indicator[near] > 0.5) == (similarities[near] > THRESHOLD + 1e-9))
    assert sum(sign.levels) == 10


def test_more_matches_than_buckets_are_counted_and_said():
    selection = Selection(2**11, 1)
    rng = np.random.default_rng(3)
    payloads = rng.integers(0, 4095, (600, PAYLOAD))
    columns = encoded_payloads(payloads)
    values = np.zeros(selection.slots, dtype=np.complex128)
    for table in selection.tables(0):
        buckets = rng.integers(0, selection.buckets, 600)
        for column in range(4):
            np.add.at(values, table.places(selection.slots, column)[buckets], columns[column])
    found = found_in(tables_of(selection, [values]))
    assert found.count == 600
    assert 0 < len(found.payloads) < 600
    shown = set(map(tuple, found.payloads.tolist()))
    assert shown <= set(map(tuple, payloads.tolist()))


def test_a_search_with_more_matches_than_its_result_holds_counts_all_of_them(tmp_path):
    """All 400 records match, and a table has 128 buckets."""
    searched = Searched(tmp_path, 2**11, 400, matching=True)
    answer = searched.server.answer(searched.owner.encrypt_query(searched.query))
    found = searched.owner.decrypt(answer.content, searched.layout)
    assert found.count == len(searched.expected) == 400
    assert 0 < len(found.payloads) < 400
    assert set(map(tuple, found.payloads.tolist())) <= set(map(tuple, searched.expected.tolist()))


def test_equal_payloads_are_as_many_as_there_are():
    selection = Selection(2**11, 1)
    columns = encoded_payloads(np.full((3, PAYLOAD), 7))
    values = np.zeros(selection.slots, dtype=np.complex128)
    for table in selection.tables(0):
        for column in range(4):
            values[table.places(selection.slots, column)[[3, 50, 200]]] = columns[column]
    assert len(found_in(tables_of(selection, [values])).payloads) == 3


def test_the_rings_of_the_sizes_are_secure_and_the_chain_is_used_up():
    params = large_parameters()
    assert params.security_bits == 128
    small = SmallRing.under(params)
    assert (small.modulus * small.special).bit_length() <= 106  # the 2024 guidelines at N = 2^12, uniform ternary
    for size in SIZES.values():
        if size.name == "large":
            continue
        trace = search_trace(params, Layout(size.records, size.dim, params.ring_dim, small.ring_dim))
        assert min(limbs for _, limbs in key_uses(trace)) == 1


# What is refused.
@pytest.mark.parametrize(
    ("name", "small_dim", "bits", "remedy"),
    [
        ("openfhe-bootstrap", None, 114, "take small_dim=8192, the least that holds"),
        ("openfhe-resnet20", 2**12, 109, "take small_dim=8192, the least that holds"),
        ("openfhe-similarity", 256, 104, "take small_dim=4096, the least that holds"),
        ("openfhe-similarity", 2**11, 104, "take small_dim=4096, the least that holds"),
    ],
)
def test_an_owner_refuses_a_small_ring_below_the_level_of_the_set(name, small_dim, bits, remedy, tmp_path):
    params = catalogue.get(name)
    for attempt in (
        lambda: Owner.generate(params, small_dim=small_dim),
        lambda: Owner.load(tmp_path, params, small_dim=small_dim),
    ):
        with pytest.raises(UsageError, match=f"states 128 bit.*a modulus of {bits} bits.*{remedy}"):
            attempt()


def test_a_small_ring_is_the_one_of_its_set():
    params = large_parameters(2**11, security=0)
    assert SmallRing.under(params).ring_dim == params.small_ring_dim == 2**10
    assert SmallRing.under(catalogue.get("insecure-similarity")).ring_dim == 2**8
    assert SmallRing.under(catalogue.get("openfhe-bootstrap")).ring_dim == 2**12
    SmallRing.under(params, 64).check_level(params)  # a set for tests
    SmallRing.under(catalogue.get("openfhe-bootstrap"), 2**13).check_level(catalogue.get("openfhe-bootstrap"))
    assert Owner.generate(params).small.ring_dim == 2**10


def test_a_record_that_is_no_unit_vector_is_named_and_nothing_is_left(few, tmp_path):
    records = few.records.copy()
    records[17] *= 1.1
    with pytest.raises(NotUnit, match=r"record 17 has length 1\.1.*divide it by its length"):
        few.owner.encrypt_database(records, few.payloads, tmp_path / "database")
    assert list((tmp_path / "database").iterdir()) == []
    records[17] = np.nan
    with pytest.raises(NotUnit, match="record 17 has length nan"):
        few.owner.encrypt_database(records, few.payloads, tmp_path / "database")
    with pytest.raises(NotUnit, match="the query has length 2"):
        few.owner.encrypt_query(2 * few.query)


def test_payloads_out_of_range_or_of_another_number_are_refused(few, tmp_path):
    payloads = few.payloads.copy()
    payloads[3, 2] = 4096
    with pytest.raises(UsageError, match="payload 3 has a number outside 0 to 4095"):
        few.owner.encrypt_database(few.records, payloads, tmp_path / "database")
    with pytest.raises(UsageError, match=r"payloads of shape \(99, 7\) for 100 records"):
        few.owner.encrypt_database(few.records, few.payloads[1:], tmp_path / "database")


def test_more_records_than_the_errors_of_their_sums_allow_are_refused(few, tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.runtime.similarity.owner.BUCKET_RECORDS", 0.5)
    with pytest.raises(UsageError, match=r"100 records with payloads: .* at most 64"):
        few.owner.encrypt_database(few.records, few.payloads, tmp_path / "database")
    few.owner.encrypt_database(few.records, None, tmp_path / "database")


def test_a_database_is_not_written_over(few):
    with pytest.raises(UsageError, match="holds a database already"):
        few.owner.encrypt_database(few.records, few.payloads, few.folder / "database")


@needs_mounts
def test_a_disk_that_fills_while_a_database_is_made_is_named_and_nothing_is_left(tmp_path):
    ran = on_a_small_disk(
        tmp_path,
        """
        import sys
        from pathlib import Path
        import numpy as np
        from penstock.runtime.similarity.owner import Owner
        from penstock.program.database.similarity.scheme import large_parameters
        from penstock.base.system.files import FileError

        owner = Owner.generate(large_parameters(2**11, security=0), small_dim=128)
        payloads = np.zeros((100, 7), dtype=np.int16)
        for dim in (64, 2):  # at first the records do not fit, then the payloads
            records = np.tile(np.eye(dim)[0], (100, 1))
            folder = Path(sys.argv[1]) / f"database-{dim}"
            try:
                owner.encrypt_database(records, payloads, folder)
            except FileError as error:
                print(error, list(folder.iterdir()))
        """,
        size="32k",
    )
    assert ran.returncode == 0, ran.stderr
    first, second = ran.stdout.splitlines()
    for said, name in ((first, f"database-64/{RECORDS}"), (second, f"database-2/{PAYLOADS}")):
        assert name in said
        assert "disk is full" in said
        assert said.endswith("[]")


def copied(few: Searched, tmp_path: Path) -> Path:
    folder = tmp_path / "database"
    subprocess.run(["cp", "-r", few.folder / "database", folder], check=True)
    return folder


def test_a_damaged_database_is_named(few, tmp_path):
    folder = copied(few, tmp_path)
    content = json.loads((folder / INDEX).read_text())
    (folder / INDEX).write_text(json.dumps({**content, "version": 99}))
    with pytest.raises(DatabaseDamaged, match="of version 99, and this program reads 1"):
        read_description(folder)
    (folder / INDEX).write_text("{}")
    with pytest.raises(DatabaseDamaged, match="not the index of a database"):
        read_description(folder)
    (folder / INDEX).unlink()
    with pytest.raises(DatabaseDamaged, match="holds no whole database"):
        read_description(folder)


@pytest.mark.parametrize("name", [RECORDS, PAYLOADS])
def test_a_short_file_of_a_database_is_named(few, tmp_path, name):
    folder = copied(few, tmp_path)
    with (folder / name).open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(DatabaseDamaged, match=f"{name} has 1000 bytes"):
        read_description(folder)


def test_a_flipped_bit_of_the_records_is_found_when_it_is_read(few, tmp_path):
    folder = copied(few, tmp_path)
    with (folder / RECORDS).open("r+b") as file:
        file.seek(4097)
        byte = file.read(1)
        file.seek(4097)
        file.write(bytes([byte[0] ^ 1]))
    server = Server(few.folder / "keys", folder, params=few.server.params)
    with pytest.raises(DatabaseDamaged, match="block 0 differs from its checksum"):
        server.answer(few.owner.encrypt_query(few.query))


def test_a_query_that_does_not_fit_is_refused(few):
    query = few.owner.encrypt_query(few.query)
    with pytest.raises(PenstockError, match="is not whole"):
        few.server.answer(query[:-1])
    with pytest.raises(UsageError, match="a query of 64 coordinates, for records of 32"):
        few.server.answer(few.owner.encrypt_query(unit(np.ones(64))))


def test_a_database_of_other_parameters_is_refused(few):
    with pytest.raises(UsageError, match="take the parameters that it was made with"):
        Server(few.folder / "keys", few.folder / "database", params=large_parameters(2**12, security=0))


def test_a_database_without_payloads_can_only_be_counted_in(tmp_path):
    searched = Searched(tmp_path, 2**11, 40, payloads=False)
    query = searched.owner.encrypt_query(searched.query)
    with pytest.raises(UsageError, match="made without payloads"):
        searched.server.answer(query)
    answer = searched.server.answer(query, count_only=True)
    assert searched.owner.decrypt_count(answer.content, searched.layout) == np.sum(
        searched.records @ searched.query > THRESHOLD
    )


def test_results_that_are_cut_are_refused(few):
    answer = few.server.answer(few.owner.encrypt_query(few.query)).content
    with pytest.raises(PenstockError, match="not whole"):
        few.owner.decrypt(answer[:-5], few.layout)
    with pytest.raises(PenstockError, match="not a result of a similarity search"):
        few.owner.decrypt(b"nothing", few.layout)


def test_secret_keys_are_kept_for_their_owner_and_not_written_over(tmp_path):
    params = large_parameters(2**11, security=0)
    owner = Owner.generate(params, small_dim=SMALL_DIM)
    owner.save(tmp_path / "secret")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "secret" / "small.key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="holds secret keys already"):
        owner.save(tmp_path / "secret")
    again = Owner.load(tmp_path / "secret", params, small_dim=SMALL_DIM)
    assert again.pair.tag == owner.pair.tag


def test_the_server_imports_no_client():
    code = (
        "import sys, penstock.runtime.similarity.server\n"
        "print([m for m in sys.modules if 'client' in m and 'penstock' in m])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "penstock_client" not in ran.stdout
    assert "penstock.runtime.client" not in ran.stdout


@pytest.mark.parametrize("given", ["text", None, bytearray(b"ab"), memoryview(b"ab"), np.zeros(3)])
def test_an_encrypted_query_or_result_that_is_not_bytes_is_refused_in_words(few, given):
    with pytest.raises(UsageError, match=r"the query is of class .* passed as bytes"):
        few.server.answer(given)
    with pytest.raises(UsageError, match=r"the result is of class .* passed as bytes"):
        few.owner.decrypt(given, few.layout)


@pytest.mark.parametrize("given", [["0.6", "0.8"], ["a"], "text", None, [[1.0], [1.0, 2.0]], np.ones(DIM) * 1j, [None]])
def test_a_query_that_is_not_of_real_numbers_is_refused_in_words(few, given):
    with pytest.raises(UsageError, match="the query must have real numbers"):
        few.owner.encrypt_query(given)
