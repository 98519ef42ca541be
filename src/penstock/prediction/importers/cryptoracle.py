"""CryptOracle's results: CSV files, or a folder of them that the user names.

A row is one run of many primitives, or of the applications, at one configuration; repeats of a configuration become one
measurement. Its context is FLEXIBLEAUTO with a 52-bit first prime, 48-bit scaling and two large digits; ciphertexts are
fresh, so that every primitive works on all limbs.
Source: Brynds et al., "CryptOracle" (ISPASS 2026), github.com/UnaryLab/CryptOracle: `src/performance_utils.py` for the
columns, `benchmarks/ckks-primitives-serialized/ckks-primitives.cpp` for the calls behind each column,
`util/cryptocontext-generator/file_generator.cpp` for the parameters.
"""

from __future__ import annotations

import csv
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from penstock.errors import PenstockError, UnknownName, UsageError
from penstock.fit.measurements import Measurement, primitive_shape
from penstock.measure.bench.catalogue import PRIMITIVES
from penstock.operations import TRAITS
from penstock.params import security
from penstock.params.ckks import CkksParameters, Scaling
from penstock.params.spec import MAX_RING_DIM, MIN_RING_DIM, CkksSpec
from penstock.prediction.importers.rows import (
    BadTiming,
    ImportLog,
    Origin,
    energy_joules,
    positive_seconds,
    read_text,
    spread,
    whole,
)
from penstock.system.files import os_errors

CALLS: dict[str, tuple[str, int | None]] = {
    "CKKS_Add": ("add", None), "CKKS_Add_Plaintext": ("add_plain", None), "CKKS_Sub": ("sub", None),
    "CKKS_Sub_Scalar": ("sub_scalar", None), "CKKS_Mult": ("mult", None), "CKKS_MultNoRelin": ("mult_no_relin", None),
    "CKKS_Mult_Plaintext": ("mult_plain", None), "CKKS_Mult_Scalar": ("mult_scalar", None),
    "CKKS_Square": ("square", None), "CKKS_Rotate": ("rotate", None),
    "CKKS_Fast_Rotate_Precompute": ("decompose", None), "CKKS_Fast_Rotate": ("rotate_hoisted", None),
    "CKKS_Encryption": ("encrypt", None), "CKKS_Decryption": ("decrypt", None),
    "CKKS_Chebyshev_Series": ("chebyshev_series", 57), "CKKS_Chebyshev_Function": ("chebyshev_function", 59),
    "CKKS_Logistic": ("chebyshev_function", 59), "CKKS_Bootstrap": ("bootstrap", None),
}  # fmt: skip
"""Column -> our primitive, and the degree of the series that it evaluates."""

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
    "matrix_multiplication": ("micro", "matrix-multiplication"), "logistic_function": ("micro", "logistic-function"),
    "sign_eval": ("micro", "sign-evaluation"), "cifar10": ("workloads", "cnn"),
    "low_memory_resnet20": ("workloads", "resnet20"), "logistic_regression": ("workloads", "logistic-regression"),
    "chi_square_test": ("workloads", "chi-square"),
}  # fmt: skip
"""Column -> group and the workload that computes the same. CryptOracle's programs are others than ours, so that a
measurement of one names no size of ours."""

LEVELS = {"none": 0, "128c": 128, "192c": 192, "256c": 256}
BOOTSTRAP_DEPTH = 16
"""Levels that a context with bootstrapping keys has besides `depth`: 8, and 4 for each of the two transforms."""

_CONFIGURATION = ("security_standard_level", "n", "batch_size", "depth", "num_threads")
_CPU, _WHEN, _CORES = "CPU Model Name", "Date and Time of Benchmark", "CPU Cores"
_ABOUT = {
    _WHEN,
    "CPU Vendor",
    _CPU,
    "CPU Architecture",
    _CORES,
    "CPU Max MHz",
    "CPU Min MHz",
    "L1d Cache Size",
    "L1i Cache Size",
    "L2 Cache Size",
    "L3 Cache Size",
    "Total DRAM Size",
    *_CONFIGURATION,
    "power_latency_analysis",
    "runtime_analysis",
    "event_profiling",
    "flamegraph_generation",
    "build",
    "compiler_optimizations",
    "cold_caching",
    "matrix_size",
}
_OF_ITEM = re.compile(r"^(\S+) (\S.*)$")
_UNIT_FACTOR = 30.0
"""Power is energy over time; further off than this, one of them is in another unit."""


