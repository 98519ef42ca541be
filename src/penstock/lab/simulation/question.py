"""The question of a simulation: machines, tiers, what holds data, time modes, hosts. One typed value.

`worded.question_in` makes it from the words of a person: the options of `penstock simulate`, the keys of a sweep's
file, the settings of an explorer's address, the arguments of a notebook. All checks are there and in the values that it
is made of; a new axis is one field here, and a word.

>>> from penstock.lab.simulation.words import KEYS, Words
>>> from penstock.lab.simulation.worded import question_in
>>> words = Words(machine=["sharp"], cache=["on-chip"], policy=["lru", "belady"], mode=["overlap"])
>>> question = question_in(words, (), KEYS)
>>> [(point.hold.policy, point.mode, str(point.prefetch)) for point in question.points_on(question.machines[0])][::4]
[('lru', 'overlap', 'next-1'), ('belady', 'overlap', 'next-1')]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple, TypeAlias, cast

from penstock.errors import UnknownName, UsageError
from penstock.lab.simulation.cluster.cluster import unsuitable
from penstock.lab.simulation.cluster.spec import Cluster
from penstock.lab.simulation.memory.levels import Hierarchy, cache_over, changed, check_write_back
from penstock.lab.simulation.memory.levels_spec import is_file_of_levels, load_hierarchy
from penstock.lab.simulation.memory.residents import Reservation
from penstock.lab.simulation.memory.tenants import Turns
from penstock.lab.simulation.names import cache_bytes
from penstock.lab.simulation.words import Spelling
from penstock.scheme.machines.schema import Machine, Tier
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.play.caches import Cache, ForcedHitRatio, SizedCache
from penstock.scheme.play.hierarchy import BackingTier, Mode, Pace, Prefetch, tier_name
from penstock.scheme.play.own import is_own, own_file_at

PREFETCHES = ("none", "next-1", "perfect")
OWN_ENGINE, SIMGRID = "penstock", "simgrid"
ENGINES = (OWN_ENGINE, SIMGRID)
"""What plays the messages between hosts."""

Hold: TypeAlias = Cache | Hierarchy
"""The store above the last tier: a cache, or levels with their tiers."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Point(Pace):
    """The point of one row: a pace, and the store and hosts that play at it. With levels, its tier is the last one."""

    hold: Hold
    cluster: Cluster | None = None
    """`None`: one host, and no other program."""
    write_back: bool = False
    """Whether results that are read again from below are written there first."""
    engine: str = OWN_ENGINE
    """Of `ENGINES`."""
    id: str = ""
    """Of a sweep: a digest of everything that makes it another point."""

    @property
    def by_level(self) -> bool:
        """Whether each level is played by itself."""
        return self.write_back or isinstance(self.hold, Hierarchy)

    @property
    def levels(self) -> Hierarchy:
        """The levels; one cache over one tier is a case of them."""
        if isinstance(self.hold, Hierarchy):
            return self.hold
        return cache_over(self.hold, self.tier, tier_name(self.tier), self.decode_bytes_per_s)


