"""What recording costs: the same encrypted run with and without a trace, in turn, on the same keys.

    .venv/bin/python benchmarks/bench_recording.py [--size demo|ci] [--runs 5] [--format json]

Two figures: the ratio of whole runs, pair by pair, which carries the machine's noise; and the time that the recorder
itself takes, measured by playing the same calls into it without cryptography, over the time of the encrypted run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

from penstock.program import workloads
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.openfhe.evaluator import OpenFheContext, OpenFheEvaluator, needed_keys, set_threads
from penstock.program.running.trace import trace_workload
from penstock.scheme.operations import OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.traces.builder import TraceBuilder


class DiscardingBuilder(TraceBuilder):
    """A builder that keeps nothing: the run without a trace."""

    def add_object(self, cls: str, limbs: int, num_bytes: int, name: str | None = None) -> int:
        return 0

    def add(self, kind: OpKind, **row: Any) -> int:
        return 0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--workload", default="logistic-regression")
    arguments.add_argument("--size", default="ci")
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--format", choices=("table", "json"), default="table")
    options = arguments.parse_args()

    workload = workloads.get(options.workload)
    size = workload.SIZES[options.size]
    params = catalogue.get(size.params)
    data = workload.data(size, params.slots, 0)
    trace = trace_workload(options.workload, params, options.size)
    steps, relinearize, conjugate = needed_keys(trace.key_ids(), trace.operations["step"].to_pylist())
    set_threads(options.threads)
    context = OpenFheContext.create(params, rotation_steps=steps, relinearize=relinearize, conjugate=conjugate)

    def run(builder: TraceBuilder) -> float:
        evaluator = OpenFheEvaluator(context, builder)
        started = time.perf_counter()
        workload.program(evaluator, data, size)
        return time.perf_counter() - started

    run(TraceBuilder(params))
    ratios, recorded, bare = [], [], []
    for index in range(options.runs):
        # The order alternates, so that a drift of the machine's speed does not favour one side.
        builders = [TraceBuilder(params), DiscardingBuilder(params)]
        times = {}
        for builder in builders if index % 2 == 0 else builders[::-1]:
            times[type(builder)] = run(builder)
        recorded.append(times[TraceBuilder])
        bare.append(times[DiscardingBuilder])
        ratios.append(recorded[-1] / bare[-1])

    def recorder_s() -> float:
        evaluator = SymbolicEvaluator(params)
        started = time.perf_counter()
        workload.program(evaluator, workload.blank(size, params.slots), size)
        return time.perf_counter() - started

    own = min(recorder_s() for _ in range(options.runs))
    result = {
        "workload": options.workload, "size": options.size, "params": params.name, "num_operations": len(trace),
        "threads": options.threads, "with_recording_s": statistics.median(recorded),
        "without_recording_s": statistics.median(bare), "ratio_median": statistics.median(ratios),
        "ratio_min": min(ratios), "ratio_max": max(ratios),
        "recorder_s": own, "recorder_s_per_operation": own / len(trace),
        "recorder_share_of_run": own / statistics.median(bare), "provenance": "measured",
    }  # fmt: skip
    if options.format == "json":
        print(json.dumps(result, indent=2))
        return
    for name, value in result.items():
        print(f"{name:28} {value:.6g}" if isinstance(value, float) else f"{name:28} {value}")


if __name__ == "__main__":
    main()
