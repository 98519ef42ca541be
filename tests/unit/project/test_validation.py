"""Hold-out validation: what each protocol holds out, the statistics of a row, the baselines, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from penstock.errors import MachineError, UnknownName
from penstock.lab.fit.measurements import Measurement
from penstock.lab.prediction.models import CannotPredict, Estimate, log_interval, named, served
from penstock.lab.prediction.validation.baselines import (
    LIKE,
    Regression,
    fit_additive,
    fit_log_quadratic,
    fit_paper,
    stand_in,
)
from penstock.lab.prediction.validation.compared import models
from penstock.lab.prediction.validation.plots import draw
from penstock.lab.prediction.validation.protocols import ALL, PROTOCOLS, Given
from penstock.lab.prediction.validation.scores import Rescaled, Scored, Validation, statistics_of, validate
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import Scaling
from support.imagined_cpu import COLUMNS, KINDS, params_of, ran, sweep, timed, true_seconds
from support.pictures import picture, texts, titles


@dataclass
class Knowing:
    """A model that knows the imagined CPU, and is `off` by a factor; its interval is `width` wide on either side."""

    off: float = 1.0
    width: float | None = None
    fitted_to: Sequence[Measurement] = ()

    def predict(self, measurement: Measurement) -> Estimate:
        params, threads = measurement.params, measurement.threads
        if measurement.shape is not None:
            seconds = true_seconds(measurement.shape, params, threads)
        else:
            seconds = sum(n * true_seconds(s, params, threads) for s, n in served(measurement).counts.items())
        return log_interval(self.off * seconds, None if self.width is None else self.width)


def scored(given: Given, protocol: str, model: Knowing) -> Validation:
    def fit(measurements: Sequence[Measurement]) -> Knowing:
        return replace(model, fitted_to=measurements)

    return validate(given, {protocol: PROTOCOLS[protocol]}, {"penstock": fit})


def everything() -> Given:
    programs = [ran("inner-product", "ci", count) for count in (1, 2)] + [ran("sign-evaluation", "ci", 1)]
    return Given(measurements=(*sweep(threads=(1, 2)), *programs), other=tuple(sweep(rings=(12, 13))))


GIVEN = everything()


# Every protocol.


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_model_that_knows_the_machine_has_no_error_under_any_protocol(protocol):
    given = replace(GIVEN, measurements=(*GIVEN.measurements, *_primitives_of_programs()))
    found = scored(given, protocol, Knowing())
    assert found.points
    rows = found.rows()
    assert all(set(row) == COLUMNS for row in rows)
    assert rows[0]["application"] == "all"
    for row in rows:
        assert row["worst_abs_error"] == pytest.approx(0, abs=1e-9)
        assert row["coverage90"] is None


def _primitives_of_programs() -> list[Measurement]:
    """At the sets of the programs, so that the paper's protocol has something to go by."""
    sets = {m.params for m in GIVEN.measurements if m.group != "primitives"}
    return [timed(kind, params, params.num_q, threads) for params in sets for kind in KINDS for threads in (1, 2)]


@pytest.mark.parametrize("protocol", [p for p in PROTOCOLS if p not in ("unseen-machine", "paper")])
def test_a_model_that_is_ten_percent_slow_has_ten_percent_of_error_and_of_bias(protocol):
    for row in scored(GIVEN, protocol, Knowing(off=1.1)).rows():
        for name in ("mean_abs_error", "median_abs_error", "p90_abs_error", "worst_abs_error", "bias"):
            assert row[name] == pytest.approx(0.1), (row, name)


