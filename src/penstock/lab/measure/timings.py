"""The times of a recorded run's operations in Google Benchmark's format: what `penstock predict fit` reads.

A call counts if it is a primitive that other programs have too: it worked off nothing pending, and it is not a part
that only circuits use.
"""

from __future__ import annotations

from penstock.base.types import Row, Rows
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.traces.schema import Trace

_BY_KIND = {primitive.kind: name for name, primitive in PRIMITIVES.items() if primitive.kind is not None}


def benchmark_of(trace: Trace, threads: int) -> Row:
    """One entry a call, `rotate/params:openfhe-demo/limbs:14/omp_threads:1`; equal calls are repetitions.

    Args:   threads: inside one operation.
    """
    table = trace.server_operations()
    names = ("kind", "limbs_in", "limbs_out", "implied_rescales", "implied_scalar_mults", "start_s", "end_s")
    entries: Rows = []
    seen: dict[str, int] = {}
    for kind, limbs, limbs_out, rescales, scalars, start, end in zip(
        *(table[n].to_pylist() for n in names), strict=True
    ):
        name = _BY_KIND.get(kind)
        if name is None or TRAITS[OpKind(kind)].composite or start is None or not end > start:
            continue
        if rescales or scalars or limbs_out != limbs - (name == "rescale"):
            continue
        label = f"{name}/params:{trace.meta.params['name']}/limbs:{limbs}/omp_threads:{threads}"
        index = seen.get(label, 0)
        seen[label] = index + 1
        entries.append(
            {"name": label, "run_name": label, "run_type": "iteration", "repetition_index": index, "iterations": 1,
             "real_time": end - start, "time_unit": "s"}
        )  # fmt: skip
    meta = trace.meta
    context = {"executable": "penstock", "workload": meta.workload, "reading": meta.reading, "size": meta.size}
    return {"context": context, "benchmarks": entries}
