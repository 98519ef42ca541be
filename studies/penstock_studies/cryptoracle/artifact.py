"""What CryptOracle's artifact holds besides timings: samples by function, performance counters, and the predictions of
its own model, with the operation counts inside them.

The counts of figure 11's two matrix products are printed nowhere. Each file has the cost of one call and the
contribution of all calls, so that their quotient is the count.
"""

from __future__ import annotations

import csv
import io
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.lab.prediction.importers import BadTiming, ImportLog
from penstock.lab.prediction.importers.rows import number, read_text, whole
from penstock_studies.importers.columns import BREAKDOWN, CALLS, COUNTERS, PREDICTIONS, kind_of

PROGRAM_OF: Mapping[str, str] = {
    "matmul": "matrix-multiplication", "matrix_multiplication": "matrix-multiplication",
    "logistic_function": "logistic-function", "logistic": "logistic-function", "sign_eval": "sign-evaluation",
    "sign_evaluation": "sign-evaluation", "cifar10": "cnn", "chi_square_test": "chi-square",
    "chi_square": "chi-square", "logistic_regression": "logistic-regression", "logreg": "logistic-regression",
    "low_memory_resnet20": "resnet20", "resnet": "resnet20", "resnet20": "resnet20",
}  # fmt: skip
"""Name of a file of samples -> program."""
_FIGURE11 = re.compile(r"(amd|intel).*_(runtime|energy|time)_.*?(new|original)_algo", re.IGNORECASE)
ALGORITHMS = {"new": "algorithm-5", "original": "rectangular-mm"}
"""In file names -> in the paper's caption of figure 11."""
_EVENT_OF_ITEM = re.compile(r"^(CKKS_\w+) (?!Time$|Energy$|Power$)(\S.*)$")
EVENT_ITEMS = ("CKKS_Add", "CKKS_Add_Plaintext", "CKKS_Mult", "CKKS_Mult_Plaintext", "CKKS_Rotate")
"""Primitives of figure 6."""
_WHOLE_COUNT = 1e-3
"""How far a contribution over a unit cost may be from a whole number, relative to the count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedEstimate:
    """One line of a file of predictions by the paper's own model."""

    algorithm: str
    vendor: str
    quantity: str
    """`runtime` or `energy`."""
    log_n: int
    depth: int
    threads: int
    counts: Mapping[str, int]
    """Column of a primitive -> calls: contribution over the cost of one."""
    value: float
    """Seconds or joules, as the file states."""
    source: str


def breakdowns(folder: Path, log: ImportLog) -> dict[str, dict[str, float]]:
    """Program -> function of the library -> its share of the samples in all of them.

    Raises: BadTiming: a row without a count, unless bad rows are skipped.
    """
    shares: dict[str, dict[str, float]] = {}
    for path in _files(folder, BREAKDOWN):
        program = PROGRAM_OF.get(path.stem.lower())
        if program is None:
            log.leave_out(f"{path}: samples of a program that the paper does not have")
            continue
        samples: dict[str, float] = {}
        for where, row in _rows(path):
            try:
                samples[row["Function"]] = number(row.get("Sample Count"), "the sample count", "samples")
            except (ValueError, KeyError) as error:
                log.refuse(f"{where}: {error}")
        total = math.fsum(samples.values())
        if total > 0:
            shares[program] = {name: count / total for name, count in samples.items() if count > 0}
    return shares


def estimates(folder: Path, log: ImportLog) -> list[PublishedEstimate]:
    """The two matrix products of figure 11, as the paper's model prices them.

    Raises: BadTiming: a contribution that is not a whole number of calls, or a row that is cut off, unless bad rows are
            skipped.
    """
    estimated = []
    for path in _files(folder, PREDICTIONS):
        named = _FIGURE11.search(path.name)
        if named is None:
            continue
        vendor, quantity, which = (part.lower() for part in named.groups())
        for where, row in _rows(path):
            try:
                estimated.append(_estimate(row, vendor, "energy" if quantity == "energy" else "runtime", which, where))
            except (ValueError, KeyError) as error:
                log.refuse(f"{where}: {error}")
    return estimated


