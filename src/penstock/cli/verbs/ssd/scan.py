"""`penstock ssd scan`: the reads of one scan, played on a simulated drive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from penstock.cli.options import PATH, is_given, quiet_option, seed_option
from penstock.cli.output import emit, format_option, progress_console
from penstock.errors import UsageError
from penstock.system.files import check_target
from penstock.units import format_bytes, format_rate, format_seconds, parse_bytes, parse_rate

if TYPE_CHECKING:
    from penstock.machines.drives import Drive
    from penstock.simulation.drive.scan import ScanResult
    from penstock.simulation.drive.spec import Mapping, Scan

DEFAULT_CACHE = "64 MiB"
SEEDS = 2**64


@click.command("scan")
@click.option("--drive", default="ssd-s", help="A name of 'penstock ssd drives' or a .toml file.")
@click.option("--size", default="4 GB", help="How much is read.")
@click.option("--pattern", type=click.Choice(["sequential", "random"]), default="sequential")
@click.option(
    "--queue-depth",
    type=click.IntRange(min=1),
    default=1024,
    help="Requests under way at once; each is a page, or --request-size of one.",
)
@click.option(
    "--host",
    type=click.Choice(["none", "pcie"]),
    default="none",
    help="Where pages go: nowhere behind error correction, or through DRAM and PCIe.",
)
@click.option(
    "--arbitration",
    type=click.Choice(["pipelined", "convoy"]),
    default="pipelined",
    help="Who gets a channel's bus: commands first, dies apart; or data first, dies together.",
)
@click.option(
    "--engine",
    type=click.Choice(["events", "jump"]),
    default="events",
    help="Play every event, or jump whole periods of a steady state; the same result.",
)
@click.option("--from", "first", metavar="SIZE", default="0 B", help="Where the scan begins.")
@click.option("--span", metavar="SIZE", help="What random reads fall on. Default: the whole drive.")
@click.option("--request-size", metavar="SIZE", help="Part of each page that is sent. Default: the whole page.")
@click.option(
    "--page-mapping",
    type=click.Choice(["identity", "cached", "nand"]),
    default="identity",
    help="The page table: all in DRAM, a cache of it, or in NAND.",
)
@click.option("--mapping-cache", metavar="SIZE", help=f"With --page-mapping cached. Default: {DEFAULT_CACHE}.")
@click.option("--background-writes", metavar="RATE", help="The host writes at this rate meanwhile ('500 MB/s').")
@click.option("--background-reads", metavar="RATE", help="The host reads other pages at this rate meanwhile.")
@click.option("--background-span", metavar="SIZE", help="What the other traffic falls on. Default: the whole drive.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="VALUE=TEXT",
    help="Another value of the drive ('transfers=1000 MT/s'); may be repeated.",
)
@click.option(
    "--timeline",
    type=PATH,
    metavar="FILE",
    help="Write when channels and dies are busy at its start, for ui.perfetto.dev.",
)
@click.option(
    "--timeline-events",
    type=click.IntRange(min=1),
    default=20_000,
    help="Events of --timeline at most: as many pages as they hold.",
)
@click.option("--force", is_flag=True, help="Replace an existing timeline.")
@click.option("--details", is_flag=True, help="Also busy units, other traffic, retries and wear.")
@seed_option
@quiet_option
@format_option
def command(
    drive: str,
    size: str,
    pattern: str,
    queue_depth: int,
    host: str,
    arbitration: str,
    engine: str,
    first: str,
    span: str | None,
    request_size: str | None,
    page_mapping: str,
    mapping_cache: str | None,
    background_writes: str | None,
    background_reads: str | None,
    background_span: str | None,
    changes: tuple[str, ...],
    timeline: Path | None,
    timeline_events: int,
    force: bool,
    details: bool,
    seed: int,
    quiet: bool,
    output_format: str,
) -> None:
    """Read a part of a simulated drive, page by page.

    Latency is from the moment a request is made, with --queue-depth of them under way, until its page is where --host
    says. Everything is simulated; 'penstock ssd drives NAME' has the source of every value of a drive.

    \b
    Examples:
      penstock ssd scan --drive ssd-s --size "4 GB"
      penstock ssd scan --drive ssd-l --pattern random --queue-depth 1 --size "100 MB" --format json
      penstock ssd scan --drive ssd-l --size "288 GiB" --host pcie --engine jump
      penstock ssd scan --arbitration convoy --set "transfers=1000 MT/s" --details
      penstock ssd scan --host pcie --timeline scan.json.gz
      penstock ssd scan --host pcie --background-writes "500 MB/s" --background-span "1 GB" --details
    """
    from penstock.machines.drives import load_drive
    from penstock.simulation.drive.scan import scan_drive
    from penstock.simulation.drive.spec import Arbitration, Engine, Host, Pattern, Scan, Traffic

    on = load_drive(drive, _changes(changes))
    other = parse_bytes(background_span, "--background-span") if background_span is not None else None
    if other is not None and background_reads is None and background_writes is None:
        raise UsageError("--background-span says what other traffic falls on: give --background-reads or -writes too")
    if timeline is None and (force or is_given("timeline_events")):
        raise UsageError("--timeline-events and --force are of a timeline: name its file with --timeline")

    def traffic(rate: str | None, option: str, seed_of: int) -> Traffic | None:
        if rate is None:
            return None
        return Traffic(bytes_per_s=parse_rate(rate, option), span_bytes=other, seed=seed_of)

    scan = Scan(
        size_bytes=_positive(size, "--size"),
        first_byte=parse_bytes(first, "--from"),
        pattern=Pattern(pattern),
        span_bytes=parse_bytes(span, "--span") if span is not None else None,
        queue_depth=queue_depth,
        request_bytes=_positive(request_size, "--request-size") if request_size is not None else None,
        seed=seed,
    )
    options: dict[str, Any] = {
        "host": Host(host),
        "arbitration": Arbitration(arbitration),
        "mapping": _mapping(page_mapping, mapping_cache),
        "reads": traffic(background_reads, "--background-reads", (seed + 1) % SEEDS),
        "writes": traffic(background_writes, "--background-writes", (seed + 2) % SEEDS),
    }
    if timeline is not None:
        _write_timeline(timeline, on, scan, options, timeline_events, force)
    result = scan_drive(on, scan, engine=Engine(engine), **options)
    if not quiet:
        for note in on.notes():
            progress_console.print(note, highlight=False, soft_wrap=True)
    rows = _row(result) | (_details(result) if details else {})
    emit(rows, output_format, table=lambda console: _draw(console, on, result, details))


def _write_timeline(
    path: Path, drive: Drive, scan: Scan, options: dict[str, Any], max_events: int, force: bool
) -> None:
    from penstock.simulation.drive.input import engine_input
    from penstock.simulation.drive.spec import Engine
    from penstock.simulation.drive.timeline import scan_timeline
    from penstock.traces.perfetto import check_timeline_path, write_timeline

    check_timeline_path(path)
    check_target(path, force=force)
    given = engine_input(
        drive, scan, engine=Engine.EVENTS, consumers=(), host_consumer=None, aggregator=None, **options
    )
    drawn = scan_timeline(given, max_events=max_events, drive=drive.name)
    write_timeline(path, drawn, force=force)
    facts = drawn["otherData"]
    progress_console.print(
        f"timeline of the first {facts['pages']:,} pages written to {path}: open it at ui.perfetto.dev", highlight=False
    )


def _changes(texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        value, sign, written = text.partition("=")
        if not sign or not value.strip() or not written.strip():
            raise UsageError(f"--set '{text}' is not a VALUE=TEXT; write for example --set 'sense=45 us'")
        if value.strip() in found:
            raise UsageError(f"--set '{text}': '{value.strip()}' is set twice; give it once")
        found[value.strip()] = written.strip()
    return found


def _positive(text: str, option: str) -> int:
    size = parse_bytes(text, option)
    if size == 0:
        raise UsageError(f"{option} '{text}' is zero; read at least one byte")
    return size


def _mapping(name: str, cache: str | None) -> Mapping:
    from penstock.simulation.drive.spec import CachedMapping, IdentityMapping, NandMapping

    if cache is not None and name != "cached":
        raise UsageError(f"--mapping-cache goes with --page-mapping cached, and this is '{name}'")
    if name == "cached":
        return CachedMapping(cache_bytes=parse_bytes(cache or DEFAULT_CACHE, "--mapping-cache"))
    return NandMapping() if name == "nand" else IdentityMapping()


def _row(result: ScanResult) -> dict[str, Any]:
    return {
        "bytes_per_s": result.bytes_per_s,
        "mean_latency_s": result.latency.mean_s,
        "p50_latency_s": result.latency.p50_s,
        "p99_latency_s": result.latency.p99_s,
        "pages": result.pages,
        "events": result.events,
        "simulated_s": result.simulated_s,
        "cpu_s": result.cpu_s,
    }


def _details(result: ScanResult) -> dict[str, Any]:
    wear = result.wear
    return {
        "bus_busy": result.bus_busy,
        "channel_busy": list(result.channel_busy),
        "array_busy": result.array_busy,
        "dram_busy": result.dram_busy,
        "pcie_up_busy": result.pcie_up_busy,
        "pcie_down_busy": result.pcie_down_busy,
        "max_latency_s": result.latency.max_s,
        "retries": result.retries,
        "mapping_reads": result.mapping_reads,
        "played_events": result.played_events,
        "period_pages": result.period_pages,
        "background_reads": result.read_latency.count,
        "background_read_mean_latency_s": result.read_latency.mean_s,
        "background_read_p99_latency_s": result.read_latency.p99_s,
        "background_writes": wear.host_pages,
        "buffered_writes": result.write_latency.count - wear.host_pages,
        "background_write_mean_latency_s": result.write_latency.mean_s,
        "background_write_p99_latency_s": result.write_latency.p99_s,
        "moved_pages": wear.moved_pages,
        "erases": wear.erases,
        "write_amplification": wear.write_amplification,
    }


def _draw(console: Console, drive: Drive, result: ScanResult, details: bool) -> None:
    latency = result.latency
    console.print(
        f"{drive.title}: {format_bytes(result.bytes)} in {result.pages:,} requests, simulated", highlight=False
    )
    table = Table(box=None, pad_edge=False, show_header=False)
    shown = [("rate", format_rate(result.bytes_per_s)), ("time", format_seconds(result.simulated_s))]
    shown += [
        (f"latency, {name}", format_seconds(value))
        for name, value in (("mean", latency.mean_s), ("median", latency.p50_s), ("99th percentile", latency.p99_s))
        if value is not None
    ]
    shown.append(("events", f"{result.events:,}, of which {result.played_events:,} played in {result.cpu_s:.3g} CPU s"))
    if details:
        for name, value in _details(result).items():
            if value is None:
                continue
            shown.append((name.removesuffix("_s").replace("_", " "), _text(name, value)))
    for name, text in shown:
        table.add_row(name, text)
    console.print(table)


def _text(name: str, value: Any) -> str:
    if isinstance(value, list):
        return " ".join(f"{each:.3g}" for each in value)
    if name.endswith("_s"):
        return format_seconds(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
