"""An encrypted run with its events, energy and call stacks, and its files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.base.runs.folder import DifferentRun, RunFolder
from penstock.base.system.files import check_target, write_atomic
from penstock.base.system.plain import plain
from penstock.base.system.temporary import temporary_folder
from penstock.base.types import Row
from penstock.errors import UsageError
from penstock.lab.measure.events import DEFAULT_EVENTS, EventRow, parse_events
from penstock.lab.measure.flamegraph import flame_graph
from penstock.lab.measure.profiled import Profile, Request
from penstock.lab.measure.profiler import profile
from penstock.lab.measure.stacks import folded_text, speedscope
from penstock.program.running.reading import resolve

FILES = {"flamegraph": "flamegraph.svg", "folded": "stacks.folded", "speedscope": "speedscope.json"}
"""The files of call stacks in a profile's folder."""


def profiled(
    workload: str,
    *,
    params: str | None,
    size: str | None,
    data: Path | None,
    events: str | None,
    only_events: bool,
    output: Path | None,
    force: bool,
    on_part: Callable[[str], None],
    **asked: Any,
) -> tuple[Profile, Row]:
    """Profile a program, write the files, and keep the run where a folder is named.

    Args:   events: to count besides the usual ones, or alone with `only_events`; output: run folder; on_part(name):
            called before each part; asked: fields of `Request`, and the file of each kind of `FILES`.
    Returns: the profile, and its numbers as `penstock profile --format json` prints them, with the written `files`.
    Raises: UsageError; WouldOverwrite; DifferentRun: the folder holds another run, or a finished profile.
    """
    module, size_name, checked = resolve(workload, params, size)
    files = {kind: asked.pop(kind) for kind in FILES}
    for path in files.values():
        if path is not None:
            check_target(path, force=force)
    request = Request(
        workload=workload,
        size=size_name,
        params=params or module.SIZES[size_name].params,
        data=str(data) if data else None,
        events=_events(events, only=only_events),
        sample=output is not None or any(files.values()),
        **asked,
    )
    run = _folder(output, _config(request, module.NAME, checked.name), force) if output is not None else None
    try:
        with temporary_folder("penstock-profile-") as working:
            profile_found = profile(request, working, on_part)
        if run is not None:
            files = {kind: files[kind] or run.path / name for kind, name in FILES.items()}
        ran = f"{module.NAME} ({size_name}, {checked.name}) encrypted with OpenFHE"
        written = _write_stacks(profile_found, files, ran, force or run is not None)
        result = _result(profile_found, module.NAME, size_name, checked.name, request.threads, written)
        if run is not None:
            _write_run(run, profile_found, result)
    finally:
        if run is not None:
            run.close()
    return profile_found, result


def _config(request: Request, workload: str, params: str) -> Row:
    """What tells one profile from another."""
    kept = ("size", "threads", "seed", "exact", "frequency_hz", "call_graph", "callgrind", "idle_s", "overhead")
    asked = {name: getattr(request, name) for name in kept}
    return {"verb": "profile", "workload": workload, "params": params, "events": list(request.events), **asked}


def _events(text: str | None, *, only: bool) -> tuple[str, ...]:
    """The events to count: the usual ones and those asked for."""
    asked = parse_events(text or "")
    if only and not asked:
        raise UsageError("--only-events without --events: name the events, --events instructions,cache-misses")
    return tuple(dict.fromkeys([*(() if only else DEFAULT_EVENTS), *asked]))


def _folder(path: Path, config: Row, force: bool) -> RunFolder:
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


def _write_stacks(profiled: Profile, files: dict[str, Path | None], title: str, force: bool) -> dict[str, str]:
    if not profiled.samples:
        return {}
    subtitle = profiled.sampling.note if profiled.sampling is not None else ""
    written = {}
    for kind, path in files.items():
        if path is None:
            continue
        if kind == "flamegraph":
            text = flame_graph(profiled.stacks, title=title, subtitle=subtitle)
        elif kind == "folded":
            text = folded_text(profiled.stacks)
        else:
            text = json.dumps(speedscope(profiled.samples, title))
        write_atomic(path, text.encode("utf-8", errors="replace"), force=force)
        written[kind] = str(path)
    return written


def _result(
    profiled: Profile, workload: str, size: str, params: str, threads: int | None, written: dict[str, str]
) -> Row:
    sampled_s = sum(profiled.seconds_by_operation.values())
    return {
        "workload": workload, "size": size, "params": params, "threads": threads, "region": "server-side operations",
        "provenance": "measured", "wall_s": profiled.wall_s, "setup_s": profiled.setup_s,
        "num_operations": profiled.num_operations, "passed": profiled.check["passed"],
        "max_abs_error": profiled.check["max_abs_error"], "rows": [row.to_row() for row in profiled.rows],
        "overhead": [o.to_row() for o in profiled.overhead],
        "sampling": profiled.sampling.to_row() if profiled.sampling is not None else None,
        "operations": [
            {"operation": name, "sampled_s": seconds, "share": seconds / sampled_s}
            for name, seconds in profiled.seconds_by_operation.items()
        ],
        "hotspots": [
            {
                "function": h.function, "module": h.module, "self_s": h.self_s, "total_s": h.total_s,
                "self_share": h.self_s / sampled_s, "total_share": h.total_s / sampled_s,
            }
            for h in profiled.hotspots
        ],
        "callgrind": [
            {
                "function": f.function, "module": f.module, "instructions": f.instructions,
                "share": f.instructions / profiled.callgrind.instructions,
            }
            for f in profiled.callgrind.functions[:25]
        ] if profiled.callgrind is not None else None,
        "files": written, "warnings": profiled.warnings,
    }  # fmt: skip


def _write_run(run: RunFolder, profiled: Profile, result: Row) -> None:
    def note(row: EventRow) -> str | None:
        parts = [f"{row.status}: {row.reason}" if row.reason else "", row.note]
        return "; ".join(text for text in parts if text) or None

    run.append_rows(
        "events",
        [
            {"quantity": r.event, "value": r.value, "unit": r.unit, "provenance": "measured", "note": note(r)}
            for r in profiled.rows
        ],
    )
    run.append_rows(
        "overhead",
        [
            {"quantity": f"overhead_{o.mode}", "value": o.ratio, "unit": "1", "provenance": "measured"}
            for o in profiled.overhead
        ],
    )
    write_atomic(run.path / "profile.json", (json.dumps(plain(result), indent=2) + "\n").encode(), force=True)
    write_atomic(run.path / "perf-stat.txt", "\n".join(profiled.raw).encode(), force=True)
    run.finish()
