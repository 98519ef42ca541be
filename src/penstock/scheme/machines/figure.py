"""One value of a machine, a tier, a network or a drive, and how far it can be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
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


UNNAMED = ("figure", "costs", "factors")
"""Fields that a file does not name: what they hold is under the path of their part."""


def figures_in(part: object, path: str) -> Iterator[tuple[str, Figure]]:
    """The known figures of a part of a file and of the parts inside of it, each with its path."""
    if isinstance(part, Figure):
        yield path, part
        return
    inside: Mapping[object, object] = part if isinstance(part, Mapping) else {}
    if is_dataclass(part):
        inside = {field.name: getattr(part, field.name) for field in fields(part) if field.init}
    for name, value in inside.items():
        yield from figures_in(value, path if name in UNNAMED else f"{path}.{name}".removeprefix("."))


@dataclass(frozen=True)
class Stated:
    """A part of a file with figures; some may be missing."""

    __slots__ = ()
    _PATH: ClassVar[str] = ""
    """What its fields are under in a file."""

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Every value with its path in the file."""
        return figures_in(self, self._PATH)
