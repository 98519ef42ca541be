"""Mutated bytes for everything that takes bytes from outside: ciphertexts, keys, stores, frames, databases, traces.

Each string is refused with an error of penstock's, or what it decodes to is legitimate:

- where bytes have a checksum, exactly what they held before, unless the checksum was made anew with them;
- a ciphertext without one is written and read again as itself, and every operation takes it or refuses it;
- never a panic, a signal, an exception of another class, an answer after 20 s, or memory that a header only claims.

    python tests/faults strings --count 100000        # five minutes
    python tests/faults strings --count 1 --seed 137        # one string again; keys are new in each run
"""

from __future__ import annotations

import json
import os
import resource
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np

from faults.frame import MOST_BYTES, MOST_SECONDS, Ended, Result, forked, most_bytes, over, reported
from faults.strings_ckks import Ciphertexts, Keys, Mutant, Wrong, scheme_of
from faults.strings_files import Databases, Wires
from faults.strings_frames import Answers, Requests
from faults.strings_store import Imports, Indexes, Segments, Store, made_store
from penstock.errors import PenstockError
from penstock.scheme.params.ckks import Scaling

BATCH = 500
"""Strings of one process."""
KILLED = 124
"""What the frame says of a process that took too long."""
MEMORY = Path("/dev/shm")
"""Where files cost no disk: stores sync what they write."""


class Target(Protocol):
    """Something that takes bytes."""

    name: str

    def check(self, rng: Any, folder: Path) -> tuple[Mutant, str]:
        """Mutate, give, and look at what came out: the mutant, and how it ended. Raises: Wrong, or whatever broke."""
        ...


WEIGHTS = {
    "ciphertext": 30, "key": 15, "request": 12, "answer": 12, "database": 8, "wire trace": 6, "segment": 9, "index": 5,
    "import": 3,
}  # fmt: skip
"""Of 100 strings; those for a store take longest."""


@contextmanager
def targets(folder: Path) -> Iterator[list[Target]]:
    """Everything that takes bytes, with whole ones to mutate."""
    with ExitStack() as stack:
        schemes = [stack.enter_context(scheme_of(scaling)) for scaling in Scaling]
        scheme = next(each for each in schemes if each.params.scaling is Scaling.FLEXIBLE_AUTO)
        whole = made_store(scheme, folder / "whole")
        store, requests = Store(scheme, whole), Requests(scheme, whole, folder)
        stack.callback(requests.close)
        for each in schemes:
            _ = each.keys, each.writer  # made once, before processes are forked
        made: list[Target] = [Ciphertexts(schemes), Keys(schemes), requests, Answers(scheme), Wires(scheme.params)]
        made += [Databases(folder / "database"), Segments(store), Indexes(store), Imports(store)]
        assert {each.name for each in made} == WEIGHTS.keys()
        yield made


@dataclass(frozen=True)
class Case:
    """How one string ended."""

    seed: int
    target: str
    ended: str = ""
    seconds: float = 0.0
    how: str = ""
    faults: tuple[str, ...] = ()


def _chosen(all_targets: Sequence[Target], seed: int) -> tuple[Target, np.random.Generator]:
    rng = np.random.default_rng([seed, 0x57])
    weights = np.array([WEIGHTS[each.name] for each in all_targets], dtype=float)
    return all_targets[int(rng.choice(len(all_targets), p=weights / weights.sum()))], rng


def _one(all_targets: Sequence[Target], seed: int, folder: Path, most: int) -> Case:
    """In a process of a batch: one string, and what no string may bring about."""
    target, rng = _chosen(all_targets, seed)
    faults, how, ended = [], "", "faulty"
    printed, began = os.fstat(2).st_size, time.perf_counter()
    try:
        mutant, ended = target.check(rng, folder)
        how = mutant.how
    except Wrong as wrong:
        faults.append(f"silently wrong: {wrong}")
    except PenstockError as error:
        faults.append(f"what was whole is refused: {type(error).__name__}: {error}"[:300])
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error}"[:200]
        faults.append(f"{said} ({Path(where.filename).name}:{where.lineno})")
    took = time.perf_counter() - began
    if took > MOST_SECONDS:
        faults.append(f"took {took:.1f} s, over {MOST_SECONDS:g} s")
    if (held := resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024) > most:
        faults.append(f"held {held / 2**20:.0f} MiB, over {most / 2**20:.0f} MiB")
    if os.fstat(2).st_size > printed:
        with Path("/proc/self/fd/2").open("rb") as file:
            file.seek(printed)
            faults.append(f"printed: {file.read(300)!r}")
    return Case(seed, target.name, ended, took, how, tuple(faults))


