"""What the slow twin of the simulated drive is made of: pages, dies, channels, room, accelerators, numbers by seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from penstock.lab.instorage.flash.input import EngineConsumer

WORD = 2**64 - 1


class Kind(IntEnum):
    """Events of one instant happen in this order."""

    UPLOAD = 0
    DRAM = 2
    EDRAM = 3
    AGGREGATE = 4
    SERVE = 5
    CORRECTED = 6
    SENT = 7
    COMMANDED = 8
    SENSED = 10
    READ_COMES = 13


def mix(seed: int, index: int) -> int:
    """SplitMix64's finaliser of both."""
    z = (seed * 0xD1342543DE82EF95 + index * 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def below(bound: int, seed: int, index: int) -> int:
    return mix(seed, index) * bound >> 64


@dataclass(eq=False)
class Page:
    """A page on its way: `what` is scan, read or table."""

    what: str
    logical: int
    channel: int
    die: int
    """Of its channel."""
    plane: int
    row: int
    since: int
    tries: int = 0


@dataclass(eq=False)
class Die:
    chip: int
    queue: list[Page] = field(default_factory=list)
    inside: list[Page] = field(default_factory=list)
    out: list[Page] = field(default_factory=list)
    sending: bool = False
    state: str = "free"


@dataclass(eq=False)
class Channel:
    dies: list[Die]
    busy: bool = False
    last_command: int = 0
    last_send: int = 0


@dataclass(eq=False)
class Room:
    free: int
    waiting: list[int] = field(default_factory=list)

    def take(self, channel: int) -> bool:
        """A place, if there is one beyond those of channels that have waited longer."""
        if channel in self.waiting:
            position = self.waiting.index(channel)
        elif len(self.waiting) < self.free:
            position = len(self.waiting)
        else:
            self.waiting.append(channel)
            return False
        if position >= self.free:
            return False
        self.free -= 1
        if channel in self.waiting:
            self.waiting.remove(channel)
        return True

    def give(self, places: int) -> list[int]:
        self.free += places
        return self.waiting[: self.free]


@dataclass(eq=False)
class Worker:
    """A consumer."""

    spec: EngineConsumer
    room: Room
    loose: int = 0
    ready: int = 0
    fetching: int = 0
    fetched: int = 0
    serving: int = 0
    fetching_since: int = 0
    idle_since: int = 0
    chunks: int = 0
    busy: int = 0
    wait: int = 0
    final: bool = False

    def idle(self) -> bool:
        return not (self.loose or self.ready or self.fetching or self.fetched or self.serving)


@dataclass(eq=False)
class Stream:
    pages: list[int]
    window: int
    asked: int = 0
    under_way: int = 0
