"""Timings of several files put right: halved times, runs that are in two files, files that contradict each other.

Some files of the artifact hold exactly half of each time; their energies are right. Power gives them away: the same
processor would take twice its watts. A file that somebody has mended, in part or whole, is judged row by row.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from penstock.lab.prediction.importers.rows import ImportLog
from penstock_studies.importers.reading import Timing
from penstock_studies.importers.settings import PLAIN, TimingSetting

WATTS: Mapping[str, Mapping[int, float]] = MappingProxyType(
    {
        "Ryzen 9 7950X": {1: 63.0, 2: 71.0, 4: 80.0, 8: 96.0, 16: 108.0, 32: 110.0},
        "i9-13900K": {1: 43.0, 2: 47.0, 4: 66.0, 8: 83.0, 16: 86.0, 32: 89.0},
    }
)
"""A part of the CPU's name -> threads -> watts of the package in multiplications and rotations. Source: medians of the
files of CryptOracle's artifact whose times are whole."""
HALVED = (1.6, 2.7)
"""Power over the processor's own power, of a time that is half: two, and what differs between operations."""
LONGER = 1.5
"""Twice a time over the time of other runs: about 1 where the time is half, 2 where it is whole."""
HALF, STALE = "half", "stale"
NAME = "timings-invalid"
"""In the names of files whose times their authors hold to be wrong."""
CONTRADICTION = 2.0
"""Two files whose medians at one setting are further apart than this contradict each other."""


Row = tuple[Path, int]
"""File and line."""


def mended(timings: Sequence[Timing], log: ImportLog) -> list[Timing]:
    """The timings with halved times doubled, or without them where bad rows are skipped."""
    by_row: dict[Row, list[Timing]] = defaultdict(list)
    for timing in timings:
        by_row[timing.path, timing.line].append(timing)
    halved = _halved(by_row)
    halves: dict[Path, list[Timing]] = defaultdict(list)
    stale: dict[Path, int] = defaultdict(int)
    whole: dict[Path, int] = defaultdict(int)
    for (path, line), row in by_row.items():
        if _stated(row) == STALE:
            stale[path] += 1
        elif (path, line) in halved:
            halves[path] += row
        else:
            whole[path] += 1
    for path, timings_of_half in halves.items():
        _double(path, timings_of_half, log)
    for path, rows in stale.items():
        log.warnings.append(
            f"{path}: 'Power' is twice the energy over the time in {rows} rows: the times were mended and the powers "
            "not; powers are not used"
        )
    for path, rows in whole.items():
        if NAME in path.name:
            log.warnings.append(
                f"{path}: by its name its times are invalid, and in {rows} rows energy over time is the processor's "
                "power: these are taken as they are"
            )
    left = {id(t) for timings_of_half in halves.values() for t in timings_of_half} if log.skip_bad else set()
    return [t for t in timings if id(t) not in left]


def _double(path: Path, halved: Sequence[Timing], log: ImportLog) -> None:
    rows = len({t.line for t in halved})
    if log.skip_bad:
        log.leave_out(f"{path}: half of each time in {rows} rows (left out as bad)", len(halved))
        return
    for timing in halved:
        timing.seconds *= 2
        timing.doubled = True
    log.warnings.append(
        f"{path}: the times of {rows} rows are half of what passed, as energy over time is twice the processor's power "
        "or its name says: each is doubled (--skip-bad leaves them out)"
    )


def _power_ratio(timing: Timing) -> float | None:
    """Energy over time over the stated power."""
    if not timing.joules or not timing.power:
        return None
    return timing.joules / timing.seconds / timing.power


def _watts(row: Iterable[Timing]) -> float | None:
    """The median power of a row's columns, from energy and time."""
    powers = [t.joules / t.seconds for t in row if t.joules]
    return statistics.median(powers) if powers else None


def _stated(row: Sequence[Timing]) -> str:
    """What the stated powers say of a row's times: `HALF`, `STALE` (the times are whole, the powers of half of them) or
    nothing."""
    ratios = [r for t in row if (r := _power_ratio(t)) is not None]
    middle = statistics.median(ratios) if ratios else 1.0
    if HALVED[0] < 1 / middle < HALVED[1]:
        return STALE
    return HALF if HALVED[0] < middle < HALVED[1] else ""


def _halved(by_row: Mapping[Row, Sequence[Timing]]) -> set[Row]:
    """The rows whose times are half of what passed."""
    expected = _expected(by_row)
    certain = {row for row, timings in by_row.items() if _stated(timings) == HALF}
    suspects = {row for row, timings in by_row.items() if not _stated(timings) and _takes_twice(timings, expected)}
    whole: dict[tuple[TimingSetting, str], list[float]] = defaultdict(list)
    for row, timings in by_row.items():
        if row not in suspects and row not in certain:
            for t in timings:
                whole[t.setting, t.column].append(t.seconds)
    for row in suspects:
        # A row of much power whose times are as long as those of others was disturbed.
        known = [
            2 * t.seconds / statistics.median(others)
            for t in by_row[row]
            if (others := whole.get((t.setting, t.column)))
        ]
        if not known or statistics.median(known) < LONGER:
            certain.add(row)
    return certain


def _takes_twice(row: Sequence[Timing], expected: Mapping[tuple[str, int], float]) -> bool:
    """Whether energy over time is twice the processor's power, or, where that is not known, the file's name says so."""
    setting = row[0].setting
    if setting.build != PLAIN:
        return False
    watts, known = _watts(row), expected.get((setting.cpu, setting.threads))
    if watts is None or known is None:
        return NAME in row[0].path.name
    return HALVED[0] < watts / known < HALVED[1]


