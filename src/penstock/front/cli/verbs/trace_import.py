"""`penstock trace import` and `penstock trace expand`: traces of other tools, and composites taken apart."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.base.system.files import check_target, os_errors
from penstock.base.system.outside import check_bytes, content_of, lines_of
from penstock.errors import CheckFailed, TraceError, UsageError
from penstock.front.cli.options import PATH
from penstock.front.cli.output import say
from penstock.scheme.params import catalogue
from penstock.scheme.traces.inspect import problems
from penstock.scheme.traces.io import read_trace, write_trace
from penstock.scheme.traces.schema import Trace

IMPORTERS = ("jsonl", "heracles", "fhetch")
MOST_BYTES = 2_000_000_000
"""The limit of the file to read; all records made from it are in memory at once."""
SHOWN = 5


@click.command("import")
@click.argument("file", type=PATH)
@click.option("--from", "importer", type=click.Choice(IMPORTERS), required=True, help="The format of FILE.")
@click.option("--params", help="The program's parameter set, where the format states none or only its shape.")
@click.option("-o", "--output", type=PATH, required=True, help="The trace to write (.parquet).")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def import_command(file: Path, importer: str, params: str | None, output: Path, force: bool) -> None:
    """Read a trace of another tool: JSON lines, HERACLES' program trace, or FHETCH's polynomial instructions.

    HERACLES states N and numbers of primes; the bits are assumed unless --params names the set. FHETCH's instructions
    need --params, and are put together to operations on ciphertexts. Every rule of the format is checked before the
    trace is written.

    \b
    Examples:
      penstock trace import helr.jsonl --from jsonl -o helr.parquet
      penstock trace import program_trace.bin --from heracles --params sharp -o program.parquet
      penstock trace import program.fhetch --from fhetch --params mine.toml -o program.parquet
    """
    check_target(output, force=force)
    with os_errors(file, "read"):
        check_bytes(file, file.stat().st_size, MOST_BYTES)
    trace = _read(file, importer, params)
    broken = list(problems(trace))
    if broken:
        raise broken_format(file, broken, SHOWN)
    write_trace(trace, output, force=force)
    for note in trace.meta.notes:
        say(f"note: {note}")
    click.echo(output)


def broken_format(file: Path, faults: list[str], shown: int) -> CheckFailed:
    """Print the faults of a trace, row by row, and the remedy."""
    more = [f"and {len(faults) - shown} more"] if len(faults) > shown else []
    remedy = "make the trace again, or correct what wrote it (docs/reference/trace-format.md has the rules)"
    return CheckFailed("\n  ".join([f"{file} breaks the format of traces; {remedy}:", *faults[:shown], *more]))


def _read(file: Path, importer: str, params: str | None) -> Trace:
    if importer == "jsonl":
        from penstock.scheme.traces.jsonl import read_jsonl

        if params is not None:
            raise UsageError("--from jsonl holds its own parameter set: leave --params out")
        return read_jsonl(lines_of(file, TraceError), str(file))
    chosen = None if params is None else catalogue.get(params)
    if importer == "heracles":
        from penstock.scheme.traces.heracles import from_heracles

        return from_heracles(content_of(file, MOST_BYTES), chosen, name=file.stem)
    from penstock.scheme.traces.fhetch import read_fhetch

    if chosen is None:
        raise UsageError("FHETCH's text does not state which primes are special: name the set with --params")
    return read_fhetch(lines_of(file, TraceError), chosen, name=file.stem)


@click.command("expand")
@click.argument("file", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="The trace to write (.parquet).")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def expand_command(file: Path, output: Path, force: bool) -> None:
    """Put the operations inside each composite in its place, for tools that know primitives only.

    A recorded program keeps both: the library's one call, and its expansion by penstock's circuit, marked `modelled`.
    Simulations expand by themselves; this writes the expanded trace. Composites without an expansion stay.

    \b
    Examples:
      penstock trace expand recorded.parquet -o primitives.parquet
    """
    from penstock.scheme.traces.expand import expanded

    trace = read_trace(file)
    whole, kept = expanded(trace)
    write_trace(whole, output, force=force)
    for name, count in kept.items():
        say(f"note: {count} {name} without an expansion stay composites")
    click.echo(output)
