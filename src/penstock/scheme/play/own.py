"""Policies of the user's own: a Python file stands wherever the name of a policy, a prefetch or an order of turns does.

A file has one of these parts, or several:

`priority(accesses)` replacement, the fast way: an array with the worth of the object after each access;
`Policy(accesses)` replacement, the general way: a class that is asked at each access (`docs/guides/own-policies.md`);
`prefetch(loads)` by how many operations the loads of each run ahead of compute;
`schedule(jobs)` turns of programs that run together.

The file travels with its text, so that workers of a sweep need not have it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Bools, Floats, Ints
from penstock.base.system import own_file
from penstock.base.system.files import readable
from penstock.errors import UsageError
from penstock.scheme.play.engine import _engine

REPLACEMENT, PREFETCH, SCHEDULE = ("priority", "Policy"), ("prefetch",), ("schedule",)
"""The parts of a file, by use."""
PARTS = {"policy": REPLACEMENT, "prefetch": PREFETCH, "interleave": SCHEDULE}
"""Word of a question -> the parts that it may name."""


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A file of the user's with policies. Built by `own_file_at`."""

    path: str
    """Absolute."""
    sha256: str
    text: str = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """As results state it."""
        return readable(Path(self.path).name)

    def has(self, parts: Sequence[str]) -> bool:
        """Whether the file has one of these parts."""
        return bool(_names(self) & set(parts))

    def part(self, name: str) -> Callable[..., Any]:
        """A part; the file is run once in a process. Raises: UsageError: a fault of the file, with its line."""
        defined = getattr(_module(self), name)
        if not callable(defined):
            raise UsageError(f"{self.name}: {name} is a function or a class, not {defined!r}")
        return defined

    @contextmanager
    def at_work(self, what: str) -> Iterator[None]:
        """The user's code runs inside: its faults are errors with the file's line."""
        with own_file.blamed(Path(self.path), self.name, f"in {what}"):
            yield


def is_own(text: str) -> bool:
    """Whether the name of a policy, a prefetch or an order is a file of the user's."""
    return own_file.is_own(text)


def own_file_at(text: str, word: str = "policy") -> OwnFile:
    """The file of that name, which has the part for a word of a question.

    Raises: UsageError: no such file, no Python, or it has no such part.
    """
    file = _read(text)
    if not file.has(PARTS[word]):
        wanted = " or ".join(PARTS[word])
        also = [other for other, parts in PARTS.items() if file.has(parts)]
        has = f"it has a part for {' and '.join(also)}" if also else "it has no part of a policy"
        raise UsageError(f"{text}: {word} takes a file that defines {wanted}; {has} (docs/guides/own-policies.md)")
    return file


def placed(policies: Sequence[str]) -> dict[str, list[str]]:
    """Word of a question -> its files, of those named as policies: a file without replacement has another word's part.

    Raises: UsageError: of a file; several schedules.
    """
    files: dict[str, list[str]] = {word: [] for word in PARTS}
    for text in policies:
        words = [word for word, parts in PARTS.items() if is_own(text) and _read(text).has(parts)]
        files[words[0] if words else "policy"].append(text)
    if len(files["interleave"]) > 1:
        raise UsageError(f"{' and '.join(files['interleave'])} are schedules: programs take turns by one of them")
    return files


def _read(text: str) -> OwnFile:
    path = Path(text).resolve()
    content = own_file.text_of(path, text, "a file of policies of your own is named with its path, 'mine.py'")
    own_file.parsed(content, path, text)
    return OwnFile(str(path), hashlib.sha256(content.encode()).hexdigest(), content)


@lru_cache(maxsize=64)
def _names(file: OwnFile) -> frozenset[str]:
    return frozenset(own_file.bound_names(own_file.parsed(file.text, Path(file.path), file.name)))


@lru_cache(maxsize=64)
def _module(file: OwnFile) -> ModuleType:
    return own_file.executed(Path(file.path), file.name, file.text)


# Replacement ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AccessStream:
    """The accesses of a program to one cache, in program order: (m,) each, read only. All of them are known."""

    object: Ints
    """Which object, 0 to `num_objects - 1`."""
    bytes: Ints
    """What this access needs of it. Needs of one object are nested: a smaller one is a part of every larger one."""
    operation: Ints
    """The operation that makes the access."""
    position: Ints
    """0 to m - 1."""
    next_use: Ints
    """Position of the next access to the same object; m where there is none."""
    last_use: Ints
    """Position of the last one before; -1 where there is none."""
    uses: Ints
    """Uses of the object so far, this one included."""
    reload_bytes: Ints
    """The bytes that the next use would load if nothing of the object were there; 0 without a next use."""
    num_objects: int
    capacity_bytes: int
    """Of the cache."""

    def __len__(self) -> int:
        return len(self.object)

    @property
    def never_again(self) -> Bools:
        """(m,) whether the object is not used after this access."""
        return self.next_use == len(self)


