"""A database read from front to back: large sequential reads, every entry checked, ahead of what computes on it.

Files are read past the page cache (`O_DIRECT`) if the file system allows it. A scan then runs at the disk's rate and
leaves the memory to others. A thread reads, checks and decodes during the computation: OpenFHE and the hash release the
interpreter's lock.
"""

from __future__ import annotations

import mmap
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.base.system.files import os_errors
from penstock.runtime.scanning.store import BLOCK_BYTES, Database, DatabaseError

READ_BYTES = 8 << 20
"""Of one read, or one entry where that is larger."""
T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class StreamTimes:
    """Busy seconds of each stage, and the bytes read."""

    read_s: float = 0.0
    checksum_s: float = 0.0
    decode_s: float = 0.0
    wait_s: float = 0.0
    """In which the computation waited for an entry."""
    read_bytes: int = 0
    direct: bool = True
    """Whether the page cache was passed by."""


class EntryStream(Generic[T]):
    """Entries in order, each as `decode(number, bytes)` returns it. Iterate once.

    Args:   decode: runs in the reading thread; prefetch: entries that may lie ready; 0 reads in the caller's thread;
            direct: read past the page cache where that is possible.
    Raises: (while iterating) DatabaseError: a damaged or truncated segment; what `decode` raises.
    """

    def __init__(
        self, database: Database, decode: Callable[[int, bytes], T], *, prefetch: int = 4, direct: bool = True
    ) -> None:
        self.times = StreamTimes(direct=direct)
        self._database, self._decode, self._prefetch = database, decode, prefetch

    def __iter__(self) -> Iterator[T]:
        with closing(self._entries()) as entries:
            if not self._prefetch:
                yield from (entry for (entry,) in entries)
                return
            pool = ThreadPoolExecutor(1, thread_name_prefix="penstock-database")
            try:
                # One more than lie ready: it is decoded, or waits for a place.
                coming = deque(pool.submit(next, entries, None) for _ in range(self._prefetch + 1))
                while True:
                    began = time.perf_counter()
                    entry = coming.popleft().result()
                    self.times.wait_s += time.perf_counter() - began
                    if entry is None:
                        return
                    coming.append(pool.submit(next, entries, None))
                    yield entry[0]
            finally:
                pool.shutdown(cancel_futures=True)

    def _entries(self) -> Generator[tuple[T], None, None]:
        layout = self._database.layout
        for segment in range(layout.num_segments):
            for number, content in zip(layout.entries(segment), self._checked(segment), strict=True):
                began = time.perf_counter()
                entry = self._decode(number, content)
                self.times.decode_s += time.perf_counter() - began
                yield (entry,)

    def _checked(self, segment: int) -> Iterator[bytes]:
        """The entries of a segment, each once it was checked."""
        database, layout, times = self._database, self._database.layout, self.times
        path = database.segment_path(segment)
        if not path.is_file():
            raise DatabaseError(f"{path}: it is missing: make the database again; nothing is answered from the rest")
        with os_errors(path, "read"):
            database.check_size(segment, path.stat().st_size)  # before memory is taken by the header's numbers
        per_read = max(1, READ_BYTES // layout.stride)
        count = len(layout.entries(segment))
        with (
            os_errors(path, "read"),
            closing(SequentialFile(path, max(layout.header_bytes, per_read * layout.stride), times)) as file,
        ):
            header = bytes(file.read(0, layout.header_bytes))
            written = database.entries_of(segment, header, file.size)
            for first in range(0, count, per_read):
                here = min(per_read, count - first)
                view = file.read(layout.header_bytes + first * layout.stride, here * layout.stride)
                if len(view) != here * layout.stride:
                    raise DatabaseError(f"{path}: it was cut short while it was read: make the database again")
                for i in range(here):
                    size, checksum = written[first + i]
                    begin, end = i * layout.stride, (i + 1) * layout.stride
                    entry = bytes(view[begin : begin + size])
                    began = time.perf_counter()
                    database.check_entry(segment, first + i, entry, bytes(view[begin + size : end]), checksum)
                    times.checksum_s += time.perf_counter() - began
                    yield entry
                view.release()


def opened(path: os.PathLike[str], *, direct: bool) -> tuple[int, bool]:
    """A file for reading, past the page cache where that is asked for and possible; and whether it is."""
    flags = os.O_RDONLY | os.O_CLOEXEC
    if direct:
        with suppress(OSError):  # a file system in memory, say
            return os.open(path, flags | os.O_DIRECT), True
    return os.open(path, flags), False


class SequentialFile:
    """One file and one aligned buffer, as `O_DIRECT` asks for."""

    def __init__(self, path: os.PathLike[str], buffer_bytes: int, times: StreamTimes) -> None:
        self._times = times
        self._descriptor, times.direct = opened(path, direct=times.direct)
        if not times.direct:
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        self.size = os.fstat(self._descriptor).st_size
        self._buffer = mmap.mmap(-1, -(-buffer_bytes // BLOCK_BYTES) * BLOCK_BYTES)
        self._view = memoryview(self._buffer)

    def read(self, offset: int, length: int) -> memoryview:
        """Bytes from `offset` on, in the buffer until the next read; fewer at the end of the file."""
        began = time.perf_counter()
        done = 0
        while done < length:
            got = os.preadv(self._descriptor, [self._view[done:length]], offset + done)
            if got <= 0:
                break
            done += got
        self._times.read_s += time.perf_counter() - began
        self._times.read_bytes += done
        return self._view[:done]

    def close(self) -> None:
        os.close(self._descriptor)
        # The buffer goes with the last view of it.


def verify_segment(database: Database, segment: int) -> int:
    """Check every entry of a segment; returns its entries.

    Raises: DatabaseError: it is missing, truncated or damaged.
    """
    stream = EntryStream(database, lambda number, entry: None, prefetch=0)
    return sum(1 for _ in stream._checked(segment))
