"""A workload by OpenFHE and natively, each in processes of its own: time and peak memory.

    .venv/bin/python benchmarks/bench_native_run.py [logistic-regression] [--size deep] [--threads 2]
        [--key-budget "240 MB"] [--input-budget "0 B"] [--in-memory] [--format json]

Natively the client (OpenFHE, the secret key) is a process of its own. Target: natively under the budgets at least 2.5
times as fast, at no more than a quarter of OpenFHE's peak memory, counted is what both processes have at one time; the
share of the evaluating process alone is printed beside it. Exits with 4 where the target is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from penstock.program.running.reading import resolve

SPEEDUP = 2.5
MEMORY_SHARE = 0.25
RESIDENT_KEYS = 2
"""The budget where none is named, in whole keys: the one in use, and one that is read meanwhile."""


def measured(options: argparse.Namespace, *reading: str) -> dict[str, Any]:
    """What `penstock run` prints."""
    command = [
        sys.executable,
        "-c",
        "import sys; from penstock.front.cli.main import main; sys.exit(main())",
        "run",
        options.workload,
        "--size",
        options.size,
        "--threads",
        str(options.threads),
        "--format",
        "json",
        "-q",
        "--reading",
        *reading,
    ]
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
    arguments.add_argument("--key-budget", help=f"default: {RESIDENT_KEYS} keys")
    arguments.add_argument("--input-budget", default="0 B")
    arguments.add_argument("--in-memory", action="store_true", help="measure it with all keys in memory, too")
    arguments.add_argument("--format", choices=("table", "json"), default="table")
    options = arguments.parse_args()
    _, _, params = resolve(options.workload, None, options.size)
    budget = options.key_budget or f"{RESIDENT_KEYS * params.key_bytes()} B"

    rows = {"openfhe": measured(options, "openfhe")}
    if options.in_memory:
        rows["native, keys in memory"] = measured(options, "native")
    native = measured(options, "native", "--key-budget", budget, "--input-budget", options.input_budget)
    rows[f"native, {native['key_budget_bytes'] / 1e6:.0f} MB of keys"] = native
    peak = rows["openfhe"]["peak_rss_bytes"]
    found = {
        "workload": options.workload, "size": options.size, "params": params.name, "threads": options.threads,
        "speedup": rows["openfhe"]["wall_s"] / native["wall_s"],
        "standing_share": native["standing_rss_bytes"] / peak, "evaluating_share": native["peak_rss_bytes"] / peak,
    }  # fmt: skip
    if options.format == "json":
        print(json.dumps({**found, "runs": rows}))
    else:
        for name, row in rows.items():
            client, standing = row.get("client_peak_rss_bytes"), row.get("standing_rss_bytes")
            both = ""
            if client is not None and standing is not None:
                both = f" (client {client / 1e6:.0f} MB, both at one time {standing / 1e6:.0f} MB)"
            print(
                f"{name:26} (measured) {row['wall_s']:8.2f} s, operations {row['server_s']:8.2f} s, peak "
                f"{row['peak_rss_bytes'] / 1e6:6.0f} MB{both}, passed: {row['passed']}"
            )
        print(
            f"speedup {found['speedup']:.2f}; of OpenFHE's peak memory: the evaluating process "
            f"{found['evaluating_share']:.0%}, both processes at one time {found['standing_share']:.0%}"
        )
    if found["speedup"] < SPEEDUP or found["standing_share"] > MEMORY_SHARE:
        sys.exit(4)


if __name__ == "__main__":
    main()
