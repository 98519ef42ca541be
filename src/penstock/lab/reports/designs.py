"""The page of a design space of accelerators in a drive: every design, the front, and the command of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.base.types import RowView
from penstock.base.units import format_rate
from penstock.base.version import __version__
from penstock.lab.reports.build import space_section, whole_page
from penstock.lab.reports.head import legend
from penstock.lab.reports.markup import tag
from penstock.lab.reports.numbers import count, short_size
from penstock.lab.reports.page import Plots
from penstock.lab.reports.space import Space, option, space_of

AXES = {
    "drive": "Drive", "accelerators": "Accelerators", "channels_per_accelerator": "Channels of each", "lanes": "Lanes",
    "scratchpad_bytes": "Scratchpad", "dram_bytes_per_s": "DRAM rate", "dram_capacity_bytes": "DRAM size",
    "pcie_bytes_per_s": "PCIe", "bottleneck": "Bottleneck", "area_and_power": "Area and power",
    "within_budgets": "Budgets",
}  # fmt: skip
"""Columns that may tell designs apart, in the order of the page."""
MEASURES = (
    ("query_s", "Time of a query", "s", False), ("watts", "Power", "W", False), ("area_mm2", "Area", "mm²", False),
    ("energy_j_per_query", "Energy of a query", "J", False), ("speedup", "Speed-up over the host", "x", True),
)  # fmt: skip
_OPTIONS = {
    "drive": "--drive", "channels_per_accelerator": "--channels-per-accelerator", "lanes": "--lanes",
    "scratchpad_bytes": "--scratchpad", "dram_bytes_per_s": "--dram-rate", "dram_capacity_bytes": "--dram-size",
    "pcie_bytes_per_s": "--pcie",
}  # fmt: skip


def designs_page(rows: Sequence[RowView], command: str) -> str:
    """The page.

    Args:   rows: as `Space.rows` gives them, with `within_budgets`. command: the words that all designs share.
    """
    space = designs_space(rows, command)
    first = rows[0]
    met = sum(bool(row["within_budgets"]) for row in rows)
    name = f"Design space: {first['workload']}"
    together = "one query" if first["batch"] == 1 else f"{first['batch']} queries together"
    sentence = f"{count(len(rows))} designs with {first['params']}, {together}; {count(met)} of them meet all budgets."
    header = [tag("h1", name), tag("p", sentence, class_="headline")]
    return whole_page(
        name, {"penstock_version": __version__}, header, [space_section(space), legend()], [], Plots(), space=space
    )


def designs_space(rows: Sequence[RowView], command: str) -> Space:
    """The designs, to be drawn, narrowed and printed again."""
    designs = [{**row, "within_budgets": "met" if row["within_budgets"] else "broken"} for row in rows]
    axes = {name: _values(designs, name) for name in AXES}

    def measure(name: str) -> Callable[[RowView], float | None]:
        return lambda row: row[name]

    fixed = [_word(name, values[0]) for name, values in axes.items() if len(values) == 1]
    return space_of(
        designs,
        axes={name: (AXES[name], values) for name, values in axes.items() if len(values) > 1},
        measures=[(name, label, unit, measure(name), more) for name, label, unit, more in MEASURES],
        text=_text,
        word=_word,
        command=" ".join([command, *filter(None, fixed)]),
    )


def _values(rows: Sequence[RowView], name: str) -> list[object]:
    return sorted({row[name] for row in rows})


def _text(name: str, value: Any) -> str:
    if name in ("scratchpad_bytes", "dram_capacity_bytes"):
        return short_size(value)
    return format_rate(value) if name.endswith("_per_s") else str(value)


def _word(name: str, value: Any) -> str:
    if name not in _OPTIONS:
        return ""
    if name in ("scratchpad_bytes", "dram_capacity_bytes"):
        return option(_OPTIONS[name], f"{value:.0f} B")
    return option(_OPTIONS[name], f"{value:.17g} B/s" if name.endswith("_per_s") else value)
