"""The models that every table of validation compares, by name."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.lab.prediction.models import Fit, fit_penstock
from penstock.lab.prediction.validation.baselines import fit_additive, fit_log_quadratic


def models() -> Mapping[str, Fit]:
    """The models by name, ours first."""
    return {"penstock": fit_penstock, "additive": fit_additive, "log-quadratic": fit_log_quadratic}
