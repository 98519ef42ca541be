"""The native evaluator beside OpenFHE, in one run on the same keys and ciphertexts (keys in memory).

    .venv/bin/python benchmarks/bench_native.py [--log-ring-dim 16] [--depth 10] [--threads 1 2] [--format json]

Both do each operation in turn, so that what else the machine does falls on both; medians and minima of the calls. Every
result is compared word by word first.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import _engine
from penstock.program.openfhe.evaluator import load_openfhe, set_threads

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support.engine_calls import Calls
from support.native_pair import STEPS, Pair, Set


def operations(pair: Pair, native: Any, keys: dict[int, Any], relin: Any) -> dict[str, tuple[Callable, Callable]]:
    """Of each operation: OpenFHE's call and ours. Rotations use another key each time, as programs do."""
    cc, a, b = pair.cc, native.import_ciphertext(pair.bytes(pair.A)), native.import_ciphertext(pair.bytes(pair.B))
    plain, ours = (
        cc.MakeCKKSPackedPlaintext(pair.left.tolist()),
        native.encode(pair.left.astype("complex128"), pair.num_q, 1, pair.slots),
    )
    digits, theirs = native.decompose(a), cc.EvalFastRotationPrecompute(pair.A)
    product, expected = native.mult(a, b, relin), cc.EvalMult(pair.A, pair.B)

    def element(k: int) -> int:
        return native.rotation_galois_element(STEPS[k % len(STEPS)])

    def step(k: int) -> int:
        return STEPS[k % len(STEPS)]

    return {
        "rotate": (
            lambda k: cc.EvalRotate(pair.A, step(k)),
            lambda k: native.rotate(a, element(k), keys[element(k)]),
        ),
        "rotate hoisted": (
            lambda k: cc.EvalFastRotation(pair.A, step(k), 2 * pair.ring_dim, theirs),
            lambda k: native.rotate_hoisted(a, digits, element(k), keys[element(k)]),
        ),
        "decompose": (lambda k: cc.EvalFastRotationPrecompute(pair.A), lambda k: native.decompose(a)),
        "multiply": (lambda k: cc.EvalMult(pair.A, pair.B), lambda k: native.mult(a, b, relin)),
        "multiply after a product": (
            lambda k: cc.EvalMult(expected, expected),
            lambda k: native.mult(product, product, relin),
        ),
        "square": (lambda k: cc.EvalSquare(pair.A), lambda k: native.square(a, relin)),
        "multiply by a plaintext": (lambda k: cc.EvalMult(pair.A, plain), lambda k: native.mult_plain(a, ours)),
        "multiply by a number": (lambda k: cc.EvalMult(pair.A, 0.3), lambda k: native.mult_scalar(a, 0.3)),
        "add": (lambda k: cc.EvalAdd(pair.A, pair.B), lambda k: native.add(a, b)),
    }


def timed(call: Callable, k: int) -> float:
    start = time.perf_counter()
    result = call(k)
    elapsed = time.perf_counter() - start
    del result
    return elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log-ring-dim", type=int, default=16)
    parser.add_argument("--depth", type=int, default=10)
    parser.add_argument("--scale-bits", type=int, default=50)
    parser.add_argument("--dnum", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--paths", nargs="+", default=[path for path in _engine.ckks_paths() if path != "portable"])
    parser.add_argument("--only", nargs="+", help="operations to time")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--format", choices=("table", "json"), default="table")
    options = parser.parse_args()

    fhe = load_openfhe()
    pair = Pair(fhe, Set(options.log_ring_dim, options.depth, options.dnum, scale_bits=options.scale_bits))
    rows = []
    for threads in options.threads:
        set_threads(threads)
        for path in options.paths:
            context = _engine.CkksContext(
                ring_dim=pair.ring_dim,
                moduli_q=pair.moduli[: pair.num_q],
                moduli_p=pair.moduli[pair.num_q :],
                dnum=options.dnum,
                scaling="flexible-auto",
                scale_bits=options.scale_bits,
                threads=threads,
                path=path,
            )
            native = Calls(context)
            keys, relin = native.import_automorphism_keys(pair.key_bytes), native.import_key(pair.relin_bytes)
            for name, (openfhe, ours) in operations(pair, native, keys, relin).items():
                if options.only and name not in options.only:
                    continue
                if name != "decompose":
                    pair.assert_same(ours(0), openfhe(0))
                both: list[tuple[float, float]] = []
                for k in range(options.runs):
                    both.append((timed(openfhe, k), timed(ours, k)))
                openfhe_s, native_s = ([run[side] for run in both] for side in (0, 1))
                rows.append(
                    {
                        "operation": name, "path": path, "threads": threads,
                        "openfhe_s": statistics.median(openfhe_s), "native_s": statistics.median(native_s),
                        "openfhe_min_s": min(openfhe_s), "native_min_s": min(native_s),
                        "speedup": statistics.median(openfhe_s) / statistics.median(native_s),
                    }
                )  # fmt: skip
    if options.format == "json":
        json.dump(rows, sys.stdout, indent=1)
        return
    print(f"N = 2^{options.log_ring_dim}, {pair.num_q} limbs of Q, dnum {options.dnum}; every word equal")
    for row in rows:
        print(
            f"{row['operation']:26} {row['path']:8} {row['threads']} threads  OpenFHE {row['openfhe_s'] * 1e3:7.1f} ms"
            f"  native {row['native_s'] * 1e3:6.1f} ms ({row['native_min_s'] * 1e3:.1f})  {row['speedup']:.2f} x"
        )


if __name__ == "__main__":
    main()