def _expected(by_row: Mapping[Row, Sequence[Timing]]) -> dict[tuple[str, int], float]:
    """(CPU, threads) -> watts: published ones, or else the lower of two clearly separate groups of rows."""
    powers: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row in by_row.values():
        watts = _watts(row)
        if watts is not None and row[0].setting.build == PLAIN:
            powers[row[0].setting.cpu, row[0].setting.threads].append(watts)
    expected = {}
    for (cpu, threads), watts_of_rows in powers.items():
        known = next(
            (table for name, table in WATTS.items() if name.lower() in cpu.lower()),
            None,
        )
        if known is not None:
            expected[cpu, threads] = known[min(known, key=lambda n: abs(math.log(n / threads)))]
        elif (lower := _lower_group(sorted(watts_of_rows))) is not None:
            expected[cpu, threads] = lower
    return expected


def _lower_group(ordered: Sequence[float]) -> float | None:
    """The median of the lower of two groups, the upper one about twice as high; `None` for one group."""
    if len(ordered) < 2:
        return None
    at = max(range(1, len(ordered)), key=lambda i: ordered[i] / ordered[i - 1])
    low, high = statistics.median(ordered[:at]), statistics.median(ordered[at:])
    apart = ordered[at] / ordered[at - 1] > 1.3
    return low if apart and HALVED[0] < high / low < HALVED[1] else None


def once(timings: Iterable[Timing], log: ImportLog) -> list[Timing]:
    """Each run once: what a second file repeats is left out, and one file may not repeat itself.

    Raises: BadTiming: a run twice in one file, or with another time in a second one, unless bad rows are skipped.
    """
    seen: dict[tuple[str, TimingSetting, str], Timing] = {}
    kept, refused = [], set()
    for timing in timings:
        if not timing.when:
            kept.append(timing)
            continue
        first = seen.setdefault((timing.when, timing.setting, timing.column), timing)
        if first is timing:
            kept.append(timing)
        elif first.path == timing.path:
            if timing.where not in refused:
                refused.add(timing.where)
                log.refuse(f"{timing.where}: the run of {timing.when} is in {first.where} already: a duplicated row")
        elif math.isclose(first.seconds, timing.seconds, rel_tol=1e-6):
            log.leave_out(f"{timing.path}: runs that are in {first.path} too")
        else:
            log.refuse(
                f"{timing.where}: '{timing.column}' of the run of {timing.when} takes {timing.seconds:g} s, and "
                f"{first.seconds:g} s in {first.where}"
            )
    return kept


def settled(timings: Sequence[Timing], log: ImportLog) -> list[Timing]:
    """Without the files that others contradict, and at each setting only the best of its timings.

    Whole times go before doubled ones, and runs without performance counters before those with them.
    """
    timings = _uncontradicted(timings, log)
    best: dict[tuple[TimingSetting, str], tuple[bool, bool]] = {}
    for t in timings:
        rank, key = (t.doubled, t.counters), (t.setting, t.column)
        best[key] = min(best.get(key, rank), rank)
    kept = []
    for t in timings:
        rank = best[t.setting, t.column]
        if (t.doubled, t.counters) == rank:
            kept.append(t)
        elif t.doubled and not rank[0]:
            log.leave_out(f"{t.path}: doubled times of what another file has whole")
        else:
            log.leave_out(f"{t.path}: times under performance counters of what another file has without")
    return kept


def _uncontradicted(timings: Sequence[Timing], log: ImportLog) -> list[Timing]:
    by_file: dict[str, dict[Path, dict[TimingSetting, list[Timing]]]] = defaultdict(lambda: defaultdict(dict))
    for t in timings:
        by_file[t.column][t.path].setdefault(t.setting, []).append(t)
    lost: dict[tuple[Path, str], Path] = {}
    for column, files in by_file.items():
        paths = list(files)
        for i, one in enumerate(paths):
            for other in paths[i + 1 :]:
                shared = [s for s in files[one] if s in files[other]]
                apart = [s for s in shared if _factor(files[one][s], files[other][s]) > CONTRADICTION]
                if not shared or 2 * len(apart) <= len(shared):
                    continue
                weaker, stronger = sorted((one, other), key=lambda p: _weight(files[p], shared))
                lost.setdefault((weaker, column), stronger)
    for (path, column), stronger in lost.items():
        mine, theirs = (by_file[column][p] for p in (path, stronger))
        shared = [s for s in mine if s in theirs]
        middles = [statistics.median(_factor(mine[s], theirs[s]) for s in shared)]
        log.warnings.append(
            f"{path}: '{column}' is {middles[0]:.1f} times off {stronger} at {len(shared)} settings; the latter has "
            "more runs and stands"
        )
        log.leave_out(
            f"{path}: '{column}', which {stronger} contradicts with more runs",
            sum(map(len, mine.values())),
        )
    return [t for t in timings if (t.path, t.column) not in lost]


def _weight(of_file: Mapping[TimingSetting, Sequence[Timing]], shared: Sequence[TimingSetting]) -> tuple[int, str]:
    """Runs at shared settings, then the date of the last: the later of two equals stands."""
    shared_timings = [t for s in shared for t in of_file[s]]
    return len(shared_timings), max(t.when for t in shared_timings)


def _factor(one: Sequence[Timing], other: Sequence[Timing]) -> float:
    a, b = (statistics.median(t.seconds for t in timings) for timings in (one, other))
    return max(a, b) / min(a, b)
