"""Rows of `reproduce fheins` about Table I (drives) and Table II (area and power): the printed values, worked out."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.types import Row
from penstock.base.units import BYTE_UNITS
from penstock.lab.instorage.machine_power import Multiplicity, footprint
from penstock_studies.fheins import data
from penstock_studies.fheins.model import FheinsStudy
from penstock_studies.fheins.rows import row

MULTIPLICITY = {
    Multiplicity.ENGINE: "a row is one engine of 128 lanes, as the text says; every accelerator has all rows",
    Multiplicity.ACCELERATOR: "a row is all that one accelerator has",
    Multiplicity.DRIVE: "the table as printed, each row once for the drive",
}
COMPUTE_ROWS = ("ntt", "bconv", "modu")


def table1_rows(study: FheinsStudy) -> Iterator[Row]:
    """Capacities and bandwidths that Table I implies."""
    for name in data.DRIVES:
        drive = study.drives[name]
        remark = (
            f"channels x chips x dies x planes x blocks x pages; the table prints {data.CAPACITY_TIB[name].text} TiB, "
            f"half of these {drive.geometry_bytes / BYTE_UNITS['TiB']:g} TiB"
        )
        ours = float(drive.geometry_bytes)
        yield row(f"table1.{name}.capacity", "table1", "capacity", ours, remark, unit="B", policy="table")
        for quantity, value, note in (
            ("bus", drive.bus_bytes_per_s, "channels x 8 bits x transfers a second"),
            ("flash", drive.flash_bytes_per_s, "the same with the commands of two-plane reads on the bus"),
            ("array", drive.array_bytes_per_s, "every plane sensing a page each tR"),
            ("pcie", drive.pcie_bytes_per_s, "PCIe 4.0 x4 after its line code"),
        ):
            yield row(f"table1.{name}.{quantity}_rate", "table1", "bandwidth", value, note, unit="B/s", policy="table")
        remark = "of bandwidths: the most that reading the same bytes once on either side can give"
        ours = drive.bus_bytes_per_s / drive.pcie_bytes_per_s
        yield row(f"table1.{name}.internal_to_host", "table1", "ratio", ours, remark, policy="table")


def table2_rows(study: FheinsStudy) -> Iterator[Row]:
    """Power and area under each reading of the table, against the budget and the shares that are printed."""
    accelerator = study.accelerator
    budget = data.BUDGET_W
    for name in data.DRIVES:
        channels = study.drives[name].channels
        for multiplicity, says in MULTIPLICITY.items():
            needs = footprint(accelerator, channels, multiplicity)
            holds = "within" if needs.watts <= accelerator.budget.value else "OVER"
            policy = str(multiplicity)
            prefix = f"table2.{name}.{policy}"
            note = (
                f"{says}; {needs.accelerators} channel-level accelerators and one for the drive: {holds} the budget of "
                f"{budget.text} W, which is a bound"
            )
            yield row(
                f"{prefix}.power", "table2", "power", needs.watts, note, unit="W", published=budget, policy=policy
            )
            yield row(f"{prefix}.area", "table2", "area", needs.area_mm2, says, unit="mm2", policy=policy)
            for quantity, parts, printed in (
                ("compute_area_share", needs.area, data.COMPUTE_AREA),
                ("compute_power_share", needs.power, data.COMPUTE_POWER),
            ):
                value = sum(parts[name] for name in COMPUTE_ROWS) / sum(parts.values())
                note = f"of NTT, BCONV and MODU; printed: {printed[0].text} % ({printed[1].text} %)"
                yield row(f"{prefix}.{quantity}", "table2", "share", value, note, published=printed[0], policy=policy)
    # One channel-level accelerator alone, each row once: the reading nearest to the printed shares.
    rows = {name: part for name, part in accelerator.logic.items() if part.only != "drive"}
    for quantity, field, printed in (("area", "area_mm2", data.COMPUTE_AREA), ("power", "watts", data.COMPUTE_POWER)):
        total = sum(getattr(part, field) for part in rows.values())
        share = sum(getattr(rows[name], field) for name in COMPUTE_ROWS) / total
        row_id = f"table2.accelerator.compute_{quantity}_share"
        note = "one channel-level accelerator, each row once: nearest to what is printed; no reading gives all shares"
        yield row(row_id, "table2", "share", share, note, published=printed[0], policy="one-accelerator")
