"""The fate of imported timings, told beside the results: which were used, which were left out, and why."""

from __future__ import annotations

from penstock.cli.output import progress_console
from penstock.prediction.importers import ImportLog

_SHOWN_BAD = 5


def tell_imported(log: ImportLog) -> None:
    """One line for each file that was used, each reason for leaving timings out, each warning and each bad row."""
    for path, timings in log.used.items():
        _note(f"used: {timings} timings of {path}")
    for reason, timings in log.left_out.items():
        _note(f"left out: {timings} timings: {reason}")
    for text in log.warnings:
        _note(f"warning: {text}", "yellow")
    if log.bad:
        _note(f"warning: {len(log.bad)} bad rows were left out", "yellow")
        for text in log.bad[:_SHOWN_BAD]:
            _note(f"  {text}", "yellow")
        if len(log.bad) > _SHOWN_BAD:
            _note(f"  and {len(log.bad) - _SHOWN_BAD} more; --format json lists all", "yellow")


def _note(text: str, style: str | None = None) -> None:
    progress_console.print(text, markup=False, highlight=False, style=style)
