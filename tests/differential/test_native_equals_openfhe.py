"""Every operation of the native evaluator gives the words that OpenFHE gives, in every limb, at every level."""

from __future__ import annotations

import itertools
import math
from functools import reduce

import numpy as np
import pytest

from penstock import _engine
from penstock.errors import EvaluationRefused
from support.native_pair import STEPS, Pair, Set

SETS = [
    *(Set(12, 6, 3, path=path) for path in _engine.ckks_paths()),
    Set(12, 9, 5, scale_bits=59, threads=2),
    Set(13, 7, 4, slots=256),
    Set(11, 5, 2, scaling="fixed-manual"),
    Set(11, 5, 2, scaling="fixed-auto"),
    Set(11, 7, 4, scaling="fixed-auto", scale_bits=59, slots=256),
    Set(11, 4, 3, scaling="flexible-auto-ext"),
    Set(11, 3, 2, scale_bits=45, first_bits=55, complex_values=True),
    Set(10, 32, 33, scaling="fixed-manual"),  # more digits than doubles can sum up
]
NUMBERS = (0.0, 0.3, -1.7, 1234.5, -3e-5, 1e6)


@pytest.fixture(scope="module", params=SETS, ids=str)
def pair(request, openfhe):
    pair = Pair(openfhe, request.param)
    yield pair
    pair.release()


def test_the_path_that_was_asked_for_computes(pair):
    assert pair.native.path == (pair.given.path or _engine.ckks_paths()[0])


def test_rotations_and_conjugation(pair):
    for limbs in pair.levels:
        x, _, ours, _ = pair.at(limbs)
        pair.assert_same(ours, x)
        for step in STEPS:
            element = pair.native.rotation_galois_element(step)
            assert element == pair.cc.FindAutomorphismIndex(step)
            pair.assert_same(pair.native.rotate(ours, element, pair.keys[element]), pair.cc.EvalRotate(x, step))
        conjugated = pair.native.rotate(ours, pair.conjugation, pair.keys[pair.conjugation])
        pair.assert_same(conjugated, pair.cc.EvalAutomorphism(x, pair.conjugation, pair.KEYS))


def test_hoisted_rotations_and_their_sum_before_the_division_by_p(pair):
    for limbs in pair.levels:
        x, _, ours, _ = pair.at(limbs)
        theirs = pair.cc.EvalFastRotationPrecompute(x)
        digits = pair.native.decompose(ours)
        terms = []
        for step in STEPS:
            element = pair.native.rotation_galois_element(step)
            hoisted = pair.native.rotate_hoisted(ours, digits, element, pair.keys[element])
            pair.assert_same(hoisted, pair.cc.EvalFastRotation(x, step, 2 * pair.ring_dim, theirs))
            terms.append(pair.native.rotate_hoisted_extended(ours, digits, element, pair.keys[element]))
            extended = pair.cc.EvalFastRotationExt(x, step, theirs, True)
            pair.assert_same(pair.native.mod_down(terms[-1]), pair.cc.KeySwitchDown(extended))
        pair.assert_same(
            pair.native.mod_down(pair.native.extend(ours)),
            pair.cc.KeySwitchDown(pair.cc.KeySwitchExt(x, True)),
        )
        moduli = np.array(pair.moduli[: ours.limbs] + pair.moduli[pair.num_q :], dtype=np.uint64)[:, None]
        total = reduce(pair.native.add_extended, terms)
        for k in range(2):
            words = [term.words(k, pair.ring_dim) for term in terms]
            expected = sum(words[1:], start=words[0]) % moduli
            np.testing.assert_array_equal(total.words(k, pair.ring_dim), expected)


