"""A database during a search: one thread reads records and payloads in the order of their uses, ahead of them."""

from __future__ import annotations

import mmap
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.base.system.files import os_errors
from penstock.program.database.similarity.scheme import COLUMNS
from penstock.runtime.scanning.stream import opened
from penstock.runtime.similarity.files import PAYLOADS, RECORDS, DatabaseDamaged, DatabaseIndex, block_bytes, checked
from penstock.runtime.similarity.memory import SearchPlan

Item = TypeVar("Item")
Place = TypeVar("Place")
Group = list[tuple[npt.NDArray[np.uint64], bytes]]
"""Blocks of records: words, and the seed of the other half."""
_PAGE_BYTES = 4096


class ReadAhead(Generic[Place, Item]):
    """Items of a known order, `ahead` of them read before they are taken; 0: when they are taken."""

    def __init__(
        self, pool: ThreadPoolExecutor, read: Callable[[Place], Item], order: Sequence[Place], ahead: int
    ) -> None:
        self._pool, self._read, self._order, self._ahead = pool, read, order, ahead
        self._pending: deque[Future[Item]] = deque()
        self._taken = self._begun = 0
        self._fill()

    def _fill(self) -> None:
        while self._begun < min(self._taken + self._ahead, len(self._order)):
            self._pending.append(self._pool.submit(self._read, self._order[self._begun]))
            self._begun += 1

    @property
    def next(self) -> Place | None:
        """The place of the next item."""
        return self._order[self._taken] if self._taken < len(self._order) else None

    def wait(self) -> None:
        """Until the items that are being read are there."""
        for read in self._pending:
            read.exception()

    def take(self) -> Item:
        """The next item. Raises: what `read` raises."""
        if self._pending:
            group = self._pending.popleft().result()
        else:
            group = self._read(self._order[self._taken])
            self._begun += 1
        self._taken += 1
        self._fill()
        return group


class DatabaseReader(AbstractContextManager["DatabaseReader"]):
    """The records, then the payloads of one search. A context manager.

    Args:   direct: read records past the page cache where the file system can: they are read once, and what lies in the
            cache stays there.
    """

    def __init__(self, folder: Path, described: DatabaseIndex, plan: SearchPlan, *, direct: bool) -> None:
        self.folder, self.described, self.plan = folder, described, plan
        self.read_bytes = 0
        self.direct = direct
        """Whether the page cache was passed by."""
        self._files: dict[str, int] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="penstock-database")
        self._size = block_bytes(described.layout)
        numbers = range(described.layout.blocks)
        self._groups = [numbers[at : at + plan.group] for at in range(0, len(numbers), plan.group)]
        self._buffers: list[npt.NDArray[np.uint64]] = []
        self._records: ReadAhead[int, Group] | None = None
        self._payloads: ReadAhead[tuple[int, int, int], bytes] | None = None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=True)
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()
        self._buffers.clear()

    # Records.
    def begin(self) -> None:
        """Read the first groups of records."""
        path = self.folder / RECORDS
        with os_errors(path, "read"):
            self._files[RECORDS], self.direct = opened(path, direct=self.direct and self._size % _PAGE_BYTES == 0)
        count = min(self.plan.buffers, len(self._groups))
        words = self._size // 8 * len(self._groups[0])
        # Mappings go back to the system as a whole, and lie on pages, as reads past the page cache ask for.
        self._buffers = [np.frombuffer(mmap.mmap(-1, 8 * words), dtype=np.uint64) for _ in range(count)]
        self._records = ReadAhead(self._pool, self._read_group, range(len(self._groups)), self.plan.buffers - 1)
        self._records.wait()

    def groups(self) -> Iterator[Group]:
        """The groups of records; each lies in its buffer until the next one is asked for."""
        if self._records is None:
            self.begin()
        assert self._records is not None
        for _ in self._groups:
            yield self._records.take()

    def end_records(self) -> None:
        """The buffers go."""
        self._records = None
        self._buffers.clear()

    def _read_group(self, group: int) -> Group:
        buffer, made = self._buffers[group % len(self._buffers)], []
        for index, number in enumerate(self._groups[group]):
            words = buffer[index * self._size // 8 : (index + 1) * self._size // 8]
            path = self.folder / RECORDS
            with os_errors(path, "read"):
                count = os.preadv(self._files[RECORDS], [words.view(np.uint8).data], number * self._size)
            if count != self._size:
                raise DatabaseDamaged(f"{path}: block {number} ends {self._size - count} bytes early: make it again")
            self.read_bytes += count
            block = self.described.blocks[number]
            made.append((checked(words, block, number, self.folder), block.seed))
        return made

    # Payloads.
    def template(self) -> bytes:
        """The ciphertext of zeros, by which results are written."""
        return self._content(0, self.described.template_bytes)

    def payload(self, variant: int, score: int, column: int) -> bytes:
        """A ciphertext of payloads."""
        place = (variant, score, column)
        if self._payloads is None:
            self._payloads = ReadAhead(
                self._pool, self._read_payload, self.plan.payload_order, self.plan.payloads_ahead
            )
        if self._payloads.next == place:
            return self._payloads.take()
        return self._pool.submit(self._read_payload, place).result()

    def _read_payload(self, place: tuple[int, int, int]) -> bytes:
        described, (variant, score, column) = self.described, place
        number = (variant * described.layout.scores + score) * COLUMNS + column
        return self._content(described.template_bytes + number * described.payload_bytes, described.payload_bytes)

    def _content(self, at: int, size: int) -> bytes:
        path = self.folder / PAYLOADS
        with os_errors(path, "read"):
            if PAYLOADS not in self._files:
                self._files[PAYLOADS] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            content = os.pread(self._files[PAYLOADS], size, at)
        if len(content) != size:
            raise DatabaseDamaged(f"{path} ends early: make the database again")
        self.read_bytes += size
        return content
