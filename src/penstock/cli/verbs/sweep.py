"""`penstock sweep`: many simulated points from one file, on all cores or on a cluster, into one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pyarrow.compute as pc
from rich.console import Console

from penstock.cli.options import PATH, quiet_option
from penstock.cli.output import emit, format_option, progress_console, say_choice, table_of
from penstock.errors import UsageError
from penstock.runs.folder import RunFolder
from penstock.sweeps.plan import plan
from penstock.sweeps.play import impossible
from penstock.sweeps.points import Plan, no_point
from penstock.sweeps.run import config_of, run_sweep
from penstock.sweeps.scheduler import check_address, load_distributed
from penstock.sweeps.spec import load_sweep
from penstock.sweeps.store import read_results
from penstock.system.progress import Progress
from penstock.units import format_seconds
from penstock.unpriced import UNKNOWN

SHOWN = 10
"""Reasons for skipped points, and programs, that are printed."""


@click.command("sweep")
@click.argument("file", type=PATH)
@click.option("-o", "--output", type=PATH, help="Run folder. Default: runs/<time>-sweep-<name>.")
@click.option("--dry-run", is_flag=True, help="Trace, say which points there are and which cannot be; play none.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes on this machine. Default: all its cores.")
@click.option("--scheduler", metavar="ADDRESS", help="Use the workers of this Dask scheduler instead: tcp://host:8786.")
@click.option("--force", is_flag=True, help="Replace an existing run.")
@quiet_option
@format_option
def command(
    file: Path,
    output: Path | None,
    dry_run: bool,
    workers: int | None,
    scheduler: str | None,
    force: bool,
    quiet: bool,
    output_format: str,
) -> None:
    """Play every combination that FILE (TOML) names: workloads, parameters, machines, tiers, caches, clusters.

    Rows are like those of 'penstock simulate', in results.parquet of the run folder. The same command continues an
    interrupted sweep and does not repeat finished points. The keys of a file are in 'docs/sweep.md'.

    \b
    Examples:
      penstock sweep examples/sweep.toml --dry-run
      penstock sweep examples/sweep.toml -o runs/tiers --workers 2
      penstock sweep examples/sweep.toml --scheduler tcp://10.0.0.1:8786
    """
    if scheduler is not None:
        if workers is not None:
            raise UsageError("--workers are processes on this machine, --scheduler has its own workers: give one")
        check_address(scheduler)
        load_distributed()
    sweep = load_sweep(file)
    planned = plan(sweep)
    for note in () if quiet else planned.notes[:SHOWN]:
        say_choice(note)
    if dry_run:
        _describe(planned, output_format, Progress(quiet=quiet))
        return
    config = config_of(sweep, planned)
    name = f"sweep-{planned.name}"
    path = output or (None if force else RunFolder.find_unfinished(name, config)) or RunFolder.default_path(name)
    run = RunFolder.open_or_resume(path, config, force=force)
    say = _quiet if quiet else _say
    say(f"run folder: {path}")
    if run.complete and run.has_results:
        say(f"complete: {planned.num_points} points are there already and were not repeated")
        skipped = Counter({(s["what"], s["why"]): s["points"] for s in run.record.get("skipped", [])})
    else:
        with run:
            try:
                outcome = run_sweep(planned, run, workers=workers, scheduler=scheduler, progress=Progress(quiet=quiet))
            except KeyboardInterrupt:
                # None where a second interrupt came while they were written.
                kept = f"{read_results(path).num_rows} of {planned.num_points} points are" if run.has_results else None
                say(f"interrupted: {kept or 'what is finished is'} kept; the same command goes on")
                raise
        skipped = outcome.skipped
        if outcome.resumed:
            say(f"{outcome.resumed} points were stored already and were not repeated")
    for text in _skipped_lines(skipped):
        say(text)
    for warning in run.warnings:
        say(f"warning: {warning['what']}; {warning['remedy']}")
    rows = read_results(path)
    if not rows.num_rows:
        raise no_point(planned.name, skipped)
    if output_format == "table":
        emit([], "table", table=lambda console: _draw(console, rows, path))
    else:
        emit(rows.to_pylist(), output_format)


def _say(text: str) -> None:
    progress_console.print(text, markup=False, highlight=False, soft_wrap=True)


def _quiet(text: str) -> None:
    pass


def _skipped_lines(skipped: Counter[tuple[str, str]]) -> list[str]:
    lines = [f"skipped: {what} ({count} points): {why}" for (what, why), count in skipped.most_common(SHOWN)]
    if len(skipped) > SHOWN:
        lines.append(f"skipped: {len(skipped) - SHOWN} more reasons, in run.json")
    return lines


def _describe(planned: Plan, output_format: str, progress: Progress) -> None:
    points = Counter[int]()
    for chunk in planned.chunks:
        points[chunk.program] += len(chunk.points)
    skipped = Counter(planned.skipped)
    with progress.stage("tracing programs", len(planned.programs)) as stage:
        for i, program in enumerate(planned.programs):
            why = impossible(program)
            if why is not None:
                skipped[program.label(), why] += points.pop(i)
            stage.advance(1)
    if not points:
        raise no_point(planned.name, skipped)
    rows: list[dict[str, Any]] = [
        {
            "workload": "+".join(each.name for each in (program, *program.beside))
            + _seed(program.seed, program.source),
            "size": program.size,
            "params": program.params.name if program.params else None,
            "machine": program.machine.name,
            "key_form": program.key_form.value if program.key_form else None,
            "points": points[i],
            "skipped": None,
        }
        for i, program in enumerate(planned.programs)
        if i in points
    ]
    num_chunks = sum(chunk.program in points for chunk in planned.chunks)

    def draw(console: Console) -> None:
        table = table_of("workload | size | params | machine | keys | >points", no_wrap=True, header_style="bold")
        for row in rows:
            table.add_row(*("-" if row[c] is None else str(row[c]) for c in list(row)[:-1]))
        console.print(table)
        console.print(f"{points.total()} points of {len(rows)} programs, in {num_chunks} chunks", highlight=False)
        for text in _skipped_lines(skipped):
            console.print(text, markup=False, highlight=False)

    left_out = [
        {**dict.fromkeys(rows[0]), "workload": what, "points": count, "skipped": why}
        for (what, why), count in skipped.items()
    ]
    emit([*rows, *left_out], output_format, table=draw)


def _seed(seed: int | None, source: str | None) -> str:
    """Of a workload's trace, where it is not the usual."""
    return f", seed {seed}" if seed and source is None else ""


