"""A memory of several levels, fastest first: the bytes that each serves, the traffic of its channel, and the time.

**Where data is.** Every level but the last is a cache (any policy, or a stated hit ratio) and starts empty; the last
holds everything. An access goes to the first level. A level asks the next for its missing data: a miss goes down until
a level holds the object. Each level that it passes keeps a copy, as its own policy decides from the accesses that reach
it. Nothing is invalidated: a copy above may outlive the one below (non-inclusive, non-exclusive). Levels that are
strictly inclusive or exclusive are in `penstock.lab.simulation.memory.levels_joint`.

**Results.** What an operation makes is born in the first level. It takes its place there and in each level below, as a
read would that misses everywhere, and nothing is moved for it: no level serves it, and it crosses no channel. With
written-back results (`write_back`), data that comes up a channel again has gone down it once before.

**Parts of objects.** Needs of one object are nested, as in one cache. A level serves the part of a need that it holds
and no level above does. So one level serves each requested byte, and the bytes of all levels add up to the request.

**Channels.** All that a level serves and all that comes from below crosses its channel upwards: data is handed up level
by level. A channel has the level's bandwidth, and its latency once an access. Decoding stands behind the channel of the
level that has it.

**Classes.** A class that is pinned lives in its level: it takes room there for as many of its objects as there ever are
at once, each at its largest need, always hits there, and is never asked for below. Levels above may cache it. A share
is a part of a level that one class has alone; what others reserve is lost to both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Bools, Floats, Ints
from penstock.base.units import format_bytes
from penstock.errors import ConservationError, SimulationInputError, check_known
from penstock.lab.simulation.memory.levels import INDEPENDENT, Hierarchy, Level, LevelLoad, check_write_back
from penstock.lab.simulation.memory.levels_joint import replay_joint
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import ForcedHitRatio, NoCache, SizedCache
from penstock.scheme.play.hierarchy import Replay, replay


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LevelsReplay:
    """Where every byte of a program came from."""

    hierarchy: Hierarchy
    accesses: int
    """Reads: a result is neither hit nor miss."""
    requested_bytes: int
    loads: tuple[LevelLoad, ...]
    """Of each level, fastest first."""
    results: int
    """Accesses that make their object."""

    @property
    def num_operations(self) -> int:
        return len(self.loads[0].operation_bytes)

    @property
    def waited_for(self) -> LevelLoad:
        """Of the fastest level whose channel takes time."""
        return self.loads[self.hierarchy.fastest_timed]

    @property
    def byte_hit_ratio(self) -> float | None:
        """Share of the bytes that the levels above `waited_for` served; `None` without any."""
        if not self.requested_bytes:
            return None
        return sum(load.served_bytes for load in self.loads[: self.hierarchy.fastest_timed]) / self.requested_bytes

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the result less than it seems, with the remedy."""
        return *self._passing, *self._unstated_writes

    @property
    def _unstated_writes(self) -> tuple[str, ...]:
        return tuple(
            f"level '{load.level.name}' states no rate of writing: results are written at its rate of reading; "
            "a tier file of your own may state write_bandwidth"
            for load in self.loads
            if load.level.is_timed and load.written_bytes and load.level.stated_write_bandwidth is None
        )

    @property
    def _passing(self) -> tuple[str, ...]:
        return tuple(
            f"level '{load.level.name}': {load.streamed} of {self.accesses + self.results} accesses need more than the "
            f"room that they have there (of {format_bytes(load.level.capacity_bytes or 0)}) and pass by it; give it "
            "room for the largest object"
            for load in self.loads
            if load.streamed
        )


