"""The jobs of each tenant that have ended, in the order in which they did: one question waits for many jobs.

The feed lives in memory. A cursor names its server's start, so that a client learns when it has missed something.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from penstock.base.types import Row

MOST_KEPT = 5000
"""Jobs of a tenant that are remembered."""
MOST_OF_ALL = 100_000
"""Jobs of all tenants together: some tens of megabytes. The oldest of the tenant with the most are forgotten first."""
MOST_TOLD = 1000
"""Jobs in one answer."""

Event = Row
Seen = TypeVar("Seen")


class Waiting:
    """Questions that wait for a change of what has a name. Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bells: dict[str, list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}

    def changed(self, name: str) -> None:
        """Let all who wait for it look again."""
        with self._lock:
            bells = list(self._bells.get(name, ()))
        for loop, bell in bells:
            if not loop.is_closed():
                loop.call_soon_threadsafe(bell.set)

    async def until(
        self,
        name: str,
        is_over: Callable[[Seen], bool],
        wait_s: float,
        look: Callable[[], Awaitable[Seen]],
        every_s: float,
    ) -> Seen:
        """What `look` sees, once that is over, or `wait_s` seconds are. It looks at each change, and every so often."""
        bell, ends = (asyncio.get_running_loop(), asyncio.Event()), time.monotonic() + wait_s
        with self._lock:
            self._bells.setdefault(name, []).append(bell)
        try:
            while True:
                bell[1].clear()
                seen, left_s = await look(), ends - time.monotonic()
                if left_s <= 0 or is_over(seen):
                    return seen
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(bell[1].wait(), min(left_s, every_s))
        finally:
            with self._lock:
                self._bells[name].remove(bell)
                if not self._bells[name]:
                    del self._bells[name]


class _Tenant:
    """The ended jobs of one tenant. The last one has number `count`."""

    def __init__(self) -> None:
        self.count = 0
        self.events: deque[Event] = deque()


class Feed:
    """Thread safe."""

    def __init__(self) -> None:
        self._start = secrets.token_hex(6)
        self._lock, self._waiting = threading.Lock(), Waiting()
        self._tenants: dict[str, _Tenant] = {}
        self._kept = 0
        """Jobs of all tenants."""

    def add(self, tenant: str, event: Event) -> None:
        """A job has ended."""
        with self._lock:
            feed = self._tenants.setdefault(tenant, _Tenant())
            feed.events.append(event)
            feed.count += 1
            if len(feed.events) > MOST_KEPT:
                feed.events.popleft()
            elif self._kept == MOST_OF_ALL:
                max(self._tenants.values(), key=lambda each: len(each.events)).events.popleft()
            else:
                self._kept += 1
        self._waiting.changed(tenant)

    def forget(self, tenant: str) -> None:
        """Drop all entries of a tenant's jobs. Their numbers go on, so that no cursor means another job."""
        with self._lock:
            if tenant in self._tenants:
                self._kept -= len(self._tenants[tenant].events)
                self._tenants[tenant].events.clear()

    def after(self, tenant: str, cursor: str) -> Row:
        """The jobs that ended after a cursor, the next cursor, and whether some are missing between."""
        with self._lock:
            feed = self._tenants.get(tenant) or _Tenant()
            first = feed.count - len(feed.events)
            start, _, number = cursor.rpartition("-")
            at = int(number) if start == self._start and number.isdigit() else -1
            if not first <= at <= feed.count:
                return {"jobs": [], "after": f"{self._start}-{feed.count}", "missed": True}
            events = list(feed.events)[at - first : at - first + MOST_TOLD]
            return {"jobs": events, "after": f"{self._start}-{at + len(events)}", "missed": False}

    async def wait(self, tenant: str, cursor: str, wait_s: float, is_over: Callable[[], bool]) -> Row:
        """As `after`, once a job has ended, or `wait_s` seconds are over, or `is_over` says so."""

        async def look() -> Row:
            return self.after(tenant, cursor)

        return await self._waiting.until(
            tenant, lambda seen: seen["jobs"] or seen["missed"] or is_over(), wait_s, look, every_s=1.0
        )
