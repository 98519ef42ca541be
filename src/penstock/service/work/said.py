"""The front's end of a worker's socket, and the messages that a worker may send.

A hostile package may take a worker over: each message is bounded, and checked before anything is done.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple, replace
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from penstock.errors import PenstockError
from penstock.service.work.messages import JobFigures, plain
from penstock.service.work.record import MOST_WAITS, JobTimes, ReadRecord

SAID_WRONG = "its worker said what it may not"
MOST_BYTES = 16 << 20
"""Of one message: a worker names each key that it holds."""
_TURN_BYTES, _TURN_MESSAGES = 1 << 20, 64
"""That are taken of one worker before it is others' turn."""
MOST_UNREAD, STUCK_S = 64 << 20, 30.0
"""Bytes that a worker may leave unread, and seconds without reading any."""
_BURST, _PER_S, _BYTES_OF_ONE = 1000.0, 64.0, 1 << 18
"""Messages that no job bounds, at once and in each second. A long one counts as one for each so many bytes."""
_PIECE = 1 << 18
_MOST_NUMBER = 1 << 53
_LENGTH = struct.Struct("!i")
"""Before each message, as `multiprocessing.connection.Connection` has it."""


class SaidWrong(PenstockError):
    """A worker said what it may not. Its text holds nothing that the worker said."""


Measured = TypeVar("Measured", JobFigures, JobTimes)


def _bounded(said: Measured) -> Measured:
    numbers: list[float] = []
    for value in astuple(said):
        for wait in value if isinstance(value, list) else [[value, value]]:
            if len(wait) != 2 or len(numbers) > 4 * MOST_WAITS:
                raise ValueError("waits are pairs, and few")
            numbers += wait
    if not all(0 <= each <= _MOST_NUMBER for each in numbers):
        raise ValueError("a number is out of bounds")
    return said


Name = Annotated[str, Field(max_length=1024)]
"""Of a tenant, a job, a key or a figure."""
Count = Annotated[int, Field(ge=0, le=_MOST_NUMBER)]
Moment = Annotated[float, Field(ge=0, le=_MOST_NUMBER, allow_inf_nan=False)]
Residents = dict[Name, dict[Name, Count]]
Cache = dict[Name, Count | Residents]


def _is_cache(said: Cache) -> Cache:
    if "residents" not in said or any(isinstance(it, dict) != (name == "residents") for name, it in said.items()):
        raise ValueError("numbers and residents")
    return said


class Said(BaseModel):
    """Any message."""

    model_config = ConfigDict(extra="forbid", strict=True)

    job: Name | None = None
    """That it is about."""
    cache: Annotated[Cache, Field(max_length=32), AfterValidator(_is_cache)] | None = None
    reads: list[tuple[Name, Name, Count, Count, bool, Moment, Moment]] = Field(default=[], max_length=20_000)
    """As of `ReadRecord` without its worker."""

    def reads_within(self, worker: str, least_s: float, most_s: float) -> Iterator[ReadRecord]:
        """As far as they can be true of a worker that began then, now."""
        for tenant, key, size, expanded, ahead, began_s, ended_s in self.reads:
            ended_s = within(ended_s, least_s, most_s)
            yield ReadRecord(worker, tenant, key, size, expanded, ahead, within(began_s, least_s, ended_s), ended_s)


class ReadySaid(Said):
    """It is bounded, and hears."""

    kind: Literal["ready"]
    isolation: dict[Name, Name] = Field(max_length=32)


class FiguresSaid(Said):
    """Bytes in memory, and how far jobs are."""

    kind: Literal["figures"]
    progress: dict[Name, tuple[Count, Count]]
    kept: dict[Name, Count] = Field(max_length=32)


class ComputingSaid(Said):
    """A job's package is compiled."""

    kind: Literal["computing"]
    job: Name


class ProgramSaid(Said):
    """The keys of a package."""

    kind: Literal["program"]
    package: str
    needs: dict[Name, Count]
    compute_s: Moment


class DoneSaid(Said):
    """A job's outputs are in its folder."""

    kind: Literal["done"]
    job: Name
    figures: Annotated[JobFigures, AfterValidator(_bounded)]
    times: Annotated[JobTimes, AfterValidator(_bounded)]

    def figures_within(self, took_s: float, queue_s: float, threads: int) -> JobFigures:
        """As far as they can be true of a job that took so long by the front's clock."""
        key_wait_s = min(self.figures.key_wait_s, took_s * threads)
        compute_s = min(self.figures.compute_s, took_s)
        return replace(self.figures, queue_s=queue_s, key_wait_s=key_wait_s, compute_s=compute_s)

    def times_within(self, least_s: float, most_s: float) -> JobTimes:
        """As far as they can be true of a job that ran between these moments: one after another."""
        said = self.times
        begun_s = within(said.begun_s, least_s, most_s)
        run_s = within(said.run_s, begun_s, most_s)
        ran_s = within(said.ran_s, run_s, most_s)
        waits = [[within(at, run_s, ran_s) for at in wait] for wait in said.key_waits]
        ended_s = within(said.ended_s, ran_s, most_s)
        return replace(said, begun_s=begun_s, run_s=run_s, ran_s=ran_s, ended_s=ended_s, key_waits=waits)


