"""The keys on chip over time: the stays of keys in the played cache, in the window of operations.

A stay begins with the load of a key and ends with its last use before the key is loaded anew: in between, every access
was served on chip. A policy may hold a key longer without using it, which saves nothing and is not drawn. Stays too
close to tell apart are joined, so that any program draws in the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from penstock.base.types import Rows
from penstock.base.units import format_bytes
from penstock.base.version import __version__
from penstock.front.explorer.asked import Asked
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.state import FILE, State
from penstock.front.explorer.view import View, inputs, results
from penstock.lab.simulation.question import Point
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import SizedCache
from penstock.scheme.play.hierarchy import play_many, replay
from penstock.scheme.play.price import ACCESS_CLASSES
from penstock.scheme.unpriced import warned
from penstock.scheme.work.shapes import Ints, server_rows

COLUMNS_DRAWN = 800
MOST_KEYS = 120
"""Keys that are drawn: the first that the window uses."""
MOST_OPERATIONS = 200
"""Operations of a window that are listed one by one."""

_STAY = (
    ("first", "from operation", "1"), ("last", "to operation", "1"), ("uses", "uses", "1"), ("loads", "loads", "1"),
    ("loaded_bytes", "loaded", "B"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stays:
    """(k,) stays of keys on chip, by key and then by time."""

    key: Ints
    """Row of the key in the trace's table of objects."""
    first: Ints
    """Operation that loads it."""
    last: Ints
    """Operation that uses it last before it is loaded anew."""
    uses: Ints
    loads: Ints
    """Stays that are joined in this one."""
    loaded_bytes: Ints

    def __len__(self) -> int:
        return len(self.key)


def stays_of(accesses: Accesses, is_key: npt.NDArray[np.bool_], missed: Ints) -> Stays:
    """The stays of keys.

    Args:   is_key: (m,) whether each access is of a key; missed: (m,) bytes that each access loads.
    """
    operation = np.repeat(np.arange(accesses.num_operations, dtype=np.int64), np.diff(accesses.access_start))
    chosen = np.flatnonzero(is_key)
    key = accesses.access_object[chosen].astype(np.int64)
    order = np.lexsort((chosen, key))
    chosen, key = chosen[order], key[order]
    # Loaded whole is a new stay; loaded in part, some of it was there.
    new = missed[chosen] >= accesses.access_bytes[chosen]
    new[:1] = True
    new[1:] |= key[1:] != key[:-1]
    one = np.ones(len(key), dtype=np.int64)
    unjoined = Stays(
        key=key,
        first=operation[chosen],
        last=operation[chosen],
        uses=one,
        loads=new.astype(np.int64),
        loaded_bytes=missed[chosen],
    )
    return _joined(unjoined, new)


def shown(stays: Stays, first: int, last: int, columns: int = COLUMNS_DRAWN) -> Stays:
    """The stays in the window of operations; those that would touch in a drawing of that many columns are joined."""
    inside = (stays.last >= first) & (stays.first <= last)
    within = Stays(**{name: getattr(stays, name)[inside] for name in Stays.__slots__})
    width = max(1, last - first + 1)
    left = (np.maximum(within.first, first) - first) * columns // width
    right = (np.minimum(within.last, last) - first) * columns // width
    new = np.ones(len(within), dtype=bool)
    new[1:] = (within.key[1:] != within.key[:-1]) | ((left[1:] > right[:-1]) if width > columns else True)
    return _joined(within, new)


def _joined(stays: Stays, new: npt.NDArray[np.bool_]) -> Stays:
    """Each stay joined to the one before it unless it is new."""
    at = np.flatnonzero(new)
    return Stays(
        key=stays.key[at],
        first=stays.first[at],
        last=np.maximum.reduceat(stays.last, at),
        uses=np.add.reduceat(stays.uses, at),
        loads=np.add.reduceat(stays.loads, at),
        loaded_bytes=np.add.reduceat(stays.loaded_bytes, at),
    )


