"""The cost of sharing a result: its precision once it is flooded with noise that hides the key.

The noise follows from a worst-case bound on the error (`penstock.program.evaluator.bounding`) and the number of
decryptions (`penstock.program.evaluator.flooding`). The program then runs again with the noise of its operations and of
the flooding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.base.types import Row
from penstock.errors import PenstockError
from penstock.lab.prediction.precision import DRAWS, Precision, ProgramAtSet, predict_precision
from penstock.program.evaluator.bounding import BoundingEvaluator, Decryption
from penstock.program.evaluator.call import Cipher, Executed
from penstock.program.evaluator.clear import ClearResults
from penstock.program.evaluator.flooding import STATISTICAL_BITS, TAIL, advantage_bits, flooding_std
from penstock.program.evaluator.noise import NoiseModel
from penstock.program.evaluator.noisy import NoisyEvaluator
from penstock.program.evaluator.protocol import Values
from penstock.program.running.readings import READINGS
from penstock.scheme.params.ckks import CkksParameters

HOLDS, FAILS, DROWNS, OUTGROWS = "holds", "fails", "drowns", "outgrows"
"""The verdicts: the result passes the program's check; it does not; the noise is as large as the result; the modulus
does not hold the noise."""
_LESS_NOISE = (
    "take a larger scale, make a new key pair after fewer decryptions, or keep the result with the owner of the key"
)
_REMEDIES = {
    HOLDS: "",
    FAILS: _LESS_NOISE,
    DROWNS: _LESS_NOISE,
    OUTGROWS: "decrypt with more limbs left (a set of more depth, or a program that ends earlier), scale the data "
    "down, or make a new key pair after fewer decryptions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """The noise of one decrypted ciphertext."""

    limbs: int
    scale: float
    error_bound: float
    """Worst case of the root mean square of the error's values, in all slots of the ring."""
    std: float
    """Standard deviation of each coefficient's noise, in units of the ciphertext."""
    needed_bits: float
    """log2 of the modulus that the values and the noise need."""
    held_bits: float
    """log2 of the modulus at `limbs`."""

    @property
    def fits(self) -> bool:
        """Whether the modulus holds the values and the noise."""
        return self.needed_bits < self.held_bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The precision of a program's result, without and with flooding."""

    kept: Precision
    """For the owner of the key alone."""
    flooded: Precision | None
    """For others; `None`: the modulus does not hold the noise."""
    floods: tuple[Flood, ...]
    """One for each ciphertext that the program decrypts."""
    queries: int
    """Runs whose results others learn."""
    statistical_bits: int

    @property
    def worst(self) -> Flood:
        """The decryption whose noise is largest over its scale."""
        return max(self.floods, key=lambda flood: flood.std / flood.scale)

    @property
    def verdict(self) -> str:
        """One of `HOLDS`, `FAILS`, `DROWNS` and `OUTGROWS`."""
        if self.flooded is None:
            return OUTGROWS
        rms = float(np.median([draw.rms_error for draw in self.flooded.draws]))
        if not rms < self.kept.largest_value:  # no number: a client that divides by noise
            return DROWNS
        return HOLDS if all(draw.check.passed for draw in self.flooded.draws) else FAILS

    def to_row(self) -> Row:
        """The row of the precision, with the columns of the flooding."""
        row, worst = self.kept.to_row(), self.worst
        flooded: Row = {} if self.flooded is None else self.flooded.to_row()
        kept, with_noise = row["precision_bits"], flooded.get("precision_bits")
        return {
            **row,
            "queries": self.queries, "decryptions": self.queries * len(self.floods),
            "statistical_bits": self.statistical_bits, "advantage_bits": advantage_bits(self.statistical_bits),
            "error_bound": worst.error_bound, "flooding_std": worst.std, "needed_bits": worst.needed_bits,
            "held_bits": worst.held_bits, "shared_bits": with_noise,
            "shared_rms_error": flooded.get("rms_error"), "shared_max_error": flooded.get("high_max_error"),
            "shared_checks_passed": flooded.get("checks_passed"),
            "lost_bits": None if kept is None or with_noise is None else kept - with_noise,
            "verdict": self.verdict, "remedy": _REMEDIES[self.verdict],
        }  # fmt: skip