@dataclass(frozen=True, slots=True, eq=False)
class Priority:
    """A priority for each access, and how the cache takes it."""

    values: npt.ArrayLike
    """(m,) the resident with the least leaves first, of equal ones the one that got it first; NaN: it is not kept."""
    on_hit: bool = True
    """Whether a hit gives the object a new priority; else it keeps the one that it came in with."""
    bypass: bool = False
    """Whether an object passes by where it would push out one with a higher priority."""
    aging: bool = False
    """Whether priorities count from the last victim's, as in GreedyDual: an unused object ages."""


def replay_own(
    access_start: Ints,
    access_object: npt.NDArray[np.int32] | Ints,
    access_bytes: Ints,
    file: OwnFile,
    capacity_bytes: int,
    *,
    detail: bool,
) -> _engine.Replay:
    """As the engine's `replay`, under a policy of the user's.

    Raises: UsageError: a fault of the file, with its line; SimulationInputError: the accesses break a rule.
    """
    _engine.replay_uncached(access_start, access_object, access_bytes)  # checks them
    stream = _stream_of(access_start, access_object, access_bytes, capacity_bytes)
    rows = access_start, stream.object.astype(np.int32), access_bytes
    if file.has(REPLACEMENT[:1]):
        priority, values = _priority(file, stream)
        return _engine.replay_priorities(
            *rows,
            values,
            capacity_bytes,
            on_hit=bool(priority.on_hit),
            bypass=bool(priority.bypass),
            aging=bool(priority.aging),
            detail=detail,
        )
    made = file.part("Policy")
    if not hasattr(made, "make_room"):
        raise own_file.fault(made, file.name, "it has no method make_room(self, object, at, needed, resident)")
    with file.at_work("Policy"):
        asked = _AskedPolicy(made(stream), file.name)
        return _engine.replay_asked(*rows, asked, capacity_bytes, detail)


def _stream_of(
    access_start: Ints, access_object: npt.NDArray[np.int32] | Ints, access_bytes: Ints, capacity_bytes: int
) -> AccessStream:
    # Numbered by the order of their ids, as the engine would.
    known, numbers = np.unique(access_object, return_inverse=True)
    objects = numbers.reshape(-1).astype(np.int64)
    uses = _engine.uses(access_start, objects, access_bytes)
    m = len(objects)
    arrays = {
        "object": objects,
        "bytes": access_bytes,
        "operation": np.repeat(np.arange(len(access_start) - 1, dtype=np.int64), np.diff(access_start)),
        "position": np.arange(m, dtype=np.int64),
        "next_use": uses.next,
        "last_use": uses.last,
        "uses": uses.count,
        "reload_bytes": np.append(access_bytes, 0)[uses.next],
    }
    for name, values in arrays.items():
        arrays[name] = _read_only(values)
    return AccessStream(**arrays, num_objects=len(known), capacity_bytes=capacity_bytes)


def _read_only(values: Ints) -> Ints:
    view = np.asarray(values).view()
    view.flags.writeable = False
    return view


def _priority(file: OwnFile, stream: AccessStream) -> tuple[Priority, Floats]:
    function = file.part("priority")
    with file.at_work("priority"):
        answer = function(stream)
    priority = answer if isinstance(answer, Priority) else Priority(answer)
    return priority, _array(priority.values, len(stream), "priority for each access", function, file.name)


