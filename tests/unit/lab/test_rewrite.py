"""Each pass on programs whose outcome is counted by hand; the interpreter finds what a pass must not do."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.errors import TraceError, UnknownName, UsageError
from penstock.front.cli.main import main
from penstock.lab.rewriting import PASSES, RewriteOptions, rewrite
from penstock.lab.rewriting.compare import Version, compare, counted
from penstock.lab.rewriting.interpret import PRIME, differing_results, interpret
from penstock.lab.rewriting.program import Op, Program, Stored
from penstock.lab.rewriting.reorder import loaded_key_bytes, most_alive
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.traces.inspect import problems
from penstock.scheme.traces.io import read_trace, write_trace
from penstock.scheme.traces.schema import ORIGIN_MODELLED, Trace, TraceMeta
from support.toy import toy

Build = Callable[[SymbolicEvaluator, list[Any]], Any]


def traced(build: Build, params: CkksParameters | None = None, inputs: int = 4) -> Trace:
    """The trace of a program of a few ciphertexts; what it returns is decrypted."""
    checked = params or toy()
    ev = SymbolicEvaluator(checked)
    ciphers = [ev.encrypt(np.zeros(4)) for _ in range(inputs)]
    made = build(ev, ciphers)
    for each in made if isinstance(made, list) else [made]:
        ev.decrypt(each)
    return ev.builder.finish(TraceMeta(workload="toy", params=checked.to_dict(), reading="trace"))


def kept(before: Trace, name: str, **options: Any) -> tuple[Trace, dict[str, int]]:
    """The trace after a pass, which is valid and has the same results, and its operations by kind."""
    after = rewrite(before, [name], RewriteOptions(**options))
    assert list(problems(after)) == []
    assert differing_results(before, after) == []
    return after, after.count_by_kind()


# hoist --------------------------------------------------------------------------------------------------------------
def test_three_rotations_of_one_ciphertext_share_one_decomposition() -> None:
    before = traced(lambda ev, c: [ev.rotate(c[0], s) for s in (1, 2, 5)] + [ev.rotate(c[1], 1)])
    after, counts = kept(before, "hoist")
    assert (counts["decompose"], counts["rotate_hoisted"], counts["rotate"]) == (1, 3, 1)
    assert after.key_ids() == before.key_ids()


def test_a_rotation_joins_a_decomposition_that_is_there() -> None:
    def build(ev: SymbolicEvaluator, c: list[Any]) -> list[Any]:
        return [*ev.rotate_many(c[0], [1, 2]), ev.rotate(c[0], 3)]

    _, counts = kept(traced(build), "hoist")
    assert (counts["decompose"], counts["rotate_hoisted"], counts.get("rotate", 0)) == (1, 3, 0)


def test_a_chain_is_hoisted_only_where_it_may_be_unrolled() -> None:
    def build(ev: SymbolicEvaluator, c: list[Any]) -> list[Any]:
        made = [c[0]]
        for _ in range(3):
            made.append(ev.rotate(made[-1], 1))
        return made[1:]

    before = traced(build)
    assert kept(before, "hoist")[1]["rotate"] == 3
    after, counts = kept(before, "hoist", unroll=True)
    assert (counts["decompose"], counts["rotate_hoisted"]) == (1, 3)
    assert len(after.key_ids()) == 3


def test_what_only_led_to_the_next_rotation_goes_and_what_was_unread_stays() -> None:
    def build(ev: SymbolicEvaluator, c: list[Any]) -> list[Any]:
        ev.rotate_many(c[3], [1, 2])  # nobody reads these: without a decryption they are results
        return [ev.rotate(ev.rotate(ev.rotate(c[0], 1), 1), 1), ev.add(c[1], ev.rotate(ev.rotate(c[1], 2), 2))]

    before = traced(build)
    after, counts = kept(before, "hoist", unroll=True)
    assert (counts["rotate"], counts["rotate_hoisted"], counts["decompose"]) == (2, 2, 1)
    open_end = replace(before, operations=before.operations.filter(pc.not_equal(before.operations["kind"], "decrypt")))
    for names in (["hoist"], ["min-ks", "hoist"], ["min-ks"], ["additions"]):
        after = rewrite(open_end, names, RewriteOptions(unroll=True))
        assert differing_results(open_end, after) == []
        assert Program.of(after).unread <= Program.of(open_end).unread


# min-ks -------------------------------------------------------------------------------------------------------------
def test_rotations_of_one_ciphertext_become_a_chain_with_one_key() -> None:
    before = traced(lambda ev, c: ev.rotate_many(c[0], [2, 4, 6]))
    after, counts = kept(before, "min-ks")
    assert (counts["rotate"], counts.get("decompose", 0)) == (3, 0)
    assert after.key_ids() == ["rot:25"]  # 5^2


def test_a_chain_has_both_directions_and_fills_its_gaps() -> None:
    before = traced(lambda ev, c: [ev.rotate(c[0], s) for s in (-2, -1, 1, 3)])
    after, counts = kept(before, "min-ks")
    assert counts["rotate"] == 5  # -1, -2, 1, 2, 3
    assert len(after.key_ids()) == 2


def test_a_chain_that_would_be_too_long_is_left() -> None:
    before = traced(lambda ev, c: [ev.rotate(c[0], s) for s in (1, 9)])
    assert kept(before, "min-ks")[1]["rotate"] == 2
    assert kept(before, "min-ks", stretch=4.5)[1]["rotate"] == 9


def test_a_rotation_that_is_there_twice_keeps_both_results() -> None:
    before = traced(lambda ev, c: [*ev.rotate_many(c[0], [1, 2, 3]), ev.rotate(c[0], 1)])
    after, counts = kept(before, "min-ks")
    assert counts["rotate"] == 4
    assert len(after.key_ids()) == 1


def test_rotations_that_are_summed_follow_the_rule_of_horner() -> None:
    def build(ev: SymbolicEvaluator, c: list[Any]) -> Any:
        return ev.add(ev.add(c[0], ev.rotate(c[1], 3)), ev.add(ev.rotate(c[2], 6), ev.rotate(c[3], 9)))

    after, counts = kept(traced(build), "min-ks")
    assert (counts["rotate"], counts["add"]) == (3, 3)
    assert len(after.key_ids()) == 1


def test_a_lone_rotation_is_repeated_by_a_key_that_is_kept() -> None:
    def build(ev: SymbolicEvaluator, c: list[Any]) -> list[Any]:
        return [ev.rotate(c[0], 1), ev.rotate(c[1], 2), ev.rotate(c[2], 4)]

    after, counts = kept(traced(build), "min-ks")
    assert counts["rotate"] == 1 + 2 + 1  # 2 is twice 1; 4 stays, since 2 has no key any more
    assert len(after.key_ids()) == 2
    # Without it no key is saved, and the program stays.
    assert kept(traced(build), "min-ks", repeats=1)[0].key_ids() == traced(build).key_ids()


def test_a_chain_stays_out_where_others_need_the_keys_that_it_saves() -> None:
    before = traced(lambda ev, c: [ev.rotate(c[i], s) for i, s in ((0, 9), (0, 12), (1, 9), (2, 12))])
    after, counts = kept(before, "min-ks")
    assert counts == before.count_by_kind()
    assert after.objects.equals(before.objects)
    assert after.meta.notes == ("rewrite min-ks: no chains were found with which the program reads fewer than 2 keys",)


def test_a_rotation_is_not_repeated_where_a_composite_reads_its_key() -> None:
    def build(ev: SymbolicEvaluator, c: list[Any]) -> list[Any]:
        return [*ev.rotate_many(c[0], [1, 2]), *(ev.rotate(c[i], step) for i, step in ((1, 1), (2, 2), (3, 4)))]

    program = Program.of(rewrite(traced(build), ["hoist"]))
    ops: list[Op] = []
    for op in program.ops:
        if op.kind is OpKind.ROTATE_HOISTED:  # becomes one inside a composite, over Q and P
            size = program.params.ciphertext_bytes(op.limbs_in + program.params.num_p, 2)
            program.objects.append(Stored("extended", None, op.limbs_in, size))
            inner, op = len(program.objects) - 1, op._replace(origin=ORIGIN_MODELLED)
            ops.append(op._replace(kind=OpKind.ROTATE_HOISTED_EXTENDED, output=inner))
            op = op.instead(OpKind.MOD_DOWN, op.limbs_in, (inner,), op.output)
        ops.append(op)
    program.ops = ops
    after, counts = kept(program.trace(), "min-ks")
    assert counts["rotate"] == 1 + 1 + 2  # 2 stays, since its key is read anyway; 4 is twice 2
    assert set(after.key_ids()) == {"rot:5", "rot:25"}


# additions ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scaling", [Scaling.FIXED_MANUAL, Scaling.FLEXIBLE_AUTO])
def test_equal_rotations_are_done_once_after_the_sum(scaling: Scaling) -> None:
    def build(ev: SymbolicEvaluator, c: list[Any]) -> Any:
        total = ev.add(ev.rotate(c[0], 3), ev.rotate(c[1], 3))
        return ev.sub(ev.add(total, c[3]), ev.rotate(c[2], 3))

    _, counts = kept(traced(build, toy(scaling=scaling)), "additions")
    assert (counts["rotate"], counts["add"], counts["sub"]) == (1, 2, 1)


def test_a_difference_of_what_is_all_subtracted_is_negated() -> None:
    def build(ev: SymbolicEvaluator, c: list[Any]) -> Any:
        return ev.sub(ev.sub(c[3], ev.conjugate(c[0])), ev.conjugate(c[1]))

    _, counts = kept(traced(build), "additions")
    assert (counts["conjugate"], counts["add"], counts["sub"]) == (1, 1, 1)


@pytest.mark.parametrize("scaling", [Scaling.FIXED_MANUAL, Scaling.FLEXIBLE_AUTO])
def test_a_sum_of_products_is_relinearized_once(scaling: Scaling) -> None:
    def build(ev: SymbolicEvaluator, c: list[Any]) -> Any:
        return ev.add(ev.rescale(ev.mult(c[0], c[1])), ev.rescale(ev.square(c[2])))

    before = traced(build, toy(scaling=scaling))
    after, counts = kept(before, "additions")
    assert (counts["mult_no_relin"], counts["relinearize"]) == (2, 1)
    assert "mult" not in counts
    assert counts.get("rescale", 0) == (0 if scaling.automatic else 1)
    assert sorted(after.objects["bytes"].to_pylist())[-1] == toy().key_bytes()


def test_folds_of_many_ciphertexts_become_the_fold_of_their_sum() -> None:
    def build(ev: SymbolicEvaluator, c: list[Any]) -> Any:
        folded = []
        for each in c:
            once = ev.add(each, ev.rotate(each, 1))
            folded.append(ev.add(once, ev.rotate(once, 2)))
        return ev.add(ev.add(folded[0], folded[1]), ev.add(folded[2], folded[3]))

    _, counts = kept(traced(build), "additions")
    assert (counts["rotate"], counts["add"]) == (2, 3 + 2)


def test_what_another_operation_reads_stays() -> None:
    def build(ev: SymbolicEvaluator, c: list[Any]) -> list[Any]:
        turned = ev.rotate(c[0], 3)
        return [ev.add(turned, ev.rotate(c[1], 3)), turned]

    assert kept(traced(build), "additions")[1]["rotate"] == 2


def test_a_sum_at_fewer_limbs_drops_the_surplus() -> None:
    def build(ev: SymbolicEvaluator, c: list[Any]) -> Any:
        low = ev.mod_drop(c[1], 4)
        return ev.add(ev.sub(ev.rotate(c[0], 1), ev.rotate(c[2], 1)), ev.rotate(low, 2))

    after, counts = kept(traced(build), "additions")
    assert counts["rotate"] == 2
    assert after.operations["limbs_out"].to_pylist()[-1] == 4


# reorder and seeded -------------------------------------------------------------------------------------------------
def test_rotations_are_ordered_by_their_key() -> None:
    def build(ev: SymbolicEvaluator, c: list[Any]) -> list[Any]:
        return [ev.rotate(each, s) for each in c for s in (1, 2, 3)]

    before = traced(build)
    room = toy().key_bytes()
    after, _ = kept(before, "reorder", cache_bytes=room)
    program = Program.of(before)
    assert loaded_key_bytes(program, program.ops, room) == 12 * room
    assert loaded_key_bytes(program, Program.of(after).ops, room) == 3 * room
    assert most_alive(program.ops) == 13  # at the last rotation: its operand and all twelve results


def test_an_order_that_cannot_be_better_stays() -> None:
    before = traced(lambda ev, c: [ev.rotate(ev.rotate(c[0], 1), 2)])
    after, _ = kept(before, "reorder", cache_bytes=0)
    assert after.operations["output"].equals(before.operations["output"])
    assert "no order was found" in after.meta.notes[-1]


def test_seeded_keys_are_half_as_large_and_stay_so() -> None:
    before = traced(lambda ev, c: ev.rotate(c[0], 1))
    once, _ = kept(before, "seeded")
    twice, _ = kept(once, "seeded")
    sizes = [
        [row["bytes"] for row in each.objects.to_pylist() if row["class"] == "key"] for each in (before, once, twice)
    ]
    assert sizes == [[toy().key_bytes()], [toy().key_bytes() // 2], [toy().key_bytes() // 2]]
    assert once.parameters().key_form is KeyForm.SEEDED
    assert [row["expanded_bytes"] for row in counted([Version(passes=(), trace=t) for t in (before, once)])] == [
        0,
        toy().key_bytes() // 2,
    ]


@pytest.mark.parametrize("passes", [("truncated", "seeded"), ("seeded", "truncated")])
def test_a_truncated_key_ends_where_the_program_uses_it(passes: tuple[str, str]) -> None:
    def build(ev: SymbolicEvaluator, c: list[Any]) -> Any:
        return ev.add(ev.rotate(ev.mod_drop(c[0], 5), 1), ev.rotate(c[1], 2))

    before = traced(build)
    cut, _ = kept(before, "truncated")
    # Digits of 4 limbs and 4 special limbs.
    row = 1024 * 8
    assert stored(cut) == {"rot:5": (5, 2 * 2 * 9 * row), "rot:25": (10, 2 * 3 * 14 * row)}
    assert "1 of 2 keys end below 10 limbs" in cut.meta.notes[-1]
    assert "truncated already" in kept(cut, "truncated")[0].meta.notes[-1]
    both = rewrite(before, passes)
    assert list(problems(both)) == []
    assert both.parameters().key_form is KeyForm.SEEDED_TRUNCATED
    assert stored(both) == {name: (limbs, size // 2) for name, (limbs, size) in stored(cut).items()}
    # Reads stay as they were, so a cut changes no time.
    rows = counted([Version(passes=(), trace=each) for each in (before, cut)])
    assert rows[0]["key_bytes_touched"] == rows[1]["key_bytes_touched"]
    assert rows[0]["key_bytes_unique"] > rows[1]["key_bytes_unique"]


def test_a_pass_that_uses_a_key_higher_up_stores_more_of_it() -> None:
    def build(ev: SymbolicEvaluator, c: list[Any]) -> Any:
        return [ev.rotate(ev.mod_drop(c[0], 3), 1), ev.rotate(c[1], 2)]

    cut, _ = kept(traced(build), "truncated")
    assert stored(cut)["rot:5"] == (3, toy().key_bytes(3))
    after, _ = kept(cut, "min-ks", repeats=2)
    assert after.key_limbs() == {"rot:5": 10}
    assert stored(after)["rot:5"] == (10, toy().key_bytes())


def stored(trace: Trace) -> dict[str, tuple[int, int]]:
    """Limbs and bytes of each key's object."""
    rows = trace.objects.to_pylist()
    return {row["name"]: (row["limbs"], row["bytes"]) for row in rows if row["class"] == "key"}


