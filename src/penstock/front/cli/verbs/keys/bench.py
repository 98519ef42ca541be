"""`penstock keys bench` and `penstock keys study`: keys in memory and on disk, measured."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from penstock.base.system.progress import Progress
from penstock.base.system.temporary import temporary_folder
from penstock.base.types import Rows
from penstock.errors import UsageError
from penstock.front.cli.options import FOLDER, THREADS, choice_option, size_option
from penstock.front.cli.output import Own, draw_rows, emit, output_options, shown
from penstock.scheme.params import catalogue

if TYPE_CHECKING:
    from penstock.base.runs.folder import RunFolder
    from penstock.scheme.traces.schema import Trace


disk_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Folder for the temporary keys: the disk to measure. Default: that of temporary files.",
)


@click.command("study")
@click.argument("workload")
@size_option
@click.option("--threads", type=THREADS, default=1, help="Threads of one operation.")
@click.option("--budgets", default="100,50,25,10", help="Per cent of the bytes of all keys.")
@disk_option
@click.option(
    "--machine",
    "machine_name",
    metavar="MACHINE",
    help="Price the operations on this machine ('penstock predict fit' writes one) instead of measuring them.",
)
@click.option("-o", "--output", type=FOLDER, help="Write a run folder with the report here.")
@click.option("--force", is_flag=True, help="Replace the run in that folder.")
@output_options
def study(workload: str, size: str | None, output: Path | None, quiet: bool, output_format: str, **asked: Any) -> None:
    """Run WORKLOAD natively under several key budgets and simulate the same trace at each.

    The simulator takes three measured inputs. Runs before and after give the time of the computation; with --machine, a
    machine prices its operations instead. The others are the rate of reading keys while nothing computes, and the
    slow-down when computing and reading overlap.

    \b
    Examples:
      penstock keys study logistic-regression --budgets 100,25
      penstock keys study logistic-regression -o runs/budgets
      penstock run logistic-regression --reading native --threads 1 --timings native.json
      penstock predict fit native.json -o native.toml
      penstock keys study logistic-regression --machine native.toml
    """
    from penstock.base.runs.folder import RunFolder
    from penstock.lab.reports.budgets import KIND
    from penstock.program.running.reading import resolve
    from penstock.runtime.native.budgets import study_budgets
    from penstock.scheme.machines.catalogue import load_machine
    from penstock.scheme.traces.io import write_trace

    shares, threads = _shares(asked["budgets"]), asked["threads"]
    machine = None if asked["machine_name"] is None else load_machine(asked["machine_name"])
    module, size_name, params = resolve(workload, None, size)
    config = {
        "kind": KIND, "workload": module.NAME, "size": size_name, "params": params.name, "threads": threads,
        "budgets": shares, "machine": None if machine is None else machine.name, "seed": 0, "command": sys.argv,
    }  # fmt: skip
    with ExitStack() as stack:
        run = None if output is None else stack.enter_context(RunFolder.create(output, config, force=asked["force"]))
        place = stack.enter_context(temporary_folder("penstock-keys-", asked["folder"]))
        stage = stack.enter_context(Progress(quiet=quiet).stage("budgets", total=len(shares) + 4))

        def keep(trace: Trace) -> None:
            if run is not None:
                write_trace(trace, run.trace_path, force=True)
                run.note_artifact(run.trace_path.name)
                run.update(params=params.to_dict())

        rows = study_budgets(
            workload,
            size,
            threads=threads,
            shares=shares,
            folder=place / "keys",
            machine=machine,
            on_run=stage.update,
            on_trace=keep,
        )
        if run is not None:
            _report(run, rows)
    emit(rows, output_format, table=lambda console: _draw(console, rows))


def _report(run: RunFolder, rows: Rows) -> None:
    """The rows into the run folder, which is done, and its report."""
    from penstock.lab.reports.budgets import rows_of
    from penstock.lab.reports.build import build_report

    run.append_rows("budgets", rows_of(rows))
    run.finish()
    build_report(run)


def _draw(console: Console, rows: Rows) -> None:
    """One line for each budget: measured and simulated."""
    own: Own = {"budget": lambda row: f"{row['budget_share']:.0%}, {shown('budget_bytes', row['budget_bytes'])}"}
    columns = "budget | >measured=measured_s | >simulated=simulated_s | >error=error:{:+.1%} | >Belady's rule=belady_s "
    columns += "| >waits=measured_wait_s | >simulated=simulated_wait_s | >read=measured_read_bytes "
    draw_rows(console, rows, columns + "| >simulated=simulated_read_bytes", own, no_wrap=True)


def _shares(text: str) -> list[float]:
    try:
        shares = [float(part) / 100 for part in text.split(",")]
    except ValueError:
        shares = []
    if not shares or not all(0 < share <= 1 for share in shares):
        raise UsageError(f"--budgets '{text}': numbers above 0 and up to 100, separated by commas")
    return shares


@click.command("bench")
@click.option("--params", "name", metavar="SET", default="openfhe-bench", help="Parameter set.")
@click.option(
    "--threads",
    type=THREADS,
    default=1,
    help="Threads, and processors that all of them share, those that read keys too.",
)
@click.option("--num-keys", type=click.IntRange(min=5), default=24, help="Keys of one stream.")
@click.option("--rounds", type=click.IntRange(min=1), default=5, help="Streams of each kind.")
@disk_option
@choice_option("--form", ("full", "seeded"), "Form of the keys on disk; penstock's client makes seeded ones.")
@output_options
def command(name: str, rounds: int, form: str, quiet: bool, output_format: str, **asked: Any) -> None:
    """Rotations at the full chain, paired in one run: by OpenFHE, natively with keys in memory, and natively with each
    key read from disk past the page cache.

    \b
    Example:
      penstock keys bench --params openfhe-bench --threads 2 --format json
      penstock keys bench --form seeded
    """
    from penstock.lab.measure.key_bench import bench_keys
    from penstock.scheme.params.rlwe import KeyForm

    params = catalogue.get(name)
    with Progress(quiet=quiet).stage("rotations", total=rounds) as stage:
        measured = bench_keys(params, rounds=rounds, form=KeyForm.named(form), on_round=stage.update, **asked)
    emit(asdict(measured), output_format)
