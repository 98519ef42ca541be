"""`penstock.fit_machine`: measured primitives to a machine that every other function takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.system.host import available_cores
from penstock.base.types import Row, Rows
from penstock.base.units import parse_percent, parse_seconds
from penstock.errors import PenstockError, UnknownName, UsageError
from penstock.front.hall.arguments import names_arguments
from penstock.front.hall.result import listed
from penstock.lab.fit.fit import fit_machine as fit_to
from penstock.lab.fit.measurements import MEDIAN, QUIET, WARM, Measurement, of_reading, statistic_of
from penstock.lab.measure.bench.spec import GROUPS
from penstock.lab.prediction.composites import expanded
from penstock.lab.prediction.idle import idle_power as idle_power_of
from penstock.lab.prediction.importers import ImportLog, load_all, newest_results
from penstock.lab.prediction.models import PenstockModel, programs
from penstock.lab.prediction.validation.statistics import AUTO, STATISTICS
from penstock.lab.simulation.names import one_of
from penstock.program.running.readings import DEFAULT_READING
from penstock.scheme.machines import Machine

if TYPE_CHECKING:
    from penstock.lab.prediction.experiments.loop import Goal, Report
    from penstock.lab.prediction.experiments.outlook import Outlook, Step
    from penstock.lab.prediction.experiments.session import Session


@names_arguments
def fit_machine(
    results: str | Path | Sequence[str | Path] | None = None,
    *,
    name: str = "mine",
    threads: int | Sequence[int] | None = None,
    only: str | Sequence[str] | None = None,
    cpu: str | None = None,
    reading: str | None = None,
    statistic: str = AUTO,
    idle_power: str | None = None,
    skip_bad: bool = False,
) -> Machine:
    """Fit a machine to measured primitives.

    Args:   results: run folders of `penstock bench run`, Google Benchmark JSON, or CryptOracle's CSV or YAML files
            (default: the newest run below runs/); threads: only measurements at these numbers of threads; only: these
            primitives; cpu: of CryptOracle's files; reading: native or openfhe, where the results are of both;
            statistic: auto, quiet or median; idle_power: "20 W", or "measure".
    Returns: a machine, for `machine=` of every function. `write_machine` of `penstock.scheme.machines.written` writes
    its file.
    Raises: UsageError: no primitives among the results; UnknownName: a primitive that was not measured.
    """
    one_of("statistic", statistic, STATISTICS)
    paths = [Path(path) for path in listed(results)] or [newest_results()]
    wanted = FitChoice(threads=listed(threads) or None, only=listed(only) or None, reading=reading, statistic=statistic)
    log = ImportLog(skip_bad=skip_bad)
    machine, _ = fitted(load_all(paths, log=log, cpu=cpu), wanted, name, log)
    return machine if idle_power is None else replace(machine, idle_power=idle_power_of(idle_power))


@dataclass(frozen=True, slots=True, kw_only=True)
class FitChoice:
    """The measurements that a machine is fitted to; `None`: all."""

    threads: Sequence[int] | None = None
    only: Sequence[str] | None = None
    """Primitives."""
    reading: str | None = None
    """Who computed; `None`: the only one there is."""
    statistic: str = AUTO
    word: str = "threads"
    """How the front end writes `threads`."""


def fitted(
    measurements: Sequence[Measurement],
    wanted: FitChoice,
    name: str,
    log: ImportLog,
    on_chosen: Callable[[Sequence[Measurement]], None] = lambda kept: None,
) -> tuple[Machine, Sequence[Measurement]]:
    """The machine of the wanted measurements, and these. Its file names their files, and where and when they were made.

    Args:   log: of reading `found`; told: hears of the measurements before the fit.
    Raises: as `fit_machine`.
    """
    kept = chosen(measurements, wanted)
    if wanted.statistic == QUIET:
        kept = [m.as_quiet() for m in kept]
    on_chosen(kept)
    rings = sorted({m.params.ring_dim.bit_length() - 1 for m in kept})
    counts = sorted({m.threads for m in kept})
    at = f"N = {', '.join(f'2^{ring}' for ring in rings)}, {', '.join(map(str, counts))} threads"
    timed = sum(m.shape is not None and m.condition == WARM for m in kept)
    names = ", ".join(Path(path).name or path for path in log.origins)
    of = {MEDIAN: "medians", QUIET: "quiet times"}.get(times := statistic_of(kept), f"{times} times")
    machine = fit_to(kept, name=name, fitted_to=f"{timed} timed primitives of {names} ({at}; {of})", expand=expanded)
    origins = [f"{Path(path).name or path} ({origin})" for path, origin in log.origins.items() if str(origin)]
    if not origins:
        return machine, kept
    return replace(machine, description=f"{machine.description} Measured: {'; '.join(origins)}."), kept


def chosen(measurements: Sequence[Measurement], wanted: FitChoice) -> list[Measurement]:
    """The primitives that are fitted to, all of one reading.

    Raises: UsageError: there are none; UnknownName: a primitive or a reading that was not measured; MachineError: they
            are of several readings, and none is asked for.
    """
    threads, only, word = wanted.threads, wanted.only, wanted.word
    kept = of_reading(
        [m for m in measurements if m.group == "primitives"],
        wanted.reading,
        "the results",
        word.replace("threads", "reading"),
    )
    if not kept:
        raise UsageError(
            f"the results hold {counted(measurements)} and no primitives, and a machine is fitted to primitives: "
            "measure some with 'penstock bench run --suite fit'"
        )
    if only is not None:
        known = {m.item for m in kept}
        for name in only:
            if name not in known:
                raise UnknownName("measured primitive", name, known)
        kept = [m for m in kept if m.item in only]
    if threads is not None:
        known_counts = sorted({m.threads for m in kept})
        for count in threads:
            if count not in known_counts:
                raise UsageError(
                    f"{word} {count}: measured were {', '.join(map(str, known_counts))}; measure it too with "
                    f"'penstock bench run --suite fit --threads {count}'"
                )
        kept = [m for m in kept if m.threads in threads]
    return kept


def counted(measurements: Sequence[Measurement]) -> str:
    """The number of measurements of each group, in words."""
    of_group = Counter(m.group for m in measurements)
    return ", ".join(f"{of_group[group]} {group}" for group in GROUPS if of_group[group]) or "nothing"


# `penstock predict fit --measure`.

BUDGET, TARGET = "10 min", "5%"


def asked_of(budget: str | None, target: str | None) -> Goal:
    """When a measurement stops. Raises: UsageError: no time, or no share."""
    from penstock.lab.prediction.experiments.loop import Goal

    budget_s, share = parse_seconds(budget or BUDGET, "--budget"), parse_percent(target or TARGET)
    if not budget_s > 0:
        raise UsageError(f"--budget {budget}: ask for more than no time")
    if not 0 < share < 1:
        raise UsageError(f"--target {target!r}: write a share between 0 and 100 %, for example 5%")
    return Goal(budget_s=budget_s, target=share)


def session_of(threads: Sequence[int] | None, store: Path | None, reading: str | None) -> Session:
    """A measurement of this machine; `None`: the default."""
    from penstock.lab.measure.bench.store import default_store
    from penstock.lab.prediction.experiments.session import Session, default_counts

    counts = sorted({*(threads or default_counts(available_cores()))})
    return Session(threads=tuple(counts), store=store or default_store(), reading=reading or DEFAULT_READING)


def step_row(step: Step, outlook: Outlook) -> Row:
    """A visit of a plan as a row."""
    points = [outlook.candidates.points[number] for number in step.choice.at]
    return {
        "params": step.params.name, "ring_dim": step.params.ring_dim, "num_q": step.params.num_q,
        "dnum": step.params.dnum, "points": len(points), "threads": sorted({point.threads for point in points}),
        "items": sorted({point.item for point in points}), "reading": points[0].reading,
        "predicted_s": step.choice.seconds, "expected_error": step.expected.mean, "provenance": "predicted",
    }  # fmt: skip


def experiment_of(report: Report, measurements: Sequence[Measurement], machine: Machine) -> Row:
    """The error that a measurement expected, and the programs that checked it."""
    rows = checked(measurements, machine)
    errors = [abs(row["error"]) for row in rows]
    return {
        "spent_s": report.spent_s, "visits": report.visits, "points": report.points,
        "target_reached": report.reached, "expected_error": report.expected.mean,
        "expected_by_threads": [
            {"threads": count, "error": error} for count, error in report.expected.by_threads.items()
        ],
        "check_error": sum(errors) / len(errors) if errors else None, "check": rows,
    }  # fmt: skip


def checked(measurements: Sequence[Measurement], machine: Machine) -> Rows:
    """One row a program: measured and predicted seconds of a whole run, and the error of the prediction.

    Programs whose whole run the machine cannot predict are left out.
    """
    model, rows = PenstockModel(machine), []
    for m in programs(measurements):
        whole = m.as_whole()
        try:
            predicted = model.predict(whole)
        except PenstockError:
            continue
        rows.append(
            {
                "program": m.item, "size": m.size, "params": m.params.name, "threads": m.threads,
                "measured_s": whole.seconds, "predicted_s": predicted.seconds,
                "low_s": predicted.low, "high_s": predicted.high,
                "error": predicted.seconds / whole.seconds - 1, "in_interval": predicted.holds(whole.seconds),
            }
        )  # fmt: skip
    return rows
