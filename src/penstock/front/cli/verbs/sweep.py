"""`penstock sweep`: many simulated points from one file, on all cores or on a cluster, into one table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from penstock.base.system.progress import Progress
from penstock.base.types import RowView
from penstock.base.units import format_seconds
from penstock.errors import UsageError
from penstock.front.cli.options import PATH
from penstock.front.cli.output import Own, draw_rows, emit, known, output_options, say, say_choice
from penstock.front.hall.sweeping import SHOWN, played, skipped_lines
from penstock.lab.sweeps.outline import Outline, by_program, outlined
from penstock.lab.sweeps.plan import plan
from penstock.lab.sweeps.scheduler import check_address, load_distributed
from penstock.lab.sweeps.spec import load_sweep


@click.command("sweep")
@click.argument("file", type=PATH)
@click.option("-o", "--output", type=PATH, help="Run folder. Default: runs/<time>-sweep-<name>.")
@click.option("--dry-run", is_flag=True, help="Trace, say which points there are and which cannot be; play none.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes on this machine. Default: all its cores.")
@click.option("--scheduler", metavar="ADDRESS", help="Use the workers of this Dask scheduler instead: tcp://host:8786.")
@click.option("--force", is_flag=True, help="Replace an existing run.")
@output_options
def command(file: Path, dry_run: bool, quiet: bool, output_format: str, **asked: Any) -> None:
    """Play every combination that FILE (TOML) names: workloads, parameters, machines, tiers, caches, clusters.

    Rows are like those of 'penstock simulate', in results.parquet of the run folder. The same command continues an
    interrupted sweep and does not repeat finished points. The keys of a file are in 'docs/guides/sweep.md'.

    \b
    Examples:
      penstock sweep examples/sweep.toml --dry-run
      penstock sweep examples/sweep.toml -o runs/tiers --workers 2
      penstock sweep examples/sweep.toml --scheduler tcp://10.0.0.1:8786
    """
    if (scheduler := asked["scheduler"]) is not None:
        if asked["workers"] is not None:
            raise UsageError("--workers are processes on this machine, --scheduler has its own workers: give one")
        check_address(scheduler)
        load_distributed()
    sweep = load_sweep(file)
    planned = plan(sweep)
    for note in planned.notes[:SHOWN]:
        say_choice(note, quiet=quiet)
    if dry_run:
        with Progress(quiet=quiet).stage("tracing programs", len(planned.programs)) as stage:
            outline = outlined(planned, stage.advance)
        rows = [*outline.rows, *outline.left_out]
        emit(rows, output_format, table=lambda console: _draw_outline(console, outline))
        return
    path, results = played(sweep, planned, **asked, quiet=quiet, tell=partial(say, quiet=quiet))
    if output_format == "table":
        emit([], "table", table=lambda console: _draw(console, by_program(results), results.num_rows, path))
    else:
        emit(results.to_pylist(), output_format)


def _draw_outline(console: Console, outline: Outline) -> None:
    columns = "workload | size | params | machine | keys=key_form | >points"
    draw_rows(console, outline.rows, columns, no_wrap=True, header_style="bold")
    points = sum(row["points"] for row in outline.rows)
    console.print(f"{points} points of {len(outline.rows)} programs, in {outline.num_chunks} chunks", highlight=False)
    for text in skipped_lines(outline.skipped):
        console.print(text, markup=False, highlight=False)


def _draw(console: Console, rows: Sequence[RowView], points: int, path: Path) -> None:
    """A line for each program: its points and how far they lie apart."""
    own: Own = {name: partial(known, name, format_seconds) for name in ("total_s_min", "total_s_max")}
    columns = "workload=program | size | params | machine | keys=key_form | >points=tier_count | >fastest=total_s_min "
    columns += "| >slowest=total_s_max | >best slowdown=slowdown_min:{:.4g}x | >worst=slowdown_max:{:.4g}x"
    draw_rows(console, rows, columns, own, no_wrap=True, header_style="bold")
    console.print(f"{points} points, simulated: {path / 'results.parquet'}", highlight=False, soft_wrap=True)
