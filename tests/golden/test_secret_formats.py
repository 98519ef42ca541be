"""Golden key pairs, ciphertexts, evaluation keys and databases: each is read with the values that its maker noted, and
its corrupted twins are refused by name. The keys are toys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("penstock_client", reason="penstock's client is not installed")

import penstock_client

from golden import make_secret
from golden.fixtures import PAIR_PARAMS, PASSPHRASE, WHOLE, copied, expected, flipped, folder_of
from golden.make_secret import COST, KEYS, PUBLIC, SECRET, TENANT, digest_of, pair_of, resealed, values_of
from penstock import _engine
from penstock.errors import EvaluationRefused, KeyDamaged, KeyPairDamaged, KeyPairRefused, PenstockError
from penstock.program.database.content import Generated
from penstock.program.database.description import Description
from penstock.program.database.similarity.result import encoded_payloads
from penstock.program.database.similarity.scheme import RECORD_BITS
from penstock.program.database.ssc import SscPlan
from penstock.runtime.client import KeyPair, PublicKey
from penstock.runtime.keystore import KeyCache, KeyStore
from penstock.runtime.native.engine import make_context
from penstock.runtime.scanning.store import Database, DatabaseError
from penstock.runtime.scanning.stream import EntryStream, verify_segment
from penstock.runtime.similarity.files import DatabaseDamaged, checked, read_description, read_template
from penstock.runtime.similarity.owner import Owner
from support import witness

every_pair = pytest.mark.parametrize("number", PAIR_PARAMS)
every_key = pytest.mark.parametrize("number", KEYS)


def bytes_of(name: str, number: int, file: str, part: str = WHOLE) -> bytes:
    return (folder_of(name, number) / part / file).read_bytes()


# Pairs.


@every_pair
def test_a_pair_of_each_number_decrypts_its_old_input_and_new_ones(tmp_path: Path, number: int) -> None:
    noted, params = expected("pair", number), PAIR_PARAMS[number]
    folder = copied("pair", number, tmp_path / "pair")
    pair = KeyPair.load(folder, params, threads=1)
    assert (pair.tag, pair.shared.results) == (noted["tag"], 0)
    public = PublicKey.load(folder, params, threads=1)
    for content in (bytes.fromhex(noted["input"]), public.encrypt(values_of(params)), pair.encrypt(values_of(params))):
        assert np.allclose(pair.decrypt(content, result_for="owner"), values_of(params), rtol=0, atol=1e-9)
    secrets = [["-0+".index(sign) - 1 for sign in each] for each in noted["secrets"]]
    assert [each.tolist() for each in witness.secrets_of((folder / SECRET).read_bytes())] == secrets
    assert len(secrets) == number


@every_pair
def test_a_sealed_pair_of_each_number_opens_at_the_least_cost(tmp_path: Path, number: int) -> None:
    folder, params = copied("pair", number, tmp_path / "pair", "sealed"), PAIR_PARAMS[number]
    content = (folder / SECRET).read_bytes()
    assert tuple(np.frombuffer(content[72:84], "<u4")) == COST
    assert KeyPair.load(folder, params, passphrase=PASSPHRASE, threads=1).tag == expected("pair", number)["tag"]
    with pytest.raises(KeyPairRefused, match=r"secret\.pskey: it is sealed"):
        KeyPair.load(folder, params, threads=1)
    damaged = copied("pair", number, tmp_path / "damaged", "damaged-sealed")
    with pytest.raises(KeyPairRefused, match=r"secret\.pskey: .*passphrase is wrong, or the file was changed"):
        KeyPair.load(damaged, params, passphrase=PASSPHRASE, threads=1)


@every_pair
@pytest.mark.parametrize(
    ("twin", "rule"),
    [
        ("damaged-secret", rf"{SECRET}: .*differs from its checksum"),
        ("damaged-public", rf"{PUBLIC}: .*differs from its checksum"),
        ("cut-secret", rf"{SECRET}: .*too short"),
        ("cut-public", rf"{PUBLIC}: .*differs from its checksum"),
    ],
)
def test_a_damaged_pair_is_refused(tmp_path: Path, number: int, twin: str, rule: str) -> None:
    with pytest.raises(KeyPairDamaged, match=rule):
        KeyPair.load(copied("pair", number, tmp_path / "pair", twin), PAIR_PARAMS[number], threads=1)


# Ciphertexts and seeds.


def test_a_seeded_ciphertext_has_its_words_and_its_values(tmp_path: Path) -> None:
    content, noted = bytes_of("seeded-ciphertext", 1, "input.ct"), expected("seeded-ciphertext", 1)
    pair = pair_of(1, tmp_path / "pair")
    found = make_context(pair.params).import_ciphertext(content)
    assert (found.polynomials, found.limbs, found.slots, found.scale) == (2, 1, 32, 2.0**50)
    assert [digest_of(found.words(k)) for k in (0, 1)] == [noted["c0"], noted["c1"]]
    assert _engine.ckks_ciphertext_tag(content) == noted["tag"] == pair.tag
    assert np.allclose(pair.decrypt(content, result_for="owner"), values_of(pair.params), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("twin", "rule"),
    [
        ("damaged", "its content differs from its checksum"),
        ("cut", "600 bytes, where its header says 1224"),
        ("later", "version 2, where this program reads 1: take a newer penstock"),
    ],
)
def test_a_damaged_seeded_ciphertext_is_refused(tmp_path: Path, twin: str, rule: str) -> None:
    content, pair = bytes_of("seeded-ciphertext", 1, "input.ct", twin), pair_of(1, tmp_path / "pair")
    with pytest.raises(EvaluationRefused, match=f"{rule}.* seeded ciphertext"):
        make_context(pair.params).import_ciphertext(content)
    with pytest.raises(PenstockError, match=rule):
        pair.decrypt(content, result_for="owner")


def test_a_seed_expands_to_its_old_words_in_the_client_and_in_the_evaluator() -> None:
    noted = json.loads(bytes_of("seeds", 1, "seeds.json"))
    seed, rows = bytes.fromhex(noted["seed"]), noted["rows"]
    for row in rows:
        words = np.empty(row["count"], dtype=np.uint64)
        penstock_client.expand(seed, row["digit"], row["limb"], row["modulus"], words)
        assert (words[:2].tolist(), digest_of(words)) == (row["first"], row["sha256"])
    # The evaluator takes seeds as parts of ciphertexts alone.
    params = PAIR_PARAMS[1]
    words = np.zeros(params.ring_dim, dtype=np.uint64)
    found = _engine.ckks_seeded_polynomial(make_context(params), words, seed, scale=1.0, slots=params.slots)
    assert digest_of(found.words(1)) == rows[0]["sha256"]


def test_a_changed_seed_or_another_expansion_is_refused(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "store")
    (tmp_path / "changed.pkey").write_bytes(resealed(flipped(208)(bytes_of("key", 2, "key.pkey"))))
    with pytest.raises(KeyDamaged, match=r"changed\.pkey: .*expanded from the seed"):
        store.import_segment(tmp_path / "changed.pkey", tenant=TENANT)
    with pytest.raises(KeyDamaged, match=r"key\.pkey: the version of its seed's expansion is 2.* reads up to 1"):
        store.import_segment(folder_of("seeds", 1) / "later" / "key.pkey", tenant=TENANT)
    assert store.list_keys() == []


# Evaluation keys and their index.


@every_key
def test_a_key_of_each_number_has_its_rows(tmp_path: Path, number: int) -> None:
    noted, store = expected("key", number), KeyStore(tmp_path / "store")
    made = store.import_segment(folder_of("key", number) / WHOLE / "key.pkey", tenant=TENANT)
    (listed,) = store.list_keys()
    assert listed.name == made.name == (TENANT, noted["digest"], KEYS[number], 1)
    assert (listed.form, listed.secret_tag) == (noted["form"], noted["tag"])
    assert noted["tag"] == expected("pair", 1 if number < 3 else 2)["tag"]
    assert store.verify(made.name).fault is None
    session = KeyCache(store, budget_bytes=1 << 20).session(TENANT, noted["digest"])
    with session.get(KEYS[number], 1) as rows:
        for place, wanted in noted["rows"].items():
            part, limb = map(int, place.split())
            assert digest_of(rows.row(part, 0, limb)) == wanted, place


@every_key
def test_a_damaged_key_is_refused(tmp_path: Path, number: int) -> None:
    store, whole = KeyStore(tmp_path / "store"), bytes_of("key", number, "key.pkey")
    path = tmp_path / "key.pkey"
    cases = [
        (flipped(40)(whole), "its header is damaged: it differs from its checksum"),
        (flipped(4096 + 9)(whole), "row [01] .*differs from its checksum"),
        (whole[:-1], "its header says"),
        (bytes_of("key", number, "key.pkey", "cut"), "less than"),
        (whole[:8] + bytes([5]) + whole[9:], "its version is 5, this program reads up to 4"),
    ]
    for content, rule in cases:
        path.write_bytes(content)
        with pytest.raises(KeyDamaged, match=rf"key\.pkey: .*({rule})"):
            store.import_segment(path, tenant=TENANT)
    assert store.list_keys() == []


def store_with(index: bytes, folder: Path) -> Path:
    """A store of the key of number 1, with this index."""
    made = folder / TENANT / expected("key", 1)["digest"]
    made.mkdir(parents=True)
    (made / "relin.pkey").write_bytes(bytes_of("key", 1, "key.pkey"))
    (folder / "lock").touch()
    (folder / "index.sqlite").write_bytes(index)
    return folder


@pytest.mark.parametrize("number", [1, 2])
def test_an_index_of_each_number_lists_its_key(tmp_path: Path, number: int) -> None:
    store = KeyStore(store_with(bytes_of("key-index", number, "index.sqlite"), tmp_path / "store"))
    assert (store.opening.notes(), store.opening.adopted) == ([], ())
    (listed,) = store.list_keys()
    noted = expected("key", 1)
    assert (listed.name, listed.form, listed.secret_tag) == (
        (TENANT, noted["digest"], "relin", 1),
        "full",
        noted["tag"],
    )
    assert store.verify(listed.name).fault is None


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("twin", ["damaged", "cut", "later"])
def test_a_damaged_index_is_built_again_from_the_keys(tmp_path: Path, number: int, twin: str) -> None:
    if twin == "later":
        index = flipped(63, 4)(bytes_of("key-index", number, "index.sqlite"))
    else:
        index = bytes_of("key-index", number, "index.sqlite", twin)
    store = KeyStore(store_with(index, tmp_path / "store"))
    assert store.opening.index_rebuilt
    assert "the index was damaged and was built again; the old one is index.sqlite.damaged" in store.opening.notes()
    assert (tmp_path / "store" / "index.sqlite.damaged").read_bytes() == index
    assert [key.name.key for key in store.list_keys()] == ["relin"]


# Databases.

DATABASES = {
    "database-records": (make_secret.records_description(), 2),
    "database-ciphertexts": (make_secret.vectors_description(), 4),
}


def entries(database: Database) -> list[bytes]:
    return list(EntryStream(database, lambda number, content: content, prefetch=0))


def opened(name: str, to: Path, *overlays: str) -> Database:
    found = Database.open(copied(name, 1, to, *overlays))
    found.require_complete()
    found.check_keys()
    return found


def records(of: Description, width: int) -> Any:
    return Generated(of.kind, of.records, width, 3).rows(0, of.records)


def test_a_database_of_records_has_its_records(tmp_path: Path) -> None:
    description, width = DATABASES["database-records"]
    database = opened("database-records", tmp_path / "db")
    assert database.description == description
    content = b"".join(entries(database))
    assert content[: description.records * width] == records(description, width).tobytes()
    assert not content[description.records * width :].strip(b"\0")


def test_a_database_of_ciphertexts_decrypts_with_its_keys(tmp_path: Path) -> None:
    description, width = DATABASES["database-ciphertexts"]
    database = opened("database-ciphertexts", tmp_path / "db")
    assert database.description == description
    pair = KeyPair.load(database.keys_path, description.params, threads=1)
    (entry,) = entries(database)
    plan = description.plan()
    assert isinstance(plan, SscPlan)
    wanted = plan.packed(records(description, width), 0)
    assert np.allclose(pair.decrypt(entry, result_for="owner"), wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", DATABASES)
def test_a_damaged_database_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DatabaseError, match=r"database\.json: the header is damaged"):
        opened(name, tmp_path / "header", "damaged-header")
    with pytest.raises(DatabaseError, match=r"000000\.seg: 500 bytes, and the segment has \d+: it is truncated"):
        verify_segment(opened(name, tmp_path / "cut", "cut"), 0)
    database = opened(name, tmp_path / "entry")
    path = database.segment_path(0)
    path.write_bytes(flipped(4096 + 9)(path.read_bytes()))
    with pytest.raises(DatabaseError, match=r"000000\.seg: entry 0 is damaged \(its checksum differs\)"):
        entries(database)


def owner_of(tmp_path: Path) -> Owner:
    folder = copied("similarity", 1, tmp_path / "owner", "owner")
    return Owner.load(folder, make_secret.similarity_params(), small_dim=make_secret.SMALL_DIM, threads=1)


def block_of(folder: Path) -> np.ndarray:
    """The words of the one block of records, (coordinates, n), as they are checked."""
    found = read_description(folder)
    words = checked(np.fromfile(folder / "records.bin", np.uint64), found.blocks[0], 0, folder)
    return words.reshape(found.layout.dim, -1).astype(object)


def test_a_similarity_database_decrypts_to_its_records_and_payloads(tmp_path: Path) -> None:
    folder, owner = copied("similarity", 1, tmp_path / "database"), owner_of(tmp_path)
    wanted, payloads = make_secret.similarity_data()
    described = read_description(folder)
    layout, q, seed = described.layout, described.modulus, described.blocks[0].seed
    assert (layout.records, layout.dim, layout.small_dim) == (5, 2, make_secret.SMALL_DIM)
    # Records, coordinate by coordinate, by the witness: each is a polynomial of the small ring.
    (secret,) = witness.secrets_of((tmp_path / "owner" / "small.key").read_bytes())
    coordinates = []
    for k, row in enumerate(block_of(folder)):
        uniform = np.array(witness.expanded(seed, k, 0, q, layout.small_dim), dtype=object)
        coordinates.append(witness.phase([(q, row), (q, uniform)], secret)[: layout.records] / 2.0**RECORD_BITS)
    found = np.stack(coordinates, axis=1).astype(float)
    # The owner puts them in random places.
    cells = [int(np.argmin(np.abs(wanted - row).sum(axis=1))) for row in found]
    assert sorted(cells) == list(range(layout.records))
    assert np.allclose(found, wanted[cells], rtol=0, atol=1e-3)
    # Their payloads lie in the slots of their cells, behind a ciphertext of zeros.
    content, size, at = (folder / "payloads.bin").read_bytes(), described.payload_bytes, described.template_bytes
    assert np.allclose(owner.pair.decrypt(read_template(folder, described), result_for="owner"), 0, atol=1e-6)
    columns = [
        owner.pair.decrypt_complex(content[place : place + size], result_for="owner")
        for place in range(at, len(content), size)
    ]
    slots = layout.places[1][: layout.records]
    for values, column in zip(columns, encoded_payloads(payloads[cells]), strict=True):
        assert np.allclose(values[slots], column, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("twin", "rule"),
    [
        ("damaged", r"database\.json: .*'dim'"),
        ("later", r"database\.json: the database is of version 2, and this program reads 1"),
        ("cut", r"payloads\.bin has 500 bytes, and database\.json says \d+"),
    ],
)
def test_a_damaged_similarity_database_is_refused(tmp_path: Path, twin: str, rule: str) -> None:
    with pytest.raises(DatabaseDamaged, match=rule):
        read_description(copied("similarity", 1, tmp_path / "database", twin))


def test_changed_records_of_a_similarity_database_are_found_when_they_are_read(tmp_path: Path) -> None:
    folder = copied("similarity", 1, tmp_path / "database", "damaged-records")
    with pytest.raises(DatabaseDamaged, match=r"records\.bin: block 0 differs from its checksum in database\.json"):
        block_of(folder)
