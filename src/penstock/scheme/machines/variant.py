"""A machine file that names a `base`: a shipped machine with some values changed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

from penstock.base.system import toml
from penstock.base.types import Row, RowView
from penstock.errors import MachineError, UnknownName

BASE = "base"
_OF_THE_BASE_ALONE = ("name", "title", "description", "disputed")
_FIGURE = {"value", "source", "kind"}


def with_base(written: RowView, where: str) -> Row:
    """The table of a machine file with what it leaves to its `base`; without one, as it is.

    A value that is written here takes the place of the base's; without a source it is `assumed`. A value that was
    calibrated for the base is `assumed` for its variant.

    Raises: MachineError: the base is not a shipped machine, with the nearest.
    """
    own = dict(written)
    if BASE not in own:
        return own
    base = str(own.pop(BASE))
    folder = resources.files("penstock.scheme.machines").joinpath("data").joinpath("machines")
    names = sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))
    if base not in names:
        raise MachineError(f"{where}: base: {UnknownName('machine', base, names)}")
    file = f"machines/{base}.toml"
    of_base = toml.table(folder.joinpath(f"{base}.toml").read_bytes(), file, "a machine file", MachineError)
    for name in _OF_THE_BASE_ALONE:
        of_base.pop(name, None)
    merged = _merged(_assumed(of_base, base), own, base)
    merged.setdefault("title", f"{own.get('name', 'a machine')}, a variant of {base}")
    return merged


def _assumed(table: RowView, base: str) -> Row:
    """The base's table, with what was calibrated for it alone as assumed."""
    assumed: Row = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            value = _assumed(value, base)
            if value.get("kind") == "calibrated":
                value |= {"kind": "assumed", "source": f"as calibrated for machine '{base}': {value['source']}"}
        assumed[name] = value
    return assumed


def _merged(table: RowView, own: RowView, base: str) -> Row:
    merged = dict(table)
    for name, value in own.items():
        before = merged.get(name)
        if isinstance(value, Mapping) and "value" in value and value.keys() <= _FIGURE:
            of = "of this file"
            if isinstance(before, Mapping) and "value" in before:
                of += f", where machine '{base}' has {before['value']}"
            merged[name] = {"source": of, "kind": "assumed", **value}
        elif isinstance(value, Mapping) and isinstance(before, Mapping):
            merged[name] = _merged(before, value, base)
        else:
            merged[name] = value
    return merged
