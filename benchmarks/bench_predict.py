"""The speed of predictions: one program, and what-if studies of thousands, beside the path through a trace.

    .venv/bin/python benchmarks/bench_predict.py [--runs 5] [--format json]

Times are measured, wall clock, on this machine; what is predicted does not matter here (the machine is `sharp`).
`count` reads the program without rows, `trace` builds the trace and prices it; both are run in turn in the same
process, after imports, and give the same seconds, which is checked. `first` is the first call in the process, with
nothing kept from earlier ones. The command is a process of its own, imports included. What-if studies run once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.base.system.host import available_cores
from penstock.lab.prediction.prediction import predict
from penstock.lab.prediction.whatif import WhatIfAxes, Workload, what_if
from penstock.program.running import trace_workload
from penstock.program.running.counting import count_workload
from penstock.scheme.machines import load_machine
from penstock.scheme.params import catalogue
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.play.price import price_trace

PROGRAMS = (("resnet20", None, "full"), ("resnet20-multiplexed", "sharp", None), ("logistic-regression", "sharp", None))
TARGETS_S = {
    "resnet20": 0.5,
    "resnet20-multiplexed": 0.5,
    "what-if, one trace": 10.0,
    "what-if, own traces": 60.0,
    "what-if, 1,000 traces": 60.0,
}
SHARP = load_machine("sharp")


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = call()
    return time.perf_counter() - started, result


def measure_program(name: str, params: str | None, size: str | None, runs: int) -> dict[str, Any]:
    def counted() -> Any:
        return predict(count_workload(name, params, size), SHARP)

    def traced() -> Any:
        return price_trace(trace_workload(name, params, size), SHARP)

    first_s, prediction = timed(counted)
    counts, traces = [], []
    for _ in range(runs):
        counts.append(timed(counted)[0])
        trace_s, priced = timed(traced)
        traces.append(trace_s)
    if abs(priced.ideal_s / prediction.predicted_s - 1) > 1e-9:
        raise SystemExit(f"{name}: {priced.ideal_s} s by the trace, {prediction.predicted_s} s by counting")
    return {
        "what": name, "first_s": first_s, "count_s": statistics.median(counts), "trace_s": statistics.median(traces),
        "ratio": statistics.median(traces) / statistics.median(counts), "operations": prediction.num_operations,
        "samples_s": counts, "provenance": "measured",
    }  # fmt: skip


def measure_command(name: str, params: str | None, size: str | None, runs: int) -> dict[str, Any]:
    words = ["predict", "run", name, "--machine", "sharp", "--format", "json"]
    words += ["--params", params] if params else []
    words += ["--size", size] if size else []
    program = [sys.executable, "-c", "import sys; from penstock.front.cli.main import main; sys.exit(main())", *words]
    taken = [timed(lambda: subprocess.run(program, check=True, capture_output=True))[0] for _ in range(runs)]
    return {
        "what": f"command, {name}",
        "process_s": statistics.median(taken),
        "samples_s": taken,
        "provenance": "measured",
    }


def measure_studies(workers: int) -> list[dict[str, Any]]:
    program = Workload(name="resnet20", size="full", params=catalogue.get("openfhe-resnet20"))
    one = WhatIfAxes(dnum=(3, 4, 5, 7, 9), key_form=(KeyForm.FULL, KeyForm.SEEDED), threads=tuple(range(1, 1001)))
    # 156 programs to be read, each with its own chain; digits change the kernel work and the memory of each.
    own = WhatIfAxes(
        ring_dim=(2**15, 2**16, 2**17), depth=tuple(range(26, 78)), dnum=(1, 2, 3, 4, 5, 6, 7), security=(0,)
    )
    # A chain and a bootstrap placement each.
    alone = replace(own, dnum=(), depth=tuple(range(26, 26 + 334)))
    rows = []
    for what, axes in (
        ("what-if, one trace", one),
        ("what-if, own traces", own),
        ("what-if, 1,000 traces", alone),
    ):
        taken, found = timed(lambda axes=axes: what_if(program, axes, [SHARP], workers=workers))  # type: ignore[misc]
        possible = [row for row in found if row["reason"] is None]
        if axes is alone and len(possible) < 1000:
            raise SystemExit(f"{what}: only {len(possible)} of {len(found)} are possible: {found[-1]['reason']}")
        rows.append(
            {
                "what": what, "study_s": taken, "configurations": len(found), "possible": len(possible),
                "distinct_times": len({row["predicted_s"] for row in possible}), "workers": workers,
                "bootstraps": sorted({row["bootstraps"] for row in possible}), "provenance": "measured",
            }
        )  # fmt: skip
    return rows


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--workers", type=int, default=available_cores())
    arguments.add_argument("--format", choices=("table", "json"), default="table")
    options = arguments.parse_args()

    programs = [measure_program(*program, options.runs) for program in PROGRAMS]
    commands = [measure_command(*program, options.runs) for program in PROGRAMS[:2]]
    studies = measure_studies(options.workers)
    targets = []
    for row in [*programs, *studies]:
        if row["what"] in TARGETS_S:
            taken = row.get("first_s", row.get("study_s"))
            targets.append(
                {"what": row["what"], "target_s": TARGETS_S[row["what"]], "met": taken <= TARGETS_S[row["what"]]}
            )
    if options.format == "json":
        host = {"machine": platform.machine(), "python": platform.python_version(), "cpus": os.cpu_count()}
        rows = [*programs, *commands, *studies]
        print(json.dumps({"options": vars(options), "host": host, "rows": rows, "targets": targets}, indent=2))
        return
    print("a prediction, measured: counting beside the trace in the same run")
    for row in programs:
        print(
            f"{row['what']:22} first {row['first_s']:.3f} s, then {row['count_s']:.3f} s; by its trace "
            f"{row['trace_s']:.3f} s ({row['ratio']:.1f}x), {row['operations']:,} operations"
        )
    for row in commands:
        print(f"{row['what']:22} {row['process_s']:.2f} s, the whole process")
    for row in studies:
        print(
            f"{row['what']:22} {row['study_s']:.1f} s for {row['configurations']:,} configurations "
            f"({row['possible']:,} possible, {row['distinct_times']:,} different times), {row['workers']} processes"
        )
    for target in targets:
        print(f"target {target['what']}: {target['target_s']:g} s: {'met' if target['met'] else 'MISSED'}")


if __name__ == "__main__":
    main()
