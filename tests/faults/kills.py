"""Kill every verb that writes, at random moments, and see what it leaves: a second run must come to the same end.

    python tests/faults kills --count 200
    python tests/faults kills --count 1 --seed 137        # one case again, by its seed

A case draws a command, a signal, whom it hits (the process, its whole group, a child), and a moment: a share of the
time that an uninterrupted run takes, or of the changes that it makes to its folders.
"""

from __future__ import annotations

import importlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from faults.frame import Ended, Result, most_bytes, over, reported
from faults.kill_kinds import KINDS, THINGS, Kind, Place

LAUNCHED = Path(__file__).with_name("launched.py")
END_SECONDS = 10.0
"""After SIGINT or SIGTERM a command ends within this."""
ORPHAN_SECONDS = 5.0
"""What a killed process leaves running ends within this."""
LISTENING_SECONDS = 1.0
"""A server is killed up to this long after it listens."""
TEMPORARY = (".tmp-penstock-", "penstock-")
NONE = "not a result"
NOISE = ("Traceback (most recent call last)", "Exception ignored", "panicked at", "terminate called", "internal error",
         "resource_tracker")  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What a seed draws."""

    kind: Kind
    number: signal.Signals
    target: str
    """`alone`, `group` or `child`."""
    by_change: bool
    share: float
    """Of the run's time, or of its changes."""

    def __str__(self) -> str:
        what = "changes" if self.by_change else "time"
        return f"{self.number.name} to {self.target} at {self.share:.3f} of its {what}"


@dataclass(frozen=True)
class Reference:
    """An uninterrupted run: its seconds, changes to files, its result, and what it replaced, before and after."""

    seconds: float
    changes: int
    result: Any
    old: Any
    new: Any
    faults: tuple[str, ...] = ()


def drawn(seed: int) -> Plan:
    """The plan of a seed."""
    rng = np.random.default_rng([seed, 17])
    kinds = list(KINDS.values())
    weights = np.array([kind.weight for kind in kinds])
    kind = kinds[int(rng.choice(len(kinds), p=weights / weights.sum()))]
    number = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT][int(rng.choice(3, p=[0.6, 0.2, 0.2]))]
    killed = number is signal.SIGKILL
    target = ["alone", "group", "child"][int(rng.choice(3, p=[0.45, 0.4, 0.15] if killed else [0.5, 0.5, 0.0]))]
    by_change = bool(rng.random() < 0.4) and target != "child"
    return Plan(kind, number, target, by_change, float(rng.random()))


# Processes.
@dataclass
class Started:
    """A command in a session of its own, of a real interpreter."""

    process: subprocess.Popen[bytes]
    place: Place
    begun: Path
    tally: Path
    since: float
    watch: int

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within so many seconds."""
        return bool(select.select([self.watch], [], [], max(seconds, 0.0))[0])

    def send(self, number: int) -> None:
        """A signal, whether it has ended or not; `Popen` would ask for its exit code."""
        os.kill(self.process.pid, number)

    def said(self) -> tuple[str, str]:
        return tuple((self.place.said / name).read_bytes()[: 1 << 22].decode("utf-8", "replace")  # type: ignore[return-value]
                     for name in ("out", "err"))  # fmt: skip

    def ended(self) -> Ended:
        """How it ended, once it has."""
        _, status, used = os.wait4(self.process.pid, 0)
        took = time.monotonic() - self.since
        self.process.returncode = os.waitstatus_to_exitcode(status)
        out, err = self.said()
        return Ended(self.process.returncode, took, used.ru_maxrss * 1024, out, err, most_bytes())


@contextmanager
def started(place: Place, words: tuple[str, ...], hit: tuple[int, int, bool] = (0, 0, False)) -> Iterator[Started]:
    """The command. `hit`: ahead of which change it sends itself which signal, and whether its group gets it."""
    begun, tally = place.said / "begun", place.said / "tally"
    for each in (begun, tally):
        each.unlink(missing_ok=True)
    watched = "\n".join(map(str, (place.folder, tally, begun, *hit)))
    with (place.said / "out").open("wb") as out, (place.said / "err").open("wb") as err:
        since = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, str(LAUNCHED), *words],
            cwd=place.work,
            env={**place.environment(), "FAULTS_WATCH": watched},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    watch = os.pidfd_open(process.pid)
    try:
        yield Started(process, place, begun, tally, since, watch)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.returncode is None:
            process.wait()
        os.close(watch)


def members(session: int) -> dict[int, str]:
    """The processes of a session that run, by their number, with their command."""
    found = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with suppress(OSError):
                fields = (each / "stat").read_text().rpartition(")")[2].split()
                if fields[3] == str(session) and fields[0] not in "ZX":
                    words = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                    found[int(each.name)] = words.strip()[:120]
    return found


def run(place: Place, kind: Kind, *more: str, seconds: float) -> Ended:
    """The command from beginning to end; a server until it listens, and then ended by SIGINT."""
    with started(place, (*kind.words, *more)) as process:
        if kind.ready:
            _listens(process, kind, seconds)
            process.send(signal.SIGINT)
        if not process.wait(seconds):
            process.send(signal.SIGKILL)
            return replace(process.ended(), code=124)
        return process.ended()


def _listens(process: Started, kind: Kind, seconds: float) -> None:
    """Wait until a server says that it does."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not process.wait(0.01):
        if kind.ready in "".join(process.said()):
            return


