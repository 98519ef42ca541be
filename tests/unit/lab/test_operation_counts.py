"""Tables of counts: names, limbs that are not stated, and what is refused by file and row."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UnknownName, UsageError
from penstock.lab.fit.fit import fit_machine
from penstock.lab.prediction.operation_counts import (
    OperationCount,
    kind_named,
    predict_counts,
    read_operation_counts,
)
from penstock.lab.prediction.prediction import predict
from penstock.program.evaluator.counting import CountingEvaluator
from penstock.scheme.machines import load_machine, machine_names
from penstock.scheme.machines.schema import Machine
from penstock.scheme.operations import SMALL_KINDS, OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import Scaling
from penstock.scheme.work.shapes import Shape
from support.imagined_cpu import sweep
from support.toy import toy, toy_bootstrap

SHARP = load_machine("sharp")


def written(path: Path, text: str, name: str = "counts.csv") -> Path:
    (path / name).write_text(text)
    return path / name


def test_names_of_openfhe_cryptoracle_and_traces_mean_the_same() -> None:
    for name in ("mult_plain", "EvalMultPlaintext", "EvalMult (Plaintext)", "CKKS_Mult_Plaintext", "evalmultplain"):
        assert kind_named(name) is OpKind.MULT_PLAIN
    assert kind_named("EvalAtIndex") is kind_named("EvalRotate") is kind_named("CKKS_Rotate") is OpKind.ROTATE
    assert kind_named("EvalMultNoRelin") is OpKind.MULT_NO_RELIN
    assert kind_named("EvalFastRotationPrecompute") is OpKind.DECOMPOSE
    assert kind_named("EvalSub (Scalar)") is OpKind.SUB_SCALAR
    assert kind_named("EvalBootstrap") is OpKind.BOOTSTRAP


def test_csv_json_and_yaml_say_the_same(tmp_path: Path) -> None:
    table = written(tmp_path, "operation, count, limbs\nEvalMult, 3, 5\n\nEvalRotate, 2,\n")
    rows = [{"operation": "EvalMult", "count": 3, "limbs": 5}, {"operation": "EvalRotate", "count": 2}]
    found = [(r.kind, r.count, r.limbs) for r in read_operation_counts(table)]
    assert found == [(OpKind.MULT, 3, 5), (OpKind.ROTATE, 2, None)]
    listed = read_operation_counts(written(tmp_path, json.dumps(rows), "counts.json"))
    assert [(r.kind, r.count, r.limbs) for r in listed] == found
    named = written(tmp_path, "operation_counts:\n  CKKS_Mult: 3  # relinearized\n  CKKS_Rotate: 2\n", "counts.yaml")
    assert [(r.kind, r.count) for r in read_operation_counts(named)] == [(OpKind.MULT, 3), (OpKind.ROTATE, 2)]


def test_stated_limbs_are_priced_as_the_operations_are(tmp_path: Path) -> None:
    params = catalogue.get("sharp")
    rows = read_operation_counts(written(tmp_path, "operation,count,limbs\nrotate,7,20\nadd,2,35\n"))
    found = predict_counts(rows, params, SHARP)
    counts = {Shape("rotate", 20, 20, 0, 0, 2): 7, Shape("add", 35, 35, 0, 0, 2): 2}
    assert found.predicted_s == predict(counts, SHARP, params=params).predicted_s
    assert (found.low_s, found.high_s) == (None, None)
    assert not any("state no limbs" in warning for warning in found.warnings)


def test_limbs_that_are_not_stated_are_spread_and_span_the_interval(tmp_path: Path) -> None:
    params = catalogue.get("sharp")
    text = "operation,count\nrotate,70\nadd,7\n"
    found = predict_counts(read_operation_counts(written(tmp_path, text)), params, SHARP)
    at = {
        limbs: predict(
            {Shape("rotate", limbs, limbs, 0, 0, 2): 70, Shape("add", limbs, limbs, 0, 0, 2): 7}, SHARP, params=params
        ).predicted_s
        for limbs in (1, params.num_q)
    }
    assert found.low_s == pytest.approx(at[1])
    assert found.high_s == pytest.approx(at[params.num_q])
    assert at[1] < found.predicted_s < at[params.num_q]
    assert found.warnings[0].startswith("77 operations (100%) state no limbs")
    assert sum(each.count for each in found.contributions) == 77
    # As even as can be: 70 rotations over all limbs, 2 at each.
    assert {each.count for each in found.contributions if each.kind == "rotate"} == {70 // params.num_q}


def test_a_single_operation_without_limbs_is_in_the_middle(tmp_path: Path) -> None:
    params = catalogue.get("sharp")
    found = predict_counts(read_operation_counts(written(tmp_path, "operation,count\nrotate,1\n")), params, SHARP)
    (only,) = found.contributions
    assert only.limbs == (params.num_q + 1) // 2


def test_a_narrower_table_has_a_narrower_interval(tmp_path: Path) -> None:
    params = catalogue.get("sharp")
    wide = predict_counts(read_operation_counts(written(tmp_path, "operation,count\nrotate,10\n")), params, SHARP)
    half = "operation,count,limbs\nrotate,5,20\nrotate,5,\n"
    narrow = predict_counts(read_operation_counts(written(tmp_path, half)), params, SHARP)
    assert wide.low_s
    assert wide.high_s
    assert narrow.low_s
    assert narrow.high_s
    assert narrow.high_s / narrow.low_s < wide.high_s / wide.low_s


def test_a_product_that_is_cheapest_fresh_is_inside_its_own_interval(tmp_path: Path) -> None:
    """A fresh operand of an automatic rule is not rescaled first: all at the fresh limbs is the low end."""
    rows = read_operation_counts(written(tmp_path, "operation,count\nEvalMultPlaintext,100\nEvalMult,10\n"))
    found = predict_counts(rows, catalogue.get("openfhe-resnet20"), SHARP)
    assert found.low_s is not None
    assert found.high_s is not None
    assert found.low_s < found.predicted_s < found.high_s


@pytest.fixture(scope="module")
def fitted() -> Machine:
    """Fitted to few limbs, so that fresh ciphertexts of most sets are outside of what it was fitted to."""
    measured = [
        replace(m, joules=50 * m.seconds, seconds=m.seconds * (1 + 0.01 * (-1) ** i))
        for i, m in enumerate(sweep(rings=(11, 12, 13), depths=(6, 9)))
    ]
    machine = fit_machine(measured, name="imagined")
    assert machine.fit is not None
    assert machine.fit.common_sd is not None
    return machine


_KINDS = sorted(set(OpKind) - SMALL_KINDS - {OpKind.COMPOSITE, OpKind.BOOTSTRAP, OpKind.CHEBYSHEV})
_COUNTS = st.lists(
    st.tuples(st.sampled_from(_KINDS), st.integers(1, 2000), st.none() | st.integers(2, 5)), min_size=1, max_size=6
)


@given(
    rows=_COUNTS,
    machine=st.sampled_from(["fitted", *machine_names()]),
    params=st.sampled_from(["insecure-ci", "openfhe-demo", "openfhe-filter", "openfhe-resnet20", "sharp"]),
    series=st.none() | st.integers(2, 60),
)
def test_an_interval_contains_its_prediction(
    fitted: Machine, rows: list[tuple[OpKind, int, int | None]], machine: str, params: str, series: int | None
) -> None:
    made = [OperationCount(kind=kind, count=n, limbs=at, degree=None, source="a test") for kind, n, at in rows]
    if series is not None and params in ("openfhe-resnet20", "sharp"):
        made.append(OperationCount(kind=OpKind.CHEBYSHEV, count=3, limbs=None, degree=series, source="a test"))
    found = predict_counts(made, catalogue.get(params), fitted if machine == "fitted" else load_machine(machine))
    unstated = any(row.limbs is None for row in made)
    assert (found.low_s is None) == (found.high_s is None) == (not unstated and machine != "fitted")
    if found.low_s is not None:
        assert found.low_s <= found.predicted_s <= found.high_s  # type: ignore[operator]
    if found.low_j is not None:
        assert found.low_j <= found.predicted_j <= found.high_j  # type: ignore[operator]


def test_composites_are_expanded(tmp_path: Path) -> None:
    params = toy_bootstrap(Scaling.FLEXIBLE_AUTO)
    evaluator = CountingEvaluator(params)
    evaluator.bootstrap(evaluator.fresh(2))
    counts = evaluator.tally("", "").counts
    rows = read_operation_counts(written(tmp_path, "operation,count,degree\nEvalBootstrap,3,\n"))
    found = predict_counts(rows, params, SHARP)
    assert found.predicted_s == pytest.approx(3 * predict(counts, SHARP, params=params).predicted_s)
    series = "operation,count,limbs,degree\nEvalChebyshevSeries,4,20,27\n"
    found = predict_counts(read_operation_counts(written(tmp_path, series)), params, SHARP)
    assert {each.kind for each in found.contributions} >= {"mult", "square"}
    assert all(each.count % 4 == 0 for each in found.contributions)


def test_products_under_an_automatic_rule_rescale_their_operand(tmp_path: Path) -> None:
    rows = read_operation_counts(written(tmp_path, "operation,count,limbs\nmult,1,5\n"))
    manual = predict_counts(rows, toy(), SHARP).predicted_s
    automatic = predict_counts(rows, toy(scaling=Scaling.FLEXIBLE_AUTO), SHARP).predicted_s
    assert automatic > manual


def test_a_product_of_fresh_ciphertexts_costs_what_the_programs_does(tmp_path: Path) -> None:
    rows = read_operation_counts(written(tmp_path, "operation,count,limbs\nmult,1,10\n"))
    for scaling in Scaling:
        evaluator = CountingEvaluator(toy(scaling=scaling))
        evaluator.mult(evaluator.encrypt(np.ones(1)), evaluator.encrypt(np.ones(1)))
        (product,) = (shape for shape in evaluator.tally("", "").counts if shape.kind == "mult")
        (only,) = predict_counts(rows, toy(scaling=scaling), SHARP).contributions
        assert only.limbs == product.limbs_in


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("operation,count\nEvalMul,3\n", r"counts.csv:2.*EvalMul.*did you mean 'EvalMult'"),
        (
            "operation,count\nadd,3\nrotate,-1\n",
            r"counts.csv:3: count of 'rotate' is '-1'; it is a whole number from 0",
        ),
        ("operation,count\nadd,2.5\n", r"counts.csv:2: count of 'add' is '2.5'"),
        ("operation,count\nadd,\n", r"counts.csv:2: 'add' has no count"),
        ("operation,count,limbs\nadd,1,0\n", r"counts.csv:2: limbs of 'add' is '0'"),
        ("operation,count,limbs\nadd,1,1,1\n", r"counts.csv:2: more cells"),
        ("operation,counts\nadd,1\n", r"unknown column of .*counts.csv:1 'counts': did you mean 'count'"),
        ("operation,count,count\nadd,1,2\n", r"counts.csv:1: column 'count' is there twice"),
        (
            "operation,count,degree\nEvalChebyshevSeries,1,1000000000\n",
            r"counts.csv:2: degree of 'EvalChebyshevSeries' is '1000000000'; it is a whole number from 1 to 4095",
        ),
        ("operation\nadd\n", r"counts.csv:1: column 'count' is missing"),
        ("operation,count\n", "has no counts"),
        ("operation,count\nEvalChebyshevSeries,1\n", r"counts.csv:2: .*add a column 'degree'"),
        ("operation,count\n,1\n", r"counts.csv:2: the operation is empty"),
        ("operation,count\nadd,1\nadd\0,1\n", r"counts.csv:3: not CSV"),
        (f"operation,count\nadd,{'1' * 200_000}\n", r"counts.csv:2: not CSV"),
        ("operation,count\ncomposite,1\n", r"'composite': did you mean '(?!composite)"),
    ],
)
def test_bad_rows_are_named_by_file_and_row(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_operation_counts(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        pytest.param("[" * 100_000, "not valid JSON", id="deep"),
        ('{"EvalAdd": 3, "EvalMult": 1, "EvalAdd": 4}', "counts.json: 'EvalAdd' is there twice"),
        ("[3]", "neither names with counts nor a list of rows"),
        ('[{"operation": "add"}]', "row 1: 'count' is missing"),
        ('[{"operation": "add", "count": true}]', "count of 'add' is True"),
    ],
)
def test_bad_json_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_operation_counts(written(tmp_path, text, "counts.json"))


@pytest.mark.parametrize(("row", "lowest"), [("rescale,2,1,", 2), ("EvalChebyshevSeries,2,3,59", 8)])
def test_limbs_at_which_nothing_would_be_left_are_named_by_row(tmp_path: Path, row: str, lowest: int) -> None:
    rows = read_operation_counts(written(tmp_path, f"operation,count,limbs,degree\nadd,1,1,\n{row}\n"))
    with pytest.raises(UsageError, match=rf"counts.csv:3: [13] limbs; .* only from {lowest} limbs on"):
        predict_counts(rows, toy(), SHARP)


def test_limbs_beyond_the_set_and_unknown_keys_are_refused(tmp_path: Path) -> None:
    rows = read_operation_counts(written(tmp_path, "operation,count,limbs\nadd,1,99\n"))
    with pytest.raises(UsageError, match=r"counts.csv:2: 99 limbs; a ciphertext of set 'sharp' has 1 to 3"):
        predict_counts(rows, catalogue.get("sharp"), SHARP)
    with pytest.raises(UnknownName, match="limb"):
        read_operation_counts(written(tmp_path, '[{"operation": "add", "count": 1, "limb": 3}]', "c.json"))
