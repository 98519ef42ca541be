"""Threads for requests, which block on the database or the disk: each tenant may hold a share of them, and no more.

A request beyond the share waits without a thread, so that nobody keeps others from theirs. A tenant whose requests have
used more of the processor than another's that is here has few threads: all threads share one interpreter.
"""

from __future__ import annotations

import time
from asyncio import Future, get_running_loop
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import wraps
from inspect import iscoroutinefunction
from typing import ParamSpec, TypeVar

from anyio.to_thread import run_sync
from fastapi.routing import APIRoute

SHARE, AHEAD_SHARE = 8, 2
"""Threads of one tenant at the same time, and of all strangers together; of one that has had more of the processor than
another that is here."""
HALF_S, HERE_S = 2.0, 0.5
"""Seconds of the processor count half after so long; a tenant is here so long after its last call."""
LEAD_S = 0.05
"""More than twice another's seconds and this is ahead."""
_MOST_SHARES = 1000
Given = ParamSpec("Given")
Found = TypeVar("Found")
_share: ContextVar[Share | None] = ContextVar("share", default=None)


class Share:
    """Of one tenant. It belongs to the event loop's thread."""

    def __init__(self, shares: ThreadShares, *, counts: bool) -> None:
        self._shares, self._running, self._used_s, self.counts = shares, 0, 0.0, counts
        self._waiting: deque[Future[None]] = deque()
        self.at_s = shares.clock()
        """When it was here last."""

    def used_s(self, now: float) -> float:
        """Seconds of the processor, of late."""
        return float(self._used_s * 0.5 ** ((now - self.at_s) / HALF_S))

    def is_here(self, now: float) -> bool:
        return self._running > 0 or now - self.at_s < HERE_S

    def used(self, seconds: float) -> None:
        """It has used the processor, or is here."""
        now = self._shares.clock()
        self._used_s, self.at_s = self.used_s(now) + seconds, now

    async def __aenter__(self) -> None:
        self.used(0.0)
        if self._waiting or self._running >= self._shares.most_of(self):
            turn: Future[None] = get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except BaseException:
                if turn.done() and not turn.cancelled():
                    self._leave()
                else:
                    self._waiting.remove(turn)
                raise
        else:
            self._running += 1

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        self._running -= 1
        while self._waiting and self._running < self._shares.most_of(self):
            turn = self._waiting.popleft()
            if not turn.done():
                self._running += 1
                turn.set_result(None)


class ThreadShares:
    """The share of each tenant."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._shares: OrderedDict[str, Share] = OrderedDict()

    def enter(self, name: str, *, counts: bool = True) -> Share:
        """The present request is of this tenant. `counts`: others give way to it."""
        share = self._shares.pop(name, None) or Share(self, counts=counts)
        self._shares[name] = share
        now = self.clock()
        while len(self._shares) > _MOST_SHARES and not next(iter(self._shares.values())).is_here(now):
            self._shares.popitem(last=False)
        _share.set(share)
        return share

    def most_of(self, share: Share) -> int:
        """How many threads it may hold now: few where it has had much more than another one that is here."""
        now = self.clock()
        others = [
            other.used_s(now)
            for other in reversed(self._shares.values())
            if other.counts and other is not share and other.is_here(now)
        ]
        return AHEAD_SHARE if others and share.used_s(now) > 2 * min(others) + LEAD_S else SHARE


async def in_thread(function: Callable[Given, Found], *args: Given.args, **kwargs: Given.kwargs) -> Found:
    """What a function returns that blocks. It holds a thread of the share of its request's tenant."""
    share, took_s = _share.get(), 0.0

    def run() -> Found:
        nonlocal took_s
        begun_s = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            took_s = time.thread_time() - begun_s

    if share is None:
        return await run_sync(run)
    async with share:
        try:
            return await run_sync(run)
        finally:
            share.used(took_s)


class ThreadedRoute(APIRoute):
    """A route whose function, where it blocks, holds a thread of its tenant's share."""

    def __init__(self, path: str, endpoint: Callable[..., object], **more: object) -> None:
        super().__init__(path, endpoint if iscoroutinefunction(endpoint) else _threaded(endpoint), **more)  # type: ignore[arg-type]


def _threaded(function: Callable[Given, Found]) -> Callable[Given, Awaitable[Found]]:
    @wraps(function)
    async def run(*args: Given.args, **kwargs: Given.kwargs) -> Found:
        return await in_thread(function, *args, **kwargs)

    return run
