"""`penstock serve` with many tenants' keys: its planned order and eviction, and the order of arrival with LRU.

`python benchmarks/bench_serve.py` prepares 100 tenants with 20 GB of keys in `--folder` (about 25 GB of disk). Then it
runs a backlog of 2,000 jobs and 20 minutes of Poisson arrivals, each with both configurations of the same server. The
folder keeps what was done: the same command goes on, `--only` does one part, and `--again` measures it anew. `--quick`
takes a minute.

All requests are real and go over loopback. The evaluation keys are made for a few key pairs, and each tenant has files
of its own, since their checksums name the tenant. The store reads keys past the page cache (O_DIRECT).

Backlog: all jobs are submitted while the operator has paused the work. The time runs from the end of the pause to the
last result. The clairvoyant bound is the larger of two times: all computing with keys in memory, as the same server
measured it, and the reading of each key once. Poisson: 80 % of the measured throughput of the planned order on the
backlog. A latency counts from the time at which a job was due to the last byte of its result.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import mmap
import os
import shutil
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from drawn_jobs import draw
from penstock.base.system.files import write_atomic
from penstock.base.system.host import available_cores
from penstock.program.package.content import Package
from penstock.program.package.file import write_package
from penstock.runtime.client.pair import KeyPair
from penstock.runtime.keystore import KeyStore, parameter_digest
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.spec import CkksSpec
from penstock.service.http.uploads import Files
from penstock.service.state.state import ServiceState
from penstock.service.work.simulated import JobArrival
from serving import Caller, Often, Refused, Results, Server, progress, rotations, served

ORDERS = {
    "planned": ("planned", "planned"),
    "arrival": ("arrival", "lru"),
}
"""Name of a run -> `[work]` order and eviction. The second is first come, first served, with LRU."""
ZIPF, LOAD = 1.0, 0.8
SPARE_BYTES = 5 * 10**9
KINDS = {"small": (1, 5), "middle": (4, 12), "large": (1, 18)}
"""Program -> its first and last rotation; each has the key of products besides. Programs of a tenant share keys."""
ENDED = ("done", "failed", "cancelled", "expired")


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large a run is."""

    tenants: int = 100
    pairs: int = 4
    jobs: int = 2000
    minutes: float = 20.0
    budget_bytes: int = 4 * 10**9
    ring: int = 1 << 14
    depth: int = 7
    security: int | str = 128
    repeats: Mapping[str, int] = field(default_factory=lambda: {"small": 3, "middle": 3, "large": 3})
    calibrations: int = 9

    @property
    def params(self) -> CkksParameters:
        """The tenants' set."""
        return CkksSpec(
            name="bench-serve", ring_dim=self.ring, slots=self.ring // 2, depth=self.depth, first_mod_bits=50,
            scale_bits=36, dnum=4, scaling="fixed-manual", secret="uniform-ternary", security=self.security,
            library="openfhe", source="benchmarks/bench_serve.py",
        ).build()  # fmt: skip

    def packages(self) -> dict[str, Package]:
        """The three programs."""
        return {
            kind: rotations(self.params, last, first=first, name=kind, repeats=self.repeats[kind])
            for kind, (first, last) in KINDS.items()
        }


SCALES = {
    "full": Scale(),
    "quick": Scale(tenants=10, pairs=2, jobs=120, minutes=0.2, budget_bytes=4 * 10**8, calibrations=5),
    "tiny": Scale(
        tenants=4, pairs=1, jobs=12, minutes=0.05, budget_bytes=3 * 10**6, ring=1 << 11, depth=3, security="none",
        repeats={"small": 1, "middle": 1, "large": 1}, calibrations=2,
    ),
}  # fmt: skip


