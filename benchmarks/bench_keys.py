"""Rotations with keys in memory and from disk, beside OpenFHE's, against the targets.

    .venv/bin/python benchmarks/bench_keys.py [--params openfhe-bench] [--threads 1 2] [--folder DIR] [--format json]

Targets on a processor with AVX-512: natively in memory at least 3.5 times as fast as OpenFHE; from disk at least 2.5
times with one thread and 2 times with more, and at most 1.2 times the larger of computing and reading. Exits with 4
where one is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from penstock.lab.measure.key_bench import KeyBench, bench_keys
from penstock.scheme.params import catalogue

MEMORY_SPEEDUP = 3.5
DISK_LIMIT = 1.2


def verdict(found: KeyBench, threads: int) -> dict[str, Any]:
    """The row of one measurement, and whether it meets the targets."""
    disk_target = 2.5 if threads == 1 else 2.0
    memory, disk = found.openfhe_ram_s / found.native_ram_s, found.openfhe_ram_s / found.native_disk_s
    return {
        "threads": threads,
        "openfhe_ram_s": found.openfhe_ram_s,
        "native_ram_s": found.native_ram_s,
        "native_disk_s": found.native_disk_s,
        "disk_bytes_per_s": found.disk_bytes_per_s,
        "memory_speedup": memory,
        "disk_speedup": disk,
        "disk_over_bound": found.ratio,
        "reserve_s": found.reserve_s,
        "bit_identical": found.bit_identical,
        "met": found.bit_identical and memory >= MEMORY_SPEEDUP and disk >= disk_target and found.ratio <= DISK_LIMIT,
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--params", default="openfhe-bench")
    arguments.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--folder", type=Path)
    arguments.add_argument("--format", choices=("table", "json"), default="table")
    options = arguments.parse_args()
    params = catalogue.get(options.params)
    rows = [
        verdict(bench_keys(params, threads, rounds=options.rounds, folder=options.folder), threads)
        for threads in options.threads
    ]
    if options.format == "json":
        print(json.dumps({"params": options.params, "rows": rows}))
    else:
        for row in rows:
            print(
                f"{row['threads']} threads (measured): OpenFHE {row['openfhe_ram_s'] * 1e3:.0f} ms, native in memory "
                f"{row['native_ram_s'] * 1e3:.0f} ms ({row['memory_speedup']:.1f}x), from disk "
                f"{row['native_disk_s'] * 1e3:.0f} ms ({row['disk_speedup']:.1f}x, {row['disk_over_bound']:.2f} of the "
                f"bound), words equal: {row['bit_identical']}: {'met' if row['met'] else 'MISSED'}"
            )
    if not all(row["met"] for row in rows):
        sys.exit(4)


if __name__ == "__main__":
    main()
