"""Packages beside the same programs through the Python evaluator, call by call: seconds, memory, opening.

    .venv/bin/python benchmarks/bench_packages.py [--only small|large|open] [--repeat 5] [--threads 2] [--format json]

Each program runs in one process with one set of keys in memory, in turn as a package (compiled once, as a server
does) and call by call; the ratio is the median over the pairs. Words of the results are equal in both, as
`tests/differential/test_whole_programs.py` holds. `large` is N = 2^16, `small` is N = 2^13. Memory: what was predicted
before a run, over what the process took.

Targets: at N = 2^16 a package takes at most 1.02 of the time, at 2^13 at most 0.90; ResNet-20's opens in 0.5 s; memory
is predicted within 10 %. Exits with 4 where one is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.base.system.host import available_cores
from penstock.program.package.capture import capture
from penstock.program.package.content import ConstantsInMemory
from penstock.program.package.file import PackageFile, open_package
from penstock.program.package.replay import run_package
from penstock.program.running.packaging import package_workload
from penstock.program.running.reading import describe, resolve
from penstock.program.running.trace import trace_workload
from penstock.runtime.native.prepared import ClientPlace, KeyPlace, Prepared
from penstock.runtime.native.whole import compile_whole, run_whole
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters

LARGE = (("cnn", "full"), ("matrix-multiplication", "d8"), ("logistic-function", "full"))
SMALL = (("cnn", "ci"), ("matrix-multiplication", "ci"), ("logistic-regression", "ci"), ("logistic-function", "ci"))
TARGETS = {"large": 1.02, "small": 0.90}
OPEN_S = 0.5
MEMORY = 0.10


def parameters(params: CkksParameters, ring: str) -> CkksParameters:
    """The set of a size, or a small one at N = 2^13."""
    if ring == "large":
        assert params.ring_dim == 1 << 16, params.ring_dim
        return params
    found = replace(params, name=f"{params.name}-8192", ring_dim=1 << 13, slots=1 << 12)
    catalogue.adopt(found)
    return found


def compare(name: str, size: str, ring: str, options: argparse.Namespace) -> dict[str, Any]:
    """One program, both ways in turn."""
    workload, size_name, own = resolve(name, None, size)
    params, chosen = parameters(own, ring), workload.SIZES[size_name]
    data = workload.data(chosen, params.slots, 0)
    inputs: dict[str, Any] = {}
    package = capture(lambda ev: workload.program(ev, data, chosen), params, ConstantsInMemory(), name)
    for given, values in zip(package.inputs, encrypted(workload, data, chosen, params), strict=True):
        inputs[given.name] = values[: given.length]
    meta = describe(workload.NAME, params, "native", size_name, 0)
    calls, wholes, room = [], [], []
    with ExitStack() as stack:
        trace = trace_workload(name, params, size_name, 0, data)
        inside = (ClientPlace.INSIDE, None)
        prepared = Prepared(params, trace, KeyPlace(), inside, options.threads, stack)
        compiled = compile_whole(prepared, lambda ev: run_package(ev, package, inputs), meta, options.lanes)
        for turn in range(options.repeat + 1):
            one = prepared.run(lambda ev: workload.program(ev, data, chosen), meta)
            whole = run_whole(prepared, compiled)
            if turn:  # the first of each makes tables
                calls.append(one.wall_s)
                wholes.append(whole.wall_s)
                room.append(whole.predicted_peak_bytes / whole.peak_bytes - 1)
    return {
        "program": name,
        "size": size_name,
        "ring_dim": params.ring_dim,
        "tasks": len(package.instructions),
        "call_by_call_s": statistics.median(calls),
        "package_s": statistics.median(wholes),
        "compile_s": whole.setup_s["compile_s"],
        "ratio": statistics.median(b / a for a, b in zip(calls, wholes, strict=True)),
        "lanes": whole.lanes,
        "memory_error": statistics.median(room),
        "target": TARGETS[ring],
    }


class Listening:
    """Keeps what a program encrypts."""

    def __init__(self, ev: Any) -> None:
        self._ev, self.values = ev, list[Any]()

    def encrypt(self, values: Any, *, name: str | None = None) -> Any:
        self.values.append(values)
        return self._ev.encrypt(values, name=name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ev, name)


def encrypted(workload: Any, data: Any, size: Any, params: CkksParameters) -> list[Any]:
    """The vectors that a program encrypts, in order."""
    from penstock.program.evaluator.clear import ClearEvaluator

    ev = Listening(ClearEvaluator(params))
    workload.program(ev, data, size)
    return ev.values


def opening() -> dict[str, Any]:
    """ResNet-20's package: its bytes, and the seconds to open it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet20.pkg"
        with PackageFile(path) as file:
            file.finish(package_workload("resnet20", size="full", sink=file))
        times = []
        for _ in range(5):
            started = time.perf_counter()
            found = open_package(path)
            times.append(time.perf_counter() - started)
        return {
            "program": "resnet20",
            "size": "full",
            "bytes": path.stat().st_size,
            "instructions": len(found.instructions),
            "constants": len(found.constants),
            "open_s": statistics.median(times),
            "target": OPEN_S,
        }


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", choices=["small", "large", "open"])
    arguments.add_argument("--repeat", type=int, default=5)
    arguments.add_argument("--threads", type=int, default=available_cores())
    arguments.add_argument("--lanes", type=int, help="operations side by side (default: by cost)")
    arguments.add_argument("--format", choices=["table", "json"], default="table")
    options = arguments.parse_args()
    rows = []
    for ring, programs in (("small", SMALL), ("large", LARGE)):
        if options.only in (None, ring):
            rows += [compare(name, size, ring, options) for name, size in programs]
    if options.only in (None, "open"):
        rows.append(opening())
    missed = [
        each
        for each in rows
        if each.get("ratio", each.get("open_s")) > each["target"] or abs(each.get("memory_error", 0.0)) > MEMORY
    ]
    if options.format == "json":
        print(json.dumps(rows))
    else:
        for each in rows:
            print(
                ", ".join(
                    f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                    for key, value in each.items()
                )
            )
    return 4 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
