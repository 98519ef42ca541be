"""Figures as SVG: of reports, comparisons, sweeps, studies and predictions. No library and no script draws them.

A figure is plain data: panels with their series, axes and reference lines. Colours are names of `palette.LIGHT`. A
page's style sheet fills them in; a file carries its own, light and dark. A mark has its numbers as its title.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from penstock.base.system.drawing.elements import SIZE, SYMBOLS, escaped, label, legend_of, patterns_of, wrapped
from penstock.base.system.drawing.model import Axis, Panel, Picture, Rule, Series, bars, written
from penstock.base.system.drawing.panel import PanelDrawing
from penstock.base.system.files import write_atomic
from penstock.base.system.palette import DARK, LIGHT

__all__ = [
    "SIZE", "SYMBOLS", "Axis", "Panel", "Picture", "Rule", "Series", "bars", "described", "escaped", "inline",
    "standalone", "write_figure", "write_figures", "written",
]  # fmt: skip


def write_figures(figures: Mapping[str, Picture | None], folder: Path) -> list[Path]:
    """Write each figure that there is as `<folder>/<name>.svg`, as `write_figure`. Raises: FileError: the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    return [write_figure(figure, folder / f"{name}.svg") for name, figure in figures.items() if figure is not None]


def write_figure(figure: Picture, path: Path) -> Path:
    """Write a figure; it replaces the one before. Raises: FileError: the disk."""
    write_atomic(path, standalone(figure, described(figure)), force=True)
    return path


def described(figure: Picture) -> str:
    """The panels and series in words."""
    names = dict.fromkeys(named.name for panel in figure.panels for named in panel.series if named.name)
    titles = "; ".join(panel.title for panel in figure.panels if panel.title)
    return ". ".join(filter(None, (titles, f"Series: {', '.join(names)}" if len(names) > 1 else "")))


def standalone(
    figure: Picture, description: str, *, font: str = "sans-serif", points: float | None = None, dark: bool = True
) -> bytes:
    """A file of a figure; the same figure gives the same bytes.

    Args:   description: for a reader who does not see it. points: its width in points of print; `None`: its own.
            dark: whether it follows a dark theme.
    """
    body, wide, high = _body(figure, "figure")
    scale = (points or wide) / wide
    unit = "" if points is None else "pt"
    theme = "".join(
        f'[fill="{LIGHT[name]}"]{{fill:{DARK[name]}}}[stroke="{LIGHT[name]}"]{{stroke:{DARK[name]}}}' for name in LIGHT
    )
    style = f"<style>@media screen and (prefers-color-scheme:dark){{{theme}}}</style>" if dark else ""
    body = body.replace('class="grid"', 'stroke="var(--grid)"').replace('class="axis"', 'stroke="var(--line)"')
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide * scale:.2f}{unit}" height="{high * scale:.2f}{unit}" '
        f'font-family="{font}" font-size="{SIZE}">\n<title>{escaped(figure.title or figure.panels[0].title)}</title>'
        f"<desc>{escaped(description)}</desc>{style}\n"
        f'<rect width="100%" height="100%" fill="var(--bg)"/>{body}</svg>\n'
    )
    return re.sub(r"var\(--(\w+)\)", lambda match: LIGHT[match[1]], text).encode()


def inline(figure: Picture, ident: str) -> str:
    """The drawing inside a page, whose element around it describes it. `ident` differs for each figure of a page."""
    body, wide, high = _body(figure, ident)
    return (
        f'<svg viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" height="{high:.0f}" aria-hidden="true" '
        f'font-size="{SIZE}">{body}</svg>'
    )


def _body(figure: Picture, ident: str) -> tuple[str, float, float]:
    """The marks, and the width and height."""
    columns = min(figure.columns, len(figure.panels))
    wide, top, parts = columns * figure.width, 0.0, [patterns_of(figure, ident)]
    if figure.title:
        lines = wrapped(figure.title, wide - 20)
        parts.append(label(8, 20, lines, anchor="start", size=15, bold=True))
        top = 14.0 + 18 * len(lines)
    for first in range(0, len(figure.panels), columns):
        row, below = figure.panels[first : first + columns], 0.0
        for column, panel in enumerate(row):
            inner = PanelDrawing(panel, figure, ident).parts
            if figure.apart:
                legend, high = legend_of([panel], ident, figure.width)
                inner.append(f'<g transform="translate(16 {figure.height + 8:.0f})">{legend}</g>')
                below = max(below, high)
            parts.append(f'<g transform="translate({column * figure.width:.0f} {top:.0f})">{"".join(inner)}</g>')
        top += figure.height + below
    if not figure.apart:
        legend, high = legend_of(figure.panels, ident, wide)
        parts.append(f'<g transform="translate(16 {top + 8:.0f})">{legend}</g>')
        top += high
    return "".join(parts), wide, top
