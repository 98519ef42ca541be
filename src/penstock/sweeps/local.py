"""Chunks on the cores of this machine: a pool of processes, each program priced once and handed on in a file."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from penstock.errors import PenstockError
from penstock.sweeps.play import Played, Priced, play_chunk, price_program
from penstock.sweeps.points import Chunk, Plan, Program
from penstock.system.files import TEMPORARY_PREFIX, remove_leftovers
from penstock.system.workers import end_with_parent, interrupts_held

ATTEMPTS = 3
"""Times that the pool is started again after a worker was killed, without a chunk finished in between."""
OnPlayed: TypeAlias = Callable[[Played], None]


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def play_here(plan: Plan, chunks: Sequence[Chunk], on_played: OnPlayed) -> None:
    """One chunk after another, in this process."""
    index, priced = -1, None
    for chunk in chunks:
        program = plan.programs[chunk.program]
        if priced is None or chunk.program != index:
            index, priced = chunk.program, price_program(program)
        on_played(play_chunk(program, priced, chunk))


def play_in_processes(plan: Plan, chunks: Sequence[Chunk], on_played: OnPlayed, *, workers: int, scratch: Path) -> None:
    """Chunks in so many processes; `on_played` is called in this one, as they finish.

    Args:   scratch: a folder for priced programs on their way to the workers; they are deleted, and what a killed
            sweep leaves has the name of a temporary file.
    Raises: PenstockError: workers are killed again and again (most often for memory). Whatever `on_played` raises, and
            an interrupt, end the workers at once.
    """
    waiting = {chunk.index: chunk for chunk in chunks}
    failures = 0
    try:
        while waiting:
            before = len(waiting)
            try:
                _play(plan, waiting, on_played, workers, scratch)
            except BrokenProcessPool as error:
                failures = failures + 1 if len(waiting) == before else 1
                if failures > ATTEMPTS:
                    raise PenstockError(
                        f"worker processes were killed {failures} times without finishing a chunk, most often for lack "
                        "of memory; the finished chunks are kept: run the same command again with fewer --workers"
                    ) from error
    finally:
        remove_leftovers(scratch)


def _play(plan: Plan, waiting: dict[int, Chunk], on_played: OnPlayed, workers: int, folder: Path) -> None:
    of_program: dict[int, list[Chunk]] = {}
    for chunk in waiting.values():
        of_program.setdefault(chunk.program, []).append(chunk)
    unpriced, ready = deque(of_program), deque[Chunk]()
    under_way: dict[Future[Any], int | None] = {}
    """The program that a future prices; `None` for one that plays a chunk."""
    left = {program: len(mine) for program, mine in of_program.items()}
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=end_with_parent)
    try:
        while under_way or ready or unpriced:
            # One task a worker under way and one in its queue: what is priced is played before more is priced.
            while len(under_way) < 2 * workers and (ready or unpriced):
                with interrupts_held():  # a pool starts its processes as it gets work
                    if ready:
                        chunk = ready.popleft()
                        path, program = _scratch(folder, chunk.program), plan.programs[chunk.program]
                        under_way[pool.submit(_play_from, path, program.without_trace(), chunk)] = None
                    else:
                        index = unpriced.popleft()
                        under_way[pool.submit(_price_into, _scratch(folder, index), plan.programs[index])] = index
            done, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                priced = under_way.pop(future)
                result = future.result()
                if priced is not None:
                    ready.extend(of_program[priced])
                    continue
                on_played(result)
                index = waiting.pop(result.index).program
                left[index] -= 1
                if not left[index]:
                    _scratch(folder, index).unlink()
    finally:
        # Not asked to end: a worker that is killed while it waits for work leaves the queue locked, and where nothing
        # is left to do the pool would wait for the others for ever.
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()


def _scratch(folder: Path, program: int) -> Path:
    return folder / f"{TEMPORARY_PREFIX}program-{program}"


def _price_into(path: Path, program: Program) -> None:
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_bytes(pickle.dumps(price_program(program), protocol=pickle.HIGHEST_PROTOCOL))
    temporary.replace(path)


@lru_cache(maxsize=2)
def _priced(path: Path, _program: str) -> Priced:
    priced: Priced = pickle.loads(path.read_bytes())
    return priced


def _play_from(path: Path, program: Program, chunk: Chunk) -> Played:
    return play_chunk(program, _priced(path, program.id), chunk)
