"""One still picture of a run, for a README, a slide or a reader without JavaScript."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.reports import plots
from penstock.reports.data import ReportData, is_forced, is_streamed, last_by, provenances, sum_by
from penstock.reports.head import main_mode, parameters_in_words, title
from penstock.reports.numbers import shortened
from penstock.system.palette import COLOURS, MARKERS, MUTED, STYLE, tier_colours


def write_overview(data: ReportData, path: Path) -> None:
    """Draw up to four panels as SVG: time by kind, slowdown by tier, slowdown by hit ratio, keys over time.

    The same run gives the same bytes. Needs matplotlib (ImportError otherwise).
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    panels = [draw for draw in PANELS.values() if draw(data, None)]
    with rc_context(STYLE):
        rows = max(1, (len(panels) + 1) // 2)
        figure = Figure(figsize=(10.4, 0.7 + 3.1 * rows), layout="constrained")
        FigureCanvasSVG(figure)
        figure.suptitle(shortened(f"{title(data)} with {parameters_in_words(data)}", 110), fontsize=11)
        axes = figure.subplots(rows, min(2, max(1, len(panels))), squeeze=False).ravel()
        for draw, axis in zip(panels, axes, strict=False):
            draw(data, axis)
        for axis in axes[len(panels) :]:
            axis.set_axis_off()
        if not panels:
            axes[0].text(0.5, 0.5, "this run holds no results yet", ha="center")
        metadata = {"Date": None, "Creator": "penstock", "Description": described(data)}
        figure.savefig(path, format="svg", metadata=metadata)


def described(data: ReportData) -> str:
    """The numbers of the picture that a reader compares, as text, for whoever cannot see it."""
    wall = [f"measured {row['value']:.4g} s encrypted" for row in data.of("wall_s")[:1]]
    streamed = [row for row in data.of("slowdown") if row["mode"] == "serial" and is_streamed(row)]
    slowdowns = [f"{row['machine']} over {row['tier']} {row['value']:.3g}x" for row in streamed]
    return "; ".join([*wall, *(f"simulated slowdown of {text}" for text in slowdowns)])


def _titled(axis: Any, text: str, where: Sequence[str]) -> None:
    axis.set_title(f"{text} ({', '.join(where)})" if where else text)


def _time(data: ReportData, axis: Any) -> bool:
    rows = [r for r in data.of("op_seconds") if r["kind"]]
    if axis is None or not rows:
        return bool(rows)
    totals = sorted(sum_by(rows, lambda r: r["kind"]).items(), key=lambda item: item[1])[-10:]
    axis.barh([shortened(k, 24) for k, _ in totals], [v for _, v in totals], color=COLOURS[0])
    axis.set_xlabel("Total time (s)")
    _titled(axis, "Time by operation kind", provenances(rows))
    return True


def _slowdown(data: ReportData, axis: Any) -> bool:
    mode = main_mode(data)
    rows = [r for r in data.slowdowns() if r["mode"] in (mode, None) and r["tier"] and is_streamed(r)]
    if axis is None or not rows:
        return bool(rows)
    tiers = [t for t in data.tiers() if t in {r["tier"] for r in rows}]
    for i, machine in enumerate(data.machines()):
        at = last_by((r for r in rows if r["machine"] == machine), lambda r: r["tier"])
        shown = [t for t in tiers if t in at]
        axis.plot(
            [at[t] for t in shown],
            [tiers.index(t) for t in shown],
            linestyle="none",
            markersize=8,
            marker=MARKERS[i % 7],
            color=COLOURS[i % 7],
            label=shortened(machine, 24),
        )
    axis.set_yticks(range(len(tiers)), [shortened(t, 24) for t in tiers])
    axis.set_ylim(len(tiers) - 0.5, -0.5)
    axis.set_xscale("log")
    axis.set_xlim(left=0.93)
    _times(axis.xaxis)
    axis.axvline(1.25, color=MUTED, linestyle="--", linewidth=1)
    axis.set_xlabel(f"Slowdown against ideal memory (×, log), {mode}")
    axis.legend(frameon=False, fontsize=8)
    _titled(axis, "Every key from the tier", provenances(rows))
    return True


def _hit_ratio(data: ReportData, axis: Any) -> bool:
    mode = main_mode(data)
    rows = [r for r in data.slowdowns() if r["mode"] in (mode, None) and r["tier"] and r["machine"] and is_forced(r)]
    if len({r["hit_ratio"] or 0.0 for r in rows}) < 2:
        return False
    if axis is None:
        return True
    machine = max(rows, key=lambda r: r["value"])["machine"]
    rows = [r for r in rows if r["machine"] == machine]
    needed = last_by((r for r in plots.required_rows(data, mode) if r["machine"] == machine), lambda r: r["tier"])
    paint = {tier: COLOURS[index] for tier, index in tier_colours(data.tiers()).items()}
    for i, tier in enumerate(t for t in data.tiers() if t in {r["tier"] for r in rows}):
        at = sorted(last_by((r for r in rows if r["tier"] == tier), lambda r: r["hit_ratio"] or 0.0).items())
        axis.plot(
            [100 * h for h, _ in at],
            [v for _, v in at],
            marker=MARKERS[i % 7],
            markersize=4,
            color=paint[tier],
            label=shortened(tier, 24),
        )
        if 0 < needed.get(tier, 0.0) <= 1:
            axis.plot(100 * needed[tier], 1.25, marker="*", markersize=12, color=paint[tier], zorder=3)
    axis.axhline(1.25, color=MUTED, linestyle="--", linewidth=1)
    axis.set_yscale("log")
    axis.set_ylim(bottom=0.93)
    _times(axis.yaxis)
    axis.set_xlabel("Hit ratio of evaluation keys (%); stars: 80 % of the ideal")
    axis.set_ylabel("Slowdown (×, log)")
    axis.legend(frameon=False, fontsize=8)
    _titled(axis, f"{shortened(machine, 24)}: keys that hit", provenances(rows))
    return True


def _keys(data: ReportData, axis: Any) -> bool:
    if axis is None or not data.windows:
        return bool(data.windows)
    from matplotlib.ticker import EngFormatter

    windows = data.windows
    axis.bar(
        [w.first_operation for w in windows],
        [w.unique_bytes for w in windows],
        align="edge",
        width=0.9 * windows[0].num_operations,
        color=COLOURS[5],
        label="distinct in each window",
    )
    axis.plot(
        [w.first_operation + w.num_operations for w in windows],
        [w.cumulative_unique_bytes for w in windows],
        color=COLOURS[1],
        label="distinct so far",
    )
    axis.yaxis.set_major_formatter(EngFormatter(unit="B"))
    axis.set_xlabel("Operation (number in program order)")
    axis.set_ylabel("Bytes of evaluation keys")
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False, fontsize=8)
    _titled(axis, "Key working set", ["counted in the trace"])
    return True


PANELS = {"time": _time, "slowdown": _slowdown, "hit-ratio": _hit_ratio, "keys": _keys}
"""Name -> what draws it on an axis; with `None` for the axis it only says whether the run has rows for it."""


def _times(axis: Any) -> None:
    """Ticks such as 1×, 2×, 5×, 10× on a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axis.set_minor_locator(NullLocator())
