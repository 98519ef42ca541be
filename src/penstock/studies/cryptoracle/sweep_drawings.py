"""CryptOracle's figures 5, 7, 8 and 11 from the rows of its artifact: its medians, and our predictions dashed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.system.figures import drawing, readable, write_svg
from penstock.system.palette import COLOURS

SHOWN = ("add", "add_plain", "mult", "mult_plain", "rotate")
"""Primitives of figure 5."""
_SWEEP = re.compile(r"^(figure[578])\.(\w+)\.(.+)\.threads(\d+)\.runtime$")
_GAIN = re.compile(r"^figure11\.gain\.(\w+)\.d(\d+)-over-d(\d+)\.t(\d+)\.runtime$")
TITLES = {
    "figure5": "Primitives, N = 2^16, depth 10",
    "figure7": "Microbenchmarks, N = 2^16, depth 10",
    "figure8": "Matrix products, depth 10",
}
Curves = Mapping[str, Sequence[tuple[int, Mapping[str, Any]]]]


def draw_sweeps(rows: Iterable[Mapping[str, Any]], folder: Path) -> list[Path]:
    """SVG files, one for each figure and CPU that has rows.

    Raises: CapabilityMissing: matplotlib is not installed.
    """
    pyplot = drawing()
    folder.mkdir(parents=True, exist_ok=True)
    curves: dict[tuple[str, str], dict[str, list[tuple[int, Mapping[str, Any]]]]] = defaultdict(dict)
    gains: dict[str, list[tuple[int, Mapping[str, Any]]]] = defaultdict(list)
    for row in rows:
        if found := _SWEEP.match(row["id"]):
            figure, vendor, line, threads = found.groups()
            if figure != "figure5" or line in SHOWN:
                curves[figure, vendor].setdefault(line, []).append((int(threads), row))
        elif found := _GAIN.match(row["id"]):
            vendor, many, few, threads = found.groups()
            gains[f"{vendor}: depth {many} over depth {few}"].append((int(threads), row))
    written = [
        write_svg(_curves(pyplot, f"{TITLES[figure]}, {vendor}", lines, "seconds"), folder / f"{figure}-{vendor}.svg")
        for (figure, vendor), lines in sorted(curves.items())
    ]
    if gains:
        title = "Rectangular product over algorithm 5"
        written.append(write_svg(_curves(pyplot, title, gains, "times as long"), folder / "figure11.svg"))
    return written


def _curves(pyplot: Any, title: str, lines: Curves, unit: str) -> Any:
    """Published medians with markers, and our predictions dashed in the same colour."""
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for number, (name, points) in enumerate(sorted(lines.items())):
        ordered = sorted(points, key=lambda point: point[0])
        for column, style in (("published", {"marker": "o", "label": name}), ("first_principles", {"linestyle": "--"})):
            known = [(threads, row[column]) for threads, row in ordered if row[column] is not None]
            if known:
                axes.plot(*zip(*known, strict=True), color=COLOURS[number % len(COLOURS)], **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    readable(axes.yaxis, "s" if unit == "seconds" else "x")
    counts = sorted({threads for points in lines.values() for threads, _ in points})
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.xaxis.minorticks_off()
    axes.set_xlabel("threads inside one operation")
    axes.set_ylabel(f"{'time' if unit == 'seconds' else unit} (markers: published; dashed: penstock)")
    axes.set_title(title)
    axes.legend(fontsize="small", ncols=2)
    return figure
