"""`penstock record`: run any OpenFHE Python script unchanged and write the trace of its operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from penstock.base.system.files import check_target
from penstock.base.system.frames import pandas_let_in
from penstock.base.units import format_bytes, format_seconds
from penstock.errors import PenstockError, UsageError
from penstock.front.cli.options import PATH
from penstock.front.cli.output import draw_rows, progress_console
from penstock.program.openfhe.recorder import Recording, ScriptRun, run_script
from penstock.program.openfhe.recorder.context import free_path
from penstock.program.openfhe.recorder.oblivious import check_oblivious
from penstock.program.openfhe.recorder.package_files import PackageFiles
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.traces.inspect import summary
from penstock.scheme.traces.io import write_trace
from penstock.scheme.traces.schema import Trace
from penstock.scheme.unpriced import shown_total


class _Record(click.Command):
    """Leaves a `--` before SCRIPT to `split_options`, which click would take away."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, args)
        its_own: tuple[str, ...] = ctx.params["args"]
        if given[: len(given) - 1 - len(its_own)][-1:] == ["--"]:
            ctx.params["args"] = ("--", *its_own)
        return rest


@click.command(
    cls=_Record,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[-o FILE] [--package FILE] [--force]",
)
@click.argument("script", type=PATH)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("-o", "--output", type=PATH, help="The trace file. Default: <script>.trace.parquet here.")
@click.option(
    "--package", type=PATH, help="A package as well: the program as data, with its constants, for other runs."
)
@click.option(
    "--verify", is_flag=True, help="Run SCRIPT twice, with other keys and inputs; refuse a package that differs."
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--quiet", "-q", is_flag=True, help="No summary on stderr.")
def command(
    script: Path,
    args: tuple[str, ...],
    output: Path | None,
    package: Path | None,
    verify: bool,
    force: bool,
    quiet: bool,
) -> int:
    """Run SCRIPT with its ARGS, unchanged, and record every CKKS operation that it executes with OpenFHE.

    Standard output is the script's own, and so is the exit code. A script that fails or is interrupted keeps its trace
    up to there. All words after SCRIPT belong to the script, except -o FILE, --package FILE, --verify, --force and
    --quiet. After '--', before SCRIPT or behind it, all words belong to the script. A script with several
    CryptoContexts gives one trace each, the others numbered, and one package for each key pair. A call that a package
    cannot hold is named with its line, and the exit code is 1.

    \b
    Examples:
      penstock record my_model.py --layers 3 -o my_model.parquet
      penstock record my_model.py --package my_model.pkg --verify
      penstock trace info my_model.parquet
    """
    own, args = split_options(args)
    force, quiet, verify = force or "force" in own, quiet or "quiet" in own, verify or "verify" in own
    target = Path(own["output"]) if "output" in own else output or Path(f"{script.stem}.trace.parquet")
    package = Path(own["package"]) if "package" in own else package
    if verify and package is None:
        raise UsageError("--verify compares packages: give --package FILE as well")
    check_target(target, force=force)
    # The script may change the current folder.
    here = Path.cwd()
    target = here / target
    with ExitStack() as opened:
        files = None if package is None else PackageFiles(here / package, opened, force=force, verify=verify)
        with pandas_let_in():
            run = run_script(
                script,
                args,
                on_refused=lambda error: _say(f"not recorded: {error}"),
                sinks=None if files is None else files.sink,
            )
        if run.shown:
            click.echo(run.shown, err=True, nl=False)
        if not run.recordings:
            _nothing(run, script)
            return run.exit_code
        for number, recording in enumerate(run.recordings, 1):
            path = target if number == 1 else free_path(target)
            _write(recording, path, here, force and number == 1, quiet)
        if files is None or run.exit_code:
            if files is not None:
                _say("no package: the script ended early")
            return run.exit_code
        if verify:
            check_oblivious(run, here / script, args, here)
        return _write_packages(files, run, here, quiet)


def _write_packages(files: PackageFiles, run: ScriptRun, here: Path, quiet: bool) -> int:
    """Exit code 1 if a part of the script is in none."""
    made, refusals = files.write(run)
    for written in made if not quiet else ():
        package = written.package
        path = written.path.relative_to(here) if written.path.is_relative_to(here) else written.path
        _say(
            f"package in {path} ({format_bytes(written.num_bytes)}): {len(package.instructions)} instructions, "
            f"{written.num_constants} constants; inputs {', '.join(i.name for i in package.inputs)}; outputs "
            f"{', '.join(o.name for o in package.outputs)}"
        )
    for refusal in refusals:
        _say(f"no package: {refusal}")
    return 1 if refusals else 0


def split_options(args: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Penstock's own options among what follows the script, and the script's arguments.

    >>> split_options(["--layers", "3", "-o", "t.parquet", "--", "-o", "mine"])
    ({'output': 't.parquet'}, ('--layers', '3', '-o', 'mine'))
    """
    values = {"-o": "output", "--output": "output", "--package": "package"}
    flags = {"--force": "force", "--quiet": "quiet", "-q": "quiet", "--verify": "verify"}
    own: dict[str, str] = {}
    rest: list[str] = []
    waiting = iter(args)
    for arg in waiting:
        if arg == "--":
            rest += waiting
        elif arg in values:
            value = next(waiting, None)
            if value is None:
                raise UsageError(f"{arg} needs a file name")
            own[values[arg]] = value
        elif arg.partition("=")[0] in ("--output", "--package"):
            name, _, value = arg.partition("=")
            own[values[name]] = value
        elif arg in flags:
            own[flags[arg]] = "yes"
        else:
            rest.append(arg)
    return own, tuple(rest)


def _nothing(run: ScriptRun, script: Path) -> None:
    if run.refused:
        raise UsageError(f"{script}: nothing was recorded: {run.refused[0]}")
    if run.exit_code == 0:
        raise PenstockError(
            f"{script} executed no operation on a CKKS ciphertext, so there is no trace: does it use OpenFHE, and in "
            "this process?"
        )
    _say("nothing was recorded before that; no trace was written")


def _write(recording: Recording, path: Path, here: Path, force: bool, quiet: bool) -> None:
    trace = recording.trace()
    write_trace(trace, path, force=force)
    for problem in recording.problems[:5]:
        _say(f"a call was not recorded: {problem}")
    if quiet:
        return
    # Count keys with composites expanded, as `trace info` does, and operations as called.
    info, params = summary(trace), recording.params
    seconds, counts = Counter[str](), Counter[str]()
    called = trace.view(composites=True).operations.select(["kind", "start_s", "end_s"]).to_pylist()
    for row in called:
        counts[row["kind"]] += 1
        seconds[row["kind"]] += row["end_s"] - row["start_s"]
    rows = [{"operation": kind, "count": counts[kind], "seconds": seconds[kind]} for kind in trace.count_by_kind()]
    draw_rows(progress_console, (row for row in rows if row["count"]), "operation | >count | >seconds=seconds:{:.4g}")
    _say(
        f"{len(called)} operations (measured) of N={params.ring_dim}, {params.num_q} limbs, {params.scaling} in "
        f"{format_seconds(sum(seconds.values()))}; recording took {format_seconds(recording.overhead_s)}"
    )
    whole = _unexpanded(trace)
    if whole:
        _say(f"of {', '.join(whole)} the inside is not known: totals of a prediction or a simulation are lower bounds")
    _say(
        f"{shown_total(info, 'num_keys', str)} evaluation keys used "
        f"({shown_total(info, 'key_bytes_unique', format_bytes)}, read "
        f"{shown_total(info, 'key_bytes_touched', format_bytes)}); {recording.num_automorphism_keys} automorphism "
        "keys generated"
    )
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    _say(f"trace in {shown}; look at it with 'penstock trace info {shown}'")


def _unexpanded(trace: Trace) -> list[str]:
    """Names of the composite calls that the trace holds whole."""
    view = trace.view().operations.select(["kind", "scope"]).to_pylist()
    scopes = [row["scope"] for row in view if TRAITS[OpKind(row["kind"])].composite]
    return list(dict.fromkeys(scope.rpartition("/")[2].partition("[")[0] for scope in scopes))


def _say(message: str) -> None:
    click.echo(f"penstock: {message}", err=True)
