"""CryptOracle's data against predictions: the paper's additive model run again, a fitted machine, a regression.

The additive model takes the time of each primitive at the very configuration times Table 3's count. Ours fits a
machine to the primitives alone and prices the operations at the limbs where they run. The baseline of both is a plain
log-quadratic regression of each primitive, at the same limbs as ours. No timing of an application goes into any.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from penstock.base.types import Row
from penstock.errors import PenstockError, UsageError
from penstock.lab.fit.fit import fit_machine
from penstock.lab.fit.measurements import Measurement
from penstock.lab.prediction.composites import expanded
from penstock.lab.prediction.importers import ImportLog, load
from penstock.lab.prediction.prediction import predict
from penstock.lab.prediction.validation.baselines import FREE, LogQuadratic, fit_operations
from penstock.scheme.machines.client import ENCODE, task_work
from penstock.scheme.machines.schema import Machine
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.work.kernels import KernelWork
from penstock.scheme.work.shapes import Shape, shape_work
from penstock_studies.cryptoracle.counts import PRIMITIVE_OF
from penstock_studies.cryptoracle.work import published_counts, work_of
from penstock_studies.importers import OTHER_CPU, OURS
from penstock_studies.importers.settings import BOOTSTRAP_DEPTH
from penstock_studies.workloads.algorithms import ORDER

VENDORS: Mapping[str, str] = {"amd": "AMD", "intel": "Intel"}
"""Name in row ids -> a part of the CPU's name."""

WORKLOADS: Mapping[str, tuple[int, int, bool]] = {
    "chi-square": (17, 3, False),
    "cnn": (16, 5, False),
    "logistic-regression": (17, 14, True),
    "resnet20": (16, 10, True),
}
"""Table 5: log2 of the ring dimension, depth, and whether the context bootstraps."""


ENCODED: Mapping[str, int] = {"matrix-multiplication": 2, "cnn": 35}
"""Plaintexts that a program encodes in its region of interest, at all limbs: Table 3 does not count them. Source:
`replacement-files/` of CryptOracle's repository."""
ENCODING = "MakeCKKSPackedPlaintext"


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """What one model says about a program, by operation of Table 3 where it knows that."""

    seconds: float
    joules: float | None
    by_operation: Mapping[str, float]
    """Seconds."""
    joules_by_operation: Mapping[str, float]
    by_kind: Mapping[str, float] = field(default_factory=dict)
    """Seconds by kind of operation, those inside composites too; of ours only."""
    low_s: float | None = None
    high_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedApplication:
    """One application at one configuration: its time, and each model's prediction, or the reason for none."""

    vendor: str
    name: str
    params: CkksParameters
    threads: int
    seconds: float
    joules: float | None
    runs: int
    additive: Priced | str
    ours: Priced | str
    regression: Priced | str
    size: str = ""
    """Of a program of ours, or the order of matrices where it is not the paper's default."""

    @property
    def models(self) -> Mapping[str, Priced | str]:
        """Column of a row -> the prediction that it is of."""
        return {"calibrated": self.additive, "first_principles": self.ours, "regression": self.regression}

    def columns(self, quantity: str) -> Row:
        """`runtime` or `energy` by each model, `None` where it has none."""
        return {column: value_of(priced, quantity) for column, priced in self.models.items()}

    @property
    def depth(self) -> int:
        return self.params.depth

    @property
    def log_n(self) -> int:
        return self.params.ring_dim.bit_length() - 1

    @property
    def level(self) -> str:
        """`128c`, `192c` or `256c` where OpenFHE chose the ring dimension for that security; else empty."""
        return self.params.name.rpartition("-")[2] if self.params.name.endswith("c") else ""


def value_of(priced: Priced | str, quantity: str) -> float | None:
    """`runtime` or `energy`, where there is a prediction."""
    if isinstance(priced, str):
        return None
    return priced.seconds if quantity == "runtime" else priced.joules


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """The measurements of one CPU, and the machine that was fitted to its primitives."""

    vendor: str
    measurements: tuple[Measurement, ...]
    machine: Machine | None
    unfitted: str
    """The reason for the missing machine; empty if there is one."""

    @property
    def primitives(self) -> tuple[Measurement, ...]:
        return tuple(m for m in self.measurements if m.group == "primitives")

    @property
    def applications(self) -> tuple[Measurement, ...]:
        return tuple(m for m in self.measurements if m.group != "primitives")


