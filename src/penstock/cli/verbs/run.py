"""`penstock run`: a workload in the clear, or encrypted and checked against the clear result."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console

from penstock import workloads
from penstock.cli.advice import advice_option, draw_advice, wants_advice
from penstock.cli.client_library import client_library_option
from penstock.cli.options import (
    FILE,
    PATH,
    program_options,
    quiet_option,
    seed_option,
    threads_option,
)
from penstock.cli.output import emit, format_option, plain, progress_console, table_of
from penstock.cli.run_folder import folder_option, in_folder, keeper_of
from penstock.cli.run_tables import draw_run
from penstock.cli.terminal import PlainConsole
from penstock.errors import CheckFailed, UnknownName, UsageError
from penstock.hall.running import Ran, RunDiffers, run
from penstock.measure.timings import benchmark_of
from penstock.native.prepared import ClientPlace
from penstock.running.readings import DEFAULT_READING, READINGS
from penstock.simulation.words import OPTIONS
from penstock.system.files import check_target, write_atomic
from penstock.system.progress import Progress, StageProgress
from penstock.system.vectors import check_form, check_room, write_vectors
from penstock.traces.io import write_trace
from penstock.traces.schema import Trace
from penstock.units import format_named

OFFERED = [name for name, each in READINGS.items() if each.verb == "run"]
"""The readings that this verb has."""
_OF_A_QUEUE = {"tenants_path", "jobs_path", "scheduling", "client_library", "threads", "quiet", "output_format"}
"""Parameters of the verb that a queue has, too."""


@click.command("run")
@click.argument("workload", required=False)
@click.option("--reading", type=click.Choice(OFFERED), default=DEFAULT_READING, help="What it means.")
@program_options
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Inputs of a package (.npy, .npz, .csv, .json), repeated for several. Default: drawn by the seed.",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Write the decrypted values to this file (.npy, .npz, .csv, .json); repeat it for several outputs.",
)
@seed_option
@threads_option
@click.option(
    "--key-budget", metavar="SIZE", help="Bytes of evaluation keys in memory ('1 GiB'); the others lie on disk."
)
@click.option(
    "--keys",
    "store",
    type=click.Path(file_okay=False),
    help="Key store of the native reading, kept for other runs; the secret key goes to KEYS.client next to it. "
    "'node:ADDRESS': operations with keys run at that key node.",
)
@click.option("--tenant", metavar="NAME", help="Whose keys of the store. [default: local]")
@click.option(
    "--input-budget",
    metavar="SIZE",
    help="Bytes of encrypted inputs in memory, those in use included; the others are read when they are used.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Bytes of the evaluating process, for a package: keys, constants, inputs and values together.",
)
@click.option(
    "--client",
    type=click.Choice([each.value for each in ClientPlace]),
    help="Place of the client and its secret key in the native reading: a separate process (default), or inside.",
)
@client_library_option
@click.option(
    "--tenants",
    "tenants_path",
    type=FILE,
    help="Run a queue of jobs: whose keys are where, and how much of them is in memory (TOML).",
)
@click.option("--jobs", "jobs_path", type=FILE, help="The queue's jobs (TOML).")
@click.option("--scheduling", type=click.Choice(["fifo", "locality"]), help="A queue's order, if not the file's.")
@click.option("--trace", "trace_path", type=PATH, help="Write the recorded trace here.")
@click.option(
    "--timings",
    "timings_path",
    type=FILE,
    help="Write the times of its primitives here, for 'penstock predict fit' (Google Benchmark JSON).",
)
@folder_option
@click.option("--force", is_flag=True, help="Replace existing files, and the run in the folder of -o.")
@advice_option
@quiet_option
@format_option
def command(
    workload: str | None,
    reading: str,
    params: str | None,
    size: str | None,
    data: Path | None,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    seed: int,
    threads: int | None,
    key_budget: str | None,
    store: str | None,
    tenant: str | None,
    input_budget: str | None,
    memory: str | None,
    client: str | None,
    client_library: str | None,
    tenants_path: Path | None,
    jobs_path: Path | None,
    scheduling: str | None,
    trace_path: Path | None,
    timings_path: Path | None,
    folder: Path | None,
    force: bool,
    advice: bool | None,
    quiet: bool,
    output_format: str,
) -> None:
    """Run WORKLOAD, a program of your own (a .py file) or a package (.pkg): in the clear, or encrypted and checked
    against the clear result.

    Readings: `clear`, on plain vectors; `noisy`, with the noise that operations would add; `native`, each operation by
    penstock's own evaluator, word for word as OpenFHE's, while a client library makes keys, encrypts and decrypts;
    `openfhe`, all by OpenFHE. Last comes what would help most, predicted from the times of this run.

    Decrypted values are for the owner of the secret key: `penstock client decrypt --for shared` adds noise for others.

    \b
    Examples:
      penstock run inner-product --size ci
      penstock run logistic-regression --reading clear --size helr
      penstock run score.py -o runs/score
      penstock run model.pkg --input x.npy --output y.npy
      penstock run matrix-multiplication --threads 1 --trace matrix.parquet
      penstock run logistic-regression --key-budget "256 MiB"
      penstock run inner-product --keys node:unix:node.sock --tenant alice
      penstock run --tenants tenants.toml --jobs jobs.toml --scheduling locality
    """
    if tenants_path is not None or jobs_path is not None:
        _refuse_beside_a_queue(workload)
        if tenants_path is None or jobs_path is None:
            raise UsageError("a queue needs both files: --tenants FILE and --jobs FILE")
        asked = {"scheduling": scheduling, "threads": threads, "client_library": client_library}
        _run_queue(tenants_path, jobs_path, asked, output_format, quiet=quiet)
        return
    workload = _named(workload, scheduling)
    told = Told(output_format, advised=wants_advice(advice, output_format), asked=bool(advice))
    targets = output_files(outputs)
    _check_files(reading, [trace_path, timings_path], force=force)
    _check_outputs(workload, targets, force=force)
    options: dict[str, Any] = {
        "data": data, "inputs": inputs or None, "seed": seed, "threads": threads, "key_budget": key_budget,
        "keys": store, "tenant": tenant, "input_budget": input_budget, "memory": memory, "client": client,
        "client_library": client_library,
    }  # fmt: skip
    files = Files(trace=trace_path, timings=timings_path, outputs=targets)
    words = (workload, params, size, reading)
    _run_once(words, options, files, folder, told, force=force, quiet=quiet)


@dataclass(frozen=True, slots=True)
class Told:
    """How a run is shown."""

    output_format: str
    _: KW_ONLY
    advised: bool
    """With what would help most, where the reading has times."""
    asked: bool
    """By name: a reading without times is then refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files that a run writes next to its folder."""

    trace: Path | None
    timings: Path | None
    outputs: Mapping[str | None, Path]

    def named(self) -> dict[str, Any]:
        """Option -> what it names."""
        return {"--trace": self.trace, "--timings": self.timings, "--output": self.outputs}


def _run_once(
    words: tuple[str, str | None, str | None, str],
    options: dict[str, Any],
    files: Files,
    folder: Path | None,
    told: Told,
    *,
    force: bool,
    quiet: bool,
) -> None:
    """One run with its files; of a folder that has it already, what it came to."""
    workload, params, size, reading = words
    with ExitStack() as stack:
        keeper = keeper_of(folder, words, options, force=force)
        if keeper is not None:
            stack.callback(keeper.close)
            if (stored := keeper.done_before(files.named(), quiet=quiet)) is not None:
                emit(stored, told.output_format, table=lambda console: draw_run(console, stored))
                return
        done, differs = _done(
            lambda on_operation: run(
                workload,
                reading=reading,
                params=params,
                size=size,
                **options,
                on_operation=on_operation,
                spelled=OPTIONS,
            ),
            Progress(quiet=quiet).stage(f"{workload} encrypted"),
        )
        _write(done.trace, files.trace, files.timings, options["threads"], force=force, quiet=quiet)
        write_outputs(done.outputs, files.outputs, force=force, quiet=quiet)
        numbers = in_folder(keeper, done)
        _show(numbers, done, told)
        if differs is not None:
            raise differs


def _show(numbers: Mapping[str, Any], done: Ran, told: Told) -> None:
    """The numbers of a run, and what would help it most."""
    remedies = done.advice().advice if told.advised and (told.asked or done.asked is not None) else None
    shown = dict(numbers) | ({} if remedies is None else {"advice": remedies.to_dict()})

    def drawn(console: Console) -> None:
        draw_run(console, numbers)
        if remedies is not None:
            draw_advice(console, remedies)

    emit(shown, told.output_format, table=drawn)


def _done(
    start: Callable[[Callable[[int, int], None]], Ran], progress: AbstractContextManager[StageProgress]
) -> tuple[Ran, RunDiffers | None]:
    """A run with its progress, and the error of a result that differs."""
    with progress as stage:
        try:
            return start(lambda n, total: stage.update(n, total=total)), None
        except RunDiffers as error:
            return error.run, error


def _named(workload: str | None, scheduling: str | None) -> str:
    """The workload of one run. Raises: UsageError: none, or an option of a queue."""
    if workload is None:
        raise UsageError("name a WORKLOAD ('penstock workloads' lists them), or a queue with --tenants and --jobs")
    if scheduling is not None:
        raise UsageError("--scheduling orders the jobs of a queue: name it with --tenants and --jobs")
    return workload


def output_files(words: Sequence[str]) -> dict[str | None, Path]:
    """Name of an output -> its file; `None`: all outputs.

    Raises: UsageError: a file of another kind, a name that comes twice, or a file for all next to others.
    """
    found: dict[str | None, Path] = {}
    for word in words:
        name, equals, path = word.partition("=")
        target = Path(path if equals else word)
        check_form(target)
        key = name if equals else None
        if key in found or target in found.values():
            raise UsageError(
                f"--output {word}: it is named twice; write NAME=FILE for each output, or one file for all"
            )
        found[key] = target
    if None in found and len(found) > 1:
        raise UsageError(f"--output {found[None]} is for all outputs: write NAME=FILE for each, or this file alone")
    return found


def write_outputs(outputs: Mapping[str, Any], targets: Mapping[str | None, Path], *, force: bool, quiet: bool) -> None:
    """Write the outputs of a run. Raises: UsageError: numbers that the file does not hold; WouldOverwrite."""
    for name, path in targets.items():
        write_vectors(outputs if name is None else {name: outputs[name]}, path, force=force)
        if not quiet:
            progress_console.print(f"output written to {path}", highlight=False)


def _write(
    trace: Trace | None,
    trace_path: Path | None,
    timings_path: Path | None,
    threads: int | None,
    *,
    force: bool,
    quiet: bool,
) -> None:
    """The trace, and the times of its primitives, where they are asked for."""
    if trace is None:
        return
    if trace_path is not None:
        write_trace(trace, trace_path, force=force)
        if not quiet:
            progress_console.print(f"trace written to {trace_path}")
    if timings_path is not None:
        timed = benchmark_of(trace, threads or len(os.sched_getaffinity(0)))
        write_atomic(timings_path, json.dumps(timed, indent=1).encode() + b"\n", force=force)
        left_out = len(trace.server_operations()) - len(timed["benchmarks"])
        if left_out and not quiet:
            progress_console.print(
                f"times of {len(timed['benchmarks'])} operations written to {timings_path}; {left_out} are left out: "
                "what the benchmark suite has no name for, and what did pending work of another operation too",
                highlight=False,
            )


def _check_files(reading: str, paths: Sequence[Path | None], *, force: bool) -> None:
    """Raises: UsageError: the reading records nothing to write. WouldOverwrite."""
    for path in paths:
        if path is not None and not READINGS[reading].keys:
            raise UsageError(f"the {reading} reading records no trace; make one with 'penstock trace', or run native")
        if path is not None:
            check_target(path, force=force)


def _check_outputs(workload: str, targets: Mapping[str | None, Path], *, force: bool) -> None:
    """Ahead of a run. Raises: UsageError: no such output, or more of them than a file holds; WouldOverwrite."""
    if not targets:
        return
    package = getattr(workloads.get(workload), "PACKAGE", None)
    names = ["output"] if package is None else [each.name for each in package.outputs]
    for name, path in targets.items():
        if name is not None and name not in names:
            raise UnknownName("output", name, names)
        check_room(path, names if name is None else [name])
        check_target(path, force=force)


def _run_queue(tenants: Path, jobs: Path, asked: Mapping[str, Any], output_format: str, *, quiet: bool) -> None:
    """Run a queue, and print a row a job and the queue's own; with `--format json` one object of `jobs` and `queue`.

    Raises: CheckFailed: a job failed, or its result is wrong. KeyboardInterrupt: after the rows of jobs that ended.
    """
    from penstock.hall.queueing import SIMULATED, STATED, run_queue

    done = run_queue(tenants, jobs, **asked, progress=Progress(quiet=quiet))

    def drawn(console: Console) -> None:
        table = table_of(" |  | ", show_header=False)
        for name, value in done.queue.items():
            known = "simulated" if name in SIMULATED else "stated" if name in STATED else "measured"
            table.add_row(known, name, format_named(name, plain(value)))
        console.print(table)

    if output_format == "json":
        click.echo(json.dumps(plain({"jobs": done.rows, "queue": done.queue}), indent=2, allow_nan=False))
    else:
        emit(done.to_dicts(), output_format)
    if output_format == "table":
        PlainConsole(width=200).print()
        emit(done.queue, output_format, table=drawn)
    if done.interrupted:
        if not quiet:
            ended = f"{len(done)} of {done.queue['jobs']} jobs had ended"
            progress_console.print(f"interrupted: {ended}; their results are above")
        raise KeyboardInterrupt
    bad = [row for row in done if not row["passed"]]
    if bad:
        raise CheckFailed(f"{len(bad)} of {len(done)} jobs failed; the first: job {bad[0]['job']}: {bad[0]['error']}")


def _refuse_beside_a_queue(workload: str | None) -> None:
    """A workload and its options say nothing to a queue: its files do."""
    if workload is not None:
        raise UsageError(f"--tenants and --jobs run a queue: leave '{workload}' out, or write it as a job")
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE and name not in _OF_A_QUEUE:
            raise UsageError(
                f"a queue takes no {option.opts[0]}: its files say whose keys are where, under which budget, and what "
                "each job runs"
            )
