"""The error of a kind of operation that was never timed: a new kind is one more draw of the kinds of its class.

Each kind in turn is left out of a fit altogether; its error is then one observation. Timings of one kind are off by
much the same, so that a thousand timings of six kinds say six things about a seventh: a kind counts once, however often
it was timed. Of K kinds whose errors are normal around nothing, the next one lies within

    Student's quantile with K degrees of freedom * root mean square of the sizes

The quantile is exact for them, and wider than the normal one by what six or eight kinds cannot tell. Without an assumed
distribution, a quantile over K kinds gives weight 1 / (K + 1) to an unbounded error. With six kinds that is more than
the tenth that a 90 % interval may miss (Lee, Barber and Willett, "Distribution-free inference with hierarchical data",
2023).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.fit.regression import Floats
from penstock.machines.calibration import operation_class

LEVEL = 0.9
FEWEST_KINDS = 3


def unknown_deviations(
    scores: Floats, kinds: npt.NDArray[np.object_], least: float, quantile: float
) -> dict[str, float]:
    """Class of operations -> the deviation of a kind of it that was not timed; nothing where too few kinds were.

    Args:   scores: (n,) absolute errors of timings whose kind was left out, in logarithms; kinds: (n,) of each; least:
            the smallest deviation; quantile: the factor of an interval on deviations.

    >>> kinds = np.asarray(["add", "sub", "mult_plain"], dtype=object)
    >>> {name: round(sd, 3) for name, sd in unknown_deviations(np.full(3, 0.1), kinds, 0.005, 1.645).items()}
    {'element-wise': 0.143}
    """
    squares: dict[str, list[float]] = {}
    for kind in sorted(set(kinds)):
        squares.setdefault(operation_class(str(kind)), []).append(float(np.mean(np.square(scores[kinds == kind]))))
    if sum(len(each) for each in squares.values()) < FEWEST_KINDS:
        return {}
    return {name: max(_next(each) / quantile, least) for name, each in squares.items()}


def _next(squares: list[float]) -> float:
    """The bound of the error of one more kind, at `LEVEL`."""
    from scipy.special import stdtrit  # slow to import, and only a fit needs it

    return float(stdtrit(len(squares), 0.5 + LEVEL / 2) * np.sqrt(np.mean(squares)))
