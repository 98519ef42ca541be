"""`penstock trace rewrite`: other operations for the same result, and what that changes on a machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from penstock.cli.options import PATH, params_option, quiet_option, seed_option, size_option
from penstock.cli.output import emit, format_option, progress_console, table_of
from penstock.errors import CheckFailed, UsageError
from penstock.system.files import check_target
from penstock.traces import is_trace_file
from penstock.units import format_bytes, format_seconds, parse_bytes, parse_rate
from penstock.unpriced import shown_total

if TYPE_CHECKING:
    from penstock.machines.schema import Machine
    from penstock.traces.schema import Trace

PASS_NAMES = "hoist, min-ks, reorder, additions, seeded, truncated"
ON_CHIP = "on-chip"


@click.command("rewrite")
@click.argument("target", metavar="TRACE|WORKLOAD")
@click.option(
    "--pass",
    "passes",
    multiple=True,
    required=True,
    metavar="NAME[,NAME…]",
    help=f"Passes in their order: {PASS_NAMES}; may be repeated.",
)
@params_option
@size_option
@seed_option
@click.option("-o", "--output", type=PATH, help="Write the rewritten trace (.parquet).")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--each", is_flag=True, help="Also a row for each pass alone.")
@click.option("--check", is_flag=True, help="Compute both programs in the clear, and fail if a result differs.")
@click.option("--machine", help="A machine's name or .toml file: adds times before and after.")
@click.option("--tier", "tiers", multiple=True, help="Where keys come from; may be repeated. Default: the study's.")
@click.option("--cache", metavar="SIZE|on-chip", help="An LRU cache for keys; reorder orders for it. Default: none.")
@click.option("--expand", metavar="RATE", help="Seeded keys are expanded at this rate ('1 TB/s'). Default: in no time.")
@click.option("--unroll", is_flag=True, help="hoist: rotate the first ciphertext of a chain of rotations.")
@click.option("--stretch", type=float, default=2.0, help="min-ks: a group may become so many times as many rotations.")
@click.option("--repeats", type=int, default=2, help="min-ks: a lone rotation may become so many; 1: it stays.")
@click.option("--window", type=int, default=1024, help="reorder: operations looked ahead.")
@quiet_option
@format_option
def command(
    target: str,
    passes: tuple[str, ...],
    params: str | None,
    size: str | None,
    seed: int,
    output: Path | None,
    force: bool,
    each: bool,
    check: bool,
    machine: str | None,
    tiers: tuple[str, ...],
    cache: str | None,
    expand: str | None,
    unroll: bool,
    stretch: float,
    repeats: int,
    window: int,
    quiet: bool,
    output_format: str,
) -> None:
    """Rewrite a trace, or a workload's, so that it moves fewer bytes of keys; the result stays the same.

    With --machine the table has compute and total time for each tier, before and after ('docs/rewriting.md').

    \b
    Examples:
      penstock trace rewrite logistic-regression --params sharp --pass additions,reorder -o helr-io.parquet
      penstock trace rewrite helr.parquet --pass min-ks,reorder --machine sharp --cache on-chip --check
      penstock trace rewrite resnet20-multiplexed --params sharp --pass additions,reorder,min-ks --each \\
          --machine sharp --tier hbm --tier pcie5 --cache "180 MB" --format json
    """
    from penstock.machines import STUDY_TIERS, load_machines, load_tiers
    from penstock.rewriting import RewriteOptions, passes_named, rewrite
    from penstock.rewriting.compare import Version, compare, counted

    names = [name.strip() for text in passes for name in text.split(",") if name.strip()]
    passes_named(names)
    if output is not None:
        check_target(output, force=force)
    if machine is None and (tiers or expand is not None):
        raise UsageError("--tier and --expand say where and how keys come: name a machine with --machine too")
    on = load_machines([machine])[0] if machine is not None else None
    capacity = _capacity(cache, on) if cache is not None else None
    behind = load_tiers(tiers or STUDY_TIERS)
    rate = parse_rate(expand, "--expand") if expand is not None else None
    options = RewriteOptions(unroll=unroll, stretch=stretch, repeats=repeats, window=window, cache_bytes=capacity)
    trace = _trace(target, params, size, seed)
    versions = [Version(passes=(), trace=trace)]
    if each and len(names) > 1:
        versions += [Version(passes=(name,), trace=rewrite(trace, [name], options)) for name in dict.fromkeys(names)]
    versions.append(Version(passes=tuple(names), trace=rewrite(trace, names, options)))
    if check:
        _check(versions)
    if not quiet:
        for note in versions[-1].trace.meta.notes[len(trace.meta.notes) :]:
            progress_console.print(note, highlight=False, soft_wrap=True)
    if output is not None:
        from penstock.traces.io import write_trace

        write_trace(versions[-1].trace, output, force=force)
        if not quiet:
            progress_console.print(f"{len(versions[-1].trace)} operations written to {output}", highlight=False)
    if on is None:
        rows = counted(versions)
    else:
        rows = compare(versions, on, behind, cache_bytes=capacity, expand_bytes_per_s=rate)
    emit(rows, output_format, table=lambda console: _draw(console, rows))


def _check(versions: Sequence[Any]) -> None:
    from penstock.rewriting.interpret import differing_results

    before = versions[0].trace
    if not len(before):
        progress_console.print("nothing to compare: the trace has no operations", highlight=False)
        return
    for version in versions[1:]:
        found = differing_results(before, version.trace)
        if found:
            raise CheckFailed(f"{version.name} changes the results in objects {', '.join(map(str, found[:20]))}")
    what = "result" if "decrypt" in before.count_by_kind() else "object that no operation reads"
    progress_console.print(f"every {what} is the same in the clear", highlight=False)


def _trace(target: str, params: str | None, size: str | None, seed: int) -> Trace:
    """The trace in a file, or of a workload."""
    if is_trace_file(target):
        from penstock.traces.io import read_trace

        if params is not None or size is not None:
            raise UsageError(f"{target} is a trace and has its parameters and size: leave --params and --size out")
        return read_trace(Path(target))
    from penstock.running import trace_workload

    return trace_workload(target, params, size, seed)


def _capacity(text: str, machine: Machine | None) -> int:
    if text != ON_CHIP:
        return parse_bytes(text, "--cache")
    if machine is None or not machine.on_chip_bytes:
        who = "no machine is named" if machine is None else f"machine '{machine.name}' states no on-chip memory"
        raise UsageError(f"--cache {ON_CHIP}: {who}; give a size")
    return machine.on_chip_bytes


def _draw(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    timed = "machine" in rows[0]
    first = rows[0]
    on = f" on {first['machine']}, simulated" if timed else ""
    console.print(f"{first['workload']} at {first['params']}{on}", highlight=False)
    table = table_of("passes | >operations | >keys | >unique | >touched", no_wrap=True)
    once = {row["passes"]: row for row in rows}
    for name, row in once.items():
        table.add_row(
            name,
            *(shown_total(row, name, "{:,}".format) for name in ("num_operations", "num_keys")),
            *(shown_total(row, name, format_bytes) for name in ("key_bytes_unique", "key_bytes_touched")),
        )
    console.print(table)
    if not timed:
        return
    table = table_of(
        "tier | cache | passes | >loaded | >compute | >I/O | >expand | >total | >before / after", no_wrap=True
    )
    for row in rows:
        table.add_row(
            row["tier"],
            "-" if row["cache_bytes"] is None else format_bytes(row["cache_bytes"]),
            row["passes"],
            format_bytes(row["key_bytes_loaded"]),
            format_seconds(row["compute_s"]),
            format_seconds(row["io_s"]),
            format_seconds(row["expand_s"]),
            format_seconds(row["total_s"]),
            "-" if row["speedup"] is None else f"{row['speedup']:.3f}x",
        )
    console.print(table)