# The interpreter ----------------------------------------------------------------------------------------------------
def test_the_interpreter_computes_what_the_operations_say() -> None:
    def build(ev: SymbolicEvaluator, c: list[Any]) -> Any:
        return ev.sub(ev.rescale(ev.mult(ev.rotate(c[0], 3), c[1])), ev.conjugate(c[2]))

    (found,) = interpret(traced(build), seed=5).values()
    draw = [np.random.default_rng((5, i)).integers(0, PRIME, (2, 512)) for i in range(3)]
    a, b, c = ([complex_of(x, y) for x, y in zip(*each, strict=True)] for each in draw)
    for slot in (0, 1, 508, 511):
        x, y = a[(slot + 3) % 512], b[slot]
        product = ((x[0] * y[0] - x[1] * y[1]), (x[0] * y[1] + x[1] * y[0]))
        assert int(found.re[slot]) == (product[0] - c[slot][0]) % PRIME
        assert int(found.im[slot]) == (product[1] + c[slot][1]) % PRIME


def complex_of(re: Any, im: Any) -> tuple[int, int]:
    return int(re), int(im)


def changed(trace: Trace, edit: Callable[[Op], Op]) -> Trace:
    program = Program.of(trace)
    program.ops = [edit(op) for op in program.ops]
    return program.trace()


