"""One bootstrapping at 128 bits by OpenFHE and natively, each in a process of its own: time, peak memory and precision.

    .venv/bin/python benchmarks/bench_native_bootstrap.py [--log-slots 14] [--threads 2] [--key-budget "512 MiB"]
        [--params openfhe-bootstrap-50] [--together 8] [--repeat 3] [--store DIR] [--format json]

Natively the keys lie on disk, and the plan of the refresh is the one that `penstock run` chooses. Its time is the
median of `--repeat` refreshes in one process. A third process refreshes `--together` ciphertexts side by side, from
disk too.

Targets: at least 3.5 times as fast, at most 2 GB in memory at the peak, at least 22 bits; so many together take at most
0.75 of so many alone. Exits with 4 where one is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from penstock.base.units import parse_bytes
from penstock.program.running.openfhe import prepared_openfhe
from penstock.program.workloads import bootstrapping
from penstock.runtime.native.prepared import KeyPlace
from penstock.runtime.native.reading import prepared_native
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters

SPEEDUP = 3.5
PEAK_BYTES = 2e9
BITS = 22.0
TOGETHER = 0.75
SEED = 0
IDLE = ("encrypt", "decrypt", "mod_drop")
"""What is no part of the refresh."""


def parameters(options: argparse.Namespace) -> CkksParameters:
    """The named set, for so many slots."""
    return replace(catalogue.get(options.params), slots=1 << options.log_slots)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """One reading, in this process."""
    params, times = parameters(options), []
    size = "full-8" if options.reading == "together" else "full"
    of = replace(bootstrapping.SIZES[size], period=None, ciphertexts=options.together if size == "full-8" else 1)
    bootstrapping.SIZES[size] = of
    x = bootstrapping.data(of, params.slots, SEED).values
    started = time.perf_counter()
    row: dict[str, Any] = {"security_bits": params.security_bits}
    found = None
    if options.reading == "openfhe":
        with prepared_openfhe("bootstrapping", params, size, SEED, threads=options.threads) as run:
            row["setup_s"] = time.perf_counter() - started
            done = run()
            times.append(refresh_s(done.trace, "bootstrap"))
            found = done.result
    else:
        place = KeyPlace(budget_bytes=int(parse_bytes(options.key_budget)), store=options.store)
        with prepared_native("bootstrapping", params, size, SEED, threads=options.threads, keys=place) as run:
            row["setup_s"] = time.perf_counter() - started
            for _ in range(options.repeat if options.reading == "native" else 1):
                done = run()
                times.append(refresh_s(done.trace, None))
                found = done.result
                row |= {
                    "key_wait_s": done.key_load_s,
                    "encode_s": done.encode_s,
                    "kernels": done.kernels,
                    "key_bytes": done.traffic.key_bytes,
                    "key_read_bytes": done.traffic.read_bytes,
                    "plan": done.plan_why,
                }
    assert found is not None
    error = np.abs(found - x)
    return row | {
        "refresh_s": statistics.median(times),
        "times_s": times,
        "bits": -math.log2(float(np.sqrt(np.mean(error**2)))),
        "worst_bits": -math.log2(float(error.max())),
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def refresh_s(trace: Any, kind: str | None) -> float:
    """Seconds from the start of the first operation of the refresh to the end of its last, waits included."""
    table = trace.operations.to_pylist()
    rows = [row for row in table if row["start_s"] is not None and row["kind"] not in IDLE]
    if kind is not None:
        rows = [row for row in rows if row["kind"] == kind]
    return float(max(row["end_s"] for row in rows) - min(row["start_s"] for row in rows))


def measured(reading: str) -> dict[str, Any]:
    """What a process of its own measures."""
    done = subprocess.run(
        [sys.executable, __file__, *sys.argv[1:], "--reading", reading], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{reading}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--params", default="openfhe-bootstrap-50")
    arguments.add_argument("--log-slots", type=int, default=14)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--key-budget", default="512 MiB")
    arguments.add_argument("--together", type=int, default=8, help="ciphertexts that are refreshed side by side")
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--store", type=Path, help="a key store to keep; a temporary one if omitted")
    arguments.add_argument("--reading", choices=("openfhe", "native", "together"), help=argparse.SUPPRESS)
    arguments.add_argument("--format", choices=("table", "json"), default="table")
    options = arguments.parse_args()
    if options.reading is not None:
        print(json.dumps(measure(options)))
        return

    native, together, openfhe = measured("native"), measured("together"), measured("openfhe")
    speedup = openfhe["refresh_s"] / native["refresh_s"]
    share = together["refresh_s"] / (options.together * native["refresh_s"])
    if options.format == "json":
        rows = {"openfhe": openfhe, "native": native, "together": together}
        print(json.dumps({**rows, "speedup": speedup, "together_share": share}))
    else:
        named = (("OpenFHE", openfhe), ("native", native), (f"{options.together} together", together))
        for name, row in named:
            print(
                f"{name:10} (measured) {row['refresh_s']:8.2f} s, peak {row['peak_rss_bytes'] / 1e9:6.2f} GB, "
                f"{row['bits']:.1f} bits (worst slot {row['worst_bits']:.1f}), keys made in {row['setup_s']:.0f} s"
            )
        print(
            f"speedup {speedup:.2f}, {options.together} together {share:.2f} of as many alone, waited for keys "
            f"{native['key_wait_s']:.2f} s, encoded {native['encode_s']:.2f} s, keys read "
            f"{native['key_read_bytes'] / 1e9:.2f} and {together['key_read_bytes'] / 1e9:.2f} GB"
        )
        print(native["plan"])
    right = native["bits"] >= BITS and native["security_bits"] >= 128
    if speedup < SPEEDUP or native["peak_rss_bytes"] > PEAK_BYTES or share > TOGETHER or not right:
        sys.exit(4)


if __name__ == "__main__":
    main()
