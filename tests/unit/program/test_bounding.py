"""The bound on a result's error: above every draw, tight where it can be, and linear where errors depend."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ParamsError, PenstockError
from penstock.program.evaluator.bounding import BoundingEvaluator, ErrorNorms
from penstock.program.evaluator.noise import SIGMA, NoiseModel, slots_of
from penstock.program.evaluator.noisy import NoisyEvaluator
from penstock.program.running.reading import resolve
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import Scaling
from penstock.scheme.params.secrets import SPARSE_WEIGHT
from penstock.scheme.params.spec import CkksSpec, spec_of

SMALL = catalogue.get("insecure-small")
LOOSE_BITS = 12
"""How far the bound of one operation may be above the draws."""


def with_scaling(scaling, **changes):
    return CkksSpec(**{**spec_of(SMALL).model_dump(), "scaling": scaling, **changes}).build()


class Recording(NoisyEvaluator):
    """Keeps what a decryption has before the library adds noise to it."""

    def __init__(self, params, seed):
        super().__init__(params, seed)
        self.found = []

    def _decrypt(self, a):
        self.found.append(self._values(self.before_flooding(a)[1]))
        return super()._decrypt(a)


def off_by(found, bounds):
    """The root mean square of the errors of each result."""
    pairs = zip(found, bounds, strict=True)
    return [float(np.sqrt(np.mean(np.abs(got - bound.values) ** 2))) for got, bound in pairs]


def results_of(ev, slots):
    """What each operation gives, decrypted."""
    random = np.random.default_rng(1)
    x, y = np.linspace(-1, 1, slots), random.uniform(-1, 1, slots)
    a, b = ev.encrypt(x), ev.encrypt(y)
    product = ev.rescale(ev.mult(a, b))
    power = b
    for _ in range(3):
        power = ev.rescale(ev.square(power))
    twice = ev.rescale(ev.mult(product, ev.encode(y)))
    made = {
        "encrypt": a,
        "add": ev.add(a, b),
        "add a plaintext": ev.add(a, ev.encode(y)),
        "subtract from a number": ev.sub(1.5, a),
        "mult": product,
        "mult a number": ev.rescale(ev.mult(product, 0.3)),
        "mult a plaintext": twice,
        "add a number to a product": ev.rescale(ev.add(ev.mult(a, b), 0.7)),
        "add at two levels": ev.add(a, product),
        "mult at two levels": ev.rescale(ev.mult(a, twice)),
        "not relinearized": ev.rescale(ev.relinearize(ev.mult_no_relin(a, b))),
        "squares": power,
        "dropped": ev.mod_drop(product, 2),
        "rotate": ev.rotate(product, 3),
        "rotate hoisted": ev.rotate_many(product, [1, 3])[1],
        "conjugate": ev.conjugate(product),
        "negate": ev.negate(product),
        "series": ev.chebyshev_series(a, [0.1, 0.5, 0.2, -0.3, 0.1, 0.2], -1, 1),
    }
    return {name: ev.decrypt(each) for name, each in made.items()}


@pytest.mark.parametrize("secret", ["uniform-ternary", "sparse-ternary"])
@pytest.mark.parametrize("scaling", [each.value for each in Scaling])
def test_no_draw_of_any_operation_is_above_its_bound(scaling, secret):
    params = with_scaling(scaling, secret=secret)
    bounding = BoundingEvaluator(params)
    names = list(results_of(bounding, params.slots))
    draws = []
    for seed in range(5):
        noisy = Recording(params, seed)
        results_of(noisy, params.slots)
        draws.append(off_by(noisy.found, bounding.decryptions))
    for name, bound, errors in zip(names, bounding.decryptions, zip(*draws, strict=True), strict=True):
        assert max(errors) < bound.bound < 2.0**LOOSE_BITS * max(errors), name


def test_dependent_errors_add_up_in_full():
    """The attack on estimates that take them as independent: there 64 copies would have 8 times the error."""
    ev = BoundingEvaluator(SMALL)
    x = ev.encrypt(np.full(SMALL.slots, 0.01))
    one, total = x.value.bound, x
    for _ in range(6):
        total = ev.add(total, total)
    assert total.value.bound == pytest.approx(64 * one)
    copies = x
    for _ in range(63):
        copies = ev.add(copies, x)
    assert copies.value.bound == pytest.approx(64 * one)


def test_a_product_follows_the_values_of_its_factors():
    ev = BoundingEvaluator(SMALL)
    a, b = ev.encrypt(np.full(SMALL.slots, 0.5)), ev.encrypt(np.full(SMALL.slots, -3.0))
    product = ev.mult_no_relin(a, b)
    second_order = np.sqrt(SMALL.ring_dim) * a.value.bound * b.value.bound
    assert product.value.bound == pytest.approx(0.5 * b.value.bound + 3.0 * a.value.bound + second_order)
    scaled = ev.mult(a, 4.0)
    assert scaled.value.bound == pytest.approx(4 * a.value.bound)


def test_a_ciphertext_less_itself_has_no_error():
    ev = BoundingEvaluator(SMALL)
    x = ev.encrypt(np.ones(SMALL.slots))
    assert ev.sub(x, x).value.bound == 0.0
    assert ev.rotate(ev.sub(x, x), 1).value.bound == 0.0


@pytest.mark.parametrize("secret", ["uniform-ternary", "sparse-ternary"])
def test_norms_are_above_those_of_polynomials_that_are_drawn(secret):
    params = with_scaling(SMALL.scaling.value, secret=secret)
    norms, ring_dim, random = ErrorNorms(NoiseModel(params)), params.ring_dim, np.random.default_rng(3)
    for _ in range(20):
        drawn = random.integers(-1, 2, ring_dim).astype(float)
        if secret == "sparse-ternary":
            drawn = np.zeros(ring_dim)
            places = random.choice(ring_dim, SPARSE_WEIGHT, replace=False)
            drawn[places] = random.choice([-1.0, 1.0], SPARSE_WEIGHT)
        assert np.max(np.abs(slots_of(drawn))) < norms.secret < 8 * np.max(np.abs(slots_of(drawn)))
        error = np.rint(random.normal(0, SIGMA, ring_dim))
        assert np.max(np.abs(slots_of(error))) < norms.error_value < 8 * np.max(np.abs(slots_of(error)))
        assert np.linalg.norm(error) < norms.error < 2 * np.linalg.norm(error)
        ternary = random.integers(-1, 2, ring_dim).astype(float)
        other, small = np.rint(random.normal(0, SIGMA, (2, ring_dim)))
        fresh = slots_of(ternary) * slots_of(error) + slots_of(other) + slots_of(small) * slots_of(drawn)
        size = np.sqrt(np.mean(np.abs(fresh) ** 2))
        assert size < norms.encryption < 8 * size
        rounding = random.uniform(-0.5, 0.5, (2, ring_dim))
        both = slots_of(rounding[0]) + slots_of(rounding[1]) * slots_of(drawn)
        assert np.sqrt(np.mean(np.abs(both) ** 2)) < norms.rounding(2)


def test_a_norm_of_coefficients_is_the_root_mean_square_of_values_and_products_obey_it():
    """Against a product of polynomials modulo X^N + 1, one coefficient after another."""
    random, size = np.random.default_rng(5), 32
    for _ in range(50):
        m, e = random.normal(size=(2, size))
        product = np.zeros(size)
        for i in range(size):
            for j in range(size):
                product[(i + j) % size] += m[i] * e[j] * (1 if i + j < size else -1)
        assert np.linalg.norm(e) == pytest.approx(np.sqrt(np.mean(np.abs(slots_of(e)) ** 2)))
        assert np.linalg.norm(product) <= np.max(np.abs(slots_of(m))) * np.linalg.norm(e) * (1 + 1e-12)
        assert np.max(np.abs(slots_of(e))) <= np.sqrt(size) * np.linalg.norm(e)


@pytest.mark.parametrize("name", ["inner-product", "logistic-function", "hdc-classify", "chi-square"])
def test_no_draw_of_a_program_is_above_its_bound(name):
    workload, size, params = resolve(name, None, "ci")
    chosen = workload.SIZES[size]
    data = workload.data(chosen, params.slots, 0)
    bounding = BoundingEvaluator(params)
    workload.program(bounding, data, chosen)
    for seed in range(3):
        noisy = Recording(params, seed)
        workload.program(noisy, data, chosen)
        errors = off_by(noisy.found, bounding.decryptions)
        assert all(error < bound.bound for error, bound in zip(errors, bounding.decryptions, strict=True))


def test_a_refresh_has_no_bound():
    workload, size, params = resolve("bootstrapping", None, "ci")
    data = workload.data(workload.SIZES[size], params.slots, 0)
    with pytest.raises(ParamsError, match="no worst-case bound of a refresh is known"):
        workload.program(BoundingEvaluator(params), data, workload.SIZES[size])


def test_a_step_without_a_bound_is_an_error_and_a_bound_that_outgrows_doubles_is_one():
    ev = BoundingEvaluator(SMALL)
    x = ev.encrypt(np.ones(SMALL.slots))
    x.value.bound = float("nan")
    with pytest.raises(PenstockError, match="no bound on the error of 'negate' is known"):
        ev.negate(x)
    x.value.bound = 1e308
    with pytest.raises(ParamsError, match="outgrows doubles at 'add'"):
        ev.add(x, x)


def test_every_leveled_workload_has_a_bound():
    bounded = 0
    for name in ("matrix-multiplication", "logistic-regression", "sign-evaluation", "ssc"):
        workload, size, params = resolve(name, None, "ci")
        ev = BoundingEvaluator(params)
        workload.program(ev, workload.data(workload.SIZES[size], params.slots, 0), workload.SIZES[size])
        assert ev.decryptions
        bounded += all(np.isfinite(each.bound) and each.bound > 0 for each in ev.decryptions)
    assert bounded == 4
