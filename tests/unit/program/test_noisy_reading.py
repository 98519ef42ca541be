"""The noisy reading: the program's arithmetic and nothing else where noise is off, errors that are clear."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import ParamsError, PenstockError
from penstock.program import workloads
from penstock.program.evaluator.noise import NoiseModel
from penstock.program.evaluator.noisy import NoisyEvaluator
from penstock.program.running.clear import run_clear
from penstock.program.running.reading import resolve
from penstock.scheme.params import catalogue
from penstock.scheme.params.spec import CkksSpec, spec_of

SMALL = catalogue.get("insecure-small")


class Silent(NoiseModel):
    """Scales and primes, no noise."""

    encryption = rounding = mod_down = mod_down_second = mod_down_mean = 0.0

    def key_switch(self, limbs: int) -> float:
        return 0.0

    @property
    def overflow(self) -> float:  # raising the modulus adds its multiples all the same
        return NoiseModel(self.params).rounding


class SilentEvaluator(NoisyEvaluator):
    def __init__(self, params):
        super().__init__(params)
        self.model = Silent(params)

    def _encoding(self, slots, state):
        return 0.0


MINUTES = {"resnet20", "resnet20-multiplexed", "cryptoracle-resnet20", "sorting-three-way", "sorting-k-way"}
"""Networks, and what sorts as `sorting` does."""
SMALL_RING = {"fetch-by-similarity"}
"""Not of OpenFHE's evaluation: `test_small_ring.py` has its noise."""


@pytest.mark.parametrize("name", sorted(set(workloads.names()) - MINUTES - SMALL_RING))
def test_without_noise_it_is_the_clear_reading(name):
    workload, size, params = resolve(name, None, "ci")
    data = workload.data(workload.SIZES[size], params.slots, 0)
    clear = run_clear(name, params, size, 0, data)
    got = workload.program(SilentEvaluator(params), data, workload.SIZES[size])
    # What is left: primes that are not the scale, under manual scaling, and what the sine of a refresh bends.
    largest = np.nanmax(np.abs(clear))
    assert np.array_equal(np.isnan(got), np.isnan(clear))
    assert np.nanmax(np.abs(got - clear)) <= (1e-4 if params.scale_bits < 30 else 2e-5) * largest
    assert workload.check(clear, got, data, workload.SIZES[size]).passed


def test_under_flexible_scaling_nothing_at_all_is_left_without_noise():
    params = CkksSpec(**{**spec_of(SMALL).model_dump(), "scaling": "flexible-auto"}).build()
    workload, size, _ = resolve("inner-product", params, "ci")
    data = workload.data(workload.SIZES[size], params.slots, 0)
    clear = run_clear("inner-product", params, size, 0, data)
    got = workload.program(SilentEvaluator(params), data, workload.SIZES[size])
    # The library's decryption adds noise of its own, never less than its floor.
    floor = 0.125 * np.sqrt(params.ring_dim) * np.sqrt(2 * params.slots) / 2.0**params.scale_bits
    error = np.sqrt(np.mean(np.abs(got - clear) ** 2))
    assert error == pytest.approx(floor, rel=0.3)


def test_a_seed_gives_the_same_noise_and_another_one_other_noise():
    def run(seed):
        ev = NoisyEvaluator(SMALL, seed)
        return ev.decrypt(ev.rotate(ev.encrypt(np.ones(8)), 3))

    assert np.array_equal(run(1), run(1))
    assert not np.array_equal(run(1), run(2))


def test_one_ciphertext_has_one_noise():
    ev = NoisyEvaluator(SMALL)
    a = ev.encrypt(np.ones(SMALL.slots))
    assert np.max(np.abs(ev.decrypt(ev.sub(a, a)))) < 1e-11  # the floor of decryption only
    assert np.max(np.abs(ev.decrypt(ev.sub(a, ev.encrypt(np.ones(SMALL.slots)))))) > 1e-11


def test_noise_of_a_rotation_is_largest_in_slot_0():
    """A key switch leaves multiples of P, whose mean is alike in all coefficients: large near ζ = 1."""
    params = catalogue.get("openfhe-filter")
    errors = []
    for seed in range(20):
        ev = NoisyEvaluator(params, seed)
        errors.append(np.abs(ev.decrypt(ev.rotate(ev.encrypt(np.zeros(1)), 5)).real))
    mean = np.mean(errors, axis=0)
    assert int(np.argmax(mean)) == 0
    assert mean[0] > 10 * np.median(mean)