def residency(engine: Engine, state: State) -> View:
    """The stays of keys on the state's machine and cache; a stated hit ratio decides on no access."""
    machine = engine.machine(state.machine)
    trace, priced = engine.trace(state), engine.priced(state, state.machine)
    asked = Asked.of(replace(state, hold="cache", hosts=1), tier=engine.tier_text(state))
    (point,) = asked.question(engine.library, [machine]).points_on(machine)
    accesses = priced.accesses
    assert isinstance(point.hold, SizedCache)
    loaded = replay(accesses, point.hold, detail=True)
    assert loaded.access_miss_bytes is not None
    stays = stays_of(accesses, priced.access_class == ACCESS_CLASSES.index("key"), loaded.access_miss_bytes)
    end = max(0, len(priced) - 1)
    first = min(state.first, end)
    last = min(state.last or end, end)
    last = max(first, last)
    drawn = shown(stays, first, last)
    by_use = np.unique(drawn.key[np.argsort(drawn.first, kind="stable")], return_index=True)
    keys = by_use[0][np.argsort(by_use[1], kind="stable")]
    kept = keys[:MOST_KEYS]
    names = trace.objects["name"].take(kept).to_pylist()
    name_of = dict(zip(kept.tolist(), names, strict=True))
    steps = engine.steps(state)
    table = zip(*(getattr(drawn, name).tolist() for name in ("key", *(name for name, *_ in _STAY))), strict=True)
    rows = [
        {"key": name_of[key], "step": steps.get(name_of[key]), "provenance": "simulated"}
        | {name: value for (name, *_), value in zip(_STAY, values, strict=True)}
        for key, *values in table
        if key in name_of
    ]
    cache = f"{state.policy.removeprefix(FILE)} cache of {format_bytes(point.hold.capacity_bytes)}"
    notes = [
        f"{cache}: {loaded.hits:,.0f} of {loaded.accesses:,} accesses served on chip. A bar lasts from the load of a "
        "key to its last use before it is loaded anew; a policy may hold it longer, unused."
    ]
    if len(keys) > MOST_KEYS:
        notes.append(f"{len(keys) - MOST_KEYS} more keys are used in this window: zoom in to see them.")
    if len(drawn) < int(np.count_nonzero((stays.last >= first) & (stays.first <= last))):
        notes.append("Stays that touch at this width are joined: zoom in to tell them apart.")
    return View(
        title=f"Keys on chip, operations {first:,} to {last:,} of {len(priced):,}",
        columns=[
            *inputs(("key", "key"), ("step", "rotates by", "1")),
            *results("simulated", f"penstock {__version__}: the played cache; {machine.title}", *_STAY),
        ],
        rows=rows,
        warnings=(*loaded.warnings, *warned(priced.unpriced)),
        notes=notes,
        drawing={
            "keys": names,
            "labels": {name: _said(name, steps) for name in names},
            "first": first,
            "last": last,
            "operations": len(priced),
            "listed": _listed(engine, state, point, first, last) if last - first < MOST_OPERATIONS else [],
        },
    )


def _said(key: str, steps: Mapping[str, int]) -> str:
    """A name of a key for people: rotations by their step, not by their Galois element."""
    return f"rotate {steps[key]}" if key in steps else {"relin": "relinearize", "conj": "conjugate"}.get(key, key)


def _listed(engine: Engine, state: State, point: Point, first: int, last: int) -> Rows:
    """The operations of a window one by one: kind, scope, key, and when each computes.

    Nothing says when, where the time mode puts operations at no times, or results are written back in between.
    """
    priced = engine.priced(state, state.machine)
    loaded = replay(priced.accesses, cast(SizedCache, point.hold))
    start_s = None
    if point.mode != "bound" and not point.write_back:
        start_s = play_many(priced.compute_s, loaded, [point], timeline=True)[0].stages[-1].start_s
    table = server_rows(engine.trace(state).view().operations).slice(first, last - first + 1)
    operations = table.select(["id", "kind", "limbs_in", "scope", "key"]).to_pylist()
    for i, row in enumerate(operations):
        at = first + i
        row |= {"operation": at, "loaded_bytes": loaded.operation_bytes[at], "compute_s": priced.compute_s[at]}
        row["start_s"] = None if start_s is None else start_s[at]
    return operations
