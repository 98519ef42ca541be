"""Rows of CryptOracle's figures 5 to 8 and 11 and of its comparison of builds, from its artifact, beside ours.

`published` is the artifact's median. `calibrated` is the additive model, `first_principles` the machine that is fitted
to the primitives alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from penstock.base.types import Row, Rows
from penstock.errors import PenstockError
from penstock.lab.fit.measurements import Measurement, primitive_shape
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.prediction.importers import ImportLog, load
from penstock.lab.prediction.prediction import predict
from penstock.scheme.work.shapes import Shape
from penstock_studies.cryptoracle.artifact import EventCount, PublishedEstimate, count_table
from penstock_studies.cryptoracle.data import (
    VENDORS,
    Costs,
    Dataset,
    PredictedApplication,
    dataset,
    primitive_costs,
)
from penstock_studies.cryptoracle.predictions import UNITS
from penstock_studies.cryptoracle.programs import PROGRAMS
from penstock_studies.cryptoracle.tables import DEPTH, LOG_N, reasons, row
from penstock_studies.importers.columns import CALLS
from penstock_studies.importers.settings import HEXL, WITHOUT_HEXL, parameters

_Case = tuple[str, str, str, int, int]
"""Vendor, quantity, algorithm, depth and threads."""
GPU_SPEEDUP = 5.42
"""Figure 11's text: of the two algorithms in their own paper."""
FEW, MANY = "algorithm-5", "rectangular-mm"
FEW_DEPTH, MANY_DEPTH = 3, 6
"""Figure 11's caption: depths of the two algorithms."""
LOG_SLOTS = 12
"""Of the primitives, in Table 5."""
NO_FILES = (
    "the data has no file of this figure (ae-datasets/perf-model/figure_11): the counts of the two algorithms are "
    "printed nowhere, and are the quotients of contribution and unit cost in those files"
)


def sweep_rows(data: Mapping[str, Dataset], predicted: Sequence[PredictedApplication]) -> Iterator[Row]:
    """Figure 5: primitives against threads. Figure 7: microbenchmarks. Figure 8: matrix products by order and ring."""
    for vendor, of_vendor in data.items():
        chosen = [
            m for m in of_vendor.primitives if (m.params.ring_dim, m.params.depth) == (1 << LOG_N, DEPTH) and m.shape
        ]
        for m in sorted(chosen, key=lambda m: (m.item, m.threads)):
            yield from _primitive_rows(vendor, m, of_vendor)
    for p in predicted:
        if p.name not in PROGRAMS:
            continue
        if (p.log_n, p.depth, p.size, p.level) == (LOG_N, DEPTH, "", ""):
            yield from _program_rows(f"figure7.{p.vendor}.{p.name}.threads{p.threads}", "figure7", p)
        if p.name == "matrix-multiplication" and p.depth == DEPTH and not p.level:
            size = p.size or "order32"
            yield from _program_rows(f"figure8.{p.vendor}.{size}.n{p.log_n}.threads{p.threads}", "figure8", p)


def _primitive_rows(vendor: str, m: Measurement, data: Dataset) -> Iterator[Row]:
    assert m.shape is not None
    ours: dict[str, float | None] = {"runtime": None, "energy": None}
    note = f"median of {m.runs} run(s) in the data"
    if data.machine is None:
        note = f"{note}; ours: {data.unfitted}"
    else:
        priced = predict({m.shape: 1}, data.machine, params=m.params, threads=m.threads)
        ours["runtime"] = priced.predicted_s
        ours["energy"] = priced.predicted_j
    for quantity, value in (("runtime", m.seconds), ("energy", m.joules)):
        if value is not None:
            yield row(
                f"figure5.{vendor}.{m.item}.threads{m.threads}.{quantity}",
                "figure5",
                quantity,
                note,
                unit=UNITS[quantity],
                published=value,
                first_principles=ours[quantity],
            )


def _program_rows(stem: str, group: str, p: PredictedApplication) -> Iterator[Row]:
    for quantity, value in (("runtime", p.seconds), ("energy", p.joules)):
        if value is None:
            continue
        yield row(
            f"{stem}.{quantity}",
            group,
            quantity,
            reasons(p.additive, p.ours, after=f"median of {p.runs} run(s) in the data"),
            unit=UNITS[quantity],
            published=value,
            **p.columns(quantity),
        )


def event_rows(counted: Iterable[EventCount]) -> Iterator[Row]:
    """Figure 6: performance counters of single calls."""
    for e in counted:
        yield row(
            f"figure6.{CALLS[e.item][0]}.{e.event}.threads{e.threads}",
            "figure6",
            e.event,
            f"median of {e.runs} run(s) in the data at N = 2^{e.log_n}, depth {e.depth}; counters of another machine "
            "are not predicted: 'penstock bench run --events' and --results give this one's",
            published=e.value,
        )


