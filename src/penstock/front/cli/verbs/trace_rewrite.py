"""`penstock trace rewrite`: other operations for the same result, and what that changes on a machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from penstock.base.system.files import check_target
from penstock.base.types import Row
from penstock.base.units import parse_bytes, parse_rate
from penstock.errors import CheckFailed, UsageError
from penstock.front.cli.options import PATH, params_option, parts_of, seed_option, several_option, size_option
from penstock.front.cli.output import draw_rows, emit, output_options, say

if TYPE_CHECKING:
    from penstock.lab.rewriting.compare import Version
    from penstock.scheme.machines.schema import Machine

PASS_NAMES = "hoist, min-ks, reorder, additions, seeded, truncated"
ON_CHIP = "on-chip"


@click.command("rewrite")
@click.argument("target", metavar="TRACE|WORKLOAD")
@several_option("--pass", "passes", f"Passes in their order: {PASS_NAMES}", required=True, metavar="NAME[,NAME…]")
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
@output_options
def command(
    target: str, machine: str | None, output: Path | None, quiet: bool, output_format: str, **asked: Any
) -> None:
    """Rewrite a trace, or a workload's, so that it moves fewer bytes of keys; the result stays the same.

    With --machine the table has compute and total time for each tier, before and after ('docs/guides/rewriting.md').

    \b
    Examples:
      penstock trace rewrite logistic-regression --params sharp --pass additions,reorder -o helr-io.parquet
      penstock trace rewrite helr.parquet --pass min-ks,reorder --machine sharp --cache on-chip --check
      penstock trace rewrite resnet20-multiplexed --params sharp --pass additions,reorder,min-ks --each \\
          --machine sharp --tier hbm --tier pcie5 --cache "180 MB" --format json
    """
    from penstock.front.hall.programs import trace_of
    from penstock.lab.rewriting import RewriteOptions, passes_named, rewrite
    from penstock.lab.rewriting.compare import Version, compare, counted
    from penstock.lab.simulation.words import OPTIONS
    from penstock.scheme.machines import STUDY_TIERS, load_machines, load_tiers
    from penstock.scheme.traces.io import write_trace

    names = [name for text in asked["passes"] for name in parts_of(text)]
    passes_named(names)
    if output is not None:
        check_target(output, force=asked["force"])
    if machine is None and (asked["tiers"] or asked["expand"] is not None):
        raise UsageError("--tier and --expand say where and how keys come: name a machine with --machine too")
    on = load_machines([machine])[0] if machine is not None else None
    capacity = _capacity(asked["cache"], on) if asked["cache"] is not None else None
    behind = load_tiers(asked["tiers"] or STUDY_TIERS)
    rate = parse_rate(asked["expand"], "--expand") if asked["expand"] is not None else None
    tuned = {name: asked[name] for name in ("unroll", "stretch", "repeats", "window")}
    options = RewriteOptions(cache_bytes=capacity, **tuned)
    trace = trace_of(target, asked["params"], asked["size"], asked["seed"], OPTIONS)
    versions = [Version(passes=(), trace=trace)]
    if asked["each"] and len(names) > 1:
        versions += [Version(passes=(name,), trace=rewrite(trace, [name], options)) for name in dict.fromkeys(names)]
    versions.append(Version(passes=tuple(names), trace=rewrite(trace, names, options)))
    if asked["check"]:
        _check(versions)
    for note in versions[-1].trace.meta.notes[len(trace.meta.notes) :]:
        say(note, quiet=quiet)
    if output is not None:
        write_trace(versions[-1].trace, output, force=asked["force"])
        say(f"{len(versions[-1].trace)} operations written to {output}", quiet=quiet)
    if on is None:
        rows = counted(versions)
    else:
        rows = compare(versions, on, behind, cache_bytes=capacity, expand_bytes_per_s=rate)
    emit(rows, output_format, table=lambda console: _draw(console, rows))


def _check(versions: Sequence[Version]) -> None:
    from penstock.lab.rewriting.interpret import differing_results

    before = versions[0].trace
    if not len(before):
        say("nothing to compare: the trace has no operations")
        return
    for version in versions[1:]:
        objects = differing_results(before, version.trace)
        if objects:
            raise CheckFailed(f"{version.name} changes the results in objects {', '.join(map(str, objects[:20]))}")
    what = "result" if "decrypt" in before.count_by_kind() else "object that no operation reads"
    say(f"every {what} is the same in the clear")


def _capacity(text: str, machine: Machine | None) -> int:
    if text != ON_CHIP:
        return parse_bytes(text, "--cache")
    if machine is None or not machine.on_chip_bytes:
        who = "no machine is named" if machine is None else f"machine '{machine.name}' states no on-chip memory"
        raise UsageError(f"--cache {ON_CHIP}: {who}; give a size")
    return machine.on_chip_bytes


def _draw(console: Console, rows: Sequence[Row]) -> None:
    timed = "machine" in rows[0]
    first = rows[0]
    on = f" on {first['machine']}, simulated" if timed else ""
    console.print(f"{first['workload']} at {first['params']}{on}", highlight=False)
    columns = "passes | >operations=num_operations:{:,} | >keys=num_keys:{:,} | >unique=key_bytes_unique:bytes "
    once = {row["passes"]: row for row in rows}
    draw_rows(console, once.values(), columns + "| >touched=key_bytes_touched:bytes", no_wrap=True)
    if timed:
        columns = (
            "tier | cache=cache_bytes:bytes | passes | >loaded=key_bytes_loaded:bytes | >compute=compute_s | >I/O=io_s "
        )
        columns += "| >expand=expand_s | >total=total_s | >before / after=speedup:{:.3f}x"
        draw_rows(console, rows, columns, no_wrap=True)
