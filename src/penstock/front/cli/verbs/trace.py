"""`penstock trace`: make a trace without cryptography; look at, check, compare, rewrite and export traces."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from penstock.base.system.files import check_target
from penstock.base.system.progress import Progress
from penstock.base.types import Row
from penstock.base.units import format_bytes, format_seconds
from penstock.errors import CheckFailed, UsageError
from penstock.front.cli.key_forms import draw_forms
from penstock.front.cli.options import PATH, count_option, params_option, seed_option, size_option
from penstock.front.cli.output import emit, format_option, output_options, rows_table, say
from penstock.front.cli.verbs.trace_import import broken_format, expand_command, import_command
from penstock.front.cli.verbs.trace_rewrite import command as rewrite_command
from penstock.scheme.traces import is_trace_file
from penstock.scheme.traces.export import EXPORTERS, export
from penstock.scheme.traces.inspect import differences, problems, summary
from penstock.scheme.traces.io import read_trace, write_trace
from penstock.scheme.traces.perfetto import DEFAULT_EVENTS
from penstock.scheme.unpriced import UNKNOWN, reason, shown_total

SHOWN = 20
"""Rows of a list of problems or differences that are printed."""


class WorkloadOrVerb(click.Group):
    """`penstock trace WORKLOAD …` makes a trace; `penstock trace info FILE` and the others look at one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            return "make", self.commands["make"], args
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in self.commands if name != "make"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # `trace --params sharp WORKLOAD -o F` puts options first: they belong to the trace that is made.
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            args = ["make", *args]
        return super().parse_args(ctx, args)


@click.group(cls=WorkloadOrVerb, subcommand_metavar="WORKLOAD [OPTIONS] | COMMAND FILE")
def command() -> None:
    """Trace a workload without cryptography; inspect, check, compare, rewrite and export traces.

    \b
    Examples:
      penstock trace logistic-regression --params sharp -o helr.parquet
      penstock trace recorded.parquet --params sharp -o at-sharp.parquet
      penstock trace info helr.parquet
      penstock trace diff measured.parquet symbolic.parquet
      penstock trace export helr.parquet --to jsonl -o helr.jsonl
    """


