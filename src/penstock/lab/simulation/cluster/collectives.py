"""Collective communication as messages: all-gather, reduce-scatter, broadcast, by named algorithms.

A pattern is a list of rounds. The messages of a round start together; the next round starts when all of them have
ended. Algorithms differ in rounds (latency) and in how well they use the links (bandwidth):

| all-gather | rounds | what a host sends in all |
|---|---|---|
| `direct` | 1 | its own block to every other host |
| `ring` | m - 1 | every block but one, to the next host |
| `recursive-doubling` | log2 m, m a power of two | all blocks of its half, then of its quarter, … |
| `bruck` | ceil(log2 m), any m | 1, 2, 4, … blocks to the host so far below |

A broadcast of B bytes to m - 1 others. `flat`: the root sends B to each. `binomial`: every holder passes it on,
ceil(log2 m) rounds. `scatter`: the root scatters B/m to each and all gather, 2 B (m - 1)/m over every link instead of B
(m - 1).
Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1), 2005,
which takes `scatter` for long messages (512 kB and more), as the limbs of a rescale are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from penstock.base.arrays import Bools, Ints
from penstock.base.system.kept import kept
from penstock.errors import UsageError, check_known

Message = tuple[int, int, int]
"""Source, target, bytes."""
Rounds = list[list[Message]]
MOST_KEPT_BYTES = 256 * 2**20
"""Of messages that are kept; an all-gather among 1024 hosts has 25 MB of them."""


@dataclass(frozen=True, slots=True)
class AllGather:
    """Each host of `members` has a block; afterwards each has all of them.

    `blocks[i]` are the bytes of `members[i]`; a member without a block only receives.
    """

    members: tuple[int, ...]
    blocks: tuple[int, ...]
    receivers: tuple[int, ...] | None = None
    """The members that need the blocks; the others only send. `None`: all. Only `direct` spares the others: by other
    algorithms every member passes blocks on."""


@dataclass(frozen=True, slots=True)
class ReduceScatter:
    """Each member has a summand of every block; afterwards `members[i]` has the sum of block i."""

    members: tuple[int, ...]
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Send the data of `root` to all other members."""

    members: tuple[int, ...]
    root: int
    num_bytes: int


Collective = AllGather | ReduceScatter | Broadcast


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """The messages of a collective, round after round, as arrays."""

    round_start: Ints
    """(rounds + 1,) the messages of round r are `round_start[r]:round_start[r + 1]`."""
    source: Ints
    target: Ints
    size: Ints
    """(messages,) bytes, more than zero."""
    every_member_receives: bool = True
    """Whether no member sends without receiving."""

    @classmethod
    def of(cls, rounds: Rounds) -> Pattern:
        """Messages without bytes and rounds without messages are left out."""
        kept = [[message for message in messages if message[2] > 0] for messages in rounds]
        kept = [messages for messages in kept if messages]
        flat = np.asarray([message for messages in kept for message in messages], dtype=np.int64).reshape(-1, 3)
        start = np.asarray([0, *accumulate(len(messages) for messages in kept)], dtype=np.int64)
        source, target, size = (np.ascontiguousarray(column) for column in flat.T)
        return cls(start, source, target, size)

    @property
    def sent_bytes(self) -> int:
        """Of all hosts together."""
        return int(self.size.sum())

    def rounds(self) -> Rounds:
        """The messages as lists."""
        messages = list(zip(self.source.tolist(), self.target.tolist(), self.size.tolist(), strict=True))
        ends = self.round_start.tolist()
        return [messages[a:b] for a, b in pairwise(ends)]


def _direct(blocks: Sequence[int]) -> Rounds:
    places = range(len(blocks))
    return [[(i, j, blocks[i]) for i in places for j in places if i != j]]


def _ring(blocks: Sequence[int]) -> Rounds:
    m = len(blocks)
    return [[(i, (i + 1) % m, blocks[(i - step) % m]) for i in range(m)] for step in range(m - 1)]


