"""Figures: matplotlib, where it is installed, in the style of the reports; SVG files that are the same each time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from penstock.errors import CapabilityMissing
from penstock.system.files import write_atomic
from penstock.system.palette import COLOURS, MUTED, STYLE
from penstock.units import format_seconds


def drawing() -> Any:
    """matplotlib's `pyplot` in the style of the reports, for files that are the same each time.

    Raises: CapabilityMissing: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise CapabilityMissing(f"figures need matplotlib ({error}): install penstock's 'report' extra") from error
    matplotlib.use("Agg")
    from cycler import cycler
    from matplotlib import pyplot

    matplotlib.rcParams.update({**STYLE, "axes.prop_cycle": cycler(color=COLOURS), "legend.frameon": False})
    return pyplot


def write_svg(figure: Any, path: Path) -> Path:
    """Write a figure, which replaces the file that is there, and close it.

    Raises: FileError: the disk.
    """
    write_atomic(path, lambda target: figure.savefig(target, format="svg", metadata={"Date": None}), force=True)
    drawing().close(figure)
    return path


def draw_all(
    figures: Mapping[str, Callable[[Any, Any], Any]], rows: Iterable[Mapping[str, Any]], folder: Path, prefix: str = ""
) -> list[Path]:
    """Write each figure, which is drawn of the rows by their ids, as `<folder>/<prefix><name>.svg`."""
    pyplot, by_id = drawing(), {str(each["id"]): each for each in rows}
    folder.mkdir(parents=True, exist_ok=True)
    return [write_svg(make(pyplot, by_id), folder / f"{prefix}{name}.svg") for name, make in figures.items()]


def readable(axis: Any, unit: str = "") -> None:
    """A logarithmic axis whose ticks a person reads: `0.5×`, `20 ms`, never a power of ten.

    Args:   axis: a panel's `xaxis` or `yaxis`, with its values drawn. unit: `x` for ratios, `s` for seconds, else what
            stands behind each number.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    low, high = sorted(axis.get_view_interval())
    decades = math.log10(high / low) if low > 0 else 3.0
    steps: tuple[float, ...] = (1.0, 2.0, 5.0) if decades <= 2.5 else (1.0, 3.0) if decades <= 4 else (1.0,)
    if decades < 0.6:
        steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    axis.set_major_locator(LogLocator(10, subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: told(value, unit)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def told(value: float, unit: str = "") -> str:
    """A number as a person writes it.

    >>> told(0.01, "x"), told(20000, "x"), told(0.02, "s"), told(5, "W")
    ('0.01×', '20,000×', '20 ms', '5 W')
    """
    if unit == "s":
        return format_seconds(value)
    text = f"{value:g}"
    if value >= 1e-4:
        text = f"{value:,.0f}" if value >= 1000 else f"{value:.4f}".rstrip("0").rstrip(".")
    return f"{text}×" if unit == "x" else f"{text} {unit}".strip()


def not_published(panel: Any, place: float, low: float) -> None:
    """Say at the place of a bar why there is none. `low`: where the axis begins."""
    panel.text(place, low * 1.15, "not published", rotation=90, fontsize=6, color=MUTED, ha="center", va="bottom")