# Things and references.
def prepared(folder: Path, names: tuple[str, ...]) -> None:
    """Make what is needed and not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        needs, make = THINGS[name]
        if (folder / name).exists():
            continue
        prepared(folder, needs)
        place = Place(folder / f"{name}, being made").make()
        _furnish(place, folder, needs)
        make(place)
        place.work.rename(folder / name)


def _furnish(place: Place, things: Path, names: tuple[str, ...]) -> None:
    for name in names:
        shutil.copytree(things / name, place.work, dirs_exist_ok=True, symlinks=True)


def reference(folder: Path, kind: Kind) -> Reference:
    """An uninterrupted run, in `folder`. A fault here is one without any kill."""
    place = Place(folder / "references" / kind.name.replace("/", "-")).make()
    _furnish(place, folder / "things", kind.needs)
    old = kind.whole(place, "") if kind.whole else None
    with started(place, kind.words) as process:
        if kind.ready:
            _listens(process, kind, 60)
            seconds = time.monotonic() - process.since + LISTENING_SECONDS
            process.send(signal.SIGINT)
        done = process.ended()
    if done.code or any(noise in done.output + done.errors for noise in NOISE):
        said = f"without a kill: exit code {done.code}: {done.errors.strip()[-500:]}"
        return Reference(done.seconds, 0, None, old, None, (said,))
    changes = int(process.tally.read_text())
    result = _result(place, kind, done)
    if str(result).startswith(NONE):
        return Reference(done.seconds, 0, None, old, None, (f"without a kill: {result}",))
    new = kind.whole(place, "") if kind.whole else None
    shutil.rmtree(place.folder)
    return Reference(seconds if kind.ready else done.seconds, changes, result, old, new)


# A case.
def killed(place: Place, plan: Plan, known: Reference) -> tuple[Ended, list[str], str]:
    """Run the command and kill it; how it ended, what of that is a fault, and in a word what happened."""
    faults: list[str] = []
    group, by_change = plan.target == "group", plan.by_change and known.changes > 0
    hit = (1 + int(plan.share * known.changes), int(plan.number), group) if by_change else (0, 0, False)
    longest = 10 * known.seconds + 60
    with started(place, plan.kind.words, hit) as process:
        sent = None if by_change else _sent(process, plan, known)
        if plan.kind.ready and by_change and not process.wait(known.seconds + 2):
            process.send(plan.number)  # a server that listened before it came to that change
        if sent is not None and plan.number is not signal.SIGKILL:
            longest = END_SECONDS
        if not process.wait(longest):
            process.send(signal.SIGKILL)
            faults.append(f"did not end within {longest:.0f} s")
        ended = process.ended()
        took = 0.0 if sent is None else time.monotonic() - sent
        faults += _orphans(process.process.pid)
        over = process.tally.exists()
    faults += _said_wrong(plan, ended, over)
    hits = ended.code == -signal.SIGKILL or ended.code == 130 or (plan.target == "child" and sent is not None)
    word = plan.number.name if hits or plan.kind.ready else "not hit" if ended.code == 0 else f"exit code {ended.code}"
    return replace(ended, seconds=took), faults, word


def _sent(process: Started, plan: Plan, known: Reference) -> float | None:
    """Send the signal at its moment; when that was, or `None` where the command had ended."""
    if plan.number is not signal.SIGKILL:  # the interpreter's own start is nobody's to interrupt
        while not process.begun.exists() and not process.wait(0.002):
            pass
    if process.wait(process.since + plan.share * known.seconds - time.monotonic()):
        return None
    pid = process.process.pid
    children = sorted(set(members(pid)) - {pid}) if plan.target == "child" else []
    if plan.target == "child" and not children and not plan.kind.ready:
        return None
    with suppress(ProcessLookupError):
        if plan.target == "group":
            os.killpg(pid, plan.number)
        else:
            os.kill(children[int(plan.share * 1e6) % len(children)] if children else pid, plan.number)
    return time.monotonic()


def _orphans(session: int) -> list[str]:
    """What of the session still runs."""
    until = time.monotonic() + ORPHAN_SECONDS
    while left := members(session):
        if time.monotonic() > until:
            for each in left:
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            return [f"still runs after {ORPHAN_SECONDS:g} s: {'; '.join(left.values())}"]
        time.sleep(0.02)
    return []


def _said_wrong(plan: Plan, ended: Ended, over: bool) -> list[str]:
    """What a killed command may not say, and how it may not end. `over`: it had done all but end."""
    said = ended.output + ended.errors
    faults = [f"said '{noise}': {ended.errors.strip()[-600:]}" for noise in NOISE if noise in said][:1]
    if plan.number is signal.SIGKILL:
        if ended.code not in (0, -signal.SIGKILL) and "penstock: " not in ended.errors:
            faults.append(f"exit code {ended.code} without a word: {ended.errors.strip()[-300:]}")
    elif ended.code == 130:
        if "interrupted" not in ended.errors:
            faults.append(f"exit code 130 without a word: {ended.errors.strip()[-300:]}")
    elif ended.code != 0 and not (over and ended.code == -plan.number):
        faults.append(f"exit code {ended.code} at {plan.number.name}: {ended.errors.strip()[-300:]}")
    return faults


def _read_after(place: Place, kind: Kind) -> Iterator[str]:
    """Faults of the commands that read what lies there."""
    for words in kind.reads:
        done = replace(place.command(*words), seconds=0.0)
        faults = list(done.faults)
        if done.code and "penstock: " not in done.errors:
            faults.append(f"exit code {done.code}: {done.errors.strip()[-300:]}")
        yield from (f"after the kill, 'penstock {' '.join(words)}': {each}" for each in faults)


def _again(place: Place, kind: Kind, known: Reference) -> tuple[Ended, list[str]]:
    """The second run, and its faults; with `--force` where it asks for that."""
    faults, longest = [], 10 * known.seconds + 60
    done = run(place, kind, seconds=longest)
    if done.code == 2 and "--force" in done.errors and "--force" not in kind.words:
        if kind.file and _result(place, kind, done) != known.result:
            faults.append(f"what the second run finds is not right, and it says: {done.errors.strip()[-300:]}")
        done = run(place, kind, "--force", seconds=longest)
    if done.code and not (kind.ready and done.code == 130):
        faults.append(f"the second run ends with {done.code}: {done.errors.strip()[-500:]}")
        return done, faults
    if any(noise in done.output + done.errors for noise in NOISE):
        faults.append(f"the second run says: {done.errors.strip()[-500:]}")
    if kind.ready and kind.ready not in done.output + done.errors:
        faults.append(f"the second run does not listen: {done.errors.strip()[-300:]}")
    found = _result(place, kind, done)
    if found != known.result:
        faults.append(f"the second run's result is another: {_brief(found)} instead of {_brief(known.result)}")
    return done, faults


def _result(place: Place, kind: Kind, done: Ended) -> Any:
    try:
        return kind.result(place, done.output)
    except (AssertionError, OSError, ValueError, KeyError) as error:
        return f"{NONE}: {type(error).__name__}: {error}"


def _brief(found: Any) -> str:
    text = repr(found)
    return text if len(text) < 400 else text[:200] + " … " + text[-200:]


def leftovers(place: Place) -> list[str]:
    """Temporary files that nobody removes any more."""
    named = [each for each in place.tmp.iterdir() if each.name.startswith(TEMPORARY)]
    named += place.work.rglob(f"{TEMPORARY[0]}*")
    found = sorted(str(each.relative_to(place.folder)) for each in named)
    secrets = sorted(
        str(each.relative_to(place.folder))
        for each in place.folder.rglob("secret*.key")
        if not each.parent.parent.name.endswith(".client") and each.parent != place.work / "db" / "keys"
    )
    return [f"left: {', '.join(found)}"] * bool(found) + [f"secrets left: {', '.join(secrets)}"] * bool(secrets)


def tried(folder: Path, plan: Plan, known: Reference, seed: int) -> Result:
    """Carry out a plan in `folder`, and say what went wrong."""
    kind = plan.kind
    if known.faults:
        return Result("kills", kind.name, seed, "no reference", known.faults)
    place = Place(folder / "cases" / str(seed)).make()
    _furnish(place, folder / "things", kind.needs)
    try:
        ended, faults, word = killed(place, plan, known)
        faults += _read_after(place, kind)
        if kind.whole and (state := _state(place, kind)) not in (known.old, known.new):
            faults.append(f"what it was to replace is neither old nor new: {_brief(state)}")
        again, found = _again(place, kind, known)
        faults += found
        faults += leftovers(place)
    finally:
        if not os.environ.get("FAULTS_KEEP"):
            shutil.rmtree(place.folder, ignore_errors=True)
    peak = max(ended.peak_bytes, again.peak_bytes)
    return Result("kills", kind.name, seed, word, tuple(faults), ended.seconds, peak, notes=str(plan) if faults else "")


def _state(place: Place, kind: Kind) -> Any:
    assert kind.whole is not None
    try:
        return kind.whole(place, "")
    except (AssertionError, OSError, ValueError, KeyError) as error:
        return f"{NONE}: {type(error).__name__}: {error}"


def heed_interrupts() -> None:
    """In the background of a shell SIGINT is ignored, and commands would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def bench(folder: Path, count: int, seed: int, jobs: int) -> list[Result]:
    """Kill the commands of `count` seeds from `seed` on. All that is written lies in `folder`."""
    heed_interrupts()
    Place.forks = True
    for verb in ("trace", "report", "keys", "database", "explore", "machines"):  # once, for all forks
        importlib.import_module(f"penstock.front.cli.verbs.{verb}")
    for module in (
        "pyarrow.parquet",
        "penstock.front.hall",
        "penstock.lab.reports.build",
        "penstock.front.explorer.views",
    ):
        importlib.import_module(module)
    seeds = range(seed, seed + count)
    kinds = {plan.kind.name: plan.kind for plan in map(drawn, seeds)}
    began = time.monotonic()
    for kind in kinds.values():
        prepared(folder / "things", kind.needs)
    names = list(kinds)

    def referred(index: int) -> Result:
        kind = kinds[names[index]]
        return Result("kills", kind.name, index, "reference", detail=reference(folder, kind))

    references = {each.kind: each.detail for each in over(referred, range(len(names)), jobs)}
    print(f"  {len(kinds)} commands once: {time.monotonic() - began:.0f} s", flush=True)

    def case(each: int) -> Result:
        plan = drawn(each)
        return tried(folder, plan, references[plan.kind.name], each)

    return reported(over(case, seeds, jobs), count)
