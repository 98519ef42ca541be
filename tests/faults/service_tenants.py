"""Two honest tenants beside a hostile one, or beside strangers: their latencies alone and under each attack.

    python tests/faults service_tenants --folder runs/tenants                  # a minute of each; again: goes on
    python tests/faults service_tenants --only backlog,half-bodies --seconds 10

The server has its defaults, real workers and real keys. Honest jobs are an open loop: each is due at its time, and its
latency counts to the last byte of its results, which must be the right ones. Every request has a new connection. Beside
the jobs, honest tenants look, deploy, and ask on a connection that they keep. Before each attack the server starts anew
and the same is measured alone. It fails where the honest p95 is over `MOST_RATIO` times that, on an honest refusal or
error, and where the front grows or strangers fill the log.
"""

from __future__ import annotations

import hashlib
import http.client
import itertools
import json
import shutil
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from faults.frame import ASKED, AT_MOST, Result
from faults.service_hostile import ATTACKS, LENGTH, NEEDS, TLS, Attacking, Target, programs, tiny
from faults.service_site import PARAMS, PROGRAM, Served, Tenant
from penstock.base.system.web import ServiceRefused
from penstock.runtime.client import KeyPair
from penstock.service.load.arrivals import poisson
from penstock.service.work.record import percentiles
from support.serve_site import Answer
from support.service_jobs import LENGTH as HONEST_LENGTH

SECONDS = 60.0
"""Of each attack; half of it alone."""
RATE = 2.0
"""Honest jobs a second, of both tenants."""
MOST_RATIO = 2.0
MORE_BYTES = 64 << 20
"""The front may hold so much more than alone."""
LOG_BYTES_PER_S = 32 << 10
"""Of the log, while strangers attack."""
PATIENCE_S = 30.0
"""The longest that an honest tenant waits for an answer or a job."""
LOOKS_S, DEPLOYS_S, KEPT_S = 0.25, 3.0, 5.0
"""Between two of them. A client that heard `Retry-After: 5` comes again after that, on the connection that it kept."""
Row = dict[str, Any]


class Customer:
    """An honest tenant: its inputs in OpenFHE's bytes, and the results of a job that nothing disturbed."""

    def __init__(self, served: Served, name: str) -> None:
        self.name, self._tenant = name, Tenant(served, name)
        with self._tenant.service() as service:
            service.upload_keys(PROGRAM)
            self._outputs = [output.name for output in service.program(PROGRAM).outputs]
        self.ask = self._tenant.ask
        pair, rng = KeyPair.load(self._tenant.folder, PARAMS), np.random.default_rng(len(name))
        self.contents = [pair.encrypt(rng.uniform(-1, 1, HONEST_LENGTH)) for _ in ("x", "y")]
        self.packages = [served.folder / "model.pkg"]
        self.expected = ""
        self.send()
        self.expected = self.job(f"{name}-reference", Tally())

    def send(self) -> None:
        """The inputs again: they expire."""
        blobs = [self.ask.upload(content).json["blob"] for content in self.contents]
        self._inputs = dict(zip(("x", "y"), blobs, strict=True))

    def has(self) -> list[tuple[str, int]]:
        """SHA-256 and bytes of what the service has of it."""
        contents = [*self.contents, *(path.read_bytes() for path in self.packages)]
        return [(hashlib.sha256(content).hexdigest(), len(content)) for content in contents]

    def job(self, name: str, tally: Tally) -> str:
        """Submit a job, wait, fetch; the digest of its results. Raises: Spoiled: what went wrong."""
        ends = time.monotonic() + PATIENCE_S
        form = {"job": name, "program": PROGRAM, "inputs": self._inputs}
        tally.expect(self.ask("POST", "/v1/jobs", form), 202)
        while True:
            state = tally.expect(self.ask("GET", f"/v1/jobs/{name}?wait=5"), 200).json["state"]
            if state not in ("queued", "running"):
                break
            if time.monotonic() > ends:
                raise Spoiled(f"a job without a result after {PATIENCE_S:g} s")
        if state != "done":
            raise Spoiled(f"a job is {state}")
        found = hashlib.sha256()
        for output in self._outputs:
            found.update(tally.expect(self.ask("GET", f"/v1/jobs/{name}/outputs/{output}"), 200).body)
        if self.expected and found.hexdigest() != self.expected:
            raise Spoiled("a job has another result")
        return found.hexdigest()


