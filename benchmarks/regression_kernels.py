"""The kernels that benchmarks/regression.py compares, as one penstock runs them.

    PYTHONPATH=FOLDER .venv/bin/python benchmarks/regression_kernels.py INPUTS FOLDER [--repeats 5] [KERNEL ...]

Prints a line of JSON for each kernel: the least processor seconds of a call and a digest of its result, or the reason
why the penstock in FOLDER cannot run it. INPUTS is the folder that `make_inputs` wrote: both sides read the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

SET = "openfhe-demo"
"""N = 2^15, 14 limbs of Q, three digits, 128 bits."""
STEPS = (1, 2, 4, 8)
"""Rotations whose keys a linear transform takes."""
TENANT = "regression"
ACCESSES, OBJECTS, OBJECT_BYTES = 1_000_000, 10_000, 1000

Call = Callable[[], Any]


def make_inputs(folder: Path) -> None:
    """Write a trace, two ciphertexts and their keys: OpenFHE's bytes, and segments of a key store."""
    from bench_engine import Zipf
    from penstock.runtime.client.pair import KeyPair
    from penstock.scheme.operations import rotation_key
    from penstock.scheme.params import catalogue
    from support.openfhe_key import write_openfhe_key

    params = catalogue.get(SET)
    np.save(folder / "objects.npy", Zipf.draw(ACCESSES, OBJECTS, 0.8, 0.1, 1).objects)
    pair = KeyPair.generate(params)
    draw = np.random.default_rng(2)
    for name in ("a", "b"):
        (folder / f"{name}.ciphertext").write_bytes(pair.encrypt(draw.uniform(-1, 1, params.slots)))
    write_openfhe_key(pair, "relin", folder / "relin.key")
    for step in STEPS:
        key = rotation_key(step, params.ring_dim)
        write_openfhe_key(pair, key, folder / f"{step}.key")
        if step in STEPS[:2]:
            for form in ("seeded", "full"):
                pair.write_key(key, folder / f"{step}.{form}", tenant=TENANT, seeded=form == "seeded")