class FailedSaid(Said):
    """A job has none."""

    kind: Literal["failed"]
    job: Name
    reason: str
    retry: bool


AnySaid = ReadySaid | FiguresSaid | ComputingSaid | ProgramSaid | DoneSaid | FailedSaid
_SAID: TypeAdapter[AnySaid] = TypeAdapter(Annotated[AnySaid, Field(discriminator="kind")])


def checked(content: bytes) -> AnySaid:
    """A message. Raises: SaidWrong."""
    try:
        return _SAID.validate_json(content)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]["type"]
        raise SaidWrong(f"a message is none: {first}") from None


def within(value: float, least: float, most: float) -> float:
    """A time that a worker states, as far as it can be true."""
    return min(max(value, least), most)


class WorkerLine:
    """Says and hears without waiting: a worker that reads nothing, or says half a message, holds nobody up.

    Not thread safe.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end, self._heard, self._unsent = end, bytearray(), bytearray()
        self._is_over = False
        self._sent_s = self._allowed_s = time.monotonic()
        self._allowed = _BURST

    def fileno(self) -> int:
        return self._end.fileno()

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    @property
    def is_stuck(self) -> bool:
        """Its worker does not read."""
        late = time.monotonic() - self._sent_s > STUCK_S
        return self.has_unsent and (late or len(self._unsent) > MOST_UNREAD)

    def tell(self, kind: str, **content: object) -> None:
        """Send a message, now or when its worker reads. A dead one is found out when it is heard."""
        if not self._unsent:
            self._sent_s = time.monotonic()
        body = json.dumps({"kind": kind, **content}, default=plain).encode()
        self._unsent += _LENGTH.pack(len(body)) + body
        self.flush()

    def flush(self) -> None:
        """Send what can be sent now."""
        try:
            while self._unsent:
                del self._unsent[: self._end.send(self._unsent[:_PIECE])]
                self._sent_s = time.monotonic()
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()

    def hear(self) -> list[bytes]:
        """The next messages, each whole. Raises: EOFError: no more will come. SaidWrong: one is too large."""
        taken = 0
        while not self._is_over and not self.has_whole and taken < _TURN_BYTES:
            try:
                piece = self._end.recv(_PIECE)
            except BlockingIOError:
                break
            except OSError:
                piece = b""
            taken, self._is_over = taken + len(piece), not piece
            self._heard += piece
        whole: list[bytes] = []
        while self.has_whole and len(whole) < _TURN_MESSAGES:
            ends = _LENGTH.size + self._next_length()
            whole.append(bytes(self._heard[_LENGTH.size : ends]))
            del self._heard[:ends]
        if self._is_over and not whole:
            raise EOFError
        return whole

    @property
    def is_due(self) -> bool:
        """Whether there is something to hear already."""
        with suppress(SaidWrong):
            return self.has_whole
        return True

    @property
    def has_whole(self) -> bool:
        """Whether a message is here. Raises: SaidWrong."""
        return len(self._heard) >= _LENGTH.size and len(self._heard) >= _LENGTH.size + self._next_length()

    def _next_length(self) -> int:
        length: int = _LENGTH.unpack_from(self._heard)[0]
        if not 0 <= length <= MOST_BYTES:
            raise SaidWrong(f"a message is longer than {MOST_BYTES} bytes")
        return length

    def allow(self, size: int) -> None:
        """A message of so many bytes came that no job bounds. Raises: SaidWrong: too many came."""
        now = time.monotonic()
        self._allowed = min(_BURST, self._allowed + _PER_S * (now - self._allowed_s)) - 1 - size / _BYTES_OF_ONE
        self._allowed_s = now
        if self._allowed < 0:
            raise SaidWrong("its messages are too many")

    def close(self) -> None:
        self._end.close()


def unknown(said: Said, tenants: Iterable[str]) -> bool:
    """Whether it tells of keys of other tenants."""
    residents = (said.cache or {}).get("residents", {})
    named = {*(residents if isinstance(residents, dict) else ()), *(read[0] for read in said.reads)}
    return not named <= set(tenants)


def due_lines(wake: int, lines: Mapping[str, WorkerLine], seconds: float) -> list[str]:
    """Workers that have said something, or can hear more; waits so long, or until `wake` has bytes."""
    with DefaultSelector() as selector:
        selector.register(wake, EVENT_READ, "")
        for name, line in lines.items():
            selector.register(line, EVENT_READ | (EVENT_WRITE if line.has_unsent else 0), name)
        held = [name for name, line in lines.items() if line.is_due]
        ready = selector.select(0 if held else seconds)
    if any(key.fd == wake for key, _ in ready):
        os.read(wake, 65536)
    return list({*held, *(key.data for key, _ in ready if key.fd != wake)})