def load_data(folder: Path, log: ImportLog | None = None) -> dict[str, Dataset]:
    """The data of each vendor in CryptOracle's CSV files, with its machine.

    Args:   folder: any folder of its artifact, or one file; log: says whether bad rows are left out, and is told what
            was used.
    Raises: UsageError: no such folder, a file that is damaged, or one without primitives and applications.
    """
    log = log if log is not None else ImportLog()
    if not folder.exists():
        raise UsageError(f"--data {folder}: there is no such folder; name the one that holds CryptOracle's CSV files")
    if folder.is_dir() and not any(folder.rglob("*.csv")):
        raise UsageError(f"--data {folder} holds no CSV file; name the folder with CryptOracle's result files")
    datasets: dict[str, Dataset] = {}
    for vendor, cpu in VENDORS.items():
        if measurements := _of_cpu(folder, cpu, log):
            datasets[vendor] = dataset(vendor, measurements)
    if not any(data.primitives and data.applications for data in datasets.values()):
        held = sorted({m.group for data in datasets.values() for m in data.measurements})
        raise UsageError(
            f"--data {folder} holds {' and '.join(held) or 'nothing'} of CryptOracle's for no CPU together with the "
            "rest: the study needs the timings of primitives (all-primitives-timing-results.csv) and of "
            "microbenchmarks of one CPU"
        )
    return datasets


def _of_cpu(folder: Path, cpu: str, log: ImportLog) -> list[Measurement]:
    own_log = ImportLog(skip_bad=log.skip_bad)
    try:
        measurements = load(folder, cpu=cpu, log=own_log)
    except UsageError as error:
        if "--cpu" in str(error):  # the files are all of other CPUs
            return []
        raise
    own_log.left_out.pop(OTHER_CPU, None)
    log.used += own_log.used
    log.left_out |= own_log.left_out  # each file is read for each CPU
    log.warnings += [text for text in own_log.warnings if text not in log.warnings]
    log.bad += [text for text in own_log.bad if text not in log.bad]
    return measurements


def dataset(vendor: str, measurements: Iterable[Measurement], *, always: bool = False) -> Dataset:
    """The measurements with the machine that their primitives give, or the reason why they give none.

    Args:   always: fit also where no application was timed.
    """
    every = tuple(measurements)
    if not always and all(m.group == "primitives" for m in every):
        return Dataset(vendor=vendor, measurements=every, machine=None, unfitted="no application of it was timed")
    try:
        machine = fit_machine(every, name=f"{vendor}-fitted", expand=expanded)
        return Dataset(vendor=vendor, measurements=every, machine=machine, unfitted="")
    except PenstockError as error:
        return Dataset(vendor=vendor, measurements=every, machine=None, unfitted=f"no machine can be fitted: {error}")


def points(data: Dataset) -> list[PredictedApplication]:
    """A point for each measured application of the paper's, in the order of name, ring, depth and threads."""
    costs = primitive_costs(data.primitives)
    model = regression_of(data)
    made = []
    for m in data.applications:
        order, name = order_of(m), name_of(m)
        if name in WORKLOADS:
            theirs = workload_additive(name, costs, m.threads)
        elif order == ORDER:
            theirs = additive(name, m.params, m.threads, costs)
        else:
            theirs = f"Table 3 counts a product of order {ORDER}"
        made.append(
            PredictedApplication(
                vendor=data.vendor,
                name=name,
                params=m.params,
                threads=m.threads,
                seconds=m.seconds,
                joules=m.joules,
                runs=m.runs,
                additive=theirs,
                ours=fitted(name, m.params, m.threads, data, order),
                regression=regressed(name, m.params, m.threads, model, order),
                size="" if order == ORDER else m.size or "",
            )
        )
    return sorted(made, key=lambda p: (p.name, p.log_n, p.depth, p.threads))


Costs = Mapping[tuple[str, int | None, CkksParameters, int], Measurement]
"""(primitive, degree, parameters, threads) -> its measurement."""


def primitive_costs(primitives: Sequence[Measurement]) -> Costs:
    """Measured primitives by configuration. Of two of one name (two ranges of a series) the first stands."""
    costs: dict[tuple[str, int | None, CkksParameters, int], Measurement] = {}
    for m in primitives:
        costs.setdefault((m.item, m.degree, m.params, m.threads), m)
    return costs


