"""`penstock run --tenants FILE --jobs FILE`: a queue of jobs of several tenants."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console

from penstock.cli.output import emit, plain, progress_console, table_of
from penstock.cli.terminal import PlainConsole
from penstock.errors import CheckFailed, PenstockError, UsageError
from penstock.system.progress import Progress
from penstock.units import format_named

if TYPE_CHECKING:
    from penstock.service.client import Clients
    from penstock.service.run import JobResult

F = TypeVar("F", bound=Callable[..., Any])


def tenant_options(command: F) -> F:
    """The options of a queue."""
    options = [
        click.option(
            "--tenants", "tenants_path", type=click.Path(path_type=Path, dir_okay=False),
            help="Run a queue of jobs: whose keys are where, and how much of them is in memory (TOML)."
        ),
        click.option(
            "--jobs", "jobs_path", type=click.Path(path_type=Path, dir_okay=False), help="The queue's jobs (TOML)."
        ),
        click.option(
            "--scheduling", type=click.Choice(["fifo", "locality"]), help="A queue's order, if not the file's."
        ),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def run_tenants(
    tenants_path: Path | None,
    jobs_path: Path | None,
    scheduling: str | None,
    *,
    library: str | None,
    threads: int | None,
    quiet: bool,
    output_format: str,
) -> None:
    """Run the queue, check each result, and print one row a job and the queue's numbers.

    With `--format json` one object: `jobs`, and `queue`.
    Raises: UsageError: a file is missing or wrong; CheckFailed: a job failed, or its result is wrong.
    """
    from penstock.keystore import KeyStore
    from penstock.service.client import Clients
    from penstock.service.queue import Scheduling, load_jobs, load_tenants
    from penstock.service.report import queue_row
    from penstock.service.run import QueueRunner, demand_of
    from penstock.service.schedule import order_jobs

    if tenants_path is None or jobs_path is None:
        raise UsageError("a queue needs both files: --tenants FILE and --jobs FILE")
    tenants = load_tenants(tenants_path)
    jobs = load_jobs(jobs_path, tenants.names)
    chosen = tenants.scheduling if scheduling is None else Scheduling(scheduling)
    clients = Clients(tenants.store, most_processes=1, threads=threads, library=library)
    interrupted = False
    done: list[JobResult] = []
    try:
        with Progress(quiet=quiet).stage("inputs", total=len(jobs)) as stage:
            prepared = clients.prepare(jobs, on_job=stage.advance)
        demands = [demand_of(each) for each in prepared]
        whole = {key: each.params.key_bytes() for each in prepared for key in demand_of(each).largest()}
        budget = tenants.budget_bytes(sum(whole.values()))
        order = order_jobs(demands, chosen, budget, tenants.max_overtaken)
        runner = QueueRunner(
            KeyStore(tenants.store), budget, tenants.policy, threads=threads or len(os.sched_getaffinity(0))
        )
        with Progress(quiet=quiet).stage("jobs", total=len(jobs)) as stage:
            try:
                for result in runner.run([prepared[at] for at in order]):
                    done.append(result)
                    stage.advance()
            except KeyboardInterrupt:
                interrupted = True
        rows: list[dict[str, Any]] = [{}] * len(done)
        for at in sorted(range(len(done)), key=lambda at: done[at].prepared.key_pair):
            rows[at] = _checked_row(clients, done[at])
        summary = queue_row(
            done, [prepared[at] for at in order], chosen, tenants.policy, budget, runner.cache.stats(), interrupted
        )
    finally:
        clients.release()
    _print(rows, summary, output_format)
    if interrupted:
        if not quiet:
            progress_console.print(f"interrupted: {len(done)} of {len(jobs)} jobs had ended; their results are above")
        raise KeyboardInterrupt
    bad = [row for row in rows if not row["passed"]]
    if bad:
        raise CheckFailed(f"{len(bad)} of {len(rows)} jobs failed; the first: job {bad[0]['job']}: {bad[0]['error']}")


def _checked_row(clients: Clients, result: JobResult) -> dict[str, Any]:
    """The row of a job, whose result its tenant decrypts."""
    from penstock.service.report import job_row

    if result.error is not None:
        return job_row(result, None)
    job = result.prepared.job
    try:
        return job_row(result, clients.of(job).check(job, result.prepared.size, result.outputs))
    except PenstockError as error:
        return job_row(replace(result, error=str(error)), None)


def _print(rows: list[dict[str, Any]], summary: dict[str, Any], output_format: str) -> None:
    if output_format == "json":
        click.echo(json.dumps(plain({"jobs": rows, "queue": summary}), indent=2, allow_nan=False))
        return
    emit(rows, output_format)
    if output_format == "table":
        PlainConsole(width=200).print()
        emit(summary, output_format, table=lambda console: _draw(console, summary))


def _draw(console: Console, summary: dict[str, Any]) -> None:
    """A line for each value, with how it is known."""
    from penstock.service.report import SIMULATED, STATED

    drawn = table_of(" |  | ", show_header=False)
    for name, value in summary.items():
        known = "simulated" if name in SIMULATED else "stated" if name in STATED else "measured"
        drawn.add_row(known, name, format_named(name, plain(value)))
    console.print(drawn)
