"""A program among others, and over levels of memory: the wait of its tenants, and the bytes of each level."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.base.types import Row, Rows
from penstock.base.version import __version__
from penstock.front.explorer.asked import Asked
from penstock.front.explorer.columns import short
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.state import State
from penstock.front.explorer.view import View, inputs, results
from penstock.lab.simulation.names import CLASSES
from penstock.lab.simulation.play import play
from penstock.lab.simulation.words import OF_LEVELS
from penstock.scheme.machines import Machine
from penstock.scheme.unpriced import AT_LEAST, UNPRICED

TENANTS = (1, 2, 4, 8)
"""Copies of the program that run at the same time."""
MIDDLE = "hbm:16 GB"
"""The level that the second of the usual hierarchies has between the machine's own memory and the tier."""
_USERS = (("programs", "tenants", "1"),)
_TENANT = (
    ("tenant_slowdown", "worst tenant's slowdown", "x"), ("times_alone", "against one tenant alone", "x"),
    ("slowdown", "slowdown of the machine", "x"), ("hit_ratio", "hit ratio", "share"), ("compute_s", "compute", "s"),
    ("io_s", "I/O", "s"), ("total_s", "total", "s"), ("io_bytes", "loaded", "B"),
)  # fmt: skip
_LEVEL = (("levels", "levels"), ("level", "level"), ("capacity_bytes", "capacity", "B"), ("policy", "policy"))
_SERVED = (
    ("served_bytes", "served", "B"), ("hits", "hits", "1"), ("misses", "misses", "1"), ("evictions", "evictions", "1"),
    ("channel_bytes", "channel", "B"), ("busy_s", "busy", "s"), ("total_s", "total", "s"),
    ("slowdown", "slowdown", "x"),
)  # fmt: skip


def tenants(engine: Engine, state: State) -> View:
    """The program 1 to 8 times at once on the state's machine and cache, each with its own keys."""
    state = replace(state, hosts=1)
    machine, priced = engine.machine(state.machine), engine.priced(state, state.machine)
    asked = Asked.of(state, tier=engine.tier_text(state), tenants=TENANTS)
    question = asked.question(engine.library, [machine])
    rows, warnings = Rows(), dict.fromkeys(priced.warnings)
    for count in TENANTS:
        played, texts = play(engine.copies(state, state.machine, count), question.points_on(machine))
        warnings |= dict.fromkeys(texts)
        rows += [{**row, "programs": count, "tenant_slowdown": _felt(row, count)} for row in played]
        rows[-1]["times_alone"] = rows[-1]["total_s"] / rows[0]["total_s"] if rows[0]["total_s"] else None
    first = rows[0]
    source = f"penstock {__version__}: tenants that take turns, operation by operation, on {machine.title}"
    return View(
        title=f"{first['workload']} for 1 to {TENANTS[-1]} tenants of {short(machine)}",
        columns=[*inputs(*_USERS), *results("simulated", source, *_TENANT)],
        rows=[_shown(row, _USERS + _TENANT) for row in rows],
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
    machine = engine.machine(state.machine)
    asked = Asked.of(replace(state, hosts=1), levels=[state.levels] if state.levels else _usual(engine, state, machine))
    question = asked.question(engine.library, [machine])
    # Levels may hold classes that come from no tier.
    classes = ",".join(name for name, kind in CLASSES.items() if kind in question.classes)
    priced = engine.priced(replace(state, classes=classes), state.machine)
    played, warnings = play(priced, question.points_on(machine))
    source = f"penstock {__version__}: levels of memory, played on {machine.title}"
    parts = ({**row, **level, "levels": row["tier"]} for row in played for level in row["levels"])
    return View(
        title=f"Levels of memory under {priced.workload} on {short(machine)}",
        columns=[*inputs(*_LEVEL), *results("simulated", source, *_SERVED)],
        rows=[_shown(part, _LEVEL + _SERVED) for part in parts],
        command=asked.command(engine.library),
        warnings=list(dict.fromkeys([*priced.warnings, *warnings])),
        notes=["Fastest first; the last level holds everything. A level serves the bytes that no level above has."],
    )


def _shown(row: Row, columns: Iterable[tuple[str, ...]]) -> Row:
    """The columns of a row, and its bounds where operations have no price."""
    bounds = {name: row[name] for name in (UNPRICED, AT_LEAST) if row[name] is not None}
    return {name: row[name] for name in (*(name for name, *_ in columns), "provenance")} | bounds


def _usual(engine: Engine, state: State, machine: Machine) -> list[str]:
    """The machine's own memory over the tier, and the same with high-bandwidth memory between."""
    tier = engine.tier_text(state)
    own = ["on-chip"] if machine.on_chip_bytes else []
    middle = [] if tier.startswith("hbm") else [MIDDLE]
    usual = [",".join([*own, tier]), ",".join([*own, *middle, tier])]
    changed = any(state.text(word) for word in OF_LEVELS)  # words that may name the level between
    return usual[1:] if changed else list(dict.fromkeys(usual))
