"""The models that every table of validation compares, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.errors import check_known
from penstock.prediction.baselines import fit_additive, fit_log_quadratic
from penstock.prediction.models import Fit, fit_penstock


def models() -> Mapping[str, Fit]:
    """The models by name, ours first."""
    return {"penstock": fit_penstock, "additive": fit_additive, "log-quadratic": fit_log_quadratic}


def models_named(names: Iterable[str]) -> dict[str, Fit]:
    """Some of them, in their own order; none named: all.

    Raises: UnknownName.
    """
    known, wanted = models(), set(names)
    for name in wanted:
        check_known("model", name, known)
    return {name: fit for name, fit in known.items() if not wanted or name in wanted}
