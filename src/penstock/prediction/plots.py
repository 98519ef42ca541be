"""Still pictures of a validation: predicted against measured, errors by protocol, and the coverage of the intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from penstock.prediction.compared import models
from penstock.prediction.models import LEVEL
from penstock.prediction.protocols import ALL
from penstock.prediction.validation import Scored, Validation
from penstock.system.figures import drawing, readable, write_svg
from penstock.system.palette import COLOURS, MUTED

MARKERS = ("o", "^", "s", "D")
BAND = 0.1
"""Half width of the shaded band around equality."""
LEAST = 1e-4
"""Smaller errors are drawn here."""
COVERAGE = (0.85, 0.95)
"""Coverage of 90 % intervals that counts as calibrated."""


def draw(validation: Validation, folder: Path) -> list[Path]:
    """One SVG each; a picture without points is not written.

    Raises: CapabilityMissing: matplotlib is not installed.
    """
    pyplot = drawing()
    folder.mkdir(parents=True, exist_ok=True)
    drawings: dict[str, Callable[[Validation, Any], Any]] = {
        "predicted-measured.svg": _predicted_measured,
        "errors.svg": _errors,
        "coverage.svg": _coverage,
    }
    written = []
    for name, make in drawings.items():
        drawn = make(validation, pyplot)
        if drawn is not None:
            written.append(write_svg(drawn, folder / name))
    return written


def _style(model: str) -> tuple[str, str]:
    """Colour and marker: the same for a model in all pictures."""
    i = list(models()).index(model)
    return COLOURS[i], MARKERS[i]


def _present(points: Sequence[Scored]) -> tuple[list[str], list[str]]:
    """Protocols and models that have points, in their own order."""
    scored = {point.model for point in points}
    return list(dict.fromkeys(p.protocol for p in points)), [name for name in models() if name in scored]


def _predicted_measured(validation: Validation, pyplot: Any) -> Any:
    """One panel a protocol, logarithmic on both axes, with the line of equality and a band of 10 % around it."""
    points = validation.points
    if not points:
        return None
    protocols, names = _present(points)
    columns = min(3, len(protocols))
    rows = math.ceil(len(protocols) / columns)
    drawn, panels = pyplot.subplots(
        rows, columns, figsize=(4.2 * columns, 4.2 * rows), layout="constrained", squeeze=False
    )
    for panel, protocol in zip(panels.flat, protocols, strict=False):
        here = [p for p in points if p.protocol == protocol]
        values = [v for p in here for v in (p.measurement.seconds, p.estimate.seconds) if v > 0]
        ends = [min(values) / 1.3, max(values) * 1.3]
        panel.fill_between(
            ends, [e * (1 - BAND) for e in ends], [e * (1 + BAND) for e in ends], color="0.85", label=f"±{BAND:.0%}"
        )
        panel.plot(ends, ends, color=MUTED, linewidth=1, linestyle="--")
        for name in reversed(names):  # ours on top
            colour, marker = _style(name)
            own = [p for p in here if p.model == name]
            if own:
                panel.scatter(
                    [p.measurement.seconds for p in own],
                    [p.estimate.seconds for p in own],
                    s=14,
                    marker=marker,
                    facecolors="none" if name != names[0] else colour,
                    edgecolors=colour,
                    linewidths=0.8,
                    label=name,
                )
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlim(ends)
        panel.set_ylim(ends)
        panel.set_title(protocol)
        readable(panel.xaxis, "s")
        readable(panel.yaxis, "s")
        panel.set_xlabel("measured")
        panel.set_ylabel("predicted")
    for panel in list(panels.flat)[len(protocols) :]:
        panel.set_axis_off()
    handles, labels = panels.flat[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return drawn


def _errors(validation: Validation, pyplot: Any) -> Any:
    """Mean absolute error by protocol and model, logarithmic; a line reaches from the median to the 90th percentile."""
    rows = [row for row in validation.rows() if row["application"] == ALL]
    if not rows:
        return None
    protocols, names = _present(validation.points)
    drawn, axes = pyplot.subplots(figsize=(1.4 * len(protocols) + 3, 4.5), layout="constrained")
    for i, name in enumerate(names):
        colour, marker = _style(name)
        own = [row for row in rows if row["model"] == name]
        at = [protocols.index(row["protocol"]) + (i - (len(names) - 1) / 2) * 0.22 for row in own]
        low, high = ([max(row[f"{which}_abs_error"], LEAST) for row in own] for which in ("median", "p90"))
        axes.vlines(at, low, high, color=colour, linewidth=2, alpha=0.6)
        means = [max(row["mean_abs_error"], LEAST) for row in own]
        axes.scatter(at, means, color=colour, marker=marker, s=45, label=name, zorder=3)
    axes.axhline(BAND, color=MUTED, linewidth=1, linestyle="--")
    axes.set_yscale("log")
    axes.set_xticks(range(len(protocols)), protocols, rotation=20, ha="right")
    readable(axes.yaxis)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("mean |error| (line: median to 90th percentile)")
    axes.set_title("Predicted against measured, by hold-out")
    axes.legend()
    return drawn


def _coverage(validation: Validation, pyplot: Any) -> Any:
    """Share of held-out measurements inside the 90 % interval, for the models that state one."""
    rows = [r for r in validation.rows() if r["application"] == ALL and r["coverage90"] is not None]
    if not rows:
        return None
    protocols = list(dict.fromkeys(row["protocol"] for row in rows))
    drawn, axes = pyplot.subplots(figsize=(1.3 * len(protocols) + 3, 4), layout="constrained")
    axes.axhspan(*COVERAGE, color="0.88", label=f"{COVERAGE[0]:.0%} to {COVERAGE[1]:.0%}")
    axes.axhline(LEVEL, color=MUTED, linewidth=1, linestyle="--")
    for i, name in enumerate(name for name in models() if any(row["model"] == name for row in rows)):
        colour, marker = _style(name)
        own = [row for row in rows if row["model"] == name]
        at = [protocols.index(row["protocol"]) + 0.12 * (i - 0.5) for row in own]
        axes.scatter(at, [row["coverage90"] for row in own], color=colour, marker=marker, s=50, label=name, zorder=3)
    axes.set_xticks(range(len(protocols)), protocols, rotation=20, ha="right")
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_ylabel("measurements inside the 90 % interval")
    axes.legend(loc="lower right")
    return drawn