def test_values_that_outgrow_the_modulus_are_refused():
    """The first prime has 60 bits and the scale 50: it holds values up to 2^9."""
    ev = NoisyEvaluator(SMALL)
    small, large = (ev.mod_drop(ev.encrypt(np.full(SMALL.slots, value)), 1) for value in (500.0, 520.0))
    assert ev.decrypt(small).real == pytest.approx(500.0)
    with pytest.raises(ParamsError, match="values up to 520 outgrow the modulus at 1 limb of set 'insecure-small'"):
        ev.decrypt(large)


def test_values_that_drown_in_noise_are_refused():
    ev = NoisyEvaluator(SMALL)
    a = ev.mult(ev.rescale(ev.mult(ev.encrypt(np.ones(8)), 2.0**-19)), 2.0**-19)
    a.value.drawn = a.value.drawn + 1j * 2.0**60  # noise that no operation makes so large
    with pytest.raises(ParamsError, match="too large to be noise"):
        ev.decrypt(a)


def test_what_openfhe_refuses_is_refused():
    ev = NoisyEvaluator(SMALL)
    with pytest.raises(PenstockError, match="real numbers only"):
        ev.mult(ev.encrypt(np.ones(8)), 1j)
    for use in (ev.encrypt, lambda values: ev.mult(ev.encrypt(np.ones(8)), ev.encode(values))):
        with pytest.raises(PenstockError, match="drop the imaginary parts"):
            use(np.full(8, 1j))
    a = ev.mod_drop(ev.encrypt(np.ones(8)), 1)
    with pytest.raises(ParamsError, match="deeper than the parameters"):
        ev.rescale(ev.square(a))


def test_accelerators_have_no_primes():
    with pytest.raises(ParamsError, match="'sharp' is an accelerator's"):
        NoisyEvaluator(catalogue.get("sharp"))


def test_an_error_grows_with_the_secret_and_the_special_primes():
    sparse = replace(SMALL, secret="sparse-ternary")
    assert NoiseModel(sparse).rounding < NoiseModel(SMALL).rounding / 5
    assert NoiseModel(SMALL).mod_down == pytest.approx(3 * NoiseModel(SMALL).rounding)


@pytest.mark.parametrize("scaling", ["flexible-auto", "flexible-auto-ext"])
def test_a_dropped_operand_keeps_its_scale_and_its_product_with_a_plaintext_claims_another(scaling):
    """OpenFHE's product says the scale of its level; the operand's own was that of the level it fell from."""
    params = CkksSpec(**{**spec_of(SMALL).model_dump(), "scaling": scaling}).build()
    ev, ones = SilentEvaluator(params), np.ones(params.slots)
    model, once = ev.model, ev.mod_drop(ev.mult(ev.encrypt(ones), 1.0), 3)
    own = once.value.scale
    assert own != model.scale(3)
    product = ev.mult(once, ev.encode(ones)).value
    assert product.scale == model.scale(3, 2)
    assert product.drawn.real == pytest.approx(ones * own / model.scale(3), abs=1e-12)
    # A sum brings the other operand to the scale that the dropped one says.
    total = ev.add(ev.encrypt(ones), once).value
    assert total.scale == own
    assert total.drawn.real == pytest.approx(ones * (1 + model.scale(3) / own), abs=1e-12)


@pytest.mark.parametrize("scaling", ["fixed-manual", "fixed-auto"])
def test_a_rescale_divides_by_the_last_prime_that_the_operand_has(scaling):
    params = CkksSpec(**{**spec_of(SMALL).model_dump(), "scaling": scaling}).build()
    ev = SilentEvaluator(params)
    a = ev.encrypt(np.ones(params.slots))
    product, num_q = ev.mult(a, 1.0), params.num_q
    if scaling == "fixed-manual":
        lowest = ev.mod_drop(product, 3)
        got = {num_q: ev.rescale(product), 3: ev.rescale(lowest)}
    else:
        # The product meets an operand two limbs below: rescaled where it is, then cut.
        got = {num_q: ev.sub(product, ev.mod_drop(ev.encrypt(np.zeros(params.slots)), num_q - 2))}
    for limbs, made in got.items():
        assert ev.model.drift(limbs) != 1
        assert made.value.drawn.real == pytest.approx(np.full(params.slots, ev.model.drift(limbs)), rel=1e-13)


def test_a_ciphertext_less_itself_has_no_noise_and_no_key_to_switch():
    ev = NoisyEvaluator(SMALL)
    a = ev.encrypt(np.ones(SMALL.slots))
    nothing = ev.add(ev.sub(a, a), 0.5)
    assert np.array_equal(ev.rotate(nothing, 3).value.drawn, np.roll(nothing.value.drawn, -3))
    assert nothing.value.pending == 0
    assert np.any(ev.rotate(a, 3).value.pending)
