"""Pricing a trace: each operation by its shape, and which bytes it needs that are not resident."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import TraceError, UnknownName
from penstock.lab.simulation.play import simulate
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.machines import load_machine, load_tier
from penstock.scheme.machines.parallel import ThreadModel
from penstock.scheme.machines.power import PowerModel
from penstock.scheme.operations import OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import Scaling
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.play.caches import Belady, Lru
from penstock.scheme.play.price import ACCESS_CLASSES, price_trace
from penstock.scheme.play.rows import ROW_NAMES
from penstock.scheme.traces.builder import TraceBuilder
from penstock.scheme.traces.schema import OPERATIONS_SCHEMA, ORIGIN_COMPOSITE, Trace, TraceMeta
from penstock.scheme.work.kernels import kernel_work
from support.toy import toy, toy_bootstrap

PARAMS = toy(ring_dim=4096, slots=2048)
SHARP = load_machine("sharp")


def meta(params=PARAMS) -> TraceMeta:
    return TraceMeta(workload="test", params=params.to_dict(), reading="trace")


@pytest.fixture
def trace() -> Trace:
    """encrypt a, encrypt b, mult, rescale, mult_plain, rotate by 1, rotate by 1, decrypt."""
    ev = SymbolicEvaluator(PARAMS)
    a, b = ev.encrypt(np.zeros(4)), ev.encrypt(np.zeros(4))
    c = ev.rescale(ev.mult(a, b))
    c = ev.mult(c, ev.encode(np.zeros(4)))
    ev.decrypt(ev.rotate(ev.rotate(c, 1), 1))
    return ev.builder.finish(meta())


def test_of_a_plaintext_what_is_loaded_counts(trace):
    """All its limbs, or the one from which a machine makes the others."""
    loads_all = replace(SHARP, plaintext_transforms=None)
    for machine, limbs in ((SHARP, 1), (loads_all, 9)):
        priced = price_trace(trace, machine, classes=("plaintext",))
        assert priced.access_bytes.tolist() == [PARAMS.plaintext_bytes(limbs)]
        assert priced.bytes_by_class["plaintext"] == PARAMS.plaintext_bytes(limbs)
        assert machine.extends_plaintexts == (limbs == 1)


def test_each_operation_costs_what_its_kernel_work_costs(trace):
    priced = price_trace(trace, SHARP)
    works = [
        kernel_work(OpKind.MULT, PARAMS, 10), kernel_work(OpKind.RESCALE, PARAMS, 10),
        kernel_work(OpKind.MULT_PLAIN, PARAMS, 9), kernel_work(OpKind.ROTATE, PARAMS, 9),
        kernel_work(OpKind.ROTATE, PARAMS, 9),
    ]  # fmt: skip
    assert priced.op_ids.tolist() == [2, 3, 4, 5, 6]  # encrypt and decrypt are the client's
    assert priced.compute_s.tolist() == [SHARP.price(work).seconds for work in works]
    assert [priced.units[i] for i in priced.bound_by] == [SHARP.price(work).bound_by for work in works]
    assert priced.joules.tolist() == [SHARP.price(work).joules for work in works]
    assert priced.bytes_by_class == {
        "key": sum(w.key_bytes for w in works),
        "plaintext": PARAMS.plaintext_bytes(1),  # SHARP makes the other limbs on chip
        "ciphertext": sum(w.ciphertext_read_bytes + w.ciphertext_write_bytes for w in works),
    }


def test_accesses_are_the_keys_cut_to_the_limbs_in_use(trace):
    priced = price_trace(trace, SHARP)
    assert priced.access_start.tolist() == [0, 1, 1, 1, 2, 3]
    names = trace.objects["name"].to_pylist()
    assert [names[i] for i in priced.access_object] == ["relin", "rot:5", "rot:5"]
    assert priced.access_bytes.tolist() == [PARAMS.key_bytes(10), PARAMS.key_bytes(9), PARAMS.key_bytes(9)]
    assert priced.accessed_bytes == priced.bytes_by_class["key"]
    assert priced.demand_bytes_per_s == pytest.approx(priced.accessed_bytes / priced.ideal_s)


def test_seeded_keys_halve_the_bytes_and_not_the_time(trace):
    full, seeded = price_trace(trace, SHARP), price_trace(trace, SHARP, key_form=KeyForm.SEEDED)
    assert (2 * seeded.access_bytes).tolist() == full.access_bytes.tolist()
    assert seeded.compute_s.tolist() == full.compute_s.tolist()


def test_other_classes_are_accessed_in_the_order_of_the_operation(trace):
    priced = price_trace(trace, SHARP, classes=ACCESS_CLASSES)
    classes = trace.objects["class"].to_pylist()
    rows = [
        [
            (classes[o], b)
            for o, b in zip(priced.access_object[s:e].tolist(), priced.access_bytes[s:e].tolist(), strict=True)
        ]
        for s, e in zip(priced.access_start[:-1], priced.access_start[1:], strict=True)
    ]
    ct = PARAMS.ciphertext_bytes
    assert rows[0] == [
        ("ciphertext", ct(10)),
        ("ciphertext", ct(10)),
        ("key", PARAMS.key_bytes(10)),
        ("ciphertext", ct(10)),
    ]
    assert rows[1] == [("ciphertext", ct(10)), ("ciphertext", ct(9))]
    assert rows[2] == [("ciphertext", ct(9)), ("plaintext", PARAMS.plaintext_bytes(1)), ("ciphertext", ct(9))]
    assert price_trace(trace, SHARP, classes=()).access_bytes.tolist() == []


def test_an_operand_is_read_at_the_limbs_that_the_operation_uses_and_once_where_it_is_named_twice():
    ev = SymbolicEvaluator(PARAMS)
    a, b = ev.encrypt(np.zeros(4)), ev.mod_drop(ev.encrypt(np.zeros(4)), 4)
    ev.add(a, b)
    ev.add(a, a)
    priced = price_trace(ev.builder.finish(meta()), SHARP, classes=("ciphertext",))
    ct = PARAMS.ciphertext_bytes
    start = priced.access_start.tolist()
    assert priced.access_bytes[start[1] : start[2]].tolist() == [ct(4), ct(4), ct(4)]
    assert priced.access_bytes[start[2] : start[3]].tolist() == [ct(10), ct(10)]


def test_hoisted_rotations_read_the_digits_whole():
    ev = SymbolicEvaluator(PARAMS)
    ev.rotate_many(ev.encrypt(np.zeros(4)), [1, 2])
    priced = price_trace(ev.builder.finish(meta()), SHARP, classes=("ciphertext",))
    digits = 3 * PARAMS.polynomial_bytes(14)
    start = priced.access_start.tolist()
    assert priced.access_bytes[start[0] : start[1]].tolist() == [PARAMS.ciphertext_bytes(10), digits]
    assert digits in priced.access_bytes[start[1] : start[2]].tolist()


def test_three_polynomials_cost_half_as_much_again():
    ev = SymbolicEvaluator(PARAMS)
    a = ev.encrypt(np.zeros(4))
    triple = ev.mult_no_relin(a, a)
    ev.add(triple, triple)
    ev.add(a, a)
    priced = price_trace(ev.builder.finish(meta()), SHARP)
    assert priced.compute_s[1] == pytest.approx(1.5 * priced.compute_s[2])


def test_composites_are_priced_expanded():
    params = toy_bootstrap(Scaling.FIXED_MANUAL)
    ev = SymbolicEvaluator(params)
    ev.bootstrap(ev.fresh(2))
    trace = ev.builder.finish(meta(params))
    priced = price_trace(trace, SHARP)
    assert len(priced) == len(trace) - 1
    assert [text for text in priced.warnings if "does not fit machine 'sharp'" not in text] == []
    assert (priced.compute_s > 0).sum() == len(priced) - trace.count_by_kind()["mod_drop"]


def test_a_composite_without_an_expansion_is_unpriced_and_warned_of():
    builder = TraceBuilder(PARAMS)
    a = builder.ciphertext(10)
    builder.add(
        OpKind.COMPOSITE,
        limbs_in=10,
        limbs_out=10,
        operands=[a],
        output=builder.ciphertext(10),
        origin=ORIGIN_COMPOSITE,
    )
    builder.add(OpKind.ADD, limbs_in=10, limbs_out=10, operands=[a, a], output=builder.ciphertext(10))
    priced = price_trace(builder.finish(meta()), SHARP)
    assert priced.compute_s[0] == 0 < priced.compute_s[1]
    assert priced.units[priced.bound_by[0]] == "unpriced"
    assert priced.unpriced == {"composite": 1}
    assert "1 operation 'composite' has no price" in priced.warnings[-1]


def test_a_set_with_wider_primes_or_a_larger_ring_than_the_machine_takes_is_warned_of():
    trace = TraceBuilder(PARAMS).finish(meta())
    (wide,) = price_trace(trace, SHARP).warnings
    assert "primes of up to 60 bits, and its units take 36" in wide
    assert price_trace(trace, load_machine("bts")).warnings[1:] == ()  # the first: it is calibrated to nothing
    large = toy(ring_dim=2**17, slots=2**16, q_bits=(36,) * 3, p_bits=(36,), dnum=3, word_bits=36)
    assert "N = 131072, and its transform units take 65536" in SHARP.warnings(large)[0]


def test_a_machine_that_is_calibrated_to_nothing_says_what_its_units_peak_would_give():
    (text,) = load_machine("ark").warnings(catalogue.get("ark"))
    assert "its utilisation of 62.68 % is assumed" in text
    assert "0.627 of these" in text
    assert SHARP.warnings(catalogue.get("sharp")) == ()


def test_an_empty_trace_costs_nothing():
    priced = price_trace(TraceBuilder(PARAMS).finish(meta()), SHARP, classes=ACCESS_CLASSES)
    assert (len(priced), priced.ideal_s, priced.demand_bytes_per_s) == (0, 0.0, 0.0)
    (row,) = simulate(price_trace(TraceBuilder(PARAMS).finish(meta()), SHARP), [load_tier("hbm")])
    assert (row["total_s"], row["slowdown"], row["hit_ratio"]) == (0.0, None, 0.0)


def test_an_unknown_class_suggests_the_nearest(trace):
    with pytest.raises(UnknownName, match="did you mean 'key'"):
        price_trace(trace, SHARP, classes=("keys",))


def with_column(trace: Trace, name: str, values: list) -> Trace:
    at = trace.operations.schema.get_field_index(name)
    array = pa.array(values, OPERATIONS_SCHEMA.field(name).type)
    return Trace(trace.meta, trace.operations.set_column(at, OPERATIONS_SCHEMA.field(name), array), trace.objects)


def test_a_trace_that_names_what_it_lacks_is_refused(trace):
    plaintexts = trace.operations["plaintext"].to_pylist()
    broken = with_column(trace, "plaintext", [p if p is None else 999 for p in plaintexts])
    with pytest.raises(TraceError, match="names plaintext 999"):
        price_trace(broken, SHARP, classes=("plaintext",))
    keyless = Trace(
        trace.meta, trace.operations, trace.objects.filter(pa.compute.not_equal(trace.objects["class"], "key"))
    )
    with pytest.raises(TraceError, match="uses key 'relin'"):
        price_trace(keyless, SHARP)


def test_limbs_that_no_operation_can_have_are_refused(trace):
    broken = with_column(trace, "limbs_in", [-1] * len(trace))
    with pytest.raises(TraceError, match="limbs_in -1"):
        price_trace(broken, SHARP)


def test_a_hundred_thousand_operations_are_priced_in_a_moment():
    ev = SymbolicEvaluator(PARAMS)
    a = ev.encrypt(np.zeros(4))
    for _ in range(50_000):
        ev.rotate(a, 1)
        ev.add(a, a)
    trace = ev.builder.finish(meta())
    price_trace(trace, SHARP)
    started = time.process_time()
    priced = price_trace(trace, SHARP)
    assert len(priced) == 100_000
    # About 0.3 s of one core, most of it Trace.view(); the bound leaves room for a slow machine.
    assert time.process_time() - started < 2.0


def test_rows_have_the_documented_names_and_say_that_they_are_simulated(trace):
    tier = load_tier("pcie5")
    rows = simulate(price_trace(trace, SHARP), [tier], caches=[Lru(10**9), Belady(10**9)], modes=("serial", "overlap"))
    assert [tuple(row) for row in rows] == [ROW_NAMES] * 4
    assert [(r["policy"], r["mode"]) for r in rows] == [
        ("lru", "serial"),
        ("lru", "overlap"),
        ("belady", "serial"),
        ("belady", "overlap"),
    ]
    first = rows[0]
    assert (first["workload"], first["params"], first["machine"]) == ("test", "insecure-test", "sharp")
    assert (first["hosts"], first["network"], first["communication_s"], first["provenance"]) == (
        1,
        None,
        0.0,
        "simulated",
    )
    assert first["cache_bytes"] == 10**9
    # The second rotation finds its key: 1 of 3 accesses, at 9 of 10 limbs.
    assert first["hit_ratio"] == pytest.approx(PARAMS.key_bytes(9) / first["key_bytes"])
    assert first["io_bytes"] == PARAMS.key_bytes(10) + PARAMS.key_bytes(9)


def test_energy_comes_from_power_by_threads_as_well(trace):
    power = PowerModel(watts={1: replace(SHARP.power, value=60.0), 4: replace(SHARP.power, value=80.0)})
    machine = replace(SHARP, power=None, thread_power=power, threads=ThreadModel(count=2))
    assert machine.watts == 70.0
    assert machine.stated_power == power.watts[1]
    priced = price_trace(trace, machine)
    assert priced.joules is not None
    assert priced.joules == pytest.approx(70.0 * priced.compute_s)
    assert price_trace(trace, replace(machine, thread_power=None)).joules is None


def test_energy_is_known_only_where_machine_and_tier_state_theirs(trace, tmp_path):
    from penstock.scheme.play.caches import ForcedHitRatio

    tier = load_tier("64 GB/s")  # a bandwidth alone states none
    streamed, resident = simulate(price_trace(trace, SHARP), [tier], caches=[ForcedHitRatio(0.0), ForcedHitRatio(1.0)])
    assert streamed["energy_j"] is None
    assert resident["energy_j"] == pytest.approx(94.7 * resident["compute_s"])
    path = tmp_path / "frugal.toml"
    path.write_text(
        'name = "frugal"\ntitle = "t"\n[bandwidth]\nvalue = "64 GB/s"\nsource = "a test"\nkind = "assumed"\n'
        '[energy]\nvalue = "1 nJ/B"\nsource = "a test"\nkind = "assumed"\n'
    )
    (row,) = simulate(price_trace(trace, SHARP), [load_tier(path)])
    assert row["energy_j"] == pytest.approx(94.7 * row["compute_s"] + 1e-9 * row["io_bytes"])
