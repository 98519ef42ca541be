"""Results of the fhe-benchmarking suite (HomomorphicEncryption.org), both ways.

Its harness writes one JSON file a run. Two forms are in its repositories: `Timing`, `Bandwidth` and `Server Reported`
(fetch-by-similarity), and `per_stage` and `bandwidth` (ml-inference), with times such as "3.851s" and sizes such as
"2.4G", which are powers of 1024. Source: github.com/fhe-benchmarking/fetch-by-similarity, harness/utils.py and
measurements/, commit b3170ab of 2026-04-09; ml-inference, harness/utils.py, commit c1395f2 of 2025-08-19.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from itertools import accumulate

from penstock.base.types import Row, Rows, RowView
from penstock.errors import UsageError
from penstock.scheme.traces.schema import Trace
from penstock.scheme.unpriced import added, counted, reason

_TIME = re.compile(r"(\d+(?:\.\d+)?(?:e-?\d+)?)s")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([BKMGTP])")
_PREFIXES = "BKMGTP"
TOTAL, KEYS = "Total", "Public and evaluation keys"
LONGEST = 40
"""Characters of a size."""


def parse_time(text: object) -> float:
    """Seconds.

    >>> parse_time("76.1026s")
    76.1026
    """
    match = _TIME.fullmatch(text) if isinstance(text, str) else None
    if match is None or not math.isfinite(float(match[1])):
        raise UsageError(
            f"'{str(text)[:LONGEST]}' is not a time of the fhe-benchmarking suite; it writes seconds: '3.851s'"
        )
    return float(match[1])


def parse_size(text: object) -> int:
    """Bytes, to the digit that the suite prints.

    >>> parse_size("24.0M")
    25165824
    """
    match = _SIZE.fullmatch(text) if isinstance(text, str) and len(text) <= LONGEST else None
    if match is None:
        raise UsageError(
            f"'{str(text)[:LONGEST]}' is not a size of the fhe-benchmarking suite; it writes powers of 1024: '2.4G'"
        )
    return round(float(match[1]) * 1024 ** _PREFIXES.index(match[2]))


def format_size(num_bytes: int) -> str:
    """A size as the suite prints it.

    >>> format_size(25165824)
    '24.0M'
    """
    value, prefix = float(num_bytes), 0
    while value >= 1024 and prefix < len(_PREFIXES) - 1:
        value, prefix = value / 1024, prefix + 1
    return f"{value:.1f}{_PREFIXES[prefix]}"


def is_result(data: object) -> bool:
    """Whether parsed JSON is a result of the suite, in either form."""
    return isinstance(data, dict) and (isinstance(data.get("Timing"), dict) or isinstance(data.get("per_stage"), dict))


def rows_of(data: RowView) -> Rows:
    """`{"quantity", "name", "value", "unit", "where"}` of each time and size; `where` is `harness` or `server`.

    A total is a row too. Raises: UsageError: it is not a result of the suite, or a value cannot be read.
    """
    if not is_result(data):
        raise UsageError("no result of the fhe-benchmarking suite: it has neither 'Timing' nor 'per_stage'")
    rows = []
    for section, where in (("Timing", "harness"), ("per_stage", "harness"), ("Server Reported", "server")):
        for name, text in _entries(data, section).items():
            rows.append({"quantity": "time", "name": name, "value": parse_time(text), "unit": "s", "where": where})
    for section in ("Bandwidth", "bandwidth"):
        for name, text in _entries(data, section).items():
            size = parse_size(text)
            rows.append({"quantity": "size", "name": name, "value": float(size), "unit": "B", "where": "harness"})
    return rows


def _entries(data: RowView, section: str) -> Row:
    entries = data.get(section) or {}
    if not isinstance(entries, dict):
        raise UsageError(f"'{section}' of the fhe-benchmarking result is not an object of names and values")
    return entries


def result_of(trace: Trace) -> tuple[bytes, list[str]]:
    """A measured trace as one result file of the suite, with its names of steps, and sentences about its gaps.

    Times are those in which calls of each step were under way, once where they ran side by side: encryption, the
    server's operations, decryption. A step that the trace does not have is left out, and a time below the last digit
    that the suite prints keeps its own digits. Sizes are coefficients without headers: evaluation keys of the program
    as stored, ciphertexts that were encrypted and decrypted. A time or a size that misses a part is left out.
    Raises: UsageError: the trace has no times.
    """
    timing: dict[str, list[tuple[float, float]]] = {}
    untimed: dict[str, Counter[str]] = {}
    names = ("Query encryption", "Encrypted computation", "Result decryption and postprocessing")
    step = {"encrypt": names[0], "decrypt": names[2]}
    size = {row["id"]: row["bytes"] for row in trace.objects.to_pylist()}
    sent = {"Encrypted query": 0, "Encrypted results": 0}
    for op in trace.view(composites=True).operations.to_pylist():
        if op["kind"] == "encrypt" and op["output"] is not None:
            sent["Encrypted query"] += size[op["output"]]
        elif op["kind"] == "decrypt":
            sent["Encrypted results"] += sum(size[i] for i in op["operands"])
        name = step.get(op["kind"], names[1])
        if op["start_s"] is None:
            untimed.setdefault(name, Counter())[op["kind"]] += 1
        else:
            timing.setdefault(name, []).append((op["start_s"], op["end_s"]))
    if trace.meta.left_out:
        untimed.setdefault(names[1], Counter()).update(trace.meta.left_out)
    if not timing:
        raise UsageError("this trace has no times: a result is of a measured run; record one with --reading openfhe")
    shown = {name: _shown_time(_covered_s(timing[name])) for name in names if name in timing and name not in untimed}
    notes = []
    if untimed:
        gone = ", ".join(f"'{name}'" for name in (*(name for name in names if name in untimed), TOTAL))
        notes.append(f"{reason(added(untimed.values()), 'time')}: the result has no {gone}")
    else:
        shown[TOTAL] = _shown_time(_covered_s([span for spans in timing.values() for span in spans]))
    sizes = sent
    if whole := trace.whole_composites():
        notes.append(f"nobody knows the keys inside {counted(whole)}: the result has no '{KEYS}'")
    else:
        sizes = {KEYS: trace.parameters().total_key_bytes(trace.view().key_limbs()), **sent}
    result = {
        "Timing": shown,
        "Bandwidth": {name: format_size(value) for name, value in sizes.items()},
        "Server Reported": {},
    }
    return (json.dumps(result, indent=2) + "\n").encode(), notes


def _covered_s(spans: list[tuple[float, float]]) -> float:
    """Seconds in which at least one of them goes on.

    >>> _covered_s([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    ordered = sorted(spans)
    before_s = accumulate((end for _, end in ordered), max, initial=0.0)
    return math.fsum(max(0.0, end - max(start, s)) for (start, end), s in zip(ordered, before_s, strict=False))


def _shown_time(seconds: float) -> str:
    return f"{round(seconds, 4) or seconds}s"
