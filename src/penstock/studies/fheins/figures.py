"""Figures 3, 4 and 5 of FHEIns drawn again, under the headline's assumption and others, and the power of Table II.

Style and colours are the reports'; lines differ in style as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from penstock.studies.fheins import data
from penstock.studies.io_study.data import Printed
from penstock.system.figures import draw_all, readable
from penstock.system.palette import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY

Rows = Mapping[str, Mapping[str, Any]]
DRIVE_NAME = {"ssd-s": "SSD-S", "ssd-l": "SSD-L"}
PIR_LINES = (
    ("", "host re-reads for each query (headline)", BLUE, "-"),
    ("restream-overlap-cached-64GB", "the same, 64 GB cached on the host", SKY, "--"),
    ("restream-overlap-spill", "headline's host, scratchpads spill", PINK, "-."),
    ("batch-overlap-dram", "both read once a batch", ORANGE, "-"),
    ("batch-overlap-dram-encode-once", "the same, encoded once a batch", GREEN, "--"),
)
SSC_LINES = (
    ("", "DRAM free (headline)", BLUE, "-"),
    ("restream-serial", "host reads, then computes", SKY, "--"),
    ("batch-overlap-dram", "keys over the DRAM", ORANGE, "-"),
    ("batch-overlap-spill", "scratchpads spill", RED, "-."),
)
ABLATION = (
    ("base", "one key and twiddles"), ("keys-from-flash", "one key"), ("seeded-keys-from-flash", "one seeded key"),
    ("twiddles-from-flash", "twiddles"),
)  # fmt: skip


def draw(rows: Iterable[Mapping[str, Any]], folder: Path) -> list[Path]:
    """One SVG for each figure.

    Raises: CapabilityMissing: matplotlib is not installed.
    """
    figures: dict[str, Callable[[Any, Rows], Any]] = {
        "figure3": _pir,
        "figure4": _ssc,
        "figure5": _ablation,
        "table2": _power,
    }
    return draw_all(figures, rows, folder, "fheins-")


def _speedups(
    pyplot: Any, rows: Rows, query: str, lines: tuple[tuple[str, str, str, str], ...], batches: tuple[int, ...]
) -> tuple[Any, Any]:
    """A panel for each drive, with a line for each policy, over the size of a batch."""
    drawn, axes = pyplot.subplots(1, 2, figsize=(11, 5), layout="constrained", sharey=True)
    for panel, drive in zip(axes, data.DRIVES, strict=True):
        for policy, label, colour, style in lines:
            middle = f".{policy}" if policy else ""
            values = [rows[f"{query}.{drive}.batch{b}{middle}.speedup"]["first_principles"] for b in batches]
            panel.plot(batches, values, style, color=colour, marker="o", markersize=3, label=label)
    return drawn, axes


def _finish(axes: Any, published: Mapping[str, Printed], x: str) -> None:
    for panel, drive in zip(axes, data.DRIVES, strict=True):
        panel.axhline(published[drive].value, color=BLACK, linewidth=0.8, linestyle=":", label="published maximum")
        _axes(panel, drive, x)
        panel.set_yscale("log")
        readable(panel.yaxis, "x")
    axes[0].set_ylabel("speedup over SHARP behind PCIe 4.0 x4")
    axes[0].legend(fontsize="x-small")


def _pir(pyplot: Any, rows: Rows) -> Any:
    """Speedup against queries together."""
    drawn, axes = _speedups(pyplot, rows, "pir", PIR_LINES, data.BATCHES)
    for panel, drive in zip(axes, data.DRIVES, strict=True):
        inspire = rows[f"inspire.{drive}.restream-overlap.batch{data.BATCHES[-1]}.speedup"]["first_principles"]
        panel.axhline(inspire, color=BLACK, linewidth=0.8, linestyle="--", label="INSPIRE, headline's host")
    _finish(axes, data.PIR_MAX, "queries together")
    drawn.suptitle("Private retrieval over 288 GiB")
    return drawn


def _ssc(pyplot: Any, rows: Rows) -> Any:
    """Speedup against vectors in a ciphertext."""
    drawn, axes = _speedups(pyplot, rows, "ssc", SSC_LINES, data.SSC_BATCHES)
    _finish(axes, data.SSC_MAX, "vectors in a ciphertext")
    drawn.suptitle("Similarity scores over 128 GB of ciphertexts")
    return drawn


def _ablation(pyplot: Any, rows: Rows) -> Any:
    """Time without an optimisation over the time with all."""
    drawn, axes = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained", sharey=True)
    for panel, drive in zip(axes, data.DRIVES, strict=True):
        values = [rows[f"ablation.{drive}.{name}.speedup"]["first_principles"] for name, _ in ABLATION]
        panel.bar(range(len(values)), values, 0.6, color=[BLUE, ORANGE, GREEN, PINK])
        panel.axhline(data.ABLATION[drive].value, color=BLACK, linestyle=":", label="published")
        panel.set_xticks(range(len(values)), [label for _, label in ABLATION], fontsize="small")
        panel.set_title(DRIVE_NAME[drive])
        panel.set_xlabel("read from flash again for each ciphertext")
        panel.grid(visible=False, axis="x")
    axes[0].set_ylabel("slowdown against all optimisations")
    axes[0].legend(fontsize="small")
    return drawn


def _power(pyplot: Any, rows: Rows) -> Any:
    """Watts of the accelerators under each reading of Table II."""
    drawn, panel = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    readings = ("per-engine", "per-accelerator", "per-drive")
    for i, (drive, colour) in enumerate(zip(data.DRIVES, (BLUE, ORANGE), strict=True)):
        values = [rows[f"table2.{drive}.{reading}.power"]["first_principles"] for reading in readings]
        panel.bar([x + 0.35 * (i - 0.5) for x in range(3)], values, 0.33, color=colour, label=DRIVE_NAME[drive])
    panel.axhline(data.BUDGET_W.value, color=BLACK, linestyle=":", label="budget")
    panel.set_xticks(range(3), ["a row is one engine", "a row is an accelerator", "a row is the drive"])
    panel.set_ylabel("power of the accelerators [W]")
    panel.legend(fontsize="small")
    panel.grid(visible=False, axis="x")
    return drawn


def _axes(panel: Any, drive: str, label: str) -> None:
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.xaxis.minorticks_off()
    panel.set_title(DRIVE_NAME[drive])
    panel.set_xlabel(label)
