"""`penstock profile`: events, energy, call stacks and instruction counts of an encrypted run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click
from rich.console import Console

from penstock.base.system.progress import Progress
from penstock.base.types import Row, RowView
from penstock.base.units import format_seconds
from penstock.errors import CheckFailed
from penstock.front.cli.options import PATH, choice_option, program_options, seed_option, threads_option
from penstock.front.cli.output import Own, draw_rows, emit, output_options, say, shown
from penstock.front.hall.profiling import profiled
from penstock.lab.measure.profiled import Profile


@click.command("profile")
@click.argument("workload")
@program_options
@click.option("--events", help="Events to count besides the usual ones, as perf names them: a,b or cpu/event=0x3c/.")
@click.option("--only-events", is_flag=True, help="Count the events of --events alone.")
@click.option("--exact", is_flag=True, help="One run for each group of events, so that none shares its counter.")
@click.option("--flamegraph", type=PATH, help="Sample call stacks and draw this SVG.")
@click.option("--folded", type=PATH, help="Sample call stacks into this folded-stacks file.")
@click.option("--speedscope", type=PATH, help="The same as speedscope JSON.")
@click.option("--frequency", "frequency_hz", type=click.IntRange(1, 10_000), default=199, help="Samples a second.")
@choice_option(
    "--call-graph",
    ("dwarf", "fp"),
    "Method of walking stacks; OpenFHE's wheel has no frame pointers, so 'fp' sees the innermost function only.",
)
@click.option("--full-stacks", is_flag=True, help="Keep the interpreter's own frames.")
@click.option("--callgrind", is_flag=True, help="Also count instructions by function with valgrind: very slow.")
@click.option(
    "--idle",
    "idle_s",
    type=click.FloatRange(0, 600),
    default=0.0,
    show_default=False,
    help="Seconds of idle power before it.",
)
@click.option(
    "--overhead/--no-overhead", default=None, help="Measure what profiling costs. Default: where the region is short."
)
@threads_option
@seed_option
@click.option("-o", "--output", type=PATH, help="Folder for everything: a run folder.")
@click.option("--force", is_flag=True, help="Replace existing files.")
@output_options
def command(workload: str, quiet: bool, output_format: str, **asked: Any) -> None:
    """Profile WORKLOAD encrypted with OpenFHE: the region is its homomorphic operations, without set-up and client.

    A quantity that this machine cannot measure is 'unavailable' with the reason and a remedy, never 0.

    \b
    Examples:
      penstock profile logistic-regression --flamegraph flame.svg
      penstock profile matrix-multiplication --events LLC-loads,cpu/event=0x3c/ --exact
      penstock profile inner-product --size ci --callgrind -o runs/profile
    """
    with Progress(quiet=quiet).stage(f"profile {workload}") as stage:
        profile, result = profiled(
            workload, **asked, on_part=lambda name: stage.update(0, name=f"profile {workload}: {name}")
        )
    for name in result["files"].values():
        say(f"written: {name}", quiet=quiet)
    for warning in profile.warnings:
        say(f"{warning['what']}; {warning['remedy']}", quiet=quiet)
    emit(
        result["rows"] if output_format == "csv" else result,
        output_format,
        table=lambda console: _draw(console, profile, result),
    )
    if not profile.check["passed"]:
        raise CheckFailed(f"{workload} encrypted differs from clear: {'; '.join(profile.check['rules'])}")


def _draw(console: Console, profile: Profile, result: Row) -> None:
    console.print(
        f"{result['workload']} ({result['size']}, {result['params']}): region {format_seconds(profile.wall_s)} of "
        f"{profile.num_operations} operations, measured; set-up {format_seconds(profile.setup_s)} outside it"
    )
    own: Own = {
        "number": lambda row: f"{row['value']:,}" if isinstance(row["value"], int) else shown("number", row["value"]),
        "in": lambda row: "" if row["value"] is None or row["unit"] == "1" else row["unit"],
        "remark": lambda row: "" if row["value"] is None else _remark(row),
    }
    draw_rows(console, map(asdict, profile.rows), "event | >value=number | unit=in | status | =remark", own)
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in [*profile.rows, *([profile.sampling] if profile.sampling is not None else [])]:
        if row.value is None:
            reasons.setdefault((row.reason, row.remedy), []).append(row.event)
    for (reason, remedy), names in reasons.items():
        console.print(f"unavailable: {', '.join(names)}: {reason}; {remedy}", soft_wrap=True, markup=False)
    if not profile.overhead:
        console.print("overhead: not measured; --overhead runs the workload once more without profiling")
    for overhead in profile.overhead:
        plain_s, with_s = (overhead.to_row()[key] for key in ("plain_s", "profiled_s"))
        noise = ", within the runs' own spread" if overhead.within_noise else ""
        console.print(
            f"overhead of {overhead.mode}: {overhead.ratio:.3f} = {format_seconds(with_s)} / "
            f"{format_seconds(plain_s)}{noise}"
        )
    for heading, key, columns in (
        ("by operation", "operations", ("share", "operation")),
        ("by function", "hotspots", ("self_share", "function", "module")),
        ("instructions by function", "callgrind", ("share", "function", "module")),
    ):
        entries = result[key] or []
        if not entries:
            continue
        written = " | ".join(f">{name}=:{{:.1%}}" if name.endswith("share") else name for name in columns)
        draw_rows(console, entries[:12], written, title=heading, title_justify="left")


def _remark(row: RowView) -> str:
    """The cause of a status, and the origin of a value."""
    source = "" if row["source"] == "perf" else row["source"]
    origin = ": ".join(text for text in (source, row["note"]) if text)
    return "; ".join(text for text in (row["reason"], row["counted_as"] and f"as {row['counted_as']}", origin) if text)
