"""One change and its gain, and the list of them for one question, the best first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.base.types import Row, RowView
from penstock.base.units import format_named
from penstock.scheme.unpriced import UNKNOWN, reason

KINDS = {
    "tier": "faster tier",
    "cache": "more cache",
    "policy": "another policy",
    "prefetch": "prefetch",
    "key-form": "other form of keys",
    "parameters": "other parameters",
    "threads": "more threads",
    "rewriting": "rewriting",
    "tenants": "fewer tenants",
    "software": "software alone",
}
"""Kinds of changes -> as a table names them. `software`: policy, prefetch and key form together."""
LEAST_GAIN = 1.01
"""A change that helps less is not listed."""
ENOUGH = 1.05
"""Of changes in steps: the first whose figure is at most so many times the best one."""


_COLUMNS = ("figure", "before", "after", "gain", "command", "note", "provenance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One change, computed."""

    kind: str
    """Of `KINDS`."""
    says: str
    """The change in words."""
    figure: str
    """The column of the command's rows that the gain is of: `total_s`, `tenant_slowdown`, `predicted_s`, …"""
    before: float
    after: float
    command: str | None
    """Prints a row with `after`; `None`: the program is not in a file."""
    provenance: str
    changes: RowView = field(default_factory=dict)
    """Words of the question -> their other values."""
    note: str = ""
    """A condition of the change, or what makes it less than it seems."""

    @property
    def gain(self) -> float:
        """`before / after`: 2 is twice as fast, or half as many bytes; 1 where both are nothing."""
        if self.after:
            return self.before / self.after
        return float("inf") if self.before else 1.0

    def to_row(self) -> Row:
        """A flat row."""
        return {
            "kind": self.kind,
            "change": self.says,
            **{name: getattr(self, name) for name in _COLUMNS},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The remedies of one question."""

    about: str
    """The question in words."""
    figure: str
    before: float | None
    """`None`: unknown, and no change can be held against it."""
    provenance: str
    remedies: tuple[Remedy, ...]
    """The largest gain first; gains of bytes follow gains of time."""
    without_gain: tuple[str, ...] = ()
    """Kinds that were tried and gain less than 1 %."""
    not_tried: tuple[str, ...] = ()
    """Kinds that were left out, each with the reason."""

    @property
    def now(self) -> str:
        """The figure before any change, in words."""
        return UNKNOWN if self.before is None else format_named(self.figure, self.before)

    def to_dict(self) -> Row:
        """As `--advice` prints it in JSON."""
        return {
            **{name: getattr(self, name) for name in ("about", "figure", "before", "provenance")},
            "remedies": [remedy.to_row() for remedy in self.remedies],
            "without_gain": list(self.without_gain),
            "not_tried": list(self.not_tried),
        }


def ranked(
    about: str,
    figure: str,
    before: float,
    provenance: str,
    candidates: Iterable[Remedy],
    tried: Iterable[str],
    not_tried: Sequence[str] = (),
) -> Advice:
    """The advice on a question.

    Args:   candidates: remedies of any gain, in any order; tried: kinds that had a candidate.
    """
    helping = [remedy for remedy in candidates if remedy.gain >= LEAST_GAIN]
    helping.sort(key=lambda remedy: (remedy.figure.endswith("_bytes"), -remedy.gain, remedy.kind, remedy.says))
    kinds = {remedy.kind for remedy in helping}
    return Advice(
        about=about,
        figure=figure,
        before=before,
        provenance=provenance,
        remedies=tuple(helping),
        without_gain=tuple(kind for kind in dict.fromkeys(tried) if kind not in kinds),
        not_tried=tuple(not_tried),
    )


def unknown(about: str, figure: str, provenance: str, unpriced: Mapping[str, int]) -> Advice:
    """The advice on a question whose figure misses operations without a price."""
    why = f"every change: what it gains is unknown, as {reason(unpriced)}"
    return Advice(about=about, figure=figure, before=None, provenance=provenance, remedies=(), not_tried=(why,))


def steps(candidates: Sequence[Remedy], enough: float = ENOUGH) -> list[Remedy]:
    """Of changes from the smallest to the largest: the first that helps, and the first that is about as good as all."""
    helping = [remedy for remedy in candidates if remedy.gain >= LEAST_GAIN]
    if not helping:
        return []
    best = min(remedy.after for remedy in helping)
    first, last = helping[0], next(remedy for remedy in helping if remedy.after <= enough * best)
    return [first] if first is last else [first, last]


def best(candidates: Sequence[Remedy], enough: float = 1.0) -> list[Remedy]:
    """The change that helps most, or the first that is about as good."""
    return steps(candidates, enough)[-1:]
