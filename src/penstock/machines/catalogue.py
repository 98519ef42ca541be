"""Machines and tiers by name, path or quantity. One TOML file under `data/` is one entry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from penstock.errors import MachineError, UnknownName, UsageError
from penstock.machines.figure import Evidence
from penstock.machines.records import MachineSpec, TierSpec
from penstock.machines.schema import Machine, Tier
from penstock.machines.spec import machine_from_spec, parse_spec, tier_from_spec
from penstock.system import toml
from penstock.system.files import os_errors
from penstock.units import parse_rate

FITTED_MACHINE = "this-cpu"
"""The name of the machine that a run fits to its own timings; it is in run folders, not in the catalogue."""
STUDY_TIERS = ("hbm", "ddr5", "pcie5", "rdma")
"""The tiers of the storage-I/O study, fastest first."""

_STARTS_WITH_A_NUMBER = re.compile(r"^\s*[+-]?\.?\d")
_ENDS_WITH_A_RATE = re.compile(r"\s[kKMGTP]?i?[bB]/s\s*$")
Named = TypeVar("Named", Machine, Tier)


def machine_names() -> list[str]:
    """Names of the machines that come with penstock."""
    return sorted(_machines())


def tier_names() -> list[str]:
    """Names of the tiers that come with penstock, fastest first."""
    tiers = _tiers()
    return sorted(tiers, key=lambda name: (-tiers[name].bandwidth_bytes_per_s, name))


def load_machine(name_or_path: str | Path) -> Machine:
    """The machine of that name, or in that TOML file.

    Raises: UnknownName: no such machine, with the nearest name; MachineError: the file breaks a rule;
            FileError: the file cannot be read.
    """
    if _is_path(name_or_path):
        return read_machine(Path(name_or_path))
    machines = _machines()
    name = str(name_or_path)
    if name not in machines:
        if name == FITTED_MACHINE:
            raise MachineError(
                f"machine '{FITTED_MACHINE}' is fitted to a run's own timings: run 'penstock analyze WORKLOAD' first, "
                "then name the machine file in its run folder"
            )
        raise UnknownName("machine", name, machines)
    return machines[name]


def load_tier(text: str | Path) -> Tier:
    """The tier of that name, in that TOML file, or with that bandwidth: `"3.5 GB/s"` is a tier of your own.

    Raises: UnknownName: no such tier, with the nearest name; UnitError: a bandwidth without a unit, or zero;
            MachineError: the file breaks a rule; FileError: the file cannot be read.
    >>> load_tier("3.5 GB/s").bandwidth_bytes_per_s
    3500000000.0
    """
    if _is_path(text):
        return read_tier(Path(text))
    name = str(text)
    tiers = _tiers()
    if name in tiers:
        return tiers[name]
    if _STARTS_WITH_A_NUMBER.match(name) or _ENDS_WITH_A_RATE.search(name):
        return Tier(
            name=" ".join(name.split()),
            title=f"a tier of {' '.join(name.split())}",
            bandwidth_bytes_per_s=parse_rate(name, "tier bandwidth"),
            latency_s=0.0,
            energy_j_per_byte=None,
            source="given by the user",
            kind=Evidence.ASSUMED,
        )
    raise UnknownName("tier", name, tiers)


def load_machines(names: Iterable[str]) -> list[Machine]:
    """Several machines; the same words twice count once.

    Raises: as `load_machine`; UsageError: two different files name their machine alike, which no row could tell apart.
    """
    return _told_apart({text: load_machine(text) for text in names}, "machine")


def load_tiers(names: Iterable[str]) -> list[Tier]:
    """Several tiers; as `load_machines`."""
    return _told_apart({text: load_tier(text) for text in names}, "tier")


def _told_apart(found: Mapping[str, Named], what: str) -> list[Named]:
    by_name: dict[str, str] = {}
    for text, entry in found.items():
        other = by_name.setdefault(entry.name, text)
        if other != text:
            raise UsageError(
                f"two {what}s are named '{entry.name}' ({other} and {text}): results could not be told apart; "
                "change 'name' in one of the files"
            )
    return list(found.values())


def read_machine(path: Path) -> Machine:
    """The machine in a TOML file."""
    return machine_from_spec(parse_spec(MachineSpec, _read(path, "machine"), str(path)), str(path))


def read_tier(path: Path) -> Tier:
    """The tier in a TOML file."""
    return tier_from_spec(parse_spec(TierSpec, _read(path, "tier"), str(path)), str(path))


def _is_path(text: str | Path) -> bool:
    if isinstance(text, str) and _ENDS_WITH_A_RATE.search(text):
        return False
    # A bandwidth ("3.5 GB/s") has a slash too, but starts with a number and does not end in .toml.
    if isinstance(text, Path) or text.endswith(".toml"):
        return True
    return "/" in text and not _STARTS_WITH_A_NUMBER.match(text)


def _read(path: Path, what: str) -> Mapping[str, Any]:
    with os_errors(path, "read"):
        content = path.read_bytes()
    return _parsed(content, str(path), what)


def _parsed(content: bytes, where: str, what: str) -> Mapping[str, Any]:
    try:
        return toml.loads(content.decode())
    except (toml.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MachineError(f"{where}: a {what} file is TOML, and this is not: {error}") from error


def _data(folder: str) -> list[tuple[str, Mapping[str, Any]]]:
    """(file name, content) of every record of one folder under `data/`."""
    found = []
    for entry in resources.files("penstock.machines").joinpath("data").joinpath(folder).iterdir():
        if entry.name.endswith(".toml"):
            where = f"{folder}/{entry.name}"
            found.append((where, _parsed(entry.read_bytes(), where, folder)))
    return sorted(found, key=lambda item: item[0])


@lru_cache(maxsize=1)
def _machines() -> dict[str, Machine]:
    found: dict[str, Machine] = {}
    for where, record in _data("machines"):
        machine = machine_from_spec(parse_spec(MachineSpec, record, where), where)
        _register(found, machine.name, machine, where, "machine")
    return found


@lru_cache(maxsize=1)
def _tiers() -> dict[str, Tier]:
    found: dict[str, Tier] = {}
    for where, record in _data("tiers"):
        tier = tier_from_spec(parse_spec(TierSpec, record, where), where)
        _register(found, tier.name, tier, where, "tier")
    return found


def _register(found: dict[str, Any], name: str, entry: Any, where: str, what: str) -> None:
    if name in found:
        raise MachineError(f"{where}: a {what} named '{name}' is registered already; give this one another name")
    if Path(where).stem != name:
        raise MachineError(f"{where}: the {what} is named '{name}'; name the file '{name}.toml'")
    found[name] = entry
