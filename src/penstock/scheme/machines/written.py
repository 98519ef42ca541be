"""A machine as the text of its file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.base.system import toml
from penstock.base.system.files import write_atomic
from penstock.base.types import RowView
from penstock.scheme.machines.records import MachineSpec
from penstock.scheme.machines.schema import Machine
from penstock.scheme.machines.spec import spec_of


def machine_toml(machine: Machine) -> str:
    """Return the machine file's text; `load_machine` reads it back."""
    return spec_toml(spec_of(machine))


def write_machine(machine: Machine, path: Path, *, force: bool = False) -> None:
    """Write the machine file; it appears when it is whole.

    Raises: WouldOverwrite: `path` exists and not `force`. FileError: the file system refused.
    """
    write_atomic(path, machine_toml(machine).encode(), force=force)


def spec_toml(spec: MachineSpec) -> str:
    """The machine file. A table inside a table is written inline; a list of tables has a heading for each."""
    record = spec.model_dump(exclude_none=True, exclude_defaults=True)
    lines = _plain(record)
    for name, table in record.items():
        if not isinstance(table, Mapping):
            continue
        lines += ["", f"[{toml.key(name)}]", *_plain(table), *(toml.line(k, v) for k, v in _tables(table))]
        for key, rows in table.items():
            if _is_rows(rows):
                for row in rows:
                    inline = [toml.line(k, v) for k, v in _tables(row)]
                    lines += ["", f"[[{toml.key(name)}.{toml.key(key)}]]", *_plain(row), *inline]
    return "\n".join(lines) + "\n"


def _plain(table: RowView) -> list[str]:
    return [toml.line(k, v) for k, v in table.items() if not isinstance(v, Mapping) and not _is_rows(v)]


def _tables(table: RowView) -> list[tuple[str, RowView]]:
    return [(k, v) for k, v in table.items() if isinstance(v, Mapping)]


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)
