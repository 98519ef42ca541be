"""The estimate of sparse secrets' security against published estimates, and the tail of the sine's range."""

from __future__ import annotations

import math

import numpy as np
import pytest

from penstock.params import security
from penstock.params.encapsulated_security import MARGIN_BITS, SPARSE_BOUNDS, encapsulated_level, sparse_bound
from penstock.params.overflow import least_range, overflow_log2, tail
from penstock.params.sparse_security import BDGL16, LISTS, estimate

# The lattice estimator (github.com/malb/lattice-estimator) with its cost model BDGL16: one attack each.
ESTIMATOR = [
    (2**15, 819.0, 192, "primal", 138.1),
    (2**15, 819.0, 192, "primal-hybrid", 128.5),
    (2**16, 1726.0, 320, "primal", 131.6),
    (2**16, 1726.0, 320, "primal-hybrid", 128.5),
]
# The best entry of the official similarity benchmark states these bits, and no cost model. The third is the dual hybrid
# attack by the sparse-LWE estimator (github.com/malb/lattice-estimator, issue 82).
PUBLISHED = [(2**16, 1721.0, 1024, 128.1), (2**14, 82.0, 32, 128.1), (2**14, 361.0, 128, 129.0)]


@pytest.mark.parametrize(("ring_dim", "log_q", "weight", "attack", "bits"), ESTIMATOR)
def test_an_attack_costs_as_the_lattice_estimator_says(
    ring_dim: int, log_q: float, weight: int, attack: str, bits: float
) -> None:
    found = {each.name: each.log2_cost for each in estimate(ring_dim, log_q, weight, BDGL16).attacks}
    assert found[attack] == pytest.approx(bits, abs=0.7)


@pytest.mark.parametrize(("ring_dim", "log_q", "weight", "bits"), PUBLISHED)
def test_the_estimate_is_within_its_margin_of_published_levels(
    ring_dim: int, log_q: float, weight: int, bits: float
) -> None:
    assert abs(estimate(ring_dim, log_q, weight, LISTS).bits - bits) <= MARGIN_BITS


def test_lattigos_sparse_sets_keep_128_bits() -> None:
    for ring_dim, log_qp in ((2**16, 1546.0), (2**16, 1553.0), (2**15, 768.0)):
        assert estimate(ring_dim, log_qp, 192).bits - MARGIN_BITS >= 128


def test_fewer_coefficients_and_a_longer_modulus_are_easier() -> None:
    base = estimate(2**15, 700.0, 192).bits
    assert estimate(2**15, 700.0, 64).bits < base
    assert estimate(2**15, 800.0, 192).bits < base


def test_the_tail_equals_the_published_failure_probabilities() -> None:
    assert round(overflow_log2(2**16, 32, 16), 1) == -138.7  # Lattigo's N16QP1546H192H32
    assert round(overflow_log2(2**15, 32, 16), 1) == -139.7  # Lattigo's N15QP768H192H32


def test_the_tail_equals_a_simulation() -> None:
    drawn = np.random.default_rng(0).uniform(-0.5, 0.5, (400_000, 9)).sum(axis=1)
    assert float(tail(8, 2)) == pytest.approx(float(np.mean(np.abs(drawn) > 2)), rel=0.05)


def test_no_multiple_lies_outside_half_the_weight() -> None:
    assert overflow_log2(2**16, 32, 17) == -math.inf
    assert least_range(2**16, 32) == 15


def test_openfhes_sparse_secret_overflows_too_often() -> None:
    assert overflow_log2(2**16, 192, 28) > -64


@pytest.mark.parametrize(
    ("weight", "ring_dim", "level"), [(192, 2**16, 128), (32, 2**16, 128), (32, 2**15, 128), (192, 2**14, 192)]
)
def test_the_bounds_of_sparse_secrets_are_where_the_estimate_and_its_margin_end(
    weight: int, ring_dim: int, level: int
) -> None:
    bound = sparse_bound(ring_dim, weight, level)
    for log_q, holds in ((bound, True), (bound + 1, False)):
        assert (estimate(ring_dim, float(log_q), weight, LISTS).bits - MARGIN_BITS >= level) is holds
    assert bound < (security.GUIDELINES_2024.max_log_qp(ring_dim, level) or 0)


def test_bounds_grow_with_the_ring_and_the_weight() -> None:
    for of_ring in SPARSE_BOUNDS.values():
        for level in security.LEVELS:
            bounds = [each.get(level, 0) for _, each in sorted(of_ring.items())]
            assert bounds == sorted(bounds)
    assert all(sparse_bound(n, 32, 128) < sparse_bound(n, 192, 128) for n in SPARSE_BOUNDS[32])


def test_both_secrets_count() -> None:
    level, note = encapsulated_level(2**16, 1700, 120, "uniform-encapsulated")
    assert level == 128
    assert "weight 32" in note
    assert encapsulated_level(2**16, 1700, 900, "uniform-encapsulated")[0] == 0
    assert encapsulated_level(2**16, 1740, 120, "sparse-encapsulated")[0] == 0
