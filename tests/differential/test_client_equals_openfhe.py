"""Penstock's client and OpenFHE read each other's keys and ciphertexts, word for word and byte for byte."""

from __future__ import annotations

import math

import numpy as np
import pytest

from penstock.scheme.params.spec import CkksSpec
from support.client_pair import Sides, phase_of, rows_of, without_rows
from support.openfhe_key import write_openfhe_key

SETS = {
    "flexible-auto": {"scaling": "flexible-auto"},
    "flexible-auto-ext": {"scaling": "flexible-auto-ext"},
    "fixed-manual": {"scaling": "fixed-manual"},
    "sparse": {"scaling": "flexible-auto", "secret": "sparse-ternary", "scale_bits": 59, "first_mod_bits": 60},
    "few-slots": {"scaling": "flexible-auto", "slots": 64},
}
RING_DIM = 1 << 11
ROUND_TRIPS = 200
"""Of each library; benchmarks/bench_client.py makes 10,000."""


def parameters(name: str):
    written = {
        "name": f"insecure-client-{name}",
        "library": "openfhe",
        "ring_dim": RING_DIM,
        "depth": 4,
        "scale_bits": 45,
        "first_mod_bits": 60,
        "dnum": 3,
        "security": "none",
        "source": "tests/differential/test_client_equals_openfhe.py",
    }
    return CkksSpec.model_validate(written | SETS[name]).build()


@pytest.fixture(scope="module", params=SETS)
def sides(request, openfhe):
    made = Sides(parameters(request.param))
    yield made
    made.release()


def test_a_pair_that_openfhe_wrote_is_written_again_with_the_same_bytes(sides, tmp_path):
    assert sides.ours.tag == sides.openfhe.secret_key.GetKeyTag()
    assert sides.ours.to_openfhe(tmp_path / "pair")
    assert (tmp_path / "pair/secret.key").read_bytes() == sides.secret_bytes
    assert (tmp_path / "pair/public.key").read_bytes() == sides.public_bytes


def test_what_either_encrypts_the_other_decrypts(sides):
    rng = np.random.default_rng(1)
    for _ in range(10):
        values = sides.values(rng)
        for limbs in (sides.params.num_q, 2):
            ours = sides.ours.encrypt(values, limbs=limbs)
            assert np.abs(sides.decrypted(sides.read(ours)) - values).max() < 1e-5
            theirs = sides.bytes(sides.encrypted(values, limbs))
            assert np.abs(sides.ours.decrypt(theirs, result_for="owner") - values).max() < 1e-5
            seeded = sides.ours.encrypt_seeded(values, limbs=limbs)
            assert np.abs(sides.ours.decrypt(seeded, result_for="owner") - values).max() < 1e-5
            assert len(seeded) < 0.52 * len(theirs)


def test_decrypted_words_are_c0_and_c1_times_s(sides):
    rng = np.random.default_rng(2)
    n, q = sides.params.ring_dim, sides.q
    for _ in range(ROUND_TRIPS):
        theirs = sides.bytes(sides.encrypted(sides.values(rng)))
        assert np.array_equal(sides.ours.phase(theirs), phase_of(theirs, sides.secret_rows, n, q))


def test_a_fresh_ciphertext_has_openfhes_bytes_around_its_words(sides):
    values = sides.values(np.random.default_rng(3))
    n, q = sides.params.ring_dim, sides.q
    theirs, ours = sides.bytes(sides.encrypted(values)), sides.ours.encrypt(values)
    assert without_rows(ours, n, q) == without_rows(theirs, n, q)
    lower = sides.bytes(sides.encrypted(values, 2))
    assert without_rows(sides.ours.encrypt(values, limbs=2), n, q[:2]) == without_rows(lower, n, q[:2])


def test_encodings_are_equal(sides):
    """A fresh seeded ciphertext is the encoding and an error: OpenFHE's encoding taken away, the error is left."""
    rng = np.random.default_rng(4)
    for _ in range(3):
        values = sides.values(rng)
        trivial = sides.bytes(sides.cc.EvalAdd(sides.encrypted(values), sides.openfhe.plaintext(-values)))
        error = sides.ours.phase(trivial)
        coefficients = small_coefficients(error[0], sides.q[0], sides.params.ring_dim)
        # The error of a public-key encryption; a coefficient of the encoding that differed would be of its scale.
        assert np.abs(coefficients).max() < 20 * 3.19 * math.sqrt(4 * sides.params.ring_dim / 3)


