"""The programs that ran after a fit, and the fitted machine's predictions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.errors import PenstockError
from penstock.fit.measurements import Measurement
from penstock.machines.schema import Machine
from penstock.prediction.models import PenstockModel, programs


def checked(measurements: Iterable[Measurement], machine: Machine) -> list[dict[str, Any]]:
    """One row a program: measured and predicted seconds of a whole run, and the error of the prediction.

    Programs whose whole run the machine cannot predict are left out.
    """
    model, rows = PenstockModel(machine), []
    for m in programs(measurements):
        whole = m.as_whole()
        try:
            found = model.predict(whole)
        except PenstockError:
            continue
        rows.append(
            {
                "program": m.item, "size": m.size, "params": m.params.name, "threads": m.threads,
                "measured_s": whole.seconds, "predicted_s": found.seconds, "low_s": found.low, "high_s": found.high,
                "error": found.seconds / whole.seconds - 1, "in_interval": found.holds(whole.seconds),
            }
        )  # fmt: skip
    return rows


def mean_error(rows: Iterable[dict[str, Any]]) -> float | None:
    """Mean |error|; `None` of no program."""
    errors = [abs(row["error"]) for row in rows]
    return sum(errors) / len(errors) if errors else None
