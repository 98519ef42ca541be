"""Two machines, or two runs, side by side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.errors import UsageError
from penstock.explore.asked import Asked
from penstock.explore.columns import short, simulated_columns
from penstock.explore.engine import Engine
from penstock.explore.state import State
from penstock.explore.view import PER_ROW, Column, View
from penstock.explore.views.rows import DIMENSIONS, newest
from penstock.machines import Evidence, Machine

EVIDENCE = {
    Evidence.DATASHEET: "published", Evidence.MEASURED: "measured", Evidence.CALIBRATED: "predicted",
    Evidence.ASSUMED: "predicted",
}  # fmt: skip
"""How a page marks a value of a machine: a calibrated or assumed one is a model's, not a document's."""
MOST_ROWS = 2000


def compare_machines(engine: Engine, state: State) -> View:
    """The same program on two machines: each result, their ratio, and what each machine is made of.

    Raises: UsageError: both are the same.
    """
    if state.machine == state.other:
        raise UsageError(f"machine '{state.machine}' on both sides: choose another one to compare with")
    asked = Asked.of(state, tier=engine.tier_text(state), machines=(state.machine, state.other))
    rows, warnings = engine.play(asked)
    sides = [engine.machine(name) for name in asked.machines]
    tier = engine.library.tier(asked.tiers[0])
    network = engine.library.network(state.network) if asked.networked else None
    columns = simulated_columns(sides, [tier], network, stated=asked.hit_ratios is not None)
    return View(
        name="machines",
        title=f"{short(sides[0])} and {short(sides[1])}",
        columns=columns,
        rows=rows,
        command=asked.command(engine.library),
        warnings=warnings,
        notes=[f"Both play {rows[0]['workload']} at {rows[0]['params']} over {tier.name}."],
        drawing={"facts": _facts(sides)},
    )


def _facts(sides: Iterable[Machine]) -> list[dict[str, Any]]:
    """Every value of both machines by its path, each with its kind and source."""
    found: dict[str, dict[str, Any]] = {}
    for side, machine in enumerate(sides):
        for path, figure in machine.figures():
            found.setdefault(path, {"value": path})[f"side{side}"] = {
                "text": figure.text, "kind": figure.kind.value, "provenance": EVIDENCE[figure.kind],
                "source": figure.source,
            }  # fmt: skip
    return list(found.values())


def compare_runs(engine: Engine, state: State) -> View:
    """Two runs: every quantity that both have, and the ratio.

    Raises: UsageError: there are no two runs; as `Library.open_run`.
    """
    names = engine.library.run_names()
    right = state.other_run or next((name for name in names if name != state.run), "")
    left = state.run or next((name for name in names if name != right), "")
    if not left or not right or left == right:
        raise UsageError(
            f"{len(names)} run(s) in {engine.library.runs}: two make a comparison; 'penstock analyze' makes one"
        )
    sides = []
    for name in (left, right):
        _, _, rows = newest(engine, name)
        sides.append({_key(row): row for row in rows if row["value"] is not None})
    shared = sorted((key for key in sides[0] if key in sides[1]), key=lambda key: _order(sides[0][key]))
    rows = [_pair(sides[0][key], sides[1][key]) for key in shared[:MOST_ROWS]]
    used = [each for each in DIMENSIONS if any(row[each] is not None for row in rows)]
    return View(
        name="compare",
        title=f"{left} and {right}",
        columns=[
            Column(name="quantity", label="quantity"),
            Column(name="left", label=left, unit="row", provenance=PER_ROW, source=f"run {left}, results.parquet"),
            Column(name="right", label=right, unit="row", provenance=PER_ROW, source=f"run {right}, results.parquet"),
            Column(name="ratio", label="second / first", unit="x", provenance=PER_ROW, source="of the two beside it"),
            *(Column(name=each, label=each.replace("_", " ")) for each in used),
        ],
        rows=rows,
        notes=[
            f"{len(shared)} quantities are in both, {len(sides[0]) - len(shared)} only in {left}, "
            f"{len(sides[1]) - len(shared)} only in {right}."
            + (f" The first {MOST_ROWS} are shown." if len(shared) > MOST_ROWS else "")
        ],
        drawing={"runs": [left, right]},
    )


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["quantity"], row["unit"], *(row[name] for name in DIMENSIONS))


def _order(row: dict[str, Any]) -> tuple[bool, bool]:
    """What was measured first, and of that what is of the whole run first."""
    return row["provenance"] != "measured", row["kind"] is not None


def _pair(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    return {
        "quantity": left["quantity"],
        "unit": left["unit"],
        "left": left["value"],
        "right": right["value"],
        "ratio": right["value"] / left["value"] if left["value"] else None,
        "provenance": left["provenance"],
        **{name: left[name] for name in DIMENSIONS},
    }
