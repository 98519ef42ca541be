"""The times of a program's client: to encode vectors, to encrypt plaintexts and to decrypt ciphertexts.

Each task is its kernel work (`kernels`: transforms and element-wise work) at the machine's fitted rates, plus work that
the kernel algebra does not count. That is the transform between slots and coefficients, sampling of noise, reduction
modulo each prime, and the interpolation of limbs to integers of many words. Their costs are fitted to the primitives
`encode`, `encrypt` and `decrypt`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.scheme.machines.figure import Figure
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.work.kernel_work import KernelWork
from penstock.scheme.work.shapes import Shape, shape_work

ENCODE, ENCRYPT, DECRYPT = "encode", "encrypt", "decrypt"


@dataclass(frozen=True, slots=True)
class TaskTerm:
    """A part of a task: how many of its measure there are at (set, limbs, threads)."""

    measure: str
    amount: Callable[[CkksParameters, int, int], float]


def _butterflies(params: CkksParameters, limbs: int, threads: int) -> float:
    return params.slots / 2 * math.log2(max(params.slots, 2))


def _coefficients(params: CkksParameters, limbs: int, threads: int) -> float:
    return float(params.ring_dim)


def _filled(params: CkksParameters, limbs: int, threads: int) -> float:
    return 2.0 * params.slots  # fewer slots than half the ring leave gaps, which are skipped


def _residues(params: CkksParameters, limbs: int, threads: int) -> float:
    return float(params.ring_dim * limbs)


def _residues_shared(params: CkksParameters, limbs: int, threads: int) -> float:
    return params.ring_dim * limbs * (1 - 1 / min(threads, limbs))  # a loop over limbs


def _integers(params: CkksParameters, limbs: int) -> float:
    # One limb is read directly; of several, each coefficient becomes an integer of many words.
    return float(params.ring_dim) if limbs > 1 else 0.0


def _summands(params: CkksParameters, limbs: int) -> float:
    return limbs * _integers(params, limbs)


def _divided(amount: Callable[[CkksParameters, int], float]) -> Callable[[CkksParameters, int, int], float]:
    return lambda params, limbs, threads: amount(params, limbs) / threads


def _shared(amount: Callable[[CkksParameters, int], float]) -> Callable[[CkksParameters, int, int], float]:
    return lambda params, limbs, threads: amount(params, limbs) * (1 - 1 / threads)


TERMS: Mapping[str, Mapping[str, TaskTerm]] = {
    ENCODE: {
        "slots": TaskTerm("butterfly", _butterflies),
        "coefficients": TaskTerm("coeff", _filled),
        "residues": TaskTerm("coeff", _residues),
        "residues_shared": TaskTerm("coeff", _residues_shared),
    },
    ENCRYPT: {
        "sampling": TaskTerm("coeff", _coefficients),
        "residues": TaskTerm("coeff", _residues),
        "residues_shared": TaskTerm("coeff", _residues_shared),
    },
    DECRYPT: {
        "slots": TaskTerm("butterfly", _butterflies),
        "coefficients": TaskTerm("coeff", _filled),
        "integers": TaskTerm("coeff", _divided(_integers)),
        "integers_shared": TaskTerm("coeff", _shared(_integers)),
        "summands": TaskTerm("summand", _divided(_summands)),
        "summands_shared": TaskTerm("summand", _shared(_summands)),
    },
}
"""Task -> its terms besides kernel work. `integers` and `summands` belong to the interpolation, which threads divide.
Names that end in `_shared` are costs of each element in other threads at the same time (see
`scheme/machines/parallel.py`). Every coefficient of several limbs becomes an integer of many words, the sum of one
product a limb. The cost of a product does not grow with the words. This model meets timings at 1 to 23 limbs to 6 % at
held-out ring dimensions; the square of the limbs instead of both terms misses by 42 %. The `coefficients` of encoding
and decoding are the used ones, two a slot: OpenFHE 1.6.1 rounds and scales no others (ckkspackedencoding.cpp, `Encode`
and `Decode`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientModel:
    """Costs of the client's tasks besides their kernel work."""

    costs: Mapping[str, Mapping[str, Figure]]
    """Task -> term -> seconds of one; a term that is left out costs nothing."""
    log_sd: float = 0.0
    """Standard deviation of the logarithm of the time of one task."""

    def besides(self, task: str, params: CkksParameters, limbs: int, threads: int) -> float:
        """Seconds of one task at so many limbs and threads, without its kernel work."""
        terms = TERMS[task]
        return math.fsum(
            figure.value * terms[term].amount(params, limbs, threads) for term, figure in self.costs[task].items()
        )


def task_work(task: str, params: CkksParameters, limbs: int) -> KernelWork:
    """The kernel work of a task. Encoding is a transform a limb."""
    if task == ENCODE:
        return KernelWork(ring_dim=params.ring_dim, limb_transforms=limbs, transform_loops=((limbs, 1),))
    return shape_work(Shape(task, limbs, limbs, 0, 0, 2), params)
