"""The store's rate of reading keys on this disk, and its cost for a program that computes meanwhile (measured)."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from types import TracebackType

import numpy as np

from penstock.errors import PenstockError
from penstock.runtime.keystore import KeyCache, KeySession, KeyStore, StoredKey, parameter_digest
from penstock.runtime.native.play import ReadRates
from penstock.scheme.params.ckks import CkksParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReads:
    """Loading whole keys one after the other, while nothing computes: rows are read past the page cache or expanded
    from a seed, and checked."""

    key_s: tuple[float, ...]
    """Seconds of each."""
    key_bytes: tuple[int, ...]
    """Bytes of its rows in memory."""
    cpu_s: float
    """Processor time of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The same program alone and next to a thread that reads keys without end, and the disk in both cases."""

    alone_s: float
    """Seconds of computing with all keys in memory."""
    beside_s: float
    """The same next to the reading thread."""
    alone_bytes_per_s: float
    """Of the disk while nothing computes."""
    beside_bytes_per_s: float
    """Of the reading thread."""

    @property
    def computing_share(self) -> float:
        """Speed of computing next to the reading thread, relative to its speed otherwise."""
        return min(1.0, self.alone_s / self.beside_s)

    @property
    def reading_share(self) -> float:
        """Rate of reading keys next to the program, relative to its rate otherwise."""
        return self.beside_bytes_per_s / self.alone_bytes_per_s


def timed_reads(store: KeyStore, tenant: str, params: CkksParameters, keys: Sequence[str]) -> KeyReads:
    """Read every key once."""
    session, known = _session(store, tenant, params), _known(store, tenant, params)
    ends, used = [time.perf_counter()], time.process_time()
    for key in keys:
        session.get(key, known[key].limbs).release()
        ends.append(time.perf_counter())
    spent_s = time.process_time() - used
    sizes = tuple(known[key].bytes_needed[-1] for key in keys)
    return KeyReads(key_s=tuple(np.diff(ends).tolist()), key_bytes=sizes, cpu_s=spent_s)


def bytes_per_s(around: Sequence[KeyReads]) -> float:
    """The rate of the median key of those read before and after a run: a disk sometimes stalls for longer than many
    keys take."""
    return median(
        size / seconds for reads in around for size, seconds in zip(reads.key_bytes, reads.key_s, strict=True)
    )


def cpu_s_per_byte(around: Sequence[KeyReads]) -> float:
    """Processor time of loading and checking."""
    return sum(reads.cpu_s for reads in around) / sum(sum(reads.key_bytes) for reads in around)


def rates_of(around: Sequence[KeyReads], beside: Beside) -> ReadRates:
    """The inputs of a simulation: the disk of these minutes, and the mutual slow-down of reading and computing."""
    return ReadRates(
        bytes_per_s=bytes_per_s(around),
        computing_share=beside.computing_share,
        reading_share=beside.reading_share,
    )


class ReaderBeside:
    """A context in which a thread reads keys, one after the other and without end, as the store reads ahead: whole keys
    past the page cache, every row checked."""

    def __init__(self, store: KeyStore, tenant: str, params: CkksParameters, keys: Sequence[str]) -> None:
        self._session, self._known, self._keys = _session(store, tenant, params), _known(store, tenant, params), keys
        self._thread = threading.Thread(target=self._run, name="penstock-beside")
        self._stop = threading.Event()
        self._error: PenstockError | None = None
        self._rates: list[float] = []

    @property
    def bytes_per_s(self) -> float:
        """The rate of the middle key so far.

        Raises: PenstockError: no key was read yet.
        """
        if not self._rates:
            raise PenstockError("no key was read while the program computed: take a longer program")
        return median(self._rates)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                for key in self._keys:
                    started, stored = time.perf_counter(), self._known[key]
                    self._session.get(key, stored.limbs).release()
                    self._rates.append(stored.bytes_needed[-1] / (time.perf_counter() - started))
                    if self._stop.is_set():
                        break
        except PenstockError as error:
            self._error = error

    def __enter__(self) -> ReaderBeside:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error


def _session(store: KeyStore, tenant: str, params: CkksParameters) -> KeySession:
    """Keys that are never found in memory, as long as more than two are asked for in turn."""
    cache = KeyCache(store, 2 * params.key_bytes(), policy="lru", prefetch_uses=0)
    return cache.session(tenant, parameter_digest(params))


def _known(store: KeyStore, tenant: str, params: CkksParameters) -> dict[str, StoredKey]:
    """The keys of the tenant's oldest pair, which a session without a tag reads."""
    known: dict[str, StoredKey] = {}
    for key in sorted(store.list_keys(tenant=tenant, digest=parameter_digest(params)), key=lambda key: key.name.pair):
        known.setdefault(key.name.key, key)
    return known
