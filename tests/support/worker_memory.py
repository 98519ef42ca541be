"""A worker's memory over many parameter sets and many operations: what it holds against what it states."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path

import numpy as np

from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output, Verb
from penstock.program.package.file import write_package
from penstock.runtime.keystore import KeyStore
from penstock.runtime.native.client import open_client
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.service.work.admission import Limits
from penstock.service.work.messages import JobSpec, WorkerSettings
from penstock.service.work.pool import WorkerPool
from support.service_jobs import Told

PARAMS = catalogue.get("insecure-small")
LENGTH = 8
SCALINGS = (Scaling.FIXED_MANUAL, Scaling.FIXED_AUTO, Scaling.FLEXIBLE_AUTO)


def write_chain(path: Path, operations: int, params: CkksParameters) -> None:
    """x, negated so often: it needs no key."""
    builder = PackageBuilder(ConstantsInMemory())
    x = builder.encrypt(Input("x", LENGTH))
    for _ in range(operations):
        x = builder.add(Verb.NEGATE, [x])
    builder.output(x, Output("y", LENGTH))
    write_package(builder.finish(path.stem, params, ConstantsInMemory()), path)


def varied(count: int) -> Iterator[CkksParameters]:
    """Up to 1,125 sets: each has an evaluator of its own."""
    for rings, fewer, limbs, scaling in islice(product(range(3), range(25), range(5), SCALINGS), count):
        yield replace(
            PARAMS,
            ring_dim=PARAMS.ring_dim << rings,
            slots=PARAMS.slots << rings,
            q_bits=PARAMS.q_bits[: 3 + limbs],
            dnum=3 + limbs,
            scale_bits=PARAMS.scale_bits - fewer,
            scaling=scaling,
        )


def encrypted(params: CkksParameters) -> bytes:
    """A ciphertext of a client of its own."""
    return bytes(open_client(params, library="penstock").encrypt(np.full(params.slots, 0.5)).content)


@dataclass
class Held:
    """Bytes of a worker."""

    stated: int
    first: int = 0
    """Once it was ready."""
    most: int = 0
    kept: int = 0
    """Its own word on programs and evaluators, at the end."""
    jobs: int = 0
    deaths: int = 0


class MemoryWatch:
    """One worker, and jobs one after another. It holds no keys."""

    def __init__(self, folder: Path, *, kept_bytes: int, memory_bytes: int) -> None:
        self.folder, self.told = folder, Told()
        for name in ("packages", "outputs"):
            (folder / name).mkdir()
        settings = WorkerSettings(
            store=KeyStore(folder / "keys").folder, budget_bytes=1 << 20, abreast=2, kept_bytes=kept_bytes,
            readable=(folder,), writable=(folder / "outputs",),
        )  # fmt: skip
        self.pool = WorkerPool(settings, limits=Limits(memory_bytes=memory_bytes), **self.told.callbacks())
        self.held = Held(stated=self.pool.snapshot(0)["stated_memory_bytes"])

    def look(self) -> int:
        """Its bytes now."""
        workers = self.pool.snapshot(0)["workers"]
        now = int(workers[0]["memory_bytes"]) if workers else 0
        self.held.most = max(self.held.most, now)
        return now

    def run(self, name: str, content: bytes, params: CkksParameters, operations: int) -> None:
        """A job of a new package, and its end. `content`: its input."""
        self.held.jobs += 1
        package, job = self.folder / "packages" / f"{name}.pkg", f"job-{self.held.jobs}"
        write_chain(package, operations, params)
        (self.folder / "x").write_bytes(content)
        outputs = {"y": self.folder / "outputs" / job}
        self.pool.submit(
            JobSpec(
                job=job, tenant="alice", program=name, package=package, store=self.folder / "keys", secret_tag=None,
                inputs={"x": self.folder / "x"}, outputs=outputs,
            )
        )  # fmt: skip
        while job not in self.told.ended:
            self.look()
            time.sleep(0.01)
        package.unlink()
        outputs["y"].unlink(missing_ok=True)


@contextmanager
def watched(folder: Path, *, kept_bytes: int, memory_bytes: int) -> Iterator[MemoryWatch]:
    """A worker that is ready."""
    watch = MemoryWatch(folder, kept_bytes=kept_bytes, memory_bytes=memory_bytes)
    watch.pool.start()
    try:
        while not watch.pool.snapshot(0)["workers"][0]["isolation"]:
            time.sleep(0.02)
        watch.held.first = watch.look()
        yield watch
        time.sleep(0.7)  # its last word on what it keeps
        kept = watch.pool.snapshot(0)["workers"][0]["kept"]
        watch.held.kept = kept["program_bytes"] + kept["evaluator_bytes"]
        watch.held.deaths = watch.pool.snapshot(0)["worker_deaths"]
    finally:
        watch.pool.close()


def over_sets(watch: MemoryWatch, sets: int, operations: int = 4) -> None:
    """A job for each of so many parameter sets, with an input of its own."""
    for number, params in enumerate(varied(sets)):
        watch.run(f"set-{number}", encrypted(params), params, operations)


def over_operations(watch: MemoryWatch, packages: int, operations: int) -> None:
    """A job of each of so many packages."""
    content = encrypted(PARAMS)
    for number in range(packages):
        watch.run(f"chain-{number}", content, PARAMS, operations + number)
