"""The theory of the simulation: the time of a program from totals alone, without playing it.

A program is its demand on each resource: compute, the channel of each memory level, decoding, communication. With `t_r`
seconds of resource r:

- `serial`: everything in turn, the sum of all `t_r`. With one channel this is the storage-I/O study's law, 1 + D / BW.
- `bound`: everything at once, the largest `t_r`: a roofline. What binds changes where two of them cross.
- `overlap`: n equal operations through s stages, `w` of them under way at once. With `T` the sum and `B` the largest of
  one operation's stages, operation `i` of 0, 1, … ends at

      C(i) = T + i B                             where T <= w B   (enough under way to keep the slowest stage busy)
      C(i) = (i div w + 1) T + (i mod w) B       otherwise        (rounds of w operations)

  `w` is the prefetch depth plus one, or the operations that fit the prefetch buffer, at least one. Programs whose
  operations differ lie between `bound` and `serial`.

Nothing here uses the engine: both are held against each other by tests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import UnknownName, UsageError

COMPUTE = "compute"
COMMUNICATION = "communication"


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """What brings bytes: a memory level, and the decoding behind it."""

    bandwidth_bytes_per_s: float
    latency_s: float = 0.0
    decode_bytes_per_s: float = math.inf

    def __post_init__(self) -> None:
        for value, what in ((self.bandwidth_bytes_per_s, "bandwidth"), (self.decode_bytes_per_s, "decode rate")):
            if not value > 0:
                raise UsageError(f"{what} {value}: it is more than zero")
        if not 0 <= self.latency_s < math.inf:
            raise UsageError(f"latency {self.latency_s}: it is finite and not negative")

    def transfer_s(self, loaded_bytes: float, transfers: float = 0.0) -> float:
        """Seconds on the channel."""
        return loaded_bytes / self.bandwidth_bytes_per_s + transfers * self.latency_s

    def decode_s(self, loaded_bytes: float) -> float:
        """Seconds of decoding."""
        return loaded_bytes / self.decode_bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a program gets over one channel."""

    channel: Channel
    loaded_bytes: float
    transfers: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """A program by its totals."""

    busy_s: Mapping[str, float]
    """Resource -> seconds that the whole program needs of it, in the order in which an operation passes them."""
    num_operations: int = 1

    def __post_init__(self) -> None:
        for name, value in self.busy_s.items():
            if not 0 <= value < math.inf:
                raise UsageError(f"{name} takes {value} s: it is finite and not negative")
        if self.num_operations < 1:
            raise UsageError(f"{self.num_operations} operations: a program has one at least")

    @property
    def binding(self) -> str:
        """The busiest resource; of equals, the first."""
        return max(self.busy_s, key=lambda name: self.busy_s[name])

    def total_s(self, mode: str, *, under_way: float = math.inf) -> float:
        """Seconds of the program in a time mode; `overlap` takes all operations as equal.

        Args:   under_way: operations between the start of their first stage and the end of their last, at most; only
                `overlap` looks at it.
        Raises: UnknownName: no such mode; UsageError: nothing may be under way.
        """
        if mode == "serial":
            return math.fsum(self.busy_s.values())
        if mode == "bound":
            return max(self.busy_s.values(), default=0.0)
        if mode == "overlap":
            each = [value / self.num_operations for value in self.busy_s.values()]
            return pipeline_s(self.num_operations, each, under_way=under_way)
        raise UnknownName("time mode", mode, ("serial", "overlap", "bound"))

    def slowdown(self, mode: str, *, under_way: float = math.inf) -> float | None:
        """Total over compute; `None` without compute."""
        compute_s = self.busy_s.get(COMPUTE, 0.0)
        return self.total_s(mode, under_way=under_way) / compute_s if compute_s else None


def roofline(
    compute_s: float, loads: Mapping[str, Load], *, num_operations: int = 1, communication_s: float = 0.0
) -> Roofline:
    """A program from its totals.

    Args:   loads: memory level -> bytes over its channel, the deepest first.
    >>> drive = Channel(bandwidth_bytes_per_s=64e9)
    >>> program = roofline(0.099, {"drive": Load(channel=drive, loaded_bytes=1633e9 * 0.099)})
    >>> round(program.slowdown("serial"), 1), round(program.slowdown("bound"), 1), program.binding
    (26.5, 25.5, 'drive')
    """
    busy: dict[str, float] = {}
    for name, load in loads.items():
        busy[name] = load.channel.transfer_s(load.loaded_bytes, load.transfers)
        if math.isfinite(load.channel.decode_bytes_per_s):
            busy[f"decode {name}"] = load.channel.decode_s(load.loaded_bytes)
    busy[COMPUTE] = compute_s
    if communication_s:
        busy[COMMUNICATION] = communication_s
    return Roofline(busy_s=busy, num_operations=num_operations)


def pipeline_s(num_operations: int, stage_s: list[float], *, under_way: float = math.inf) -> float:
    """Seconds of `num_operations` equal operations through these stages, with so many under way at most.

    >>> pipeline_s(10, [3.0, 1.0]), pipeline_s(10, [3.0, 1.0], under_way=1)
    (31.0, 40.0)
    """
    if num_operations == 0:
        return 0.0
    if not under_way >= 1:
        raise UsageError(f"{under_way} operations under way: there is one at least")
    whole, slowest = math.fsum(stage_s), max(stage_s, default=0.0)
    if whole <= under_way * slowest or math.isinf(under_way):
        return whole + (num_operations - 1) * slowest
    rounds, left = divmod(num_operations - 1, int(under_way))
    return (rounds + 1) * whole + left * slowest


def under_way(
    *, prefetch_depth: int | None = None, buffer_bytes: float | None = None, operation_bytes: float = 0.0
) -> float:
    """Operations that may be under way at once, by depth and buffer; a buffer holds one at least, alone."""
    found = math.inf if prefetch_depth is None else prefetch_depth + 1.0
    if buffer_bytes is not None and operation_bytes > 0:
        found = min(found, max(1.0, buffer_bytes // operation_bytes))
    return found