def _estimate(row: Mapping[str, str], vendor: str, quantity: str, which: str, where: str) -> PublishedEstimate:
    counts = {}
    for column in row:
        if column not in CALLS:
            continue
        cost = number(row[column], f"'{column}'", "the cost of one call")
        part = number(row.get(f"{column}_contribution"), f"'{column}_contribution'", "calls times their cost")
        calls = part / cost
        if abs(calls - round(calls)) > _WHOLE_COUNT * max(calls, 1):
            raise ValueError(f"'{column}_contribution' is {calls:.4g} times '{column}'; it is a whole number of calls")
        counts[column] = round(calls)
    stated = next(name for name in row if name.startswith("estimated_"))
    return PublishedEstimate(
        algorithm=ALGORITHMS[which],
        vendor=vendor,
        quantity=quantity,
        log_n=whole(row["n"], "n, log2 of the ring dimension,", 10, 17),
        depth=whole(row["depth"], "depth", 1, 200),
        threads=whole(row["num_threads"], "num_threads", 1, 4096),
        counts=counts,
        value=number(row[stated], f"'{stated}'", "seconds or joules"),
        source=where,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCount:
    """The median of a performance counter in one call."""

    item: str
    event: str
    log_n: int
    depth: int
    threads: int
    value: float
    runs: int


def event_counts(folder: Path, log_n: int, depth: int) -> list[EventCount]:
    """The counters of figure 6's primitives, at the configuration asked for, or at the nearest one in the data.

    A counter that was not read is `NaN` in the files, and left out.
    """
    events: dict[tuple[str, str, int, int, int], list[float]] = defaultdict(list)
    for path in _files(folder, "timings"):
        for _, row in _rows(path):
            if row.get(COUNTERS) != "True" or row.get("security_standard_level") != "none":
                continue
            for column, text in row.items():
                named = _EVENT_OF_ITEM.match(column or "")
                if named is None or named.group(1) not in EVENT_ITEMS:
                    continue
                try:
                    value = number(text, "", "")
                    n, d, t = (int(row[name]) for name in ("n", "depth", "num_threads"))
                except ValueError:
                    continue
                events[named.group(1), named.group(2), n, d, t].append(value)
    places = {(n, d) for _, _, n, d, _ in events}
    if not places:
        return []
    nearest = min(places, key=lambda place: (abs(place[0] - log_n), abs(place[1] - depth), place))
    return [
        EventCount(
            item=item, event=event, log_n=n, depth=d, threads=t, value=statistics.median(values), runs=len(values)
        )
        for (item, event, n, d, t), values in sorted(events.items())
        if (n, d) == nearest
    ]


def _files(folder: Path, kind: str) -> Iterator[Path]:
    for path in sorted(folder.rglob("*.csv")) if folder.is_dir() else [folder]:
        with path.open(encoding="utf-8-sig", errors="replace") as opened:
            if kind_of(opened.readline(1 << 20)) == kind:
                yield path


def _rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """(file and row, cells). Raises: BadTiming: not CSV, or a line that is cut off."""
    reader = csv.DictReader(io.StringIO(read_text(path)), restval="")
    try:
        for row in reader:
            if None in row:
                raise BadTiming(f"{path}:{reader.line_num}: more cells than the header names columns")
            yield f"{path}:{reader.line_num}", row
    except csv.Error as error:
        raise BadTiming(f"{path}:{reader.line_num + 1}: not CSV ({error}); the file is damaged") from error


def count_table(estimated: Iterable[PublishedEstimate]) -> dict[str, Mapping[str, int]]:
    """Algorithm -> its counts, which no line may contradict.

    Raises: BadTiming: two lines of one algorithm have other counts.
    """
    table: dict[str, Mapping[str, int]] = {}
    for estimate in estimated:
        known = table.setdefault(estimate.algorithm, estimate.counts)
        if known != estimate.counts:
            raise BadTiming(
                f"{estimate.source}: {estimate.algorithm} calls {dict(estimate.counts)}, and {dict(known)} elsewhere"
            )
    return table
