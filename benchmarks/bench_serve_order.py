"""Orders of jobs of many tenants, simulated: no cryptography, one job at a time, keys from a disk of a stated rate.

`python benchmarks/bench_serve_order.py` prints one row for each order, and the ratios that matter.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from drawn_jobs import clairvoyant_s, draw
from penstock.service.work.order import Order, OrderRule
from penstock.service.work.simulated import JobArrival, PlayedQueue, ProgramCost, play

MB = 10**6
TENANTS, TENANT_BYTES = 100, 200 * MB
BUDGET_BYTES = 4000 * MB
KINDS = {
    "small": ProgramCost(compute_s=0.030, key_bytes={f"k{number}": 10 * MB for number in range(6)}),
    "middle": ProgramCost(compute_s=0.050, key_bytes={f"k{number}": 10 * MB for number in range(4, 14)}),
    "large": ProgramCost(compute_s=0.080, key_bytes={f"k{number}": 10 * MB for number in range(20)}),
}
"""Keys of a job: 60, 100 and 200 MB, of which the programs of one tenant share some."""


def orders(arrivals: Sequence[JobArrival], rule: OrderRule) -> dict[str, PlayedQueue]:
    """Each order, on the same jobs."""
    cases = {
        "weighed, known plan": (Order.WEIGHED, True),
        "fcfs, known plan": (Order.FCFS, True),
        "fcfs, lru": (Order.FCFS, False),
    }
    return {
        name: play(arrivals, KINDS, BUDGET_BYTES, order=order, known_plan=known, rule=rule)
        for name, (order, known) in cases.items()
    }


def worst_tenant(arrivals: Sequence[JobArrival], played: PlayedQueue) -> float:
    """The largest mean latency of a tenant over the median tenant's."""
    by: dict[str, list[float]] = {}
    for each, latency_s in zip(arrivals, played.latencies_s, strict=True):
        by.setdefault(each.tenant, []).append(latency_s)
    means = [float(np.mean(each)) for each in by.values()]
    return max(means) / float(np.median(means))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rule, kinds = OrderRule(), list(KINDS)
    print(f"simulated: {TENANTS} tenants, Zipf 1.0, {TENANTS * TENANT_BYTES / 1e9:.0f} GB of keys, budget 4 GB")

    backlog = draw(np.random.default_rng(options.seed), options.jobs, TENANTS, 1.0, kinds, None)
    found = orders(backlog, rule)
    least_s = clairvoyant_s(backlog, KINDS, rule)
    print(f"\nbacklog of {len(backlog)} jobs; no order takes less than {least_s:.1f} s")
    for name, played in found.items():
        share = least_s / played.total_s
        print(f"  {name:22} {played.total_s:8.1f} s  {played.read_bytes / 1e9:7.1f} GB read  {share:.2f} of the bound")
    ours = found["weighed, known plan"]
    print(f"  weighed over fcfs + lru: {found['fcfs, lru'].total_s / ours.total_s:.2f} of its throughput")

    per_s = 0.8 * len(backlog) / ours.total_s
    count = int(per_s * 60 * options.minutes)
    poisson = draw(np.random.default_rng(options.seed + 1), count, TENANTS, 1.0, kinds, per_s)
    print(f"\n{count} Poisson arrivals, {per_s:.1f} /s: 0.80 of the weighed order's throughput on the backlog")
    for name, played in orders(poisson, rule).items():
        p50, p95, p99 = np.percentile(played.latencies_s, [50, 95, 99])
        print(
            f"  {name:22} p50 {p50:7.2f} s  p95 {p95:7.2f} s  p99 {p99:7.2f} s  worst tenant "
            f"{worst_tenant(poisson, played):.2f} x median  overtaken {played.most_overtaken} at most"
        )


if __name__ == "__main__":
    main()
