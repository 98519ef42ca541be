"""`penstock database`: encrypted databases on disk: made, looked at, checked, and queried by reading them once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from penstock.cli.client_library import client_library_option
from penstock.cli.options import PATH, THREADS, is_given, quiet_option, seed_option
from penstock.cli.output import emit, format_option, progress_console, toml_target
from penstock.database.description import CIPHERTEXTS, KINDS, MATCH, PIR, RECORDS, SSC, Description
from penstock.errors import CheckFailed, UsageError
from penstock.system.progress import Progress
from penstock.units import format_bytes, format_seconds, parse_bytes

if TYPE_CHECKING:
    from penstock.database.store import Database
    from penstock.native.sharing import MemoryPlan
    from penstock.prediction.database import Simulated

DEFAULT_PARAMS = {PIR: "openfhe-pir", SSC: "openfhe-ssc", MATCH: "openfhe-pir"}
DEFAULT_BITS = 16
_MAKES = {
    "record_bytes": (PIR, MATCH),
    "bits_per_slot": (PIR, MATCH),
    "features": (SSC,),
    "batch": (SSC,),
    "encrypted": (PIR,),
}
"""Options of `make` that some kinds alone have."""
_ASKS = {"folds": (PIR,), "summation": (SSC,), "top": (SSC,)}
"""And of `query`."""

reading_option = click.option(
    "--reading",
    type=click.Choice(("native", "openfhe")),
    default="native",
    help="Who computes on ciphertexts: penstock's evaluator, or OpenFHE.",
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
@click.option("--data", "data_path", type=PATH, help="Your records: lines of text, or .npy (ssc).")
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
@quiet_option
@format_option
def make_command(
    folder: Path,
    kind: str,
    params: str | None,
    records: int | None,
    size: int | None,
    record_bytes: int,
    bits_per_slot: int,
    features: int,
    batch: int | None,
    encrypted: bool,
    data_path: Path | None,
    segment: int,
    memory: int | None,
    client_library: str | None,
    dry_run: bool,
    force: bool,
    seed: int,
    quiet: bool,
    output_format: str,
) -> None:
    """Make a database in FOLDER, from --seed or from your --data; a load that was killed goes on.

    \b
    Examples:
      penstock database make people --kind pir --records 65536 --record-bytes 288
      penstock database make faces --kind ssc --size "1 GiB" --memory "256 MiB" --dry-run
      penstock database make notes --kind string-match --data notes.txt --record-bytes 64
    """
    from dataclasses import asdict, replace

    from penstock.database.content import Content, FromFile, Generated
    from penstock.database.store import Layout
    from penstock.params import catalogue
    from penstock.scanning.load import check_vectors, make, planned_entry_bytes

    _refuse_of_other_kinds(kind, _MAKES)
    checked = catalogue.get(params or DEFAULT_PARAMS[kind])
    _check_size(records, size, data_path)
    width = features if kind == SSC else record_bytes
    file = FromFile(data_path, kind, width) if data_path is not None else None
    one = Description(
        kind=kind,
        params=checked,
        stored=CIPHERTEXTS if kind != PIR or encrypted else RECORDS,
        records=file.records if file else records or 1,
        record_bytes=0 if kind == SSC else record_bytes,
        bits_per_slot=0 if kind == SSC else bits_per_slot,
        features=features if kind == SSC else 0,
        batch=(batch or 0) if kind == SSC else 0,
    )
    count = one.records if size is None else _records_in(one, size, planned_entry_bytes(one, client_library))
    content: Content = file if file is not None else Generated(kind, count, width, seed)
    description = replace(one, records=count, source=content.identity)
    segment, planned = _segment_of(description, client_library, segment, memory)
    layout = Layout.of(description, segment, planned_entry_bytes(description, client_library))
    result: dict[str, Any] = {
        "folder": str(folder), "kind": kind, "params": checked.name, "security_bits": checked.security_bits,
        "stored": description.stored, "records": count, "entries": layout.num_entries,
        "entry_bytes": layout.entry_bytes, "segments": layout.num_segments, "database_bytes": layout.total_bytes,
        "raw_bytes": count * (width * 4 if kind == SSC else width),
    }  # fmt: skip
    if dry_run:
        check_vectors(description, content)
    else:
        with Progress(quiet=quiet).stage(f"loading {folder.name}") as stage:
            database, times = make(
                folder,
                description,
                content,
                segment_bytes=segment,
                force=force,
                library=client_library,
                on_segment=lambda done, total: stage.update(done, total=total),
            )
        # Of the folder: a ciphertext's size is the library's, and a load that goes on keeps its segments.
        result |= {name: value for name, value in _described(database).items() if name in result}
        result |= {"provenance": "measured", **asdict(times)}
    result |= _of_load(planned, dry_run)
    emit(result, output_format, table=lambda console: _draw(console, result))


def _check_size(*given: object) -> None:
    """Raises: UsageError: none of the options that say how large, or several."""
    if sum(each is not None for each in given) != 1:
        raise UsageError("say how large: one of --records, --size or --data")


def _segment_of(
    description: Description, library: str | None, segment: int, memory: int | None
) -> tuple[int, MemoryPlan | None]:
    """The bytes of a segment, and the plan of a budget that decides them. Raises: UsageError: both are stated."""
    from penstock.scanning.load import planned_memory

    if memory is None:
        return segment, None
    if is_given("segment"):
        raise UsageError("--memory decides --segment: leave one of them out")
    planned = planned_memory(description, library, memory)
    return planned.given("segment"), planned


def _of_load(planned: MemoryPlan | None, dry_run: bool) -> dict[str, Any]:
    """The columns of a budget of memory."""
    from penstock.native.memory import peak_resident_bytes

    if planned is None:
        return {}
    return {
        "memory_bytes": planned.memory_bytes,
        "predicted_peak_bytes": planned.total_bytes,
        "memory_plan": planned.words(),
        **({} if dry_run else {"peak_bytes": peak_resident_bytes()}),
    }


def _refuse_of_other_kinds(kind: str, options: Mapping[str, tuple[str, ...]]) -> None:
    """Raises: UsageError: an option stands on the command line that this kind of database does not have."""
    for name, kinds in options.items():
        if is_given(name) and kind not in kinds:
            raise UsageError(
                f"--{name.replace('_', '-')} is for {' and '.join(kinds)} databases, and this is for {kind}: leave it "
                "out"
            )


def _records_in(one: Description, size: int, entry_bytes: int) -> int:
    """Records of a database of about `size` bytes: whole entries."""
    from penstock.database.store import Layout

    plan = one.plan()
    stride = Layout.of(one, size, entry_bytes).stride
    if one.kind == PIR:
        of_block = 1 if one.stored == RECORDS else one.packing.columns
        return max(1, size // (stride * of_block)) * one.params.slots
    assert not hasattr(plan, "blocks")
    return max(1, size // stride) * int(plan.per_object)


@command.command("info")
@click.argument("folder", type=PATH)
@format_option
def info_command(folder: Path, output_format: str) -> None:
    """Show a database: kind, parameters, packing, size, and whether it is finished.

    \b
    Examples:
      penstock database info people
    """
    from penstock.database.store import Database

    found = Database.open(folder)
    result = _described(found) | {
        "complete": found.complete,
        "params_digest": found.description.params_digest(),
        "identity": found.identity,
        "source": dict(found.description.source),
    }
    emit(result, output_format, table=lambda console: _draw(console, result))


@command.command("verify")
@click.argument("folder", type=PATH)
@quiet_option
@format_option
def verify_command(folder: Path, quiet: bool, output_format: str) -> None:
    """Check a database's keys and read every entry; the first that is damaged is named, with exit code 1.

    \b
    Examples:
      penstock database verify people
    """
    import time

    from penstock.database.store import Database
    from penstock.database.stream import verify_segment

    found = Database.open(folder)
    found.require_complete()
    found.check_keys()
    began, entries = time.perf_counter(), 0
    with Progress(quiet=quiet).stage(f"verifying {folder.name}", total=found.layout.num_segments) as stage:
        for segment in range(found.layout.num_segments):
            entries += verify_segment(found, segment)
            stage.advance()
    result = _described(found) | {"verified_entries": entries, "wall_s": time.perf_counter() - began}
    emit(result, output_format, table=lambda console: _draw(console, result))


@command.command("query")
@click.argument("folder", type=PATH)
@click.option("--index", "indices", type=int, multiple=True, help="pir: the record that is asked for; may be repeated.")
@click.option("--folds", callback=_folds, help="pir: places in the dimensions after the first, 8 or 8,4.")
@click.option(
    "--vector",
    type=PATH,
    help="ssc: a .npy file of features; a shorter vector ends in zeros. Default: a generated one.",
)
@click.option("--summation", type=click.Choice(("fold", "bsgs")), default="fold", help="ssc: of features.")
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
@click.option("--compare", "machine_path", help="Also simulate it on this machine file ('penstock predict fit').")
@click.option("--disk", "disk_path", type=PATH, help="Disk file ('penstock database probe').")
@seed_option
@quiet_option
@format_option
def query_command(
    folder: Path,
    indices: tuple[int, ...],
    folds: tuple[int, ...],
    vector: Path | None,
    summation: str,
    top: int,
    pattern: str | None,
    prefetch: int,
    memory: int | None,
    cached: bool,
    threads: int,
    reading: str,
    client_library: str | None,
    check: bool,
    machine_path: str | None,
    disk_path: Path | None,
    seed: int,
    quiet: bool,
    output_format: str,
) -> None:
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
    from penstock.cli.database_query import ask, compared, disturbed, question_of
    from penstock.database.matching import MatchPlan
    from penstock.database.store import Database

    database = Database.open(folder)
    database.require_complete()
    _refuse_of_other_kinds(database.description.kind, _ASKS)
    if memory is not None:
        _check_budgeted(reading)
    if (machine_path is None) != (disk_path is None):
        raise UsageError("a simulation needs both: --compare MACHINE.toml and --disk DISK.toml")
    question = question_of(database, indices, vector, pattern, seed)
    plan = database.description.plan(
        folds=folds, summation=summation, pattern_bytes=len(question) if isinstance(question, bytes) else None
    )
    simulated = None
    if machine_path is not None and disk_path is not None:
        simulated = compared(database, plan, question, machine_path, disk_path, prefetch, threads)
    with Progress(quiet=quiet).stage(f"scanning {folder.name}") as stage:
        result, right = ask(
            database,
            plan,
            question,
            prefetch=prefetch,
            direct=not cached,
            threads=threads,
            top=top,
            check=check,
            reading=reading,
            library=client_library,
            memory_bytes=memory,
            on_entry=lambda done, total: stage.update(done, total=total),
        )
    if isinstance(plan, MatchPlan) and not quiet:
        _note_of_words(plan.packing.chunk_bytes)
    if simulated is not None:
        result |= _beside(simulated, result)
        if not quiet:
            for warning in (*simulated.warnings, *disturbed(result)):
                progress_console.print(f"note: {warning}", markup=False, highlight=False)
    emit(result, output_format, table=lambda console: _draw(console, result))
    if right is False:
        raise CheckFailed(f"{folder}: the answer differs from the one in the clear")


def _note_of_words(length: int) -> None:
    """A note where a pattern may be missed between two words."""
    if length > 1:
        progress_console.print(
            f"note: a pattern is looked for at every {length} bytes of a record, where a word begins; a database made "
            "with --bits-per-slot 8 is looked at everywhere",
            highlight=False,
            soft_wrap=True,
        )


def _check_budgeted(reading: str) -> None:
    """Raises: UsageError: an option that --memory decides, or a reading that a budget does not reach."""
    if is_given("prefetch"):
        raise UsageError("--memory decides --prefetch: leave one of them out")
    if reading != "native":
        raise UsageError(f"--memory is of penstock's own evaluator: leave --reading {reading} out, or --memory")


def _beside(simulated: Simulated, result: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the simulation of a query that was measured."""
    return {
        "simulated_s": simulated.total_s,
        "simulated_error": simulated.total_s / result["total_s"] - 1,
        "simulated_cpu_s": simulated.cpu_s,
        "simulated_cpu_error": simulated.cpu_s / result["cpu_s"] - 1,
        **{
            f"simulated_{stage}_s": getattr(simulated, f"{stage}_s")
            for stage in ("read", "checksum", "decode", "encode", "compute", "client")
        },
        "simulated_bottleneck": simulated.bottleneck,
    }


