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

from penstock.service.work.lately import Lately

SHARE, AHEAD_SHARE = 8, 2
"""Threads of one tenant at the same time, and of all strangers together; of one that has had more of the processor than
another that is here."""
_MOST_SHARES = 1000
Given = ParamSpec("Given")
Found = TypeVar("Found")
_share: ContextVar[Share | None] = ContextVar("share", default=None)


class Share:
    """Of one tenant. It belongs to the event loop's thread."""

    def __init__(self, shares: ThreadShares, name: str, *, counts: bool) -> None:
        self._shares, self.name, self.counts, self.running = shares, name, counts, 0
        self._waiting: deque[Future[None]] = deque()

    def count(self, seconds: float) -> None:
        """It has used so much of the processor, or is here."""
        self._shares.used(self, seconds)

    async def __aenter__(self) -> None:
        self.count(0.0)
        if self._waiting or self.running >= self._shares.most_of(self):
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
            self.running += 1

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        self.running -= 1
        while self._waiting and self.running < self._shares.most_of(self):
            turn = self._waiting.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)


class ThreadShares:
    """The share of each tenant."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lately = clock, Lately(half_s=2.0, here_s=0.5, lead_s=0.05)
        self._shares: OrderedDict[str, Share] = OrderedDict()

    def enter(self, name: str, *, counts: bool = True) -> Share:
        """The present request is of this tenant. `counts`: others give way to it."""
        share = self._shares.pop(name, None) or Share(self, name, counts=counts)
        self._shares[name] = share
        while len(self._shares) > _MOST_SHARES and not next(iter(self._shares.values())).running:
            self._shares.popitem(last=False)
        _share.set(share)
        return share

    def used(self, share: Share, seconds: float) -> None:
        """It has used so much of the processor, or is here."""
        if share.counts:
            self._lately.used(share.name, seconds, self._clock())

    def most_of(self, share: Share) -> int:
        """How many threads it may hold now: few where it has had much more than another one that is here."""
        return AHEAD_SHARE if self._lately.is_ahead(share.name, self._clock()) else SHARE


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
            share.count(took_s)


class ThreadedRoute(APIRoute):
    """A route whose function, where it blocks, holds a thread of its tenant's share."""

    def __init__(self, path: str, endpoint: Callable[..., object], **more: object) -> None:
        super().__init__(path, endpoint if iscoroutinefunction(endpoint) else _threaded(endpoint), **more)  # type: ignore[arg-type]


def _threaded(function: Callable[Given, Found]) -> Callable[Given, Awaitable[Found]]:
    @wraps(function)
    async def run(*args: Given.args, **kwargs: Given.kwargs) -> Found:
        return await in_thread(function, *args, **kwargs)

    return run
