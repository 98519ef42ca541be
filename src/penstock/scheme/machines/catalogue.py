"""Machines and tiers by name, path or quantity. One TOML file under `data/` is one entry."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from penstock.base.system import toml
from penstock.base.types import RowView
from penstock.base.units import parse_rate
from penstock.errors import MachineError, UnknownName
from penstock.scheme.machines.figure import Evidence
from penstock.scheme.machines.files import Shelf, parse_spec, told_apart
from penstock.scheme.machines.records import MachineSpec, TierSpec
from penstock.scheme.machines.schema import Machine, Tier
from penstock.scheme.machines.spec import machine_from_spec, tier_from_spec
from penstock.scheme.machines.variant import with_base

FITTED_MACHINE = "this-cpu"
"""The name of the machine that a run fits to its own timings; it is in run folders, not in the catalogue."""
STUDY_TIERS = ("hbm", "ddr5", "pcie5", "rdma")
"""The tiers of the storage-I/O study, fastest first."""

_STARTS_WITH_A_NUMBER = re.compile(r"^\s*[+-]?\.?\d")
_ENDS_WITH_A_RATE = re.compile(r"\s[kKMGTP]?i?[bB]/s\s*$")


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
        return _tier(Path(text), str(text))
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


def load_machines(names: Iterable[str | Path | Machine]) -> list[Machine]:
    """Several machines, by name or as values; the same words twice count once.

    Raises: as `load_machine`; UsageError: two different files name their machine alike, which no row could tell apart.
    """
    given = list(names)
    machines = (machine if isinstance(machine, Machine) else load_machine(machine) for machine in given)
    return told_apart(dict(zip(_said(given), machines, strict=True)), "machine")


def load_tiers(names: Iterable[str | Path | Tier]) -> list[Tier]:
    """Several tiers; as `load_machines`."""
    given = list(names)
    tiers = (tier if isinstance(tier, Tier) else load_tier(tier) for tier in given)
    return told_apart(dict(zip(_said(given), tiers, strict=True)), "tier")


def _said(given: Iterable[str | Path | Machine | Tier]) -> list[str]:
    """The user's text for each: its name or path, or a value, which is unique."""
    return [str(named) if isinstance(named, str | Path) else f"value {i + 1}" for i, named in enumerate(given)]


def read_machine(path: Path) -> Machine:
    """The machine in a TOML file, which may be a variant of a Shelf one (`base`)."""
    where = str(path)
    table = with_base(toml.table(path, where, "a machine file", MachineError), where)
    return _machine(table, where)


def _tier(written: RowView | Path, where: str) -> Tier:
    return tier_from_spec(parse_spec(TierSpec, written, where, "a tier file"), where)


def _is_path(text: object) -> bool:
    if not isinstance(text, str | Path):
        raise MachineError(f"{text!r}"[:60] + ": a machine or a tier is a name, a .toml file, or (of a tier) '7 GB/s'")
    if isinstance(text, str) and _ENDS_WITH_A_RATE.search(text):
        return False
    # A bandwidth ("3.5 GB/s") has a slash too, but starts with a number and does not end in .toml.
    if isinstance(text, Path) or text.endswith(".toml"):
        return True
    return "/" in text and not _STARTS_WITH_A_NUMBER.match(text)


def _machine(written: RowView | Path, where: str) -> Machine:
    return machine_from_spec(parse_spec(MachineSpec, written, where), where)


_machines = Shelf("machines", "machine", _machine)
_tiers = Shelf("tiers", "tier", _tier)
