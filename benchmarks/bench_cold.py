"""What a call of the library costs more in a program than in a loop over it, and which way to time it comes near.

    .venv/bin/python benchmarks/bench_cold.py [--threads 1] [--rounds 60] [--format json]

The measure is a program of no particular application (`mixed`): calls of seven operations in a random order, each on
operands drawn from so many ciphertexts that no cache holds them. Beside it, the ways in which a suite can time a cold
call:

    flush       right after a buffer of twice the last-level cache was walked
    same        after the walk and the same operation on other operands: the condition `cold`
    decompose   after the walk and a digit decomposition of another ciphertext
    pause       the same call on the same operands after as long a time in which nothing is done at all

All as microseconds more than the same call again and again: quiet times (5 % of the calls are faster) and medians.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from penstock.lab.measure.bench import timing
from penstock.lab.measure.bench.spec import parse_suite, plan
from penstock.lab.measure.bench.store import ROTATION_STEP, StoredSet
from penstock.program.openfhe.evaluator import set_threads
from penstock.scheme.params.ckks import CkksParameters

SIZES = ((2**12, 11), (2**12, 5), (2**14, 11), (2**14, 5))
"""Ring dimensions, and limbs left."""
POOL_BYTES = 48 << 20
FEWEST = 8
QUIET = 5
"""Percentile of a quiet time."""
SHORT = ("add", "mult_plain", "mult_no_relin")
"""Operations that show it: the noise of the others is as large as what a call costs more."""
BEFORE = 10
"""Calls ahead of one in a random order."""
Call = Callable[[int, int], Any]


def parameters(ring_dim: int) -> CkksParameters:
    text = f'[[primitives]]\nitems = "add"\nring_dim = {ring_dim}\ndepth = 10\ndnum = 3\n'
    return plan(parse_suite(text, "cold", "cold")).points[0].params


def seconds(call: Call, first: int, second: int) -> float:
    start = time.perf_counter()
    result = call(first, second)
    spent = time.perf_counter() - start
    del result  # freed outside the timed part
    return spent


def operations(stored: StoredSet, limbs: int, pool: int) -> dict[str, Call]:
    """Each with two places in a pool of operands."""
    cc = stored.context
    stored.relinearization_key()
    stored.rotation_key()
    left = [cc.Encrypt(stored.public_key, stored.encode(stored.values("a"), limbs)) for _ in range(pool)]
    plain = [stored.encode(stored.values("b"), limbs) for _ in range(pool)]
    scaled = [cc.EvalMult(each, plain[0]) for each in left]
    return {
        "add": lambda i, j: cc.EvalAdd(left[i], left[j]),
        "mult_plain": lambda i, j: cc.EvalMult(left[i], plain[j]),
        "mult_no_relin": lambda i, j: cc.EvalMultNoRelin(left[i], left[j]),
        "rescale": lambda i, j: cc.Rescale(scaled[i]),
        "decompose": lambda i, j: cc.EvalFastRotationPrecompute(left[i]),
        "rotate": lambda i, j: cc.EvalRotate(left[i], ROTATION_STEP),
        "mult": lambda i, j: cc.EvalMult(left[i], left[j]),
    }


def measure(ring_dim: int, limbs: int, threads: int, rounds: int, folder: Path) -> list[dict[str, Any]]:
    params, order, flush = parameters(ring_dim), random.Random(0), timing.Flush()
    pool = max(FEWEST, POOL_BYTES // params.ciphertext_bytes(limbs))
    with StoredSet(folder, params) as stored:
        set_threads(threads)
        calls = operations(stored, limbs, pool)

        def anywhere() -> tuple[int, int]:
            return order.randrange(2, pool), order.randrange(2, pool)

        def several() -> None:
            for name in order.choices(list(calls), k=BEFORE):
                calls[name](*anywhere())

        def after(call: Call | None, then: Callable[[], object] | None = None) -> Callable[[], None]:
            """After a flush if `then` is none; after a call on operands of its own."""

            def before() -> None:
                if then is None:
                    flush()
                if call is not None:
                    call(0, 1)
                if then is not None:
                    then()

            return before

        started = time.perf_counter()
        flush()
        pause_s = time.perf_counter() - started
        rows = []
        for name in SHORT:
            call = calls[name]
            before = {
                "warm": after(call, lambda: None),
                "mixed": several,
                "flush": after(None),
                "same": after(call),
                "decompose": after(calls["decompose"]),
                "pause": after(call, lambda: time.sleep(pause_s)),
            }
            found: dict[str, list[float]] = {way: [] for way in before}
            for _ in range(rounds):  # by turns: what changes on the machine meets all alike
                for way, prepare in before.items():
                    operands = anywhere() if way not in ("warm", "pause") else (0, 1)
                    prepare()
                    found[way].append(seconds(call, *operands))
            warm = found.pop("warm")
            rows += [
                {
                    "ring_dim": ring_dim,
                    "limbs": limbs,
                    "threads": threads,
                    "operation": name,
                    "way": way,
                    "warm_s": float(np.percentile(warm, QUIET)),
                    "quiet_more_s": float(np.percentile(times, QUIET) - np.percentile(warm, QUIET)),
                    "median_more_s": float(np.median(times) - np.median(warm)),
                    "provenance": "measured",
                }
                for way, times in found.items()
            ]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=60, help="calls of each kind (default: 60)")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            row
            for ring_dim, limbs in SIZES
            for row in measure(ring_dim, limbs, options.threads, options.rounds, Path(folder))
        ]
    if options.format == "json":
        print(json.dumps({"machine": platform.processor() or platform.machine(), "rows": rows}))
        return
    print("microseconds more than warm: quiet times (medians), measured")
    for place in range(0, len(rows), 5):
        same = rows[place : place + 5]
        what = f"N=2^{same[0]['ring_dim'].bit_length() - 1}, {same[0]['limbs']:2} limbs, {same[0]['operation']:13}"
        texts = [f"{r['way']} {r['quiet_more_s'] * 1e6:4.0f} ({r['median_more_s'] * 1e6:4.0f})" for r in same]
        print(f"{what} warm {same[0]['warm_s'] * 1e6:5.0f} | " + " | ".join(texts))


if __name__ == "__main__":
    main()
