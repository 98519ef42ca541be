"""`penstock profile`: events, energy, call stacks and instruction counts of an encrypted run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from penstock.cli.options import (
    PATH,
    data_option,
    params_option,
    quiet_option,
    seed_option,
    size_option,
    threads_option,
)
from penstock.cli.output import emit, format_option, plain, progress_console
from penstock.errors import CheckFailed, UsageError
from penstock.measure.events import DEFAULT_EVENTS, EventRow, parse_events
from penstock.measure.flamegraph import flame_graph
from penstock.measure.profiled import Profile, Request
from penstock.measure.profiler import profile
from penstock.measure.stacks import folded_text, speedscope
from penstock.running.reading import resolve
from penstock.runs.folder import DifferentRun, RunFolder
from penstock.system.files import check_target, write_atomic
from penstock.system.progress import Progress
from penstock.system.temporary import temporary_folder
from penstock.units import format_seconds

FILES = {"flamegraph": "flamegraph.svg", "folded": "stacks.folded", "speedscope": "speedscope.json"}
"""The files of call stacks in a profile's folder."""


@click.command("profile")
@click.argument("workload")
@params_option
@size_option
@data_option
@click.option("--events", help="Events to count besides the usual ones, as perf names them: a,b or cpu/event=0x3c/.")
@click.option("--only-events", is_flag=True, help="Count the events of --events alone.")
@click.option("--exact", is_flag=True, help="One run for each group of events, so that none shares its counter.")
@click.option("--flamegraph", type=PATH, help="Sample call stacks and draw this SVG.")
@click.option("--folded", type=PATH, help="Sample call stacks into this folded-stacks file.")
@click.option("--speedscope", "speedscope_path", type=PATH, help="The same as speedscope JSON.")
@click.option("--frequency", type=click.IntRange(1, 10_000), default=199, help="Samples a second.")
@click.option(
    "--call-graph",
    type=click.Choice(["dwarf", "fp"]),
    default="dwarf",
    help="Method of walking stacks; OpenFHE's wheel has no frame pointers, so 'fp' sees the innermost function only.",
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
@quiet_option
@format_option
def command(
    workload: str,
    params: str | None,
    size: str | None,
    data_path: Path | None,
    events: str | None,
    only_events: bool,
    exact: bool,
    flamegraph: Path | None,
    folded: Path | None,
    speedscope_path: Path | None,
    frequency: int,
    call_graph: str,
    full_stacks: bool,
    callgrind: bool,
    idle_s: float,
    overhead: bool | None,
    threads: int | None,
    seed: int,
    output: Path | None,
    force: bool,
    quiet: bool,
    output_format: str,
) -> None:
    """Profile WORKLOAD encrypted with OpenFHE: the region is its homomorphic operations, without set-up and client.

    A quantity that this machine cannot measure is 'unavailable' with the reason and a remedy, never 0.

    \b
    Examples:
      penstock profile logistic-regression --flamegraph flame.svg
      penstock profile matrix-multiplication --events LLC-loads,cpu/event=0x3c/ --exact
      penstock profile inner-product --size ci --callgrind -o runs/profile
    """
    module, size_name, checked = resolve(workload, params, size)
    files = _targets(flamegraph, folded, speedscope_path, force=force)
    request = Request(
        workload=workload,
        size=size_name,
        params=params or module.SIZES[size_name].params,
        seed=seed,
        data=str(data_path) if data_path else None,
        threads=threads,
        events=_events(events, only=only_events),
        exact=exact,
        sample=output is not None or any(files.values()),
        frequency_hz=frequency,
        call_graph=call_graph,
        full_stacks=full_stacks,
        callgrind=callgrind,
        overhead=overhead,
        idle_s=idle_s,
    )
    run = _folder(output, _config(request, module.NAME, checked.name), force) if output is not None else None
    try:
        with (
            temporary_folder("penstock-profile-") as working,
            Progress(quiet=quiet).stage(f"profile {workload}") as shown,
        ):
            found = profile(request, working, lambda name: shown.update(0, name=f"profile {workload}: {name}"))
        if run is not None:
            files = {kind: files[kind] or run.path / name for kind, name in FILES.items()}
        ran = f"{module.NAME} ({size_name}, {checked.name}) encrypted with OpenFHE"
        written = _write_stacks(found, files, ran, force or run is not None)
        result = _result(found, module.NAME, size_name, checked.name, threads, written)
        if run is not None:
            _write_run(run, found, result)
    finally:
        if run is not None:
            run.close()
    if not quiet:
        _say(written, found)
    emit(
        result["rows"] if output_format == "csv" else result,
        output_format,
        table=lambda console: _draw(console, found, result),
    )
    if not found.check["passed"]:
        raise CheckFailed(f"{workload} encrypted differs from clear: {'; '.join(found.check['rules'])}")


def _config(request: Request, workload: str, params: str) -> dict[str, Any]:
    """What tells one profile from another."""
    kept = ("size", "threads", "seed", "exact", "frequency_hz", "call_graph", "callgrind", "idle_s", "overhead")
    asked = {name: getattr(request, name) for name in kept}
    return {"verb": "profile", "workload": workload, "params": params, "events": list(request.events), **asked}


def _targets(
    flamegraph: Path | None, folded: Path | None, speedscope: Path | None, *, force: bool
) -> dict[str, Path | None]:
    """The files of the stacks, by kind."""
    files = {"flamegraph": flamegraph, "folded": folded, "speedscope": speedscope}
    for path in files.values():
        if path is not None:
            check_target(path, force=force)
    return files


def _events(text: str | None, *, only: bool) -> tuple[str, ...]:
    """The events to count: the usual ones and those asked for."""
    asked = parse_events(text or "")
    if only and not asked:
        raise UsageError("--only-events without --events: name the events, --events instructions,cache-misses")
    return tuple(dict.fromkeys([*(() if only else DEFAULT_EVENTS), *asked]))


def _say(written: dict[str, str], found: Profile) -> None:
    """Name the files that were written, and print the warnings."""
    for name in written.values():
        progress_console.print(f"written: {name}", soft_wrap=True, markup=False)
    for warning in found.warnings:
        progress_console.print(f"{warning['what']}; {warning['remedy']}", soft_wrap=True, markup=False)


def _folder(path: Path, config: dict[str, Any], force: bool) -> RunFolder:
    """The run's folder: new, or an unfinished one of the same configuration, started over."""
    run = RunFolder.open_or_resume(path, config, force=force)
    if run.complete:
        run.close()
        raise DifferentRun(
            f"{path} is not empty: it holds a finished profile; name another folder, or use --force to replace it"
        )
    if run.stages():
        run.close()
        run = RunFolder.create(path, config, force=True)
    return run


def _write_stacks(found: Profile, files: dict[str, Path | None], title: str, force: bool) -> dict[str, str]:
    if not found.samples:
        return {}
    subtitle = found.sampling.note if found.sampling is not None else ""
    written = {}
    for kind, path in files.items():
        if path is None:
            continue
        if kind == "flamegraph":
            text = flame_graph(found.stacks, title=title, subtitle=subtitle)
        elif kind == "folded":
            text = folded_text(found.stacks)
        else:
            text = json.dumps(speedscope(found.samples, title))
        write_atomic(path, text.encode("utf-8", errors="replace"), force=force)
        written[kind] = str(path)
    return written


def _result(
    found: Profile, workload: str, size: str, params: str, threads: int | None, written: dict[str, str]
) -> dict[str, Any]:
    sampled_s = sum(found.seconds_by_operation.values())
    return {
        "workload": workload, "size": size, "params": params, "threads": threads, "region": "server-side operations",
        "provenance": "measured", "wall_s": found.wall_s, "setup_s": found.setup_s,
        "num_operations": found.num_operations, "passed": found.check["passed"],
        "max_abs_error": found.check["max_abs_error"], "rows": [row.to_row() for row in found.rows],
        "overhead": [o.to_row() for o in found.overhead],
        "sampling": found.sampling.to_row() if found.sampling is not None else None,
        "operations": [
            {"operation": name, "sampled_s": seconds, "share": seconds / sampled_s}
            for name, seconds in found.seconds_by_operation.items()
        ],
        "hotspots": [
            {
                "function": h.function, "module": h.module, "self_s": h.self_s, "total_s": h.total_s,
                "self_share": h.self_s / sampled_s, "total_share": h.total_s / sampled_s,
            }
            for h in found.hotspots
        ],
        "callgrind": [
            {
                "function": f.function, "module": f.module, "instructions": f.instructions,
                "share": f.instructions / found.callgrind.instructions,
            }
            for f in found.callgrind.functions[:25]
        ] if found.callgrind is not None else None,
        "files": written, "warnings": found.warnings,
    }  # fmt: skip


def _write_run(run: RunFolder, found: Profile, result: dict[str, Any]) -> None:
    def note(row: EventRow) -> str | None:
        said = [f"{row.status}: {row.reason}" if row.reason else "", row.note]
        return "; ".join(text for text in said if text) or None

    run.append_rows(
        "events",
        [
            {"quantity": r.event, "value": r.value, "unit": r.unit, "provenance": "measured", "note": note(r)}
            for r in found.rows
        ],
    )
    run.append_rows(
        "overhead",
        [
            {"quantity": f"overhead_{o.mode}", "value": o.ratio, "unit": "1", "provenance": "measured"}
            for o in found.overhead
        ],
    )
    write_atomic(run.path / "profile.json", (json.dumps(plain(result), indent=2) + "\n").encode(), force=True)
    write_atomic(run.path / "perf-stat.txt", "\n".join(found.raw).encode(), force=True)
    run.finish()


def _draw(console: Console, found: Profile, result: dict[str, Any]) -> None:
    console.print(
        f"{result['workload']} ({result['size']}, {result['params']}): region {format_seconds(found.wall_s)} of "
        f"{found.num_operations} operations, measured; set-up {format_seconds(found.setup_s)} outside it"
    )
    rows = Table(box=None, pad_edge=False)
    for name, justify in (("event", "left"), ("value", "right"), ("unit", "left"), ("status", "left"), ("", "left")):
        rows.add_column(name, justify=justify)  # type: ignore[arg-type]
    for row in found.rows:
        if row.value is not None:
            remark = "; ".join(t for t in (row.reason, row.counted_as and f"as {row.counted_as}", _origin(row)) if t)
            shown = f"{row.value:,}" if isinstance(row.value, int) else f"{row.value:.4g}"
            rows.add_row(row.event, shown, "" if row.unit == "1" else row.unit, row.status, remark)
        else:
            rows.add_row(row.event, "-", "", row.status, "")
    console.print(rows)
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in [*found.rows, *([found.sampling] if found.sampling is not None else [])]:
        if row.value is None:
            reasons.setdefault((row.reason, row.remedy), []).append(row.event)
    for (reason, remedy), names in reasons.items():
        console.print(f"unavailable: {', '.join(names)}: {reason}; {remedy}", soft_wrap=True, markup=False)
    if not found.overhead:
        console.print("overhead: not measured; --overhead runs the workload once more without profiling")
    for overhead in found.overhead:
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
        drawn = Table(box=None, pad_edge=False, title=heading, title_justify="left")
        for column in columns:
            drawn.add_column(column, justify="right" if column.endswith("share") else "left")
        for entry in entries[:12]:
            drawn.add_row(*(f"{entry[c]:.1%}" if c.endswith("share") else entry[c] for c in columns))
        console.print(drawn)


def _origin(row: EventRow) -> str:
    source = "" if row.source == "perf" else row.source
    return ": ".join(text for text in (source, row.note) if text)
