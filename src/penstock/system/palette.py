"""The colours of every picture: reports, the explorer, figures of studies, and pictures of rows.

Colours work without red-green vision (Okabe and Ito, 2008); marks differ too, for grey print. A tier has the same
colour in all of them.

>>> tier_colours(["hbm", "ddr5", "pcie5", "rdma"])
{'hbm': 0, 'ddr5': 2, 'pcie5': 3, 'rdma': 1}
>>> tier_colours(["pcie5", "nvme-gen5"])
{'pcie5': 3, 'nvme-gen5': 5}
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b5609a", "#c98700", "#3f9fd6", "#6b7280")
"""Blue, vermilion, green, purple, amber, sky, grey."""
BLUE, RED, GREEN, PINK, ORANGE, SKY, GREY = COLOURS
BLACK = "#1b1f24"
MARKERS = ("o", "D", "s", "^", "P", "X", "*")
GRID, MUTED, LINE = "#e4e7eb", "#59636e", "#c9ced6"

STYLE: dict[str, Any] = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10,
    "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.grid": True, "grid.color": GRID,
    "axes.axisbelow": True, "svg.hashsalt": "penstock", "svg.fonttype": "path", "text.parse_math": False,
    "figure.facecolor": "white",
}  # fmt: skip
"""Of matplotlib."""

_FAMILIES = (
    ("hbm", 0), ("scratchpad", 5), ("on-chip", 5), ("ddr", 2), ("dram", 2), ("cxl", 4), ("pcie", 3), ("nvme", 3),
    ("ssd", 3), ("rdma", 1), ("ethernet", 1), ("sata", 6), ("hdd", 6),
)  # fmt: skip
"""Beginning of a tier's name -> index of its colour."""
_STUDIED = {"hbm": 0, "ddr5": 2, "pcie5": 3, "rdma": 1}
"""The tiers of nearly every picture. Their colours do not depend on other tiers."""
_FREE = (5, 6, 4, 3, 2, 0, 1)
"""Colours for tiers without a family, and for a second tier of one family."""


def tier_colours(names: Iterable[str]) -> dict[str, int]:
    """Name of each tier -> index into `COLOURS`; as long as there are enough, each another one."""
    listed = list(dict.fromkeys(names))
    found = {name: _STUDIED[name] for name in listed if name in _STUDIED}
    for name in listed:
        own = next((index for start, index in _FAMILIES if name.startswith(start)), None)
        if name not in found and own is not None and own not in found.values():
            found[name] = own
    for name in listed:
        if name not in found:
            free = [index for index in _FREE if index not in found.values()]
            found[name] = free[0] if free else len(found) % len(COLOURS)
    return {name: found[name] for name in listed}
