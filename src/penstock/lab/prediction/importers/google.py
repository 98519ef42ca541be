"""Google Benchmark's JSON: all of ours, and others' if names or counters state the primitive and its parameters.

A foreign entry is understood as `EvalMult/ring_dim:8192/depth:10/limbs:8/dnum:3`: a call, then `key:value` arguments
in any order; a counter of the same name does as well. `ring_dim` (or `log_n`) and `depth` are needed, or `params:NAME`.
Source: Google Benchmark, docs/user_guide.md ("Passing Arguments") and its JSON reporter.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from penstock.base.system.outside import json_of
from penstock.base.types import Row, RowView
from penstock.base.units import SECOND_UNITS
from penstock.errors import ParamsError, PenstockError, UnknownName, check_known
from penstock.lab.fit.measurements import OPENFHE, READINGS, Measurement, primitive_shape
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.measure.bench.results import BENCH_SCHEMA, SCHEMA_VERSION, table_of
from penstock.lab.prediction.importers import bench
from penstock.lab.prediction.importers.calls import ARGUMENTS, OPENFHE_CALLS
from penstock.lab.prediction.importers.rows import BadTiming, ImportLog, Origin, positive_seconds, spread, whole
from penstock.scheme.operations import TRAITS
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rules import MAX_RING_DIM
from penstock.scheme.params.spec import MAX_DEPTH, CkksSpec

UNITS = {unit: SECOND_UNITS[unit] for unit in ("ns", "us", "ms", "s")}
"""What `time_unit` may be."""

_IGNORED = ("iterations", "repeats", "min_time", "min_warmup_time", "real_time", "process_time", "manual_time",
            "threads")  # fmt: skip
_WORDS = ("scaling", "secret", "params")
_DEFAULTS: Row = {"scale_bits": 50, "first_mod_bits": 60, "scaling": "fixed-manual", "security": "none"}
UNDERSTOOD = (
    "a name is a call and its arguments, 'EvalMult/ring_dim:8192/depth:10/limbs:8'; calls: OpenFHE's (EvalAdd, "
    f"EvalRotate, …) or {', '.join(PRIMITIVES)}; arguments: {', '.join(sorted(set(ARGUMENTS.values())))}"
)
_ACROSS = "timed in several threads of the benchmark at the same time: machines are fitted to one operation at a time"


def load(text: str, where: str, log: ImportLog) -> list[Measurement]:
    """The measurements of a Google Benchmark JSON file, or of the rows that `bench export --to json` writes.

    Raises: BadTiming: it is not that format, or an entry cannot be used; the message names file and entry.
    """
    try:
        data = json_of(text)
    except ValueError as error:
        raise BadTiming(
            f"{where}:{getattr(error, 'lineno', 1)}: not valid JSON ({error}): the file is damaged or cut off; write "
            "it again"
        ) from error
    if isinstance(data, list):
        return bench.measurements(_own_table(data, where), where, log)
    entries = data.get("benchmarks") if isinstance(data, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise BadTiming(
            f"{where}: no timings: it is JSON without a list 'benchmarks'; give Google Benchmark's output "
            "(--benchmark_out_format=json)"
        )
    if not entries:
        raise BadTiming(f"{where}: the list 'benchmarks' is empty: nothing was timed; measure again")
    context = data.get("context")
    log.origins[where] = _origin(context)
    own = [entry["penstock"] for index, entry in enumerate(entries, 1) if _is_own(index, entry, where, log)]
    own_timings = bench.measurements(_own_table(own, where), where, log) if own else []
    foreign = [(i, e) for i, e in enumerate(entries, 1) if e.get("penstock") is None]
    stated = context.get("reading") if isinstance(context, dict) else None
    if stated is not None:
        check_known("reading", str(stated), READINGS)
    return own_timings + _foreign(foreign, where, log, stated or OPENFHE)


def _origin(context: object) -> Origin:
    """What the `context` of a file says; ours names the CPU and the library, others the date alone."""
    stated = context if isinstance(context, dict) else {}
    date, cpu, version = (stated.get(name) for name in ("date", "cpu_model", "openfhe_version"))
    return Origin(
        cpu=cpu if isinstance(cpu, str) else None,
        library=f"OpenFHE {version}" if isinstance(version, str) else None,
        date=date if isinstance(date, str) else None,
    )


def _is_own(index: int, entry: RowView, where: str, log: ImportLog) -> bool:
    """Whether an entry has our own columns, and its time is still theirs."""
    own = entry.get("penstock")
    if own is None:
        return False
    try:
        if not isinstance(own, dict):
            raise ValueError(f"'penstock' is {own!r}; it is an object with the columns of a row of ours, or left out")
        seconds = _seconds(entry)
        stored = positive_seconds(own.get("seconds_per_call"), "seconds_per_call")
        if not math.isclose(seconds, stored, rel_tol=1e-6):
            raise ValueError(f"real_time is {seconds:g} s and seconds_per_call {stored:g} s: one of them was changed")
    except ValueError as error:
        log.refuse(f"{where}: entry {index}, '{entry.get('name')}': {error}")
        return False
    return True


def _own_table(rows: Sequence[Row], where: str) -> pa.Table:
    """Rows of `BENCH_SCHEMA` that were JSON."""
    for index, row in enumerate(rows, 1):
        if not isinstance(row, dict) or not {"group", "item", "seconds_per_call"} <= row.keys():
            raise BadTiming(f"{where}: row {index} is not a row of benchmark results; export the run again")
        unknown = sorted(set(row) - set(BENCH_SCHEMA.names))
        if unknown:
            raise BadTiming(
                f"{where}: row {index}: unknown column '{unknown[0]}'; this version reads formats 1 to {SCHEMA_VERSION}"
            )
    try:
        return table_of(rows)
    except (TypeError, ValueError) as error:
        raise BadTiming(f"{where}: a value is of another type than its column: {error}; export again") from error


def _foreign(entries: Iterable[tuple[int, RowView]], where: str, log: ImportLog, reading: str) -> list[Measurement]:
    groups: dict[str, list[Measurement]] = {}
    seen: dict[tuple[str, int], int] = {}
    for index, entry in entries:
        if entry.get("run_type", "iteration") != "iteration":
            continue
        if entry.get("threads", 1) != 1:
            log.leave_out(_ACROSS)
            continue
        name = str(entry.get("run_name", entry.get("name")))
        try:
            if entry.get("error_occurred"):
                raise ValueError(f"the benchmark failed: {entry.get('error_message', 'no message')}")
            seconds = _seconds(entry)
            if "repetition_index" in entry:
                first = seen.setdefault((name, whole(entry["repetition_index"], "repetition_index", 0, 1 << 31)), index)
                if first != index:
                    raise ValueError(f"repetition {entry['repetition_index']} is in entry {first} already")
            timing = replace(_timing(name, entry, seconds, f"{where}: entry {index}"), reading=reading)
            groups.setdefault(name, []).append(timing)
        except (ValueError, PenstockError) as error:
            log.refuse(f"{where}: entry {index}, '{name}': {error}")
    return [_median_of(runs) for runs in groups.values()]


def _median_of(runs: Sequence[Measurement]) -> Measurement:
    seconds = [run.seconds for run in runs]
    middle = statistics.median(seconds)
    return replace(runs[0], seconds=middle, spread=spread(seconds, middle), runs=len(runs))


def _seconds(entry: RowView) -> float:
    unit = entry.get("time_unit", "ns")
    if not isinstance(unit, str) or unit not in UNITS:
        raise ValueError(f"time_unit {unit!r} is unknown; known: {', '.join(UNITS)}")
    return positive_seconds(entry.get("real_time"), "real_time") * UNITS[unit]


def _timing(name: str, entry: RowView, seconds: float, source: str) -> Measurement:
    """What the name and the counters of a foreign entry say."""
    call, *arguments = name.split("/")
    values: Row = {}
    for key, value in entry.items():
        if key.lower() in ARGUMENTS and ARGUMENTS[key.lower()] not in _WORDS and isinstance(value, int | float):
            values[ARGUMENTS[key.lower()]] = value
    named: Row = {}
    for argument in arguments:
        key, colon, value = argument.partition(":")
        if key in _IGNORED:
            continue
        if not colon:
            raise ValueError(f"argument '{argument}' has no name, so that it could be anything; {UNDERSTOOD}")
        if key.lower() not in ARGUMENTS:
            raise UnknownName("argument", key, set(ARGUMENTS.values()))
        if named.setdefault(ARGUMENTS[key.lower()], value) != value:
            raise ValueError(
                f"'{key}' is {named[ARGUMENTS[key.lower()]]} and {value} in one name; one of them has to go"
            )
    for key, value in named.items():
        if str(values.get(key, value)).removesuffix(".0") != value:
            raise ValueError(f"'{key}' is {value} in the name and {values[key]} in a counter; one of them is wrong")
    values |= named
    item = _item(call)
    params = _params({k: v for k, v in values.items() if k not in ("limbs", "degree", "omp_threads")})
    limbs = whole(values.get("limbs", params.num_q), "limbs", PRIMITIVES[item].lowest, params.num_q)
    degree = whole(values["degree"], "degree", 1, 1 << 16) if "degree" in values else None
    kind = PRIMITIVES[item].kind
    return Measurement(
        item=item,
        group="primitives",
        params=params,
        shape=None if kind is None or TRAITS[kind].composite else primitive_shape(kind, params, limbs),
        degree=degree,
        threads=whole(values.get("omp_threads", 1), "omp_threads", 1, 4096),
        seconds=seconds,
        source=source,
    )


def _item(call: str) -> str:
    word = call.rpartition("::")[2]
    for prefix in ("BM_", "CKKSrns_", "CKKS_"):
        word = word.removeprefix(prefix)
    if word.lower() in PRIMITIVES:
        return word.lower()
    plain = word.lower().replace("_", "")
    known = OPENFHE_CALLS.get(plain) or OPENFHE_CALLS.get(f"eval{plain}")
    if known is None:
        raise ValueError(f"'{call}' is not a call that is known; {UNDERSTOOD}")
    return known


def _params(values: Row) -> CkksParameters:
    if "params" in values:
        if len(values) > 1:
            raise ParamsError("'params' names a whole set: leave the other arguments of the set out")
        return catalogue.get(values["params"])
    if "log_n" in values:
        log_n = whole(values.pop("log_n"), "log_n", 1, 63)
        if whole(values.setdefault("ring_dim", 1 << log_n), "ring_dim", 0, MAX_RING_DIM) != 1 << log_n:
            raise ParamsError(
                f"ring_dim is {values['ring_dim']} and log_n {log_n}, which is {1 << log_n}: one is wrong"
            )
    for key in ("ring_dim", "depth"):
        if key not in values:
            raise ParamsError(f"neither the name nor a counter says {key}; {UNDERSTOOD}")
    highest = {"ring_dim": MAX_RING_DIM, "depth": MAX_DEPTH, "slots": MAX_RING_DIM}
    for key, value in values.items():
        if key not in _WORDS and not (key == "security" and value == "none"):
            values[key] = whole(value, key, 0, highest.get(key, 1000))
    return _built(tuple(sorted(values.items())))


@lru_cache(maxsize=1024)
def _built(stated: tuple[tuple[str, Any], ...]) -> CkksParameters:
    values = dict(stated)
    name = f"google-n{values['ring_dim'].bit_length() - 1}-d{values['depth']}"
    assumed = tuple(sorted(set(_DEFAULTS) - set(values) - {"security"}))
    return CkksSpec(
        name=name, **{**_DEFAULTS, **values}, assumed=assumed, source="names of a Google Benchmark file"
    ).build()
