"""An in-storage accelerator at another design: more or fewer lanes, larger scratchpads, other groups of channels.

Areas and powers are published for one design. Each row of the table follows another one by its own law
(`LogicScaling`). Results are `published` at the design of the table, and `scaled` everywhere else.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from penstock.base.units import format_bytes
from penstock.errors import UsageError
from penstock.lab.instorage.machine import Engines, Logic, LogicScaling, UnitAccelerator
from penstock.scheme.machines.figure import Evidence, Figure

MOST_LANES = 1 << 16
"""Of one engine; a transform of the largest ring has no more butterflies in a stage."""
AreaAndPower = Literal["published", "scaled"]


def redesigned(
    accelerator: UnitAccelerator,
    *,
    channels_per_accelerator: int | None = None,
    lanes: int | None = None,
    scratchpad_bytes: int | None = None,
) -> UnitAccelerator:
    """Return the accelerator with another design, its areas and powers scaled; `None` leaves a part unchanged.

    Args:   lanes: of every engine; scratchpad_bytes: of each channel-level accelerator. The drive-level one keeps its
            own.
    Raises: UsageError: a part that is less than one, too many lanes, a scratchpad of another size without a row of
            areas and powers that follows it.
    """
    _check(channels_per_accelerator, lanes, scratchpad_bytes)
    logic = {
        name: _scaled(accelerator, row, lanes, scratchpad_bytes) if row.scales is not LogicScaling.FIXED else row
        for name, row in accelerator.logic.items()
    }
    resized = scratchpad_bytes is not None and scratchpad_bytes != accelerator.scratchpad.value
    if resized and not any(row.scales is LogicScaling.SCRATCHPAD and row.only != "drive" for row in logic.values()):
        raise UsageError(
            f"'{accelerator.name}' has no row of areas and powers for another scratchpad than its own of "
            f'{format_bytes(accelerator.scratchpad.value)}: add a row with scales = "scratchpad" to [logic], or keep '
            "the size"
        )
    return replace(
        accelerator,
        channels_per_accelerator=channels_per_accelerator or accelerator.channels_per_accelerator,
        ntt=_engines(accelerator.ntt, lanes),
        bconv=_engines(accelerator.bconv, lanes),
        modu=_engines(accelerator.modu, lanes),
        scratchpad=accelerator.scratchpad if scratchpad_bytes is None else _given(scratchpad_bytes),
        logic=logic,
    )


def area_and_power(accelerator: UnitAccelerator, lanes: int, scratchpad_bytes: int) -> AreaAndPower:
    """Whether the table of areas and powers is of this design."""
    same = all(engine.lanes == lanes for engine in (accelerator.ntt, accelerator.bconv, accelerator.modu))
    return "published" if same and scratchpad_bytes == accelerator.scratchpad.value else "scaled"


def _check(channels: int | None, lanes: int | None, scratchpad_bytes: int | None) -> None:
    for what, value in (
        ("channels for one accelerator", channels),
        ("lanes", lanes),
        ("bytes of scratchpad", scratchpad_bytes),
    ):
        if value is not None and value < 1:
            raise UsageError(f"{value} {what}: a design has at least 1")
    if lanes is not None and lanes > MOST_LANES:
        raise UsageError(f"{lanes} lanes of one engine: at most {MOST_LANES}, one for each point of the largest ring")


def _engines(engines: Engines, lanes: int | None) -> Engines:
    if lanes is None or lanes == engines.lanes:
        return engines
    return replace(engines, lanes=lanes, source="given", kind=Evidence.ASSUMED)


def _given(size: int) -> Figure:
    return Figure(value=float(size), text=f"{size} B", source="given", kind=Evidence.ASSUMED)


def _scaled(accelerator: UnitAccelerator, row: Logic, lanes: int | None, scratchpad_bytes: int | None) -> Logic:
    if row.scales is LogicScaling.LANES:
        if lanes is None:
            return row
        ratio = lanes / _lanes_of(accelerator, row)
        return replace(row, area_mm2=row.area_mm2 * ratio, watts=row.watts * ratio)
    if scratchpad_bytes is None or row.only == "drive":
        return row
    ratio = scratchpad_bytes / accelerator.scratchpad.value
    area, power = _exponents(accelerator, row)
    return replace(row, area_mm2=row.area_mm2 * ratio**area, watts=row.watts * ratio**power)


def _lanes_of(accelerator: UnitAccelerator, row: Logic) -> int:
    """Lanes that the row is published for; rows without engines feed the transforms."""
    engines = {"bconv": accelerator.bconv, "modu": accelerator.modu}.get(row.engine or "", accelerator.ntt)
    return engines.lanes


def _exponents(accelerator: UnitAccelerator, row: Logic) -> tuple[float, float]:
    """Exponents of area and power over bytes, from the two scratchpads of the table; 1 where there is one size."""
    here, there = accelerator.scratchpad.value, accelerator.drive_scratchpad.value
    other = next(
        (
            logic
            for logic in accelerator.logic.values()
            if logic.scales is LogicScaling.SCRATCHPAD and logic.only == "drive"
        ),
        None,
    )
    if other is None or here == there:
        return 1.0, 1.0
    of_bytes = math.log(there / here)
    return math.log(other.area_mm2 / row.area_mm2) / of_bytes, math.log(other.watts / row.watts) / of_bytes