def test_products_squares_and_relinearization(pair):
    for limbs in pair.levels:
        x, y, a, b = pair.at(limbs)
        product, theirs = pair.native.mult(a, b, pair.relin), pair.cc.EvalMult(x, y)
        pair.assert_same(product, theirs)
        raw = pair.native.mult_no_relin(a, b)
        pair.assert_same(raw, pair.cc.EvalMultNoRelin(x, y))
        pair.assert_same(pair.native.relinearize(raw, pair.relin), theirs)
        pair.assert_same(pair.native.square(a, pair.relin), pair.cc.EvalSquare(x))
        element = pair.native.rotation_galois_element(1)
        pair.assert_same(pair.native.rotate(product, element, pair.keys[element]), pair.cc.EvalRotate(theirs, 1))
        if limbs == 1:
            continue
        if pair.given.scaling == "fixed-manual":
            rescaled, expected = pair.native.rescale(product), pair.cc.Rescale(theirs)
            pair.assert_same(rescaled, expected)
            pair.assert_same(pair.native.mult(rescaled, a, pair.relin), pair.cc.EvalMult(expected, x))
        else:
            pair.assert_same(pair.native.rescale_and_drop(product, limbs - 1), pair.cc.Compress(theirs, limbs - 1))
            pair.assert_same(pair.native.mult(product, product, pair.relin), pair.cc.EvalMult(theirs, theirs))
            pair.assert_same(pair.native.square(product, pair.relin), pair.cc.EvalSquare(theirs))


def test_sums_and_numbers(pair):
    for limbs in pair.levels:
        x, y, a, b = pair.at(limbs)
        pair.assert_same(pair.native.add(a, b), pair.cc.EvalAdd(x, y))
        pair.assert_same(pair.native.sub(a, b), pair.cc.EvalSub(x, y))
        pair.assert_same(pair.native.negate(a), pair.cc.EvalNegate(x))
        for number in NUMBERS:
            if 2 * int(abs(number) * a.scale) >= math.prod(pair.moduli[:limbs]):  # OpenFHE's sum wraps around
                with pytest.raises(EvaluationRefused, match="bits at"):
                    pair.native.add_scalar(a, number)
                continue
            pair.assert_same(pair.native.add_scalar(a, number), pair.cc.EvalAdd(x, number))
            pair.assert_same(pair.native.sub_scalar(a, number), pair.cc.EvalSub(x, number))
            pair.assert_same(pair.native.mult_scalar(a, number), pair.cc.EvalMult(x, number))
        product, theirs = pair.native.mult(a, b, pair.relin), pair.cc.EvalMult(x, y)
        pair.assert_same(pair.native.add_scalar(product, -0.7), pair.cc.EvalAdd(theirs, -0.7))
        if limbs > 1:
            pair.assert_same(pair.native.mult_scalar(product, 0.37), pair.cc.EvalMult(theirs, 0.37))


def test_plaintexts_are_encoded_and_used_alike(pair):
    for limbs in pair.levels:
        x, y, a, b = pair.at(limbs)
        plain, ours = pair.encode(pair.right, limbs)
        squared, ours_squared = pair.encode(pair.right, limbs, 2)
        pair.assert_same(pair.native.add_plain(a, ours), pair.cc.EvalAdd(x, plain))
        pair.assert_same(pair.native.sub_plain(a, ours), pair.cc.EvalSub(x, plain))
        pair.assert_same(pair.native.mult_plain(a, ours), pair.cc.EvalMult(x, plain))
        product, theirs = pair.native.mult(a, b, pair.relin), pair.cc.EvalMult(x, y)
        pair.assert_same(pair.native.add_plain(product, ours_squared), pair.cc.EvalAdd(theirs, squared))
        if limbs > 1:
            pair.assert_same(pair.native.sub_plain(product, ours), pair.cc.EvalSub(theirs, plain))
            pair.assert_same(pair.native.mult_plain(product, ours), pair.cc.EvalMult(theirs, plain))


def test_operands_of_different_levels_and_degrees_meet_alike(pair):
    for high, low in itertools.combinations(pair.levels, 2):
        x, _, a, _ = pair.at(high)
        _, y, _, b = pair.at(low)
        ours = {1: a, 2: pair.native.mult(a, a, pair.relin)}, {1: b, 2: pair.native.mult(b, b, pair.relin)}
        theirs = {1: x, 2: pair.cc.EvalMult(x, x)}, {1: y, 2: pair.cc.EvalMult(y, y)}
        for left, right in itertools.product((1, 2), (1, 2)):
            if (low == 1 and right == 2) or (pair.given.scaling == "fixed-manual" and left != right):
                continue  # the scale does not fit what is left; the program has to rescale
            a, b, x, y = ours[0][left], ours[1][right], theirs[0][left], theirs[1][right]
            pair.assert_same(pair.native.add(a, b), pair.cc.EvalAdd(x, y))
            pair.assert_same(pair.native.sub(b, a), pair.cc.EvalSub(y, x))
            pair.assert_same(pair.native.mult(a, b, pair.relin), pair.cc.EvalMult(x, y))


