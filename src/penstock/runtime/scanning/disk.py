"""A disk and what brings its bytes to the computation, as a file: rates that were measured on one machine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from penstock.base.system.files import write_atomic
from penstock.base.system.toml import Strict
from penstock.base.units import RATE_UNITS, SECOND_UNITS, format_rate, format_seconds, parse_quantity
from penstock.errors import MachineError
from penstock.scheme.machines.files import parse_spec
from penstock.scheme.machines.records import FigureSpec


class DiskSpec(Strict):
    """The file."""

    name: str
    title: str = ""
    read: FigureSpec
    checksum: FigureSpec
    decode: FigureSpec
    decode_call: FigureSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """Seconds from a database's file to an operand, stage by stage."""

    name: str
    read_bytes_per_s: float
    """Sequential reads past the page cache."""
    checksum_bytes_per_s: float
    decode_bytes_per_s: float
    """A ciphertext's bytes to the library's object."""
    decode_call_s: float
    """Extra bytes of each entry."""
    source: str

    def read_s(self, size: int) -> float:
        return size / self.read_bytes_per_s

    def checksum_s(self, size: int) -> float:
        return size / self.checksum_bytes_per_s

    def decode_s(self, size: int) -> float:
        return self.decode_call_s + size / self.decode_bytes_per_s

    def write_toml(self, path: Path, *, force: bool = False) -> None:
        """Raises: WouldOverwrite, FileError."""
        lines = [f"name = {json.dumps(self.name)}", 'title = "this disk, and what decodes its bytes"']
        for name, field in _FIELDS.items():
            shown = format_rate if field.endswith("_per_s") else format_seconds
            lines += [
                "",
                f"[{name}]",
                f"value = {json.dumps(shown(getattr(self, field)), ensure_ascii=False)}",
                f"source = {json.dumps(self.source)}",
                'kind = "measured"',
            ]
        write_atomic(path, ("\n".join(lines) + "\n").encode(), force=force)


_FIELDS = {
    "read": "read_bytes_per_s",
    "checksum": "checksum_bytes_per_s",
    "decode": "decode_bytes_per_s",
    "decode_call": "decode_call_s",
}
"""Table of the file -> field of a disk: a rate, or seconds."""


def read_disk(path: Path) -> Disk:
    """The disk in a TOML file.

    Raises: MachineError: the file breaks a rule. FileError: it cannot be read. UnitError: a value without its unit.
    """
    spec = parse_spec(DiskSpec, path, str(path), "a disk file")

    values = {}
    for name, field in _FIELDS.items():
        figure: FigureSpec = getattr(spec, name)
        is_rate = field.endswith("_per_s")
        values[field] = parse_quantity(figure.value, RATE_UNITS if is_rate else SECOND_UNITS, f"{path}: {name}")
        if values[field] == 0 and is_rate:
            raise MachineError(f"{path}: {name} '{figure.value}' is zero; it must be more than zero")
    return Disk(name=spec.name, source=spec.read.source, **values)
