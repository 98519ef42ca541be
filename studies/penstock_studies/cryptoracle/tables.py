"""Rows for CryptOracle's tables 5, 7 and 8: published, additive (`calibrated`), ours (`first_principles`), and the
plain regression of each primitive (`regression`).

The additive model's column is `calibrated`, since it consists of the primitives' times at the very configuration that
it predicts. A value that cannot be reproduced keeps its row, with the reason and the arithmetic on the published
values.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence

from penstock.base.system import toml
from penstock.base.types import Row, Rows
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock_studies.cryptoracle.data import (
    Costs,
    Dataset,
    PredictedApplication,
    Priced,
    additive,
    fitted,
    primitive_costs,
    regressed,
    regression_of,
    value_of,
    workload_additive,
    workload_sets,
)
from penstock_studies.cryptoracle.work import KNOWN

POLICY = "data"
"""Of the rows from the paper's own data."""
LOG_N, DEPTH, THREADS = 16, 10, 8
"""Table 5's configuration of the microbenchmarks, and the thread count of tables 7 and 8 and figure 10."""

_WRITTEN = toml.packaged("penstock_studies.cryptoracle", "tables.toml")
TABLE7: Mapping[str, Mapping[str, Sequence[float]]] = _WRITTEN["table7"]
"""Vendor -> microbenchmark -> seconds: region of interest, added by runtime analysis, added by event profiling."""
TABLE8: Mapping[str, Mapping[str, Sequence[float]]] = _WRITTEN["table8"]
"""Vendor -> workload -> seconds of profiling, and how many times faster the paper's prediction is."""
TABLE5: Mapping[str, tuple[str, int, int, int, str]] = {name: tuple(line) for name, line in _WRITTEN["table5"].items()}
"""Application -> our set, and as printed: log2 of the ring dimension, log2 of the batch, depth; and a note."""
PREDICTION_S = 0.6
"""Of table 8, for every workload."""
PROFILER = (
    "what the paper's own profiler takes besides the program, on its machine; the data holds the program's time with "
    "the first taken off and the second not in it"
)
TRANSFERRED = ("mult", "rotate")
"""Primitives whose ratio carries a prediction to another CPU."""


def table_rows(data: Mapping[str, Dataset], predicted: Sequence[PredictedApplication]) -> Rows:
    """All rows of tables 5, 7 and 8."""
    return [*table5_rows(), *table7_rows(data, predicted), *table8_rows(data)]


def table5_rows() -> Iterator[Row]:
    """The parameters of each application, and those of our set."""
    for name, (set_name, log_n, log_slots, depth, why) in TABLE5.items():
        params = catalogue.get(set_name)
        fields = ("log_n", "depth", "log_slots")
        values = params.ring_dim.bit_length() - 1, params.depth, params.slots.bit_length() - 1
        for field, published, value in zip(fields, (log_n, depth, log_slots), values, strict=True):
            note = "; ".join(
                [*([f"set '{set_name}'"] if set_name else []), *([why] if why and published != value else [])]
            )
            yield row(f"table5.{name}.{field}", "table5", field, note, published=published, first_principles=value)


def row(
    row_id: str,
    group: str,
    quantity: str,
    note: str,
    *,
    unit: str = "1",
    published: float | None = None,
    calibrated: float | None = None,
    first_principles: float | None = None,
    regression: float | None = None,
    measured: float | None = None,
    policy: str = POLICY,
) -> Row:
    """One row; errors are relative to `published` and signed."""

    def error(value: float | None) -> float | None:
        return value / published - 1 if published and value is not None else None

    return {
        "id": row_id, "group": group, "policy": policy, "quantity": quantity, "unit": unit, "published": published,
        "calibrated": calibrated, "first_principles": first_principles, "regression": regression,
        "measured": measured, "error_calibrated": error(calibrated),
        "error_first_principles": error(first_principles), "error_regression": error(regression), "note": note,
    }  # fmt: skip


def reasons(*priced: Priced | str, after: str = "") -> str:
    """A note, then the reasons for what has no prediction."""
    texts = dict.fromkeys([after, *(point for point in priced if isinstance(point, str))])
    return "; ".join(text for text in texts if text)


def is_default(point: PredictedApplication) -> bool:
    """Whether a point is at Table 5's configuration of the microbenchmarks, at 8 threads."""
    at = point.log_n, point.depth, point.threads, point.level, point.size
    return at == (LOG_N, DEPTH, THREADS, "", "") and point.vendor in TABLE7


