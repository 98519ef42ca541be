"""`penstock database`: encrypted databases on disk: made, looked at, checked, and queried by reading them once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from penstock.base.system.progress import Progress
from penstock.base.types import Row
from penstock.base.units import format_bytes, format_seconds, parse_bytes
from penstock.errors import CheckFailed, UsageError
from penstock.front.cli.key_pair import client_library_option
from penstock.front.cli.options import PATH, THREADS, choice_option, is_given, seed_option, several_option
from penstock.front.cli.output import emit, format_option, output_options, say, toml_target
from penstock.program.database.description import KINDS

DEFAULT_BITS = 16

reading_option = choice_option(
    "--reading", ("native", "openfhe"), "Who computes on ciphertexts: penstock's evaluator, or OpenFHE."
)


@click.group("database")
def command() -> None:
    """Encrypted databases on disk: private retrieval, similarity scores, string matching.

    \b
    Examples:
      penstock database make people --kind pir --records 65536 --record-bytes 96
      penstock database query people --index 12345 --check
      penstock database make faces --kind ssc --size "1 GiB" --features 128
      penstock database query faces --check --format json
      penstock database verify faces
    """


def _bytes(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    return None if value is None else parse_bytes(value, parameter.opts[0])


def _folds(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in value.split(",")) if value else ()
    except ValueError:
        raise UsageError(f"--folds {value!r}: write whole numbers, 8 or 8,4") from None


@command.command("make")
@click.argument("folder", type=PATH)
@click.option("--kind", type=click.Choice(KINDS), required=True, help="What it is for.")
@click.option("--params", help="Parameter set (OpenFHE). Default: one of 128 bit for the kind.")
@click.option("--records", type=click.IntRange(min=1), help="Records or vectors to generate.")
@click.option("--size", callback=_bytes, help='Instead of --records: about so many bytes on disk, "1 GiB".')
@click.option("--record-bytes", type=click.IntRange(min=1), default=96, help="Width of a record.")
@click.option("--bits-per-slot", type=int, default=DEFAULT_BITS, help="Of a record, whole bytes.")
@click.option("--features", type=click.IntRange(min=1), default=128, help="ssc: a power of two.")
@click.option("--batch", type=click.IntRange(min=1), help="ssc: vectors in one ciphertext. Default: as many as fit.")
@click.option("--encrypted", is_flag=True, help="pir: store ciphertexts, where the server must not know the records.")
@click.option("--data", type=PATH, help="Your records: lines of text, or .npy (ssc).")
@click.option(
    "--segment",
    callback=_bytes,
    default="64 MiB",
    help="Size of a file; a resumed load keeps the size of its folder.",
)
@click.option("--memory", callback=_bytes, help='Of this process, "256 MiB". Decides --segment.')
@client_library_option
@click.option("--dry-run", is_flag=True, help="Print how large it would be; make nothing.")
@click.option("--force", is_flag=True, help="Replace the database that is there.")
@seed_option
@output_options
def make_command(folder: Path, quiet: bool, output_format: str, **asked: Any) -> None:
    """Make a database in FOLDER, from --seed or from your --data; a load that was killed goes on.

    \b
    Examples:
      penstock database make people --kind pir --records 65536 --record-bytes 288
      penstock database make faces --kind ssc --size "1 GiB" --memory "256 MiB" --dry-run
      penstock database make notes --kind string-match --data notes.txt --record-bytes 64
    """
    from penstock.runtime.scanning.asked import made

    with Progress(quiet=quiet).stage(f"loading {folder.name}") as stage:
        result = made(folder, _given(asked), **asked, on_segment=stage.update)
    emit(result, output_format, table=lambda console: _draw(console, result))


def _given(names: Iterable[str]) -> set[str]:
    """Those of the options that stand on the command line."""
    return {name for name in names if is_given(name)}


@command.command("info")
@click.argument("folder", type=PATH)
@format_option
def info_command(folder: Path, output_format: str) -> None:
    """Show a database: kind, parameters, packing, size, and whether it is finished.

    \b
    Examples:
      penstock database info people
    """
    from penstock.runtime.scanning.asked import described
    from penstock.runtime.scanning.store import Database

    database = Database.open(folder)
    result = described(database) | {
        "complete": database.complete,
        "params_digest": database.description.params_digest(),
        "identity": database.identity,
        "source": dict(database.description.source),
    }
    emit(result, output_format, table=lambda console: _draw(console, result))


@command.command("verify")
@click.argument("folder", type=PATH)
@output_options
def verify_command(folder: Path, quiet: bool, output_format: str) -> None:
    """Check a database's keys and read every entry; the first that is damaged is named, with exit code 1.

    \b
    Examples:
      penstock database verify people
    """
    import time

    from penstock.runtime.scanning.asked import described
    from penstock.runtime.scanning.store import Database
    from penstock.runtime.scanning.stream import verify_segment

    database = Database.open(folder)
    database.require_complete()
    database.check_keys()
    began, entries = time.perf_counter(), 0
    with Progress(quiet=quiet).stage(f"verifying {folder.name}", total=database.layout.num_segments) as stage:
        for segment in range(database.layout.num_segments):
            entries += verify_segment(database, segment)
            stage.advance()
    result = described(database) | {"verified_entries": entries, "wall_s": time.perf_counter() - began}
    emit(result, output_format, table=lambda console: _draw(console, result))


@command.command("query")
@click.argument("folder", type=PATH)
@several_option("--index", "indices", "pir: the record that is asked for", type=int)
@click.option("--folds", callback=_folds, help="pir: places in the dimensions after the first, 8 or 8,4.")
@click.option(
    "--vector",
    type=PATH,
    help="ssc: a .npy file of features; a shorter vector ends in zeros. Default: a generated one.",
)
@choice_option("--summation", ("fold", "bsgs"), "ssc: of features.")
@click.option("--top", type=click.IntRange(min=1), default=10, help="ssc: how many are shown.")
@click.option("--pattern", help="string-match: the text; found where it starts at a word (make --bits-per-slot).")
@click.option("--prefetch", type=click.IntRange(min=0), default=4, help="Entries read ahead.")
@click.option(
    "--memory",
    callback=_bytes,
    help='Of this process, "2 GiB": keys, constants, entries and ciphertexts together. Decides --prefetch.',
)
@click.option("--cached", is_flag=True, help="Read through the page cache.")
@click.option("--threads", type=THREADS, default=1, help="Threads inside an operation.")
@reading_option
@client_library_option
@click.option("--check", is_flag=True, help="Compare with the answer in the clear (generated databases).")
@click.option("--compare", "machine", help="Also simulate it on this machine file ('penstock predict fit').")
@click.option("--disk", type=PATH, help="Disk file ('penstock database probe').")
@seed_option
@output_options
def query_command(folder: Path, quiet: bool, output_format: str, **asked: Any) -> None:
    """Answer a query by reading the database once, from front to back; print the time of each stage.

    With --compare and --disk the same query is simulated on those files, without reading the database.

    \b
    Examples:
      penstock database query people --index 12345 --index 7 --check
      penstock database query people --index 12345 --folds 4 --format json
      penstock database query faces --top 5 --compare mine.toml --disk disk.toml
      penstock database query notes --pattern "Lattigo "
      penstock database query faces --memory "2 GiB"
    """
    from penstock.front.hall.databases import queried

    with Progress(quiet=quiet).stage(f"scanning {folder.name}") as stage:
        result, notes, right = queried(folder, _given(asked), **asked, on_entry=stage.update)
    for note in notes:
        say(f"note: {note}", quiet=quiet)
    emit(result, output_format, table=lambda console: _draw(console, result))
    if right is False:
        raise CheckFailed(f"{folder}: the answer differs from the one in the clear")


@command.command("probe")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--params", default="openfhe-ssc", help="Parameter set at which ciphertexts are decoded.")
@click.option("--size", callback=_bytes, default="1 GiB", help="Of the temporary file that is read.")
@reading_option
@click.option("-o", "--output", required=True, type=PATH, help="Disk file (.toml) to write.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@output_options
def probe_command(
    folder: Path, params: str, size: int, reading: str, output: Path, force: bool, quiet: bool, output_format: str
) -> None:
    """Measure the disk of FOLDER, checksums and decoding, and write them as a file for 'database query --disk'.

    \b
    Examples:
      penstock database probe . -o disk.toml
    """
    from dataclasses import asdict

    from penstock.runtime.scanning.probe import probe
    from penstock.scheme.params import catalogue

    toml_target(output, "a disk", force=force)
    with Progress(quiet=quiet).stage("measuring the disk"):
        disk = probe(folder, catalogue.get(params), size=size, name=output.stem, reading=reading)
    disk.write_toml(output, force=force)
    result = {**asdict(disk), "provenance": "measured"}
    emit(result, output_format, table=lambda console: _draw(console, result))


def _draw(console: Console, result: Row) -> None:
    """One line a field, with units."""
    width = max(len(name) for name in result)
    for name, value in result.items():
        if value is None:
            continue
        shown = value
        if name.endswith("_bytes") and isinstance(value, int):
            shown = format_bytes(value)
        elif name.endswith("_per_s"):
            shown = f"{format_bytes(value)} a second"
        elif name.endswith("_s"):
            shown = format_seconds(value)
        elif isinstance(value, float):
            shown = f"{value:.4g}"
        console.print(f"{name.ljust(width)}  {shown}", markup=False, highlight=False)
