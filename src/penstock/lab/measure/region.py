"""The region of interest of an encrypted run: the homomorphic operations, without the client's side and the set-up.

Switches (counters, samplers, energy) go on at the region's start and off at its end; the clock is the machine's
monotonic one and runs inside all switches, so that switching is not timed.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from penstock.program.evaluator.call import Call, Cipher, Executed
from penstock.program.evaluator.protocol import Values
from penstock.program.openfhe.evaluator import OpenFheContext, OpenFheEvaluator

RegionSwitch = Callable[[bool], object]
"""Turns something on or off that counts only while it is on."""


@dataclass(slots=True)
class Usage:
    """What the kernel itself counts for this process (getrusage), in the region."""

    cpu_s: float = 0.0
    minor_faults: int = 0
    major_faults: int = 0
    context_switches: int = 0

    @classmethod
    def now(cls) -> Usage:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return cls(used.ru_utime + used.ru_stime, used.ru_minflt, used.ru_majflt, used.ru_nvcsw + used.ru_nivcsw)

    def add(self, before: Usage, after: Usage) -> None:
        """Add the use between two readings."""
        for column in fields(self):
            more = getattr(after, column.name) - getattr(before, column.name)
            setattr(self, column.name, getattr(self, column.name) + more)


class Region:
    """The time between `on` and `off`, summed over all such pairs; switching on twice changes nothing.

    >>> region = Region()
    >>> region.on(); region.off(); region.on(); region.off()
    >>> region.intervals, region.wall_s > 0
    (2, True)
    """

    def __init__(self, switches: Sequence[RegionSwitch] = ()) -> None:
        self._switches = tuple(switches)
        self._since: float | None = None
        self._used_before = Usage()
        self.wall_s = 0.0
        self.intervals = 0
        self.used = Usage()

    def on(self) -> None:
        """The region begins, or goes on."""
        if self._since is None:
            for switch in self._switches:
                switch(True)
            self._used_before = Usage.now()
            self._since = time.monotonic()

    def off(self) -> None:
        """The region ends, for now."""
        if self._since is not None:
            self.wall_s += time.monotonic() - self._since
            self.used.add(self._used_before, Usage.now())
            self._since = None
            self.intervals += 1
            for switch in reversed(self._switches):
                switch(False)


class RegionEvaluator(OpenFheEvaluator):
    """The `openfhe` reading, with the region on from a server-side operation to the next encryption or decryption.

    Encoding of plaintext operands is the server's work and inside the region.
    """

    def __init__(self, context: OpenFheContext, region: Region) -> None:
        super().__init__(context)
        self.region = region

    @property
    def origin(self) -> float:
        """The moment that the trace's times count from, on the monotonic clock (which `perf_counter` is on Linux)."""
        return self._origin

    def _encrypt(self, values: Values) -> Executed:
        self.region.off()
        return super()._encrypt(values)

    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        self.region.off()
        return super()._decrypt(a)

    def execute(self, call: Call) -> Executed:
        self.region.on()
        return super().execute(call)
