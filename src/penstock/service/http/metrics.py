"""Counters and histograms in Prometheus' text format. Labels come from closed sets, or from deployed programs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the histograms, in seconds."""
MOST_PROGRAMS = 200
"""Programs with a histogram; further ones share one."""
_HELP = {
    "penstock_requests_total": ("counter", "Requests by route, method and status."),
    "penstock_connections_refused_total": ("counter", "Connections that brought no request, by reason."),
    "penstock_received_bytes_total": ("counter", "Bytes of request bodies."),
    "penstock_jobs_ended_total": ("counter", "Jobs that ended, by state."),
    "penstock_request_seconds": ("histogram", "Seconds from the head of a request to its answer, by route."),
    "penstock_job_seconds": ("histogram", "Seconds from submission to the end of a job, by program."),
    "penstock_jobs": ("gauge", "Jobs in the state, by state."),
    "penstock_work": ("gauge", "Figures of the workers: queue, key bytes, hits, misses, budget."),
    "penstock_up": ("gauge", "1 while the server accepts jobs, 0 while it drains."),
}
Labels = tuple[tuple[str, str], ...]


class Metrics:
    """All metrics of a server. Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, dict[Labels, float]] = {}
        self._times: dict[str, dict[Labels, list[float]]] = {}
        self._programs: set[str] = set()

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            found = self._counts.setdefault(name, {})
            key = tuple(sorted(labels.items()))
            found[key] = found.get(key, 0) + by

    def time(self, name: str, seconds: float, **labels: str) -> None:
        """Add to a histogram."""
        with self._lock:
            key = tuple(sorted(labels.items()))
            cells = self._times.setdefault(name, {}).setdefault(key, [0.0] * (len(BOUNDS_S) + 2))
            for at, bound in enumerate(BOUNDS_S):
                cells[at] += seconds <= bound
            cells[-2] += 1
            cells[-1] += seconds

    def job_ended(self, program: str, state: str, seconds: float) -> None:
        """Count a job."""
        with self._lock:
            if len(self._programs) < MOST_PROGRAMS:
                self._programs.add(program)
            known = program in self._programs
        self.count("penstock_jobs_ended_total", state=state)
        self.time("penstock_job_seconds", seconds, program=program if known else "others")

    def text(self, gauges: Mapping[str, Mapping[Labels, float]]) -> str:
        """Everything, with gauges that are read now."""
        lines: list[str] = []
        with self._lock:
            plain: dict[str, Mapping[Labels, float]] = {**self._counts, **gauges}
            for name in sorted({*plain, *self._times}):
                kind, text = _HELP.get(name, ("gauge", "A figure."))
                lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
                lines += [f"{name}{_labels(key)} {value:g}" for key, value in sorted(plain.get(name, {}).items())]
                for key, cells in sorted(self._times.get(name, {}).items()):
                    bounds = [*map(str, BOUNDS_S), "+Inf"]
                    pairs = zip(bounds, cells, strict=False)
                    lines += [f"{name}_bucket{_labels((*key, ('le', bound)))} {value:g}" for bound, value in pairs]
                    lines += [f"{name}_sum{_labels(key)} {cells[-1]:g}", f"{name}_count{_labels(key)} {cells[-2]:g}"]
        return "\n".join(lines) + "\n"


def numbers_of(value: Any, path: str = "") -> dict[Labels, float]:
    """The numbers of a snapshot, each with its place as a label: `{"queue": {"a": 1}}` gives `figure="queue.a"`."""
    if isinstance(value, bool | int | float):
        return {(("figure", path),): float(value)}
    if isinstance(value, Mapping):
        found: dict[Labels, float] = {}
        for key, inner in value.items():
            found |= numbers_of(inner, f"{path}.{key}" if path else str(key))
        return found
    return {(("figure", path),): float(len(value))} if isinstance(value, list | tuple) else {}


def _labels(labels: Labels) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels) + "}" if labels else ""