def replay_levels(
    accesses: Accesses,
    hierarchy: Hierarchy,
    *,
    access_class: npt.NDArray[np.int8] | None = None,
    class_names: Sequence[str] = (),
    temporary: Sequence[str] = (),
    write_back: bool = False,
) -> LevelsReplay:
    """Plays `accesses` through the levels.

    Args:   access_class: (m,) class of each access, an index into `class_names`; needed where classes are pinned or
            have shares. An object is of one class; temporary: classes whose objects take room only from their first to
            their last access, where they are pinned; others take it from the start to the end; write_back: results
            that are read again from further down are written there first.
    Raises: SimulationInputError: the accesses break a rule. The pinned, shared and reserved data of a level exceeds it
            (with the sizes). Results are written back past a stated hit ratio, or by levels that know of each other.
            UnknownName: no such class.
    """
    for name in {*hierarchy.pins, *(name for level in hierarchy.levels for name in level.shares)}:
        check_known("class", name, class_names)
    if write_back:
        check_write_back(hierarchy)
    # The engine checks every access once, and sums the bytes.
    checked = replay(accesses, NoCache())
    if hierarchy.inclusion != INDEPENDENT:
        return _conserved(hierarchy, checked, replay_joint(accesses, hierarchy))
    classes = _Classes(access_class, tuple(class_names), tuple(temporary))
    flow = _Flow(
        position=np.arange(len(accesses), dtype=np.int64), held=np.zeros(len(accesses), dtype=np.int64), weight=1.0
    )
    loads = []
    for level in hierarchy.levels:
        pinned = {name for name, where in hierarchy.pins.items() if where == level.name}
        before = flow
        load, flow = _pass(level, pinned, flow, accesses, classes)
        if write_back:
            load.written = written_by(accesses, before.position, before.held)
        loads.append(load)
    return _conserved(hierarchy, checked, loads)


@dataclass(frozen=True, slots=True)
class _Classes:
    of_access: npt.NDArray[np.int8] | None
    names: tuple[str, ...]
    temporary: tuple[str, ...]

    def among(self, names: set[str], position: Ints) -> Bools:
        """(k,) whether the accesses at these positions are of one of the named classes."""
        if not names:
            return np.zeros(len(position), dtype=np.bool_)
        if self.of_access is None:
            raise SimulationInputError(
                "classes are pinned or have shares, and the accesses have none: give access_class"
            )
        return np.isin(self.of_access[position], [i for i, name in enumerate(self.names) if name in names])


@dataclass(frozen=True, slots=True)
class _Flow:
    """The accesses that reach a level."""

    position: Ints
    """(k,) which of all accesses."""
    held: Ints
    """(k,) bytes that levels above hold of the need."""
    weight: float
    """The share of each that is left by forced hit ratios above."""


@dataclass(slots=True)
class _Held:
    """What a level holds of each access that reaches it, (k,) bytes of the need."""

    bytes: Ints
    evictions: int = 0
    streamed: int = 0


def _pass(
    level: Level, pinned: set[str], flow: _Flow, accesses: Accesses, classes: _Classes
) -> tuple[LevelLoad, _Flow]:
    """What the level serves, and the accesses that go on to the next."""
    wanted, is_read = accesses.access_bytes[flow.position], accesses.is_read[flow.position]
    pinned_bytes = _bytes_of(pinned, accesses, classes)
    held = _held(level, pinned, pinned_bytes, flow, accesses, classes)
    goes_on = held.bytes < wanted
    missed = goes_on & is_read
    # A result takes its place here and below, and nothing is moved for it.
    asked = np.where(is_read, wanted - flow.held, 0)
    # The data held here and not above, and the stated share of the rest.
    served = int(np.maximum(held.bytes - flow.held, 0)[is_read].sum())
    hits = int(is_read.sum()) - int(missed.sum())
    forced = level.cache.hit_ratio if isinstance(level.cache, ForcedHitRatio) else 0.0
    scale = flow.weight if flow.weight != 1 or forced else 1
    load = LevelLoad(
        level=level,
        operation_bytes=_by_operation(asked, flow, accesses),
        operation_transfers=_by_operation(is_read.astype(np.int64), flow, accesses),
        served_bytes=scale * (served + (forced * int(asked[missed].sum()) if forced else 0)),
        hits=scale * (hits + (forced * int(missed.sum()) if forced else 0)),
        misses=scale * ((1 - forced) * int(missed.sum()) if forced else int(missed.sum())),
        evictions=held.evictions,
        streamed=held.streamed,
        pinned_bytes=pinned_bytes,
    )
    below = _Flow(
        position=flow.position[goes_on],
        held=np.maximum(flow.held, held.bytes)[goes_on],
        weight=flow.weight * (1 - forced),
    )
    return load, below


