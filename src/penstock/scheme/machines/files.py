"""What all files of this package share: figures with unit and source, names, choices, and the records under `data/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cached_property
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

from pydantic import BaseModel

from penstock.base.system import toml
from penstock.base.types import RowView
from penstock.base.units import parse_quantity
from penstock.errors import MachineError, UnitError, UnknownName, UsageError, check_known
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.records import FigureSpec, Units


class _WithName(Protocol):
    @property
    def name(self) -> str: ...


Model = TypeVar("Model", bound=BaseModel)
Named = TypeVar("Named", bound=_WithName)
Choice = TypeVar("Choice", bound=Enum)


def parse_spec(model: type[Model], written: RowView | Path, where: str, what: str = "this file") -> Model:
    """A table, or the one in a TOML file, as a spec; the first thing that is wrong is named with its field.

    Raises: MachineError: a key that is missing, unknown (with the nearest known one) or of another type.
            FileError: the file cannot be read.
    """
    return toml.checked(model, written, where, what, MachineError)


class Shelf(Generic[Named]):
    """The records of one folder under `data/`, by name; a file has the name of its record.

    Args:   what: the kind of record, "drive"; read: the record of a table or of a file, given its name for messages;
            package: whose `data/` it is.
    """

    def __init__(
        self, folder: str, what: str, read: Callable[..., Named], package: str = "penstock.scheme.machines"
    ) -> None:
        self._folder, self._what, self._read, self._package = folder, what, read, package

    def __call__(self) -> dict[str, Named]:
        """Those that come with penstock."""
        return self._shipped

    @cached_property
    def _shipped(self) -> dict[str, Named]:
        folder, what, records = self._folder, self._what, {}
        entries = resources.files(self._package).joinpath("data").joinpath(folder).iterdir()
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.endswith(".toml"):
                where = f"{folder}/{entry.name}"
                one = self._read(toml.table(entry.read_bytes(), where, f"a {what} file", MachineError), where)
                if f"{one.name}.toml" != entry.name:
                    raise MachineError(f"{where}: the {what} is named '{one.name}'; name the file '{one.name}.toml'")
                records[one.name] = one
        return records

    def load(self, name_or_path: str | Path) -> Named:
        """The record of that name, or in the file of a path or a text that looks like one.

        Raises: UnknownName: no such record, with the nearest; what `read` raises.
        """
        text = str(name_or_path)
        if isinstance(name_or_path, Path) or text.endswith(".toml") or "/" in text:
            return self._read(Path(name_or_path), text)
        check_known(self._what, text, self())
        return self()[text]


def figures(
    spec: BaseModel, where: str, table: str = "", more: Mapping[str, Mapping[str, float]] = MappingProxyType({})
) -> dict[str, Figure]:
    """The checked figures of a table that its file states, by field.

    Args:   table: its path with a dot, "architecture."; more: field -> units besides those that the model has.
    Raises: MachineError: as `figure`.
    """
    return {
        name: figure(written, where, f"{table}{name}", {**units.factors, **more.get(name, {})}, positive=units.positive)
        for name, field in type(spec).model_fields.items()
        for units in field.metadata
        if isinstance(units, Units) and (written := getattr(spec, name)) is not None
    }


SMALLEST, LARGEST = 1e-36, 1e36
"""Bounds of a value that is not zero, in base units; sums and products of such values stay finite."""


def figure(spec: FigureSpec, where: str, what: str, units: Mapping[str, float], *, positive: bool = False) -> Figure:
    """The checked figure: its value has one of these units, and it states where it comes from.

    Raises: MachineError: no unit or an unknown one, a negative value, zero where it must be `positive`, a value
            beyond all machines, no source, an unknown kind.
    """
    try:
        value = parse_quantity(spec.value, dict(units), what)
    except UnitError as error:
        raise MachineError(f"{where}: {error}") from error
    if positive and value == 0:
        raise MachineError(f"{where}: {what} '{spec.value}' is zero; it must be more than zero")
    if value and not SMALLEST <= value <= LARGEST:
        raise MachineError(
            f"{where}: {what} '{spec.value}' cannot be right: no value is below {SMALLEST:g} or above {LARGEST:g} in "
            "bytes, seconds or operations; check its digits and its unit"
        )
    return sourced(spec, value, where, what)


def sourced(spec: FigureSpec, value: float, where: str, what: str) -> Figure:
    """The figure of this value; source and kind are checked.

    Raises: MachineError: no source, an unknown kind.
    """
    if not spec.source.strip():
        raise MachineError(f"{where}: {what} has no source; name the document, page or measurement that it comes from")
    kind = choice(Evidence, spec.kind, f"{where}: {what}", "kind")
    return Figure(value=value, text=spec.value, source=spec.source, kind=kind)


def choice(kind: type[Choice], text: str, where: str, what: str) -> Choice:
    """The member of `kind` that is written so.

    Raises: MachineError: there is none, with the nearest.
    """
    try:
        return kind(text)
    except ValueError:
        known = [str(member.value) for member in kind]
        raise MachineError(f"{where}: {UnknownName(what, text, known)}") from None


def check_name(name: str, where: str, what: str) -> None:
    """Raises: MachineError: an empty name, or one that a line of a table or of a file cannot hold."""
    if not name.strip():
        raise MachineError(f"{where}: name is empty; give the {what} a name")
    if not name.isprintable():
        raise MachineError(f"{where}: name {name!r} has a line break or another character that is not printed")


def told_apart(named: Mapping[str, Named], what: str) -> list[Named]:
    """What several texts name.

    Raises: UsageError: two of them are different files of one name, which no row could tell apart.
    """
    by_name: dict[str, str] = {}
    for text, entry in named.items():
        other = by_name.setdefault(entry.name, text)
        if other != text:
            raise UsageError(
                f"two {what}s are named '{entry.name}' ({other} and {text}): results could not be told apart; "
                "change 'name' in one of the files"
            )
    return list(named.values())