def _array(values: npt.ArrayLike, count: int, what: str, function: Callable[..., object], name: str) -> Floats:
    """(count,) numbers that a function returned; one number stands for all. Raises: UsageError: others."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise own_file.fault(function, name, f"it returned {type(values).__name__}, no numbers: {error}") from error
    if array.ndim == 0:
        array = np.full(count, float(array))
    if array.shape != (count,):
        raise own_file.fault(function, name, f"it returned shape {array.shape}: return ({count},), a {what}")
    return np.ascontiguousarray(array)


class _AskedPolicy:
    """Answers the engine's questions by the user's policy; holds the residents, and checks the answers."""

    def __init__(self, policy: Any, name: str) -> None:
        self._policy, self._name = policy, name
        self._resident: dict[int, int] = {}
        self._touch = getattr(policy, "touch", None)
        self._admits = getattr(policy, "admits", None)
        self._insert = getattr(policy, "insert", None)

    def touch(self, obj: int, at: int) -> bool:
        if self._touch is None:
            return True
        kept = self._touch(obj, at)
        if kept is None or kept:
            return True
        del self._resident[obj]
        return False

    def admits(self, obj: int, at: int) -> bool:
        return self._admits is None or bool(self._admits(obj, at))

    def make_room(self, obj: int, at: int, needed: int) -> list[int] | None:
        chosen = self._policy.make_room(obj, at, needed, self._resident)
        if chosen is None:
            return None
        victims = [int(victim) for victim in chosen]
        freed = 0
        for victim in victims:
            if victim == obj or victim not in self._resident or victims.count(victim) > 1:
                why = "the object that comes in" if victim == obj else "not in the cache, or named twice"
                raise self._wrong(f"it returned object {victim}, which is {why}")
            freed += self._resident[victim]
        if freed < needed:
            raise self._wrong(
                f"the objects that it returned free {freed} bytes of {needed} that are needed; return more, or None to "
                "let the access pass by"
            )
        for victim in victims:
            del self._resident[victim]
        return victims

    def insert(self, obj: int, at: int, size: int) -> None:
        self._resident[obj] = size
        if self._insert is not None:
            self._insert(obj, at, size)

    def grow(self, obj: int, more: int) -> None:
        self._resident[obj] += more

    def _wrong(self, what: str) -> UsageError:
        return own_file.fault(self._policy.make_room, self._name, what)


# Prefetching ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OperationLoads:
    """What a prefetcher sees: (n,) of each operation, in program order."""

    bytes: Floats
    """Loaded for it, behind the cache."""
    transfers: Floats
    """One a miss."""
    load_s: Floats
    """Seconds on its way: channels and decoding together."""
    compute_s: Floats
    buffer_bytes: int | None
    """What loads ahead may hold at once; `None`: no limit."""

    def __len__(self) -> int:
        return len(self.bytes)


def depths_of(file: OwnFile, loads: OperationLoads) -> Ints:
    """(n,) by how many operations the loads of each run ahead.

    Raises: UsageError: a fault of the file, with its line.
    """
    function = file.part("prefetch")
    with file.at_work("prefetch"):
        answer = function(loads)
    depths = _array(answer, len(loads), "depth for each operation", function, file.name)
    wrong = np.flatnonzero(~(depths >= 0) | (depths != np.floor(depths)))
    if len(wrong):
        at = int(wrong[0])
        raise own_file.fault(
            function, file.name, f"depth {depths[at]:g} of operation {at}: it is a whole number that is not negative"
        )
    return np.ascontiguousarray(np.minimum(depths, len(loads)), dtype=np.int64)


# Turns of programs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TenantJob:
    """One of the programs that run together, as a schedule sees it."""

    name: str
    compute_s: Floats
    """(n,) of each operation."""
    load_bytes: Ints
    """(n,) bytes that each operation asks for, of the classes that are not resident."""
    distinct_bytes: int
    """All of that, each object once."""

    def __len__(self) -> int:
        return len(self.compute_s)


def turns_of(file: OwnFile, jobs: Sequence[TenantJob]) -> list[Floats]:
    """For each program, (n,) the turn of each operation: the lowest runs first, of equal ones the program named first.

    Raises: UsageError: a fault of the file, with its line; turns that would change the order of a program.
    """
    function = file.part("schedule")
    with file.at_work("schedule"):
        answer = function(list(jobs))
        listed = list(answer) if not isinstance(answer, np.ndarray) or answer.ndim > 1 else [answer]
    if len(listed) != len(jobs):
        raise own_file.fault(
            function, file.name, f"it returned {len(listed)} arrays: return one for each of {len(jobs)} programs"
        )
    turns = []
    for job, given in zip(jobs, listed, strict=True):
        one = _array(given, len(job), "turn for each operation", function, file.name)
        wrong = np.flatnonzero(~np.isfinite(one) | (np.diff(one, prepend=one[:1]) < 0))
        if len(wrong):
            at = int(wrong[0])
            raise own_file.fault(
                function,
                file.name,
                f"turn {one[at]:g} of operation {at} of {job.name}: turns are finite and never fall within a program",
            )
        turns.append(one)
    return turns
