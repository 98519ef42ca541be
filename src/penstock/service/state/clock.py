"""The service's clock: seconds since 1970 that never go back, and that no jump of the machine's clock moves.

Between a start and an end it runs with the time since the machine's start. A server that begins takes the machine's
clock, or goes on from the last time that the state holds, where that is later. If the machine's clock gained more than
has passed, that is a jump. The ends of uploads, inputs and results are moved by it.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa

from penstock.service.state.tables import blobs, jobs, uploads

JUMP_S = 10.0
"""A smaller difference of clocks is no jump."""
GRACE_S = 3600.0
"""Nothing that was there expires for so long after a start of the machine, or for as long as it had left, since nobody
can tell how long the machine was off."""


def _since_boot() -> float:
    """Seconds since the machine's start, those in which it slept included."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def boot_identity() -> str:
    """What tells this start of the machine from the next; empty: unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class ServiceClock:
    """Call it for the time.

    Args:   noted: `word` of the last server; `None`: there was none. last_s: a time that has been, where nothing was
            noted. wall, since_boot, boot: the machine's clocks, and what names its start.
    """

    def __init__(
        self,
        noted: str | None = None,
        last_s: float = 0.0,
        *,
        wall: Callable[[], float] = lambda: time.time(),
        since_boot: Callable[[], float] = lambda: _since_boot(),
        boot: str | None = None,
    ) -> None:
        self._wall, self._since_boot = wall, since_boot
        self._boot = boot_identity() if boot is None else boot
        self._began_s, now_s = since_boot(), wall()
        then_s, then_boot = math.inf, ""
        with suppress(ValueError, TypeError):  # another word than ours
            read_s, read_then_s, then_boot = json.loads(noted or "")
            last_s, then_s = float(read_s), float(read_then_s)
        is_same = then_boot == self._boot != "" and then_s <= self._began_s
        known_s = last_s + (self._began_s - then_s if is_same else 0.0)
        self._base_s = max(now_s, known_s)
        self._off_s = now_s - self._base_s
        """What the machine's clock shows beyond this one."""
        self.last_s = last_s
        """When the last server was there; 0: none was."""
        gained_s = self._base_s - known_s if last_s else 0.0
        self.jump_s = gained_s if is_same and gained_s > JUMP_S else 0.0
        """By so much the machine's clock went forwards, and so much time has not passed."""
        self.away_s = 0.0 if is_same else gained_s
        """So long was the machine off, or its clock went forwards: nobody can tell."""

    def __call__(self) -> float:
        return self._base_s + self._since_boot() - self._began_s

    def word(self) -> str:
        """The time, for the next server."""
        return json.dumps([self(), self._since_boot(), self._boot])

    def jumped(self) -> float:
        """Seconds by which the machine's clock has jumped since this was asked last."""
        off_s = self._wall() - self()
        jump_s, self._off_s = off_s - self._off_s, off_s
        return jump_s if abs(jump_s) > JUMP_S else 0.0

    def notes(self) -> list[str]:
        """What an operator should hear at the start."""
        said = []
        if self._off_s < -JUMP_S:
            said.append(
                f"the machine's clock is {-self._off_s:.0f} s behind the state: the service's goes on from there"
            )
        if self.jump_s:
            said.append(f"the machine's clock went {self.jump_s:.0f} s forwards: what is there stays as long as before")
        if self.away_s > GRACE_S:
            said.append(
                f"the machine's clock is {self.away_s:.0f} s after the last server's: nothing of then expires within "
                f"{GRACE_S:.0f} s"
            )
        return said


def move_ends(connection: sa.Connection, clock: ServiceClock) -> None:
    """Move the ends of rows that the last server left, by the jump or by the time that may be one."""
    for table in (uploads, blobs, jobs):
        ends, was_there = table.c.expires_s, table.c.expires_s > clock.last_s
        if clock.jump_s:
            connection.execute(sa.update(table).where(was_there).values(expires_s=ends + clock.jump_s))
        elif clock.away_s:
            most_s = clock.last_s + clock.away_s + GRACE_S
            later = sa.case((ends + clock.away_s < most_s, ends + clock.away_s), else_=most_s)
            connection.execute(sa.update(table).where(was_there, ends < later).values(expires_s=later))
    if clock.jump_s:
        is_open = jobs.c.state.in_(("queued", "running"))
        connection.execute(sa.update(jobs).where(is_open).values(submitted_s=jobs.c.submitted_s + clock.jump_s))