def test_the_interpreter_sees_a_wrong_step_a_wrong_sign_and_swapped_operands() -> None:
    before = traced(lambda ev, c: ev.sub(ev.rotate(c[0], 3), c[1]))
    assert differing_results(before, changed(before, lambda op: op)) == []
    wrong = [
        lambda op: op._replace(key="rot:25", step=2) if op.kind is OpKind.ROTATE else op,
        lambda op: op._replace(kind=OpKind.ADD) if op.kind is OpKind.SUB else op,
        lambda op: op._replace(operands=op.operands[::-1]) if op.kind is OpKind.SUB else op,
    ]
    for edit in wrong:
        assert len(differing_results(before, changed(before, edit))) == 1


def test_digits_of_another_ciphertext_and_a_reading_before_the_making_are_refused() -> None:
    before = traced(lambda ev, c: ev.rotate_many(c[0], [1, 2]))
    other = changed(before, lambda op: op._replace(operands=(1,)) if op.kind is OpKind.DECOMPOSE else op)
    with pytest.raises(TraceError, match="digits are not those"):
        interpret(other)
    program = Program.of(before)
    program.ops = program.ops[::-1]
    with pytest.raises(TraceError, match="before it was made"):
        interpret(program.trace())
    lying = changed(before, lambda op: op._replace(step=7) if op.kind is OpKind.ROTATE_HOISTED else op)
    with pytest.raises(TraceError, match="does not rotate by 7"):
        interpret(lying)


