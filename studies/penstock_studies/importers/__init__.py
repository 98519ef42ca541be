"""CryptOracle's results: CSV files, or any folder of its artifact that the user names.

A row is one run of many primitives, or of applications, at one configuration; repeats of a configuration become one
measurement. Its context is FLEXIBLEAUTO with a 52-bit first prime, 48-bit scaling and two large digits; ciphertexts are
fresh, so that every primitive works on all limbs. Workloads have contexts of their own (`settings.SETS`).
Source: Brynds et al., "CryptOracle" (ISPASS 2026), github.com/UnaryLab/CryptOracle: `src/performance_utils.py` for the
columns, `benchmarks/ckks-primitives-serialized/ckks-primitives.cpp` for the calls behind each column,
`util/cryptocontext-generator/file_generator.cpp` and `replacement-files/` for the parameters.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from penstock.errors import PenstockError, UsageError
from penstock.lab.fit.measurements import Measurement, primitive_shape
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.prediction.importers.foreign import CONFIGURATIONS
from penstock.lab.prediction.importers.rows import ImportLog, Origin, read_text, spread
from penstock.program.evaluator.unfolded import RELEASE
from penstock.scheme.operations import TRAITS
from penstock_studies.importers.applications import files_of
from penstock_studies.importers.columns import APPLICATIONS, CALLS, kind_of
from penstock_studies.importers.reading import Timing, csv_files, read
from penstock_studies.importers.repairs import mended, once, settled
from penstock_studies.importers.settings import PLAIN, TimingSetting

OURS = "cryptoracle-"
"""The names of the workloads that are CryptOracle's programs begin so."""
OTHER_CPU = "of another CPU than the one that was asked for"
"""The reason for leaving timings out that `cpu` excludes."""


def takes(line: str) -> bool:
    """Whether a CSV file that begins with this line is one of CryptOracle's timings."""
    return kind_of(line) == "timings"


def load(path: Path, log: ImportLog, *, cpu: str | None = None, build: str = PLAIN) -> list[Measurement]:
    """The measurements of a CSV file, of those that a configuration names, or of all below a folder.

    Args:   cpu: a part of the CPU's name, where the files are of several; build: one of `BUILDS`.
    Raises: BadTiming: a row or a file that cannot be used; UsageError: several CPUs, or no timings at all.
    """
    files = files_of(path) if path.suffix in CONFIGURATIONS else csv_files(path, log)
    return load_texts(((file, read_text(file)) for file in files), log, cpu=cpu, build=build)


def load_texts(
    texts: Iterable[tuple[Path, str]],
    log: ImportLog,
    *,
    cpu: str | None = None,
    build: str = PLAIN,
) -> list[Measurement]:
    """As `load`, of files that are read already."""
    every = [timing for path, text in texts for timing in read(path, text, log)]
    files = list(dict.fromkeys(str(t.path) for t in every))
    chosen = _of_cpu(every, cpu, log)
    for timing in chosen:
        if timing.setting.build != build:
            log.leave_out(f"of the build '{timing.setting.build}' of the library")
    chosen = [t for t in chosen if t.setting.build == build]
    kept = settled(once(mended(chosen, log), log), log)
    for timing in kept:
        log.used[str(timing.path)] += 1
    for name in {t.setting.cpu for t in chosen}:  # one
        log.origins[files[0]] = Origin(cpu=name)
    groups: dict[tuple[TimingSetting, str], list[Timing]] = defaultdict(list)
    for timing in kept:
        groups[timing.setting, timing.column].append(timing)
    measurements = []
    for (setting, column), repeats in groups.items():
        try:
            measurements.append(_measurement(setting, column, repeats))
        except PenstockError as error:
            log.refuse(f"{repeats[0].where}: {error}")
    return measurements


def _of_cpu(every: list[Timing], cpu: str | None, log: ImportLog) -> list[Timing]:
    """Raises: UsageError: timings of several CPUs, or none of the one that was asked for."""
    cpus = {t.setting.cpu for t in every}
    chosen = [t for t in every if cpu is None or cpu.lower() in t.setting.cpu.lower()]
    if len(chosen) < len(every):
        log.leave_out(OTHER_CPU, len(every) - len(chosen))
    of = sorted({t.setting.cpu for t in chosen})
    if len(of) > 1:
        raise UsageError(
            f"the files are of {len(of)} CPUs ({'; '.join(of)}), and a machine is one: choose with --cpu NAME, or name "
            "the files of one"
        )
    if not chosen and cpus:
        raise UsageError(f"--cpu {cpu!r}: the files are of {'; '.join(sorted(cpus))}; give a part of that name")
    return chosen


def _measurement(setting: TimingSetting, column: str, repeats: list[Timing]) -> Measurement:
    params, shape, degree, size = setting.params(), None, None, None
    if column in APPLICATIONS:
        group, item = APPLICATIONS[column]
        size = f"order{setting.order}" if setting.order else "full"
    else:
        group, (item, degree) = "primitives", CALLS[column]
        kind = PRIMITIVES[item].kind
        if kind is not None and not TRAITS[kind].composite:
            shape = primitive_shape(kind, params, params.num_q)
    seconds = [t.seconds for t in repeats]
    joules = [t.joules for t in repeats if t.joules is not None]
    middle = statistics.median(seconds)
    return Measurement(
        item=item,
        group=group,
        params=params,
        shape=shape,
        size=size,
        degree=degree,
        threads=setting.threads,
        release=RELEASE,
        seconds=middle,
        spread=spread(seconds, middle),
        joules=(statistics.median(joules) if joules else 0.0) or None,
        runs=len(repeats),
        source=repeats[0].where,
    )
