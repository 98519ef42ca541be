"""The comparison of an encrypted result with the clear one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