class Site:
    """The folder: the server's, the tenants' tokens, what was measured."""

    def __init__(self, folder: Path, scale: Scale) -> None:
        self.folder, self.scale, self.params = folder, scale, scale.params
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.state = folder / "server" / "state"
        self.results = Results(folder / "results.json")
        self.packages = scale.packages()
        self.needs = {
            kind: {key: self.params.key_bytes(limbs, key=key) for key, limbs in package.keys.items()}
            for kind, package in self.packages.items()
        }
        self.keys: dict[str, int] = {}
        for package in self.packages.values():
            for key, limbs in package.keys.items():
                self.keys[key] = max(limbs, self.keys.get(key, 0))
        self.tenants = [f"tenant-{number + 1}" for number in range(scale.tenants)]

    @property
    def key_bytes(self) -> int:
        """Of all tenants."""
        return len(self.tenants) * sum(self.params.key_bytes(limbs, key=key) for key, limbs in self.keys.items())

    def settings(self, order: str, eviction: str) -> str:
        """Of a server."""
        return (
            "[limits]\nrequests_per_s = 100000.0\ntenant_requests = 1000\nunfinished_jobs = 1000000\n"
            'connections = 512\n[retention]\nresults = "1000 h"\ninputs = "1000 h"\n'
            f'[work]\nkey_bytes = "{self.scale.budget_bytes} B"\nthreads = {available_cores()}\n'
            f'jobs = 1000000\nbacklog = "10000 h"\norder = "{order}"\neviction = "{eviction}"\n'
        )

    @contextmanager
    def server(self, name: str) -> Iterator[Server]:
        """A server that begins with empty memory and no jobs."""
        with closing(self._state()) as state:
            for row in state.open_jobs():
                state.move_job(row["job"], "cancelled", ended_s=time.time())
        for tenant in self.tenants:
            shutil.rmtree(self.state / "tenants" / tenant / "results", ignore_errors=True)
        with served(self.folder / "server", self.settings(*ORDERS[name])) as server:
            yield server

    def _state(self) -> ServiceState:
        return ServiceState(f"sqlite:///{self.state / 'state.sqlite'}")

    def tokens(self) -> dict[str, str]:
        """Tenant -> token."""
        return dict(json.loads((self.folder / "tokens.json").read_text()))

    # Preparation

    def prepare(self) -> None:
        """Tenants, programs, inputs and keys; what is there stays."""
        if self.results.found.get("prepared"):
            return
        self._check_disk()
        begun = time.monotonic()
        with served(self.folder / "server", self.settings(*ORDERS["planned"])) as server:
            self._add_tenants(server)
            blobs = self._deploy(server)
        self._share(blobs)
        made = self._place_keys()
        # Its opening takes the files that were placed into the index.
        found = len(KeyStore(self.state / "keys").list_keys())
        if found != len(self.tenants) * len(self.keys):
            raise SystemExit(f"the store has {found} keys of {len(self.tenants) * len(self.keys)}: remove {self.state}")
        self.results.put(
            prepared=True, tenants=len(self.tenants), pairs=self.scale.pairs, ring_dim=self.params.ring_dim,
            limbs=self.params.num_q, special_limbs=self.params.num_p, dnum=self.params.dnum,
            security_bits=self.params.security_bits, key_bytes=self.key_bytes, budget_bytes=self.scale.budget_bytes,
            programs={name: {"keys": len(each), "key_bytes": sum(each.values())} for name, each in self.needs.items()},
            keys_placed=made, prepared_s=time.monotonic() - begun, reads="past the page cache (O_DIRECT)",
        )  # fmt: skip

    def _check_disk(self) -> None:
        there = sum(file.stat().st_size for file in self.state.glob("keys/*/*/*.pkey"))
        needed = self.key_bytes - there + min(SPARE_BYTES, self.key_bytes // 4)
        free = shutil.disk_usage(self.folder).free
        if free < needed:
            raise SystemExit(
                f"{self.folder} has {free / 1e9:.1f} GB free, and the keys of {len(self.tenants)} tenants need "
                f"{needed / 1e9:.1f} GB: name another disk with --folder, or take --quick"
            )

    def _add_tenants(self, server: Server) -> None:
        kept = self.folder / "tokens.json"
        tokens = self.tokens() if kept.exists() else {}
        for tenant in self.tenants:
            if tenant not in tokens:
                tokens[tenant] = server.tenant_token(tenant)
        write_atomic(kept, json.dumps(tokens).encode(), force=True, mode=0o600)

    def _deploy(self, server: Server) -> dict[str, str]:
        """The programs of the first tenant, over HTTP, and everybody's input."""
        tokens, blobs = self.tokens(), {}
        first = Caller(server.port, tokens[self.tenants[0]])
        for kind, package in self.packages.items():
            path = self.folder / f"{kind}.pkg"
            if not path.exists():
                write_package(package, path)
            blobs[kind] = first.upload(path.read_bytes(), "package")
            first("POST", "/v1/programs", {"name": kind, "package": blobs[kind]})
        inputs = {}
        for number, tenant in enumerate(self.tenants):
            pair = self.pair(number % self.scale.pairs)
            path = self.folder / f"x-{number % self.scale.pairs}"
            if not path.exists():
                write_atomic(path, pair.encrypt(self.values()))
            inputs[tenant] = Caller(server.port, tokens[tenant]).upload(path.read_bytes(), "ciphertext")
            progress(f"{number + 1} of {len(self.tenants)} tenants have their input")
        self.results.put(inputs=inputs)
        return blobs

    def values(self) -> np.ndarray[Any, Any]:
        """The input of every job."""
        return np.random.default_rng(1).uniform(-1e-3, 1e-3, self.params.slots)

    def pair(self, number: int) -> KeyPair:
        """A key pair, made once."""
        folder = self.folder / f"pair-{number}"
        if not folder.exists():
            KeyPair.generate(self.params).save(folder)
        return KeyPair.load(folder, self.params)

    def _share(self, blobs: Mapping[str, str]) -> None:
        """Give all tenants the first one's programs, with files of their own."""
        files = Files(self.state)
        with closing(self._state()) as state:
            rows = {kind: state.program(self.tenants[0], kind) for kind in blobs}
            for tenant in self.tenants[1:]:
                for kind, sha256 in blobs.items():
                    row, source = rows[kind], files.blob(self.tenants[0], sha256)
                    assert row is not None
                    target = files.blob(tenant, sha256)
                    files.make(target)
                    if not target.exists():
                        write_atomic(target, source.read_bytes(), mode=0o600)
                    blob = {"tenant": tenant, "sha256": sha256, "kind": "package", "bytes": target.stat().st_size}
                    state.end_upload(tenant, "", {**blob, "expires_s": None}, soon=True)
                    state.put_program(tenant, kind, sha256, row["description"])
            state.settle()

    def _place_keys(self) -> int:
        """Write each tenant's key files into the store; how many were missing."""
        digest, made, often = parameter_digest(self.params), 0, Often()
        for number in range(self.scale.pairs):
            own = self.tenants[number :: self.scale.pairs]
            folders = {tenant: self.state / "keys" / tenant / digest for tenant in own}
            for key, limbs in self.keys.items():
                name = f"{key.replace(':', '-')}.pkey"
                lacking = [tenant for tenant in own if not (folders[tenant] / name).exists()]
                if not lacking:
                    continue
                generated = self.pair(number).generate_key(key, limbs=limbs, seeded=False)
                for tenant in lacking:
                    folders[tenant].mkdir(parents=True, exist_ok=True)
                    generated.write(tenant, str(folders[tenant] / name))
                    made += 1
                    often(lambda made=made: f"{made} key files written, of {len(self.tenants) * len(self.keys)}")
        return made

    def reading_bytes_per_s(self) -> float:
        """The rate of key files, read past the page cache in pieces of 8 MB, one after the other."""
        files = sorted((self.state / "keys").glob("*/*/*.pkey"))
        chosen = np.random.default_rng(2).permutation(len(files))[: max(1, min(len(files), 100))]
        buffer, read = mmap.mmap(-1, 8 << 20), 0
        begun = time.perf_counter()
        for at in chosen:
            descriptor = os.open(files[at], os.O_RDONLY | os.O_DIRECT)
            while count := os.readv(descriptor, [buffer]):
                read += count
            os.close(descriptor)
        return read / (time.perf_counter() - begun)


class Jobs:
    """Submits jobs and looks after them. Requests of many tenants, from several threads."""

    def __init__(self, site: Site, server: Server, run: str) -> None:
        self._port, self._tokens, self._run = server.port, site.tokens(), run
        self._inputs = site.results.found["inputs"]
        self._local = threading.local()

    def caller(self, tenant: str) -> Caller:
        """A connection of this thread."""
        known = self._local.__dict__.setdefault("callers", {})
        if tenant not in known:
            known[tenant] = Caller(self._port, self._tokens[tenant])
        found: Caller = known[tenant]
        return found

    def submit(self, number: int, arrival: JobArrival) -> None:
        """Submit one."""
        form = {"job": f"{self._run}-{number}", "program": arrival.kind, "inputs": {"x": self._inputs[arrival.tenant]}}
        self.caller(arrival.tenant)("POST", "/v1/jobs", form)

    def show(self, number: int, tenant: str, wait_s: float = 0.0) -> dict[str, Any]:
        """How it stands."""
        found: dict[str, Any] = self.caller(tenant)("GET", f"/v1/jobs/{self._run}-{number}?wait={wait_s:g}")
        return found

    def result(self, number: int, tenant: str) -> bytes:
        """Its result."""
        return self.caller(tenant).raw("GET", f"/v1/jobs/{self._run}-{number}/outputs/y")


def calibrated(site: Site, server: Server) -> dict[str, float]:
    """Program -> seconds of computing in the worker, keys in memory. Results are checked once."""
    jobs, tenant = Jobs(site, server, f"calibration-{time.time():.0f}"), site.tenants[0]
    found, number = {}, 0
    for kind in KINDS:
        seconds = []
        for repeat in range(site.scale.calibrations + 1):
            jobs.submit(number, JobArrival(at_s=0.0, tenant=tenant, kind=kind))
            row = jobs.show(number, tenant, 60.0)
            if row["state"] != "done":
                raise SystemExit(f"{kind}: {row}")
            if repeat:
                seconds.append(row["figures"]["compute_s"])
            else:
                _check(site, kind, jobs.result(number, tenant))
            number += 1
        found[kind] = statistics.median(seconds)
    return found


def _check(site: Site, kind: str, content: bytes) -> None:
    """The result decrypts to what the program computes."""
    first, last = KINDS[kind]
    total = site.values()
    for _ in range(site.scale.repeats[kind]):
        total = total + sum(np.roll(total, -step) for step in range(first, last + 1))
    found = site.pair(0).decrypt(content, result_for="owner").real
    error = float(np.max(np.abs(found - total**2))) / float(np.max(total**2))
    if error > 1e-2:
        raise SystemExit(f"{kind}: the result is off by {error:.1e} of the largest value")


def backlog(site: Site, name: str, arrivals: Sequence[JobArrival]) -> dict[str, Any]:
    """All jobs at once, from the end of a pause to the last result."""
    with site.server(name) as server:
        computing = calibrated(site, server)
        # The planned run and the other one begin alike: one tenant's keys in memory.
        jobs, often = Jobs(site, server, f"backlog-{name}-{time.time():.0f}"), Often()
        server.operator("POST", "/v1/work", {"paused": True})
        begun = time.monotonic()
        for number, arrival in enumerate(arrivals):
            jobs.submit(number, arrival)
            often(lambda number=number: f"backlog, {name}: {number + 1} of {len(arrivals)} jobs submitted")
        submitted_s = time.monotonic() - begun
        began_s = time.time()
        server.operator("POST", "/v1/work", {"paused": False})
        while left := _open(server):
            often(lambda left=left: f"backlog, {name}: {left} jobs left after {time.time() - began_s:.0f} s")
            time.sleep(2.0 if left > 20 else 0.05)
        rows = [jobs.show(number, arrival.tenant) for number, arrival in enumerate(arrivals)]
        memory = server.memory()["peak"]
        work = server.operator("GET", "/v1/work")
    states = {row["state"] for row in rows}
    if states != {"done"}:
        raise SystemExit(f"backlog, {name}: jobs ended as {states}: {[r['reason'] for r in rows if r['reason']][:3]}")
    figures = [row["figures"] for row in rows]
    latencies = [row["ended_s"] - began_s for row in rows]
    return {
        "total_s": max(latencies),
        "jobs": len(rows),
        "submitting_s": submitted_s,
        "in_workers_s": math.fsum(each["compute_s"] for each in figures),
        "waits_for_keys_s": math.fsum(each["key_wait_s"] for each in figures),
        "missed_bytes": sum(each["read_bytes"] for each in figures),
        "read_bytes": work["read_bytes"],
        "evictions": work["evictions"],
        "computing_s": computing,
        "server_peak_bytes": memory,
    }


def _open(server: Server) -> int:
    """Jobs that did not end."""
    found = 0.0
    for line in server.operator.raw("GET", "/metrics").decode().splitlines():
        if line.startswith(('penstock_jobs{state="queued"}', 'penstock_jobs{state="running"}')):
            found += float(line.split()[-1])
    return int(found)


def run_backlog(site: Site, *, again: bool) -> None:
    """Both orders, and the bound."""
    if site.results.found.get("backlog") and not again:
        return
    arrivals = draw(np.random.default_rng(1), site.scale.jobs, len(site.tenants), ZIPF, list(KINDS), None)
    arrivals = [replace(each, tenant=_named(each)) for each in arrivals]
    rate = site.reading_bytes_per_s()
    found: dict[str, Any] = {name: backlog(site, name, arrivals) for name in ORDERS}
    seconds = found["planned"]["computing_s"]
    keys = {(each.tenant, key): size for each in arrivals for key, size in site.needs[each.kind].items()}
    least = {
        "computing_s": math.fsum(seconds[each.kind] for each in arrivals),
        "reading_s": sum(keys.values()) / rate,
        "read_bytes_per_s": rate,
    }
    bound_s = max(least["computing_s"], least["reading_s"])
    site.results.put(
        backlog={
            **found,
            "bound": least,
            "bound_s": bound_s,
            "share_of_clairvoyant": bound_s / found["planned"]["total_s"],
            "times_arrival_lru": found["arrival"]["total_s"] / found["planned"]["total_s"],
            "jobs_per_s": len(arrivals) / found["planned"]["total_s"],
        }
    )


def _named(arrival: JobArrival) -> str:
    """`draw` counts tenants from 0."""
    return f"tenant-{int(arrival.tenant.rpartition('-')[2]) + 1}"


class Poisson:
    """Jobs at their times, looked after sparsely: the service says when each ended."""

    def __init__(self, site: Site, server: Server, name: str, arrivals: Sequence[JobArrival]) -> None:
        self._jobs = Jobs(site, server, f"poisson-{name}-{time.time():.0f}")
        self._arrivals, self._name = arrivals, name
        self._lock, self._due = threading.Lock(), list[tuple[float, int]]()
        self._began, self._began_s = time.monotonic(), time.time()
        self.latencies: list[float | None] = [None] * len(arrivals)
        self.late_s: list[float] = []
        self.refused = 0
        self._sent_all, self._left = False, len(arrivals)
        self._often = Often()

    def play(self, most_s: float) -> float:
        """Send all, and wait for their ends for at most so many seconds after the last; the seconds of it all."""
        lookers = [threading.Thread(target=self._look, daemon=True) for _ in range(3)]
        for each in lookers:
            each.start()
        with ThreadPoolExecutor(4) as senders:
            for number, arrival in enumerate(self._arrivals):
                time.sleep(max(0.0, self._began + arrival.at_s - time.monotonic()))
                senders.submit(self._send, number)
                self._often(lambda number=number: f"Poisson, {self._name}: {number + 1} sent, {self._left} not ended")
        self._sent_all, ends = True, time.monotonic() + most_s
        while self._left and time.monotonic() < ends:
            time.sleep(0.1)
            self._often(lambda: f"Poisson, {self._name}: all sent, {self._left} not ended")
        self._left = 0
        for each in lookers:
            each.join(30)
        return time.monotonic() - self._began

    def _send(self, number: int) -> None:
        arrival = self._arrivals[number]
        self.late_s.append(time.monotonic() - self._began - arrival.at_s)
        try:
            self._jobs.submit(number, arrival)
        except (Refused, OSError):
            with self._lock:
                self.refused += 1
                self._left -= 1
            return
        with self._lock:
            heapq.heappush(self._due, (time.monotonic() + 0.5, number))

    def _look(self) -> None:
        while self._left > 0:
            with self._lock:
                number = heapq.heappop(self._due)[1] if self._due and self._due[0][0] <= time.monotonic() else None
            if number is None:
                time.sleep(0.01)
                continue
            arrival = self._arrivals[number]
            try:
                row = self._jobs.show(number, arrival.tenant)
                if row["state"] == "done":
                    begun = time.monotonic()
                    self._jobs.result(number, arrival.tenant)
                    fetched_s = time.monotonic() - begun
                    self.latencies[number] = row["ended_s"] - self._began_s - arrival.at_s + fetched_s
            except (Refused, OSError):
                row = {"state": "unknown"}
            with self._lock:
                if row["state"] in ENDED:
                    self._left -= 1
                else:
                    age_s = time.monotonic() - self._began - arrival.at_s
                    heapq.heappush(self._due, (time.monotonic() + max(0.5, 0.25 * age_s), number))


def poisson(site: Site, name: str, arrivals: Sequence[JobArrival]) -> dict[str, Any]:
    """One order."""
    with site.server(name) as server:
        calibrated(site, server)
        played = Poisson(site, server, name, arrivals)
        most_s = max(60.0, arrivals[-1].at_s)
        took_s = played.play(most_s)
    # Jobs that did not end count as if they had ended then: less than they would have taken.
    latencies = [
        (took_s - arrival.at_s if latency is None else latency)
        for arrival, latency in zip(arrivals, played.latencies, strict=True)
    ]
    by: dict[str, list[float]] = {}
    for arrival, latency in zip(arrivals, latencies, strict=True):
        by.setdefault(arrival.tenant, []).append(latency)
    means = sorted(statistics.fmean(each) for each in by.values())
    p50, p95, p99 = np.percentile(latencies, [50, 95, 99]).tolist()
    return {
        "jobs": len(arrivals), "took_s": took_s, "refused": played.refused,
        "not_ended": sum(each is None for each in played.latencies) - played.refused,
        "p50_s": p50, "p95_s": p95, "p99_s": p99, "mean_s": statistics.fmean(latencies),
        "worst_tenant_over_median": means[-1] / statistics.median(means),
        "generator_late_p99_s": float(np.percentile(played.late_s, 99)),
    }  # fmt: skip


def run_poisson(site: Site, minutes: float, *, again: bool) -> None:
    """Both orders, one after the other; each is kept when it has ended."""
    found: dict[str, Any] = {} if again else site.results.found.get("poisson", {})
    per_s = LOAD * site.results.found["backlog"]["jobs_per_s"]
    if found.get("minutes") != minutes or found.get("per_s") != per_s:
        found = {"minutes": minutes, "per_s": per_s}
    count = max(4, int(per_s * 60 * minutes))
    arrivals = draw(np.random.default_rng(2), count, len(site.tenants), ZIPF, list(KINDS), per_s)
    arrivals = [replace(each, tenant=_named(each)) for each in arrivals]
    for name in ORDERS:
        if name not in found:
            found[name] = poisson(site, name, arrivals)
            site.results.put(poisson=found)


def report(found: dict[str, Any]) -> None:
    """What was measured."""
    print(
        f"measured: {found['tenants']} tenants, {found['key_bytes'] / 1e9:.1f} GB of keys in files of their own "
        f"(made for {found['pairs']} key pairs), read {found['reads']}; budget {found['budget_bytes'] / 1e9:.2f} GB, "
        f"Zipf {ZIPF}"
    )
    print(f"  N = {found['ring_dim']}, {found['limbs']} limbs and {found['special_limbs']} special ones, dnum "
          f"{found['dnum']}, {found['security_bits'] or 'no'} bits of security")  # fmt: skip
    seconds = found.get("backlog", {}).get("planned", {}).get("computing_s", {})
    for kind, each in found["programs"].items():
        computing = f", computing {seconds[kind] * 1e3:.0f} ms" if kind in seconds else ""
        print(f"  program {kind:7} {each['keys']} keys, {each['key_bytes'] / 1e6:.0f} MB a job{computing}")
    if both := found.get("backlog"):
        print(f"backlog of {both['planned']['jobs']} jobs; no order takes less than {both['bound_s']:.1f} s (computing "
              f"{both['bound']['computing_s']:.1f} s, each key once {both['bound']['reading_s']:.1f} s)")  # fmt: skip
        for name, (order, eviction) in ORDERS.items():
            each = both[name]
            print(
                f"  order {order}, eviction {eviction:8} {each['total_s']:8.1f} s, "
                f"{each['read_bytes'] / 1e9:7.1f} GB read"
            )
        print(f"  planned: {both['share_of_clairvoyant']:.2f} of the clairvoyant order (wanted 0.85), "
              f"{both['times_arrival_lru']:.2f} times arrival and LRU (wanted 1.3)")  # fmt: skip
    if (both := found.get("poisson")) and all(name in both for name in ORDERS):
        print(f"Poisson arrivals, {both['per_s']:.2f} /s, {both['minutes']:g} minutes")
        for name, (order, eviction) in ORDERS.items():
            each = both[name]
            print(f"  order {order}, eviction {eviction:8} p50 {each['p50_s']:.2f} s, p95 {each['p95_s']:.2f} s, p99 "
                  f"{each['p99_s']:.2f} s; worst tenant's mean {each['worst_tenant_over_median']:.2f} of the median's; "
                  f"{each['refused']} refused, {each['not_ended']} not ended")  # fmt: skip
        print(f"  planned p99 over the other: {both['planned']['p99_s'] / both['arrival']['p99_s']:.2f} (wanted 0.5)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=None, help="kept; else target/bench-serve or -quick")
    parser.add_argument("--only", choices=("prepare", "backlog", "poisson"), default=None)
    parser.add_argument("--scale", choices=SCALES, default="full")
    parser.add_argument("--quick", action="store_const", const="quick", dest="scale", help="--scale quick")
    parser.add_argument("--minutes", type=float, default=None, help="of Poisson arrivals; 20 at full scale")
    parser.add_argument("--again", action="store_true", help="measure anew what is there; the keys stay")
    options = parser.parse_args()
    scale = SCALES[options.scale]
    site = Site(options.folder or Path("target") / f"bench-serve-{options.scale}", scale)
    site.prepare()
    if options.only in (None, "backlog"):
        run_backlog(site, again=options.again)
    if options.only in (None, "poisson"):
        if "backlog" not in site.results.found:
            raise SystemExit("the rate rests on the backlog's throughput: run --only backlog first")
        run_poisson(site, options.minutes or scale.minutes, again=options.again)
    report(site.results.found)


if __name__ == "__main__":
    main()
