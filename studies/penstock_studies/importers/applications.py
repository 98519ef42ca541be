"""CryptOracle's YAML configurations: how often an application calls each primitive, and the CSV files with the timings.

Source: github.com/UnaryLab/CryptOracle, `perf-model/perf-model.py` and `perf-model/*-configs/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.base.types import Row
from penstock.errors import UnknownName, UsageError
from penstock.lab.prediction.importers import yaml
from penstock.lab.prediction.importers.rows import BadTiming, read_text
from penstock_studies.importers.columns import APPLICATIONS, CALLS, LEFT_OUT


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationCounts:
    """A configuration of CryptOracle's performance model: how often an application calls each primitive."""

    name: str
    """As in the CSV."""
    workload: str
    """Ours that computes the same."""
    counts: dict[str, int]
    """Column -> calls."""
    parameters: Row
    """`n`, `depth`, `security_standard_level`, `num_threads`, as written."""
    statistic: str
    event_type: str
    primitive_benchmarks: Path
    """Next to the configuration, as it says; it need not be there."""
    actual_benchmarks: Path | None
    source: str

    def files(self) -> list[Path]:
        """The CSV files that it names and that are there.

        Raises: UsageError: the primitives' is not.
        """
        if not self.primitive_benchmarks.is_file():
            raise UsageError(
                f"{self.source} names {self.primitive_benchmarks}, which does not exist: change 'primitive_benchmarks' "
                "in it, or name the CSV file itself"
            )
        actual = self.actual_benchmarks
        return [self.primitive_benchmarks, *([actual] if actual is not None and actual.is_file() else [])]


def read_application(path: Path) -> ApplicationCounts:
    """The operation counts and files of a YAML configuration of CryptOracle's performance model.

    Raises: BadTiming: it is none; UnknownName: an application or primitive that is not known.
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
    actual = data.get("actual_benchmarks")
    return ApplicationCounts(
        name=data["name"],
        workload=APPLICATIONS[data["name"]][1],
        counts=counts,
        statistic=statistic,
        parameters=data.get("parameters") or {},
        event_type=str(data.get("event_type", "Time")),
        source=str(path),
        primitive_benchmarks=path.parent / str(data["primitive_benchmarks"]),
        actual_benchmarks=None if actual is None else path.parent / str(actual),
    )
