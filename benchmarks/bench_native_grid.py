"""The whole grid of parameters on which the native evaluator's words must be OpenFHE's.

    .venv/bin/python benchmarks/bench_native_grid.py [--log-ring-dims 12 13 14 15 16] [--limbs 2 3 5 8 12 20 30]
        [--paths avx512 avx2 portable]

N = 2^12 to 2^16, 2 to 30 limbs, 50- and 59-bit scales, dnum 2 to 5, at the top, middle and last levels. CI does the
smallest of it on every change (tests/differential/test_native_equals_openfhe.py); this takes an hour on two cores, and
can be done in parts. Exit status 1 where a word differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from penstock import _engine
from penstock.program.openfhe.evaluator import load_openfhe

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support.native_pair import STEPS, Pair, Set

LIMBS = (2, 3, 5, 8, 12, 20, 30)
DIGITS = (2, 3, 4, 5)
MAX_KEY_BYTES = 1 << 30
"""Four keys of a set, in OpenFHE, as bytes and natively, have to fit the memory."""


def grid(log_ring_dims: list[int], chain: list[int], paths: list[str]) -> list[Set]:
    """All sets that OpenFHE takes, with the limbs of `chain`: they have to fill every digit."""
    chosen = []
    for log_n in log_ring_dims:
        for limbs in chain:
            for dnum in DIGITS:
                alpha = -(-limbs // dnum)
                if dnum > limbs or alpha * (dnum - 1) >= limbs:
                    continue
                if 4 * 2 * dnum * (limbs + alpha + 1) * 8 << log_n > MAX_KEY_BYTES:
                    continue
                for scale_bits in (50, 59):
                    chosen += [Set(log_n, limbs - 1, dnum, scale_bits=scale_bits, path=path) for path in paths]
    return chosen


def compare(pair: Pair) -> int:
    """Compares every operation at several levels; the number of ciphertexts compared."""
    native, cc = pair.native, pair.cc
    done = 0

    def same(ours: _engine.CkksCiphertext, theirs: object) -> None:
        nonlocal done
        pair.assert_same(ours, theirs)
        done += 1

    for limbs in pair.levels:
        x, y, a, b = pair.at(limbs)
        theirs, digits = cc.EvalFastRotationPrecompute(x), native.decompose(a)
        for step in STEPS:
            element = native.rotation_galois_element(step)
            same(native.rotate(a, element, pair.keys[element]), cc.EvalRotate(x, step))
            hoisted = native.rotate_hoisted(a, digits, element, pair.keys[element])
            same(hoisted, cc.EvalFastRotation(x, step, 2 * pair.ring_dim, theirs))
        conjugated = native.rotate(a, pair.conjugation, pair.keys[pair.conjugation])
        same(conjugated, cc.EvalAutomorphism(x, pair.conjugation, pair.KEYS))
        product, expected = native.mult(a, b, pair.relin), cc.EvalMult(x, y)
        same(product, expected)
        same(native.square(a, pair.relin), cc.EvalSquare(x))
        plain, ours = pair.encode(pair.right, limbs)
        same(native.mult_plain(a, ours), cc.EvalMult(x, plain))
        same(native.add_plain(a, ours), cc.EvalAdd(x, plain))
        same(native.mult_scalar(a, -1.7), cc.EvalMult(x, -1.7))
        same(native.add_scalar(a, 0.3), cc.EvalAdd(x, 0.3))
        if limbs > 1:
            same(native.rescale_and_drop(product, limbs - 1), cc.Compress(expected, limbs - 1))
            same(native.mult(product, product, pair.relin), cc.EvalMult(expected, expected))
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log-ring-dims", type=int, nargs="+", default=[12, 13, 14, 15, 16])
    parser.add_argument("--limbs", type=int, nargs="+", default=LIMBS)
    parser.add_argument("--paths", nargs="+", default=_engine.ckks_paths()[:1])
    options = parser.parse_args()
    fhe = load_openfhe()
    failed = 0
    sets = grid(options.log_ring_dims, options.limbs, options.paths)
    for number, chosen in enumerate(sets, start=1):
        start = time.perf_counter()
        try:
            pair = Pair(fhe, chosen)
        except RuntimeError as refused:
            print(f"{number}/{len(sets)} {chosen}: OpenFHE refuses it ({str(refused).rpartition(': ')[2]})")
            continue
        try:
            told = f"{compare(pair)} ciphertexts, every word equal"
        except AssertionError as error:
            told, failed = f"DIFFERS: {str(error).strip().splitlines()[0]}", failed + 1
        finally:
            pair.release()
        print(f"{number}/{len(sets)} {chosen}: {told} ({time.perf_counter() - start:.1f} s)", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