@command.command("make")
@click.argument("workload")
@params_option
@size_option
@seed_option
@click.option("-o", "--output", type=PATH, help="The trace file (.parquet). Without it only a summary is printed.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@output_options
def make(workload: str, params: str | None, output: Path | None, quiet: bool, output_format: str, **asked: Any) -> None:
    """Trace WORKLOAD by the `trace` reading: nothing is encrypted, any parameters, seconds at most.

    WORKLOAD may be a recorded trace (.parquet), which is taken to other parameters: levels, rescales and composites are
    derived anew, as the program would have them there.
    """
    from penstock.front.hall.programs import trace as trace_program

    force = asked.pop("force")
    if output is not None:
        check_target(output, force=force)
    if is_trace_file(workload) and params is None:
        raise UsageError(
            f"{workload} is a trace: name the parameters to take it to with --params, or look at it with "
            f"'penstock trace info {workload}'"
        )
    started = time.perf_counter()
    traced = trace_program(workload, params, **asked)
    trace = traced.trace
    for warning in traced.warnings:
        say(f"note: {warning}", quiet=quiet)
    if output is not None:
        write_trace(trace, output, force=force)
        took = format_seconds(time.perf_counter() - started)
        say(f"{len(trace)} operations written to {output} in {took}", quiet=quiet)
    facts = summary(trace)
    emit(facts, output_format, table=lambda console: _draw(console, facts))


@command.command("info")
@click.argument("file", type=PATH)
@click.option("--composites", is_flag=True, help="Keep composites whole instead of expanding them.")
@format_option
def info(file: Path, composites: bool, output_format: str) -> None:
    """What a trace holds: operations by kind, keys, bytes.

    `encrypt` and `decrypt` run at the client: they are shown, but not counted in `num_operations`.
    """
    facts = summary(read_trace(file), composites=composites)
    emit(facts, output_format, table=lambda console: _draw(console, facts))


@command.command("validate")
@click.argument("file", type=PATH)
@format_option
def validate(file: Path, output_format: str) -> None:
    """Check a trace against every rule of the format. Exit 1 if it breaks one."""
    faults = list(problems(read_trace(file)))
    _say_valid("file", file, faults, output_format)
    if faults:
        raise broken_format(file, faults, SHOWN)


def _say_valid(what: str, path: Path, faults: list[str], output_format: str) -> None:
    verdict = f"{len(faults)} problems" if faults else "valid"
    row = {what: str(path), "valid": not faults, "num_problems": len(faults), "problems": faults[:SHOWN]}
    emit(row, output_format, table=lambda console: console.print(f"{path}: {verdict}"))


@command.command("diff")
@click.argument("left", type=PATH)
@click.argument("right", type=PATH)
@format_option
def diff(left: Path, right: Path, output_format: str) -> None:
    """Compare two traces operation by operation; times do not count. Exit 1 if they differ."""
    differing = [str(d) for d in islice(differences(read_trace(left), read_trace(right)), SHOWN + 1)]
    emit(
        {"left": str(left), "right": str(right), "equal": not differing, "differences": differing[:SHOWN]},
        output_format,
        table=lambda console: console.print("equal" if not differing else "different"),
    )
    if differing:
        more = ["…"] if len(differing) > SHOWN else []
        raise CheckFailed("\n  ".join([f"{left} and {right} differ:", *differing[:SHOWN], *more]))


@command.command("export")
@click.argument("file", type=PATH)
@click.option("--to", "exporter", type=click.Choice(EXPORTERS), required=True, help="The format to write.")
@click.option("-o", "--output", type=PATH, required=True, help="The file to write.")
@count_option("--max-events", DEFAULT_EVENTS, "Events of a timeline at most (chrome).")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def export_command(file: Path, exporter: str, output: Path, max_events: int, force: bool) -> None:
    """Write a trace in another format.

    jsonl and csv hold all of it; heracles is the program trace of Intel's Encrypted Computing SDK; chrome is a timeline
    for ui.perfetto.dev, and fhe-benchmarking a result file of that suite, both of measured traces.

    \b
    Examples:
      penstock trace export helr.parquet --to jsonl -o helr.jsonl
      penstock trace export measured.parquet --to chrome -o timeline.json.gz
      penstock trace export helr.parquet --to heracles -o helr.bin
    """
    files, notes = export(read_trace(file), output, exporter, force=force, max_events=max_events)
    for path in files:
        click.echo(path)
    for note in notes:
        say(f"note: {note}")


command.add_command(rewrite_command)
command.add_command(import_command)
command.add_command(expand_command)


@command.command("pack")
@click.option("-o", "--output", type=PATH, help="The folder of the pack; an interrupted one is finished.")
@click.option("--params", multiple=True, help="A parameter set; repeat it. Default: every accelerator's.")
@click.option("--workload", "names", multiple=True, help="A workload; repeat it. Default: all.")
@click.option("--check", type=PATH, help="Check the pack in this folder instead.")
@click.option("--force", is_flag=True, help="Make existing traces again: after a change to a program or a set.")
@output_options
def pack(output: Path | None, check: Path | None, quiet: bool, output_format: str, **asked: Any) -> None:
    """Write every workload at every accelerator's parameters: traces, checksums, and a description of the format.

    \b
    Examples:
      penstock trace pack -o traces
      penstock trace pack -o traces --params sharp --workload sorting
      penstock trace pack --check traces
    """
    from penstock.program.running.trace_pack import check_pack, write_pack

    if (output is None) == (check is None):
        raise UsageError("give the folder to write with -o, or one to check with --check")
    if check is not None:
        faults = list(check_pack(check))
        _say_valid("folder", check, faults, output_format)
        if faults:
            raise CheckFailed("\n  ".join([f"{check} is broken:", *faults[:SHOWN]]))
        return
    assert output is not None
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is a file; name a folder for the pack")
    started = time.perf_counter()
    with Progress(quiet=quiet).stage("traces") as stage:
        made = write_pack(
            output, **asked, on_trace=lambda done, total, file: stage.update(done, total=total, name=file)
        )
    took = time.perf_counter() - started
    result = {
        "folder": str(output), "num_traces": len(made.traces), "num_written": made.made,
        "num_left_out": len(made.left_out), "num_bytes": made.num_bytes, "elapsed_s": took,
    }  # fmt: skip
    emit(
        result,
        output_format,
        table=lambda console: console.print(
            f"{output}: {len(made.traces)} traces, {format_bytes(made.num_bytes)}, {made.made} written now in "
            f"{format_seconds(took)}; {len(made.left_out)} workloads do not fit a set (README.md says which and why)"
        ),
    )


def _draw(console: Console, facts: Row) -> None:
    by_kind = facts["by_kind"]
    security = facts["security_bits"]
    console.print(
        f"{facts['workload']} ({facts['size'] or 'recorded'}) on {facts['params']}: N={facts['ring_dim']}, "
        f"{f'{security} bit' if security else 'insecure'}; reading {facts['reading']}"
    )
    table = rows_table(
        ({"operation": kind, "count": n} for kind, n in by_kind.items()), "operation | >count=count:{:,}"
    )
    table.add_row("all on the server", shown_total(facts, "num_operations", "{:,}".format), style="bold")
    console.print(table)
    client = facts["client_operations"]
    if client:
        console.print("at the client: " + ", ".join(f"{n} {kind}" for kind, n in client.items()))
    num_keys, unique = shown_total(facts, "num_keys", str), shown_total(facts, "key_bytes_unique", format_bytes)
    touched = shown_total(facts, "key_bytes_touched", format_bytes)
    console.print(
        f"evaluation keys unknown: {reason(facts['unpriced'])}"
        if unique == UNKNOWN
        else f"{num_keys} evaluation keys, {unique} in all ({facts['key_form']}); {touched} read over the run (each "
        "key at the limbs in use)"
    )
    if facts["key_limbs"]:
        draw_forms(console, facts["key_forms"], facts["key_limbs"])
