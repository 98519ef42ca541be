"""Ciphertexts of a smaller ring in programs: rows, rules, kernel work, readings, noise against real ciphertexts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from penstock.errors import ParamsError, PenstockError, UnknownName, UsageError
from penstock.front.cli.verbs.ssd.queries import similarity
from penstock.lab.instorage.query import similarity_query
from penstock.lab.simulation.cluster.program import prepare
from penstock.program.database.similarity.scheme import SmallRing, large_parameters
from penstock.program.database.similarity.search import search_trace
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.noisy import NoisyEvaluator
from penstock.program.evaluator.noisy_small import NoisySmallRing
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.evaluator.tally import tally_of
from penstock.program.running.counting import count_workload
from penstock.program.running.noisy import run_noisy
from penstock.program.running.trace import trace_workload
from penstock.program.workloads import fetch_by_similarity as workload
from penstock.runtime.client.described import security_bits
from penstock.runtime.keystore import KeyStore
from penstock.runtime.similarity.owner import Owner, query_factor
from penstock.runtime.similarity.server import TENANT, Server, keys_needed
from penstock.scheme.machines import load_machine
from penstock.scheme.operations import SMALL_KINDS, OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.params.small_security import with_small_ring
from penstock.scheme.play.price import price_trace
from penstock.scheme.traces.rules import object_problems, operation_problems
from penstock.scheme.traces.schema import Trace, TraceMeta
from penstock.scheme.work.kernels import kernel_work
from support.native_runs import record_native

N, SMALL = 2**16, 2**12
PARAMS = large_parameters()
TINY = workload.SIZES["ci"]
"""Three blocks at `tiny_params`: two score ciphertexts."""


def tiny_params() -> CkksParameters:
    return catalogue.get("insecure-similarity")


def traced(params: CkksParameters, size: workload.Size) -> Trace:
    ev = SymbolicEvaluator(params)
    workload.program(ev, workload.blank(size, params.slots), size)
    return ev.builder.finish(TraceMeta(workload="fetch-by-similarity", params=params.to_dict(), reading="trace"))


@pytest.fixture(scope="module")
def trace() -> Trace:
    return traced(tiny_params(), TINY)


def test_a_search_is_a_trace_that_keeps_the_rules(trace):
    assert [*object_problems(trace, tiny_params()), *operation_problems(trace, tiny_params())] == []
    counts = trace.count_by_kind()
    assert {kind: counts[kind] for kind in sorted(SMALL_KINDS)} == {
        "expand_small": 4,  # log2 of the coordinates
        "inner_products": 3,
        "pack_small": 1,
        "switch_small": 1,
        "switch_small_squared": 1,
    }
    small = [key for key in trace.key_ids() if key.startswith("rot-small:")]
    assert small == [f"rot-small:{2**8 // 2**step + 1}" for step in range(4)]


@pytest.mark.parametrize("name", ["toy", "small", "medium", "toy-count"])
def test_the_trace_of_a_size_is_that_of_the_server_with_the_small_ring(name):
    size = workload.SIZES[name]
    whole = traced(PARAMS, size).count_by_kind()
    large = search_trace(PARAMS, size.layout(PARAMS), count_only=size.count_only).count_by_kind()
    for kind in SMALL_KINDS:
        whole.pop(kind.value)
    whole.pop("decrypt")
    assert whole == large


def broken(trace: Trace, params: CkksParameters) -> str:
    return "\n".join([*object_problems(trace, params), *operation_problems(trace, params)])


def test_rows_that_break_a_rule_are_named(trace):
    params = tiny_params()
    assert "has no small ring" in broken(trace, replace(params, small_ring_dim=0))
    rows = trace.operations.to_pylist()
    objects = trace.objects.to_pylist()
    first = next(row for row in rows if row["kind"] == "expand_small")

    def changed(row: dict[str, Any], **values: Any) -> str:
        import pyarrow as pa

        others = [{**each, **values} if each is row else each for each in rows]
        return broken(replace(trace, operations=pa.Table.from_pylist(others, trace.operations.schema)), params)

    assert "this kind reads 'rot-small'" in changed(first, key="relin")
    assert "the small ring has the first limb only" in changed(first, limbs_in=2, limbs_out=2)
    pack = next(row for row in rows if row["kind"] == "pack_small")
    large = next(each["id"] for each in objects if each["class"] == "ciphertext")
    assert "this kind takes small" in changed(pack, operands=[large])
    assert "0 operands" in changed(pack, operands=[])
    product = next(row for row in rows if row["kind"] == "inner_products")
    assert "this kind takes 2 (small, stored)" in changed(product, operands=product["operands"][:1])


def test_kernel_work_by_hand():
    expand = kernel_work(OpKind.EXPAND_SMALL, PARAMS, 1, polynomials=8)
    # Four ciphertexts: INTT 1, NTT 1, ModDown of two polynomials with a transform over each prime.
    assert (expand.ring_dim, expand.limb_transforms) == (SMALL, 4 * 6)
    assert expand.key_bytes == 2 * 2 * SMALL * 8
    assert (expand.ciphertext_read_bytes, expand.ciphertext_write_bytes) == (8 * SMALL * 8, 16 * SMALL * 8)
    products = kernel_work(OpKind.INNER_PRODUCTS, PARAMS, 1, polynomials=512)
    assert (products.elementwise_mults, products.limb_transforms) == (4 * 256 * SMALL, 3)
    pack = kernel_work(OpKind.PACK_SMALL, PARAMS, 1, polynomials=48)
    assert (pack.ring_dim, pack.limb_transforms, pack.ciphertext_write_bytes) == (N, 3, 3 * N * 8)
    assert pack.ciphertext_read_bytes == pack.ciphertext_write_bytes
    sparse = kernel_work(OpKind.TO_SPARSE, PARAMS, 1)
    squared = kernel_work(OpKind.SWITCH_SMALL_SQUARED, PARAMS, 1, polynomials=3)
    last = kernel_work(OpKind.SWITCH_SMALL, PARAMS, 1)
    assert squared.limb_transforms == last.limb_transforms == sparse.limb_transforms == 9
    assert (squared.elementwise_adds, sparse.elementwise_adds, last.elementwise_adds) == (2 * N, 3 * N, 5 * N)
    assert last.key_bytes == PARAMS.key_bytes(key="from-small") == 2 * 3 * N * 8
    assert kernel_work(OpKind.SWITCH_SMALL, PARAMS, 1, key_form=KeyForm.SEEDED).key_bytes == 3 * N * 8
    with pytest.raises(UsageError, match=r"has no small ring: state small_ring_dim"):
        kernel_work(OpKind.PACK_SMALL, catalogue.get("openfhe-bootstrap"), 1)


def test_element_loops_are_the_element_wise_work():
    for kind, polynomials in (
        (OpKind.EXPAND_SMALL, 8), (OpKind.INNER_PRODUCTS, 32), (OpKind.PACK_SMALL, 48),
        (OpKind.SWITCH_SMALL, 2), (OpKind.SWITCH_SMALL_SQUARED, 3),
    ):  # fmt: skip
        work = kernel_work(kind, PARAMS, 1, polynomials=polynomials)
        assert sum(width * loops for width, loops in work.transform_loops) == work.limb_transforms
        amount = work.elementwise_mults + work.elementwise_adds + work.automorphism_coefficients
        assert sum(width * loops for width, loops in work.element_loops) * work.ring_dim == amount


@pytest.mark.parametrize("size", ["toy", "small"])
def test_counting_counts_what_the_trace_has(size):
    counted = count_workload("fetch-by-similarity", size=size)
    recorded = tally_of(trace_workload("fetch-by-similarity", size=size))
    assert counted.counts == recorded.counts
    assert counted.keys == recorded.keys
    assert counted.live_bytes == recorded.live_bytes


def test_every_operation_has_a_price(trace):
    machine = load_machine("sharp")
    priced = price_trace(trace, machine, classes=("key", "database"))
    assert priced.bytes_by_class["database"] == 3 * 16 * 2**8 * 8
    assert priced.ideal_s > 0
    assert not any("no expansion" in warning for warning in priced.warnings)


def test_a_database_is_read_once_and_only_where_it_is_asked_for(trace):
    machine = load_machine("sharp")
    alone = price_trace(trace, machine, classes=("database",))
    assert alone.accessed_bytes == 3 * 16 * 2**8 * 8
    without = price_trace(trace, machine, classes=("key", "ciphertext"))
    whole = price_trace(trace, machine, classes=("key", "ciphertext", "database"))
    assert whole.accessed_bytes - without.accessed_bytes == alone.accessed_bytes


def test_several_hosts_are_refused(trace):
    with pytest.raises(UsageError, match=r"operations of a small ring.*simulate it on one host"):
        prepare(trace, load_machine("sharp"), price_trace(trace, load_machine("sharp")))


@pytest.mark.parametrize("count_only", [False, True])
@pytest.mark.parametrize("records", [200, 600])
def test_the_clear_reading_finds_what_a_search_in_the_clear_finds(records, count_only):
    params, size = tiny_params(), workload.Size(records=records, dim=16, count_only=count_only)
    data = workload.data(size, params.slots, 3)
    clear = workload.program(ClearEvaluator(params), data, size)
    found = workload.check(clear, clear, data, size)
    assert found.passed, found.rules
    assert found.numbers["matches"] >= 8


def test_noise_leaves_the_matches_and_another_result_fails_the_check():
    params = tiny_params()
    data = workload.data(TINY, params.slots, 4)
    clear = workload.program(ClearEvaluator(params), data, TINY)
    got = workload.program(NoisyEvaluator(params, 1, exact_ratio=True, own_client=True), data, TINY)
    assert workload.check(clear, got, data, TINY).passed
    error = np.abs(got - clear)
    assert 0 < error[..., -1].max() < 2.0**-12
    assert not workload.check(clear, np.roll(got, 1, axis=-1), data, TINY).passed


def test_the_noise_of_an_expansion_is_that_of_real_ciphertexts(tmp_path):
    """The constant of each ciphertext, less the coordinate: its size for several owners, and the model's.

    Key switches leave a part that depends on the secret, the same in all.
    """
    dim, n = 32, 128
    rng = np.random.default_rng(0)
    params = large_parameters(2**11, security=0)
    real = [errors_of_an_owner(tmp_path / str(number), params, n, dim, rng) for number in range(12)]
    modelled = []
    for _ in range(200):
        small = NoisySmallRing(NoisyEvaluator(replace(params, small_ring_dim=n)).model, rng)
        made = small.encrypted(np.zeros(dim))
        while len(made) < dim:
            made = small.expanded(made)
        modelled.append(made[:, 0])
    assert np.sqrt(np.mean(np.square(real))) == pytest.approx(np.sqrt(np.mean(np.square(modelled))), rel=0.4)


def errors_of_an_owner(folder: Path, params: CkksParameters, n: int, dim: int, rng: Any) -> list[float]:
    """Of the constants of one expanded query, under new keys."""
    owner, store = Owner.generate(params, small_dim=n), KeyStore(folder / "keys")
    layout = owner.layout(1, dim)
    for key in keys_needed(params, layout)[1]:
        owner._small_key(key).write(TENANT, str(folder / "made.pkey"))
        store.import_segment(folder / "made.pkey", tenant=TENANT)
        (folder / "made.pkey").unlink()
    query = rng.standard_normal(dim)
    query /= np.linalg.norm(query)
    owner.encrypt_database(query[None, :], None, folder / "database")
    server = Server(folder / "keys", folder / "database", params=params)
    q, errors = server.small.modulus, []
    wanted = np.rint(query * query_factor(server.small, dim)) * dim
    for each, value in zip(server._expanded(server._query(owner.encrypt_query(query))), wanted, strict=True):
        mean = sum(int(word) for word in phase(owner, each, n, q)) * pow(n, -1, q) % q
        errors.append(float((mean - int(value) + q // 2) % q - q // 2))
    return errors


def phase(owner: Any, ciphertext: Any, n: int, q: int) -> Any:
    from penstock._engine import CkksContext, CkksWriter

    ring, secret = owner._ring, owner._secret
    writer = CkksWriter(ring.encrypt_seeded(secret, np.zeros(n // 2, dtype=np.complex128), 1, 1))
    context = CkksContext(
        ring_dim=n, moduli_q=[q], moduli_p=[SmallRing.under(large_parameters(2**11, security=0), n).special], dnum=1,
        scaling="fixed-manual", scale_bits=18, threads=1, keep_bytes=0,
    )  # fmt: skip
    return ring.phase(secret, context.export_ciphertext(ciphertext, writer))[0]


def test_inner_products_and_packing_are_exact_without_noise():
    params = tiny_params()
    small = NoisySmallRing(NoisyEvaluator(params).model, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    constants = np.zeros((16, 2**8))
    constants[:, 0] = rng.integers(-(2**20), 2**20, 16)
    block = rng.integers(-(2**10), 2**10, (16, 2**8)).astype(float)
    found = small.inner_products(constants, block)
    exact = constants[:, 0] @ block
    # The rows' own noise, times the constants.
    assert np.std(found - exact) == pytest.approx(3.19 * np.linalg.norm(constants[:, 0]), rel=0.2)
    packed = small.packed([exact, 2 * exact])
    np.testing.assert_array_equal(packed[0::8], exact)
    np.testing.assert_array_equal(packed[1::8], 2 * exact)
    assert not packed[2::8].any()


# What is refused.
def test_readings_that_have_no_small_ring_say_what_to_take():
    params = tiny_params()
    data = workload.data(TINY, params.slots, 0)
    with pytest.raises(PenstockError, match="predict precision --reading native"):
        workload.program(NoisyEvaluator(params), data, TINY)
    with pytest.raises(PenstockError, match=r"docs/guides/similarity\.md"):
        run_noisy("fetch-by-similarity", size="toy")
    with pytest.raises(ParamsError, match=r"has no small ring.*openfhe-similarity"):
        trace_workload("fetch-by-similarity", "openfhe-bootstrap", "toy")
    with pytest.raises(UsageError, match="82 GB in the clear"):
        workload.data(workload.SIZES["large"], params.slots, 0)


def test_a_set_with_a_small_ring_is_checked():
    spec = catalogue.spec("openfhe-similarity").model_dump()

    def built(**values: Any) -> CkksParameters:
        return type(catalogue.spec("openfhe-similarity"))(**{**spec, "name": "mine", **values}).build()

    assert built().small_ring_dim == SMALL
    for small in (3000, N):
        with pytest.raises(ParamsError, match="must be a power of two below ring_dim"):
            built(small_ring_dim=small)
    with pytest.raises(ParamsError, match=r"small_ring_dim 4096.*special prime of 54 bits.*or small_ring_dim 8192"):
        built(first_mod_bits=60)
    with pytest.raises(ParamsError, match=r"small_ring_dim 1024.*or small_ring_dim 4096, the least that holds"):
        built(small_ring_dim=1024)
    with pytest.raises(ParamsError, match="take secret 'uniform-encapsulated'"):
        built(secret="uniform-ternary")
    stored = built().to_dict()
    assert CkksParameters.from_dict(stored) == built()


@pytest.mark.parametrize(("first_mod_bits", "small", "level"), [(52, 2**12, 128), (53, 2**12, 0), (50, 2**10, 0)])
def test_the_level_of_a_set_is_at_most_that_of_its_small_ring(first_mod_bits, small, level):
    spec = catalogue.spec("openfhe-similarity").model_dump()
    of = {"name": "mine", "security": "none", "first_mod_bits": first_mod_bits, "small_ring_dim": small}
    params = type(catalogue.spec("openfhe-similarity"))(**{**spec, **of}).build()
    assert params.security_bits == security_bits(params) == level
    assert "small ring" in params.security_note
    assert f"logQP {first_mod_bits + 54} at N={small}" in params.security_note
    assert params.security_note.startswith("insecure") is (not level)


def test_the_note_of_a_set_names_each_of_its_secrets():
    note = catalogue.get("openfhe-similarity").security_note
    for words in ("main secret: logQP 1551", "ephemeral secret of weight 32, log2 of the modulus 116", "small ring",
                  "keys to the large ring are under the ephemeral secret"):  # fmt: skip
        assert words in note


@pytest.mark.parametrize(
    ("level", "small", "expected"),
    [(128, 2**8, 0), (192, 2**13, 192), (256, 2**12, 128), (256, 2**14, 256), (128, 2**14, 128), (0, 2**13, 0)],
)
def test_the_lower_level_of_both_rings_counts(level, small, expected):
    note = f"{level} bit: large" if level else "insecure: large"
    found, said = with_small_ring(level, note, replace(PARAMS, small_ring_dim=small))
    assert found == expected
    assert said.startswith(f"{expected} bit: large" if expected else "insecure")
    assert "large" in said


@pytest.mark.parametrize("size", ["toy", "small"])
def test_a_query_of_a_drive_has_the_operations_of_the_program(size):
    task = workload.SIZES[size]
    query = similarity_query(PARAMS, records=task.records, dim=task.dim)
    counted = count_workload("fetch-by-similarity", size=size)
    wanted = {shape: n for shape, n in counted.counts.items() if shape.kind not in ("encrypt", "decrypt")}
    assert query.work.operations() == wanted
    assert query.database_bytes == task.layout(PARAMS).blocks * task.dim * SMALL * 8
    with pytest.raises(UsageError, match="from 2 to 4096"):
        similarity_query(PARAMS, records=5, dim=100)


def test_operations_of_a_small_ring_have_one_limb():
    with pytest.raises(UsageError, match=r"'pack_small' at 2 limbs.*have the one limb q_0"):
        kernel_work(OpKind.PACK_SMALL, PARAMS, 2)


def test_a_native_run_says_how_to_search_for_real():
    with pytest.raises(UsageError, match=r"begins in a smaller ring.*docs/guides/similarity\.md"):
        record_native("fetch-by-similarity", None, "ci")


def test_a_search_inside_a_drive_and_on_a_host():
    found = CliRunner().invoke(similarity, ["--size", "small", "--drive", "ssd-s", "--format", "json"])
    assert found.exit_code == 0, found.output
    rows = {row["architecture"]: row for row in json.loads(found.stdout)}
    assert list(rows) == ["fheins", "host:sharp"]
    assert {row["database_bytes"] for row in rows.values()} == {13 * 128 * SMALL * 8}
    assert all(row["simulated_s"] > 0 for row in rows.values())
    refused = CliRunner().invoke(similarity, ["--size", "huge"])
    assert isinstance(refused.exception, UnknownName)