class _Configuration(NamedTuple):
    """What makes rows repeats of each other."""

    cpu: str
    level: int
    log_n: int
    log_slots: int
    depth: int
    bootstraps: bool
    threads: int
    condition: str


@dataclass(slots=True)
class _Repeats:
    """The timings of one column at one configuration."""

    seconds: list[float]
    joules: list[float]
    source: str


def is_header(line: str) -> bool:
    """Whether a CSV file that begins with this line is CryptOracle's."""
    try:
        return {"n", "depth", "num_threads"} <= set(next(csv.reader([line]), []))
    except csv.Error:  # a NUL byte, a field without end
        return False


def load(path: Path, log: ImportLog, *, cpu: str | None = None) -> list[Measurement]:
    """The measurements of a CSV file, or of all below a folder.

    Args:   cpu: a part of the CPU's name, where the files are of several.
    Raises: BadTiming: a row or a file that cannot be used; UsageError: several CPUs, or no timings at all.
    """
    return load_texts([(file, read_text(file)) for file in csv_files(path, log)], log, cpu=cpu)


def csv_files(path: Path, log: ImportLog) -> list[Path]:
    """CryptOracle's CSV files at `path`; in a folder others are left out."""
    if not path.is_dir():
        return [path]
    files = []
    for file in sorted(each for each in path.rglob("*.csv") if each.is_file()):
        with os_errors(file, "read"), file.open(encoding="utf-8-sig", errors="replace") as opened:
            first = opened.readline(1 << 20)
        if is_header(first) or not first.strip():
            files.append(file)
        else:
            log.leave_out("a CSV file in the folder that is not CryptOracle's")
    if not files:
        raise UsageError(f"{path} holds no CSV file of CryptOracle's (with columns n, depth, num_threads)")
    return files


def load_texts(texts: Iterable[tuple[Path, str]], log: ImportLog, *, cpu: str | None = None) -> list[Measurement]:
    """As `load`, of files that are read already."""
    groups: dict[tuple[_Configuration, str], _Repeats] = {}
    seen: dict[tuple[Any, ...], str] = {}
    cpus: set[str] = set()
    files: list[str] = []
    for path, text in texts:
        files.append(str(path))
        _read(path, text, log, cpu, groups, seen, cpus)
    chosen = {configuration.cpu for configuration, _ in groups}
    if len(chosen) > 1:
        raise UsageError(
            f"the files are of {len(chosen)} CPUs ({'; '.join(sorted(chosen))}), and a machine is one: choose with "
            "--cpu NAME, or name the files of one"
        )
    if not chosen and cpu is not None and cpus:
        raise UsageError(f"--cpu {cpu!r}: the files are of {'; '.join(sorted(cpus))}; give a part of that name")
    for name in chosen:  # one
        log.origins[files[0]] = Origin(cpu=name)
    found = []
    for (configuration, column), repeats in groups.items():
        try:
            found.append(_measurement(configuration, column, repeats))
        except PenstockError as error:
            log.refuse(f"{repeats.source}: {error}")
    return found


