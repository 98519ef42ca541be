"""Timings from the rows of CryptOracle's CSV files."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.base.system.files import os_errors
from penstock.errors import PenstockError, UsageError
from penstock.lab.prediction.importers.rows import (
    BadTiming,
    ImportLog,
    energy_joules,
    number,
    positive_seconds,
)
from penstock_studies.importers import columns
from penstock_studies.importers.settings import TimingSetting, settings_of

_UNIT_FACTOR = 30.0
"""Power is energy over time; further off than this, one of them is in another unit."""
_NO_NUMBER = ("", "N/A", "NaN", "nan")


@dataclass(slots=True)
class Timing:
    """One cell of times."""

    path: Path
    line: int
    when: str
    """Empty where the file does not say."""
    counters: bool
    """Whether performance counters were read besides."""
    column: str
    setting: TimingSetting
    seconds: float
    joules: float | None
    power: float | None
    """In watts, as the file states it."""
    doubled: bool = False
    """Whether `seconds` are twice those of the file."""

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


def csv_files(path: Path, log: ImportLog) -> list[Path]:
    """CryptOracle's CSV files at `path`; in a folder others are left out.

    Raises: UsageError: the folder holds none.
    """
    if not path.is_dir():
        return [path]
    files = []
    for file in sorted(filter(Path.is_file, path.rglob("*.csv"))):
        with (
            os_errors(file, "read"),
            file.open(encoding="utf-8-sig", errors="replace") as opened,
        ):
            first = opened.readline(1 << 20)
        kind = columns.kind_of(first)
        if kind == "timings" or not first.strip():
            files.append(file)
        elif kind is None:
            log.leave_out("a CSV file in the folder that is not CryptOracle's")
        else:
            log.leave_out(f"a CSV file of CryptOracle's with {kind}, and no timings")
    if not files:
        raise UsageError(f"{path} holds no CSV file of CryptOracle's (with columns n, depth, num_threads)")
    return files


def read(path: Path, text: str, log: ImportLog) -> Iterator[Timing]:
    """The timings of one file.

    Raises: BadTiming: a header, or a row that is not skipped, that no run has.
    """
    rows = csv.reader(text.splitlines())
    header = columns.header_of(path, next(rows, []), log)
    number_of_line = 1
    kept: list[tuple[int, Sequence[str]]] = []
    try:
        for row in rows:
            number_of_line = rows.line_num
            if not row:
                continue
            if len(row) == len(header.names):
                kept.append((number_of_line, row))
            else:
                log.refuse(
                    f"{path}:{number_of_line}: {len(row)} values in {len(header.names)} columns: the row is cut off "
                    "or has a comma too many"
                )
    except csv.Error as error:
        raise BadTiming(f"{path}:{number_of_line + 1}: not CSV ({error}); the file is damaged") from error
    if number_of_line == 1:
        raise BadTiming(f"{path}: no row behind the header: it holds no timings; measure again, or name another file")
    timed = _timed(path, header, [row for _, row in kept], log)
    for line, cells in kept:
        yield from _timings(path, line, cells, header, timed, log)


def _timed(path: Path, header: columns.TimingsHeader, rows: Sequence[Sequence[str]], log: ImportLog) -> list[str]:
    """The columns with a time in some row; the others are named once."""
    timed = []
    for item in header.items:
        if item in columns.LEFT_OUT:
            log.leave_out(columns.LEFT_OUT[item], len(rows))
        elif not rows or any(_is_time(row[header.at[f"{item} Time"]]) for row in rows):
            timed.append(item)
        else:
            log.leave_out(f"{path}: no row of column '{item} Time' has a time", len(rows))
    return timed


def _is_time(text: str) -> bool:
    try:
        return positive_seconds(text, "") > 0
    except ValueError:
        return text.strip() not in _NO_NUMBER and not _is_number(text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _timings(
    path: Path,
    line: int,
    row: Sequence[str],
    header: columns.TimingsHeader,
    timed: Sequence[str],
    log: ImportLog,
) -> Iterator[Timing]:
    where = f"{path}:{line}"
    try:
        settings = settings_of(row, header)
        for item in timed:
            settings[item].params()
    except (ValueError, PenstockError) as error:
        log.refuse(f"{where}: {error}")
        return
    stamp = row[header.at[columns.WHEN]] if columns.WHEN in header.at else ""
    counters = columns.COUNTERS in header.at and row[header.at[columns.COUNTERS]].strip() == "True"
    for item in timed:
        try:
            seconds, joules, power = _cells(item, row, header)
        except ValueError as error:
            log.refuse(f"{where}: {error}")
            continue
        yield Timing(path, line, stamp, counters, item, settings[item], seconds, joules, power)


def _cells(item: str, row: Sequence[str], header: columns.TimingsHeader) -> tuple[float, float | None, float | None]:
    """Seconds of a call, joules, and the stated watts; 0 J, below the counter's resolution, is known to be little."""

    def cell(event: str) -> str | None:
        index = header.at.get(f"{item} {event}")
        return None if index is None else row[index]

    seconds = positive_seconds(cell("Time"), f"'{item} Time'")
    joules = energy_joules(cell("Energy"), f"'{item} Energy'")
    try:
        power: float | None = number(cell("Power"), "", "")
    except ValueError:
        power = None
    if joules and power and power > 0:
        factor = joules / seconds / power
        if not 1 / _UNIT_FACTOR < factor < _UNIT_FACTOR:
            raise ValueError(
                f"'{item}': {joules:g} J in {seconds:g} s are {joules / seconds:.3g} W, and '{item} Power' says "
                f"{power:.3g} W: a column is in another unit; times are in seconds, energies in joules, powers in watts"
            )
    return (
        seconds,
        joules,
        power if power and math.isfinite(power) and power > 0 else None,
    )
