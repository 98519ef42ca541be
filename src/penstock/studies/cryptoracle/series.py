"""OpenFHE 1.2.4's Chebyshev series, where it differs from 1.6: a weighted sum rescales the powers themselves.

`EvalLinearWSumMutable` brings the powers that it sums to one level in place, so only the first sum of a series pays
for that; 1.6 copies them first.
Source: OpenFHE 1.2.4, `ckksrns-advancedshe.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.program.circuits.openfhe.series import Coefficients, Series, degree_of
from penstock.program.rows import Cipher
from penstock.studies.cryptoracle.scaling import UnfoldedEvaluator


@dataclass(slots=True)
class OlderSeries(Series):
    """A series under automatic scaling."""

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
