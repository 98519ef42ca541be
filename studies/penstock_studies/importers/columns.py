"""The names of CryptOracle's columns, and the kinds of files that its artifact holds."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import UnknownName
from penstock.lab.prediction.importers.calls import CRYPTORACLE_CALLS
from penstock.lab.prediction.importers.rows import BadTiming, ImportLog

CALLS = CRYPTORACLE_CALLS
_NOTHING = "under FLEXIBLEAUTO this call of OpenFHE does nothing here: the column is the difference of two longer times"
_NO_PRIMITIVE = "no primitive of penstock does what the call does"
LEFT_OUT: dict[str, str] = {
    "CKKS_ModReduce": _NOTHING, "CKKS_LevelReduce": _NOTHING, "CKKS_Relin": _NOTHING, "CKKS_Rescale": _NOTHING,
    "CKKS_Add_Many": _NO_PRIMITIVE, "CKKS_KeyGeneration": _NO_PRIMITIVE, "CKKS_MultKeyGeneration": _NO_PRIMITIVE,
    "CKKS_BootstrappingKeyGeneration": _NO_PRIMITIVE, "CKKS_GenerateContext": _NO_PRIMITIVE,
    "CKKS_EvalBootstrapSetup": _NO_PRIMITIVE,
}  # fmt: skip
"""Columns that give no measurement, and why."""

APPLICATIONS: dict[str, tuple[str, str]] = {
    "matrix_multiplication": ("micro", "cryptoracle-matrix-multiplication"),
    "logistic_function": ("micro", "cryptoracle-logistic-function"),
    "sign_eval": ("micro", "cryptoracle-sign-evaluation"), "cifar10": ("workloads", "cryptoracle-cifar10"),
    "low_memory_resnet20": ("workloads", "cryptoracle-resnet20"),
    "logistic_regression": ("workloads", "cryptoracle-logistic-regression"),
    "chi_square_test": ("workloads", "cryptoracle-chi-square"),
}  # fmt: skip
"""Column -> group and workload."""

CONFIGURATION = ("security_standard_level", "n", "batch_size", "depth", "num_threads")
CPU, WHEN, CORES = "CPU Model Name", "Date and Time of Benchmark", "CPU Cores"
ORDER, HEXL, COUNTERS, CACHING = (
    "matrix_size",
    "hexl",
    "runtime_analysis",
    "cold_caching",
)
ABOUT = {
    WHEN,
    "CPU Vendor",
    CPU,
    "CPU Architecture",
    CORES,
    "CPU Max MHz",
    "CPU Min MHz",
    "L1d Cache Size",
    "L1i Cache Size",
    "L2 Cache Size",
    "L3 Cache Size",
    "Total DRAM Size",
    *CONFIGURATION,
    "power_latency_analysis",
    COUNTERS,
    "event_profiling",
    "flamegraph_generation",
    "build",
    "compiler_optimizations",
    CACHING,
    ORDER,
    HEXL,
}
_READ = {*CONFIGURATION, CPU, WHEN, CORES, ORDER, HEXL, CACHING}
"""Columns about a run whose content counts."""
_OF_ITEM = re.compile(r"^(\S+) (\S.*)$")
PREDICTIONS = "predictions by its own model"
BREAKDOWN = "samples by function"


@dataclass(frozen=True, slots=True)
class TimingsHeader:
    """The first line of a file of timings."""

    names: tuple[str, ...]
    items: tuple[str, ...]
    """Primitives and applications; each has a column of times."""
    at: dict[str, int]
    """Column -> its index."""


def kind_of(line: str) -> str | None:
    """`timings`, `PREDICTIONS` or `BREAKDOWN` for the first line of a CSV file of the artifact; `None` for another."""
    try:
        names = set(next(csv.reader([line]), []))
    except csv.Error:  # a NUL byte, a field without end
        return None
    if {"Function", "Sample Count"} <= names:
        return BREAKDOWN
    if not {"n", "depth", "num_threads"} <= names:
        return None
    return PREDICTIONS if any(name.startswith("estimated_") for name in names) else "timings"


def header_of(path: Path, names: Sequence[str], log: ImportLog) -> TimingsHeader:
    """The columns of a file.

    Raises: BadTiming: one is missing or there twice, or a unit is another than ours; UnknownName.
    """
    events_of: dict[str, list[str]] = {}
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    for name in twice:
        if name not in ABOUT or name in _READ:
            raise BadTiming(f"{path}:1: column '{name}' is there twice; keep one")
        log.warnings.append(f"{path}:1: column '{name}' is there twice; the last one stands")
    missing = [name for name in (*CONFIGURATION, CPU) if name not in names]
    if missing:
        raise BadTiming(f"{path}:1: column '{missing[0]}' is missing, so that no row says what was timed")
    items = {*CALLS, *APPLICATIONS, *LEFT_OUT}
    for name in names:
        if name in ABOUT:
            continue
        parts = _OF_ITEM.match(name)
        if parts is None or parts.group(1) not in items:
            raise BadTiming(f"{path}:1: {UnknownName('column', name, _known_columns(name, items))}")
        events_of.setdefault(parts.group(1), []).append(parts.group(2))
    for item, events in events_of.items():
        _check_units(path, item, events)
    if not events_of:
        raise BadTiming(f"{path}:1: no column has times ('CKKS_Add Time', 'sign_eval Time')")
    return TimingsHeader(tuple(names), tuple(events_of), {name: index for index, name in enumerate(names)})


def _check_units(path: Path, item: str, events: Sequence[str]) -> None:
    for event in events:
        word = event.split()[0].lower()
        if event not in ("Time", "Energy", "Power") and re.match(r"(time|energy|power)($|[^a-z])", word):
            raise BadTiming(
                f"{path}:1: column '{item} {event}': times are in seconds, energies in joules, powers in watts, in "
                f"columns '{item} Time', '{item} Energy' and '{item} Power'; convert it, and name it so"
            )
    if "Time" not in events:
        raise BadTiming(f"{path}:1: '{item}' has no column '{item} Time', so that it was not timed; drop its others")


def _known_columns(name: str, items: Iterable[str]) -> list[str]:
    """The columns that an unknown name could mean."""
    event = name.partition(" ")[2]
    return [f"{item} {event}" for item in items] if event in ("Time", "Energy", "Power") else [*ABOUT, *items]
