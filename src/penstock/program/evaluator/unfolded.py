"""The `trace` reading with automatic scaling written out: every implied product and rescale has a row.

A row of the ordinary trace notes how many rescales and scalar products a call implies, and pricing takes each of them
at one limb more than the call. The library does them where the operand is: the product of a fresh T_1 with a polynomial
ten levels down scales and rescales eleven limbs. For a program that mixes levels as CryptOracle's do, the difference is
several per cent of its time.
Source: OpenFHE 1.2.4, `ckksrns-leveledshe.cpp` (AdjustLevelsAndDepthInPlace), the version that the data was taken with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.circuits.openfhe.division import Coefficients, degree_of
from penstock.program.evaluator.circuits.openfhe.series import SeriesCircuit
from penstock.program.evaluator.rows import MULTIPLICATIONS
from penstock.program.evaluator.scaling import ScaleState
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import Scaling

RELEASE = "1.2.4"
"""Of OpenFHE, whose steps these are."""
SCOPE = "scaling"
"""Rows under this scope are the library's, not the program's; the scope inside it is the call that they prepare."""


class UnfoldedEvaluator(SymbolicEvaluator):
    """Operands are brought together by rows in scope `scaling`; composites are expanded in place."""

    plaintexts_at_level = False
    """Whether the program encodes plaintexts at the limbs where it uses them, and not at all limbs."""

    def _two(self, kind: OpKind, a: Cipher, b: Cipher, **details: Any) -> Cipher:
        if self.params.scaling is Scaling.FLEXIBLE_AUTO:
            with self.scope(SCOPE), self.scope(kind.value):
                a, b = self.met(a, b)
                if kind in MULTIPLICATIONS and a.state.degree == 2:
                    # An operand that is used twice is copied, and both copies are rescaled.
                    a, b = self.rescaled(a), self.rescaled(b)
        return super()._two(kind, a, b, **details)

    def _one(self, kind: OpKind, a: Cipher, **details: Any) -> Cipher:
        if self.params.scaling is Scaling.FLEXIBLE_AUTO and kind in MULTIPLICATIONS and a.state.degree == 2:
            with self.scope(SCOPE), self.scope(kind.value):
                a = self.rescaled(a)
        all_limbs = details.get("plain") is not None and not self.plaintexts_at_level
        if self.params.scaling is Scaling.FLEXIBLE_AUTO and all_limbs:
            with self.scope(SCOPE), self.scope(kind.value):
                self.met(self._encoded(), a)
        return super()._one(kind, a, **details)

    def _encoded(self) -> Cipher:
        """A plaintext as the library takes it: one polynomial at all limbs, which each call brings down anew."""
        limbs = self.params.num_q
        return Cipher(self.builder.ciphertext(limbs, 1), ScaleState(limbs, 1), 1)

    def chebyshev_series(self, a: Cipher, coefficients: Sequence[float], lower: float, upper: float) -> Cipher:
        with self.builder.open_scope("chebyshev", modelled=True):
            return older_series(self, a, coefficients, lower, upper)

    def met(self, a: Cipher, b: Cipher) -> tuple[Cipher, Cipher]:
        """Both at the limbs and degree of the lower one, step by step."""
        if a.state.limbs < b.state.limbs:
            b, a = self.met(b, a)
            return a, b
        high, low = a.state, b.state
        if high.limbs == low.limbs:
            if high.degree < low.degree:
                a = self._scaled(a)
            elif low.degree < high.degree:
                b = self._scaled(b)
            return a, b
        if high.degree == 2 and low.degree == 1 and high.limbs == low.limbs + 1:
            return self.rescaled(a), b
        a = self._scaled(a)
        if high.degree == 2:
            a = self.rescaled(a)
            if low.degree == 2:
                return self._dropped(a, low.limbs), b
        elif low.degree == 2:
            return self._dropped(a, low.limbs), b
        return self.rescaled(self._dropped(a, low.limbs + 1)), b

    def _scaled(self, a: Cipher) -> Cipher:
        """Times a number that evens out the scales; a rescale or nothing follows."""
        return self._step(OpKind.MULT_SCALAR, a, ScaleState(a.state.limbs, a.state.degree + 1))

    def rescaled(self, a: Cipher) -> Cipher:
        return self._step(OpKind.RESCALE, a, ScaleState(a.state.limbs - 1, a.state.degree - 1))

    def _dropped(self, a: Cipher, limbs: int) -> Cipher:
        return a if a.state.limbs == limbs else self._step(OpKind.MOD_DROP, a, ScaleState(limbs, a.state.degree))

    def _step(self, kind: OpKind, a: Cipher, state: ScaleState) -> Cipher:
        output = self.builder.ciphertext(state.limbs, min(a.polynomials, 3))
        limbs_in = a.state.limbs
        self.builder.add(kind, limbs_in=limbs_in, limbs_out=state.limbs, operands=(a.object_id,), output=output)
        return Cipher(output, state, a.polynomials)


@dataclass(slots=True)
class OlderSeries(SeriesCircuit):
    """OpenFHE 1.2.4's Chebyshev series under automatic scaling: a weighted sum rescales the powers themselves.

    `EvalLinearWSumMutable` brings the powers that it sums to one level in place, so only the first sum of a series pays
    for that; 1.6 copies them first.
    Source: OpenFHE 1.2.4, `ckksrns-advancedshe.cpp`.
    """

    ev: UnfoldedEvaluator

    def _weighted_sum(self, weights: Coefficients) -> Cipher:
        ev, powers, n = self.ev, self.powers, len(weights)
        lowest = min(range(n), key=lambda i: (powers[i].state.limbs, -powers[i].state.degree, -i))
        for i in range(n):
            if i != lowest:
                powers[i], _ = ev.met(powers[i], powers[lowest])
        if powers[lowest].state.degree == 2:
            powers[:n] = [ev.rescaled(power) for power in powers[:n]]
        total = ev.mult(powers[0], weights[0])
        for power, weight in zip(powers[1:n], weights[1:], strict=True):
            total = ev.add(total, ev.mult(power, weight))
        return total

    def _adjusted(self, a: Cipher, to: Cipher) -> Cipher:
        return self.ev.met(a, to)[0]


def older_series(ev: UnfoldedEvaluator, x: Cipher, coefficients: Sequence[float], lower: float, upper: float) -> Cipher:
    """Sum of c_k T_k over [lower, upper] by Paterson–Stockmeyer, for degrees from 5 on."""
    series = OlderSeries(ev, True)
    if (lower, upper) != (-1.0, 1.0):
        x = series.mapped(x, lower, upper)
    return series.paterson_stockmeyer(x, list(coefficients)[: degree_of(coefficients) + 1])
