"""Chunks on the cores of this machine: a pool of processes, each program priced once and handed on in a file."""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from penstock.base.system.files import TEMPORARY_PREFIX, remove_leftovers
from penstock.base.system.workers import Lost, Workers
from penstock.errors import PenstockError
from penstock.lab.sweeps.play import Played, Priced, play_chunk, price_program
from penstock.lab.sweeps.points import Chunk, Plan, SweptProgram

ATTEMPTS = 3
"""Times that a task is given to another worker after one was killed, without a chunk finished in between."""
OnPlayed: TypeAlias = Callable[[Played], None]
_Task: TypeAlias = "Chunk | int"
"""A chunk to play, or the number of a program to price."""


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

    Args:   scratch: a folder for priced programs on their way to the workers; they are deleted, and leftovers of a
            killed sweep have the name of a temporary file.
    Raises: PenstockError: workers are killed again and again (most often for lack of memory). Whatever `on_played`
            raises, and an interrupt, end the workers at once.
    """
    try:
        with Workers[_Task](workers) as pool:
            _play(plan, chunks, on_played, pool, scratch)
    finally:
        remove_leftovers(scratch)


def _play(plan: Plan, chunks: Sequence[Chunk], on_played: OnPlayed, pool: Workers[_Task], folder: Path) -> None:
    of_program: dict[int, list[Chunk]] = {}
    for chunk in chunks:
        of_program.setdefault(chunk.program, []).append(chunk)
    unpriced, ready = deque(of_program), deque[Chunk]()
    left = {program: len(mine) for program, mine in of_program.items()}

    def give_more() -> None:
        # Priced programs are played before more are priced.
        while pool.has_room and (ready or unpriced):
            if ready:
                chunk = ready.popleft()
                program = plan.programs[chunk.program].without_trace()
                pool.give(chunk, _play_from, _scratch(folder, chunk.program), program, chunk)
            else:
                index = unpriced.popleft()
                pool.give(index, _price_into, _scratch(folder, index), plan.programs[index])

    give_more()
    lost = 0
    while pool.is_busy:
        for task, result in pool.finished():
            if isinstance(result, Lost):
                lost += 1
                if lost > ATTEMPTS:
                    raise PenstockError(
                        f"worker processes were killed {lost} times without finishing a chunk, most often for lack of "
                        "memory; the finished chunks are kept: run the same command again with fewer --workers"
                    )
                if isinstance(task, Chunk):
                    ready.appendleft(task)
                else:
                    unpriced.appendleft(task)
            elif not isinstance(task, Chunk):
                ready.extend(of_program[task])
            give_more()  # workers do not wait for what is done with the result
            if isinstance(result, Played) and isinstance(task, Chunk):
                lost = 0
                on_played(result)
                left[task.program] -= 1
                if not left[task.program]:
                    _scratch(folder, task.program).unlink()


def _scratch(folder: Path, program: int) -> Path:
    return folder / f"{TEMPORARY_PREFIX}program-{program}"


def _price_into(path: Path, program: SweptProgram) -> None:
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_bytes(pickle.dumps(price_program(program), protocol=pickle.HIGHEST_PROTOCOL))
    temporary.replace(path)


@lru_cache(maxsize=2)
def _priced(path: Path, _program: str) -> Priced:
    priced: Priced = pickle.loads(path.read_bytes())
    return priced


def _play_from(path: Path, program: SweptProgram, chunk: Chunk) -> Played:
    return play_chunk(program, _priced(path, program.id), chunk)
