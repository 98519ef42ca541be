"""The comparison of an encrypted result with the clear one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from penstock.base.arrays import Floats
from penstock.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """An encrypted result held against the clear one."""

    passed: bool
    max_abs_error: float
    tolerance: float
    numbers: dict[str, float] = field(default_factory=dict)
    """More that the workload measures: accuracies, chance."""
    rules: tuple[str, ...] = ()
    """The rules that were checked, in words, each with its outcome."""

    @classmethod
    def of(
        cls, outcome: Mapping[str, bool], error: float, tolerance: float, numbers: dict[str, float] | None = None
    ) -> Check:
        """Passed where every rule of `outcome` (in words -> whether it holds) does."""
        return cls(
            passed=all(outcome.values()),
            max_abs_error=error,
            tolerance=tolerance,
            numbers=numbers or {},
            rules=tuple(f"{rule}: {'holds' if held else 'does not hold'}" for rule, held in outcome.items()),
        )

    @classmethod
    def near(
        cls,
        what: str,
        clear: Floats,
        got: Floats,
        tolerance: float,
        others: Mapping[str, bool] | None = None,
        numbers: dict[str, float] | None = None,
    ) -> Check:
        """Passed where `what` differ by at most the tolerance, and all other rules hold."""
        error = float(np.max(np.abs(clear - got)))
        rule = f"{what} differ by at most {tolerance:g}"
        return cls.of({rule: error <= tolerance, **(others or {})}, error, tolerance, numbers)


def refuse_path(path: Path | None, name: str, why: str) -> None:
    """Raises: UsageError: a path, where a workload takes no input of the user's."""
    if path is not None:
        raise UsageError(f"{name} takes no --data: {why}")


def check_series(
    clear: Floats,
    got: Floats,
    exact: Floats,
    tolerance: float,
    fit: float,
) -> Check:
    """A function at every point by a series: encrypted near clear, and clear near the function itself."""
    miss = float(np.max(np.abs(clear - exact)))
    others = {f"the series is within {fit:g} of the function": miss <= fit}
    return Check.near("values", clear, got, tolerance, others, {"max_abs_error_of_series": miss})