def figure11_rows(estimates: Sequence[PublishedEstimate], data: Mapping[str, Dataset]) -> Rows:
    """The two matrix products: their counts, both at both depths by the paper's model and by ours, and the gains."""
    if not estimates:
        rows = [row(f"figure11.{name}.runtime", "figure11", "runtime", NO_FILES, unit="s") for name in (FEW, MANY)]
        note = f"measured in the algorithms' own paper, on a GPU; {NO_FILES}"
        return [*rows, row("figure11.gpu.speedup", "figure11", "speedup", note, published=GPU_SPEEDUP)]
    made = [
        row(
            f"figure11.{algorithm}.{CALLS[column][0]}.count",
            "figure11",
            "operation_count",
            "contribution over unit cost in the artifact, a whole number on every line",
            published=count,
            first_principles=count,
        )
        for algorithm, counts in count_table(estimates).items()
        for column, count in counts.items()
    ]
    values: dict[_Case, tuple[float, float | None]] = {}
    costs = {vendor: primitive_costs(dataset.primitives) for vendor, dataset in data.items()}
    for e in estimates:
        theirs, ours, note = _priced(e, data.get(e.vendor), costs.get(e.vendor, {}))
        values[e.vendor, e.quantity, e.algorithm, e.depth, e.threads] = e.value, ours
        made.append(
            row(
                f"figure11.{e.algorithm}.{e.vendor}.d{e.depth}.t{e.threads}.{e.quantity}",
                "figure11",
                e.quantity,
                note,
                unit=UNITS[e.quantity],
                published=e.value,
                calibrated=theirs,
                first_principles=ours,
            )
        )
    return [*made, *_gain_rows(values)]


def _priced(e: PublishedEstimate, data: Dataset | None, costs: Costs) -> tuple[float | None, float | None, str]:
    """The additive model from the data's own primitives, ours, and a note."""
    params = parameters(0, e.log_n, LOG_SLOTS, e.depth, False)
    note = "published is the paper's own model, not a measurement; ours has every operation at all limbs"
    parts = []
    for column, count in e.counts.items():
        measured = costs.get((*CALLS[column], params, e.threads))
        value = None if measured is None else measured.seconds if e.quantity == "runtime" else measured.joules
        parts.append(None if value is None else count * value)
    theirs = None if None in parts else math.fsum(part for part in parts if part is not None)
    if theirs is None:
        note += "; the data's primitives have no such configuration"
    if data is None or data.machine is None:
        return theirs, None, f"{note}; ours: {data.unfitted if data else 'no timings of this CPU'}"
    counts: Counter[Shape] = Counter()
    for column, count in e.counts.items():
        kind = PRIMITIVES[CALLS[column][0]].kind
        assert kind is not None
        counts[primitive_shape(kind, params, params.num_q)] += count
    predicted = predict(counts, data.machine, params=params, threads=e.threads)
    return theirs, predicted.predicted_s if e.quantity == "runtime" else predicted.predicted_j, note


def _gain_rows(values: Mapping[_Case, tuple[float, float | None]]) -> Iterator[Row]:
    for vendor, quantity, algorithm, depth, threads in values:
        if algorithm != FEW:
            continue
        for of_many in sorted({MANY_DEPTH, depth}):
            many = values.get((vendor, quantity, MANY, of_many, threads))
            few = values[vendor, quantity, FEW, depth, threads]
            if many is None or (of_many != depth and depth != FEW_DEPTH):
                continue
            captioned = (depth, of_many) == (FEW_DEPTH, MANY_DEPTH)
            note = (
                "the paper's '10 to 15 times': the two algorithms at the depths of the caption"
                if captioned
                else f"both at one depth, which the paper does not print; a GPU measured {GPU_SPEEDUP}"
            )
            ours = many[1] / few[1] if many[1] and few[1] else None
            yield row(
                f"figure11.gain.{vendor}.d{of_many}-over-d{depth}.t{threads}.{quantity}",
                "figure11-gain",
                "gain",
                note,
                published=many[0] / few[0],
                first_principles=ours,
            )


def build_rows(folder: Path) -> Rows:
    """What Intel's HEXL speeds up, and a machine that is fitted to each build that the data has.

    Both builds of the comparison were timed in one campaign, apart from all other files.
    """
    of_build: dict[str, list[Measurement]] = {}
    for build in (HEXL, WITHOUT_HEXL):
        try:
            of_build[build] = load(folder, cpu=VENDORS["amd"], build=build, log=ImportLog(skip_bad=True))
        except PenstockError:
            return [row("builds.hexl", "builds", "speedup", "the data has no file with a column 'hexl'")]
    without = {(m.item, m.params, m.threads): m for m in of_build[WITHOUT_HEXL]}
    made = []
    for m in sorted(of_build[HEXL], key=lambda m: (m.item, m.params.ring_dim, m.threads)):
        plain = without.get((m.item, m.params, m.threads))
        if plain is not None:
            log_n = m.params.ring_dim.bit_length() - 1
            note = f"{plain.seconds:.4g} s without and {m.seconds:.4g} s with HEXL, medians of {m.runs} run(s)"
            made.append(
                row(
                    f"builds.hexl.{m.item}.n{log_n}.d{m.params.depth}.t{m.threads}.speedup",
                    "builds",
                    "speedup",
                    note,
                    published=plain.seconds / m.seconds,
                )
            )
    for build, measurements in of_build.items():
        fitted = dataset("amd", [*measurements], always=True)
        note = fitted.unfitted or f"'penstock predict fit --build {build}' writes it"
        error = fitted.machine.fit.total_error if fitted.machine and fitted.machine.fit else None
        made.append(row(f"builds.{build}.machine", "builds", "total_error", note, first_principles=error))
    return made
