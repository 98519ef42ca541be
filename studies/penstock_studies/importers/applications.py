"""CryptOracle's YAML configurations: how often an application calls each primitive, and the CSV files with the timings.

Source: github.com/UnaryLab/CryptOracle, `perf-model/perf-model.py` and `perf-model/*-configs/`.
"""

from __future__ import annotations

from pathlib import Path

from penstock.errors import UnknownName, UsageError
from penstock.lab.prediction.importers import yaml
from penstock.lab.prediction.importers.rows import BadTiming, read_text
from penstock_studies.importers.columns import APPLICATIONS, CALLS, LEFT_OUT


def files_of(path: Path) -> list[Path]:
    """The CSV files that a YAML configuration of CryptOracle's performance model names, and that are there.

    Raises: BadTiming: it is none; UnknownName: an application or primitive that is not known; UsageError: the file of
            the primitives is not there.
    """
    data = yaml.loads(read_text(path), str(path))
    counts = data.get("operation_counts")
    if not isinstance(counts, dict) or "primitive_benchmarks" not in data or "name" not in data:
        raise BadTiming(
            f"{path}: no configuration of CryptOracle's performance model: it needs name, primitive_benchmarks and "
            "operation_counts; files of parameters and primitives to sweep hold no timings: name the CSV file"
        )
    if not isinstance(data["name"], str) or data["name"] not in APPLICATIONS:
        raise UnknownName(f"application of {path}", str(data["name"]), APPLICATIONS)
    for name, count in counts.items():
        if name not in CALLS and name not in LEFT_OUT:
            raise UnknownName(f"primitive in operation_counts of {path}", name, [*CALLS, *LEFT_OUT])
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise BadTiming(f"{path}: operation_counts.{name} is {count!r}; it is a whole number of calls")
    statistic = data.get("statistic", "median")
    if statistic not in ("mean", "median"):
        raise BadTiming(f"{path}: statistic is {statistic!r}; it is mean or median")
    primitives = path.parent / str(data["primitive_benchmarks"])
    if not primitives.is_file():
        raise UsageError(
            f"{path} names {primitives}, which does not exist: change 'primitive_benchmarks' in it, or name the CSV "
            "file itself"
        )
    actual = data.get("actual_benchmarks")
    applications = [] if actual is None else [path.parent / str(actual)]
    return [primitives, *filter(Path.is_file, applications)]