class Spoiled(Exception):
    """Something that an honest tenant may not meet."""


class Tally:
    """What honest tenants met: seconds, refusals by status, and errors."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.refusals: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self._lock = threading.Lock()

    def expect(self, answer: Answer, *statuses: int) -> Answer:
        """Raises: Spoiled: another status; a refusal is counted as such."""
        if answer.status not in statuses:
            with suppress(ValueError, KeyError):
                said = f"{answer.status} {answer.json['type'].rpartition(':')[2]}"
                with self._lock:
                    self.refusals[said] += 1
                raise Spoiled("")
            raise Spoiled(f"status {answer.status}")
        return answer

    def timed(self, kind: str, action: Callable[[], object], due: float | None = None) -> None:
        """Do something, and note its seconds since it was due, or why it failed."""
        begun = time.monotonic() if due is None else due
        try:
            action()
        except (Spoiled, OSError, http.client.HTTPException, ValueError) as error:
            said = str(error) if isinstance(error, Spoiled) else f"{kind}: {type(error).__name__}"
            with self._lock:
                self.errors.update([said] if said else [])
        else:
            with self._lock:
                self.seconds.setdefault(kind, []).append(time.monotonic() - begun)

    def row(self) -> Row:
        jobs = self.seconds.get("job", [])
        calls = {kind: percentiles(seconds, (95,))["p95_s"] for kind, seconds in self.seconds.items() if kind != "job"}
        found = {"jobs": len(jobs), **percentiles(jobs, (50, 95, 99)), "calls_p95_s": calls}
        return {**found, "refusals": dict(self.refusals), "errors": dict(self.errors)}


class Honest:
    """Both customers for so many seconds."""

    def __init__(self, customers: Sequence[Customer], folder: Path, name: str) -> None:
        self._customers, self._folder, self._name = customers, folder, name
        self._over = threading.Event()

    def play(self, seconds: float, seed: int) -> Row:
        """All that they do, until the last job has ended or was given up."""
        tally, rng, kept = Tally(), np.random.default_rng(seed), self._customers[0].ask.connection()
        beside = [
            threading.Thread(target=self._often, args=(tally, kind, action, every_s), daemon=True)
            for kind, action, every_s in (
                ("look", self._look, LOOKS_S),
                ("deploy", self._deploy, DEPLOYS_S),
                ("kept", partial(self._kept, kept), KEPT_S),
            )
        ]
        for each in beside:
            each.start()
        begun, jobs = time.monotonic(), []
        for number, at_s in enumerate(poisson(RATE, seconds, rng) or [0.0]):
            time.sleep(max(0.0, begun + at_s - time.monotonic()))
            action = partial(self._customers[number % 2].job, f"{self._name}-{number}", tally)
            jobs.append(threading.Thread(target=tally.timed, args=("job", action, begun + at_s), daemon=True))
            jobs[-1].start()
        time.sleep(max(0.0, begun + seconds - time.monotonic()))
        self._over.set()
        for each in (*jobs, *beside):
            each.join(4 * PATIENCE_S)
        kept.close()
        return tally.row()

    def _often(self, tally: Tally, kind: str, action: Callable[[Tally], object], every_s: float) -> None:
        while not self._over.is_set():
            tally.timed(kind, lambda: action(tally))
            self._over.wait(every_s)

    def _look(self, tally: Tally) -> None:
        tally.expect(self._customers[0].ask("GET", f"/v1/programs/{PROGRAM}"), 200)

    def _deploy(self, tally: Tally) -> None:
        """A package that nobody has had, examined and removed again."""
        ask, number = self._customers[1].ask, int(time.time() * 1e3)
        blob = tally.expect(ask.upload(tiny(number, self._folder), "package"), 200).json["blob"]
        tally.expect(ask("POST", "/v1/programs", {"name": f"d{number}", "package": blob}), 201)
        tally.expect(ask("DELETE", f"/v1/programs/d{number}"), 200)

    def _kept(self, connection: http.client.HTTPConnection, tally: Tally) -> None:
        """A question on a connection that is kept."""
        try:
            connection.request("GET", "/v1/keys", headers={"authorization": f"Bearer {self._customers[0].ask.token}"})
            found = connection.getresponse()
            tally.expect(Answer(found.status, found.headers, found.read()), 200)
        except (OSError, http.client.HTTPException):
            connection.close()
            raise


class Watch(threading.Thread):
    """The most that front and workers held."""

    def __init__(self, served: Served) -> None:
        super().__init__(name="watch", daemon=True)
        self._served, self._over = served, threading.Event()
        self.front, self.workers = served.memory()

    def run(self) -> None:
        while not self._over.wait(0.2):
            front, workers = self._served.memory()
            self.front, self.workers = max(self.front, front), max(self.workers, workers)

    def stop(self) -> None:
        self._over.set()
        self.join(5)


class Yard:
    """A server with its defaults, two honest tenants, and whoever attacks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.served = Served(folder, None, settings="")
        try:
            self.customers = [Customer(self.served, name) for name in ("alice", "bob")]
        except BaseException:
            self.served.end()
            raise
        self._numbers = itertools.count()

    def attacked(self, name: str, seconds: float) -> Row:
        """One attack; what the honest tenants met alone, and under it."""
        number, alone_s = next(self._numbers), max(2.0, seconds / 2)
        self._anew(tls=name in TLS)
        target = self._hostile(name, number) if ATTACKS[name] in NEEDS else self._target()
        alone = Honest(self.customers, self.folder, f"{name}-{number}-alone").play(alone_s, number)
        front, log = self.served.memory()[0], self.served.log.stat().st_size
        watch = Watch(self.served)
        watch.start()
        with Attacking(name, target) as attack:
            _until_it_attacks(attack, seconds)
            under = Honest(self.customers, self.folder, f"{name}-{number}").play(seconds, number)
            went_on = attack.alive()
        watch.stop()
        assert self.served.process is not None
        return {
            "attack": name, "by": "a tenant" if ATTACKS[name] in NEEDS else "strangers", "seconds": seconds,
            "alone": alone, "under": under, "front_before": front, "front": watch.front, "workers": watch.workers,
            "log": self.served.log.stat().st_size - log, "answers": attack.answers() if went_on else {},
            "ended": self.served.process.poll(),
        }  # fmt: skip

    def _anew(self, *, tls: bool) -> None:
        """Start the server again, so that nothing is left of the last attack, and let it compute once."""
        for row in self.served.operator.surely("GET", "/v1/tenants").json["tenants"]:
            if row["tenant"].startswith("mallory"):
                self.served.operator.surely("DELETE", f"/v1/tenants/{row['tenant']}")
        self.served.kill()
        context = _certified(self.folder) if tls else None
        self.served.configure('[tls]\ncertificate = "cert.pem"\nkey = "key.pem"\n' if tls else "")
        for ask in (self.served.operator, *(each.ask for each in self.customers)):
            ask.tls = context
        self.served.start()
        for each in self.customers:
            each.send()
            each.job(f"{each.name}-warm-{time.time()}", Tally())

    def _target(self) -> Target:
        return Target(self.served.ports[0], self.folder)

    def _hostile(self, name: str, number: int) -> Target:
        """A hostile tenant with what its attack needs."""
        made = dict(programs(self.folder.parent, NEEDS[ATTACKS[name]]))
        mallory = Tenant(self.served, f"mallory-{number}", made)
        with mallory.service() as service:
            for program in made:
                service.upload_keys(program)
        content = KeyPair.load(mallory.folder, PARAMS).encrypt([1.0] * LENGTH) if made else bytes(1000)
        inputs = {"x": mallory.ask.upload(content).json["blob"]}
        others = tuple(each for customer in self.customers for each in customer.has())
        return Target(self.served.ports[0], self.folder, str(mallory.ask.token), inputs, others)


