"""Measured times next to predicted or simulated ones, from any run that holds both.

A run folder holds them as rows: the same quantity at the same dimensions, once `measured` and once `predicted` or
`simulated`, by provenance or by name (`op_seconds` and `predicted_op_seconds`, `measured_s` and `simulated_s`). A run
of `penstock bench run` holds times alone; a machine is fitted to its primitives, as `penstock predict fit` does, and
prices all that was timed.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.types import Row, RowView
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.lab.fit.measurements import Measurement
    from penstock.lab.prediction.models import Model

DIMENSIONS = ("workload", "params", "tier", "mode", "cache_bytes", "policy", "hit_ratio", "kind", "limbs")
"""The common identity of a time and of a model's time. The machine does not belong to it: a timing names none, or its
host."""
MODELS = ("predicted", "simulated")
OPERATIONS = "op_seconds"
"""The timings of each kind of operation of a measured run, shown even without a prediction."""


_Sides = dict[tuple[str, str | None], list[float]]
"""(who says it, machine) -> values, at one set of dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One timing, and a model's value for it."""

    what: str
    """A kind of operation, a workload, or the name of the quantity."""
    where: RowView
    """The dimensions that tell it from the others."""
    measured_s: float
    model_s: float | None
    provenance: str
    """Of `model_s`."""
    held_out: bool
    """Whether the model was fitted without it."""

    @property
    def error(self) -> float | None:
        """Model over measured, less one."""
        return None if self.model_s is None or not self.measured_s else self.model_s / self.measured_s - 1


def pairs_of(rows: Iterable[RowView]) -> list[Pair]:
    """The pairs among rows of a run folder; of repeated rows the median counts. Times only.

    >>> rows = [{"quantity": "total_s", "unit": "s", "value": v, "provenance": p, "cache_bytes": 8}
    ...         for p, v in (("measured", 2.0), ("simulated", 1.0))]
    >>> [(pair.what, pair.where["cache_bytes"], pair.error) for pair in pairs_of(rows)]
    [('total', 8, -0.5)]
    """
    sides: dict[tuple[str, tuple[object, ...]], _Sides] = defaultdict(_Sides)
    for row in rows:
        if row["unit"] != "s" or row["value"] is None:
            continue
        name, side = _named(str(row["quantity"]), str(row["provenance"]))
        by = sides[name, tuple(row.get(dimension) for dimension in DIMENSIONS)]
        by.setdefault((side, row.get("machine")), []).append(row["value"])
    paired = {name for (name, _), by in sides.items() if _has_both(by)}
    pairs = []
    for (name, at), by in sides.items():
        where = dict(zip(DIMENSIONS, at, strict=True))
        what = str(where.pop("kind") or name.removesuffix("_s"))
        for (side, machine), timed in by.items():
            if side != "measured" or (name not in paired and name != OPERATIONS):
                continue
            for model, priced, values in _models(by, machine):
                pairs.append(
                    Pair(
                        what=what,
                        where=where | {"machine": machine if priced is None else priced},
                        measured_s=statistics.median(timed),
                        model_s=statistics.median(values) if values else None,
                        provenance=model,
                        held_out=model == "simulated",
                    )
                )
    return sorted(pairs, key=lambda pair: -pair.measured_s)


def _has_both(by: _Sides) -> bool:
    who = {side for side, _ in by}
    return "measured" in who and not who.isdisjoint(MODELS)


def _models(by: _Sides, machine: str | None) -> list[tuple[str, str | None, list[float]]]:
    """What the first kind of model that says anything says of a time on `machine`: one entry for each of its machines.

    A time that names no machine is compared with every machine.
    """
    for model in MODELS:
        entries = [
            (model, priced, values)
            for (side, priced), values in by.items()
            if side == model and (priced is None or machine is None or priced == machine)
        ]
        if entries:
            return entries
    return [(MODELS[0], None, [])]


def _named(quantity: str, provenance: str) -> tuple[str, str]:
    """Name of a quantity without who says it, and who says it."""
    for side in ("measured", *MODELS):
        if quantity.startswith(f"{side}_"):
            rest = quantity.removeprefix(f"{side}_")
            return "time_s" if rest == "s" else rest, side
    return quantity, provenance


def pairs_of_bench(path: Path) -> tuple[list[Pair], list[str]]:
    """The timings of a `bench.parquet` next to the machine fitted to its primitives, and the faults of either.

    Raises: PenstockError: the file is not a result of `penstock bench run`.
    """
    from penstock.lab.fit.fit import fit_machine
    from penstock.lab.prediction.composites import expanded
    from penstock.lab.prediction.importers import load_all
    from penstock.lab.prediction.importers.rows import ImportLog
    from penstock.lab.prediction.models import PenstockModel, calibration, predictable

    log = ImportLog(skip_bad=True)
    timings = [timing for timing in load_all([path], log=log) if predictable(timing)]
    warnings = [f"{len(log.bad)} rows are left out; {log.bad[0]}"] if log.bad else []
    model: Model | None = None
    try:
        model = PenstockModel(fit_machine(calibration(timings), name=path.parent.name, expand=expanded))
    except PenstockError as error:
        warnings.append(f"no machine can be fitted to these timings ({error})")
    pairs = []
    for timing in timings:
        seconds = None
        try:
            seconds = None if model is None else model.predict(timing).seconds
        except PenstockError as error:  # a number of threads or a kind that nothing was fitted to
            warnings.append(str(error))
        pairs.append(
            Pair(
                what=timing.item,
                where=_where(timing),
                measured_s=timing.seconds,
                model_s=seconds,
                provenance="predicted",
                held_out=timing.group != "primitives",
            )
        )
    return sorted(pairs, key=lambda pair: (not pair.held_out, -pair.measured_s)), list(dict.fromkeys(warnings))


def _where(measurement: Measurement) -> Row:
    return {
        "params": measurement.params.name,
        "ring_dim": measurement.params.ring_dim,
        **{name: getattr(measurement, name) for name in ("size", "limbs", "threads")},
    }