def test_what_a_model_is_off_by_everywhere_the_transfer_to_another_machine_takes_out():
    found = scored(GIVEN, "unseen-machine", Knowing(off=3.0))
    assert [row["worst_abs_error"] for row in found.rows()] == pytest.approx([0] * len(found.rows()), abs=1e-9)
    assert {point.held_out for point in found.points} == {"this machine"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_fold_is_scored_on_what_it_was_fitted_to(protocol):
    given = replace(GIVEN, measurements=(*GIVEN.measurements, *_primitives_of_programs()))
    cut = PROTOCOLS[protocol](given)
    assert cut.folds
    for fold in cut.folds:
        seen = {id(m) for m in (*fold.train, *fold.anchors)}
        assert fold.test
        assert fold.train
        assert not [m for m in fold.test if id(m) in seen]


def test_each_ring_dimension_is_held_out_whole_and_the_outermost_two_are_edges():
    folds = PROTOCOLS["unseen-ring-dim"](GIVEN).folds
    assert {fold.held_out: fold.where for fold in folds} == {
        "ring dimension 2^11": "edge",
        "ring dimension 2^12": "interior",
        "ring dimension 2^13": "interior",
        "ring dimension 2^14": "edge",
    }
    for fold in folds:
        held = {m.params.ring_dim for m in fold.test}
        assert len(held) == 1
        assert held.isdisjoint(m.params.ring_dim for m in fold.train)
    rows = scored(GIVEN, "unseen-ring-dim", Knowing()).rows()
    names = [row["application"] for row in rows]
    assert names[:3] == ["all", "edge", "interior"]
    assert {"rotate", "rotate/interior", "key-switching/edge", "element-wise/interior"} <= set(names)
    n = {row["application"]: row["n"] for row in rows}
    assert n["all"] == n["edge"] + n["interior"] == len([m for m in GIVEN.measurements if m.group == "primitives"])


def test_an_application_is_predicted_without_a_timing_of_any_application():
    (fold,) = PROTOCOLS["unseen-application"](GIVEN).folds
    assert {m.group for m in fold.train} == {"primitives"}
    rows = scored(GIVEN, "unseen-application", Knowing()).rows()
    n = {row["application"]: row["n"] for row in rows}
    assert n == {
        "all": 3,
        "all/threads=1": 2,
        "all/threads=2": 1,
        "inner-product": 2,
        "inner-product/threads=1": 1,
        "inner-product/threads=2": 1,
        "sign-evaluation": 1,
        "sign-evaluation/threads=1": 1,
    }


def test_an_operation_is_predicted_without_a_timing_of_its_kind_or_of_any_program():
    folds = PROTOCOLS["unseen-operation"](GIVEN).folds
    assert {fold.held_out for fold in folds} == {kind.value for kind in KINDS}
    for fold in folds:
        assert {m.item for m in fold.test} == {fold.held_out}
        assert fold.held_out not in {m.item for m in fold.train}
        assert {m.group for m in fold.train} == {"primitives"}


def test_two_numbers_of_threads_are_left_out_at_one_ring_dimension_at_a_time_and_a_warning_says_so():
    cut = PROTOCOLS["unseen-threads"](GIVEN)
    assert len(cut.folds) == 8
    assert {fold.where for fold in cut.folds} == {"combination"}
    assert "measure a third number of threads" in cut.warnings[0]
    three = PROTOCOLS["unseen-threads"](Given(measurements=tuple(sweep(rings=(12,), threads=(1, 2, 4)))))
    assert [fold.where for fold in three.folds] == ["edge", "interior", "edge"]
    assert not three.warnings


def test_a_program_is_held_out_along_an_axis_only_where_it_was_measured_along_it():
    sets = [params_of(log_n, 14) for log_n in (11, 12, 13)]
    along = [ran("inner-product", "ci", 1, params=params) for params in sets]
    given = Given(measurements=(*sweep(rings=(11, 12, 13)), *along, ran("sign-evaluation", "ci", 1)))
    tested = [m for fold in PROTOCOLS["unseen-ring-dim"](given).folds for m in fold.test if m.group != "primitives"]
    assert sorted(tested, key=lambda m: m.params.ring_dim) == along


# Statistics.


def test_the_statistics_of_a_row_are_arithmetic():
    measurement = sweep(rings=(11,), depths=(6,))[0]
    errors = (0.1, -0.2, 0.3, 0.0)
    points = [
        Scored(
            protocol="p",
            model="penstock",
            measurement=measurement,
            held_out="x",
            where=None,
            estimate=Estimate(measurement.seconds * (1 + e), measurement.seconds * 0.85, measurement.seconds * low),
        )
        for e, low in zip(errors, (1.1, 1.1, 0.9, 1.0), strict=True)
    ]
    found = statistics_of(points)
    assert found["n"] == 4
    assert found["mean_abs_error"] == pytest.approx(0.15)
    assert found["median_abs_error"] == pytest.approx(0.15)
    assert found["p90_abs_error"] == pytest.approx(float(np.percentile([0.1, 0.2, 0.3, 0.0], 90)))
    assert found["worst_abs_error"] == pytest.approx(0.3)
    assert found["bias"] == pytest.approx(0.05)
    assert found["coverage90"] == 0.75


def test_ninety_percent_intervals_of_normal_errors_cover_ninety_percent():
    rng = np.random.default_rng(7)
    noise = np.exp(0.05 * rng.standard_normal(4000))
    measurements = sweep(threads=(1, 2), factor=lambda index: float(noise[index]))
    found = scored(Given(measurements=tuple(measurements)), "unseen-ring-dim", Knowing(width=0.05))
    row = found.rows()[0]
    assert row["n"] == len(measurements)
    assert row["coverage90"] == pytest.approx(0.9, abs=0.03)
    assert row["mean_abs_error"] == pytest.approx(0.05 * math.sqrt(2 / math.pi), rel=0.15)
    narrow = scored(Given(measurements=tuple(measurements)), "unseen-ring-dim", Knowing(width=0.02)).rows()[0]
    assert narrow["coverage90"] < 0.7


# Too little.


@pytest.mark.parametrize(
    ("protocol", "measurements", "said"),
    [
        ("unseen-ring-dim", sweep(rings=(12,)), "2^12 only"),
        ("unseen-depth", sweep(depths=(8,)), "two values of the depth"),
        ("unseen-threads", sweep(), "1 only"),
        ("unseen-operation", [m for m in sweep() if m.item in ("add", "mult")], "three kinds of primitives"),
        ("unseen-application", sweep(), "a microbenchmark or workload"),
        ("unseen-machine", sweep(), "--other"),
        ("paper", sweep(), "an application at a configuration"),
    ],
)
def test_a_protocol_that_the_results_do_not_allow_says_which_runs_would(protocol, measurements, said):
    found = scored(Given(measurements=tuple(measurements)), protocol, Knowing())
    assert found.rows() == []
    (warning,) = found.warnings
    assert warning.startswith(f"{protocol}: ")
    assert said in warning
    assert "--other" in warning or "penstock bench run --suite fit" in warning


def test_a_model_that_cannot_be_fitted_or_cannot_predict_is_a_warning_and_the_others_stay():
    def refuses(measurements):
        raise MachineError("the rate of transforms cannot be identified")

    class Half(Knowing):
        def predict(self, measurement):
            if measurement.item == "rotate":
                raise CannotPredict("nothing like it was timed")
            return super().predict(measurement)

    fits = {"penstock": refuses, "additive": lambda measurements: Half()}
    found = validate(GIVEN, {"unseen-depth": PROTOCOLS["unseen-depth"]}, fits)
    assert {row["model"] for row in found.rows()} == {"additive"}
    assert "rotate" not in {row["application"] for row in found.rows()}
    assert any("no fit without depth 5, depth 7, depth 11: the rate of transforms" in text for text in found.warnings)
    assert any("measurements left out (rotate): nothing like it was timed" in text for text in found.warnings)


def test_unknown_protocols_and_models_suggest_the_nearest():
    with pytest.raises(UnknownName, match="unseen-depth"):
        named("protocol", ["unseen-deep"], PROTOCOLS)
    with pytest.raises(UnknownName, match="log-quadratic"):
        named("model", ["quadratic"], models())
    assert list(named("protocol", [], PROTOCOLS)) == list(PROTOCOLS)
    assert list(named("protocol", ["paper", "unseen-depth"], PROTOCOLS)) == ["unseen-depth", "paper"]


# Baselines.


def test_the_additive_model_gives_the_fresh_cost_whatever_limbs_are_left():
    params = params_of(12, 12)
    model = fit_additive(sweep(rings=(12,), depths=(12,)))
    fresh = timed(OpKind.ROTATE, params, 12)
    for limbs in (12, 6, 2):
        assert model.predict(timed(OpKind.ROTATE, params, limbs)) == Estimate(fresh.seconds)


def test_the_additive_model_adds_up_a_program_and_takes_the_nearest_configuration():
    program = ran("inner-product", "ci", 1)
    params = program.params
    fresh = {kind.value: timed(kind, params, params.num_q).seconds for kind in KINDS}
    model = fit_additive([timed(kind, params, params.num_q) for kind in KINDS])
    expected = sum(count * fresh[stand_in(shape.kind, fresh)] for shape, count in served(program).counts.items())
    assert model.predict(program).seconds == pytest.approx(expected)
    assert model.predict(replace(program, threads=2)).seconds == pytest.approx(expected)


def test_the_papers_recipe_prices_a_composite_call_whole_where_it_was_timed():
    program = ran("logistic-function", "ci", 1)
    params = program.params
    primitives = [timed(kind, params, params.num_q) for kind in KINDS]
    composite = Measurement(
        item="chebyshev_series", group="primitives", params=params, seconds=0.5, degree=59, source="imagined"
    )
    with_it = fit_paper([*primitives, composite]).predict(program).seconds
    assert served(program).calls["chebyshev"] == 1
    assert with_it == pytest.approx(0.5, rel=0.05)  # and little else
    assert fit_paper(primitives).predict(program).seconds == fit_additive(primitives).predict(program).seconds


def test_an_operation_that_was_never_timed_takes_the_time_of_the_likest():
    assert stand_in("square", ["add", "mult"]) == "mult"
    assert stand_in("conjugate", ["mult", "rotate"]) == "rotate"
    with pytest.raises(CannotPredict, match="rotate"):
        stand_in("rotate", ["add"])
    for kind, others in LIKE.items():
        assert OpKind(kind)
        assert all(OpKind(other) for other in others)
        assert kind not in others


def test_the_regression_finds_a_quadratic_and_states_how_sure_it_is():
    rng = np.random.default_rng(3)
    points = np.asarray([(n, limbs) for n in (10, 11, 12, 13, 14) for limbs in (1.0, 2.0, 3.0, 3.5)])
    truth = 1 + 1.2 * points[:, 0] + 0.7 * points[:, 1] + 0.1 * points[:, 1] ** 2 + 0.05 * points[:, 0] * points[:, 1]
    exact = Regression.fit(points, truth)
    for point, value in zip(points, truth, strict=True):
        assert exact.at(point)[0] == pytest.approx(math.exp(value))
    inside = []
    for _ in range(200):
        model = Regression.fit(points, truth + 0.1 * rng.standard_normal(len(truth)))
        seconds, sd = model.at(points[7])
        new = math.exp(truth[7] + 0.1 * rng.standard_normal())
        inside.append(log_interval(seconds, sd).holds(new))
    assert np.mean(inside) == pytest.approx(0.9, abs=0.06)


@pytest.mark.parametrize("points", [1, 2, 3, 4])
def test_a_regression_with_few_points_takes_few_terms_and_stays_finite(points):
    model = Regression.fit(np.asarray([[10.0 + i, 3.0] for i in range(points)]), np.arange(points, dtype=float))
    assert len(model.terms) <= points
    seconds, sd = model.at(np.asarray([12.0, 5.0]))
    assert math.isfinite(seconds)
    assert sd is None or math.isfinite(sd)


def test_a_program_that_was_timed_at_several_configurations_is_regressed_directly():
    own = [ran("inner-product", "ci", 1, params=params_of(log_n, 14)) for log_n in (11, 12, 14)]
    odd = [replace(m, seconds=100 * m.params.ring_dim) for m in own]  # no sum of operations would say that
    model = fit_log_quadratic([*sweep(), *odd])
    unseen = ran("inner-product", "ci", 1, params=params_of(13, 14))
    assert model.predict(unseen).seconds == pytest.approx(100 * 2**13, rel=1e-3)
    assert fit_log_quadratic(sweep()).predict(unseen).seconds == pytest.approx(unseen.seconds, rel=0.5)


@pytest.mark.parametrize("fit", [fit_additive, fit_paper, fit_log_quadratic])
def test_a_baseline_without_primitives_says_what_to_run(fit):
    with pytest.raises(MachineError, match="penstock bench run --suite fit"):
        fit([ran("inner-product", "ci", 1)])


# Transfer.


def test_a_transferred_model_has_one_factor_for_each_class_of_operations():
    params = params_of(12)
    anchors = [timed(OpKind.ADD, params, 8, factor=2.0), timed(OpKind.ROTATE, params, 8, factor=5.0)]
    model = Rescaled.by(Knowing(width=0.1), anchors)
    assert model.factors == pytest.approx({"element-wise": 2.0, "key-switching": 5.0})
    rotate = timed(OpKind.MULT, params, 4)
    estimate = model.predict(rotate)
    assert estimate.seconds == pytest.approx(5 * rotate.seconds)
    assert estimate.high / estimate.seconds == pytest.approx(math.exp(1.6448536 * 0.1))
    program = ran("sign-evaluation", "ci", 1)
    assert 2 * program.seconds < model.predict(program).seconds < 5 * program.seconds
    apart = [timed(OpKind.ADD, params, 8, factor=2.0), timed(OpKind.SUB, params, 8, factor=2.0 * math.exp(0.2))]
    wider = Rescaled.by(Knowing(width=0.1), apart)
    assert wider.disagreement == pytest.approx(math.sqrt(2 * 0.1**2))
    widened = wider.predict(rotate)
    assert widened.high / widened.seconds == pytest.approx(math.exp(1.6448536 * math.sqrt(0.1**2 + 0.02)))


def test_what_a_program_takes_besides_its_operations_is_transferred_too():
    @dataclass
    class Colder(Knowing):
        def predict(self, measurement: Measurement) -> Estimate:
            found = super().predict(measurement)
            return found if measurement.shape is not None else Estimate(found.seconds + 7.0)

    params = params_of(12)
    anchors = [timed(OpKind.ADD, params, 8, factor=2.0), timed(OpKind.ROTATE, params, 8, factor=2.0)]
    program = ran("inner-product", "ci", 1)
    assert Rescaled.by(Colder(), anchors).predict(program).seconds == pytest.approx(2 * (program.seconds + 7.0))


# Composites.


def series(log_n: int, factor: float = 1.0) -> Measurement:
    """A call of a Chebyshev series on the imagined CPU."""
    params = replace(params_of(log_n, 9), scaling=Scaling.FLEXIBLE_AUTO)
    blank = Measurement(
        item="chebyshev_series", group="primitives", params=params, degree=10, limbs=9, seconds=1.0, source="imagined"
    )
    seconds = sum(n * true_seconds(s, params, 1) for s, n in served(blank).counts.items())
    return replace(blank, seconds=factor * seconds)


def test_composites_are_held_out_as_their_operations_are():
    calls = [series(log_n) for log_n in (11, 12, 13, 14)]
    given = Given(measurements=(*sweep(), *calls))
    found = scored(given, "unseen-ring-dim", Knowing())
    assert [p.error for p in found.points if p.measurement.shape is None] == pytest.approx([0.0] * 4)
    assert {r["application"]: r["n"] for r in found.rows()}["chebyshev_series/interior"] == 2
    fold = PROTOCOLS["unseen-operation"](given).folds[-1]
    assert (fold.held_out, fold.test) == ("chebyshev_series", tuple(calls))
    assert not set(calls) & set(fold.train)
    unknown = replace(calls[0], degree=None)
    assert not scored(Given(measurements=(*sweep(), unknown)), "unseen-ring-dim", Knowing()).rows()[0]["n"] > len(
        sweep()
    )


# Pictures.


def test_the_pictures_are_drawn_for_what_was_scored_and_again_the_same(tmp_path):
    found = scored(GIVEN, "unseen-ring-dim", Knowing(off=1.02, width=0.05))
    written = draw(found, tmp_path / "a")
    assert [path.name for path in written] == ["predicted-measured.svg", "errors.svg", "coverage.svg"]
    points = [title for title in titles(written[0]) if title.startswith("penstock")]
    assert len(points) == len(found.points)
    assert {"unseen-ring-dim", "measured", "predicted", "±10%"} <= set(texts(picture(written[0])))
    (error,) = [title for title in titles(written[1]) if title.startswith("penstock")]
    (row,) = [row for row in found.rows() if row["application"] == ALL]
    assert error == f"penstock, unseen-ring-dim, {100 * row['mean_abs_error']:.4g} %"
    assert f"penstock, unseen-ring-dim, {100 * row['coverage90']:.4g} %" in titles(written[2])
    again = draw(found, tmp_path / "b")
    assert [a.read_bytes() for a in written] == [b.read_bytes() for b in again]
    assert draw(Validation(), tmp_path / "c") == []
    without = scored(GIVEN, "unseen-ring-dim", Knowing())
    assert [path.name for path in draw(without, tmp_path / "d")] == ["predicted-measured.svg", "errors.svg"]


# The model penstock, on timings of the imagined CPU with one thread.


@pytest.mark.parametrize("protocol", ["unseen-application", "unseen-ring-dim", "unseen-depth", "unseen-operation"])
def test_the_fitted_machine_predicts_what_it_has_not_seen_of_a_cpu_that_follows_the_kernel_algebra(protocol):
    given = Given(measurements=(*sweep(), ran("inner-product", "ci", 1), ran("sign-evaluation", "ci", 1)))
    found = validate(given, {protocol: PROTOCOLS[protocol]}, named("model", ["penstock"], models()))
    row = found.rows()[0]
    assert row["application"] == "all"
    assert row["n"] > 1
    assert row["mean_abs_error"] < (0.1 if protocol == "unseen-operation" else 0.01)
    assert row["coverage90"] is not None
    assert found.error_of("penstock", protocol) == pytest.approx(row["mean_abs_error"])


def test_a_program_without_a_size_is_another_than_ours_and_is_not_predicted():
    given = Given(measurements=(*sweep(), replace(ran("inner-product", "ci", 1), size=None)))
    found = scored(given, "unseen-application", Knowing())
    assert not found.points
    with pytest.raises(CannotPredict, match="not known"):
        served(given.measurements[-1])


def test_what_the_client_does_is_neither_fitted_nor_predicted():
    params = params_of(12)
    client = [timed(kind, params, 8) for kind in (OpKind.ENCRYPT, OpKind.DECRYPT)]
    given = Given(measurements=(*sweep(), *client))
    for name in ("unseen-ring-dim", "unseen-operation"):
        for fold in PROTOCOLS[name](given).folds:
            assert not [m for m in fold.test if m in client]
    assert {"encrypt", "decrypt"}.isdisjoint(shape.kind for shape in served(ran("inner-product", "ci", 1)).counts)
