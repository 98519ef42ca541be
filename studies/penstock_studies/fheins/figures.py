"""Figures 3, 4 and 5 of FHEIns drawn again, under the headline's assumption and others; Table II."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from penstock.base.system.drawing import Axis, Panel, Picture, Rule, Series, bars
from penstock.base.system.palette import BLUE, GREEN, ORANGE, PINK, RED, SKY
from penstock.base.types import RowView
from penstock_studies.fheins import data
from penstock_studies.io_study.data import PrintedNumber
from penstock_studies.io_study.figures import RowsById, computed, draw_all

DRIVE_NAME = {"ssd-s": "SSD-S", "ssd-l": "SSD-L"}
LINES = {"pir": (
    ("", "host re-reads for each query (headline)", BLUE, "solid"),
    ("restream-overlap-cached-64GB", "the same, 64 GB cached on the host", SKY, "dash"),
    ("restream-overlap-spill", "headline's host, scratchpads spill", PINK, "dashdot"),
    ("batch-overlap-dram", "both read once a batch", ORANGE, "solid"),
    ("batch-overlap-dram-encode-once", "the same, encoded once a batch", GREEN, "dash"),
), "ssc": (
    ("", "DRAM free (headline)", BLUE, "solid"),
    ("restream-serial", "host reads, then computes", SKY, "dash"),
    ("batch-overlap-dram", "keys over the DRAM", ORANGE, "solid"),
    ("batch-overlap-spill", "scratchpads spill", RED, "dashdot"),
)}  # fmt: skip
"""Of each query: policy, name, colour and dash of a line."""
ABLATION = {
    "base": "one key and twiddles", "keys-from-flash": "one key", "seeded-keys-from-flash": "one seeded key",
    "twiddles-from-flash": "twiddles",
}  # fmt: skip


def draw(rows: Iterable[RowView], folder: Path) -> list[Path]:
    """One SVG for each figure. Raises: FileError: the disk."""
    figures = {"figure3": _pir, "figure4": _ssc, "figure5": _ablation, "table2": _power}
    return draw_all({f"fheins-{name}": make for name, make in figures.items()}, rows, folder)


def _speedups(
    rows: RowsById, query: str, x: Axis, published: Mapping[str, PrintedNumber], inspire: str = ""
) -> list[Panel]:
    """A panel for each drive, with a line for each policy, over the size of a batch."""
    panels = []
    y = Axis("speedup over SHARP behind PCIe 4.0 x4", "x", True)
    for drive in data.DRIVES:
        lines = []
        for policy, name, colour, dash in LINES[query]:
            middle = f".{policy}" if policy else ""
            values = computed(rows, (f"{query}.{drive}.batch{batch}{middle}.speedup" for batch in x.ticks))
            lines.append(Series(x.ticks, values, name, colour, "circle", dash, size=5))
        rules = [Rule("y", published[drive].value, "published maximum", "dot")]
        if inspire:
            rules += [Rule("y", computed(rows, [inspire.format(drive)])[0], "INSPIRE, headline's host")]
        panels.append(Panel(lines, x, y, DRIVE_NAME[drive], rules=rules))
    return panels


def _pir(rows: RowsById) -> Picture:
    """Speedup against queries together."""
    x = Axis("queries together", log=True, ticks=data.BATCHES)
    inspire = f"inspire.{{}}.restream-overlap.batch{data.BATCHES[-1]}.speedup"
    panels = _speedups(rows, "pir", x, data.PIR_MAX, inspire)
    return Picture(panels, "Private retrieval over 288 GiB", columns=2, same="y")


def _ssc(rows: RowsById) -> Picture:
    """Speedup against vectors in a ciphertext."""
    x = Axis("vectors in a ciphertext", log=True, ticks=data.SSC_BATCHES)
    panels = _speedups(rows, "ssc", x, data.SSC_MAX)
    return Picture(panels, "Similarity scores over 128 GB of ciphertexts", columns=2, same="y")


def _ablation(rows: RowsById) -> Picture:
    """Time without an optimisation over the time with all."""
    x = Axis("read from flash again for each ciphertext", names=list(ABLATION.values()))
    y = Axis("slowdown against all optimisations", "x")
    panels = []
    for drive in data.DRIVES:
        values = computed(rows, (f"ablation.{drive}.{name}.speedup" for name in ABLATION))
        rules = [Rule("y", data.ABLATION[drive].value, "published", "dot")]
        series = [bars(values, colour=(BLUE, ORANGE, GREEN, PINK))]
        panels.append(Panel(series, x, y, DRIVE_NAME[drive], rules=rules))
    return Picture(panels, columns=2, same="y")


def _power(rows: RowsById) -> Picture:
    """Watts of the accelerators under each reading of Table II."""
    readings = {"engine": "one engine", "accelerator": "an accelerator", "drive": "the drive"}
    series = [
        bars(computed(rows, (f"table2.{drive}.per-{name}.power" for name in readings)), DRIVE_NAME[drive], colour)
        for drive, colour in zip(data.DRIVES, (BLUE, ORANGE), strict=True)
    ]
    x, y = Axis(names=[f"a row is {text}" for text in readings.values()]), Axis("power of the accelerators [W]", "W")
    panel = Panel(series, x, y, rules=[Rule("y", data.BUDGET_W.value, "budget", "dot")])
    return Picture([panel], "Power of the accelerators, Table II", width=640, height=400)