def _read(
    path: Path,
    text: str,
    log: ImportLog,
    cpu: str | None,
    groups: dict[tuple[_Configuration, str], _Repeats],
    seen: dict[tuple[Any, ...], str],
    cpus: set[str],
) -> None:
    """Adds the rows of one file to `groups`."""
    rows = csv.reader(text.splitlines())
    header = next(rows, [])
    items, at = _columns(path, header), {name: index for index, name in enumerate(header)}
    columns = [item for item in items if item not in LEFT_OUT]
    number = 1
    try:
        for row in rows:
            number = rows.line_num
            if not row:
                continue
            where = f"{path}:{number}"
            try:
                if len(row) != len(header):
                    raise ValueError(
                        f"{len(row)} values in {len(header)} columns: the row is cut off or has a comma too many"
                    )
                configuration = _configuration(row, at)
                parameters(*configuration[1:6])
            except (ValueError, PenstockError) as error:
                log.refuse(f"{where}: {error}")
                continue
            cpus.add(configuration.cpu)
            if cpu is not None and cpu.lower() not in configuration.cpu.lower():
                log.leave_out("of another CPU than the one that was asked for", len(columns))
                continue
            same = seen.setdefault((row[at[_WHEN]] if _WHEN in at else where, *configuration, *columns), where)
            if same != where:
                log.refuse(f"{where}: the run of {row[at[_WHEN]]} is in {same} already: a duplicated row")
                continue
            for item in items:
                if item in LEFT_OUT:
                    log.leave_out(LEFT_OUT[item])
            for column in columns:
                try:
                    seconds, joules = _timing(column, row, at)
                except ValueError as error:
                    log.refuse(f"{where}: {error}")
                    continue
                repeats = groups.setdefault((configuration, column), _Repeats([], [], where))
                repeats.seconds.append(seconds)
                if joules is not None:
                    repeats.joules.append(joules)
    except csv.Error as error:
        raise BadTiming(f"{path}:{number + 1}: not CSV ({error}); the file is damaged") from error
    if number == 1:
        raise BadTiming(f"{path}: no row behind the header: it holds no timings; measure again, or name another file")


def _columns(path: Path, header: Sequence[str]) -> list[str]:
    """The primitives and applications of a file; each has a time."""
    found: dict[str, list[str]] = {}
    twice = sorted(name for name, times in Counter(header).items() if times > 1)
    if twice:
        raise BadTiming(f"{path}:1: column '{twice[0]}' is there twice; keep one")
    missing = [name for name in (*_CONFIGURATION, _CPU) if name not in header]
    if missing:
        raise BadTiming(f"{path}:1: column '{missing[0]}' is missing, so that no row says what was timed")
    items = {*CALLS, *APPLICATIONS, *LEFT_OUT}
    for name in header:
        if name in _ABOUT:
            continue
        parts = _OF_ITEM.match(name)
        if parts is None or parts.group(1) not in items:
            raise BadTiming(f"{path}:1: {UnknownName('column', name, _known_columns(name, items))}")
        found.setdefault(parts.group(1), []).append(parts.group(2))
    for item, events in found.items():
        for event in events:
            word = event.split()[0].lower()
            if event not in ("Time", "Energy", "Power") and re.match(r"(time|energy|power)($|[^a-z])", word):
                raise BadTiming(
                    f"{path}:1: column '{item} {event}': times are in seconds, energies in joules, powers in watts, in "
                    f"columns '{item} Time', '{item} Energy' and '{item} Power'; convert it, and name it so"
                )
        if "Time" not in events:
            raise BadTiming(
                f"{path}:1: '{item}' has no column '{item} Time', so that it was not timed; drop its others"
            )
    if not found:
        raise BadTiming(f"{path}:1: no column has times ('CKKS_Add Time', 'sign_eval Time')")
    return list(found)


def _known_columns(name: str, items: Iterable[str]) -> list[str]:
    """The columns that an unknown name could mean."""
    event = name.partition(" ")[2]
    return [f"{item} {event}" for item in items] if event in ("Time", "Energy", "Power") else [*_ABOUT, *items]


