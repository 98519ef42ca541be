"""`run.json`: the configuration of a run, where and when it ran, and with which versions."""

from __future__ import annotations

import json
import os
import platform
from datetime import datetime, timezone
from pathlib import Path

from penstock.base.system.host import host_description, installed_version, source_commit
from penstock.base.system.outside import content_of, json_of, reason
from penstock.base.system.plain import plain
from penstock.base.types import Row, RowView
from penstock.base.version import __version__
from penstock.errors import PenstockError

SCHEMA_VERSION = 1
_NOT_IDENTITY = frozenset({"command"})
_WORDS = {str: "a text", dict: "a table", list: "a list", int: "a whole number", float: "a number"}
_TYPES: dict[str, type] = {
    "started": str, "host": dict, "host.cpu_model": str, "host.cores": int, "host.memory_bytes": float,
    "config.machines": list, "config.num_points": int,
}  # fmt: skip
"""Of values that readers compute with, where they are there and not null."""
_TABLES = {"warnings": ("what", "remedy"), "skipped": ("what", "why"), "assumptions": ()}
"""Lists of tables, with the texts that each table has."""


class DamagedRun(PenstockError):
    """A run folder whose `run.json` cannot be read."""


def timestamp() -> str:
    """The time, as records write it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def new_record(config: RowView) -> Row:
    """The facts known at the start of a run."""
    written: Row = plain(config)
    return {
        "schema_version": SCHEMA_VERSION,
        "id": os.urandom(8).hex(),
        "config": written,
        "penstock_version": __version__,
        "commit": source_commit(),
        "openfhe_version": installed_version("openfhe"),
        "python_version": platform.python_version(),
        "host": host_description(),
        "threads": written.get("threads"),
        "seed": written.get("seed"),
        "started": timestamp(),
        "warnings": [],
    }


def read_record(path: Path) -> Row:
    """The record of a run folder.

    Raises: DamagedRun: it cannot be read, or a later penstock wrote it.
    """
    file = path / "run.json"
    text = content_of(file)
    try:
        record = json_of(text)
        if not isinstance(record, dict) or not isinstance(record.get("config"), dict):
            raise ValueError("it holds no configuration")
        version = record.get("schema_version")
        if not isinstance(version, int) or isinstance(version, bool):
            raise ValueError("it names no schema version")
        if version <= SCHEMA_VERSION:
            _check_types(record)
    except ValueError as error:
        raise DamagedRun(
            f"{file} cannot be read ({reason(error)}); use --force to start the run again, or name another folder"
        ) from error
    if version > SCHEMA_VERSION:
        raise DamagedRun(
            f"{file} has schema version {version}, and this penstock reads up to {SCHEMA_VERSION}; update penstock"
        )
    return record


def read_ended(path: Path) -> Row:
    """The facts that a finished run left in `.complete` of its folder.

    Raises: DamagedRun: it cannot be read, or holds something else. FileError.
    """
    file = path / ".complete"
    text = content_of(file)
    try:
        ended = json_of(text)
        if not isinstance(ended, dict):
            raise ValueError("it holds no object")
    except ValueError as error:
        raise DamagedRun(
            f"{file} cannot be read ({reason(error)}): it was changed or damaged; delete it and run the same "
            "command again, which checks what is there"
        ) from error
    return ended


def _check_types(record: RowView) -> None:
    """Raises: ValueError: a value that is of another type than it is written with."""
    for path, wanted in _TYPES.items():
        section, _, name = path.rpartition(".")
        value = (record.get(section, {}) if section else record).get(name)
        if value is not None:
            _check_type(path, value, wanted)
    for name, texts in _TABLES.items():
        entries = record.get(name)
        if entries is not None:
            _check_type(name, entries, list)
        for i, entry in enumerate(entries or []):
            _check_type(f"{name}[{i}]", entry, dict)
            for text in texts:
                _check_type(f"{name}[{i}].{text}", entry.get(text), str)
            if "points" in entry:  # of a sweep
                _check_type(f"{name}[{i}].points", entry["points"], int)


def _check_type(path: str, value: object, wanted: type) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float) if wanted is float else wanted):
        raise ValueError(f"'{path}' is {str(value)[:60]!r}; a run writes {_WORDS[wanted]} there")


def identity(config: RowView) -> Row:
    """The identity of a run: the configuration as JSON, without its spelling on the command line."""
    identity: Row = json.loads(
        json.dumps(plain({k: v for k, v in config.items() if k not in _NOT_IDENTITY}), sort_keys=True)
    )
    return identity


def differences(old: RowView, new: RowView) -> list[str]:
    """`name: old, now new` of every entry that differs."""
    before, after = identity(old), identity(new)
    unset = object()
    return [
        f"{name}: {_shown(before.get(name, unset), unset)} there, {_shown(after.get(name, unset), unset)} now"
        for name in sorted({*before, *after})
        if before.get(name, unset) != after.get(name, unset)
    ]


def _shown(value: object, unset: object) -> str:
    text = "not set" if value is unset else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def json_bytes(value: object) -> bytes:
    """`value` as an indented JSON file. A lone surrogate, from a path that is not UTF-8, becomes JSON's escape for
    it."""
    text = json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode(errors="backslashreplace")
