"""A workload by OpenFHE and natively, each in a process of its own: time and peak memory.

    .venv/bin/python benchmarks/bench_native_run.py [logistic-regression] [--size demo] [--threads 2]
        [--key-budget "60 MiB"] [--format json]

Target: natively under the budget at least 2.5 times as fast, at no more than a quarter of OpenFHE's peak memory. Exits
with 4 where it is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

SPEEDUP = 2.5
MEMORY_SHARE = 0.25


def measured(options: argparse.Namespace, *reading: str) -> dict[str, Any]:
    """What `penstock run` prints."""
    command = [
        sys.executable, "-c", "import sys; from penstock.cli.main import main; sys.exit(main())", "run",
        options.workload, "--size", options.size, "--threads", str(options.threads), "--format", "json", "-q",
        "--reading", *reading,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(reading)}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("workload", nargs="?", default="logistic-regression")
    arguments.add_argument("--size", default="demo")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--key-budget", default="60 MiB")
    arguments.add_argument("--format", choices=("table", "json"), default="table")
    options = arguments.parse_args()

    openfhe = measured(options, "openfhe")
    memory = measured(options, "native")
    budget = measured(options, "native", "--key-budget", options.key_budget)
    speedup = openfhe["wall_s"] / budget["wall_s"]
    share = budget["peak_rss_bytes"] / openfhe["peak_rss_bytes"]
    if options.format == "json":
        print(json.dumps({"openfhe": openfhe, "native": memory, "native_budget": budget, "speedup": speedup,
                          "memory_share": share}))  # fmt: skip
    else:
        for name, row in (("OpenFHE", openfhe), ("native", memory), (f"native, {options.key_budget}", budget)):
            print(
                f"{name:20} (measured) {row['wall_s']:8.2f} s, operations {row['server_s']:8.2f} s, peak "
                f"{row['peak_rss_bytes'] / 1e6:8.0f} MB, passed: {row['passed']}"
            )
        print(f"speedup {speedup:.2f}, share of OpenFHE's peak memory {share:.2f}")
    if speedup < SPEEDUP or share > MEMORY_SHARE:
        sys.exit(4)


if __name__ == "__main__":
    main()
