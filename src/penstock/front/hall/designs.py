"""Designs of accelerators in a drive, of the options of a front end."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.base.system.progress import Progress
from penstock.base.types import Row, RowView
from penstock.base.units import (
    BYTE_UNITS,
    MM2_UNITS,
    RATE_UNITS,
    WATT_UNITS,
    parse_bytes,
    parse_quantity,
    parse_rate,
)
from penstock.errors import UnknownName
from penstock.lab.instorage.design_space import default_axes, with_axes
from penstock.lab.instorage.drive import DriveRates, drive_rates
from penstock.lab.instorage.engine import played_design
from penstock.lab.instorage.front import Budget
from penstock.lab.instorage.machine import UnitAccelerator
from penstock.lab.instorage.machine_power import Multiplicity
from penstock.lab.instorage.machine_spec import load_units
from penstock.lab.instorage.named import named_query
from penstock.lab.instorage.policies import HOST_POLICIES, Contention
from penstock.lab.instorage.queries import Inside
from penstock.lab.instorage.space import Axes, Baseline, DesignSpace, explore
from penstock.scheme.machines import load_machine
from penstock.scheme.machines.drives import load_drive
from penstock.scheme.params import catalogue


def designs(
    workload: str, options: RowView, progress: Progress
) -> tuple[UnitAccelerator, Sequence[DriveRates], list[Budget], DesignSpace]:
    """Explore the designs that options name.

    Args:   workload: as of `named_query`; options: of `penstock ssd space`, by name.
    Returns: the published accelerator, the drives, the budgets (power first), and every design with its time, area
            and power.
    Raises: UnknownName; UsageError, UnitError: an option that breaks a rule.
    """
    accelerator = load_units(options["architecture"])
    axes, budgets = _axes(options), _budgets(options, accelerator)
    if options["policy"] not in HOST_POLICIES:
        raise UnknownName("host policy", options["policy"], HOST_POLICIES)
    query = named_query(
        workload,
        slot_bits=int(accelerator.slot.value),
        params=None if options["params"] is None else catalogue.get(options["params"]),
        database_bytes=None if options["database"] is None else parse_bytes(options["database"], "--database"),
    )
    baseline = Baseline(machine=load_machine(options["machine"]), policy=HOST_POLICIES[options["policy"]])
    how: Row = {"batch": options["batch"], "inside": _inside(options)}
    with progress.stage("designs", axes.num_points) as stage:
        space = explore(query, axes, accelerator, baseline, progress=stage.advance, **how)
    return accelerator, axes.drives, budgets, space


def played(space: DesignSpace, row: Row, accelerator: UnitAccelerator, options: RowView) -> float:
    """Seconds of a query that the event engine makes of a design, a row of the space."""
    drives = {drive.name: drive for drive in map(load_drive, dict.fromkeys(options["drives"]))}
    inside = _inside(options)
    return played_design(space.query, drives[row["drive"]], accelerator, row, batch=space.batch, inside=inside).query_s


def _inside(options: RowView) -> Inside:
    return Inside(contention=Contention(options["contention"]), multiplicity=Multiplicity(options["power"]))


def _axes(options: RowView) -> Axes:
    drives = [drive_rates(name) for name in dict.fromkeys(options["drives"])]
    return with_axes(
        default_axes(drives),
        channels_per_accelerator=options["groups"],
        lanes=options["lanes"],
        scratchpad_bytes=tuple(parse_bytes(text, "--scratchpad") for text in options["scratchpads"]),
        dram_bytes_per_s=tuple(parse_rate(text, "--dram-rate") for text in options["dram_rates"]),
        dram_capacity_bytes=tuple(parse_bytes(text, "--dram-size") for text in options["dram_sizes"]),
        pcie_bytes_per_s=tuple(parse_rate(text, "--pcie") for text in options["links"]),
    )


def _budgets(options: RowView, accelerator: UnitAccelerator) -> list[Budget]:
    """That of power first."""
    units = {
        "--max-power": ("watts", WATT_UNITS, "W", 1.0), "--max-area": ("area_mm2", MM2_UNITS, "mm2", 1.0),
        "--max-dram-rate": ("dram_bytes_per_s", RATE_UNITS, "GB/s", 1e9),
        "--max-dram-size": ("dram_capacity_bytes", BYTE_UNITS, "GB", 1e9),
    }  # fmt: skip
    budgets = []
    for option, (column, known, unit, one) in units.items():
        given = options[option.removeprefix("--").replace("-", "_")]
        if given is None and column != "watts":
            continue
        most = accelerator.budget.value if given is None else parse_quantity(given, known, option)

        def text(value: float, unit: str = unit, one: float = one) -> str:
            return f"{value / one:.6g} {unit}"

        budgets.append(Budget(option=option, column=column, most=most, text=text))
    return budgets
