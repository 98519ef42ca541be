"""What the client of a program takes: to encode vectors, to encrypt plaintexts and to decrypt ciphertexts.

Each task is its kernel work (`kernels`: transforms and element-wise work) at the machine's fitted rates, and
what the kernel algebra does not count: the transform between slots and coefficients, sampling of noise, reduction
modulo each prime, and the interpolation of limbs to integers of many words. Their costs are fitted to the primitives
`encode`, `encrypt` and `decrypt`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from penstock.errors import MachineError
from penstock.fit.regression import Floats, robust_nnls
from penstock.params.ckks import CkksParameters
from penstock.work.kernel_work import KernelWork
from penstock.work.shapes import Shape, shape_work

if TYPE_CHECKING:
    from penstock.fit.measurements import Measurement
    from penstock.machines.schema import Figure, Machine

ENCODE, ENCRYPT, DECRYPT = "encode", "encrypt", "decrypt"
ONE_SD = 68.27
"""Percentage of a normal distribution within one standard deviation."""
MIN_SD = 0.005


@dataclass(frozen=True, slots=True)
class Term:
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
    # One limb is read as it is; of several, each coefficient becomes an integer of many words.
    return float(params.ring_dim) if limbs > 1 else 0.0


def _summands(params: CkksParameters, limbs: int) -> float:
    return limbs * _integers(params, limbs)


def _divided(amount: Callable[[CkksParameters, int], float]) -> Callable[[CkksParameters, int, int], float]:
    return lambda params, limbs, threads: amount(params, limbs) / threads


def _shared(amount: Callable[[CkksParameters, int], float]) -> Callable[[CkksParameters, int, int], float]:
    return lambda params, limbs, threads: amount(params, limbs) * (1 - 1 / threads)


TERMS: Mapping[str, Mapping[str, Term]] = {
    ENCODE: {
        "slots": Term("butterfly", _butterflies),
        "coefficients": Term("coeff", _filled),
        "residues": Term("coeff", _residues),
        "residues_shared": Term("coeff", _residues_shared),
    },
    ENCRYPT: {
        "sampling": Term("coeff", _coefficients),
        "residues": Term("coeff", _residues),
        "residues_shared": Term("coeff", _residues_shared),
    },
    DECRYPT: {
        "slots": Term("butterfly", _butterflies),
        "coefficients": Term("coeff", _filled),
        "integers": Term("coeff", _divided(_integers)),
        "integers_shared": Term("coeff", _shared(_integers)),
        "summands": Term("summand", _divided(_summands)),
        "summands_shared": Term("summand", _shared(_summands)),
    },
}
"""Task -> its terms besides kernel work. `integers` and `summands` are of the interpolation, which threads divide; what
ends in `_shared` is what each element costs that other threads do meanwhile (see `penstock.machines.parallel`). Every
coefficient of several limbs becomes an integer of many words, the sum of one product a limb. What a product costs does
not grow with the words: timings at 1 to 23 limbs are met to 6 % at ring dimensions that were left out, and to 42 % with
the square of the limbs in the place of both terms. The `coefficients` of encoding and decoding are those that hold
values, two a slot: OpenFHE 1.6.1 rounds and scales no others (ckkspackedencoding.cpp, `Encode` and `Decode`)."""


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

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Every value with its path in the machine's file."""
        for task, terms in self.costs.items():
            for term, figure in terms.items():
                yield f"client.{task}.{term}", figure


def task_work(task: str, params: CkksParameters, limbs: int) -> KernelWork:
    """The kernel work of a task. Encoding is a transform a limb."""
    if task == ENCODE:
        return KernelWork(ring_dim=params.ring_dim, limb_transforms=limbs, transform_loops=((limbs, 1),))
    return shape_work(Shape(task, limbs, limbs, 0, 0, 2), params)


def fit_client(measurements: Iterable[Measurement], machine: Machine) -> ClientModel | None:
    """The costs that meet the warm timings of the client's tasks; `None` where one of the three was not timed.

    Args:   machine: fitted already: kernel work is priced on it.
    """
    timed: dict[str, list[Measurement]] = {task: [] for task in TERMS}
    for m in measurements:
        if m.group == "primitives" and m.condition == "warm" and m.item in timed and _limbs(m) is not None:
            timed[m.item].append(m)
    costs, deviations = {}, []
    for task, found in timed.items():
        fitted = _fit_task(task, found, machine)
        if fitted is None:
            return None
        costs[task], errors = fitted
        deviations.append(errors)
    sd = float(np.percentile(np.abs(np.concatenate(deviations)), ONE_SD))
    return ClientModel(costs=costs, log_sd=max(float(f"{sd:.4g}"), MIN_SD))


def _fit_task(task: str, timed: list[Measurement], machine: Machine) -> tuple[dict[str, Figure], Floats] | None:
    """Term -> cost, and (n,) residuals of the logarithm: at ring dimensions that were left out, where there are three;
    else of the fit, widened by what the terms took up."""
    from penstock.machines.schema import Evidence, Figure

    terms = TERMS[task]
    known, rows, seconds, rings = [], [], [], []
    for m in timed:
        limbs = _limbs(m)
        try:
            at = machine.at(m.threads)
        except MachineError:
            continue
        assert limbs is not None
        known.append(at.price(task_work(task, m.params, limbs)).seconds)
        rows.append([term.amount(m.params, limbs, m.threads) for term in terms.values()])
        seconds.append(m.seconds)
        rings.append(m.params.ring_dim)
    used = [any(row[i] for row in rows) for i in range(len(terms))]
    if len(rows) <= sum(used):
        return None
    columns, measured, kernels = np.asarray(rows), np.asarray(seconds), np.asarray(known)
    found = robust_nnls(columns, measured, np.ones(len(rows)), known=kernels).coefficients
    errors = np.log((kernels + columns @ found) / measured) * math.sqrt(len(rows) / (len(rows) - sum(used)))
    unseen = _held_out(columns, measured, kernels, np.asarray(rings), sum(used))
    source = f"fitted to {len(rows)} timings of '{task}', beside its kernel work at the fitted rates"
    figures = {
        name: Figure(
            value=float(f"{cost * 1e9:.6g}") * 1e-9,
            text=f"{cost * 1e9:.6g} ns/{term.measure}",
            source=source,
            kind=Evidence.CALIBRATED,
        )
        for (name, term), cost in zip(terms.items(), found.tolist(), strict=True)
        if cost > 0
    }
    return figures, errors if unseen is None else unseen


def _held_out(
    columns: Floats, measured: Floats, kernels: Floats, rings: npt.NDArray[np.int64], terms: int
) -> Floats | None:  # fmt: skip
    """(n,) residuals at each ring dimension of the fit to the others; `None` with fewer than three of them."""
    values = np.unique(rings)
    if len(values) < 3 or min((rings != value).sum() for value in values) <= terms:
        return None
    errors = np.zeros(len(measured))
    for value in values:
        rest, here = rings != value, rings == value
        ones = np.ones(int(rest.sum()))
        found = robust_nnls(columns[rest], measured[rest], ones, known=kernels[rest]).coefficients
        errors[here] = np.log((kernels[here] + columns[here] @ found) / measured[here])
    return errors


def _limbs(m: Measurement) -> int | None:
    return m.shape.limbs_in if m.shape is not None else m.limbs
