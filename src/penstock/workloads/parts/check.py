"""The comparison of an encrypted result with the clear one."""

from __future__ import annotations

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
