"""One job through `penstock serve`, with keys in memory and with keys on the disk, next to its computing alone.

`python benchmarks/bench_serve_job.py` starts a real server and talks HTTP to it on loopback, over one connection. A job
is timed from the first byte of its input to the last byte of its result: the upload, its commit, the submission, the
wait, and the download. Each job has a fresh input. `computing` is the same compiled program called in this process, its
keys pinned in memory. `reading` is its key files read past the page cache, in pieces of 8 MB.

Bounds: keys in memory, 1.15 of computing and 10 ms; keys on the disk, 1.25 of max(computing, reading) and 10 ms.
"""

from __future__ import annotations

import argparse
import hashlib
import mmap
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench_serve_worker import computing
from penstock.program.package.content import Package
from penstock.program.package.file import write_package
from penstock.runtime.keystore import KeyStore
from penstock.runtime.native.client import open_client
from penstock.runtime.native.store import add_missing_keys
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.service.work.messages import JobSpec
from serving import Caller, Results, rotations, served

TENANTS = ("alice", "bob")
"""The budget holds the keys of one."""
STEPS = ("upload", "commit", "submit", "wait", "result")


class Tenant:
    """One tenant: its token, its keys at the service, and inputs."""

    def __init__(self, name: str, caller: Caller, params: CkksParameters, package: Package, folder: Path) -> None:
        self.name, self._caller, self._params = name, caller, params
        self._client = open_client(params, library="penstock")
        self._made = 0
        self.store = KeyStore(folder / f"keys-{name}")
        add_missing_keys(self._client, self.store, name, package.keys)
        write_package(package, folder / f"{name}.pkg")
        self.package = folder / f"{name}.pkg"
        self.input = folder / f"{name}.x"
        self.tag = self._client.key_tag
        blob = caller.upload(self.package.read_bytes(), "package")
        caller("POST", "/v1/programs", {"name": "rotations", "package": blob})
        self.segments = sorted((folder / f"keys-{name}").glob("*/*/*.pkey"))
        for segment in self.segments:
            caller.upload(segment.read_bytes(), "key", params="rotations")

    def job(self) -> tuple[float, dict[str, float], dict[str, Any]]:
        """Seconds of a job, of its steps, and the service's figures of it."""
        self._made += 1
        content = self._client.encrypt(np.full(self._params.slots, 1 / self._made)).content
        self.input.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        begun = self._caller("POST", "/v1/uploads", {"kind": "input", "bytes": len(content), "sha256": digest})
        times = [time.perf_counter()]

        def done() -> None:
            times.append(time.perf_counter())

        upload, job = begun["upload"], f"job-{self._made}"
        self._caller("PUT", f"/v1/uploads/{upload}?offset=0", content)
        done()
        self._caller("POST", f"/v1/uploads/{upload}/commit")
        done()
        self._caller("POST", "/v1/jobs", {"job": job, "program": "rotations", "inputs": {"x": digest}})
        done()
        state = {"state": "queued"}
        while state["state"] in ("queued", "running"):
            state = self._caller("GET", f"/v1/jobs/{job}?wait=60")
        done()
        if state["state"] != "done":
            raise SystemExit(f"{self.name}, {job}: {state}")
        self._caller.raw("GET", f"/v1/jobs/{job}/outputs/y")
        done()
        parts = {name: later - sooner for name, sooner, later in zip(STEPS, times[:-1], times[1:], strict=True)}
        return times[-1] - times[0], parts, state["figures"]


def reading_s(files: list[Path]) -> float:
    """Seconds to read files past the page cache."""
    buffer = mmap.mmap(-1, 8 << 20)
    begun = time.perf_counter()
    for file in files:
        descriptor = os.open(file, os.O_RDONLY | os.O_DIRECT)
        while os.readv(descriptor, [buffer]) == len(buffer):
            pass
        os.close(descriptor)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", default="openfhe-demo")
    parser.add_argument("--rotations", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=None, help="where the server and the keys lie; else temporary")
    parser.add_argument("--json", type=Path, default=None, help="write the figures to this file")
    options = parser.parse_args()
    params = catalogue.get(options.params)
    package = rotations(params, options.rotations, name="rotations")
    key_bytes = sum(params.key_bytes(limbs, key=key) for key, limbs in package.keys.items())
    settings = f'[limits]\nrequests_per_s = 10000.0\n[work]\nkey_bytes = "{int(1.2 * key_bytes)} B"\n'
    settings += f"threads = {options.threads}\n"
    with tempfile.TemporaryDirectory(dir=options.folder) as place, served(Path(place) / "server", settings) as server:
        folder = Path(place)
        alice, bob = (Tenant(name, server.tenant(name), params, package, folder) for name in TENANTS)
        alice.job()
        spec = JobSpec(
            job="0", tenant="alice", program="p", package=alice.package, store=alice.store.folder,
            secret_tag=alice.tag, inputs={"x": alice.input}, outputs={},
        )  # fmt: skip
        alone = computing(spec, key_bytes * 2, options.threads)
        stored = sorted((folder / "server" / "state" / "keys" / "alice").glob("*/*.pkey"))
        rows: dict[str, list[Any]] = {"alone": [], "memory": [], "disk": [], "reading": []}
        for _ in range(options.repeats):
            alice.job()
            rows["alone"].append(alone())
            rows["memory"].append(alice.job())
            rows["reading"].append(reading_s(stored))
            bob.job()
            rows["disk"].append(alice.job())
    report(rows, options, key_bytes, len(package.keys))


def report(rows: dict[str, list[Any]], options: argparse.Namespace, key_bytes: int, keys: int) -> None:
    """Print medians and bounds."""
    alone, reading = statistics.median(rows["alone"]), statistics.median(rows["reading"])
    bounds = {"memory": 1.15 * alone + 0.010, "disk": 1.25 * max(alone, reading) + 0.010}
    print(f"measured: {options.params}, {keys} keys of {key_bytes / 1e6:.0f} MB, {options.threads} threads")
    print(f"  computing alone         {alone * 1e3:8.1f} ms (median of {options.repeats})")
    print(
        f"  reading the keys alone  {reading * 1e3:8.1f} ms, {key_bytes / reading / 1e9:.2f} GB/s, past the page cache"
    )
    found: dict[str, Any] = {"computing_s": alone, "reading_s": reading, "key_bytes": key_bytes}
    for name, bound in bounds.items():
        took = statistics.median(each[0] for each in rows[name])
        print(f"  job, keys {'in memory' if name == 'memory' else 'on the disk':12}  {took * 1e3:8.1f} ms, "
              f"bound {bound * 1e3:.1f} ms: {took / bound:.2f} of it")  # fmt: skip
        steps = {step: statistics.median(each[1][step] for each in rows[name]) for step in STEPS}
        inside = statistics.median(each[2]["compute_s"] for each in rows[name])
        waits = statistics.median(each[2]["key_wait_s"] for each in rows[name])
        print("    " + ", ".join(f"{step} {seconds * 1e3:.1f}" for step, seconds in steps.items())
              + f" ms; in the worker {inside * 1e3:.1f} ms, of it waits for keys {waits * 1e3:.1f} ms")  # fmt: skip
        found[name] = {"job_s": took, "bound_s": bound, "steps_s": steps, "worker_s": inside, "key_wait_s": waits}
    Results(options.json).put(**found)


if __name__ == "__main__":
    main()
