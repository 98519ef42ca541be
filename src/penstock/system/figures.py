"""Figures: matplotlib, where it is installed, and SVG files that appear whole and are the same each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.errors import CapabilityMissing
from penstock.system.files import write_atomic


def drawing() -> Any:
    """matplotlib's `pyplot`, for files that are the same each time.

    Raises: CapabilityMissing: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise CapabilityMissing(f"figures need matplotlib ({error}): install penstock's 'report' extra") from error
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "penstock"
    from matplotlib import pyplot

    return pyplot


def write_svg(figure: Any, path: Path) -> Path:
    """Write a figure, which replaces the file that is there, and close it.

    Raises: FileError: the disk.
    """
    write_atomic(path, lambda target: figure.savefig(target, format="svg", metadata={"Date": None}), force=True)
    drawing().close(figure)
    return path