@command.command("probe")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--params", default="openfhe-ssc", help="Parameter set at which ciphertexts are decoded.")
@click.option("--size", callback=_bytes, default="1 GiB", help="Of the temporary file that is read.")
@reading_option
@click.option("-o", "--output", required=True, type=PATH, help="Disk file (.toml) to write.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@quiet_option
@format_option
def probe_command(
    folder: Path, params: str, size: int, reading: str, output: Path, force: bool, quiet: bool, output_format: str
) -> None:
    """Measure the disk of FOLDER, checksums and decoding, and write them as a file for 'database query --disk'.

    \b
    Examples:
      penstock database probe . -o disk.toml
    """
    from dataclasses import asdict

    from penstock.params import catalogue
    from penstock.scanning.probe import probe

    toml_target(output, "a disk", force=force)
    with Progress(quiet=quiet).stage("measuring the disk"):
        disk = probe(folder, catalogue.get(params), size=size, name=output.stem, reading=reading)
    disk.write_toml(output, force=force)
    result = {**asdict(disk), "provenance": "measured"}
    emit(result, output_format, table=lambda console: _draw(console, result))


def _described(database: Database) -> dict[str, Any]:
    of, layout = database.description, database.layout
    return {
        "folder": str(database.path), "kind": of.kind, "params": of.params.name,
        "security_bits": of.params.security_bits, "stored": of.stored, "records": of.records,
        "record_bytes": of.record_bytes or None, "bits_per_slot": of.bits_per_slot or None,
        "features": of.features or None, "entries": layout.num_entries, "entry_bytes": layout.entry_bytes,
        "segments": layout.num_segments, "database_bytes": layout.total_bytes,
    }  # fmt: skip


def _draw(console: Console, result: dict[str, Any]) -> None:
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
