"""Figures 1, 2 and 4 to 7 of the storage-I/O study drawn again, by its rules and from first principles; the tornado.

Style and colours are the reports'; a tier has the same colour in all pictures, and lines differ in style as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from penstock.base.system.drawing import Axis, Panel, Picture, Rule, Series, bars, write_figures
from penstock.base.system.palette import BLUE, GREEN, GREY, NAMES, ORANGE, RED, tier_colours
from penstock.base.types import RowView
from penstock_studies.io_study import data
from penstock_studies.io_study.history import BARS
from penstock_studies.io_study.workflow import STEPS

TIER_COLOUR = {tier: NAMES[index] for tier, index in tier_colours(data.TIERS).items()}
TIER_NAME = {"hbm": "HBM", "ddr5": "DDR5", "pcie5": "PCIe disk", "rdma": "RDMA disk"}
APPLICATION_NAME = {"resnet20": "ResNet-20", "helr": "HELR"}
ACCELERATOR_NAME = {"sharp": "SHARP", "tensorfhe": "TensorFHE"}
BAR_NAME = {
    "f1plus": "F1+", "bts": "BTS", "craterlake": "CraterLake", "ark": "ARK", "sharp": "SHARP",
    "tensorfhe": "TensorFHE", "trinity": "Trinity", "heap": "HEAP", "cpu-native": "native CPU",
}  # fmt: skip
SHOWN_IN_TORNADO = (
    ("sharp.resnet20.demand", "SHARP ResNet-20: key bytes a second"),
    ("sharp.helr.demand", "SHARP HELR: key bytes a second"),
    ("sharp.resnet20.ideal_time", "SHARP ResNet-20: ideal time"),
    ("sharp.helr.ideal_time", "SHARP HELR: ideal time"),
    ("sharp.resnet20.communication", "SHARP ResNet-20: messages, 32 hosts"),
    ("tensorfhe.resnet20.demand", "TensorFHE ResNet-20: key bytes a second"),
)
RowsById = Mapping[str, RowView]


def draw(rows: Iterable[RowView], folder: Path) -> list[Path]:
    """One SVG for each figure. Raises: FileError: the disk."""
    figures = {
        "figure1": _history, "figure2": _workflow, "figure4": _slowdowns, "figure5": _hit_ratios, "figure6": _hosts,
        "figure7": _breakdown, "tornado": _tornado,
    }  # fmt: skip
    return draw_all(figures, rows, folder)


def draw_all(figures: Mapping[str, Callable[[RowsById], Picture]], rows: Iterable[RowView], folder: Path) -> list[Path]:
    """Write each figure, which is drawn of the rows by their ids."""
    by_id = {str(row["id"]): row for row in rows}
    return write_figures({name: make(by_id) for name, make in figures.items()}, folder)


def computed(rows: RowsById, ids: Iterable[str]) -> list[float]:
    """The values from first principles."""
    return [rows[row]["first_principles"] for row in ids]


def _history(rows: RowsById) -> Picture:
    """A bar for each machine with a file: speedup of a refresh over a measured CPU."""
    speedups = {name: rows[f"history.{name}.speedup_over_cpu"] for name in (*BARS, "cpu-native")}
    shown = {name: row for name, row in speedups.items() if row["first_principles"]}
    colours = [GREEN if name == "cpu-native" else BLUE for name in shown]
    series = [bars([row["first_principles"] for row in shown.values()], colour=colours)]
    claims = [row["published"] or None for row in shown.values()]
    if any(claims):
        series.append(Series(range(len(shown)), claims, "published claim", "fg", "diamond", size=9))
    bare = [BAR_NAME[name] for name, row in shown.items() if not row["published"] and name != "cpu-native"]
    note = f"No diamond: no number is printed for {', '.join(bare)}." if bare else ""
    x, y = Axis(note, names=[BAR_NAME[name] for name in shown]), Axis("speedup over OpenFHE on two threads", "x", True)
    title = "Figure 1: a refresh, by slot and level: priced from machine files (blue), measured (green)"
    return Picture([Panel(series, x, y, title)], width=840, height=440)


def _workflow(rows: RowsById) -> Picture:
    """Seconds of the five steps of each run, keys from the tier of figure 7."""
    panels = []
    for application in data.APPLICATIONS:
        series = [
            bars(computed(rows, (f"workflow.{machine}.{application}.{step}.time" for step in STEPS)), name, colour)
            for (machine, name), colour in zip(ACCELERATOR_NAME.items(), (BLUE, ORANGE), strict=True)
        ]
        title = f"{APPLICATION_NAME[application]}, keys from {TIER_NAME[data.SHOWN_TIER]}"
        panels.append(Panel(series, Axis(names=STEPS), Axis("time, first principles", "s", True), title))
    return Picture(panels, columns=2, same="y")


def _slowdowns(rows: RowsById) -> Picture:
    """Bars a tier: published, calibrated, first principles."""
    panels = []
    x, y = Axis(names=list(TIER_NAME.values())), Axis("slowdown, every key from the tier", "x", True)
    for (accelerator, name), application in itertools.product(ACCELERATOR_NAME.items(), data.APPLICATIONS):
        at = [rows[f"{accelerator}.{application}.{tier}.slowdown"] for tier in TIER_NAME]
        series = [
            bars([row["published"] for row in at], "published", GREY, absent="not published"),
            bars([row["calibrated"] for row in at], "the study's rules", ORANGE),
            bars([row["first_principles"] for row in at], "first principles", BLUE),
        ]
        panels.append(Panel(series, x, y, f"{name}, {APPLICATION_NAME[application]}"))
    return Picture(panels, columns=2)


def _by_tier(
    rows: RowsById, ids: str, steps: Sequence[int], of: Callable[[float], float], mark: str = ""
) -> list[Series]:
    """Lines of each tier, dashed by the study's rules. `ids`: of the rows, with places for tier and step."""
    series = []
    for tier, (column, dash) in itertools.product(TIER_NAME, (("first_principles", "solid"), ("calibrated", "dash"))):
        values = [of(rows[ids.format(tier=tier, step=step)][column]) for step in steps]
        series.append(Series(steps, values, TIER_NAME[tier], TIER_COLOUR[tier], mark, dash, size=5))
    return series


