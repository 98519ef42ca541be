"""Where the time and the bytes of one search went."""

from __future__ import annotations

from penstock.base.types import Row
from penstock.runtime.similarity.server import SearchAnswer
from penstock.scheme.traces.schema import Trace

COMPARE = "compare and select"
"""The step whose operations have times of their own."""
PARTS = {
    "mod_raise": "coefficients to slots",
    "cts": "coefficients to slots",
    "eval_mod": "sine",
    "compare": "comparison",
    "select": "selection",
    "tables": "selection",
}
"""Scope -> part of the large ring's work."""
REST = "between operations"


def where(answer: SearchAnswer) -> Row:
    """Seconds by part, measured, and bytes that were read and returned.

    The parts of the large ring are the times of their operations; the rest of that step is `REST`: reading payloads,
    encoding constants, waiting.
    """
    seconds = {name: value for name, value in answer.seconds.items() if name != COMPARE}
    if answer.trace is not None:
        parts = seconds_of_parts(answer.trace)
        seconds |= parts
        seconds[REST] = answer.seconds[COMPARE] - sum(parts.values())
    size = {"database": answer.database_bytes, "result": len(answer.content)}
    if answer.traffic is not None:
        size["keys"] = answer.traffic.read_bytes
    return {"seconds": seconds, "bytes": size}


def seconds_of_parts(trace: Trace) -> dict[str, float]:
    """Seconds of the operations of each part; an operation outside of every scope belongs to the comparison."""
    seconds = dict.fromkeys(PARTS.values(), 0.0)
    columns = (trace.operations[name].to_pylist() for name in ("scope", "start_s", "end_s"))
    for scope, start, end in zip(*columns, strict=True):
        if start is not None:
            seconds[PARTS.get(scope.split("[")[0], "comparison")] += end - start
    return seconds
