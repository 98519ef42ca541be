"""The time of a sweep of 10,800 points on all cores of this machine, from the file to the merged table.

    .venv/bin/python benchmarks/bench_sweep.py [--workers N] [--format json]

Three programs (HELR, ResNet-20, sorting at SHARP's parameters), traced and priced once each; 20 caches and hit ratios,
5 tiers, 3 time modes, 6 numbers of hosts, 2 networks. The bound is that of two cores.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from penstock.base.runs.folder import RunFolder
from penstock.lab.sweeps.local import available_cores
from penstock.lab.sweeps.plan import plan
from penstock.lab.sweeps.run import config_of, run_sweep
from penstock.lab.sweeps.spec import parse_sweep
from penstock.lab.sweeps.store import read_results

BOUND_S = 120.0
SWEEP = """
workload = ["logistic-regression", "resnet20-multiplexed", "sorting"]
params = "sharp"
machine = "sharp"
tier = ["hbm", "ddr5", "pcie5", "rdma", "3.5 GB/s"]
mode = ["serial", "overlap", "bound"]
hosts = [1, 2, 4, 8, 16, 32]
network = ["ethernet-400", "fastfabric-300"]
cache = ["on-chip", "1 GiB", "4 GiB"]
policy = ["lru", "optimal"]
hit_ratio = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.99, 1]
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=available_cores())
    parser.add_argument("--format", choices=("text", "json"), default="text")
    asked = parser.parse_args()
    started = time.perf_counter()
    sweep = parse_sweep(SWEEP, "benchmark")
    planned = plan(sweep)
    with tempfile.TemporaryDirectory() as folder:
        with RunFolder.create(Path(folder) / "run", config_of(sweep, planned)) as run:
            run_sweep(planned, run, workers=asked.workers)
        elapsed_s = time.perf_counter() - started
        points = read_results(Path(folder) / "run").num_rows
    row = {
        "points": points, "workers": asked.workers, "elapsed_s": elapsed_s, "points_per_s": points / elapsed_s,
        "bound_s": BOUND_S, "met": points == planned.num_points >= 10_000 and elapsed_s <= BOUND_S,
    }  # fmt: skip
    if asked.format == "json":
        print(json.dumps([row], indent=2))
    else:
        print("\n".join(f"{name:>24}  {value}" for name, value in row.items()))
    return 0 if row["met"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