# Use ----------------------------------------------------------------------------------------------------------------
def test_unknown_passes_and_options_out_of_range_are_refused() -> None:
    trace = traced(lambda ev, c: c[0])
    with pytest.raises(UnknownName, match="did you mean 'hoist'"):
        rewrite(trace, ["hoists"])
    with pytest.raises(UsageError, match="at least one pass"):
        rewrite(trace, [])
    for options in ({"stretch": 0.5}, {"stretch": float("nan")}, {"repeats": 0}, {"window": 0}, {"cache_bytes": -1}):
        with pytest.raises(UsageError):
            RewriteOptions(**options)


@pytest.mark.parametrize(("name", "limbs"), [("limbs_in", 0), ("limbs_in", 99), ("limbs_out", 99)])
def test_limbs_that_the_set_does_not_have_are_refused(name: str, limbs: int) -> None:
    trace = traced(lambda ev, c: ev.rotate(c[0], 1))
    place = trace.operations.schema.get_field_index(name)
    column = pa.array([limbs] * len(trace), trace.operations.schema.field(place).type)
    operations = trace.operations.set_column(place, trace.operations.schema.field(place), column)
    with pytest.raises(TraceError, match=rf"{name} is {limbs}; the set has 1 to 10 limbs"):
        rewrite(Trace(trace.meta, operations, trace.objects), ["additions", "reorder"])


