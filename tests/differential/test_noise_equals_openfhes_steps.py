"""The noise model against slow twins: scales of the native evaluator, polynomials evaluated term by term."""

from __future__ import annotations

import math

import numpy as np
import pytest

from penstock.program.evaluator.noise import NoiseModel, coefficients_of, ones_in_slots, slots_of
from penstock.runtime.native.engine import make_context
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import Scaling
from penstock.scheme.params.primes import openfhe_primes
from penstock.scheme.params.spec import CkksSpec, spec_of

SMALL = catalogue.get("insecure-small")


def with_scaling(scaling: str, **changes):
    written = {**spec_of(SMALL).model_dump(), "scaling": scaling, "name": "small", **changes}
    return CkksSpec(**written).build()


@pytest.mark.parametrize("scaling", [each.value for each in Scaling])
def test_scales_are_those_of_the_native_evaluator_to_the_last_bit(scaling):
    params = with_scaling(scaling)
    model, engine = NoiseModel(params), make_context(params)
    assert [model.scale(limbs) for limbs in range(1, params.num_q + 1)] == [
        engine.scale_at(limbs) for limbs in range(1, params.num_q + 1)
    ]


@pytest.mark.parametrize("slots", [1, 2, 8, 32])
def test_values_in_slots_are_the_polynomial_at_powers_of_five(slots):
    coefficients = np.random.default_rng(slots).normal(size=2 * slots)
    by_hand = [
        sum(c * np.exp(1j * np.pi * i * pow(5, j, 4 * slots) / (2 * slots)) for i, c in enumerate(coefficients))
        for j in range(slots)
    ]
    assert slots_of(coefficients) == pytest.approx(np.array(by_hand))
    assert coefficients_of(slots_of(coefficients)) == pytest.approx(coefficients)
    assert ones_in_slots(slots) == pytest.approx(slots_of(np.ones(2 * slots)))


def test_a_key_switch_adds_up_digit_by_digit():
    params = catalogue.get("insecure-ci")
    q, p = openfhe_primes(params)
    model, ring = NoiseModel(params), params.ring_dim
    for limbs in (1, 4, 5, 6, params.num_q):
        total = 0.0
        for digit in range(params.active_digits(limbs)):
            primes = q[digit * params.digit_limbs : min((digit + 1) * params.digit_limbs, limbs)]
            # A digit over P is a sum of as many uniform numbers, in units of its modulus over P.
            size = float(np.float64(math.prod(primes) / math.prod(p)))
            draws = np.random.default_rng(digit).uniform(size=(100_000, len(primes))).sum(axis=1) * size
            total += ring * 3.19**2 * float(np.mean(draws**2))
        assert model.key_switch(limbs) == pytest.approx(total, rel=0.02)


def test_rounding_and_encryption_are_what_sampling_gives():
    """Coefficients of v e + e_0 + e_1 s, and of r_0 + r_1 s, sampled."""
    params = with_scaling("fixed-manual")
    ring, random = params.ring_dim, np.random.default_rng(0)

    def times(a, b):
        """Modulo X^N + 1."""
        full = np.fft.irfft(np.fft.rfft(a, 2 * ring) * np.fft.rfft(b, 2 * ring), 2 * ring)
        return full[:ring] - full[ring:]

    def ternary():
        return random.integers(-1, 2, ring).astype(float)

    def error():
        return np.rint(random.normal(0, 3.19, ring))

    encryption, rounding = [], []
    for _ in range(20):
        secret = ternary()
        encryption.append(np.mean((times(ternary(), error()) + error() + times(error(), secret)) ** 2))
        uniform = random.uniform(-0.5, 0.5, (2, ring))
        rounding.append(np.mean((uniform[0] + times(uniform[1], secret)) ** 2))
    model = NoiseModel(params)
    assert model.encryption == pytest.approx(np.mean(encryption), rel=0.05)
    assert model.rounding == pytest.approx(np.mean(rounding), rel=0.05)
