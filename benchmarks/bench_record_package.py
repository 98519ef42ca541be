"""What recording a package costs: the same plaintext products with OpenFHE, bare, with a trace, with a package.

    .venv/bin/python benchmarks/bench_record_package.py [--products 200] [--runs 3] [--format json]

Runs alternate on the same keys. Each product is with a new plaintext: nothing of it is known before. Three figures:
the ratio of whole runs, the same of the processor time of the script's thread, which other programs disturb less, and
the share of the run between the recorder's entry and exit. That share counts lists as the recorder's work which
OpenFHE would convert itself.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from penstock.program.openfhe.evaluator import load_openfhe, set_threads
from penstock.program.openfhe.recorder.behind import Behind
from penstock.program.openfhe.recorder.tap import TAP
from penstock.program.package.file import PackageFile


def context(log_ring_dim: int, depth: int) -> tuple[Any, Any]:
    fhe = load_openfhe()
    asked = fhe.CCParamsCKKSRNS()
    asked.SetRingDim(1 << log_ring_dim)
    asked.SetMultiplicativeDepth(depth)
    asked.SetScalingModSize(50)
    asked.SetFirstModSize(60)
    asked.SetSecurityLevel(fhe.HEStd_NotSet)
    cc = fhe.GenCryptoContext(asked)
    for feature in (fhe.PKE, fhe.KEYSWITCH, fhe.LEVELEDSHE):
        cc.Enable(feature)
    return cc, cc.KeyGen()


def program(cc: Any, keys: Any, x: list[float], vectors: list[Any]) -> None:
    ciphertext = cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext(x))
    total = cc.EvalMult(ciphertext, cc.MakeCKKSPackedPlaintext(vectors[0]))
    for vector in vectors[1:]:
        total = cc.EvalAdd(total, cc.EvalMult(ciphertext, cc.MakeCKKSPackedPlaintext(vector)))
    cc.Decrypt(total, keys.secretKey)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--log-ring-dim", type=int, default=15)
    arguments.add_argument("--depth", type=int, default=5)
    arguments.add_argument("--products", type=int, default=200)
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--values", choices=("list", "array"), default="list")
    arguments.add_argument("--format", choices=("table", "json"), default="table")
    options = arguments.parse_args()

    set_threads(options.threads)
    cc, keys = context(options.log_ring_dim, options.depth)
    rng, slots = np.random.default_rng(7), 1 << (options.log_ring_dim - 1)
    vectors: list[Any] = [rng.uniform(-1, 1, slots) for _ in range(options.products)]
    if options.values == "list":
        vectors = [each.tolist() for each in vectors]
    x = rng.uniform(-1, 1, slots).tolist()

    def run(mode: str, folder: Path) -> tuple[float, float, float]:
        """Seconds in all, of this thread's processor, and of the recorder."""
        with ExitStack() as opened:
            if mode != "bare":
                TAP.open(load_openfhe())
                recording = TAP.start(cc)
                opened.callback(TAP.stop, cc)
            if mode == "package":
                file = opened.enter_context(PackageFile(folder / "model.pkg"))
                behind = opened.enter_context(Behind(file))
                packagings = TAP.keep_constants(recording, lambda number: behind)
            started, worked = time.perf_counter(), time.thread_time()
            program(cc, keys, x, vectors)
            elapsed, worked = time.perf_counter() - started, time.thread_time() - worked
            if mode == "bare":
                return elapsed, worked, 0.0
            overhead = recording.overhead_s
            if mode == "package":
                ending = time.perf_counter()
                file.finish(packagings.packages[0].package(file))
                ending = time.perf_counter() - ending
                elapsed, overhead = elapsed + ending, overhead + ending
            return elapsed, worked, overhead

    modes = ("bare", "trace", "package")
    samples: dict[str, list[tuple[float, float, float]]] = {mode: [] for mode in modes}
    with tempfile.TemporaryDirectory() as folder:
        for mode in modes[::2]:
            run(mode, Path(folder))
        (Path(folder) / "model.pkg").unlink()
        for index in range(options.runs):
            # The order alternates, so that a drift of the machine's speed does not favour one side.
            for mode in modes if index % 2 == 0 else modes[::-1]:
                samples[mode].append(run(mode, Path(folder)))
                (Path(folder) / "model.pkg").unlink(missing_ok=True)
    bare, bare_cpu = (statistics.median(each[k] for each in samples["bare"]) for k in (0, 1))
    result: dict[str, Any] = {
        "log_ring_dim": options.log_ring_dim, "depth": options.depth, "products": options.products,
        "values": options.values, "threads": options.threads, "runs": options.runs, "bare_s": bare,
        "bare_cpu_s": bare_cpu,
    }  # fmt: skip
    for mode in modes[1:]:
        whole, cpu, own = (statistics.median(each[k] for each in samples[mode]) for k in range(3))
        result |= {f"{mode}_s": whole, f"{mode}_ratio": whole / bare, f"{mode}_cpu_ratio": cpu / bare_cpu}
        result[f"{mode}_recorder_share"] = own / bare
    result["provenance"] = "measured"
    if options.format == "json":
        print(json.dumps(result, indent=2))
        return
    for name, value in result.items():
        print(f"{name:28} {value:.6g}" if isinstance(value, float) else f"{name:28} {value}")


if __name__ == "__main__":
    main()
