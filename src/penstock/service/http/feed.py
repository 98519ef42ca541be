"""The jobs of each tenant that have ended, in the order in which they did: one question waits for many jobs.

The feed lives in memory. A cursor names its server's start, so that a client learns when it has missed something.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

MOST_KEPT = 5000
"""Jobs of a tenant that are remembered."""
MOST_OF_ALL = 100_000
"""Jobs of all tenants together: some tens of megabytes. The oldest are forgotten first."""
MOST_TOLD = 1000
"""Jobs in one answer."""

Event = dict[str, Any]


class _Tenant:
    """The ended jobs of one tenant. The last one has number `count`."""

    def __init__(self) -> None:
        self.count = 0
        self.events: deque[Event] = deque()
        self.waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []


class Feed:
    """Thread safe."""

    def __init__(self) -> None:
        self._start = secrets.token_hex(6)
        self._lock = threading.Lock()
        self._tenants: dict[str, _Tenant] = {}
        self._order: deque[tuple[str, int]] = deque()
        """Tenant and number of each job that is kept, and of some that are not, in the order in which they ended."""

    def add(self, tenant: str, event: Event) -> None:
        """A job has ended."""
        with self._lock:
            found = self._tenants.setdefault(tenant, _Tenant())
            found.events.append(event)
            found.count += 1
            self._order.append((tenant, found.count))
            if len(found.events) > MOST_KEPT:
                found.events.popleft()
            if len(self._order) > MOST_OF_ALL:
                oldest, number = self._order.popleft()
                kept = self._tenants[oldest]
                if kept.count - len(kept.events) < number:
                    kept.events.popleft()
            waiting = list(found.waiting)
        for loop, changed in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(changed.set)

    def forget(self, tenant: str) -> None:
        """Drop all entries of a tenant's jobs. Their numbers go on, so that no cursor means another job."""
        with self._lock:
            if tenant in self._tenants:
                self._tenants[tenant].events.clear()

    def after(self, tenant: str, cursor: str) -> dict[str, Any]:
        """The jobs that ended after a cursor, the next cursor, and whether some are missing between."""
        with self._lock:
            found = self._tenants.get(tenant) or _Tenant()
            first = found.count - len(found.events)
            start, _, number = cursor.rpartition("-")
            at = int(number) if start == self._start and number.isdigit() else -1
            if not first <= at <= found.count:
                return {"jobs": [], "after": f"{self._start}-{found.count}", "missed": True}
            told = list(found.events)[at - first : at - first + MOST_TOLD]
            return {"jobs": told, "after": f"{self._start}-{at + len(told)}", "missed": False}

    async def wait(self, tenant: str, cursor: str, wait_s: float, is_over: Callable[[], bool]) -> dict[str, Any]:
        """As `after`, once a job has ended, or `wait_s` seconds are over, or `is_over` says so."""
        watched = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._tenants.setdefault(tenant, _Tenant()).waiting.append(watched)
        ends = time.monotonic() + wait_s
        try:
            while True:
                watched[1].clear()
                found, left = self.after(tenant, cursor), ends - time.monotonic()
                if found["jobs"] or found["missed"] or left <= 0 or is_over():
                    return found
                try:
                    await asyncio.wait_for(watched[1].wait(), min(left, 1.0))
                except asyncio.TimeoutError:
                    continue
        finally:
            with self._lock:
                self._tenants[tenant].waiting.remove(watched)
