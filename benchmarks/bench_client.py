"""Penstock's client beside OpenFHE, in one run: keys, their size, encryption, round trips, noise.

    .venv/bin/python benchmarks/bench_client.py [PART ...] [--params openfhe-bench] [--threads 1 2] [--format json]

Parts: `expand` (rate of the seed's expansion), `keys` (seconds a key, alternating with OpenFHE), `memory` (of making
keys), `encrypt`, `size` (bytes in a store by form, real keys of real programs), `trips` (10,000 round trips at N = 2^12
and 100 at 2^16, word for word). All of them take some minutes and the disk space of the programs' keys.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from penstock.program.openfhe.evaluator import set_threads
from penstock.program.running.native_set import resolve
from penstock.program.running.trace import trace_workload
from penstock.runtime.client import KeyPair
from penstock.runtime.client.engine import load_client
from penstock.runtime.keystore import KeyStore
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.primes import openfhe_primes
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.params.spec import CkksSpec
from support.client_pair import Sides, phase_of, without_rows

Row = dict[str, Any]
PROGRAMS = (("bootstrapping", "full", "openfhe-bootstrap"), ("resnet20", "full", None))
REPEATS = 15


def best(calls: dict[str, Callable[[], object]], repeats: int = REPEATS) -> dict[str, tuple[float, float]]:
    """Minimum and median seconds of each call; they take turns, so that noise falls on all."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            taken[name].append(time.perf_counter() - started)
    return {name: (min(each), statistics.median(each)) for name, each in taken.items()}


def expand(options: argparse.Namespace) -> Iterator[Row]:
    """Bytes a second of one core."""
    client, words = load_client(), np.empty(1 << 16, dtype=np.uint64)
    for modulus in openfhe_primes(catalogue.get(options.params))[0][:2]:
        least, median = best({"": lambda q=modulus: client.expand(bytes(32), 0, 0, q, words)}, 400)[""]
        yield {
            "part": "expand",
            "modulus_bits": modulus.bit_length(),
            "bytes_per_s": words.nbytes / least,
            "median_bytes_per_s": words.nbytes / median,
        }


def keys(options: argparse.Namespace) -> Iterator[Row]:
    """Seconds of a whole key: made in memory, and with its file (OpenFHE's a full one, ours a seeded segment)."""
    for name in (options.params, "openfhe-bootstrap"):
        params = catalogue.get(name)
        for threads in options.threads:
            set_threads(threads)
            sides = Sides(params, threads)
            folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
            path = Path(folder.name) / "key.pkey"

            def theirs(sides: Sides = sides) -> Any:
                sides.fhe.CryptoContext.ClearEvalAutomorphismKeys()
                return sides.cc.EvalAutomorphismKeyGen(sides.openfhe.secret_key, [5])

            def their_file(sides: Sides = sides, path: Path = path) -> None:
                assert sides.fhe.SerializeToFile(str(path), theirs(), sides.fhe.BINARY)
                path.unlink()

            def our_file(sides: Sides = sides, path: Path = path) -> None:
                sides.ours.write_key("rot:5", path, tenant="bench")
                path.unlink()

            calls: dict[str, Callable[[], object]] = {
                "openfhe": theirs,
                "penstock": lambda s=sides: s.ours.generate_key("rot:5"),
                "openfhe with its file": their_file,
                "penstock with its file": our_file,
            }
            found = best(calls)
            folder.cleanup()
            sides.release()
            for with_file in ("", " with its file"):
                their, own = found[f"openfhe{with_file}"], found[f"penstock{with_file}"]
                yield {
                    "part": "keys",
                    "params": name,
                    "threads": threads,
                    "what": f"a key{with_file or ' in memory'}",
                    "openfhe_s": their[1],
                    "penstock_s": own[1],
                    "ratio": their[1] / own[1],
                    "ratio_of_minima": their[0] / own[0],
                }


def memory(options: argparse.Namespace) -> Iterator[Row]:
    """What the making of 8 keys adds to the peak memory of a process that has a key pair."""
    code = (
        "import sys, tempfile, pathlib\n"
        "from penstock.runtime.client import KeyPair\n"
        "from penstock.scheme.params import catalogue\n"
        "pair = KeyPair.generate(catalogue.get(sys.argv[1]), threads=2)\n"
        "def read(what): return next(line.split()[1] for line in open('/proc/self/status') if line.startswith(what))\n"
        "before = read('VmRSS')\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    for k in range(8):\n"
        "        element = pow(5, k + 1, 2 * pair.params.ring_dim)\n"
        "        pair.write_key(f'rot:{element}', pathlib.Path(folder) / f'{k}.pkey', tenant='bench')\n"
        "print(before, read('VmHWM'))\n"
    )
    for name in (options.params, "openfhe-bootstrap"):
        ended = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, check=True)
        before, after = (1024 * int(text) for text in ended.stdout.split())
        key_bytes = catalogue.get(name).key_bytes()
        yield {
            "part": "memory",
            "params": name,
            "key_bytes": key_bytes,
            "before_bytes": before,
            "added_bytes": after - before,
            "added_keys": (after - before) / key_bytes,
        }


