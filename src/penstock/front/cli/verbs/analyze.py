"""`penstock analyze`: the main job."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from penstock.base.types import Row
from penstock.base.units import format_bytes, format_seconds
from penstock.errors import CheckFailed
from penstock.front.cli.key_pair import client_library_option
from penstock.front.cli.options import PATH, choice_option, program_options, seed_option, several_option, threads_option
from penstock.front.cli.output import Own, draw_rows, emit, known, output_options, say
from penstock.front.cli.run_tables import checked, headed, timed
from penstock.front.hall.analyzing import analyzed
from penstock.lab.analysis import ACCELERATORS, READINGS_OFFERED, THIS_CPU, TIERS, describe, request_of
from penstock.program.running.readings import DEFAULT_READING


@click.command("analyze")
@click.argument("workload")
@program_options
@seed_option
@threads_option
@choice_option(
    "--reading",
    READINGS_OFFERED,
    "Who computes on ciphertexts: penstock's evaluator (native), or OpenFHE.",
    default=DEFAULT_READING,
)
@client_library_option
@several_option("--machine", "machines", "Machine to simulate on, by name or file", default=(THIS_CPU, *ACCELERATORS))
@several_option("--tier", "tiers", "Where the keys lie, by name or bandwidth ('3.5 GB/s')", default=TIERS)
@click.option("-o", "--output", type=PATH, help="Run folder. Default: runs/<time>-<workload>.")
@click.option("--force", is_flag=True, help="Start again in a run folder that is in use.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and how big it is.")
@output_options
def command(
    workload: str, output: Path | None, force: bool, dry_run: bool, quiet: bool, output_format: str, **asked: Any
) -> None:
    """Run WORKLOAD encrypted, check it against clear, record it, and simulate it where its keys do not fit.

    An interrupted run keeps its finished stages; the same command resumes it.

    \b
    Examples:
      penstock analyze logistic-regression
      penstock analyze matrix-multiplication --size ci --tier pcie5 --tier "3.5 GB/s" -o runs/mine
    """
    request = request_of(workload, **asked)
    if dry_run:
        emit(describe(request), output_format)
        return
    analysis = analyzed(request, shlex.join(["penstock", *sys.argv[1:]]), output, force=force, quiet=quiet, tell=say)
    emit(analysis, output_format, table=lambda console: _draw(console, analysis))
    if analysis["passed"] is False:
        rules = "; ".join(analysis["rules"])
        raise CheckFailed(f"{workload} encrypted differs from clear: {rules}; the report is {analysis['report']}")


def _draw(console: Console, analysis: Row) -> None:
    def line(provenance: str, text: str) -> None:
        console.print(f"  {provenance:<10} {text}", highlight=False)

    console.print(headed(analysis), highlight=False)
    line("measured", timed(analysis, "measured_s"))
    line("measured", checked(analysis))
    if analysis["accuracy_encrypted"] is not None:
        names = ("accuracy_encrypted", "accuracy_clear", "chance_accuracy")
        encrypted, clear, chance = (f"{analysis[name]:.1%}" for name in names)
        line("measured", f"test accuracy {encrypted} encrypted, {clear} clear, {chance} by chance")
    line(
        "predicted",
        f"{analysis['num_keys']} evaluation keys of {format_bytes(analysis['key_bytes_unique'])} in all, "
        f"{format_bytes(analysis['key_bytes_touched'])} read over the run",
    )
    if analysis["fit_mean_abs_error"] is not None:
        line(
            "predicted",
            f"this-cpu is fitted to medians; its error against them is {analysis['fit_mean_abs_error']:.1%} on average",
        )
    line("simulated", "every key comes from the tier, none is cached; compute and transfer follow each other")
    own: Own = {name: partial(known, name, text) for name, text in _KNOWN.items()}
    columns = "machine | params | tier | >keys on chip=compute_s | >keys on tier=total_s | >slowdown "
    columns += "| >hit ratio for 80 %=hit_ratio_for_80_percent:{:.2%}"
    draw_rows(console, analysis["simulated"], columns, own)
    for warning in analysis["warnings"]:
        console.print(f"  warning: {warning['what']}; {warning['remedy']}", highlight=False)
    console.print(f"report: {analysis['report']}", highlight=False)


_KNOWN: dict[str, Callable[[float], str]] = {
    "compute_s": format_seconds, "total_s": format_seconds, "slowdown": "{:.3g}x".format,
}  # fmt: skip
