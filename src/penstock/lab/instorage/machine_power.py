"""Area, power and energy of in-storage accelerators from synthesis results, under each reading of their table.

A table of areas and powers does not always say how often each row is there. Three readings, by name; a budget is
checked under each, and what breaks it is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.lab.instorage.machine import Logic, UnitAccelerator
from penstock.scheme.operations import Word


class Multiplicity(Word):
    """The number of instances of a row of a table of areas and powers."""

    ENGINE = "per-engine"
    """A row is one engine: an accelerator has as many as it has engines, and every accelerator has all rows. This is
    the literal reading of FHEIns' text: "for each FU, the overhead is synthesized"."""
    ACCELERATOR = "per-accelerator"
    """A row is all that an accelerator has of it."""
    DRIVE = "per-drive"
    """A row counts all instances in the drive, as the table is printed, each row once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What the accelerators of one drive take, under one reading."""

    accelerators: int
    """Channel-level ones; the drive-level one comes on top."""
    area: Mapping[str, float]
    """Square millimetres of each row."""
    power: Mapping[str, float]
    """Watts of each row."""

    @property
    def area_mm2(self) -> float:
        return sum(self.area.values())

    @property
    def watts(self) -> float:
        return sum(self.power.values())


def footprint(accelerator: UnitAccelerator, channels: int, multiplicity: Multiplicity) -> Footprint:
    """Area and power of the accelerators of a drive with so many channels, the drive-level one included.

    Raises: UsageError: the channels do not divide into groups.
    """
    groups = accelerator.on(channels)
    area, power = {}, {}
    for name, row in accelerator.logic.items():
        count = _count(accelerator, row, groups, multiplicity)
        area[name], power[name] = count * row.area_mm2, count * row.watts
    return Footprint(accelerators=groups, area=area, power=power)


def _count(accelerator: UnitAccelerator, row: Logic, groups: int, multiplicity: Multiplicity) -> int:
    if multiplicity is Multiplicity.DRIVE:
        return 1
    where = {"channel": groups, "drive": 1, None: groups + 1}[row.only]
    engines = 1
    if multiplicity is Multiplicity.ENGINE and row.engine is not None:
        engines = {"ntt": accelerator.ntt, "bconv": accelerator.bconv, "modu": accelerator.modu}[row.engine].count
    return where * engines