def encrypt(options: argparse.Namespace) -> Iterator[Row]:
    """Seconds of encryption and decryption, without OpenFHE's serialization."""
    params = catalogue.get(options.params)
    for threads in options.threads:
        set_threads(threads)
        sides = Sides(params, threads)
        values = sides.values(np.random.default_rng(0))
        ours, theirs = sides.ours.encrypt(values), sides.encrypted(values)
        found = best(
            {
                "openfhe encrypts": lambda s=sides, v=values: s.encrypted(v),
                "penstock encrypts": lambda s=sides, v=values: s.ours.encrypt(v),
                "penstock encrypts, seeded": lambda s=sides, v=values: s.ours.encrypt_seeded(v),
                "openfhe decrypts": lambda s=sides, c=theirs: s.decrypted(c),
                "penstock decrypts": lambda s=sides, c=ours: s.ours.decrypt(c, result_for="owner"),
            }
        )
        sides.release()
        for name, (least, median) in found.items():
            yield {"part": "encrypt", "threads": threads, "what": name, "min_s": least, "median_s": median}


def size(options: argparse.Namespace) -> Iterator[Row]:
    """Bytes of the real keys of a program in a store, by form."""
    for workload, size_name, named in PROGRAMS:
        for few in (False, True):
            params = resolve(workload, named, size_name)[2]
            if few:
                from penstock.program.evaluator.circuits.bootstrap import with_few_keys

                params = with_few_keys(params)
            limbs = trace_workload(workload, params, size_name).key_limbs()
            full = sum(params.stored_key_bytes(params.num_q, KeyForm.FULL) for _ in limbs)
            pair = KeyPair.generate(params)
            for form in ("seeded", "seeded+truncated"):
                yield _stored(pair, params, workload, limbs, form, full, few)


def _stored(
    pair: KeyPair, params: CkksParameters, workload: str, limbs: dict[str, int], form: str, full: int, few: bool
) -> Row:
    uploaded, started = 0, time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        store, path = KeyStore(Path(folder) / "keys"), Path(folder) / "made.pkey"
        for key, most in limbs.items():
            uploaded += pair.write_key(
                key, path, tenant="bench", limbs=most if form == "seeded+truncated" else params.num_q
            )
            store.import_segment(path, tenant="bench", params=params)
            path.unlink()
        stored = sum(key.file_bytes for key in store.list_keys())
    return {
        "part": "size",
        "workload": workload,
        "rotations": "few-keys" if few else "hoisted",
        "form": form,
        "num_keys": len(limbs),
        "full_bytes": full,
        "stored_bytes": stored,
        "uploaded_bytes": uploaded,
        "ratio": stored / full,
        "making_s": time.perf_counter() - started,
    }


def trips(options: argparse.Namespace) -> Iterator[Row]:
    """Round trips both ways: words of c0 + c1 s, bytes around the words, values."""
    for log_ring_dim, count in ((12, 10_000), (16, 100)):
        written = {
            "name": f"insecure-trips-{log_ring_dim}",
            "library": "openfhe",
            "ring_dim": 1 << log_ring_dim,
            "depth": 3,
            "scale_bits": 45,
            "first_mod_bits": 60,
            "dnum": 2,
            "scaling": "flexible-auto",
            "security": "none",
            "source": "benchmarks/bench_client.py",
        }
        sides = Sides(CkksSpec.model_validate(written).build())
        n, q = sides.params.ring_dim, sides.q
        rng, wrong, worst = np.random.default_rng(7), 0, 0.0
        frame = without_rows(sides.bytes(sides.encrypted(sides.values(rng))), n, q)
        for _ in range(count):
            values = sides.values(rng)
            theirs, ours = sides.bytes(sides.encrypted(values)), sides.ours.encrypt(values)
            wrong += not np.array_equal(sides.ours.phase(theirs), phase_of(theirs, sides.secret_rows, n, q))
            wrong += without_rows(ours, n, q) != frame
            here = np.abs(sides.ours.decrypt(theirs, result_for="owner") - values).max()
            there = np.abs(sides.decrypted(sides.read(ours)) - values).max()
            worst = max(worst, float(here), float(there))
        sides.release()
        yield {"part": "trips", "ring_dim": n, "trips": count, "different": wrong, "worst_error": worst}


PARTS = {part.__name__: part for part in (expand, keys, memory, encrypt, size, trips)}


def main() -> None:
    """Print the rows of the parts as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all if omitted")
    parser.add_argument("--params", default="openfhe-bench")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--format", choices=["lines", "json"], default="lines")
    options = parser.parse_args()
    rows = []
    for name in options.parts or PARTS:
        for row in PARTS[name](options):
            rows.append(row)
            if options.format == "lines":
                numbers = (
                    f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()
                )
                print("measured ", ", ".join(numbers), flush=True)
    if options.format == "json":
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
