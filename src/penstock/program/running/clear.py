"""The `clear` reading: the program on plain vectors, the reference that the others are held to."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.running.reading import Reading, resolve
from penstock.scheme.params.ckks import CkksParameters


def run_clear(
    name: str, params: str | CkksParameters | None = None, size: str | None = None, seed: int = 0, data: object = None
) -> Any:
    """The result of a workload on plain vectors."""
    workload, size_name, checked = resolve(name, params, size)
    chosen = workload.SIZES[size_name]
    data = workload.data(chosen, checked.slots, seed) if data is None else data
    with np.errstate(over="ignore", invalid="ignore"):  # what outgrows a double is refused at its decryption
        return workload.program(ClearEvaluator(checked), data, chosen)


READING = Reading(
    name="clear",
    meaning="on plain vectors",
    returns="the result",
    records=False,
    verb="run",
    read=run_clear,
    evaluator=lambda params, expected: nullcontext(ClearEvaluator(params)),
)
