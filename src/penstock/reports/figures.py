"""Figures of a run for a paper: one file a panel, PDF and SVG, at the width of one column or two.

Colours are the reports', which colour-blind readers can tell apart; symbols differ too, so that a figure can be printed
in grey. A figure has no title: `captions.txt` has a sentence for each, with the provenance of its numbers.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from penstock.errors import CapabilityMissing, UsageError
from penstock.reports.data import ReportData
from penstock.reports.head import parameters_in_words, title
from penstock.system.files import os_errors, write_atomic

WIDTHS = {"one-column": 3.35, "two-column": 7.0}
"""Inches: a column of 85 mm, a page of 178 mm."""
STYLES: dict[str, dict[str, Any]] = {
    "sans": {"font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"]},
    "serif": {"font.family": "serif", "font.serif": ["DejaVu Serif"]},
}
FORMATS = ("pdf", "svg")
_POINTS = {"one-column": 7.0, "two-column": 8.0}
_RATIO = {"one-column": 0.72, "two-column": 0.42}


def write_figures(data: ReportData, folder: Path, *, width: str, style: str, force: bool = False) -> list[Path]:
    """Write every panel that the run has rows for, and `captions.txt`; the same run gives the same bytes.

    Raises: UsageError: no such width or style, or nothing to draw; CapabilityMissing: matplotlib is not installed;
            WouldOverwrite, FileError.
    """
    for value, known, what in ((width, WIDTHS, "width"), (style, STYLES, "style")):
        if value not in known:
            raise UsageError(f"{what} '{value}': known are {', '.join(known)}")
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CapabilityMissing("matplotlib is not installed: figures need it; 'pip install matplotlib'") from error
    from penstock.reports.overview import PANELS
    from penstock.system.palette import STYLE

    with os_errors(folder, "create"):
        folder.mkdir(parents=True, exist_ok=True)
    size = _POINTS[width]
    look = {
        **STYLE,
        **STYLES[style],
        "font.size": size,
        "axes.labelsize": size,
        "xtick.labelsize": size - 0.5,
        "ytick.labelsize": size - 0.5,
        "legend.fontsize": size - 0.5,
        "lines.linewidth": 1.0,
        "axes.linewidth": 0.6,
        "pdf.fonttype": 42,
        "lines.markersize": 4.0,
    }
    written: list[Path] = []
    captions: list[str] = []
    for name, draw in PANELS.items():
        if not draw(data, None):
            continue
        with rc_context(look):
            figure = Figure(figsize=(WIDTHS[width], WIDTHS[width] * _RATIO[width]), layout="constrained")
            FigureCanvasAgg(figure)
            axis = figure.subplots()
            draw(data, axis)
            captions.append(f"{name}: {axis.get_title(loc='left')}; {title(data)} with {parameters_in_words(data)}.")
            axis.set_title("", loc="left")
            legend = axis.get_legend()
            for text in legend.get_texts() if legend is not None else ():
                text.set_fontsize(size - 0.5)
            for suffix in FORMATS:
                path = folder / f"{name}.{suffix}"
                write_atomic(path, partial(_save, figure, suffix), force=force)
                written.append(path)
    if not written:
        raise UsageError("this run holds nothing that a figure could show: no measured times, no simulation, no trace")
    path = folder / "captions.txt"
    write_atomic(path, ("\n".join(captions) + "\n").encode(), force=force)
    return [*written, path]


def _save(figure: Any, suffix: str, path: Path) -> None:
    """One file of a figure, without the date on which it was made."""
    date = {"CreationDate": None} if suffix == "pdf" else {"Date": None}
    figure.savefig(path, format=suffix, metadata={"Creator": "penstock", **date})