def simulation(policy: str, inputs: Path, _scratch: Path) -> Call:
    """Play a Zipf trace, one access an operation, through a cache of a tenth of its objects."""
    from penstock.scheme.play.accesses import Accesses
    from penstock.scheme.play.caches import SizedCache
    from penstock.scheme.play.hierarchy import replay

    objects = np.load(inputs / "objects.npy")
    accesses = Accesses.one_each(objects, np.full(len(objects), OBJECT_BYTES))
    cache = SizedCache(policy, OBJECTS // 10 * OBJECT_BYTES)
    return lambda: replay(accesses, cache).hits


@dataclass(frozen=True)
class Evaluator:
    """The native evaluator with two ciphertexts and the keys of their operations, in memory."""

    context: Any
    values: Any
    """(slots,) complex128"""
    a: Any
    b: Any
    relin: Any
    rotations: list[tuple[int, Any]]

    @classmethod
    def load(cls, inputs: Path) -> Evaluator:
        sys.path.insert(1, str(Path(__file__).parents[1] / "tests"))
        from penstock.runtime.native.engine import make_context
        from penstock.scheme.params import catalogue
        from support.engine_calls import Calls

        params = catalogue.get(SET)
        context = make_context(params, threads=1)
        a, b = (context.import_ciphertext((inputs / f"{name}.ciphertext").read_bytes()) for name in ("a", "b"))
        keys: dict[int, Any] = {}
        for step in STEPS:
            keys |= context.import_automorphism_keys((inputs / f"{step}.key").read_bytes())
        relin = context.import_key((inputs / "relin.key").read_bytes())
        values = np.random.default_rng(3).uniform(-1, 1, params.slots).astype(np.complex128)
        return cls(Calls(context), values, a, b, relin, list(keys.items()))


def rotate(inputs: Path, _scratch: Path) -> Call:
    """Rotate a fresh ciphertext by each of the steps."""
    of = Evaluator.load(inputs)
    return lambda: [of.context.rotate(of.a, element, key) for element, key in of.rotations][-1]


def multiply(inputs: Path, _scratch: Path) -> Call:
    """Multiply two fresh ciphertexts, relinearize and rescale."""
    of = Evaluator.load(inputs)
    return lambda: of.context.rescale_now(of.context.mult(of.a, of.b, of.relin))


def encode(inputs: Path, _scratch: Path) -> Call:
    """Encode full vectors at all limbs, and multiply a ciphertext by each."""
    of = Evaluator.load(inputs)
    encoded = partial(of.context.encode, limbs=of.a.limbs, degree=1, slots=len(of.values))
    return lambda: [of.context.mult_plain(of.a, encoded(of.values * k)) for k in range(1, 9)][-1]


def linear_transform(inputs: Path, _scratch: Path) -> Call:
    """One stage of a bootstrapping's transform: hoisted rotations over Q and P, their sum of products, one division."""
    of = Evaluator.load(inputs)
    context = of.context

    def call() -> Any:
        digits = context.decompose(of.a)
        turned = [context.rotate_hoisted_extended(of.a, digits, element, key) for element, key in of.rotations]
        diagonals = [context.encode_coefficients(of.values, of.a.limbs, 1, len(of.values)) for _ in turned]
        return context.mod_down(context.weighted_sums_extended([turned], diagonals, [])[0])

    return call


def store_read(form: str, inputs: Path, scratch: Path) -> Call:
    """Read keys from a store that has no room for two of them: hash each row, and expand seeds."""
    from penstock.runtime.keystore import KeyCache, KeyStore, parameter_digest
    from penstock.scheme.params import catalogue

    params, store = catalogue.get(SET), KeyStore(scratch / "keys", direct=False)
    names = [store.import_segment(inputs / f"{step}.{form}", tenant=TENANT).name.key for step in STEPS[:2]]
    cache = KeyCache(store, params.key_bytes() * 3 // 2, policy="lru", prefetch_uses=0)
    session = cache.session(TENANT, parameter_digest(params))

    def call() -> Any:
        for name in names:
            with session.get(name, params.num_q) as key:
                row = key.row(0, 0, 0)
        assert cache.stats().hits == 0
        return row

    return call


KERNELS: dict[str, Callable[[Path, Path], Call]] = {
    "simulate-lru": partial(simulation, "lru"),
    "simulate-belady": partial(simulation, "belady"),
    "rotate": rotate,
    "multiply": multiply,
    "encode": encode,
    "linear-transform": linear_transform,
    "read-seeded": partial(store_read, "seeded"),
    "read-full": partial(store_read, "full"),
}
"""Kernel -> what makes its call from the inputs and an empty folder."""


def digest(result: Any) -> str:
    """Of a number, an array, or the words of a ciphertext."""
    words = [result.words(k) for k in range(result.polynomials)] if hasattr(result, "words") else [result]
    sha = hashlib.sha256()
    for each in words:
        sha.update(np.ascontiguousarray(each).tobytes())
    return sha.hexdigest()[:16]


def measure(name: str, inputs: Path, repeats: int) -> dict[str, Any]:
    """One warm-up, then `repeats` calls; the least disturbed one counts.

    Time of the processor, in all threads: other programs disturb it less, and waiting does not count.
    """
    with tempfile.TemporaryDirectory(dir=inputs) as scratch:
        call = KERNELS[name](inputs, Path(scratch))
        result = digest(call())
        seconds = []
        for _ in range(repeats):
            began = time.process_time()
            made = call()
            seconds.append(time.process_time() - began)
            del made
    return {"kernel": name, "seconds": min(seconds), "result": result}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", type=Path)
    parser.add_argument("folder", type=Path, help="the penstock to run: what holds the folder penstock")
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="all where none is named")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    import penstock

    if not Path(penstock.__file__).is_relative_to(given.folder.resolve()):
        sys.exit(f"{penstock.__file__} was imported, and not the penstock in {given.folder}")
    for name in given.kernels or KERNELS:
        try:
            print(json.dumps(measure(name, given.inputs, given.repeats)), flush=True)
        except Exception as error:  # an older penstock may lack any part of it
            print(json.dumps({"kernel": name, "lacks": f"{type(error).__name__}: {error}"}), flush=True)


if __name__ == "__main__":
    main()
