"""The `noisy` reading: the program on plain vectors, with one draw of the noise of OpenFHE's operations."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from penstock.program.evaluator.noisy import NoisyEvaluator
from penstock.program.running.reading import Reading, resolve
from penstock.scheme.params.ckks import CkksParameters


def run_noisy(
    name: str, params: str | CkksParameters | None = None, size: str | None = None, seed: int = 0, data: object = None
) -> Any:
    """The result of a workload with noise; `seed` is of the data and of the noise.

    Raises: UnknownName; ParamsError: the set is not for OpenFHE, the program is deeper than it, or its values outgrow
            the modulus or drown in noise.
    """
    workload, size_name, checked = resolve(name, params, size)
    chosen = workload.SIZES[size_name]
    data = workload.data(chosen, checked.slots, seed) if data is None else data
    with np.errstate(over="ignore", invalid="ignore"):  # what outgrows a double is refused at its decryption
        return workload.program(NoisyEvaluator(checked, seed), data, chosen)


READING = Reading(
    name="noisy",
    meaning="on plain vectors, with the noise that each operation would add",
    returns="the result of one draw of the noise",
    expands=True,
    verb="run",
    read=run_noisy,
    evaluator=lambda params, expected: nullcontext(NoisyEvaluator(params)),
)