def _each(all_targets: Sequence[Target], seeds: Iterable[int], folder: Path, log: Path) -> int:
    """In a process of its own: strings, and a line for each before and after it."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = most_bytes()
    # What a header claims is refused by the system, also where it would not be touched.
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MOST_BYTES, hard))
    with log.open("w", buffering=1, encoding="utf-8") as file:
        for seed in seeds:
            file.write(f"[{seed}]\n")
            case = _one(all_targets, seed, folder, most)
            file.write(json.dumps([case.seed, case.target, case.ended, case.seconds, case.how, case.faults]) + "\n")
            if case.faults and any("held" in each for each in case.faults):
                return 0  # the peak stays: the next process goes on
    return 0


def _address_space() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]
    return int(pages) * resource.getpagesize()


def _run(all_targets: Sequence[Target], seeds: range, folder: Path) -> tuple[list[Case], Ended, int | None]:
    """Cases of one process, how it ended, and the seed at which it did so early."""
    log = folder / "log"
    ended = forked(lambda: _each(all_targets, seeds, folder, log), folder, seconds=MOST_SECONDS)
    cases, begun = [], None
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        found = json.loads(line) if line.endswith("]") else []
        if len(found) == 1:
            begun = found[0]
        elif found:
            cases.append(Case(*found[:5], tuple(found[5])))
            begun = None
    log.unlink(missing_ok=True)
    return cases, ended, begun


def batch(all_targets: Sequence[Target], seeds: range, folder: Path) -> list[Result]:
    """The strings of some seeds; one that ends the process is given once more, alone."""
    cases: list[Case] = []
    faults: list[Result] = []
    peak, at = 0, seeds.start
    with TemporaryDirectory(dir=folder) as own:
        while at < seeds.stop:
            found, ended, culprit = _run(all_targets, range(at, seeds.stop), Path(own))
            cases += found
            peak = max(peak, ended.peak_bytes)
            at = (found[-1].seed if found else at - 1) + 1
            if culprit is not None or not found:
                cases.append(_alone(all_targets, at, Path(own), ended))
                at += 1
    for case in cases:
        if case.faults:
            faults.append(Result("strings", case.target, case.seed, "faulty", case.faults, case.seconds, peak,
                                 notes=case.how))  # fmt: skip
    kinds = {(case.target, case.ended) for case in cases if not case.faults}
    for kind, ended_as in sorted(kinds):
        took = [case.seconds for case in cases if (case.target, case.ended) == (kind, ended_as) and not case.faults]
        faults.append(Result("strings", kind, seeds.start, ended_as, (), max(took), peak, cases=len(took)))
    return faults


def _alone(all_targets: Sequence[Target], seed: int, folder: Path, before: Ended) -> Case:
    """A string that may have ended a process."""
    cases, ended, _ = _run(all_targets, range(seed, seed + 1), folder)
    name = _chosen(all_targets, seed)[0].name
    if ended.code == KILLED:
        return Case(seed, name, "faulty", ended.seconds, "", (f"no answer after {ended.seconds:.1f} s",))
    if not cases:
        said = ended.faults or (f"ended the process, exit code {ended.code}",)
        return Case(seed, name, "faulty", ended.seconds, ended.errors[-300:], said)
    if cases[0].faults or before.code == KILLED:
        return cases[0]  # the batch was slow, not the string
    return replace(cases[0], faults=(f"ended a process that had seen others ({before.code}), and not alone",))


def bench(folder: Path, count: int, seed: int, jobs: int, batch_size: int = BATCH) -> list[Result]:
    """Give the strings of `count` seeds from `seed` on."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else folder
    with TemporaryDirectory(prefix="faults-strings-", dir=place) as files, targets(Path(files)) as all_targets:
        run = partial(_batched, all_targets, Path(files), seed + count, batch_size)
        starts = range(seed, seed + count, batch_size)
        return reported(_flat(over(run, starts, jobs)), count)


def _batched(all_targets: Sequence[Target], folder: Path, stop: int, size: int, start: int) -> Result:
    results = batch(all_targets, range(start, min(start + size, stop)), folder)
    return Result("strings", "batch", start, "", cases=0, detail=results)


def _flat(batches: Iterable[Result]) -> Iterator[Result]:
    for each in batches:
        yield from each.detail
