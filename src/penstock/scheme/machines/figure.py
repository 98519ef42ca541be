"""One value of a machine, a tier, a network or a drive, and how far it can be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import ClassVar

from penstock.scheme.operations import Word


class Evidence(Word):
    """How far a value can be trusted."""

    DATASHEET = "datasheet"
    """Stated by a datasheet or a paper."""
    MEASURED = "measured"
    CALIBRATED = "calibrated"
    """Chosen so that the model meets a stated measurement; `source` says which."""
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One checked value: in base units, its original text, and its source."""

    value: float
    text: str
    source: str
    kind: Evidence


def stated(part: object, names: Iterable[str], prefix: str = "") -> Iterator[tuple[str, Figure]]:
    """The figures of these fields that are known, each with its path in a file."""
    for name in names:
        figure = getattr(part, name)
        if isinstance(figure, Figure):
            yield f"{prefix}{name}", figure


@dataclass(frozen=True)
class Stated:
    """A part whose figures are fields of its own; some may be missing."""

    __slots__ = ()
    _PATH: ClassVar[str] = ""
    """What its fields are under in a file."""

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Every value with its path in the file."""
        return stated(self, (field.name for field in fields(self)), self._PATH)
