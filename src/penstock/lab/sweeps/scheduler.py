"""Chunks on a Dask cluster: each a task that Dask plays again where a worker is lost.

A chunk is finished once its rows have arrived here and are stored; its task is let go of then, so that a worker that
dies later takes nothing with it that would be played again.
"""

from __future__ import annotations

import importlib
import logging
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeAlias

from penstock.base.version import __version__
from penstock.errors import CapabilityMissing, PenstockError, UsageError
from penstock.lab.sweeps.local import OnPlayed
from penstock.lab.sweeps.play import Played, play_chunk, price_program
from penstock.lab.sweeps.points import Chunk, Plan

Dask: TypeAlias = Any
"""A client, a future or an iterator of Dask, whose calls have no types."""
RETRIES = 3
"""Retries of a task after an error; Dask itself repeats the tasks of a lost worker."""
WAIT_S = 20
"""Seconds to wait for the scheduler, and for its first worker."""
AHEAD = 3
"""Chunks under way for each thread of the cluster: its workers never wait, and a lost one takes few with it."""
POLL_S = 0.01
REMEDY = "the finished chunks are kept: run the same command again to go on"


def load_distributed() -> ModuleType:
    """The package `distributed`.

    Raises: CapabilityMissing: it is not installed.
    """
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        raise CapabilityMissing(
            "sweeps on a Dask cluster need the package 'distributed' here and on every worker: "
            "pip install 'penstock[dask]'; without --scheduler a sweep uses all cores of this machine"
        ) from error


def check_address(address: str) -> None:
    """Whether this looks like the address of a scheduler.

    Raises: UsageError: it does not.
    """
    protocol, slashes, where = address.partition("://")
    if not slashes or protocol not in ("tcp", "tls", "ws", "wss", "ucx") or not where:
        raise UsageError(f"--scheduler '{address}': write the address that 'dask scheduler' prints: tcp://host:8786")


def play_on_cluster(plan: Plan, chunks: Sequence[Chunk], on_played: OnPlayed, *, address: str) -> None:
    """Chunks on the workers of a scheduler; `on_played` is called here, as they arrive.

    Raises: CapabilityMissing: no `distributed` here, or no penstock on the workers; UsageError: no address;
            PenstockError: no scheduler or no worker there, another version of penstock, workers that keep dying.
    """
    check_address(address)
    distributed = load_distributed()
    with _own_words():
        _play_with(distributed, plan, chunks, on_played, address)


def _play_with(distributed: ModuleType, plan: Plan, chunks: Sequence[Chunk], on_played: OnPlayed, address: str) -> None:
    try:
        client = distributed.Client(address, timeout=WAIT_S, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise PenstockError(
            f"--scheduler {address}: no scheduler answers there within {WAIT_S} s: start one with 'dask scheduler' "
            "and workers with 'dask worker ADDRESS --nthreads 1 --nworkers auto'"
        ) from error
    try:
        _check_workers(client, address)
        _play(distributed, client, plan, chunks, on_played)
    except (distributed.KilledWorker, distributed.client.FutureCancelledError, distributed.CancelledError) as error:
        raise PenstockError(f"--scheduler {address}: workers keep dying on a chunk ({error}); {REMEDY}") from error
    except (distributed.comm.CommClosedError, OSError, TimeoutError) as error:
        raise PenstockError(f"--scheduler {address}: the connection is lost ({error}); {REMEDY}") from error
    finally:
        client.close(timeout=WAIT_S)


@contextmanager
def _own_words() -> Iterator[None]:
    """Dask and its event loop log tracebacks of a connection that is lost, some of them when the process ends; the
    error says it in a line. After an error they stay silent.
    """
    tops = ("distributed", "tornado", "asyncio")
    # Dask gives some loggers below these their own level.
    below = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in tops]
    loggers = [logging.getLogger(name) for name in dict.fromkeys((*tops, *below))]
    before = [(logger.disabled, logger.level) for logger in loggers]
    for logger in loggers:
        logger.disabled = True
        logger.setLevel(logging.CRITICAL + 1)  # and for loggers below it that are made later
    yield
    for logger, (disabled, level) in zip(loggers, before, strict=True):
        logger.disabled = disabled
        logger.setLevel(level)


def _check_workers(client: Dask, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=WAIT_S)
    except TimeoutError as error:
        raise PenstockError(
            f"--scheduler {address}: it has no worker: start one with 'dask worker {address} --nthreads 1'"
        ) from error
    for worker, version in client.run(_version, on_error="return").items():
        if version is None or isinstance(version, Exception):
            raise CapabilityMissing(
                f"worker {worker} has no penstock ({version}): install the same penstock there as here ({__version__})"
            )
        if version != __version__:
            raise PenstockError(
                f"worker {worker} has penstock {version}, this is {__version__}: install the same version on both"
            )


def _version() -> str:
    return __version__


def _play(distributed: ModuleType, client: Dask, plan: Plan, chunks: Sequence[Chunk], on_played: OnPlayed) -> None:
    run = uuid.uuid4().hex[:8]
    left: dict[int, int] = {}
    for chunk in chunks:
        left[chunk.program] = left.get(chunk.program, 0) + 1
    priced: dict[int, Dask] = {}
    waiting = deque(chunks)
    arriving = distributed.as_completed(loop=client.loop, with_results=True)
    while waiting or arriving.count():
        while waiting and arriving.count() < AHEAD * max(1, sum(client.nthreads().values())):
            chunk = waiting.popleft()
            program = plan.programs[chunk.program]
            if chunk.program not in priced:
                key = f"penstock-price-{run}-{chunk.program}"
                priced[chunk.program] = client.submit(price_program, program, key=key, retries=RETRIES)
            arriving.add(
                client.submit(
                    play_chunk,
                    program.without_trace(),
                    priced[chunk.program],
                    chunk,
                    key=f"penstock-chunk-{run}-{chunk.index}",
                    retries=RETRIES,
                )
            )
        _wait(client, arriving)
        arrived = arriving.next_batch()
        for future, _ in arrived:
            future.release()  # first of all: what has arrived is never played again
        for _, played in arrived:
            if not isinstance(played, Played):
                raise OSError(str(played))
            on_played(played)
            index = plan.chunks[played.index].program
            left[index] -= 1
            if not left[index]:
                priced.pop(index).release()


def _wait(client: Dask, arriving: Dask) -> None:
    """Until a chunk arrives.

    Raises: OSError: the scheduler, or the last worker, has been gone for too long.
    """
    seen = looked = time.monotonic()
    while not arriving.has_ready():
        time.sleep(POLL_S)
        now = time.monotonic()
        if now - looked < 1:
            continue
        looked = now
        if client.status == "running" and client.nthreads():
            seen = now
        elif now - seen > WAIT_S:
            raise OSError(f"no {'worker' if client.status == 'running' else 'scheduler'} for {WAIT_S} s")
