"""Measurements from files; the content of a file decides its kind.

Understood are run folders of `penstock bench run` and their `bench.parquet`; Google Benchmark's JSON; CryptOracle's CSV
files, a folder of them, and its YAML configurations, which name CSV files: penstock-studies reads these.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path

from penstock.base.system.files import os_errors
from penstock.base.units import format_seconds
from penstock.errors import UsageError
from penstock.lab.fit.measurements import Measurement
from penstock.lab.measure.bench.estimate import CALL_S, nominal_seconds
from penstock.lab.measure.bench.results import FILE
from penstock.lab.prediction.importers import bench, google
from penstock.lab.prediction.importers.bench import newest_results
from penstock.lab.prediction.importers.foreign import BUILDS, CONFIGURATIONS, importer_of, importer_of_folder
from penstock.lab.prediction.importers.rows import BadTiming, ImportLog, Origin, read_text
from penstock.scheme.work.shapes import shape_work

__all__ = ["BUILDS", "BadTiming", "ImportLog", "Origin", "load", "load_all", "newest_results"]

UNDERSTOOD = (
    "understood are a run folder of 'penstock bench run', its bench.parquet, Google Benchmark's JSON, and "
    "CryptOracle's CSV and YAML files or a folder of them"
)


def load(
    path: str | Path, *, log: ImportLog | None = None, cpu: str | None = None, build: str = BUILDS[0]
) -> list[Measurement]:
    """The measurements in a file or folder.

    Args:   log: says whether bad rows are left out, and is told about each; cpu: a part of the CPU's name, where
            CryptOracle's files are of several; build: theirs, one of `BUILDS`.
    Raises: BadTiming: a row that no measurement can have, named by file and row, or a file that is empty, cut off or
            not UTF-8; UsageError: no such path, or content that is not understood; CapabilityMissing: a folder or a
            configuration of CryptOracle's without penstock-studies.
    """
    path, log = Path(path), log or ImportLog()
    if not path.exists():
        raise UsageError(f"{path} does not exist; {UNDERSTOOD}")
    if path.is_dir():
        if (path / FILE).is_file() or (path / "bench").is_dir():
            timings = bench.load(path, log)
        elif any(path.rglob("*.csv")):
            timings = importer_of_folder(path).load(path, log, cpu=cpu, build=build)
        else:
            raise UsageError(f"{path} holds no timings; {UNDERSTOOD}")
    else:
        timings = _load_file(path, log, cpu, build)
    if not timings:
        why = "; ".join([*log.bad[:1], *log.left_out])
        raise UsageError(f"{path} holds no timing that can be used{': ' + why if why else ''}; {UNDERSTOOD}")
    return timings


def load_all(
    paths: Iterable[str | Path], *, log: ImportLog | None = None, cpu: str | None = None, build: str = BUILDS[0]
) -> list[Measurement]:
    """The measurements of several files and folders of one machine.

    Raises: as `load`; BadTiming: two of them hold the same timing, or a time is far from the others' suggestion;
            UsageError: the files name different CPUs, or another one than `cpu`.
    """
    log = log or ImportLog()
    before = set(log.origins)
    timings: list[Measurement] = []
    seen: dict[tuple[object, ...], str] = {}
    for path in paths:
        here: dict[tuple[object, ...], str] = {}
        for timing in load(path, log=log, cpu=cpu, build=build):
            same = _SAME(timing)
            if same in seen:
                log.refuse(f"{timing.source}: the timing of '{timing.item}' is in {seen[same]} already: duplicated")
                continue
            here[same] = timing.source
            timings.append(timing)
        seen |= here
    origins = {path: origin for path, origin in log.origins.items() if path not in before}
    for where, origin in origins.items():
        if cpu is not None and origin.cpu is not None and cpu.lower() not in origin.cpu.lower():
            raise UsageError(f"--cpu '{cpu}': {where} is of {origin.cpu}; name that CPU's results, or leave it out")
    _one_cpu(origins)
    return plausible(timings, log)


_SAME = attrgetter("item", "params", "shape", "size", "degree", "threads", "reading", "seconds")
"""What two timings share that are one and the same."""


def _one_cpu(origins: Mapping[str, Origin]) -> None:
    of_cpu: dict[str, str] = {}
    for path, origin in origins.items():
        if origin.cpu is not None:
            of_cpu.setdefault(origin.cpu, path)
    if len(of_cpu) > 1:
        raise UsageError(
            f"the results are of {len(of_cpu)} CPUs ({'; '.join(f'{path}: {cpu}' for cpu, path in of_cpu.items())}), "
            "and a machine is one: name the results of one of them (another's go to 'predict validate --other')"
        )


def _load_file(path: Path, log: ImportLog, cpu: str | None, build: str) -> list[Measurement]:
    if path.suffix in CONFIGURATIONS:
        return importer_of_folder(path).load(path, log, cpu=cpu, build=build)
    with os_errors(path, "read"), path.open("rb") as opened:
        start = opened.read(4)
    if start == b"PAR1" or (start and path.suffix == ".parquet"):
        return bench.load(path, log)
    text = read_text(path)
    if text.lstrip()[:1] in ("{", "["):
        return google.load(text, str(path), log)
    known = importer_of(path, text.partition("\n")[0])
    if known is not None:
        return known.load(path, log, cpu=cpu, build=build)
    raise UsageError(f"{path}: its content is not known (it begins {text.strip()[:40]!r}); {UNDERSTOOD}")


# Timings that cannot be, judged by the others of their kind: in another unit, or with a slip of the pen.

ENOUGH = 5
"""Timings whose median predicts one more."""
OFF = 100.0
"""A time that is this many times longer or shorter than the others suggest is in another unit."""
DOUBTFUL = 10.0
"""The same for a time that is far from others of the same kind, condition and threads, with a warning. A shorter one is
left out, since from about 15 times on one in fifty decides a fit alone; a longer one counts little."""
_NAMED = 3


def plausible(timings: Sequence[Measurement], log: ImportLog) -> list[Measurement]:
    """The measurements without primitives whose time cannot be, or is so short that it would decide the fit.

    A time is compared with the nominal cost of its work, times the median ratio of the others.
    A fit is to relative errors: a time that is too long is off by less than all of itself, one that is too short
    without bound, and no weight of a robust fit starts out small enough for it.

    Raises: BadTiming: there is one, unless bad rows are skipped; the message names file and row.
    """
    nominal = {id(m): CALL_S + nominal_seconds(shape_work(m.shape, m.params)) for m in timings if m.shape is not None}
    logs = {id(m): math.log(m.seconds / nominal[id(m)]) for m in timings if id(m) in nominal}
    groups: dict[tuple[Hashable, ...], list[float]] = defaultdict(list)
    for m in timings:
        if id(m) in logs:
            for name in _groups(m):
                groups[name].append(logs[id(m)])
    middles = {name: statistics.median(of_group) for name, of_group in groups.items() if len(of_group) > ENOUGH}
    kept: list[Measurement] = []
    far: dict[str, list[Measurement]] = {"longer": [], "shorter": []}
    for m in timings:
        group = next((name for name in _groups(m) if name in middles), None) if id(m) in logs else None
        if group is not None:
            own = len(group) == _OWN
            off = logs[id(m)] - middles[group]
            times = math.exp(abs(off))
            if times > OFF:
                log.refuse(
                    f"{m.source}: '{m.item}' takes {format_seconds(m.seconds)}, {times:.3g} times "
                    f"{'less' if off < 0 else 'more'} than {'others of its kind' if own else 'other timings'} suggest "
                    "for its work: it is probably in another unit of time"
                )
                continue
            if own and times > DOUBTFUL:
                far["shorter" if off < 0 else "longer"].append(m)
                if off < 0:
                    continue
        kept.append(m)
    for longer, doubtful in far.items():
        if doubtful:
            log.warnings.append(
                f"{len(doubtful)} timing{'s are' if len(doubtful) > 1 else ' is'} more than {DOUBTFUL:.0f} times "
                f"{longer} than others of the kind suggest ({_named(doubtful)})"
                + (", and left out: one that is too short outweighs all others" if longer == "shorter" else "")
                + ": something disturbed the measurement, or another unit of time is meant"
            )
    return kept


def _named(doubtful: Sequence[Measurement]) -> str:
    more = f" and {len(doubtful) - _NAMED} more" if len(doubtful) > _NAMED else ""
    return "; ".join(f"{m.source}, '{m.item}', {format_seconds(m.seconds)}" for m in doubtful[:_NAMED]) + more


_OWN = 4
"""Length of the name of the narrowest group."""


def _groups(m: Measurement) -> Iterator[tuple[Hashable, ...]]:
    """Names of the groups that a timing is compared with, the narrowest first."""
    assert m.shape is not None
    yield m.reading, m.shape.kind, m.condition, m.threads
    yield m.reading, m.shape.kind, m.condition
    yield m.reading, m.condition
