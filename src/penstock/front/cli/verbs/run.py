"""`penstock run`: a workload in the clear, or encrypted and checked against the clear result."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console

from penstock.base.system.files import check_target, write_atomic
from penstock.base.system.host import available_cores
from penstock.base.system.progress import Progress, StageProgress
from penstock.base.system.vectors import check_form, check_room, write_vectors
from penstock.base.types import Row, RowView
from penstock.base.units import format_named
from penstock.errors import CheckFailed, UnknownName, UsageError
from penstock.front.cli.advice import advice_option, emit_advised, wants_advice
from penstock.front.cli.key_pair import client_library_option
from penstock.front.cli.options import FILE, FOLDER, PATH, Values, program_options, seed_option, threads_option
from penstock.front.cli.output import draw_rows, emit, output_options, plain, say
from penstock.front.cli.run_tables import draw_run
from penstock.front.cli.terminal import PlainConsole
from penstock.front.hall.keeping import Keeper, config_of
from penstock.front.hall.running import Ran, RunDiffers, run
from penstock.lab.measure.timings import benchmark_of
from penstock.lab.simulation.words import OPTIONS
from penstock.program import workloads
from penstock.program.running.readings import DEFAULT_READING, READINGS
from penstock.runtime.native.prepared import ClientPlace
from penstock.scheme.traces.io import write_trace
from penstock.scheme.traces.schema import Trace

OFFERED = [name for name, reading in READINGS.items() if reading.verb == "run"]
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
    type=click.Choice([place.value for place in ClientPlace]),
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
@click.option(
    "-o", "--folder", type=FOLDER, help="Keep the run in this folder: its numbers, trace, timeline and report."
)
@click.option("--force", is_flag=True, help="Replace existing files, and the run in the folder of -o.")
@advice_option
@output_options
def command(
    workload: str | None,
    outputs: tuple[str, ...],
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
    **asked: Any,
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
        _run_queue(tenants_path, jobs_path, asked | {"scheduling": scheduling}, output_format, quiet=quiet)
        return
    workload = _named(workload, scheduling)
    advised, targets = wants_advice(advice, output_format), _output_files(outputs)
    _check_files(workload, asked["reading"], [trace_path, timings_path], targets, force=force)
    program = {name: asked.pop(name) for name in ("params", "size", "reading")}
    asked["inputs"] = asked["inputs"] or None
    keeping = None if folder is None else Keeper(folder, _config(workload, asked, **program), force=force)
    with nullcontext() if keeping is None else closing(keeping) as keeper:
        wanted = {"--trace": trace_path, "--timings": timings_path, "--output": targets}
        if keeper is not None and (stored := keeper.done_before(wanted)) is not None:
            say(f"{folder} is complete, and its numbers are shown; --force runs it again", quiet=quiet)
            emit(stored, output_format, table=lambda console: draw_run(console, stored))
            return
        start = partial(run, workload, **program, **asked, spelled=OPTIONS)
        done, differs = _done(start, Progress(quiet=quiet).stage(f"{workload} encrypted"))
        _write(done.trace, trace_path, timings_path, asked["threads"], force=force, quiet=quiet)
        _write_outputs(done.outputs, targets, force=force, quiet=quiet)
        numbers = dict(done.numbers) if keeper is None else keeper.keep(done)
        remedies = done.advice().advice if advised and (advice or done.asked is not None) else None
        emit_advised(numbers, remedies, output_format, partial(draw_run, row=numbers))
        if differs is not None:
            raise differs


def _config(workload: str, options: Values, **how: Any) -> Row:
    """The configuration of a run, with the command line of this process."""
    return config_of(workload, **how, command=shlex.join(["penstock", *sys.argv[1:]]), options=options)


def _done(start: Callable[..., Ran], progress: AbstractContextManager[StageProgress]) -> tuple[Ran, RunDiffers | None]:
    """A run with its progress, and the error of a result that differs."""
    with progress as stage:
        try:
            return start(on_operation=stage.update), None
        except RunDiffers as error:
            return error.run, error


def _named(workload: str | None, scheduling: str | None) -> str:
    """The workload of one run. Raises: UsageError: none, or an option of a queue."""
    if workload is None:
        raise UsageError("name a WORKLOAD ('penstock workloads' lists them), or a queue with --tenants and --jobs")
    if scheduling is not None:
        raise UsageError("--scheduling orders the jobs of a queue: name it with --tenants and --jobs")
    return workload


def _output_files(words: Sequence[str]) -> dict[str | None, Path]:
    """Name of an output -> its file; `None`: all outputs.

    Raises: UsageError: a file of another kind, a name that comes twice, or a file for all next to others.
    """
    files: dict[str | None, Path] = {}
    for word in words:
        name, equals, path = word.partition("=")
        target = Path(path if equals else word)
        check_form(target)
        key = name if equals else None
        if key in files or target in files.values():
            raise UsageError(
                f"--output {word}: it is named twice; write NAME=FILE for each output, or one file for all"
            )
        files[key] = target
    if None in files and len(files) > 1:
        raise UsageError(f"--output {files[None]} is for all outputs: write NAME=FILE for each, or this file alone")
    return files


def _write_outputs(outputs: RowView, targets: Mapping[str | None, Path], *, force: bool, quiet: bool) -> None:
    """Write the outputs of a run. Raises: UsageError: numbers that the file does not hold; WouldOverwrite."""
    for name, path in targets.items():
        write_vectors(outputs if name is None else {name: outputs[name]}, path, force=force)
        say(f"output written to {path}", quiet=quiet)


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
        say(f"trace written to {trace_path}", quiet=quiet)
    if timings_path is not None:
        timed = benchmark_of(trace, threads or available_cores())
        write_atomic(timings_path, json.dumps(timed, indent=1).encode() + b"\n", force=force)
        left_out = len(trace.server_operations()) - len(timed["benchmarks"])
        if left_out:
            say(
                f"times of {len(timed['benchmarks'])} operations written to {timings_path}; {left_out} are left out: "
                "what the benchmark suite has no name for, and what did pending work of another operation too",
                quiet=quiet,
            )


def _check_files(
    workload: str, reading: str, paths: Sequence[Path | None], targets: Mapping[str | None, Path], *, force: bool
) -> None:
    """Ahead of a run. Raises: UsageError: the reading records nothing to write; as `_check_outputs`. WouldOverwrite."""
    for path in filter(None, paths):
        if not READINGS[reading].keys:
            raise UsageError(f"the {reading} reading records no trace; make one with 'penstock trace', or run native")
        check_target(path, force=force)
    if targets:
        _check_outputs(workload, targets, force=force)


def _check_outputs(workload: str, targets: Mapping[str | None, Path], *, force: bool) -> None:
    """Raises: UsageError: no such output, or more of them than a file holds; WouldOverwrite."""
    package = getattr(workloads.get(workload), "PACKAGE", None)
    names = ["output"] if package is None else [output.name for output in package.outputs]
    for name, path in targets.items():
        if name is not None and name not in names:
            raise UnknownName("output", name, names)
        check_room(path, names if name is None else [name])
        check_target(path, force=force)


def _run_queue(tenants: Path | None, jobs: Path | None, asked: Values, output_format: str, *, quiet: bool) -> None:
    """Run a queue, and print a row a job and the queue's own; with `--format json` one object of `jobs` and `queue`.

    Raises: CheckFailed: a job failed, or its result is wrong. KeyboardInterrupt: after the rows of jobs that ended.
    """
    from penstock.front.hall.queueing import SIMULATED, STATED, run_queue

    if tenants is None or jobs is None:
        raise UsageError("a queue needs both files: --tenants FILE and --jobs FILE")
    how = {name: asked[name] for name in ("scheduling", "threads", "client_library")}
    done = run_queue(tenants, jobs, **how, progress=Progress(quiet=quiet))

    def drawn(console: Console) -> None:
        known = dict.fromkeys(STATED, "stated") | dict.fromkeys(SIMULATED, "simulated")
        texts = {name: format_named(name, plain(value)) for name, value in done.queue.items()}
        rows = ({"known": known.get(name, "measured"), "name": name, "text": text} for name, text in texts.items())
        draw_rows(console, rows, "known | name | text", show_header=False)

    if output_format == "json":
        click.echo(json.dumps(plain({"jobs": done.rows, "queue": done.queue}), indent=2, allow_nan=False))
    else:
        emit(done.to_dicts(), output_format)
    if output_format == "table":
        PlainConsole(width=200).print()
        emit(done.queue, output_format, table=drawn)
    if done.interrupted:
        say(f"interrupted: {len(done)} of {done.queue['jobs']} jobs had ended; their results are above", quiet=quiet)
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