def _held(
    level: Level, pinned: set[str], pinned_bytes: int, flow: _Flow, accesses: Accesses, classes: _Classes
) -> _Held:
    wanted = accesses.access_bytes[flow.position]
    if level.cache is None:
        return _Held(wanted)
    lives_here = classes.among(pinned, flow.position)
    held = _Held(np.where(lives_here, wanted, 0))
    if not isinstance(level.cache, SizedCache):
        return held
    others = ~lives_here
    for names, capacity in _parts(level, pinned, pinned_bytes):
        here = others if names is None else classes.among(names, flow.position)
        others = others & ~here
        position = flow.position[here]
        if len(position) == 0:
            continue
        part = Accesses(np.array([0, len(position)]), accesses.access_object[position], wanted[here])
        kept = replay(part, replace(level.cache, capacity_bytes=capacity), detail=True)
        held.bytes[here] = wanted[here] - _detail(kept)
        held.evictions += kept.evictions
        # A share of nothing is a way past the level, not a cache that is too small.
        held.streamed += kept.streamed if capacity or names is None else 0
    return held


def _detail(kept: Replay) -> Ints:
    if kept.access_miss_bytes is None:
        raise ConservationError("a replay without its detail: please report it")
    return kept.access_miss_bytes


def _parts(level: Level, pinned: set[str], pinned_bytes: int) -> list[tuple[set[str] | None, int]]:
    """(classes, bytes) of each part of a sized level; `None`, which comes last: all others.

    Raises: SimulationInputError: they do not fit, with the sizes.
    """
    shares = {name: size for name, size in level.shares.items() if name not in pinned}
    capacity = level.capacity_bytes or 0
    rest = capacity - pinned_bytes - level.reserved_bytes - sum(shares.values())
    if rest < 0:
        taken = [f"{' and '.join(sorted(pinned))} pinned there: {format_bytes(pinned_bytes)}"] if pinned else []
        taken += [
            f"reserved by '{resident.name}': {format_bytes(resident.capacity_bytes)}" for resident in level.reserved
        ]
        taken += [f"the share of {name}: {format_bytes(size)}" for name, size in shares.items()]
        raise SimulationInputError(
            f"level '{level.name}' holds {format_bytes(capacity)}, {format_bytes(-rest)} too little for "
            f"{', '.join(taken)}; pin, share or reserve less, or give the level more room"
        )
    return [*(({name}, size) for name, size in shares.items()), (None, rest)]


def _bytes_of(names: set[str], accesses: Accesses, classes: _Classes) -> int:
    """The most bytes that objects of these classes have at once, each at its largest need."""
    here = np.nonzero(classes.among(names, np.arange(len(accesses), dtype=np.int64)))[0]
    if len(here) == 0:
        return 0
    _, index = np.unique(accesses.access_object[here], return_inverse=True)
    largest = np.zeros(int(index.max()) + 1, dtype=np.int64)
    np.maximum.at(largest, index, accesses.access_bytes[here])
    operation = np.searchsorted(accesses.access_start, here, side="right") - 1
    first, last = np.full(len(largest), accesses.num_operations), np.zeros(len(largest), dtype=np.int64)
    np.minimum.at(first, index, operation)
    np.maximum.at(last, index, operation)
    stays = np.zeros(len(largest), dtype=np.bool_)
    stays[index[~classes.among(names & set(classes.temporary), here)]] = True
    first[stays], last[stays] = 0, accesses.num_operations - 1
    change = np.zeros(accesses.num_operations + 1, dtype=np.int64)
    np.add.at(change, first, largest)
    np.add.at(change, last + 1, -largest)
    return int(np.cumsum(change).max())