def table7_rows(data: Mapping[str, Dataset], predicted: Sequence[PredictedApplication]) -> Rows:
    """The region of interest, predicted; the profiler's overheads, whose quotients are checked."""
    made = []
    for vendor, columns in TABLE7.items():
        for name, (roi, runtime, events) in columns.items():
            stem = f"table7.{name}.{vendor}"
            here = [p for p in predicted if p.name == name and is_default(p)]
            point = next((p for p in here if p.vendor == vendor), None)
            if point is not None:
                note = f"8 threads; the data's own median of {point.runs} run(s) is {point.seconds:.4g} s"
                made.append(
                    row(
                        f"{stem}.roi",
                        "table7",
                        "runtime",
                        reasons(point.additive, point.ours, after=note),
                        unit="s",
                        published=roi,
                        **point.columns("runtime"),
                    )
                )
            else:
                made.append(_elsewhere(f"{stem}.roi", vendor, roi, data, here))
            for what, added in (("runtime-analysis", runtime), ("event-profiling", events)):
                made.append(row(f"{stem}.{what}", "table7", "overhead", PROFILER, unit="s", published=added))
                note = f"{added:g} s / {roi:g} s: arithmetic on two published figures, no prediction"
                made.append(row(f"{stem}.{what}.share", "table7", "overhead_share", note, published=added / roi))
    return made


def _elsewhere(
    row_id: str, vendor: str, roi: float, data: Mapping[str, Dataset], here: Sequence[PredictedApplication]
) -> Row:
    """The region of interest on a CPU of which the data has primitives only, at one configuration.

    Ours is the prediction for the CPU whose machine is fitted, times the median ratio of the key switches of both.
    """
    if vendor not in data or not here:
        return row(row_id, "table7", "runtime", "the data has no timings to predict it from", unit="s", published=roi)
    known, costs = here[0], primitive_costs(data[vendor].primitives)
    theirs = additive(known.name, known.params, THREADS, costs)
    ratio = _ratio(costs, primitive_costs(data[known.vendor].primitives), known.params)
    ours = value_of(known.ours, "runtime")
    note = reasons(theirs, known.ours)
    if ratio is not None and ours is not None:
        rule = (
            f"ours: the prediction for '{known.vendor}' times {ratio:.3f}, the median ratio of the two CPUs' "
            f"{' and '.join(TRANSFERRED)} (its primitives at one ring dimension and depth do not fit a machine)"
        )
        note = "; ".join(text for text in (note, rule) if text)
    return row(
        row_id,
        "table7",
        "runtime",
        note,
        unit="s",
        published=roi,
        calibrated=value_of(theirs, "runtime"),
        first_principles=ratio * ours if ratio is not None and ours is not None else None,
    )


def _ratio(there: Costs, here: Costs, params: CkksParameters) -> float | None:
    """How much longer key switches take there, at one configuration."""
    keys = [(item, None, params, THREADS) for item in TRANSFERRED]
    ratios = [there[key].seconds / here[key].seconds for key in keys if key in there and key in here]
    return statistics.median(ratios) if ratios else None


def table8_rows(data: Mapping[str, Dataset]) -> Rows:
    """Workloads: each model's seconds and the time of profiling, and how much sooner a prediction is there."""
    made, spent = [], []
    for vendor, columns in TABLE8.items():
        costs = primitive_costs(data[vendor].primitives) if vendor in data else {}
        plain_model = regression_of(data[vendor]) if vendor in data else "the data has no timings of this CPU"
        for name, (profiling, speedup) in columns.items():
            stem = f"table8.{name}.{vendor}"
            theirs = workload_additive(name, costs, THREADS)
            params = next(iter(workload_sets(name, costs, THREADS)), None)
            if params is not None and name in KNOWN:
                params = catalogue.get(KNOWN[name])
            ours: Priced | str = "no primitives in the data at the workload's configuration"
            plain, took = ours, None
            if params is not None:
                started = time.perf_counter()
                ours = fitted(name, params, THREADS, data[vendor])
                took = time.perf_counter() - started if isinstance(ours, Priced) else None
                plain = regressed(name, params, THREADS, plain_model)
            spent += [took] if took is not None else []
            note = (
                "8 threads; published is the whole process, of which Table 3's counts are the server's part only; ours "
                "takes the limbs of our program of that name"
            )
            made.append(
                row(
                    f"{stem}.profiling",
                    "table8",
                    "runtime",
                    reasons(theirs, ours, plain, after=note),
                    unit="s",
                    published=profiling,
                    calibrated=value_of(theirs, "runtime"),
                    first_principles=value_of(ours, "runtime"),
                    regression=value_of(plain, "runtime"),
                )
            )
            made.append(_speedup_row(stem, profiling, speedup, took))
    note = (
        "how long the paper's script runs; measured: our slowest prediction of this table, from the program's trace on"
    )
    longest = max(spent, default=None)
    return [
        *made,
        row("table8.prediction", "table8", "prediction_time", note, unit="s", published=PREDICTION_S, measured=longest),
    ]


def _speedup_row(stem: str, profiling: float, published: float, took: float | None) -> Row:
    note = f"published is {profiling:g} s / {PREDICTION_S:g} s"
    if took is None:
        note += "; nothing was predicted, so nothing was timed"
    else:
        note += f"; measured is {profiling:g} s over the {took:.3g} s of our prediction here"
    return row(
        f"{stem}.speedup",
        "table8",
        "speedup",
        note,
        published=published,
        measured=None if took is None else profiling / took,
    )