def predict_shared(
    given: ProgramAtSet,
    *,
    reading: str = "openfhe",
    draws: int = DRAWS,
    queries: int = 1,
    statistical_bits: int = STATISTICAL_BITS,
    on_draw: Callable[[int, int], None] | None = None,
) -> Shared:
    """The errors of a program for the key's owner and for others.

    Args:   queries: runs under one key pair whose results others learn; each counts as many decryptions as the program
            has. The others as of `predict_precision`.
    Raises: as `predict_precision`; ParamsError: the program bootstraps.
    """
    kept = predict_precision(given, reading=reading, draws=draws, on_draw=on_draw)
    ours = READINGS[reading].expands
    floods = _floods(given, queries, statistical_bits, exact_ratio=ours)
    flooded = None
    if all(flood.fits for flood in floods):
        done = [
            given.drawn(_FloodedEvaluator(given.params, [given.seed, index], floods, exact_ratio=ours))
            for index in range(draws)
        ]
        flooded = given.precision(done, "predicted")
    return Shared(kept=kept, flooded=flooded, floods=floods, queries=queries, statistical_bits=statistical_bits)


def _floods(given: ProgramAtSet, queries: int, statistical_bits: int, *, exact_ratio: bool) -> tuple[Flood, ...]:
    """The noise of each ciphertext that the program decrypts, in its order."""
    bounding = BoundingEvaluator(given.params, exact_ratio=exact_ratio)
    clear = ClearResults(given.params)
    for evaluator in (bounding, clear):
        given.workload.program(evaluator, given.data, given.chosen)
    if len(bounding.decryptions) != len(clear.results) or not clear.results:
        raise PenstockError(
            f"{given.workload.NAME}: decrypts {len(bounding.decryptions)} ciphertexts, and {len(clear.results)} in the "
            "clear: a result that is shared is decrypted, and the course of a program may not depend on it"
        )
    count = queries * len(clear.results)
    pairs = zip(bounding.decryptions, clear.results, strict=True)
    return tuple(_flood(bounding.model, decryption, exact, count, statistical_bits) for decryption, exact in pairs)


def _flood(model: NoiseModel, decryption: Decryption, exact: Values, queries: int, statistical_bits: int) -> Flood:
    # Drift of scales and rounded numbers are not secret, but flooding stands for noise on the exact result.
    drift = float(np.sqrt(np.mean(np.abs(decryption.values - exact) ** 2)))
    bound, ring_dim = decryption.bound + drift, model.params.ring_dim
    std = flooding_std(bound * decryption.scale / math.sqrt(ring_dim), ring_dim, queries, statistical_bits)
    # A coefficient is at most the largest value, and one of an error at most its norm.
    largest = (float(np.max(np.abs(exact), initial=0.0)) + bound) * decryption.scale + TAIL * std
    return Flood(
        limbs=decryption.limbs,
        scale=decryption.scale,
        error_bound=bound,
        std=std,
        needed_bits=1 + math.log2(largest),
        held_bits=model.log2_modulus(decryption.limbs),
    )


class _FloodedEvaluator(NoisyEvaluator):
    """The noisy reading, whose decryption adds the given noise instead of OpenFHE's."""

    def __init__(
        self, params: CkksParameters, seed: list[int], floods: tuple[Flood, ...], *, exact_ratio: bool
    ) -> None:
        super().__init__(params, seed, exact_ratio=exact_ratio, own_client=exact_ratio)
        self._floods = iter(floods)

    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        _, made = self.before_flooding(a)
        values, flood = self._values(made), next(self._floods)
        # A value sums the noise of 2 n coefficients, for n slots. Its real part has half of that variance.
        deviation = flood.std * math.sqrt(len(values)) / made.scale
        noisy = values.real + deviation * self._random.standard_normal(len(values))
        return noisy.astype(np.complex128), Executed(a.state)
