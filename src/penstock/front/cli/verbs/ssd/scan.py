"""`penstock ssd scan`: the reads of one scan, played on a simulated drive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from penstock.base.system.files import check_target
from penstock.base.units import format_bytes, format_rate, format_seconds
from penstock.errors import UsageError
from penstock.front.cli.options import PATH, Values, choice_option, count_option, is_given, seed_option, several_option
from penstock.front.cli.output import draw_rows, emit, output_options, say

if TYPE_CHECKING:
    from penstock.lab.instorage.flash.scan import ScanResult
    from penstock.lab.instorage.flash.spec import Scan
    from penstock.scheme.machines.drives import Drive

DEFAULT_CACHE = "64 MiB"
"""As of `penstock.lab.instorage.flash.scan_options`."""


@click.command("scan")
@click.option("--drive", default="ssd-s", help="A name of 'penstock ssd drives' or a .toml file.")
@click.option("--size", default="4 GB", help="How much is read.")
@click.option("--pattern", type=click.Choice(["sequential", "random"]), default="sequential")
@count_option("--queue-depth", 1024, "Requests under way at once; each is a page, or --request-size of one.")
@choice_option("--host", ("none", "pcie"), "Where pages go: nowhere behind error correction, or through DRAM and PCIe.")
@choice_option(
    "--arbitration",
    ("pipelined", "convoy"),
    "Who gets a channel's bus: commands first, dies apart; or data first, dies together.",
)
@choice_option(
    "--engine", ("events", "jump"), "Play every event, or jump whole periods of a steady state; the same result."
)
@click.option("--from", "first", metavar="SIZE", default="0 B", help="Where the scan begins.")
@click.option("--span", metavar="SIZE", help="What random reads fall on. Default: the whole drive.")
@click.option("--request-size", metavar="SIZE", help="Part of each page that is sent. Default: the whole page.")
@choice_option(
    "--page-mapping", ("identity", "cached", "nand"), "The page table: all in DRAM, a cache of it, or in NAND."
)
@click.option("--mapping-cache", metavar="SIZE", help=f"With --page-mapping cached. Default: {DEFAULT_CACHE}.")
@click.option("--background-writes", metavar="RATE", help="The host writes at this rate meanwhile ('500 MB/s').")
@click.option("--background-reads", metavar="RATE", help="The host reads other pages at this rate meanwhile.")
@click.option("--background-span", metavar="SIZE", help="What the other traffic falls on. Default: the whole drive.")
@several_option("--set", "changes", "Another value of the drive ('transfers=1000 MT/s')", metavar="VALUE=TEXT")
@click.option(
    "--timeline",
    type=PATH,
    metavar="FILE",
    help="Write when channels and dies are busy at its start, for ui.perfetto.dev.",
)
@count_option("--timeline-events", 20_000, "Events of --timeline at most: as many pages as they hold.")
@click.option("--force", is_flag=True, help="Replace an existing timeline.")
@click.option("--details", is_flag=True, help="Also busy units, other traffic, retries and wear.")
@seed_option
@output_options
def command(drive: str, timeline: Path | None, details: bool, quiet: bool, output_format: str, **asked: Any) -> None:
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
    from penstock.lab.instorage.flash.scan import scan_drive
    from penstock.lab.instorage.flash.scan_options import changes_of, scan_of
    from penstock.lab.instorage.flash.spec import ScanEngine
    from penstock.scheme.machines.drives import load_drive

    on = load_drive(drive, changes_of(asked["changes"]))
    if timeline is None and (asked["force"] or is_given("timeline_events")):
        raise UsageError("--timeline-events and --force are of a timeline: name its file with --timeline")
    scan, options = scan_of(asked)
    if timeline is not None:
        _write_timeline(timeline, on, scan, options, asked["timeline_events"], asked["force"])
    result = scan_drive(on, scan, engine=ScanEngine(asked["engine"]), **options)
    for note in on.notes():
        say(note, quiet=quiet)
    row = result.row() | (result.details() if details else {})
    emit(row, output_format, table=lambda console: _draw(console, on, result, details))


def _write_timeline(path: Path, drive: Drive, scan: Scan, options: Values, max_events: int, force: bool) -> None:
    from penstock.lab.instorage.flash.input import engine_input
    from penstock.lab.instorage.flash.spec import ScanEngine
    from penstock.lab.instorage.flash.timeline import scan_timeline
    from penstock.scheme.traces.perfetto import check_timeline_path, write_timeline

    check_timeline_path(path)
    check_target(path, force=force)
    given = engine_input(
        drive, scan, engine=ScanEngine.EVENTS, consumers=(), host_consumer=None, aggregator=None, **options
    )
    drawn = scan_timeline(given, max_events=max_events, drive=drive.name)
    write_timeline(path, drawn, force=force)
    facts = drawn["otherData"]
    say(f"timeline of the first {facts['pages']:,} pages written to {path}: open it at ui.perfetto.dev")


def _draw(console: Console, drive: Drive, result: ScanResult, details: bool) -> None:
    latency = result.latency
    console.print(
        f"{drive.title}: {format_bytes(result.bytes)} in {result.pages:,} requests, simulated", highlight=False
    )
    shown = [("rate", format_rate(result.bytes_per_s)), ("time", format_seconds(result.simulated_s))]
    shown += [
        (f"latency, {name}", format_seconds(value))
        for name, value in (("mean", latency.mean_s), ("median", latency.p50_s), ("99th percentile", latency.p99_s))
        if value is not None
    ]
    shown.append(("events", f"{result.events:,}, of which {result.played_events:,} played in {result.cpu_s:.3g} CPU s"))
    if details:
        for name, value in result.details().items():
            if value is None:
                continue
            shown.append((name.removesuffix("_s").replace("_", " "), _text(name, value)))
    draw_rows(console, ({"name": name, "text": text} for name, text in shown), "name | text", show_header=False)


def _text(name: str, value: int | float | list[float]) -> str:
    if isinstance(value, list):
        return " ".join(f"{share:.3g}" for share in value)
    if name.endswith("_s"):
        return format_seconds(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