def _until_it_attacks(attack: Attacking, seconds: float) -> None:
    """Wait until it has had its first answers, and a little more: what it fills should be full."""
    ends = time.monotonic() + 20.0
    while not attack.answers() and attack.alive() and time.monotonic() < ends:
        time.sleep(0.05)
    time.sleep(min(3.0, seconds / 4))


def _certified(folder: Path) -> ssl.SSLContext:
    """A certificate for the server, made once; whom its clients trust. Raises: OSError: there is no openssl."""
    if not (folder / "key.pem").exists():
        words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out cert.pem"
        command = [*words.split(), "-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        (folder / "key.pem").chmod(0o600)
    return ssl.create_default_context(cafile=str(folder / "cert.pem"))


def faults_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What honest tenants should not have met, and what the server should not have done."""
    under, found = row["under"], []
    for part in ("alone", "under"):
        met = row[part]
        found += [
            f"{part}: {count} honest requests were refused with {said}" for said, count in met["refusals"].items()
        ]
        found += [f"{part}: {count} x {said}" for said, count in met["errors"].items()]
    if not under["jobs"] or not row["alone"]["jobs"]:
        found.append("no honest job ended")
    elif (ratio := under["p95_s"] / row["alone"]["p95_s"]) > MOST_RATIO:
        found.append(f"the honest p95 is {ratio:.1f} times that alone")
    if row["front"] > row["front_before"] + MORE_BYTES:
        found.append(f"the front held {row['front'] >> 20} MiB, {row['front_before'] >> 20} MiB before")
    if row["by"] == "strangers" and row["log"] > LOG_BYTES_PER_S * (row["seconds"] + PATIENCE_S):
        found.append(f"the log grew by {row['log'] / 1e6:.0f} MB")
    if row["ended"] is not None:
        found.append(f"the server ended with {row['ended']}")
    if not row["answers"]:
        found.append("nothing attacked")
    return tuple(found)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as text."""

    def cells(row: Mapping[str, Any]) -> list[str]:
        alone, under = row["alone"], row["under"]
        ratio = f"{under['p95_s'] / alone['p95_s']:.1f}" if under["jobs"] and alone["jobs"] else "-"
        times = [f"{met[name] * 1e3:.0f}" if met["jobs"] else "-"
                 for met, name in ((alone, "p95_s"), *((under, f"p{n}_s") for n in (50, 95, 99)))]  # fmt: skip
        counts = [str(under["jobs"]), str(sum(under["refusals"].values())), str(sum(under["errors"].values()))]
        return [row["attack"], row["by"], *times, ratio, *counts, str(row["front"] >> 20), str(row["workers"] >> 20)]

    counted = ["jobs", "refused", "errors", "front MiB", "workers MiB"]
    lines = [["attack", "by", "alone p95", "p50", "p95", "p99 ms", "ratio", *counted], *map(cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.ljust(n) for cell, n in zip(line, widths, strict=True)) for line in lines)


@contextmanager
def yard(folder: Path) -> Iterator[Yard]:
    """A server for attacks, in a folder that goes with it."""
    shutil.rmtree(folder, ignore_errors=True)
    found = Yard(folder)
    try:
        yield found
    finally:
        found.served.end()
        shutil.rmtree(folder, ignore_errors=True)


def bench(folder: Path, count: int, seed: int, jobs: int) -> list[Result]:
    """The attacks that `--only` names, or the first `count`. Those whose rows lie in the folder are not made again."""
    kept = folder / "rows.json"
    rows: list[Row] = json.loads(kept.read_text()) if kept.exists() else []
    asked = ASKED["only"] or list(ATTACKS)[:count]
    if unknown := set(asked) - set(ATTACKS):
        raise SystemExit(f"no attack {', '.join(sorted(unknown))}; there are {', '.join(ATTACKS)}")
    seconds = min(AT_MOST["seconds"], SECONDS)
    left = [name for name in asked if name not in {row["attack"] for row in rows}]
    if left:
        with yard(folder / "yard") as site:
            for at, name in enumerate(left):
                print(f"  {at + 1} of {len(left)}: {name}, {seconds:g} s", flush=True)
                try:
                    rows.append(site.attacked(name, seconds))
                except ServiceRefused as error:
                    print(f"    held before it begins: {error}"[:300], flush=True)
                    continue
                kept.write_text(json.dumps(rows, indent=1))
                print("".join(f"    {fault}\n" for fault in faults_of(rows[-1])), end="", flush=True)
    rows = [row for row in rows if row["attack"] in asked]
    print(table(rows))
    return [Result("service_tenants", row["attack"], 0, "borne", faults_of(row), row["seconds"]) for row in rows]
