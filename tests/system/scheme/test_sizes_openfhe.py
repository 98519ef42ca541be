"""Sizes, primes and security checks against the real library: what penstock says before, OpenFHE does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from penstock.errors import ParamsError
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.params.primes import openfhe_primes
from penstock.scheme.params.sizes import serialized_ciphertext_bytes, serialized_key_bytes, size_report
from penstock.scheme.params.spec import CkksSpec

TOLERANCE = 1e-3
TECHNIQUES = {scaling: scaling.name.replace("_", "") for scaling in Scaling}


@pytest.fixture
def library(openfhe: ModuleType) -> Iterator[ModuleType]:
    """OpenFHE with no key registered, before and after."""
    clear(openfhe)
    yield openfhe
    clear(openfhe)


def clear(openfhe: ModuleType) -> None:
    openfhe.CryptoContext.ClearEvalAutomorphismKeys()
    openfhe.ClearEvalMultKeys()
    openfhe.ReleaseAllContexts()


def context(openfhe: ModuleType, params: CkksParameters, *, security: int = 0, ring_dim: int | None = None) -> Any:
    asked = openfhe.CCParamsCKKSRNS()
    asked.SetSecurityLevel(getattr(openfhe, f"HEStd_{security}_classic" if security else "HEStd_NotSet"))
    if ring_dim != 0:
        asked.SetRingDim(ring_dim or params.ring_dim)
    asked.SetMultiplicativeDepth(params.depth)
    asked.SetFirstModSize(params.first_mod_bits)
    asked.SetScalingModSize(params.scale_bits)
    asked.SetScalingTechnique(getattr(openfhe, TECHNIQUES[params.scaling]))
    asked.SetNumLargeDigits(params.dnum)
    asked.SetBatchSize(params.slots)
    asked.SetSecretKeyDist(openfhe.UNIFORM_TERNARY)
    made = openfhe.GenCryptoContext(asked)
    for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE, openfhe.ADVANCEDSHE):
        made.Enable(feature)
    return made


def primes_of(openfhe: ModuleType, made: Any) -> tuple[int, ...]:
    """The primes of Q as the context serializes them."""

    def search(node: Any) -> Any:
        if isinstance(node, dict):
            if "elp" in node:
                return node["elp"]
            return next((found for child in node.values() if (found := search(child)) is not None), None)
        return None

    chain = search(json.loads(openfhe.Serialize(made, openfhe.JSON)))
    return tuple(limb["ptr_wrapper"]["data"]["value0"]["cm"]["v"] for limb in chain["ptr_wrapper"]["data"]["p"])


def toy(ring_dim: int, depth: int, dnum: int, scale_bits: int, scaling: Scaling) -> CkksParameters:
    return CkksSpec(
        name="insecure-grid",
        ring_dim=ring_dim,
        slots=8,
        depth=depth,
        dnum=dnum,
        scale_bits=scale_bits,
        scaling=scaling,
        security="none",
    ).build()


GRID = [
    (2**12, 1, 2, 40, Scaling.FIXED_MANUAL),
    (2**12, 2, 2, 59, Scaling.FLEXIBLE_AUTO),
    (2**12, 3, 4, 50, Scaling.FIXED_AUTO),
    (2**12, 5, 3, 59, Scaling.FIXED_MANUAL),
    (2**12, 7, 5, 40, Scaling.FLEXIBLE_AUTO_EXT),
    (2**12, 12, 2, 50, Scaling.FLEXIBLE_AUTO),
    (2**12, 12, 5, 59, Scaling.FLEXIBLE_AUTO_EXT),
    (2**13, 4, 3, 50, Scaling.FLEXIBLE_AUTO),
    (2**13, 8, 3, 59, Scaling.FIXED_AUTO),
    (2**13, 11, 4, 40, Scaling.FIXED_MANUAL),
    (2**14, 3, 2, 59, Scaling.FLEXIBLE_AUTO),
    (2**14, 6, 3, 40, Scaling.FLEXIBLE_AUTO_EXT),
]


@pytest.mark.parametrize(("ring_dim", "depth", "dnum", "scale_bits", "scaling"), GRID)
def test_predicted_sizes_are_those_of_serialized_keys_and_ciphertexts(
    library: ModuleType, ring_dim: int, depth: int, dnum: int, scale_bits: int, scaling: Scaling
) -> None:
    params = toy(ring_dim, depth, dnum, scale_bits, scaling)
    report = size_report(params, rotations=[1])
    made = context(library, params)
    assert primes_of(library, made) == openfhe_primes(params)[0]

    pair = made.KeyGen()
    made.EvalMultKeyGen(pair.secretKey)
    rotation = library.Serialize(made.EvalAutomorphismKeyGen(pair.secretKey, [5]), library.BINARY)
    relinearization = library.SerializeEvalMultKeyString(library.BINARY, "")
    assert report["rotation_key_bytes"] == pytest.approx(len(rotation), rel=TOLERANCE)
    assert report["relinearization_key_bytes"] == pytest.approx(len(relinearization), rel=TOLERANCE)
    # A relinearization and one rotation key: the report's total is that of their two files.
    assert report["total_key_bytes"] == pytest.approx(len(rotation) + len(relinearization), rel=TOLERANCE)

    for level in sorted({0, depth // 2, depth}):
        plain = made.MakeCKKSPackedPlaintext([1.0] * 8, 1, level)
        written = library.Serialize(made.Encrypt(pair.publicKey, plain), library.BINARY)
        predicted = serialized_ciphertext_bytes(params, params.num_q - level)
        assert predicted == pytest.approx(len(written), rel=TOLERANCE), f"level {level}"
    fresh = made.Encrypt(pair.publicKey, made.MakeCKKSPackedPlaintext([1.0] * 8))
    product = made.EvalMultNoRelin(fresh, fresh)
    predicted = serialized_ciphertext_bytes(params, params.num_q - product.GetLevel(), polynomials=3)
    assert predicted == pytest.approx(len(library.Serialize(product, library.BINARY)), rel=TOLERANCE)


def test_headers_are_predicted_to_the_byte(library: ModuleType) -> None:
    params = toy(2**12, 5, 3, 50, Scaling.FIXED_MANUAL)
    made = context(library, params)
    pair = made.KeyGen()
    made.EvalMultKeyGen(pair.secretKey)
    fresh = made.Encrypt(pair.publicKey, made.MakeCKKSPackedPlaintext([1.0] * 8))
    rescaled = made.Rescale(made.EvalMult(fresh, fresh))
    key = made.EvalAutomorphismKeyGen(pair.secretKey, [5])
    assert len(library.Serialize(key, library.BINARY)) == serialized_key_bytes(params)
    relinearization = library.SerializeEvalMultKeyString(library.BINARY, "")
    assert len(relinearization) == serialized_key_bytes(params, relinearization=True)
    assert len(library.Serialize(fresh, library.BINARY)) == serialized_ciphertext_bytes(params)
    assert len(library.Serialize(rescaled, library.BINARY)) == serialized_ciphertext_bytes(params, params.num_q - 1)


@pytest.mark.parametrize(
    ("ring_dim", "depth", "scale_bits", "scaling"),
    [
        (2**10, 9, 30, Scaling.FLEXIBLE_AUTO),
        (2**14, 24, 45, Scaling.FIXED_MANUAL),
        (2**15, 16, 36, Scaling.FLEXIBLE_AUTO_EXT),
        (2**17, 6, 54, Scaling.FLEXIBLE_AUTO),
    ],
)
def test_predicted_primes_are_those_that_openfhe_takes(
    library: ModuleType, ring_dim: int, depth: int, scale_bits: int, scaling: Scaling
) -> None:
    params = toy(ring_dim, depth, 1, scale_bits, scaling)
    assert primes_of(library, context(library, params)) == openfhe_primes(params)[0]


def test_openfhe_accepts_the_demo_set_as_128_bit_with_its_ring_and_chain(library: ModuleType) -> None:
    demo = catalogue.get("openfhe-demo")
    made = context(library, demo, security=128, ring_dim=0)  # OpenFHE chooses the ring dimension itself
    assert made.GetRingDimension() == demo.ring_dim
    assert primes_of(library, made) == openfhe_primes(demo)[0]


def edge(scale_bits: int, security: str | int) -> CkksSpec:
    """A set near the bounds: its longest digit has 60 + 4 scale_bits bits."""
    return CkksSpec(name="edge", ring_dim=2**15, depth=12, dnum=3, scale_bits=scale_bits, security=security)


def test_a_set_within_both_bounds_is_accepted_here_and_there(library: ModuleType) -> None:
    made = context(library, edge(43, security=128).build(), security=128)
    assert made.GetRingDimension() == 2**15


def test_a_set_that_only_openfhe_refuses_is_refused_here_and_there(library: ModuleType) -> None:
    # 236 bits and the margin fit four special primes; OpenFHE's estimate takes five, and passes its bound.
    with pytest.raises(ParamsError, match="OpenFHE refuses it"):
        edge(44, security=128).build()
    unnamed = edge(44, security="none").build()
    assert unnamed.security_bits == 128
    with pytest.raises(RuntimeError, match="does not comply with HE standards"):
        context(library, unnamed, security=128)


def test_a_set_without_a_level_is_made_as_it_is_written(library: ModuleType) -> None:
    ci = catalogue.get("insecure-ci")
    made = context(library, replace(ci, slots=8))
    assert primes_of(library, made) == openfhe_primes(ci)[0]
