"""A program among others, and over levels of memory: the wait of its tenants, and the bytes of each level."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.explorer.asked import Asked
from penstock.explorer.columns import short
from penstock.explorer.engine import Engine
from penstock.explorer.state import State
from penstock.explorer.view import Column, View
from penstock.machines import Machine
from penstock.simulation.names import CLASSES
from penstock.simulation.play import Ready, play
from penstock.simulation.rows import Row
from penstock.unpriced import AT_LEAST, UNPRICED
from penstock.version import __version__

TENANTS = (1, 2, 4, 8)
"""Copies of the program that run at the same time."""
MIDDLE = "hbm:16 GB"
"""The level that the second of the usual hierarchies has between the machine's own memory and the tier."""
_TENANT = (
    ("programs", "tenants", "1", False), ("tenant_slowdown", "worst tenant's slowdown", "x", True),
    ("times_alone", "against one tenant alone", "x", True),
    ("slowdown", "slowdown of the machine", "x", True), ("hit_ratio", "hit ratio", "share", True),
    ("compute_s", "compute", "s", True), ("io_s", "I/O", "s", True), ("total_s", "total", "s", True),
    ("io_bytes", "loaded", "B", True),
)  # fmt: skip
_LEVEL = (
    ("levels", "levels", None, False), ("level", "level", None, False), ("capacity_bytes", "capacity", "B", False),
    ("policy", "policy", None, False), ("served_bytes", "served", "B", True), ("hits", "hits", "1", True),
    ("misses", "misses", "1", True), ("evictions", "evictions", "1", True), ("channel_bytes", "channel", "B", True),
    ("busy_s", "busy", "s", True), ("total_s", "total", "s", True), ("slowdown", "slowdown", "x", True),
)  # fmt: skip


def tenants(engine: Engine, state: State) -> View:
    """The program 1 to 8 times at once on the state's machine and cache, each with its own keys."""
    return engine.sheet("tenants", state, lambda: _tenants(engine, state))


def _tenants(engine: Engine, state: State) -> View:
    state = replace(state, hosts=1)
    machine, priced = engine.machine(state.machine), engine.priced(state, state.machine)
    asked = Asked.of(state, tier=engine.tier_text(state), tenants=TENANTS)
    question = asked.question(engine.library, [machine])
    rows, warnings = list[dict[str, Any]](), dict.fromkeys(priced.warnings)
    for count in TENANTS:
        found, said = play(Ready(priced=engine.copies(state, state.machine, count)), question.points_on(machine))
        warnings |= dict.fromkeys(said)
        rows += [{**row, "programs": count, "tenant_slowdown": _felt(row, count)} for row in found]
        rows[-1]["times_alone"] = rows[-1]["total_s"] / rows[0]["total_s"] if rows[0]["total_s"] else None
    names = [name for name, *_ in _TENANT]
    first = rows[0]
    return View(
        name="tenants",
        title=f"{first['workload']} for 1 to {TENANTS[-1]} tenants of {short(machine)}",
        columns=_columns(_TENANT, f"tenants that take turns, operation by operation, on {machine.title}"),
        rows=[{name: row[name] for name in (*names, "provenance")} | _bounds(row) for row in rows],
        command=asked.command(engine.library),
        warnings=list(warnings),
        notes=[
            f"Tier {first['tier']}, time mode {first['mode']}. Each tenant has its own keys, and all share the "
            "memory. A tenant's slowdown is its end over its compute time alone, with every key at hand.",
            "'penstock simulate PROGRAM --with OTHER' plays different programs together.",
        ],
        drawing={"own": 1},
    )


def _felt(row: Row, count: int) -> float | None:
    """The slowdown of the copy that ends last: with the whole program, if the time mode puts operations at times."""
    if row["slowdown"] is None or (row["mode"] == "bound" and count > 1):
        return None
    return float(row["slowdown"]) * count


def levels(engine: Engine, state: State) -> View:
    """What each level of memory serves: the state's levels, or the usual ones over its tier."""
    return engine.sheet("levels", state, lambda: _levels(engine, state))


def _levels(engine: Engine, state: State) -> View:
    machine = engine.machine(state.machine)
    asked = Asked.of(replace(state, hosts=1), levels=[state.levels] if state.levels else _usual(engine, state, machine))
    question = asked.question(engine.library, [machine])
    # Levels may hold classes that come from no tier.
    classes = ",".join(name for name, each in CLASSES.items() if each in question.classes)
    priced = engine.priced(replace(state, classes=classes), state.machine)
    played, warnings = play(Ready(priced=priced), question.points_on(machine))
    names = [name for name, *_ in _LEVEL]
    rows = []
    for row in played:
        of_all = {"levels": row["tier"], "total_s": row["total_s"], "slowdown": row["slowdown"]}
        for level in row["levels"]:
            rows.append(
                {name: {**level, **of_all}[name] for name in names} | {"provenance": row["provenance"]} | _bounds(row)
            )
    return View(
        name="levels",
        title=f"Levels of memory under {priced.workload} on {short(machine)}",
        columns=_columns(_LEVEL, f"levels of memory, played on {machine.title}"),
        rows=rows,
        command=asked.command(engine.library),
        warnings=list(dict.fromkeys([*priced.warnings, *warnings])),
        notes=["Fastest first; the last level holds everything. A level serves the bytes that no level above has."],
    )


def _bounds(row: Row) -> Row:
    """What the row says of operations without a price."""
    return {name: row[name] for name in (UNPRICED, AT_LEAST) if row[name] is not None}


def _usual(engine: Engine, state: State, machine: Machine) -> list[str]:
    """The machine's own memory over the tier, and the same with high-bandwidth memory between."""
    tier = engine.tier_text(state)
    own = ["on-chip"] if machine.on_chip_bytes else []
    middle = [] if tier.startswith("hbm") else [MIDDLE]
    found = [",".join([*own, tier]), ",".join([*own, *middle, tier])]
    return list(dict.fromkeys(found))


def _columns(named: tuple[tuple[str, str, str | None, bool], ...], source: str) -> list[Column]:
    return [
        Column(
            name=name,
            label=label,
            unit=unit,
            provenance="simulated" if result else None,
            source=f"penstock {__version__}: {source}" if result else "",
        )
        for name, label, unit, result in named
    ]