def test_a_trace_that_breaks_the_format_is_refused_before_it_is_rewritten() -> None:
    trace = traced(lambda ev, c: ev.add(c[0], ev.rotate(c[1], 1)))
    operands = [each[:1] for each in trace.operations["operands"].to_pylist()]
    place = trace.operations.schema.get_field_index("operands")
    operations = trace.operations.set_column(place, trace.operations.schema.field(place), [operands])
    for each in (
        lambda: rewrite(replace(trace, operations=operations), ["additions"]),
        lambda: interpret(replace(trace, operations=operations)),
    ):
        with pytest.raises(TraceError, match=r"\(add\): 1 operands; this kind takes 2"):
            each()


def test_notes_say_what_was_done_and_add_up() -> None:
    trace = traced(lambda ev, c: [ev.rotate(c[0], 1), ev.rotate(c[0], 2)])
    after = rewrite(rewrite(trace, ["hoist"]), ["seeded"])
    assert after.meta.notes == (
        "rewrite hoist: 2 rotations share 1 decompositions",
        "rewrite seeded: 2 keys are half as large; the other half is expanded on chip",
    )


def test_times_are_those_of_the_serial_law() -> None:
    from penstock.scheme.machines import load_machines, load_tiers

    trace = traced(lambda ev, c: [ev.rotate(each, 3) for each in c])
    versions = [Version(passes=(), trace=trace), Version(passes=("seeded",), trace=rewrite(trace, ["seeded"]))]
    rows = compare(versions, load_machines(["sharp"])[0], load_tiers(["1 GB/s"]), expand_bytes_per_s=1e10)
    key = toy().key_bytes()
    assert [row["key_bytes_loaded"] for row in rows] == [4 * key, 2 * key]
    assert [row["io_s"] for row in rows] == pytest.approx([4 * key / 1e9, 2 * key / 1e9], rel=1e-9)
    assert [row["expand_s"] for row in rows] == [0.0, 2 * key / 1e10]
    for row in rows:
        assert row["total_s"] == pytest.approx(row["compute_s"] + row["io_s"] + row["expand_s"], rel=1e-9)
    assert rows[1]["speedup"] == pytest.approx(rows[0]["total_s"] / rows[1]["total_s"], rel=1e-12)


