"""The operations inside a timed call of a composite, as `penstock.program.evaluator` expands it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from penstock.lab.fit.measurements import Measurement
from penstock.program.evaluator.counting import CountingEvaluator
from penstock.program.evaluator.protocol import chebyshev_coefficients
from penstock.program.evaluator.unfolded import RELEASE, UnfoldedEvaluator
from penstock.program.workloads.logistic_function import BOUND, logistic
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import TraceMeta
from penstock.scheme.work.shapes import Objects, Shape, shapes_of

SERIES = ("chebyshev_series", "chebyshev_function")
BOOTSTRAP = "bootstrap"
LOGISTIC_SERIES, INTERPOLATED = 57, 119
"""Degree of the one series of OpenFHE 1.2.4 that is known, and of the interpolant that it is cut from."""


def expanded(measurement: Measurement) -> Mapping[Shape, int]:
    """The operations of one call; empty for a primitive, or for a composite without a stated degree or limbs.

    Results of `penstock bench` state both. CryptOracle's are of OpenFHE 1.2.4, which rescales the powers of a series in
    place, 56 times where 1.6.1 does 96. Of its composites the range (EvalChebyshevFunction) or the circuit
    (EvalBootstrap) is not known, but for one series.
    Raises: ParamsError: the parameters do not hold it.
    """
    if measurement.release == RELEASE:
        known = (measurement.item, measurement.degree) == (SERIES[0], LOGISTIC_SERIES)
        return series_of_1_2_4(measurement.params) if known else {}
    if measurement.limbs is None:
        return {}
    if measurement.item in SERIES and measurement.degree:
        return _expanded(measurement.params, measurement.limbs, measurement.degree)
    if measurement.item == BOOTSTRAP and measurement.params.bootstrap is not None:
        return _expanded(measurement.params, measurement.limbs, None)
    return {}


@lru_cache(maxsize=256)
def _expanded(params: CkksParameters, limbs: int, degree: int | None) -> Mapping[Shape, int]:
    """Of a series of this degree, or of bootstrapping without one."""
    evaluator = CountingEvaluator(params)
    operand = evaluator.encrypt(np.zeros(params.slots))
    if limbs < params.num_q:
        operand = evaluator.mod_drop(operand, limbs)
    before = evaluator.tally("", "").counts
    if degree is None:
        evaluator.bootstrap(operand)
    else:
        evaluator.chebyshev_series(operand, [1.0] * (degree + 1), -1.0, 1.0)
    after = evaluator.tally("", "").counts
    counts = {shape: count - before.get(shape, 0) for shape, count in after.items()}
    return {shape: count for shape, count in counts.items() if count > 0}


@lru_cache(maxsize=256)
def series_of_1_2_4(params: CkksParameters) -> Mapping[Shape, int]:
    """CryptOracle's primitive EvalChebyshevSeries on a fresh ciphertext: degree 57 over [-25, 25]."""
    ev = UnfoldedEvaluator(params)
    ev.chebyshev_series(ev.fresh(params.num_q), logistic_series(), -BOUND, BOUND)
    trace = ev.builder.finish(TraceMeta(workload=SERIES[0], params=params.to_dict(), reading="trace"))
    shapes = shapes_of(trace.operations, Objects(trace, params))
    return MappingProxyType(dict(zip(shapes.distinct, shapes.counts.tolist(), strict=True)))


@lru_cache(maxsize=1)
def logistic_coefficients() -> list[float]:
    """Chebyshev coefficients of the logistic function over [-25, 25]."""
    return chebyshev_coefficients(logistic, -BOUND, BOUND, INTERPOLATED)


def logistic_series() -> list[float]:
    """The first of them: the series that is timed as a primitive."""
    return logistic_coefficients()[: LOGISTIC_SERIES + 1]
