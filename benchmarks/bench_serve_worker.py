"""A tenant's jobs in a worker: with keys from the disk and with keys in memory, beside the computing alone.

`python benchmarks/bench_serve_worker.py` makes keys of its own in a temporary folder; `--ring` and `--limbs` size them.
`computing` is the same compiled program called in the worker's process with its keys pinned in memory: the least that a
job can take. `job` is from `submit` to `on_done`: messages, files, key look-ups and results on the disk included.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output, Package, Verb
from penstock.program.package.file import write_package
from penstock.runtime.keystore import KeyStore
from penstock.runtime.native.client import open_client
from penstock.runtime.native.compute import WholeOptions, compute_compiled
from penstock.runtime.native.engine import make_context
from penstock.runtime.native.keys import KeysHeld
from penstock.runtime.native.store import add_missing_keys
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.service.work.messages import JobFigures, JobSpec, WorkerSettings
from penstock.service.work.pool import WorkerPool
from penstock.service.work.programs import compile_planned, plan_program

TENANT = "alice"


def program(params: CkksParameters, rotations: int) -> Package:
    """A sum of rotations, and a square."""
    builder = PackageBuilder(ConstantsInMemory())
    x = builder.encrypt(Input("x", params.slots))
    total = x
    for step in range(rotations):
        total = builder.add(Verb.ADD, [total, builder.add(Verb.ROTATE, [x], argument=step + 1)])
    builder.output(builder.add(Verb.SQUARE, [total]), Output("y", params.slots))
    return builder.finish("rotations", params, ConstantsInMemory())


def computing(spec: JobSpec, budget: int, threads: int) -> Callable[[], float]:
    """The program alone, keys in memory, without files: each call runs it, and returns its seconds."""
    planned = plan_program(spec.package, budget)
    context = make_context(planned.params, threads, kept_ciphertexts=16)
    compiled = compile_planned(planned, context, threads)
    keys = KeysHeld(planned.params, KeyStore(spec.store), TENANT, planned.keys, secret_tag=spec.secret_tag)
    content = spec.inputs["x"].read_bytes()
    whole = WholeOptions(lanes=compiled.lanes.count)

    def run() -> float:
        begun = time.perf_counter()
        compute_compiled(compiled.compiled, context, keys, lambda _: content, whole)
        return time.perf_counter() - begun

    run()
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--params", default="openfhe-demo")
    parser.add_argument("--rotations", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    params = catalogue.get(options.params)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        package = program(params, options.rotations)
        write_package(package, folder / "p.pkg")
        client = open_client(params, library="penstock")
        store = KeyStore(folder / "keys")
        add_missing_keys(client, store, TENANT, package.keys)
        (folder / "x").write_bytes(client.encrypt(np.full(params.slots, 0.25)).content)
        spec = JobSpec(
            job="0", tenant=TENANT, program="p", package=folder / "p.pkg", store=folder / "keys",
            secret_tag=client.key_tag, inputs={"x": folder / "x"}, outputs={"y": folder / "y"},
        )  # fmt: skip
        budget = 2 * sum(params.key_bytes(limbs, key=key) for key, limbs in package.keys.items())
        compute = computing(spec, budget, options.threads)
        ended = threading.Event()
        figures: list[JobFigures] = []

        def done(job: str, found: JobFigures) -> None:
            figures.append(found)
            ended.set()

        def failed(job: str, reason: str, retry: bool) -> None:
            raise SystemExit(f"job {job}: {reason}")

        settings = WorkerSettings(
            store=folder / "keys", budget_bytes=budget, threads=options.threads, readable=(folder,), writable=(folder,)
        )
        pool = WorkerPool(settings, on_done=done, on_failed=failed)
        pool.start()

        def job_s(number: int) -> float:
            ended.clear()
            begun = time.perf_counter()
            pool.submit(replace(spec, job=str(number)))
            ended.wait()
            return time.perf_counter() - begun

        first = job_s(0)
        # In turn, so that both meet the same machine.
        pairs = [(compute(), job_s(number)) for number in range(1, options.repeats + 1)]
        alone, warm = (statistics.median(each) for each in zip(*pairs, strict=True))
        inside = statistics.median(each.compute_s for each in figures[1:])
        disk = []
        for number in range(options.repeats):
            pool.forget_tenant(TENANT)
            disk.append(job_s(1000 + number))
        pool.close()
    key_bytes = budget // 2
    print(f"{params.name}: {len(package.keys)} keys of {key_bytes / 1e6:.0f} MB, {options.threads} threads")
    print(f"  computing alone           {alone * 1e3:8.1f} ms (median of {options.repeats})")
    print(f"  first job, nothing known  {first * 1e3:8.1f} ms: tables, compiling, keys from the disk")
    bound_ms = (1.15 * alone + 0.010) * 1e3
    print(f"  job, keys in memory       {warm * 1e3:8.1f} ms: 1.15 of computing and 10 ms are {bound_ms:.1f} ms")
    print(f"    of it in the worker     {inside * 1e3:8.1f} ms")
    print(f"  job, keys on the disk     {statistics.median(disk) * 1e3:8.1f} ms: page cache as the system has it")


if __name__ == "__main__":
    main()
