"""Measured against predicted: each kind of operation of a run, at each number of limbs."""

from __future__ import annotations

from typing import Any

from penstock.explore.engine import Engine
from penstock.explore.state import State
from penstock.explore.view import Column, View
from penstock.explore.views.rows import newest_with

MEASURED, PREDICTED = "op_seconds", "predicted_op_seconds"


def measured(engine: Engine, state: State) -> View:
    """Total seconds of each kind and number of limbs, measured, and as the machine that was fitted to them predicts.

    Raises: UsageError: no run has both.
    """
    name, _, rows = newest_with(engine, state.run, (MEASURED, PREDICTED))
    sides: dict[str, dict[tuple[Any, Any], float]] = {MEASURED: {}, PREDICTED: {}}
    for row in rows:
        if row["quantity"] in sides and row["value"] is not None:
            key = (row["kind"], row["limbs"])
            sides[row["quantity"]][key] = sides[row["quantity"]].get(key, 0.0) + row["value"]
    points = [
        {
            "kind": kind, "limbs": limbs, "measured_s": seconds, "predicted_s": sides[PREDICTED].get((kind, limbs)),
            "error": _error(sides[PREDICTED].get((kind, limbs)), seconds),
        }
        for (kind, limbs), seconds in sorted(sides[MEASURED].items(), key=lambda item: -item[1])
    ]  # fmt: skip
    both = [point for point in points if point["error"] is not None]
    notes = [f"Run {name}: {len(both)} of {len(points)} kinds and limbs have a prediction."]
    if both:
        total = sum(point["predicted_s"] for point in both) / sum(point["measured_s"] for point in both) - 1
        mean = sum(abs(point["error"]) for point in both) / len(both)
        notes.append(
            f"Mean |error| {100 * mean:.1f} %; error of the sum {100 * total:+.1f} %. The machine was fitted to these "
            "timings."
        )
    source = f"run {name}, results.parquet"
    error = "predicted / measured - 1"
    return View(
        name="measured",
        title=f"Measured against predicted, run {name}",
        columns=[
            Column(name="kind", label="operation"),
            Column(name="limbs", label="limbs", unit="1"),
            Column(name="measured_s", label="measured", unit="s", provenance="measured",
                   source=f"{source}, {MEASURED}"),
            Column(name="predicted_s", label="predicted", unit="s", provenance="predicted",
                   source=f"{source}, {PREDICTED}: the machine fitted to this run"),
            Column(name="error", label="error", unit="share", provenance="predicted", source=error),
        ],
        rows=points,
        notes=notes,
        drawing={"run": name},
    )  # fmt: skip


def _error(predicted: float | None, measured: float) -> float | None:
    return None if predicted is None or not measured else predicted / measured - 1