def _program(row: Mapping[str, Any]) -> str:
    """As `--dry-run` names it: two traces may be of one workload."""
    if row["trace"] is None:
        return f"{row['workload']}{_seed(row['seed'], None)}"
    return "+".join([row["trace"], *(row["beside"] or "").split(",")]).rstrip("+")


def _draw(console: Console, rows: Any, path: Path) -> None:
    """A line for each program: its points and how far they lie apart."""
    table = table_of(
        "workload | size | params | machine | keys | >points | >fastest | >slowest | >best slowdown | >worst",
        no_wrap=True,
        header_style="bold",
    )
    names = ["workload", "size", "params", "machine", "key_form"]
    # Of programs that run together, the slowdown that the worst of them sees.
    felt = pc.if_else(pc.is_valid(rows["tenants"]), rows["tenant_slowdown"], rows["slowdown"])
    rows = rows.set_column(rows.schema.get_field_index("slowdown"), "slowdown", felt)
    found = rows.group_by([*names, "trace", "seed", "beside", "interleave", "classes"], use_threads=False).aggregate(
        [("tier", "count"), ("total_s", "min"), ("total_s", "max"), ("slowdown", "min"), ("slowdown", "max")]
    )
    for row in found.to_pylist():
        table.add_row(
            _program(row),
            *(row[name] or "-" for name in names[1:]),
            str(row["tier_count"]),
            *(UNKNOWN if row[n] is None else format_seconds(row[n]) for n in ("total_s_min", "total_s_max")),
            *("-" if row[n] is None else f"{row[n]:.4g}x" for n in ("slowdown_min", "slowdown_max")),
        )
    console.print(table)
    total = pc.count(rows["point_id"]).as_py()
    console.print(f"{total} points, simulated: {path / 'results.parquet'}", highlight=False, soft_wrap=True)