class RefusedPoints(NamedTuple):
    """Points that the axes name and that cannot be."""

    what: str
    why: str
    points: int = 1
    cause: UsageError | None = None

    @property
    def error(self) -> UsageError:
        """For who asks for nothing else."""
        return self.cause or UsageError(f"{self.what}: {self.why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caches:
    """One cache in front of the tiers: stated hit ratios, then caches of each size with each policy."""

    hit_ratios: tuple[float, ...] = (0.0,)
    sizes: tuple[str, ...] = ()
    """Sizes, or `on-chip`: the machine's own memory."""
    policies: tuple[str, ...] = ("lru",)

    def __len__(self) -> int:
        return len(self.hit_ratios) + len(self.sizes) * len(self.policies)

    def of(self, machine: Machine, question: Question) -> Iterator[Cache | RefusedPoints]:
        """The caches of a machine."""
        yield from (ForcedHitRatio(ratio) for ratio in self.hit_ratios)
        for text in self.sizes:
            try:
                capacity = cache_bytes(text, machine, question.spelling("cache"))
            except UsageError as error:
                yield RefusedPoints(f"cache {text} of {machine.name}", str(error), len(self.policies), error)
                continue
            yield from (SizedCache(policy, capacity) for policy in self.policies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Several levels of memory: each line or file with each policy and inclusion, and the overrides for all."""

    texts: tuple[str, ...]
    policies: tuple[str, ...] = ("lru",)
    """Of sized levels that name none."""
    inclusions: tuple[str | None, ...] = (None,)
    """What levels know of each other; `None`: as they say themselves."""
    pins: Mapping[str, str] = field(default_factory=dict)
    shares: tuple[tuple[str, str, int], ...] = ()
    reserves: tuple[tuple[str, Reservation], ...] = ()

    def __len__(self) -> int:
        return len(self.texts) * len(self.policies) * len(self.inclusions)

    def of(self, machine: Machine, question: Question) -> Iterator[Hierarchy | RefusedPoints]:
        """The levels on a machine.

        Raises: UnknownName: a tier, policy or inclusion that does not exist; MachineError: of a file of levels.
        """
        for text, policy, inclusion in product(self.texts, self.policies, self.inclusions):
            try:
                hierarchy = changed(
                    load_hierarchy(text, machine, default_policy=policy),
                    pins=self.pins,
                    shares=self.shares,
                    reserves=self.reserves,
                    decode_bytes_per_s=question.decode_bytes_per_s,
                    inclusion=inclusion,
                )
                if question.write_back:
                    check_write_back(hierarchy)
            except UsageError as error:
                names = isinstance(error, UnknownName) or isinstance(error.__cause__, UnknownName)
                if names or is_file_of_levels(text):
                    raise
                yield RefusedPoints(f"levels {text} of {machine.name}", str(error), cause=error)
                continue
            yield hierarchy


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about any program: every field that is a tuple is an axis. Made by `worded.question_in`."""

    machines: tuple[Machine, ...]
    tiers: tuple[Tier, ...]
    holds: Caches | Levels
    modes: tuple[Mode, ...]
    prefetches: tuple[Prefetch, ...]
    """Of mode `overlap`."""
    decode_bytes_per_s: float | None
    """Rate of a decode stage behind the tier; `None`: nothing is decoded."""
    clusters: tuple[Cluster | RefusedPoints, ...]
    """Empty: one host, and no other program."""
    engines: tuple[str, ...]
    classes: tuple[str, ...]
    """The classes that are not resident."""
    key_forms: tuple[KeyForm | None, ...]
    """The form of stored and moved keys; `None`: the parameter set's."""
    order: Turns
    """How programs that run together take turns."""
    write_back: bool
    """Whether results that are read again from below are written there first."""
    spelling: Spelling
    """How the front end writes all this, for what errors say."""

    @property
    def on_clusters(self) -> bool:
        return bool(self.clusters)

    def __len__(self) -> int:
        """Points on one machine, before any is refused."""
        ways = sum(len(self.prefetches) if mode == "overlap" else 1 for mode in self.modes)
        places = 1 if isinstance(self.holds, Levels) else len(self.tiers)
        return len(self.holds) * max(1, len(self.clusters)) * len(self.engines) * places * ways

    def points_on(self, machine: Machine, refused: list[RefusedPoints] | None = None) -> list[Point]:
        """The points on a machine: what holds data slowest, then the cluster, the engine, the tier, the time mode.

        Args:   refused: gets the points that cannot be.
        Raises: UsageError: one of them cannot, with the reason, and there is no `refused`.
        """

        def leave_out(points: RefusedPoints) -> None:
            if refused is None:
                raise points.error
            refused.append(points)

        points = list[Point]()
        points_each = len(self) // len(self.holds)
        ways = [(mode, ahead) for mode in self.modes for ahead in (self.prefetches if mode == "overlap" else (None,))]
        for hold in self.holds.of(machine, self):
            if isinstance(hold, RefusedPoints):
                leave_out(hold._replace(points=hold.points * points_each))
                continue
            clusters = self.clusters or (None,)
            places: list[tuple[BackingTier, float | None]] = [(tier, self.decode_bytes_per_s) for tier in self.tiers]
            if isinstance(hold, Hierarchy):
                clusters, last = (None,), hold.levels[-1]
                places = [(last.tier, last.decode_bytes_per_s)]
                if self.write_back and "ciphertext" not in (*self.classes, *hold.classes):
                    word, classes = self.spelling("write_back"), self.spelling("classes")
                    why = f"{word} is of ciphertexts: add them to {classes}, or pin them in a level"
                    leave_out(RefusedPoints(f"levels of {machine.name}", why, points_each, UsageError(why)))
                    continue
            for cluster in clusters:
                if isinstance(cluster, RefusedPoints):
                    leave_out(cluster._replace(points=points_each // len(clusters)))
                    continue
                for engine, (tier, rate), (mode, ahead) in product(self.engines, places, ways):
                    unsuited = None if cluster is None else unsuitable(cluster, cast(Cache, hold), mode)
                    if cluster is not None and unsuited is not None:
                        leave_out(RefusedPoints(f"partition {cluster.partition}", unsuited))
                        continue
                    points.append(
                        Point(
                            tier=tier,
                            mode=mode,
                            decode_bytes_per_s=rate,
                            prefetch=ahead,
                            hold=hold,
                            cluster=cluster,
                            write_back=self.write_back,
                            engine=engine,
                        )
                    )
        return points

    def classes_on(self, *machines: Machine) -> tuple[str, ...]:
        """The classes that are not resident, and the ones that levels of these machines pin or share out."""
        if not isinstance(self.holds, Levels):
            return self.classes
        holds = [hold for machine in machines for hold in self.holds.of(machine, self)]
        named = [name for hold in holds if isinstance(hold, Hierarchy) for name in hold.classes]
        return tuple(dict.fromkeys((*self.classes, *named)))


def parse_prefetch(text: str, buffer_bytes: int | None = None, what: str = "prefetch") -> Prefetch:
    """`none`, `next-K` (K operations ahead), `perfect` (as early as the buffer allows), or a Python file of one's own.

    Raises: UsageError: perfect prefetching without a buffer; a buffer without prefetching; of the file. UnknownName.
    >>> parse_prefetch("next-4")
    Prefetch(depth=4, buffer_bytes=None)
    >>> str(parse_prefetch("perfect", 64_000_000))
    'perfect, 64 MB'
    """
    if text == "none":
        if buffer_bytes is not None:
            raise UsageError(f"{what} none needs no buffer: leave the buffer out, or name next-K or perfect")
        return Prefetch(depth=0)
    if text == "perfect":
        if buffer_bytes is None:
            raise UsageError(f"{what} perfect runs ahead as far as its buffer allows: state the buffer's size")
        return Prefetch(depth=None, buffer_bytes=buffer_bytes)
    if is_own(text):
        return Prefetch(depth=None, buffer_bytes=buffer_bytes, own=own_file_at(text, "prefetch"))
    match = re.fullmatch(r"next-(\d+)", text)
    if match is None:
        raise UnknownName(what, text, PREFETCHES)
    return Prefetch(depth=int(match.group(1)), buffer_bytes=buffer_bytes)