def _recursive_doubling(blocks: Sequence[int]) -> Rounds:
    m = len(blocks)
    if m & (m - 1):
        raise UsageError(
            f"recursive-doubling among {m} hosts, those that take part in an exchange: it pairs hosts and needs a "
            "power of two; 'bruck' does the same for any number"
        )
    rounds, distance = Rounds(), 1
    while distance < m:
        has = [sum(blocks[i // distance * distance :][:distance]) for i in range(m)]
        rounds.append([(i, i ^ distance, has[i]) for i in range(m)])
        distance *= 2
    return rounds


def _bruck(blocks: Sequence[int]) -> Rounds:
    m = len(blocks)
    rounds, distance = Rounds(), 1
    while distance < m:
        count = min(distance, m - distance)
        sent = [sum(blocks[(i + at) % m] for at in range(count)) for i in range(m)]
        rounds.append([(i, (i - distance) % m, sent[i]) for i in range(m)])
        distance *= 2
    return rounds


ALL_GATHERS: dict[str, Callable[[Sequence[int]], Rounds]] = {
    "direct": _direct,
    "ring": _ring,
    "recursive-doubling": _recursive_doubling,
    "bruck": _bruck,
}
"""All-gather algorithms: from the bytes of each block to rounds among members numbered from 0. A reduce-scatter is the
same backwards: rounds in reverse order, every message the other way."""


def _flat(members: int, num_bytes: int) -> Rounds:
    return [[(0, j, num_bytes) for j in range(1, members)]]


def _binomial(members: int, num_bytes: int) -> Rounds:
    rounds, have = Rounds(), 1
    while have < members:
        rounds.append([(i, i + have, num_bytes) for i in range(min(have, members - have))])
        have *= 2
    return rounds


def _scatter(members: int, num_bytes: int) -> Rounds:
    """van de Geijn: the root scatters equal parts, then the others gather all parts, directly."""
    parts = [num_bytes // members + (i < num_bytes % members) for i in range(members)]
    gathered = [message for message in _direct(parts)[0] if message[1] != 0]
    return [[(0, j, parts[j]) for j in range(1, members)], gathered]


BROADCASTS: dict[str, Callable[[int, int], Rounds]] = {"flat": _flat, "binomial": _binomial, "scatter": _scatter}
"""Broadcast algorithms: from the number of members and the bytes to rounds among members, the root being 0."""


def check_algorithms(all_gather: str, broadcast: str) -> None:
    """Raises: UnknownName: no such algorithm, with the nearest name."""
    check_known("all-gather algorithm", all_gather, ALL_GATHERS)
    check_known("broadcast algorithm", broadcast, BROADCASTS)


def _direct_pattern(collective: AllGather | ReduceScatter) -> Pattern:
    """As `_direct` has it, worked out as arrays: the number of messages is the square of the hosts'."""
    members, blocks = np.asarray(collective.members), np.asarray(collective.blocks, dtype=np.int64)
    owner, other = np.divmod(np.arange(len(members) ** 2), max(1, len(members)))
    needed: Bools = np.ones(len(members), dtype=np.bool_)
    if isinstance(collective, AllGather) and collective.receivers is not None:
        needed = np.isin(members, collective.receivers)
    sent = np.flatnonzero((owner != other) & (blocks[owner] > 0) & needed[other])
    owner, other = owner[sent], other[sent]
    source, target = (other, owner) if isinstance(collective, ReduceScatter) else (owner, other)
    start = np.asarray([0, len(sent)] if len(sent) else [0], dtype=np.int64)
    return Pattern(
        start, members[source].astype(np.int64), members[target].astype(np.int64), blocks[owner], bool(needed.all())
    )


@kept(MOST_KEPT_BYTES)
def pattern_of(collective: Collective, all_gather: str = "direct", broadcast: str = "scatter") -> Pattern:
    """The messages of a collective by these algorithms.

    Raises: UnknownName: no such algorithm; UsageError: the algorithm does not work for so many hosts.
    >>> pattern_of(AllGather((0, 1, 2), (4, 2, 2))).sent_bytes
    16
    """
    check_algorithms(all_gather, broadcast)
    members = collective.members
    if not isinstance(collective, Broadcast) and all_gather == "direct":
        return _direct_pattern(collective)
    if isinstance(collective, Broadcast):
        at = members.index(collective.root)
        members = members[at:] + members[:at]
        rounds = BROADCASTS[broadcast](len(members), collective.num_bytes)
    else:
        rounds = ALL_GATHERS[all_gather](collective.blocks)
        if isinstance(collective, ReduceScatter):
            rounds = [[(j, i, size) for i, j, size in messages] for messages in reversed(rounds)]
    return Pattern.of([[(members[i], members[j], size) for i, j, size in messages] for messages in rounds])
