"""Threads for requests, which block on the database or the disk: each tenant may hold a share of them, and no more.

A request beyond the share waits without a thread, so that nobody keeps others from theirs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi.routing import APIRoute

SHARE = 8
"""Threads of one tenant at the same time, and of all strangers together."""
Given = ParamSpec("Given")
Found = TypeVar("Found")
_share: ContextVar[CapacityLimiter | None] = ContextVar("share", default=None)


class ThreadShares:
    """The share of each tenant. It belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._shares: WeakValueDictionary[str, CapacityLimiter] = WeakValueDictionary()
        """Kept by the requests that use them."""

    def enter(self, name: str) -> None:
        """The present request is of this tenant."""
        share = self._shares.get(name)
        if share is None:
            share = self._shares[name] = CapacityLimiter(SHARE)
        _share.set(share)


async def in_thread(function: Callable[Given, Found], *args: Given.args, **kwargs: Given.kwargs) -> Found:
    """What a function returns that blocks. It holds a thread of the share of its request's tenant."""
    share = _share.get()
    if share is None:
        return await run_sync(partial(function, *args, **kwargs))
    async with share:
        return await run_sync(partial(function, *args, **kwargs))


class ThreadedRoute(APIRoute):
    """A route whose function, where it blocks, holds a thread of its tenant's share."""

    def __init__(self, path: str, endpoint: Callable[..., object], **more: object) -> None:
        super().__init__(path, endpoint if iscoroutinefunction(endpoint) else _threaded(endpoint), **more)  # type: ignore[arg-type]


def _threaded(function: Callable[Given, Found]) -> Callable[Given, Awaitable[Found]]:
    @wraps(function)
    async def run(*args: Given.args, **kwargs: Given.kwargs) -> Found:
        return await in_thread(function, *args, **kwargs)

    return run
