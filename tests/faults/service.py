"""Kill the service under load, at random moments: its server, a worker, a client in mid-upload, its database.

    python tests/faults service --count 200
    python tests/faults service --count 1 --seed 137

After each kill: every accepted job is done, once, with the very words that it has without kills; every listed key is
whole; the service is ready within `READY_S` of its start. The last kill is one while `BACKLOG` jobs wait.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from faults.frame import AT_MOST, Result, reported
from faults.service_site import PROGRAM, WAIT_S, Load, Whole, killed, until
from support import postgres

READY_S = 5.0
KINDS = {"server": 0.3, "worker": 0.25, "client": 0.2, "database": 0.15, "server and client": 0.1}
"""Whom a seed kills, and how often."""
BACKLOG, SENDERS = 2000, 8
"""Jobs that wait at the last kill, and connections that submit them."""
LATEST_S = 0.6
"""A kill comes so long after the load begins, at the latest."""


def drawn(seed: int) -> tuple[str, np.random.Generator]:
    """Whom a seed kills, and the random numbers that it goes on with."""
    rng = np.random.default_rng([seed, 27])
    return str(rng.choice(list(KINDS), p=list(KINDS.values()))), rng


def case(site: Whole, seed: int, kind: str | None = None) -> Result:
    """Kill once under load, and look at what is there then. `kind`: that one, whatever the seed says."""
    chosen, rng = drawn(seed)
    chosen = kind or chosen
    load = Load(site.alice.ask, f"k{seed}", site.inputs)
    load.start()
    faults: list[str] = []
    back_s = 0.0
    try:
        time.sleep(float(rng.uniform(0.0, LATEST_S)))
        back_s = KILLS[chosen](site, rng, faults)
        time.sleep(0.1)
    except (OSError, RuntimeError, TimeoutError, AssertionError) as error:
        faults.append(f"{type(error).__name__}: {error}"[:500])
    finally:
        load.stop()
    if back_s > READY_S:
        faults.append(f"ready only {back_s:.1f} s after its start")
    faults += load.faults
    try:
        faults += jobs_wrong(site, load)
        faults += keys_wrong(site)
    except (OSError, RuntimeError, TimeoutError, AssertionError) as error:
        faults.append(f"{type(error).__name__}: {error}"[:500])
    found = Result("service", chosen, seed, f"{chosen} killed", tuple(faults), back_s)
    return Result(**{**vars(found), "detail": len(load.accepted)})


def case_of_backlog(site: Whole, seed: int, count: int = BACKLOG) -> Result:
    """Kill the server while many jobs wait: it is ready as soon as with few, and has each of them."""
    accepted: list[str] = []

    def submit(own: range) -> None:
        for number in own:
            job, inputs = f"b{seed}-{number}", dict(site.inputs[number % len(site.inputs)])
            form = {"job": job, "program": PROGRAM, "inputs": inputs}
            if site.alice.ask.surely("POST", "/v1/jobs", form).status in (200, 202):
                accepted.append(job)

    senders = [threading.Thread(target=submit, args=(range(at, count, SENDERS),)) for at in range(SENDERS)]
    for each in senders:
        each.start()
    for each in senders:
        each.join()
    site.served.kill()
    back_s = site.served.start()
    faults = [f"ready only {back_s:.1f} s after its start"] if back_s > READY_S else []
    if len(accepted) < count:
        faults.append(f"{len(accepted)} of {count} jobs were accepted")
    for job in accepted:
        answer = site.alice.ask.surely("GET", f"/v1/jobs/{job}")
        if answer.status != 200 or answer.json["state"] not in ("queued", "running", "done"):
            faults.append(f"accepted job {job} is lost: {answer}"[:300])
            break
    return Result("service", "server with a backlog", seed, f"ready after {back_s:.2f} s", tuple(faults), back_s)


# Kills. Each returns the seconds until the service is ready again.
def _server(site: Whole, rng: np.random.Generator, faults: list[str]) -> float:
    site.served.kill()
    return site.served.start()


def _worker(site: Whole, rng: np.random.Generator, faults: list[str]) -> float:
    before = site.served.worker()
    if before is None:
        faults.append("there is no worker")
        return 0.0
    killed(before)
    begun = time.monotonic()
    if not until(lambda: site.served.worker() not in (None, before), WAIT_S):
        faults.append("no worker took the dead one's place")
    return time.monotonic() - begun


def _client(site: Whole, rng: np.random.Generator, faults: list[str]) -> float:
    """The client is killed among its keys; run again, it comes to the same end."""
    with _begun(site, rng) as process:
        process.kill()
        process.wait()
    keys_of_carol = {key["key"] for key in site.carol.ask("GET", "/v1/keys").json["keys"]}
    faults += keys_wrong(site)
    _uploaded(site, faults)
    _emptied(site, faults, keys_of_carol)
    return 0.0


def _server_and_client(site: Whole, rng: np.random.Generator, faults: list[str]) -> float:
    """The server is killed while keys come in; the client waits for it and goes on."""
    with _begun(site, rng) as process:
        site.served.kill()
        back_s = site.served.start()
        code = _code(process)
        if code != 0:
            faults.append(f"the upload ended with {code}: {site.carol.said()}")
    _uploaded(site, faults)
    _emptied(site, faults, set())
    return back_s


def _database(site: Whole, rng: np.random.Generator, faults: list[str]) -> float:
    """PostgreSQL is killed and started again; requests in between are refused, and the server goes on. Its own start is
    not counted."""
    database = site.served.postgres
    if database is None:
        return _server(site, rng, faults)
    database.kill()
    time.sleep(float(rng.uniform(0.0, 0.3)))
    database.start()
    begun = time.monotonic()
    site.served.ready()
    return time.monotonic() - begun


KILLS: dict[str, Any] = {
    "server": _server,
    "worker": _worker,
    "client": _client,
    "server and client": _server_and_client,
    "database": _database,
}


def _begun(site: Whole, rng: np.random.Generator) -> subprocess.Popen[bytes]:
    """A client's upload at a random moment, once it has begun to send."""
    process = site.carol.upload()
    ask = site.carol.ask

    def sends() -> bool:
        if process.poll() is not None:
            return True
        return bool(ask.surely("GET", "/v1/uploads").json["uploads"] or ask.surely("GET", "/v1/keys").json["keys"])

    until(sends, WAIT_S)
    time.sleep(float(rng.uniform(0.0, 0.25)))
    return process


