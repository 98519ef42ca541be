"""Figures 1, 2 and 4 to 7 of the storage-I/O study drawn again, by its rules and from first principles; the tornado.

Style and colours are the reports'; a tier has the same colour in all pictures, and lines differ in style as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.studies.io_study import data
from penstock.studies.io_study.history import BARS
from penstock.studies.io_study.workflow import STEPS
from penstock.system.figures import draw_all, not_published, readable
from penstock.system.palette import BLACK, BLUE, COLOURS, GREEN, GREY, ORANGE, RED, tier_colours

TIER_COLOUR = {tier: COLOURS[index] for tier, index in tier_colours(data.TIERS).items()}
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
Rows = Mapping[str, Mapping[str, Any]]


def draw(rows: Iterable[Mapping[str, Any]], folder: Path) -> list[Path]:
    """One SVG for each figure.

    Raises: CapabilityMissing: matplotlib is not installed.
    """
    figures: dict[str, Callable[[Any, Rows], Any]] = {
        "figure1": _history,
        "figure2": _workflow,
        "figure4": _slowdowns,
        "figure5": _hit_ratios,
        "figure6": _hosts,
        "figure7": _breakdown,
        "tornado": _tornado,
    }
    return draw_all(figures, rows, folder)


def _history(pyplot: Any, rows: Rows) -> Any:
    """A bar for each machine with a file: speedup of a refresh over a measured CPU."""
    drawn, panel = pyplot.subplots(figsize=(9, 5), layout="constrained")
    names = [name for name in (*BARS, "cpu-native") if rows[f"history.{name}.speedup_over_cpu"]["first_principles"]]
    for x, name in enumerate(names):
        found = rows[f"history.{name}.speedup_over_cpu"]
        on_cpu = name == "cpu-native"
        panel.bar(x, found["first_principles"], 0.6, color=GREEN if on_cpu else BLUE)
        if found["published"]:
            panel.plot(x, found["published"], "D", color=BLACK, label="published claim")
    panel.set_yscale("log")
    readable(panel.yaxis, "x")
    panel.set_xticks(range(len(names)), [BAR_NAME[name] for name in names])
    panel.set_ylabel("speedup over OpenFHE on two threads")
    panel.set_title("Figure 1: a refresh, by slot and level: priced from machine files (blue), measured (green)")
    panel.grid(visible=False, axis="x")
    bare = [BAR_NAME[n] for n in names if not rows[f"history.{n}.speedup_over_cpu"]["published"] and n != "cpu-native"]
    if bare:
        panel.set_xlabel(f"No diamond: no number is printed for {', '.join(bare)}.", fontsize="small")
    if panel.get_legend_handles_labels()[0]:
        panel.legend(*_once(panel), fontsize="small")
    return drawn


def _once(panel: Any) -> tuple[list[Any], list[str]]:
    """What a legend names, each label once."""
    handles, labels = panel.get_legend_handles_labels()
    found = dict(zip(labels, handles, strict=True))
    return list(found.values()), list(found)


def _workflow(pyplot: Any, rows: Rows) -> Any:
    """Seconds of the five steps of each run, keys from the tier of figure 7."""
    drawn, axes = pyplot.subplots(1, 2, figsize=(11, 5), layout="constrained", sharey=True)
    for panel, application in zip(axes, data.APPLICATIONS, strict=True):
        for i, (accelerator, colour) in enumerate(zip(ACCELERATOR_NAME, (BLUE, ORANGE), strict=True)):
            values = [rows[f"workflow.{accelerator}.{application}.{s}.time"]["first_principles"] for s in STEPS]
            places = [x + 0.4 * (i - 0.5) for x in range(len(STEPS))]
            panel.bar(places, values, 0.38, color=colour, label=ACCELERATOR_NAME[accelerator])
        panel.set_yscale("log")
        readable(panel.yaxis, "s")
        panel.set_xticks(range(len(STEPS)), [step.replace("-", "\n") for step in STEPS], fontsize="small")
        panel.set_title(f"{APPLICATION_NAME[application]}, keys from {TIER_NAME[data.SHOWN_TIER]}")
        panel.grid(visible=False, axis="x")
    axes[0].set_ylabel("time")
    axes[0].legend(fontsize="small")
    return drawn


def _slowdowns(pyplot: Any, rows: Rows) -> Any:
    """Bars a tier: published, calibrated, first principles."""
    drawn, axes = pyplot.subplots(2, 2, figsize=(10, 7), layout="constrained", sharex=True, squeeze=False)
    for line, accelerator in zip(axes, ACCELERATOR_NAME, strict=True):
        for panel, application in zip(line, data.APPLICATIONS, strict=True):
            for i, (column, colour, label) in enumerate(
                (
                    ("published", GREY, "published"),
                    ("calibrated", ORANGE, "the study's rules"),
                    ("first_principles", BLUE, "first principles"),
                )
            ):
                values = [rows[f"{accelerator}.{application}.{tier}.slowdown"][column] for tier in data.TIERS]
                shown = [(x, value) for x, value in enumerate(values) if value is not None]
                panel.bar(
                    [x + 0.27 * (i - 1) for x, _ in shown], [v for _, v in shown], 0.25, color=colour, label=label
                )
            panel.set_yscale("log")
            readable(panel.yaxis, "x")
            for x, tier in enumerate(data.TIERS):
                if rows[f"{accelerator}.{application}.{tier}.slowdown"]["published"] is None:
                    not_published(panel, x - 0.27, panel.get_ylim()[0])
            panel.set_xticks(range(len(data.TIERS)), [TIER_NAME[tier] for tier in data.TIERS])
            panel.set_title(f"{ACCELERATOR_NAME[accelerator]}, {APPLICATION_NAME[application]}")
            panel.set_ylabel("slowdown, every key from the tier")
            panel.grid(visible=False, axis="x")
    axes[0][0].legend(fontsize="small")
    return drawn


def _hit_ratios(pyplot: Any, rows: Rows) -> Any:
    """Share of the ideal speed against the hit ratio."""
    drawn, axes = pyplot.subplots(1, 2, figsize=(10, 4.5), layout="constrained", sharey=True)
    steps = range(0, 101, 10)
    for panel, application in zip(axes, data.APPLICATIONS, strict=True):
        for tier in data.TIERS:
            at = [rows[f"sharp.{application}.{tier}.speed_at_hit_ratio_{step}"] for step in steps]
            panel.plot(steps, [100 * r["first_principles"] for r in at], color=TIER_COLOUR[tier], label=TIER_NAME[tier])
            panel.plot(steps, [100 * r["calibrated"] for r in at], color=TIER_COLOUR[tier], linestyle="--")
        panel.axhline(100 * data.IDEAL_SHARE, color=BLACK, linewidth=0.8, linestyle=":")
        panel.set_title(f"SHARP, {APPLICATION_NAME[application]} (dashed: the study's rules)")
        panel.set_xlabel("hit ratio of the on-chip memory [%]")
    axes[0].set_ylabel("share of the ideal speed [%]")
    axes[0].legend(fontsize="small")
    return drawn


def _hosts(pyplot: Any, rows: Rows) -> Any:
    """Execution time against hosts, relative to one host over the same tier."""
    lines = [(accelerator, application) for accelerator in ACCELERATOR_NAME for application in data.APPLICATIONS]
    drawn, axes = pyplot.subplots(4, 2, figsize=(10, 14), layout="constrained", sharex=True)
    for line, (accelerator, application) in zip(axes, lines, strict=True):
        for panel, network in zip(line, data.NETWORKS, strict=True):
            for tier in data.TIERS:
                at = [rows[f"{accelerator}.{application}.{tier}.{network}.hosts{h}.speedup"] for h in data.HOST_COUNTS]
                for column, style in (("first_principles", "-"), ("calibrated", "--")):
                    panel.plot(
                        data.HOST_COUNTS,
                        [1 / r[column] for r in at],
                        style,
                        color=TIER_COLOUR[tier],
                        marker="o",
                        markersize=3,
                        label=TIER_NAME[tier] if style == "-" else None,
                    )
            panel.set_xscale("log", base=2)
            panel.set_yscale("log")
            readable(panel.yaxis, "x")
            panel.set_xticks(data.HOST_COUNTS, [str(h) for h in data.HOST_COUNTS])
            panel.xaxis.minorticks_off()
            panel.set_title(f"{ACCELERATOR_NAME[accelerator]}, {APPLICATION_NAME[application]}, {network}")
            panel.set_xlabel("hosts (dashed: the study's rules)")
            panel.set_ylabel("time / time of one host")
    axes[0][0].legend(fontsize="small")
    return drawn


def _breakdown(pyplot: Any, rows: Rows) -> Any:
    """Shares of the time; published values as marks at the boundaries of the parts."""
    drawn, axes = pyplot.subplots(1, 2, figsize=(10, 4.5), layout="constrained", sharey=True)
    for panel, accelerator in zip(axes, ACCELERATOR_NAME, strict=True):
        low, marked = [0.0] * len(data.HOST_COUNTS), [0.0] * len(data.HOST_COUNTS)
        for part, colour in zip(data.PARTS, (BLUE, RED, GREEN), strict=True):
            at = [rows[f"{accelerator}.resnet20.pcie5.ethernet-400.hosts{h}.{part}_share"] for h in data.HOST_COUNTS]
            values = [100 * r["first_principles"] for r in at]
            panel.bar(range(len(at)), values, 0.7, bottom=low, color=colour, label="I/O" if part == "io" else part)
            low = [a + b for a, b in zip(low, values, strict=True)]
            for i, each in enumerate(at):
                if each["published"] is not None and part != data.PARTS[-1]:
                    marked[i] += 100 * each["published"]
                    panel.plot([i - 0.42, i + 0.42], [marked[i]] * 2, color=BLACK, linewidth=2)
        panel.set_xticks(range(len(data.HOST_COUNTS)), [str(h) for h in data.HOST_COUNTS])
        panel.grid(visible=False, axis="x")
        printed = [str(h) for h, share in zip(data.HOST_COUNTS, marked, strict=True) if share]
        where = "" if len(printed) == len(data.HOST_COUNTS) else f", printed for {' and '.join(printed) or 'none'} only"
        panel.set_xlabel(f"hosts (black: published{where})")
        panel.set_title(f"{ACCELERATOR_NAME[accelerator]}, ResNet-20, PCIe disk, Ethernet")
    axes[0].set_ylabel("share of the time, first principles [%]")
    drawn.legend(*axes[0].get_legend_handles_labels(), fontsize="small", loc="outside upper center", ncols=3)
    return drawn


def _tornado(pyplot: Any, rows: Rows) -> Any:
    """By how much each assumption moves each main quantity."""
    drawn, axes = pyplot.subplots(3, 2, figsize=(12, 12), layout="constrained")
    for panel, (name, title) in zip(axes.flat, SHOWN_IN_TORNADO, strict=True):
        prefix = f"sensitivity.{name}."
        base = rows[prefix + "base"]
        moved = sorted(
            (
                (row["first_principles"] / base["first_principles"], row["policy"])
                for row_id, row in rows.items()
                if row_id.startswith(prefix) and row is not base
            ),
            key=lambda each: abs(each[0] - 1),
        )
        _bars(panel, moved)
        if base["calibrated"] is not None:
            panel.axvline(
                base["calibrated"] / base["first_principles"], color=BLACK, linestyle="--", label="the study's"
            )
            panel.legend(fontsize="small", loc="lower right")
        panel.axvline(1, color=BLACK, linewidth=0.8)
        panel.set_title(title)
        panel.set_xlabel("times what is computed")
    return drawn


def _bars(panel: Any, moved: Sequence[tuple[float, str]]) -> None:
    panel.barh(
        range(len(moved)),
        [value - 1 for value, _ in moved],
        left=1,
        color=[ORANGE if value > 1 else BLUE for value, _ in moved],
    )
    panel.set_yticks(range(len(moved)), [policy.replace("-", " ") for _, policy in moved], fontsize="small")
    panel.grid(visible=False, axis="y")
