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

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b5609a", "#c98700", "#3f9fd6", "#6b7280")
"""Blue, vermilion, green, purple, amber, sky, grey."""
BLUE, RED, GREEN, PINK, ORANGE, SKY, GREY = NAMES = tuple(f"c{index}" for index in range(len(COLOURS)))
"""Of the colours, as `LIGHT`, `DARK` and the style sheets of pages have them."""
MARKERS = ("o", "D", "s", "^", "P", "X", "*")
"""Of matplotlib."""
GRID = "#e4e7eb"
LIGHT = {
    "bg": "#ffffff", "fg": "#1b1f24", "muted": "#59636e", "line": "#c9ced6", "grid": GRID,
    **dict(zip(NAMES, COLOURS, strict=True)),
}  # fmt: skip
DARK = {
    "bg": "#14181d", "fg": "#e8ebef", "muted": "#a3adb8", "line": "#4a545f", "grid": "#2c343d",
    "c0": "#56b4e9", "c1": "#ff8a3d", "c2": "#2bc496", "c3": "#e39ccb", "c4": "#f0d442", "c5": "#8f9bff",
    "c6": "#a3adb8",
}  # fmt: skip
"""Name of a colour -> the colour on a dark page."""

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
    colours = {name: _STUDIED[name] for name in listed if name in _STUDIED}
    for name in listed:
        own = next((index for start, index in _FAMILIES if name.startswith(start)), None)
        if name not in colours and own is not None and own not in colours.values():
            colours[name] = own
    for name in listed:
        if name not in colours:
            free = [index for index in _FREE if index not in colours.values()]
            colours[name] = free[0] if free else len(colours) % len(COLOURS)
    return {name: colours[name] for name in listed}
