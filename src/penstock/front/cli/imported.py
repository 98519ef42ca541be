"""The fate of imported timings, told beside the results: which were used, which were left out, and why."""

from __future__ import annotations

from penstock.front.cli.output import say
from penstock.lab.prediction.importers import ImportLog

_SHOWN_BAD = 5


def tell_imported(log: ImportLog) -> None:
    """One line for each file that was used, each reason for leaving timings out, each warning and each bad row."""
    for path, timings in log.used.items():
        say(f"used: {timings} timings of {path}")
    for reason, timings in log.left_out.items():
        say(f"left out: {timings} timings: {reason}")
    for text in log.warnings:
        say(f"warning: {text}", style="yellow")
    if log.bad:
        say(f"warning: {len(log.bad)} bad rows were left out", style="yellow")
        for text in log.bad[:_SHOWN_BAD]:
            say(f"  {text}", style="yellow")
        if len(log.bad) > _SHOWN_BAD:
            say(f"  and {len(log.bad) - _SHOWN_BAD} more; --format json lists all", style="yellow")