def test_the_verb_writes_a_valid_trace_and_a_row_a_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "after.parquet"
    words = ["trace", "rewrite", "logistic-regression", "--size", "ci", "--params", "insecure-ci"]
    words += ["--pass", "additions,min-ks", "--pass", "reorder", "--each", "--check"]
    assert main([*words, "-o", str(out), "--machine", "sharp", "--tier", "pcie5", "--format", "csv"]) == 0
    printed = capsys.readouterr()
    rows = list(csv.DictReader(printed.out.splitlines()))
    assert [row["passes"] for row in rows] == [
        "before",
        "additions",
        "min-ks",
        "reorder",
        "additions,min-ks,reorder",
    ]
    assert "every result is the same in the clear" in printed.err
    assert list(problems(read_trace(out))) == []
    assert [note.split(":")[0] for note in read_trace(out).meta.notes] == [
        "rewrite additions",
        "rewrite min-ks",
        "rewrite reorder",
    ]
    assert main([*words, "-o", str(out)]) != 0
    assert main([*words, "--tier", "pcie5"]) == 2
    assert main([*words, "--cache", "on-chip"]) == 2


def test_a_check_says_what_it_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = traced(lambda ev, c: ev.rotate(ev.rotate(c[0], 1), 1))
    undecrypted = trace.operations.slice(0, len(trace) - 1)
    for operations, said in (
        (undecrypted, "every object that no operation reads is the same in the clear"),
        (undecrypted.slice(0, 0), "nothing to compare: the trace has no operations"),
    ):
        path = tmp_path / f"{len(operations)}.parquet"
        write_trace(replace(trace, operations=operations), path)
        assert main(["trace", "rewrite", str(path), "--pass", "hoist", "--unroll", "--check"]) == 0
        assert said in capsys.readouterr().err


def test_every_pass_is_under_its_own_name() -> None:
    assert all(name == each.name and each.description for name, each in PASSES.items())
    from penstock.front.cli.verbs.trace_rewrite import PASS_NAMES

    assert ", ".join(PASSES) == PASS_NAMES
