"""Two machines, or two runs, side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain

from penstock.base.runs.folder import RunFolder
from penstock.base.types import Row, Rows
from penstock.errors import PenstockError, UsageError
from penstock.front.explorer.asked import Asked
from penstock.front.explorer.columns import played, short
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.state import State
from penstock.front.explorer.view import PER_ROW, View, inputs, results
from penstock.front.explorer.views.rows import DIMENSIONS, FIRST, dimension_column, newest, with_damage
from penstock.scheme.machines import Machine
from penstock.scheme.machines.figure import Evidence

EVIDENCE = {
    Evidence.DATASHEET: "published",
    Evidence.MEASURED: "measured",
    Evidence.CALIBRATED: "predicted",
    Evidence.ASSUMED: "predicted",
}
"""The mark of a value of a machine: calibrated and assumed values come from a model, not a document."""
MOST_ROWS = 2000
MOST_TRIED = 12
"""Runs that are looked at for a pair with a common quantity."""


def compare_machines(engine: Engine, state: State) -> View:
    """The same program on two machines: each result, their ratio, and the parts of each machine.

    Raises: UsageError: both are the same.
    """
    if state.machine == state.other:
        raise UsageError(f"machine '{state.machine}' on both sides: choose another one to compare with")
    asked = Asked.of(state, tier=engine.tier_text(state), machines=(state.machine, state.other))
    view = played(engine, asked)
    sides = [engine.machine(name) for name in asked.machines]
    tier = engine.library.tier(asked.tiers[0])
    return replace(
        view,
        title=f"{short(sides[0])} and {short(sides[1])}",
        notes=[f"Both play {view.rows[0]['workload']} at {view.rows[0]['params']} over {tier.name}."],
        drawing={"facts": _facts(sides)},
    )


def _facts(sides: Iterable[Machine]) -> Rows:
    """Every value of both machines by its path, each with its kind and source."""
    facts: dict[str, Row] = {}
    for side, machine in enumerate(sides):
        for path, figure in machine.figures():
            facts.setdefault(path, {"value": path})[f"side{side}"] = {
                "text": figure.text,
                "kind": figure.kind.value,
                "provenance": EVIDENCE[figure.kind],
                "source": figure.source,
            }
    return list(facts.values())


def compare_runs(engine: Engine, state: State) -> View:
    """Two runs: every quantity that both have, and the ratio.

    Raises: UsageError: fewer than two runs, or twice the same; as `Library.open_run`.
    """
    names = engine.library.run_names()
    read = lru_cache(maxsize=2)(partial(newest, engine))  # the pair that is found is not read again
    left, right = _sides(state, read, names)
    if left == right != "":
        raise UsageError(f"run '{left}' on both sides: choose another one to compare with")
    if not left or not right:
        raise UsageError(
            f"{len(names)} run(s) in {engine.library.runs}: two that can be read make a comparison; 'penstock analyze' "
            "makes one"
        )
    opened = [read(name) for name in (left, right)]
    sides = [[row for row in rows if row["value"] is not None] for _, _, rows in opened]
    shared = sorted(_matched(*sides), key=lambda pair: _order(pair[0]))
    rows = [_pair(*pair) for pair in shared[:MOST_ROWS]]
    used = [dimension for dimension in (*DIMENSIONS, "note") if any(row[dimension] is not None for row in rows)]
    view = View(
        title=f"{left} and {right}",
        columns=[
            *inputs(("quantity", "quantity")),
            *(dimension_column(dimension) for dimension in used if dimension in FIRST),
            *results(PER_ROW, f"run {left}, results.parquet", ("left", left, "row")),
            *results(PER_ROW, f"run {right}, results.parquet", ("right", right, "row")),
            *results(PER_ROW, "right value over left value", ("ratio", "second / first", "x")),
            *(dimension_column(dimension) for dimension in used if dimension not in FIRST),
            *inputs(("provenance", "provenance")),
        ],
        rows=rows,
        notes=[
            f"{len(shared)} quantities are in both, {len(sides[0]) - len(shared)} only in {left}, "
            f"{len(sides[1]) - len(shared)} only in {right}."
            + (f" The first {MOST_ROWS} are shown." if len(shared) > MOST_ROWS else "")
        ],
        drawing={"runs": [left, right]},
    )
    return with_damage(view, *(run for _, run, _ in opened))


_Read = tuple[str, RunFolder, Rows]


def _sides(state: State, read: Callable[[str], _Read], names: Sequence[str]) -> tuple[str, str]:
    """The two runs of the state. By default the newest runs with a common quantity.

    Either is empty where no run is left that can be read.
    """
    if state.run and state.other_run:
        return state.run, state.other_run
    named = state.run or state.other_run
    known: dict[str, set[tuple[object, ...]]] = {}
    for name in dict.fromkeys([*([named] if named else []), *names[:MOST_TRIED]]):
        with suppress(PenstockError):
            keys = set(_grouped(read(name)[2]))
            for other in [named] if named else list(known):
                if name != other and keys & known.get(other, set()):
                    return (named, name) if state.run else (name, other)
            known[name] = keys
    others = [name for name in known if name != named]
    if named:
        mate = others[0] if others else ""
        return (named, mate) if state.run else (mate, named)
    late, early, *_ = *others, "", ""
    return early, late


def _matched(left: Iterable[Row], right: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """The rows of one quantity, set of dimensions and provenance: those with the same note, else one by one."""
    ours, theirs = _grouped(left), _grouped(right)
    for key, a in ours.items():
        b = theirs.get(key, {})
        notes = [note for note in a if note in b]
        for note in notes:
            yield from zip(a[note], b[note], strict=False)
        if not notes:
            yield from zip(chain.from_iterable(a.values()), chain.from_iterable(b.values()), strict=False)


def _grouped(rows: Iterable[Row]) -> dict[tuple[object, ...], dict[str | None, Rows]]:
    groups: dict[tuple[object, ...], dict[str | None, Rows]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        key = (row["quantity"], row["unit"], row["provenance"], *_dimensions(row).values())
        groups[key][row["note"]].append(row)
    return groups


def _dimensions(row: Row) -> Row:
    """The inputs; the hit ratio of a cache with a size is a result."""
    dimensions = {name: row[name] for name in DIMENSIONS}
    return dimensions if row["cache_bytes"] is None else dimensions | {"hit_ratio": None}


def _order(row: Row) -> tuple[bool, bool]:
    """Measured values first, and values of the whole run before others."""
    return row["provenance"] != "measured", row["kind"] is not None


def _pair(left: Row, right: Row) -> Row:
    return {
        "quantity": left["quantity"],
        "unit": left["unit"],
        "left": left["value"],
        "right": right["value"],
        "ratio": right["value"] / left["value"] if left["value"] else None,
        "provenance": left["provenance"],
        "note": left["note"] if left["note"] == right["note"] else None,
        **_dimensions(left),
    }