def test_sums_with_a_product_on_the_last_limb_are_the_same_or_refused_alike(pair):
    if pair.given.scaling == "fixed-manual":
        return
    x, y, a, b = pair.at(1)
    product, theirs = pair.native.mult(a, b, pair.relin), pair.cc.EvalMult(x, y)
    if pair.given.scaling == "fixed-auto":  # OpenFHE's sum has lost the values of `x`
        with pytest.raises(EvaluationRefused, match="deeper than the parameters"):
            pair.native.add(a, product)
        np.testing.assert_array_equal(pair.read(pair.cc.EvalAdd(x, theirs)).words(0), pair.read(theirs).words(0))
    else:
        pair.assert_same(pair.native.add(a, product), pair.cc.EvalAdd(x, theirs))
        pair.assert_same(pair.native.sub(product, a), pair.cc.EvalSub(theirs, x))
    for high in (2, 3):
        x, _, a, _ = pair.at(high)
        for ours, their in ((a, x), (pair.native.mult(a, a, pair.relin), pair.cc.EvalMult(x, x))):
            try:
                expected = pair.cc.EvalAdd(their, theirs)
            except RuntimeError:
                with pytest.raises(EvaluationRefused, match="deeper than the parameters"):
                    pair.native.add(ours, product)
            else:
                pair.assert_same(pair.native.add(ours, product), expected)


def test_openfhe_reads_and_decrypts_what_is_written(pair):
    product = pair.native.mult(pair.a, pair.b, pair.relin)
    if pair.given.scaling == "fixed-manual":
        product = pair.native.rescale(product)
    for ours, expected in ((pair.a, pair.left), (product, pair.left * pair.right)):
        written = pair.native.export_ciphertext(ours, pair.writer)
        read = pair.fhe.DeserializeCiphertextString(written, pair.fhe.BINARY)
        pair.assert_same(ours, read)
        pair.assert_same(ours, pair.cc.EvalNegate(pair.cc.EvalNegate(read)))
        element = pair.native.rotation_galois_element(1)
        pair.assert_same(pair.native.rotate(ours, element, pair.keys[element]), pair.cc.EvalRotate(read, 1))
        plain = pair.cc.Decrypt(read, pair.secret_key)
        plain.SetLength(pair.slots)
        got = np.asarray(plain.GetCKKSPackedValue())
        np.testing.assert_allclose(got, expected, atol=1e-6 if pair.given.scale_bits >= 50 else 1e-4)


def test_damaged_and_foreign_bytes_are_refused(pair):
    whole = pair.bytes(pair.A)
    word = whole.index(pair.a.words(0)[0].astype("<u8").tobytes())
    damaged = whole[:word] + b"\xff" * 8 + whole[word + 8 :]
    with pytest.raises(EvaluationRefused, match="not below its modulus"):
        pair.native.import_ciphertext(damaged)
    for end in (0, 1, 100, word, word + 64, len(whole) // 2, len(whole) - 40):
        with pytest.raises(EvaluationRefused, match="not the bytes"):
            pair.native.import_ciphertext(whole[:end])
    for bad in (whole, pair.key_bytes[: len(pair.key_bytes) // 3], b"", b"\0" * 4096):
        with pytest.raises(EvaluationRefused, match="not the bytes"):
            pair.native.import_automorphism_keys(bad)
    other = _engine.CkksContext(
        ring_dim=pair.ring_dim,
        moduli_q=pair.moduli[1 : pair.num_q],
        moduli_p=pair.moduli[pair.num_q :],
        dnum=2,
        scaling="fixed-manual",
        scale_bits=50,
    )
    with pytest.raises(EvaluationRefused, match="moduli are not the context's"):
        other.import_ciphertext(whole)
    with pytest.raises(EvaluationRefused, match="parameters are not the context's"):
        other.import_key(pair.relin_bytes)