def _code(process: subprocess.Popen[bytes]) -> int:
    """Its exit code; a process that does not end is killed."""
    try:
        return process.wait(2 * WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _uploaded(site: Whole, faults: list[str]) -> None:
    """The upload again, to its end."""
    code = _code(site.carol.upload())
    if code != 0:
        faults.append(f"the second upload ended with {code}: {site.carol.said()}")
    lacking = site.carol.ask.surely("GET", f"/v1/programs/{PROGRAM}/keys").json["lacking"]
    if lacking:
        faults.append(f"{len(lacking)} keys are lacking after the second upload")


def _emptied(site: Whole, faults: list[str], before: set[str]) -> None:
    """The keys of the client are removed for the next time, and what a killed one began."""
    there = {key["key"] for key in site.carol.ask.surely("GET", "/v1/keys").json["keys"]}
    if not before <= there:
        faults.append(f"keys are gone: {sorted(before - there)}")
    for row in site.carol.ask.surely("GET", "/v1/uploads").json["uploads"]:
        site.carol.ask.surely("DELETE", f"/v1/uploads/{row['upload']}")
    answer = site.carol.ask.surely("DELETE", "/v1/keys")
    if answer.status != 200:
        faults.append(f"keys are not removed: {answer}")


# What is looked at.
def jobs_wrong(site: Whole, load: Load) -> list[str]:
    """Accepted jobs that are not done, are there twice, or have other words."""
    found = []
    for job, number in load.accepted.items():
        answer = site.alice.ask.surely("GET", f"/v1/jobs/{job}?wait=20")
        if answer.status != 200:
            found.append(f"accepted job {job} is lost: {answer}")
        elif answer.json["state"] != "done":
            found.append(f"accepted job {job} is {answer.json['state']}: {answer.json.get('reason')}")
        elif site.outputs(job) != site.expected[number]:
            found.append(f"job {job} has another result")
    listed = Counter(row["job"] for row in site.alice.ask.surely("GET", "/v1/jobs").json["jobs"])
    found += [f"job {job} is there {times} times" for job, times in listed.items() if times > 1]
    if missing := [job for job in load.accepted if job not in listed][:3]:
        found.append(f"jobs are not listed: {missing}")
    return found


def keys_wrong(site: Whole) -> list[str]:
    """Listed keys that are not whole, and keys of the load's tenant that are gone."""
    from penstock.runtime.keystore import KeyStore

    store = KeyStore(site.served.folder / "state" / "keys", reader="pread", reading=True)
    found = [f"a damaged key: {path}: {why}" for path, why in store.opening.damaged]
    of_alice = 0
    for key in store.list_keys():
        fault = store.verify(key.name).fault
        if fault is not None:
            found.append(f"key {key.name.key} of {key.name.tenant} is not whole: {fault}")
        of_alice += key.name.tenant == "alice"
    if of_alice != site.keys:
        found.append(f"alice has {of_alice} keys of {site.keys}")
    return found


def bench(folder: Path, count: int, seed: int, jobs: int) -> list[Result]:
    """Kill `count` times, one after another: `jobs` is of other benches."""
    with ExitStack() as stack:
        why = postgres.missing()
        if why:
            print(f"  the state is in SQLite, and no database is killed: {why}")
        database = None if why else stack.enter_context(postgres.cluster(fsync=True))
        site = Whole(folder, database)
        stack.callback(site.served.end)

        def everything() -> Iterator[Result]:
            ends = time.monotonic() + AT_MOST["seconds"]
            for each in range(seed, seed + count):
                if time.monotonic() > ends:
                    break
                yield case(site, each)

        found = reported(everything(), count)
        accepted = sum(int(each.detail) for each in found)
        for kind in KINDS:
            took = sorted(each.seconds for each in found if each.kind == kind)
            if took and took[-1] > 0:
                print(f"  {kind}: ready after {took[len(took) // 2]:.2f} s (median), {took[-1]:.2f} s (longest)")
        print(f"  {accepted} jobs were accepted")
        cpu = sorted(of_cpu for _, of_cpu in site.served.starts)
        print(f"  {len(cpu)} starts took {cpu[len(cpu) // 2]:.2f} s of processor (median), {cpu[-1]:.2f} s (most)")
        found.append(case_of_backlog(site, seed))
        print(f"  with {BACKLOG} jobs that wait: {found[-1].ended}")
        code = site.served.end()
        found.append(Result("service", "the end", seed, "ended", () if code == 0 else (f"exit code {code}",), cases=0))
        return found
