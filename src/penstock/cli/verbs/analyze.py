"""`penstock analyze`: the main job."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from penstock.cli.client_library import client_library_option
from penstock.cli.options import (
    PATH,
    data_option,
    params_option,
    quiet_option,
    seed_option,
    size_option,
    threads_option,
)
from penstock.cli.output import emit, format_option, progress_console, table_of
from penstock.errors import CheckFailed
from penstock.native.client import require_library
from penstock.reports.build import build_report
from penstock.running.analysis import (
    ACCELERATORS,
    READINGS_OFFERED,
    THIS_CPU,
    TIERS,
    analyze,
    describe,
    headline,
    request_of,
)
from penstock.running.readings import DEFAULT_READING
from penstock.runs.folder import RunFolder
from penstock.runs.record import DamagedRun
from penstock.system.progress import Progress
from penstock.traces.io import read_trace
from penstock.units import format_bytes, format_seconds
from penstock.unpriced import UNKNOWN


@click.command("analyze")
@click.argument("workload")
@params_option
@size_option
@data_option
@seed_option
@threads_option
@click.option(
    "--reading",
    type=click.Choice(READINGS_OFFERED),
    default=DEFAULT_READING,
    help="Who computes on ciphertexts: penstock's evaluator (native), or OpenFHE.",
)
@client_library_option
@click.option(
    "--machine",
    "machines",
    multiple=True,
    default=(THIS_CPU, *ACCELERATORS),
    help="Machine to simulate on, by name or file; may be repeated.",
)
@click.option(
    "--tier",
    "tiers",
    multiple=True,
    default=TIERS,
    help="Where the keys lie, by name or bandwidth ('3.5 GB/s'); may be repeated.",
)
@click.option("-o", "--output", type=PATH, help="Run folder. Default: runs/<time>-<workload>.")
@click.option("--force", is_flag=True, help="Start again in a run folder that is in use.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and how big it is.")
@quiet_option
@format_option
def command(
    workload: str,
    params: str | None,
    size: str | None,
    data_path: Path | None,
    seed: int,
    threads: int | None,
    reading: str,
    client_library: str | None,
    machines: tuple[str, ...],
    tiers: tuple[str, ...],
    output: Path | None,
    force: bool,
    dry_run: bool,
    quiet: bool,
    output_format: str,
) -> None:
    """Run WORKLOAD encrypted, check it against clear, record it, and simulate it where its keys do not fit.

    An interrupted run keeps its finished stages; the same command resumes it.

    \b
    Examples:
      penstock analyze logistic-regression
      penstock analyze matrix-multiplication --size ci --tier pcie5 --tier "3.5 GB/s" -o runs/mine
    """
    request = request_of(
        workload,
        params=params,
        size=size,
        seed=seed,
        threads=threads,
        data=data_path,
        machines=machines,
        tiers=tiers,
        reading=reading,
        client_library=client_library,
    )
    if dry_run:
        emit(describe(request), output_format)
        return
    config = request.config(shlex.join(["penstock", *sys.argv[1:]]))
    path = output or RunFolder.find_unfinished(request.name, config) or RunFolder.default_path(request.name)
    if not path.exists():
        # A run that cannot start leaves no folder behind.
        require_library(reading, client_library)
        describe(request)
    progress = Progress(quiet=quiet)
    with RunFolder.open_or_resume(path, config, force=force) as run:
        if run.complete:
            if not run.has_stage("measured"):
                raise DamagedRun(
                    f"{path}/stages/measured.parquet, what was measured, is damaged or gone; run the same command "
                    "again with --force, or name another folder"
                )
            run.check_artifact(run.trace_path.name)
            found = headline(run, read_trace(run.trace_path))
            if not quiet:
                progress_console.print(f"{path} is complete already; --force runs it again")
            for text in run.damage():
                progress_console.print(text, soft_wrap=True, markup=False)
        else:
            try:
                found = analyze(run, request, progress)
            except KeyboardInterrupt:
                if not quiet:
                    progress_console.print(f"interrupted; {path} keeps what is done, and the same command resumes")
                raise
            run.write_results()
            with progress.stage("report"):
                build_report(run)
            run.finish()
    emit(found, output_format, table=lambda console: _draw(console, found))
    if found["passed"] is False:
        rules = "; ".join(found["rules"])
        raise CheckFailed(f"{workload} encrypted differs from clear: {rules}; the report is {found['report']}")


def _draw(console: Console, found: dict[str, Any]) -> None:
    def line(provenance: str, text: str) -> None:
        console.print(f"  {provenance:<10} {text}", highlight=False)

    security = f"{found['security_bits']} bit" if found["security_bits"] else "insecure"
    console.print(f"{found['workload']} ({found['size']}) on {found['params']}, {security}", highlight=False)
    line(
        "measured",
        f"{format_seconds(found['measured_s'])} encrypted ({format_seconds(found['setup_s'])} set-up), "
        f"{found['num_operations']:,} operations, peak memory {format_bytes(found['peak_rss_bytes'])}",
    )
    outcome = "passed" if found["passed"] else "FAILED"
    line("measured", f"check {outcome}: largest error {found['max_abs_error']:.2g}, bound {found['tolerance']:g}")
    if found["accuracy_encrypted"] is not None:
        names = ("accuracy_encrypted", "accuracy_clear", "chance_accuracy")
        encrypted, clear, chance = (f"{found[name]:.1%}" for name in names)
        line("measured", f"test accuracy {encrypted} encrypted, {clear} clear, {chance} by chance")
    line(
        "predicted",
        f"{found['num_keys']} evaluation keys of {format_bytes(found['key_bytes_unique'])} in all, "
        f"{format_bytes(found['key_bytes_touched'])} read over the run",
    )
    if found["fit_mean_abs_error"] is not None:
        line(
            "predicted",
            f"this-cpu is fitted to medians; its error against them is {found['fit_mean_abs_error']:.1%} on average",
        )
    line("simulated", "every key comes from the tier, none is cached; compute and transfer follow each other")
    table = table_of("machine | params | tier | >keys on chip | >keys on tier | >slowdown | >hit ratio for 80 %")
    for row in found["simulated"]:
        needed = row["hit_ratio_for_80_percent"]
        texts = (("compute_s", format_seconds), ("total_s", format_seconds), ("slowdown", "{:.3g}x".format))
        times = (UNKNOWN if row[name] is None else text(row[name]) for name, text in texts)
        table.add_row(row["machine"], row["params"], row["tier"], *times, "-" if needed is None else f"{needed:.2%}")
    console.print(table)
    for warning in found["warnings"]:
        console.print(f"  warning: {warning['what']}; {warning['remedy']}", highlight=False)
    console.print(f"report: {found['report']}", highlight=False)
