"""A number of servers, the way that runs are given to them, and the cost of another user's keys."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.base.units import format_bytes
from penstock.errors import UsageError
from penstock.lab.simulation.servers.stream import Stream
from penstock.scheme.operations import Word


class Arrangement(Word):
    """Which server takes a run."""

    DEDICATED = "dedicated"
    """The user's own: as many servers as users, whose keys never leave."""
    POOLED = "pooled"
    """Any server, first come, first served; a server that has the keys goes before one that has not."""
    LOCAL = "local"
    """Any server; the first waiting run whose keys a free server has goes first."""


class Loading(Word):
    """When the keys of a run are loaded."""

    WAIT = "wait"
    """When a server is free for it: the server waits for them."""
    AHEAD = "ahead"
    """While the server computes the run before, as soon as it knows the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Servers that are alike."""

    arrangement: Arrangement
    servers: int
    loading: Loading
    memory_bytes: int
    """Of one server, for evaluation keys; the least recently used set leaves."""
    tier: str
    """Where keys come from."""
    tier_bytes_per_s: float
    """Of each server by itself."""
    tier_latency_s: float = 0.0
    """Of one set of keys."""
    tier_j_per_byte: float | None = None
    switch_s: float = 0.0
    """Of a run whose user differs from the run before on its server, besides its keys; nothing hides it."""
    max_overtaken: int = 16
    """Later runs that may go before a run (`local`)."""

    def load_s(self, key_bytes: int) -> float:
        """Seconds to bring in one set of keys."""
        return self.tier_latency_s + key_bytes / self.tier_bytes_per_s

    def least_bytes(self, stream: Stream) -> int:
        """The memory that a server needs: while one run computes, the keys of the next one may come in."""
        sizes = sorted(stream.key_bytes, reverse=True)
        ahead = self.loading is Loading.AHEAD and self.arrangement is not Arrangement.DEDICATED
        return sum(sizes[: 2 if ahead else 1])

    def check(self, stream: Stream) -> None:
        """Raises: UsageError: no server, not one for each user where they are dedicated, or a memory too small."""
        if self.servers < 1:
            raise UsageError(f"{self.servers} servers run nothing: ask for at least 1")
        if self.arrangement is Arrangement.DEDICATED and self.servers != len(stream.users):
            raise UsageError(
                f"{self.servers} dedicated servers for {len(stream.users)} users: each user has one, so ask for "
                f"{len(stream.users)}"
            )
        least, most = self.least_bytes(stream), max(stream.users, key=lambda user: user.key_bytes)
        if self.memory_bytes < least:
            what = "the keys of two users" if least > most.key_bytes else f"the keys of one user of '{most.name}'"
            raise UsageError(
                f"a memory of {format_bytes(self.memory_bytes)} a server does not hold {what}: give it "
                f"{format_bytes(least)} or more ({least} B), or store keys in a smaller form"
            )
