"""`penstock.fit_machine`: measured primitives to a machine that every other function takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from penstock.errors import UnknownName, UsageError, check_known
from penstock.fit.fit import fit_machine as fitted_to
from penstock.fit.measurements import MEDIAN, QUIET, WARM, Measurement, reading_of, statistic_of
from penstock.hall.arguments import names_arguments
from penstock.hall.result import listed
from penstock.machines import Machine
from penstock.measure.bench.spec import GROUPS
from penstock.prediction.composites import expanded
from penstock.prediction.idle import idle_power as idle_power_of
from penstock.prediction.importers import ImportLog, load_all, newest_results
from penstock.prediction.statistics import AUTO, STATISTICS, measured_as
from penstock.simulation.names import one_of


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
            primitives; cpu: of CryptOracle's files; reading: native or openfhe, where the results are of both; statistic: auto, quiet or median; idle_power: "20 W", or "measure".
    Returns: a machine, for `machine=` of every function; `penstock.machines.written.write_machine` writes its file.
    Raises: UsageError: no primitives among the results; UnknownName: a primitive that was not measured.
    """
    one_of("statistic", statistic, STATISTICS)
    paths = [Path(each) for each in listed(results)] or [newest_results()]
    log = ImportLog(skip_bad=skip_bad)
    found = load_all(paths, log=log, cpu=cpu)
    counts, names = listed(threads) or None, listed(only) or None
    machine = fitted(measured_as(chosen(found, counts, names, reading), statistic), name, paths)
    if idle_power is not None:
        machine = replace(machine, idle_power=idle_power_of(idle_power))
    return replace(machine, description=described(machine.description, log))


def chosen(
    found: Sequence[Measurement],
    threads: Sequence[int] | None,
    only: Sequence[str] | None,
    reading: str | None = None,
    word: str = "threads",
) -> list[Measurement]:
    """The primitives that are fitted to, all of one reading.

    Args:   word: how the front end writes `threads`.
    Raises: UsageError: there are none; UnknownName: a primitive or a reading that was not measured; MachineError: they
            are of several readings, and none is asked for.
    """
    kept = [each for each in found if each.group == "primitives"]
    if reading is not None:
        check_known("measured reading", reading, {each.reading for each in kept})
        kept = [each for each in kept if each.reading == reading]
    reading_of(kept, "the results")
    if not kept:
        raise UsageError(
            f"the results hold {counted(found)} and no primitives, and a machine is fitted to primitives: measure "
            "some with 'penstock bench run --suite fit'"
        )
    if only is not None:
        known = {each.item for each in kept}
        for name in only:
            if name not in known:
                raise UnknownName("measured primitive", name, known)
        kept = [each for each in kept if each.item in only]
    if threads is not None:
        known_counts = sorted({each.threads for each in kept})
        for count in threads:
            if count not in known_counts:
                raise UsageError(
                    f"{word} {count}: measured were {', '.join(map(str, known_counts))}; measure it too with "
                    f"'penstock bench run --suite fit --threads {count}'"
                )
        kept = [each for each in kept if each.threads in threads]
    return kept


def fitted(measurements: Sequence[Measurement], name: str, paths: Sequence[Path]) -> Machine:
    """Return the machine of these measurements; its file names them."""
    rings = sorted({each.params.ring_dim.bit_length() - 1 for each in measurements})
    counts = sorted({each.threads for each in measurements})
    at = f"N = {', '.join(f'2^{ring}' for ring in rings)}, {', '.join(map(str, counts))} threads"
    timed = sum(each.shape is not None and each.condition == WARM for each in measurements)
    names = ", ".join(path.name or str(path) for path in paths)
    of = {MEDIAN: "medians", QUIET: "quiet times"}.get(times := statistic_of(measurements), f"{times} times")
    return fitted_to(
        measurements, name=name, fitted_to=f"{timed} timed primitives of {names} ({at}; {of})", expand=expanded
    )


def described(description: str, log: ImportLog) -> str:
    """The machine's own description, and where and when it was measured, as far as the results say."""
    origins = [f"{Path(path).name or path} ({origin})" for path, origin in log.origins.items() if str(origin)]
    return f"{description} Measured: {'; '.join(origins)}." if origins else description


def counted(found: Sequence[Measurement]) -> str:
    """The number of measurements of each group, in words."""
    of_group = Counter(each.group for each in found)
    return ", ".join(f"{of_group[group]} {group}" for group in GROUPS if of_group[group]) or "nothing"