def additive(name: str, params: CkksParameters, threads: int, costs: Costs) -> Priced | str:
    """The paper's model: each of Table 3's counts times that primitive's cost at the very configuration."""
    seconds: dict[str, float] = {}
    joules: dict[str, float] = {}
    for operation, count in published_counts(name).items():
        measured = costs.get((*PRIMITIVE_OF[operation], params, threads))
        if measured is None:
            return f"{operation} was not timed as a primitive at this configuration"
        seconds[operation] = count * measured.seconds
        if measured.joules is not None:
            joules[operation] = count * measured.joules
    complete = len(joules) == len(seconds)
    return Priced(
        seconds=math.fsum(seconds.values()),
        joules=math.fsum(joules.values()) if complete else None,
        by_operation=seconds,
        joules_by_operation=joules if complete else {},
    )


def order_of(measurement: Measurement) -> int:
    """Of the matrices of a product; of others the paper's default."""
    size = measurement.size or ""
    return int(size.removeprefix("order")) if size.startswith("order") else ORDER


def name_of(measurement: Measurement) -> str:
    """The name of a program in Table 3's columns of this study."""
    name = measurement.item.removeprefix(OURS)
    return "cnn" if name == "cifar10" else name


def workload_sets(name: str, costs: Costs, threads: int) -> list[CkksParameters]:
    """The parameter sets of Table 5's configuration of a workload whose primitives were timed at so many threads."""
    log_n, depth, bootstraps = WORKLOADS[name]
    total = depth + BOOTSTRAP_DEPTH * bootstraps
    wanted = {params for _, _, params, n in costs if (params.ring_dim, params.depth, n) == (1 << log_n, total, threads)}
    return sorted(wanted, key=lambda p: p.name)


def workload_additive(name: str, costs: Costs, threads: int) -> Priced | str:
    """The additive model of a workload at Table 5's configuration."""
    tried = [additive(name, params, threads, costs) for params in workload_sets(name, costs, threads)]
    done = [priced for priced in tried if isinstance(priced, Priced)]
    if done:
        return done[0]
    return tried[0] if tried else "no primitives in the data at the workload's configuration"


def fitted(name: str, params: CkksParameters, threads: int, data: Dataset, order: int = ORDER) -> Priced | str:
    """Ours: the algorithm's operations at their limbs, priced on the fitted machine.

    The limbs of a workload come from our program of that name.
    """
    if data.machine is None:
        return data.unfitted
    try:
        machine = data.machine.at(threads)
        parts = work_of(name, params, order)
        counts: Counter[Shape] = Counter()
        for work in parts:
            counts[work.shape] += work.count
        whole = predict(counts, data.machine, params=params, threads=threads)
    except PenstockError as error:
        return str(error)
    by_operation: dict[str, float] = {}
    by_kind: dict[str, float] = {}
    for work in parts:
        factor = machine.factor(work.shape.kind, params.ring_dim, work.shape.limbs_in)
        seconds = work.count * factor * machine.price(_kernel_work(work.shape, params)).seconds
        by_operation[work.operation] = by_operation.get(work.operation, 0.0) + seconds
        by_kind[work.shape.kind] = by_kind.get(work.shape.kind, 0.0) + seconds
    if name in ENCODED:
        by_operation[ENCODING] = ENCODED[name] * machine.price(task_work(ENCODE, params, params.num_q)).seconds
    more = 1 + by_operation.get(ENCODING, 0.0) / whole.known_s
    return Priced(
        seconds=whole.known_s * more,
        joules=None if whole.predicted_j is None else whole.predicted_j * more,
        by_operation=by_operation,
        joules_by_operation={},
        by_kind=by_kind,
        low_s=None if whole.low_s is None else whole.low_s * more,
        high_s=None if whole.high_s is None else whole.high_s * more,
    )


def regression_of(data: Dataset) -> LogQuadratic | str:
    """The regressions of a CPU's primitives, or the reason why there are none."""
    try:
        return fit_operations(data.primitives)
    except PenstockError as error:
        return str(error)


def regressed(
    name: str, params: CkksParameters, threads: int, model: LogQuadratic | str, order: int = ORDER
) -> Priced | str:
    """The baseline: the same operations at the same limbs, each by a regression of its own primitive's times."""
    if isinstance(model, str):
        return model
    by_operation: dict[str, float] = {}
    try:
        for work in work_of(name, params, order):
            if work.shape.kind not in FREE:
                seconds = work.count * model.operation(work.shape, params, threads)[1]
                by_operation[work.operation] = by_operation.get(work.operation, 0.0) + seconds
    except PenstockError as error:
        return str(error)
    return Priced(
        seconds=math.fsum(by_operation.values()), joules=None, by_operation=by_operation, joules_by_operation={}
    )


@lru_cache(maxsize=4096)
def _kernel_work(shape: Shape, params: CkksParameters) -> KernelWork:
    return shape_work(shape, params)