def _by_operation(values: Ints, flow: _Flow, accesses: Accesses) -> Ints | Floats:
    every = np.zeros(len(accesses), dtype=np.int64)
    every[flow.position] = values
    per_operation = accesses.by_operation(every)
    return per_operation if flow.weight == 1 else np.asarray(flow.weight * per_operation, dtype=np.float64)


def _conserved(hierarchy: Hierarchy, checked: Replay, loads: Sequence[LevelLoad]) -> LevelsReplay:
    served, hits = sum(load.served_bytes for load in loads), sum(load.hits for load in loads)
    for what, left, right in (("bytes", served, checked.requested_bytes), ("hits", hits, checked.accesses)):
        # Expected values are sums of fractions.
        if left != right and not (isinstance(left, float) and math.isclose(left, right, rel_tol=1e-12)):
            raise ConservationError(
                f"conservation broken, please report it: the {what} of all levels are {left}, not {right}"
            )
    return LevelsReplay(
        hierarchy=hierarchy,
        accesses=checked.accesses,
        requested_bytes=checked.requested_bytes,
        loads=tuple(loads),
        results=checked.results,
    )


def written_by(accesses: Accesses, position: Ints, held: Ints) -> tuple[Ints, Ints]:
    """The writes of a level's channel, from its reads: bytes of results that are read again from further down than they
    were made.

    A result is born in the first level. A byte of it that some access later gets over the channel was not above that
    channel any more, so it had crossed it downwards; once, since ciphertexts never change. Data without a later read is
    never written: a runtime that knows the program drops it. So this is the minimum of writes of any runtime with the
    same reads behind its caches. It is moved with the operation after the one that makes the result.

    Args:   position: (k,) the accesses that get bytes over the channel; held: (k,) bytes of each above it: the access
            gets the bytes from there to its need.
    """
    if accesses.is_result is None or not accesses.num_operations:
        none = np.zeros(accesses.num_operations, dtype=np.int64)
        return none, none
    made = np.nonzero(accesses.is_result)[0]
    results, first = np.unique(accesses.access_object[made], return_index=True)
    born = np.searchsorted(accesses.access_start, made[first], side="right") - 1
    got = accesses.access_object[position]
    place = np.minimum(np.searchsorted(results, got), len(results) - 1)
    back = (results[place] == got) & accesses.is_read[position] & (held < accesses.access_bytes[position])
    of, low, high = place[back].astype(np.int64), held[back], accesses.access_bytes[position][back]
    per_result = _covered(of, low, high, len(results))
    moved = np.minimum(born + 1, accesses.num_operations - 1)
    sums, writes = (np.zeros(accesses.num_operations, dtype=np.int64) for _ in range(2))
    np.add.at(sums, moved, per_result)
    np.add.at(writes, moved, (per_result > 0).astype(np.int64))
    return sums, writes


def _covered(of: Ints, low: Ints, high: Ints, count: int) -> Ints:
    """(count,) how many bytes of each object its ranges [low, high) have together."""
    order = np.lexsort((low, of))
    of, low, high = of[order], low[order], high[order]
    # Objects stand one behind the other on a line, so that one running maximum serves all of them.
    span = int(high.max(initial=0)) + 1
    reached = np.concatenate(([0], np.maximum.accumulate(high + of * span)))[: len(of)]
    new = np.maximum(high - np.maximum(low, np.maximum(reached - of * span, 0)), 0)
    covered = np.zeros(count, dtype=np.int64)
    np.add.at(covered, of, new)
    return covered
