"""Counters and histograms in Prometheus' text format. Labels come from closed sets, or from deployed programs."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from penstock.base.system.toml import packaged
from penstock.base.types import RowView
from penstock.service.work.messages import JobFigures

BOUNDS_S = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0,
)  # fmt: skip
"""Upper bounds of the histograms, in seconds: 1 ms to 1 h."""
MOST_PROGRAMS = 200
"""Programs with a histogram; further ones share one, named `others`."""
MOST_PROGRAMS_OF_ONE = 20
"""Of one tenant."""
MOST_TENANTS = 200
"""Tenants with a gauge: those with the most bytes. Further ones share one, named `others`."""
OTHERS = "others"
_HELP = {
    name: (kind, text)
    for kind, texts in packaged("penstock.service.http", "metrics.toml").items()
    for name, text in texts.items()
}
"""Metric -> kind, and text for people."""
Labels = tuple[tuple[str, str], ...]
Gauges = dict[str, Mapping[Labels, float]]


class Metrics:
    """All metrics of a server. Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, dict[Labels, float]] = {}
        self._times: dict[str, dict[Labels, list[float]]] = {}
        self._programs: dict[str, str] = {}
        """Program with a histogram -> the tenant that ran it first."""

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            counts = self._counts.setdefault(name, {})
            key = tuple(sorted(labels.items()))
            counts[key] = counts.get(key, 0) + by

    def time(self, name: str, seconds: float, **labels: str) -> None:
        """Add to a histogram."""
        with self._lock:
            key = tuple(sorted(labels.items()))
            cells = self._times.setdefault(name, {}).setdefault(key, [0.0] * (len(BOUNDS_S) + 2))
            for at, bound in enumerate(BOUNDS_S):
                cells[at] += seconds <= bound
            cells[-2] += 1
            cells[-1] += seconds

    def job_ended(
        self, tenant: str, program: str, state: str, seconds: float, figures: JobFigures | None = None
    ) -> None:
        """Count a job. `figures`: of one that computed."""
        with self._lock:
            own = sum(owner == tenant for owner in self._programs.values())
            if len(self._programs) < MOST_PROGRAMS and own < MOST_PROGRAMS_OF_ONE:
                self._programs.setdefault(program, tenant)
            label = program if program in self._programs else OTHERS
        self.count("penstock_jobs_ended_total", state=state)
        self.time("penstock_job_seconds", seconds, program=label)
        if figures is not None:
            self.time("penstock_job_queue_seconds", figures.queue_s, program=label)
            self.time("penstock_job_key_wait_seconds", figures.key_wait_s, program=label)
            self.time("penstock_job_compute_seconds", figures.compute_s, program=label)

    def text(self, gauges: Mapping[str, Mapping[Labels, float]]) -> str:
        """Everything, with gauges that are read now."""
        lines: list[str] = []
        with self._lock:
            plain: dict[str, Mapping[Labels, float]] = {**self._counts, **gauges}
            for name in sorted({*plain, *self._times}):
                kind, text = _HELP[name]
                lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
                lines += [f"{name}{_labels(key)} {value:.17g}" for key, value in sorted(plain.get(name, {}).items())]
                for key, cells in sorted(self._times.get(name, {}).items()):
                    bounds = [*map(str, BOUNDS_S), "+Inf"]
                    pairs = zip(bounds, cells, strict=False)
                    lines += [f"{name}_bucket{_labels((*key, ('le', bound)))} {value:g}" for bound, value in pairs]
                    lines += [f"{name}_sum{_labels(key)} {cells[-1]:.17g}", f"{name}_count{_labels(key)} {cells[-2]:g}"]
        return "\n".join(lines) + "\n"


def work_gauges(snapshot: RowView) -> Gauges:
    """Of `WorkerPool.snapshot`: what the workers have said. A figure that it lacks is left out."""
    plain = {
        "penstock_queue_jobs": "waiting",
        "penstock_running_jobs": "running",
        "penstock_workers": "workers",
        "penstock_backlog_seconds": "backlog_s",
        "penstock_worker_deaths_total": "worker_deaths",
        "penstock_workers_killed_total": "workers_killed",
        "penstock_worker_stated_memory_bytes": "stated_memory_bytes",
        "penstock_key_evictions_total": "evictions",
        "penstock_key_evicted_bytes_total": "evicted_bytes",
        "penstock_key_budget_bytes": "budget_bytes",
        "penstock_key_floor_bytes": "floor_bytes",
        "penstock_key_resident_bytes": "resident_bytes",
    }
    values = {name: snapshot[member] for name, member in plain.items() if member in snapshot}
    gauges: Gauges = {name: {(): float(len(v) if isinstance(v, list) else v)} for name, v in values.items()}
    if workers := snapshot.get("workers"):
        gauges["penstock_worker_memory_bytes"] = {(): float(max(each["memory_bytes"] for each in workers))}
    if isinstance(running := snapshot.get("running"), list):
        ratios = [(each["computing_s"] or 0.0) / max(each["predicted_s"], 1e-3) for each in running]
        gauges["penstock_running_over_predicted"] = {(): max(ratios, default=0.0)}
    if "requested_bytes" in snapshot:
        cached = snapshot["requested_bytes"] - snapshot["miss_bytes"]
        sources = {"cache": cached, "disk": snapshot["read_bytes"], "seed": snapshot["expanded_bytes"]}
        gauges["penstock_key_bytes_total"] = {(("source", name),): float(n) for name, n in sources.items()}
    if "hits" in snapshot:
        late, gets = snapshot["late_hits"], snapshot["hits"] + snapshot["misses"]
        outcomes = {"hit": snapshot["hits"] - late, "late_hit": late, "miss": snapshot["misses"]}
        gauges["penstock_key_gets_total"] = {(("outcome", name),): float(n) for name, n in outcomes.items()}
        if gets:
            gauges["penstock_key_hit_ratio"] = {(): snapshot["hits"] / gets}
    return gauges


def by_tenant(memory: Mapping[str, float], disk: Mapping[str, float]) -> dict[Labels, float]:
    """Bytes by tenant and place: of the `MOST_TENANTS` with the most, and of all others together."""
    gauge: dict[Labels, float] = {}
    ranked = sorted({*memory, *disk}, key=lambda name: (-disk.get(name, 0) - memory.get(name, 0), name))
    for place, held in (("memory", memory), ("disk", disk)):
        for tenant in ranked[:MOST_TENANTS]:
            gauge[("place", place), ("tenant", tenant)] = float(held.get(tenant, 0))
        if rest := ranked[MOST_TENANTS:]:
            # A tenant's name has no space.
            gauge[("place", place), ("tenant", f"all {OTHERS}")] = float(sum(held.get(name, 0) for name in rest))
    return gauge


def _labels(labels: Labels) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels) + "}" if labels else ""
