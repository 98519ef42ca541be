"""ResNet-20 on one encrypted image, by OpenFHE and natively, one after the other: time, peak memory, the class.

    .venv/bin/python benchmarks/bench_native_resnet20.py [--size full] [--threads 2] [--key-budget "3 GB"]
        [--seed 0] [--results DIR] [--store DIR] [--format json]

Each reading runs in a process of its own, on the same image. Targets: natively at least 4 times as fast, at most 120 s,
at most 4 GB at the peak, the class of the clear network, and logits within 1e-3. Exits with 4 where one is missed. With
`--results` each reading's row is kept, and a later call with the same options measures only what lacks. `--images N`
classifies N images natively, one after the other with one set of keys, and compares each with the clear network.
The full size takes a quarter of an hour, 14 GB of memory for OpenFHE, and 15 GB of disk for keys.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from penstock.base.units import parse_bytes
from penstock.program.running.clear import run_clear
from penstock.program.running.openfhe import record_openfhe
from penstock.program.running.reading import Run
from penstock.program.workloads import resnet20
from penstock.runtime.native.memory import peak_resident_bytes
from penstock.runtime.native.prepared import ClientPlace, KeyPlace, NativeRun
from penstock.runtime.native.reading import prepared_native
from penstock.scheme.params import catalogue
from penstock.scheme.traces.schema import Trace

SPEEDUP = 4.0
WALL_S = 120.0
PEAK_BYTES = 4e9
LOGITS = 1e-3
"""The largest error of a logit."""
READINGS = ("openfhe", "native")
PROGRESS_S = 30.0
"""Between two lines of progress."""


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """One reading, in this process."""
    name, size = resnet20.NAME, resnet20.SIZES[options.size]
    params = catalogue.get(size.params)
    data = resnet20.data(size, params.slots, options.seed)
    busy, own = busy_s(), own_s()
    started = time.perf_counter()
    done: Run
    if options.reading == "openfhe":
        done = record_openfhe(
            name, params, options.size, options.seed, data, threads=options.threads, on_operation=progress("openfhe")
        )
    else:
        place = KeyPlace(budget_bytes=int(parse_bytes(options.key_budget)), store=options.store)
        how = {"threads": options.threads, "keys": place, "client": ClientPlace.PROCESS}
        with prepared_native(name, params, options.size, options.seed, data, **how) as run:
            done = run(on_operation=progress("native"))
    elapsed_s = time.perf_counter() - started
    others = busy_s() - busy - (own_s() - own)
    peak = peak_resident_bytes()
    check = resnet20.check(run_clear(name, params, options.size, options.seed, data), done.result, data, size)
    row = {
        "reading": options.reading, "wall_s": done.wall_s, "server_s": done.server_s, "by_part_s": by_part(done.trace),
        "setup_s": sum(done.setup_s.values()), "encode_s": done.encode_s, "key_wait_s": done.key_load_s,
        "peak_rss_bytes": peak, "passed": check.passed, "max_abs_error": check.max_abs_error,
        "tolerance": check.tolerance, "label": data.label, "class_clear": int(check.numbers["class_relu"]),
        "class_encrypted": int(np.argmax(done.result)), "num_operations": len(done.trace.server_operations()),
        "elapsed_s": elapsed_s, "others_cpu_s": others,
    }  # fmt: skip
    if isinstance(done, NativeRun):
        traffic = done.traffic
        row |= {
            "key_budget_bytes": done.budget_bytes,
            "key_bytes": traffic.key_bytes,
            "key_read_bytes": traffic.read_bytes,
            "key_requested_bytes": traffic.requested_bytes,
            "key_read_s": traffic.read_s,
            "key_peak_resident_bytes": traffic.peak_resident_bytes,
            "kernels": done.kernels,
            "client_peak_rss_bytes": done.client_peak_rss_bytes,
            "standing_rss_bytes": done.standing_rss_bytes,
            # At one time: the client rests while the evaluator computes.
            "peak_rss_bytes": max(peak, done.standing_rss_bytes or 0),
        }
    return row


def images(options: argparse.Namespace) -> dict[str, Any]:
    """Several images natively, one after the other with one set of keys."""
    name, size = resnet20.NAME, resnet20.SIZES[options.size]
    params = catalogue.get(size.params)
    place = KeyPlace(budget_bytes=int(parse_bytes(options.key_budget)), store=options.store)
    rows: list[dict[str, Any]] = []
    with prepared_native(name, params, options.size, threads=options.threads, keys=place) as run:
        for seed in range(options.seed, options.seed + options.images):
            data = resnet20.data(size, params.slots, seed)
            done = run(data)
            check = resnet20.check(run_clear(name, params, options.size, seed, data), done.result, data, size)
            same = int(check.numbers["class_relu"]) == int(np.argmax(done.result))
            rows.append({"seed": seed, "wall_s": done.wall_s, "same": same, "max_abs_error": check.max_abs_error})
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return {"images": rows}


def by_part(trace: Trace) -> dict[str, float]:
    """Seconds in the calls of operations: in bootstrappings, in series outside them, in the rest."""
    parts = dict.fromkeys(("bootstrap", "activation", "rest"), 0.0)
    for row in trace.server_operations().to_pylist():
        if row["start_s"] is None:
            continue
        scope = row["scope"]
        part = "bootstrap" if "bootstrap" in scope else "activation" if "chebyshev" in scope else "rest"
        parts[part] += row["end_s"] - row["start_s"]
    return parts


def progress(reading: str) -> Callable[[int, int], None]:
    """Prints where a run is, now and then, on stderr."""
    began = last = time.perf_counter()

    def report(done: int, total: int) -> None:
        nonlocal last
        now = time.perf_counter()
        if now - last >= PROGRESS_S:
            last = now
            print(f"{reading}: {done} of {total} operations, {now - began:.0f} s", file=sys.stderr, flush=True)

    return report


def busy_s() -> float:
    """Processor time that all processes of this machine have had, in seconds."""
    user, nice, system = (int(each) for each in Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def own_s() -> float:
    """Processor time of this process and of those that it started and that have ended."""
    of = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in of)


def measured(reading: str, options: argparse.Namespace) -> dict[str, Any]:
    """What a process of its own measures; kept with its options, where a folder is named."""
    of_row = {"size": options.size, "threads": options.threads, "seed": options.seed}
    if reading == "native":
        of_row["key_budget"] = options.key_budget
    kept: Path | None = None if options.results is None else options.results / f"{reading}.json"
    if kept is not None and kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text())
        if found["options"] == of_row:
            print(f"{reading}: taken from {kept}", file=sys.stderr)
            return found
    done = subprocess.run(
        [sys.executable, __file__, *sys.argv[1:], "--reading", reading], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{reading}: exit status {done.returncode}")
    found = {"options": of_row, **json.loads(done.stdout.splitlines()[-1])}
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found, indent=1) + "\n")
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--size", choices=tuple(resnet20.SIZES), default="full")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--key-budget", default="3 GB")
    arguments.add_argument("--seed", type=int, default=0, help="chooses the image")
    arguments.add_argument("--images", type=int, default=0, help="classify so many natively, and nothing else")
    arguments.add_argument("--results", type=Path, help="a folder for the row of each reading; kept rows are reused")
    arguments.add_argument("--store", type=Path, help="a key store to keep; a temporary one if omitted")
    arguments.add_argument("--reading", choices=READINGS, help=argparse.SUPPRESS)
    arguments.add_argument("--format", choices=("table", "json"), default="table")
    options = arguments.parse_args()
    if options.reading is not None:
        print(json.dumps(measure(options)))
        return

    if options.images:
        rows = images(options)["images"]
        same, worst = sum(row["same"] for row in rows), max(row["max_abs_error"] for row in rows)
        print(f"{same} of {len(rows)} images have the clear network's class, logits within {worst:.1e} (measured)")
        sys.exit(0 if same == len(rows) and worst <= LOGITS else 4)

    openfhe, native = (measured(reading, options) for reading in READINGS)
    speedup = openfhe["wall_s"] / native["wall_s"]
    if options.format == "json":
        print(json.dumps({"openfhe": openfhe, "native": native, "speedup": speedup}))
    else:
        for row in (openfhe, native):
            parts = ", ".join(f"{part} {seconds:.0f}" for part, seconds in row["by_part_s"].items())
            print(
                f"{row['reading']:8} (measured) {row['wall_s']:8.1f} s ({parts}, encoding {row['encode_s']:.0f}, waits "
                f"for keys {row['key_wait_s']:.0f}), peak {row['peak_rss_bytes'] / 1e9:.2f} GB, setup "
                f"{row['setup_s']:.0f} s, class {row['class_encrypted']} (clear {row['class_clear']}), logits within "
                f"{row['max_abs_error']:.1e}, other processes {row['others_cpu_s']:.0f} s"
            )
        print(
            f"speedup {speedup:.2f} (at least {SPEEDUP}), native peak {native['peak_rss_bytes'] / 1e9:.2f} GB (at most "
            f"{PEAK_BYTES / 1e9:.0f}), {native['wall_s']:.1f} s (at most {WALL_S:.0f}), keys read "
            f"{native['key_read_bytes'] / 1e9:.1f} GB"
        )
    right = all(row["passed"] and row["class_encrypted"] == row["class_clear"] for row in (openfhe, native))
    right &= native["max_abs_error"] <= LOGITS and native["wall_s"] <= WALL_S
    if speedup < SPEEDUP or native["peak_rss_bytes"] > PEAK_BYTES or not right:
        sys.exit(4)


if __name__ == "__main__":
    main()