def _hit_ratios(rows: RowsById) -> Picture:
    """Share of the ideal speed against the hit ratio."""
    x, y = Axis("hit ratio of the on-chip memory [%]"), Axis("share of the ideal speed [%]")
    rules = [Rule("y", 100 * data.IDEAL_SHARE, dash="dot")]
    panels = []
    for application in data.APPLICATIONS:
        ids = f"sharp.{application}.{{tier}}.speed_at_hit_ratio_{{step}}"
        series = _by_tier(rows, ids, range(0, 101, 10), lambda value: 100 * value)
        title = f"SHARP, {APPLICATION_NAME[application]} (dashed: the study's rules)"
        panels.append(Panel(series, x, y, title, rules=rules))
    return Picture(panels, columns=2, same="y")


def _hosts(rows: RowsById) -> Picture:
    """Execution time against hosts, relative to one host over the same tier."""
    x = Axis("hosts (dashed: the study's rules)", log=True, ticks=data.HOST_COUNTS)
    y = Axis("time / time of one host", "x", True)
    panels = []
    for accelerator, application, network in itertools.product(ACCELERATOR_NAME, data.APPLICATIONS, data.NETWORKS):
        ids = f"{accelerator}.{application}.{{tier}}.{network}.hosts{{step}}.speedup"
        series = _by_tier(rows, ids, data.HOST_COUNTS, lambda value: 1 / value, "circle")
        title = f"{ACCELERATOR_NAME[accelerator]}, {APPLICATION_NAME[application]}, {network}"
        panels.append(Panel(series, x, y, title))
    return Picture(panels, columns=2, height=300)


def _breakdown(rows: RowsById) -> Picture:
    """Shares of the time; published values as marks at the boundaries of the parts."""
    panels = []
    for accelerator, name in ACCELERATOR_NAME.items():
        series, marks, marked = [], [], [0.0] * len(data.HOST_COUNTS)
        for part, colour in zip(data.PARTS, (BLUE, RED, GREEN), strict=True):
            ids = [f"{accelerator}.resnet20.pcie5.ethernet-400.hosts{h}.{part}_share" for h in data.HOST_COUNTS]
            shares = [100 * value for value in computed(rows, ids)]
            series.append(bars(shares, "I/O" if part == "io" else part, colour))
            published = [None if part == data.PARTS[-1] else rows[row]["published"] for row in ids]
            marked = [total + 100 * (share or 0.0) for total, share in zip(marked, published, strict=True)]
            ends = [total if share is not None else None for total, share in zip(marked, published, strict=True)]
            marks.append(Series(range(len(ends)), ends, "published", "fg", "level", size=9))
        printed = [str(h) for h, share in zip(data.HOST_COUNTS, marked, strict=True) if share]
        where = "" if len(printed) == len(data.HOST_COUNTS) else f", printed for {' and '.join(printed) or 'none'} only"
        x = Axis(f"hosts (black: published{where})", names=[str(h) for h in data.HOST_COUNTS])
        y, title = Axis("share of the time, first principles [%]"), f"{name}, ResNet-20, PCIe disk, Ethernet"
        panels.append(Panel([*series, *marks], x, y, title, stack=True))
    return Picture(panels, columns=2, same="y")


def _tornado(rows: RowsById) -> Picture:
    """By how much each assumption moves each main quantity."""
    panels = []
    for name, title in SHOWN_IN_TORNADO:
        prefix = f"sensitivity.{name}."
        base = rows[prefix + "base"]
        moved = [row for row_id, row in rows.items() if row_id.startswith(prefix) and row is not base]
        times = [(row["first_principles"] / base["first_principles"], row["policy"]) for row in moved]
        times.sort(key=lambda pair: -abs(pair[0] - 1))
        colours = [ORANGE if value > 1 else BLUE for value, _ in times]
        series = [Series([value for value, _ in times], range(len(times)), "", colours, "bar", start=1)]
        rules = [Rule("x", 1, dash="solid")]
        if base["calibrated"] is not None:
            rules.append(Rule("x", base["calibrated"] / base["first_principles"], "the study's"))
        y = Axis(names=[policy.replace("-", " ") for _, policy in times])
        panels.append(Panel(series, Axis("times what is computed"), y, title, rules=rules))
    return Picture(panels, columns=2, width=620)