def small_coefficients(row: np.ndarray, modulus: int, ring_dim: int) -> np.ndarray:
    """Centred coefficients of evaluations at one limb: the slow transform, by powers of the minimal root."""
    root = next(
        pow(g, (modulus - 1) // (2 * ring_dim), modulus)
        for g in range(2, 200)
        if pow(pow(g, (modulus - 1) // (2 * ring_dim), modulus), ring_dim, modulus) == modulus - 1
    )
    root = min(pow(root, k, modulus) for k in range(1, 2 * ring_dim, 2))
    bits = ring_dim.bit_length() - 1
    order = [int(f"{j:0{bits}b}"[::-1], 2) for j in range(ring_dim)]
    values = row.astype(object)[order]  # at root^(2j + 1)
    # An inverse cyclic transform by halves, then the powers of the root.
    inverse_root = pow(root, modulus - 2, modulus)

    def inverse(values: np.ndarray, step: int) -> np.ndarray:
        if len(values) == 1:
            return values
        even, odd = inverse(values[0::2], step * step % modulus), inverse(values[1::2], step * step % modulus)
        powers, factor = np.empty(len(even), dtype=object), 1
        for k in range(len(even)):
            powers[k], factor = factor, factor * step % modulus
        turned = odd * powers % modulus
        return np.concatenate([(even + turned) % modulus, (even - turned) % modulus])

    found = inverse(values, inverse_root * inverse_root % modulus)
    scale, factors = pow(ring_dim, modulus - 2, modulus), np.empty(ring_dim, dtype=object)
    factor = scale
    for k in range(ring_dim):
        factors[k], factor = factor, factor * inverse_root % modulus
    found = found * factors % modulus
    return np.where(found > modulus // 2, found - modulus, found).astype(np.float64)


def test_openfhe_evaluates_with_our_keys(sides):
    values = sides.values(np.random.default_rng(5))
    x = sides.encrypted(values)
    for step in (1, -2):
        element = sides.cc.FindAutomorphismIndex(step)
        turned = sides.cc.EvalAutomorphism(x, element, sides.our_key(f"rot:{element}"))
        expected = np.roll(values, -step)
        assert np.abs(sides.decrypted(turned) - expected).max() < 1e-4
    conjugation = 2 * sides.params.ring_dim - 1
    conjugated = sides.cc.EvalAutomorphism(x, conjugation, sides.our_key("conj"))
    assert np.abs(sides.decrypted(conjugated) - values).max() < 1e-4
    squared = sides.cc.KeySwitch(sides.cc.EvalMultNoRelin(x, x), sides.our_key("relin"))
    assert np.abs(sides.decrypted(squared) - values * values).max() < 1e-4


def test_keys_have_openfhes_bytes_around_their_words(sides):
    n, moduli = sides.params.ring_dim, (*sides.q, *sides.p)
    element = sides.cc.FindAutomorphismIndex(1)
    sides.fhe.CryptoContext.ClearEvalAutomorphismKeys()
    theirs = sides.bytes(sides.cc.EvalAutomorphismKeyGen(sides.openfhe.secret_key, [element]))
    sides.fhe.CryptoContext.ClearEvalAutomorphismKeys()
    path = sides.folder / "ours.key"
    write_openfhe_key(sides.ours, f"rot:{element}", path)
    assert without_rows(path.read_bytes(), n, moduli) == without_rows(theirs, n, moduli)
    sides.cc.EvalMultKeyGen(sides.openfhe.secret_key)
    theirs = sides.bytes(sides.cc.GetEvalMultKeyVector(sides.ours.tag)[0])
    sides.fhe.ClearEvalMultKeys()
    write_openfhe_key(sides.ours, "relin", path)
    assert without_rows(path.read_bytes(), n, moduli) == without_rows(theirs, n, moduli)
    assert len(rows_of(path.read_bytes(), n, moduli)) == 2 * sides.params.dnum


def test_the_noise_after_each_operation_is_openfhes(sides):
    """Standard deviations of the error of slots, over fresh keys and ciphertexts, within 0.2 bits."""
    rng = np.random.default_rng(6)
    element = sides.cc.FindAutomorphismIndex(1)
    errors: dict[str, dict[str, list[float]]] = {}

    def note(operation: str, side: str, ciphertext: object, expected: np.ndarray) -> None:
        content = ciphertext if isinstance(ciphertext, bytes) else sides.bytes(ciphertext)
        difference = sides.ours.decrypt(content, result_for="owner").real - expected
        errors.setdefault(operation, {}).setdefault(side, []).append(float(np.mean(difference**2)))

    for _ in range(12):
        values = sides.values(rng)
        sides.fhe.CryptoContext.ClearEvalAutomorphismKeys()
        keys = {
            "openfhe": (sides.cc.EvalAutomorphismKeyGen(sides.openfhe.secret_key, [element]), _their_relin(sides)),
            "penstock": (sides.our_key(f"rot:{element}"), sides.our_key("relin")),
        }
        fresh = {"openfhe": sides.encrypted(values), "penstock": sides.read(sides.ours.encrypt(values))}
        for side, (rotation, relin) in keys.items():
            x = fresh[side]
            note("encrypt", side, x, values)
            note("rotate", side, sides.cc.EvalAutomorphism(x, element, rotation), np.roll(values, -1))
            squared = sides.cc.KeySwitch(sides.cc.EvalMultNoRelin(x, x), relin)
            note("multiply", side, squared, values * values)
            if sides.params.scaling.value == "fixed-manual":
                note("rescale", side, sides.cc.Rescale(squared), values * values)
        sides.fhe.CryptoContext.ClearEvalAutomorphismKeys()
    for operation, found in errors.items():
        bits = 0.5 * math.log2(np.mean(found["penstock"]) / np.mean(found["openfhe"]))
        assert abs(bits) < 0.2, (operation, bits)


def _their_relin(sides):
    sides.cc.EvalMultKeyGen(sides.openfhe.secret_key)
    made = sides.cc.GetEvalMultKeyVector(sides.ours.tag)[0]
    sides.fhe.ClearEvalMultKeys()
    return made