def _configuration(row: Sequence[str], at: dict[str, int]) -> _Configuration:
    level = row[at["security_standard_level"]]
    if level not in LEVELS:
        raise ValueError(f"security_standard_level is {level!r}; known: {', '.join(LEVELS)}")
    least, most = MIN_RING_DIM.bit_length() - 1, MAX_RING_DIM.bit_length() - 1
    log_n = whole(row[at["n"]], "n, log2 of the ring dimension,", least, most)
    threads = whole(row[at["num_threads"]], "num_threads", 0, 4096)
    if threads == 0:  # all of them
        threads = whole(row[at[_CORES]] if _CORES in at else None, f"'{_CORES}' (for num_threads 0)", 1, 4096)
    bootstrap = at.get("CKKS_Bootstrap Time")
    return _Configuration(
        cpu=row[at[_CPU]],
        level=LEVELS[level],
        log_n=log_n,
        log_slots=whole(row[at["batch_size"]], "batch_size, log2 of the slots,", 0, most),
        depth=whole(row[at["depth"]], "depth", 1, 200),
        threads=threads,
        # The context of such a run was made with bootstrapping keys, and every primitive works on its longer chain.
        bootstraps=bootstrap is not None and row[bootstrap].strip() not in ("", "N/A"),
        condition=row[at["cold_caching"]] if "cold_caching" in at else "",
    )


def _timing(column: str, row: Sequence[str], at: dict[str, int]) -> tuple[float, float | None]:
    """Seconds of a call, and joules; 0 J, below what RAPL resolves, is known to be little."""

    def cell(event: str) -> str | None:
        index = at.get(f"{column} {event}")
        return None if index is None else row[index]

    seconds = positive_seconds(cell("Time"), f"'{column} Time'")
    joules = energy_joules(cell("Energy"), f"'{column} Energy'")
    try:
        power = float(cell("Power") or "nan")
    except ValueError:
        power = math.nan
    if joules and power > 0 and math.isfinite(power):
        factor = joules / seconds / power
        if not 1 / _UNIT_FACTOR < factor < _UNIT_FACTOR:
            raise ValueError(
                f"'{column}': {joules:g} J in {seconds:g} s are {joules / seconds:.3g} W, and '{column} Power' says "
                f"{power:.3g} W: a column is in another unit; times are in seconds, energies in joules, powers in watts"
            )
    return seconds, joules


def _measurement(configuration: _Configuration, column: str, repeats: _Repeats) -> Measurement:
    params, shape, degree = parameters(*configuration[1:6]), None, None
    if column in APPLICATIONS:
        group, item = APPLICATIONS[column]
    else:
        group, (item, degree) = "primitives", CALLS[column]
        kind = PRIMITIVES[item].kind
        if kind is not None and not TRAITS[kind].composite:
            shape = primitive_shape(kind, params, params.num_q)
    middle = statistics.median(repeats.seconds)
    joules = statistics.median(repeats.joules) if repeats.joules else 0.0
    return Measurement(
        item=item,
        group=group,
        params=params,
        shape=shape,
        degree=degree,
        threads=configuration.threads,
        seconds=middle,
        spread=spread(repeats.seconds, middle),
        joules=joules or None,
        runs=len(repeats.seconds),
        source=repeats.source,
    )


@lru_cache(maxsize=1024)
def parameters(level: int, log_n: int, log_slots: int, depth: int, bootstraps: bool) -> CkksParameters:
    """The set that CryptOracle's file generator asks OpenFHE for.

    With a security level OpenFHE chooses the ring dimension itself and `log_n` says nothing.
    Raises: ParamsError: a set that cannot be.
    """
    name = f"cryptoracle-n{log_n}-b{log_slots}-d{depth}{'-bootstrap' if bootstraps else ''}"
    total = depth + (BOOTSTRAP_DEPTH if bootstraps else 0)

    def built(ring_dim: int) -> CkksParameters:
        return CkksSpec(
            name=name if not level else f"{name}-{level}c",
            ring_dim=ring_dim,
            slots=1 << log_slots,
            depth=total,
            first_mod_bits=52,
            scale_bits=48,
            dnum=2,
            scaling=Scaling.FLEXIBLE_AUTO,
            security="none",
            source="CryptOracle, util/cryptocontext-generator/file_generator.cpp",
        ).build()

    if not level:
        return built(1 << log_n)
    for log in range(max(log_slots + 1, MIN_RING_DIM.bit_length() - 1), MAX_RING_DIM.bit_length()):
        params = built(1 << log)
        if params.log_qp < (security.OPENFHE.max_log_qp(params.ring_dim, level) or 0):
            return params
    raise UsageError(f"no ring dimension up to {MAX_RING_DIM} carries depth {total} at {level} bit")
