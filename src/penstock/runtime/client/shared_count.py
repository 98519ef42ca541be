"""The count of results of a key pair that others have learned, and the sum of their leaks: kept with the pair.

Each flooded result has a Kullback-Leibler divergence from the exact value, flooded, and the divergences of one pair add
up (`penstock.program.evaluator.flooding`). The count is on the disk before a result is decrypted.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from penstock.base.system.files import os_errors, write_atomic
from penstock.errors import KeyPairDamaged, KeyPairRefused, UsageError
from penstock.program.evaluator.flooding import divergence

FILE = "shared.json"
"""In the pair's folder."""
MOST_REFUSED = 2
"""Results of a pair that may be refused for their values: over 1000 results their places and they tell 19 bits."""
_REMEDY = (
    "the results that others know are not counted any more. Put the file back from a copy as new as the last shared "
    "result. Or make a new pair, and share its results"
)


class SharedCount:
    """The shared results of one pair.

    Args:   tag: the pair's. path: the file; `None`: of a pair that is in memory alone. foreign: the folder of another
            library's pair, where no count is kept, until the pair is saved.
    """

    def __init__(self, tag: str, path: Path | None = None, *, foreign: Path | None = None) -> None:
        self._tag, self._foreign = tag, foreign
        self.path = path
        self._known, self._lock, self._process = _Count(), threading.Lock(), os.getpid()

    @property
    def path(self) -> Path | None:
        """The file."""
        return self._path

    @path.setter
    def path(self, path: Path | None) -> None:
        self._path = None if path is None else path.absolute()

    @property
    def results(self) -> int:
        """Results that were counted, refused ones too.

        Raises: KeyPairDamaged: the file is lost or damaged. FileError.
        """
        return self._read().results

    @property
    def advantage_bits(self) -> float:
        """-log2 of the bound on anybody's advantage in telling these results from exact values with noise; `inf`:
        none was shared. By Pinsker's inequality. Raises: as `results`."""
        total = self._read().divergence
        return math.inf if total == 0.0 else -math.log2(math.sqrt(total / 2))

    @contextmanager
    def sharing(self, queries: int, statistical_bits: int) -> Iterator[None]:
        """Count one result, whose noise is enough for so many, before it is decrypted in the block.

        An error in the block is a refusal, which tells whoever sees it a bit that no noise hides: a pair has
        `MOST_REFUSED` of them. It is on the disk before the block begins, and taken back at its good end.

        Raises: KeyPairRefused: with it the results would tell more than the asked bits allow; too many were refused; a
                child of the process that has the pair in memory. KeyPairDamaged: its file is lost or damaged.
                UsageError: numbers that are not whole, or outside of their range.
        """
        for what, number, most in (("queries", queries, 2**63), ("statistical_bits", statistical_bits, 128)):
            if type(number) is not int or not 1 <= number <= most:
                raise UsageError(f"{what}={number!r}: give a whole number from 1 to {most}")
        if self.path is None and self._foreign is not None:
            raise KeyPairRefused(
                f"{self._foreign}: OpenFHE's folder of a pair has no place for the count of shared results: take the "
                "pair over with 'penstock client from-openfhe' first, or keep the result with the owner"
            )
        with self._locked():
            before = self._read()
            total = before.divergence + divergence(queries, statistical_bits)
            if before.refused >= MOST_REFUSED:
                raise KeyPairRefused(
                    f"pair {self._tag} has refused {before.refused} results that were not those of their programs, and "
                    "each refusal tells something of the key: nothing more is shared. Make a new pair, and look who "
                    "evaluated"
                )
            if not total <= divergence(1, statistical_bits) * (1 + 1e-9):
                raise KeyPairRefused(
                    f"pair {self._tag} has counted {before.results} results for others, and noise for {queries} with "
                    f"{statistical_bits} statistical bits does not hide the key in one more: make a new pair"
                )
            self._write(_Count(before.results + 1, total, before.refused + 1))
            yield
            self._write(_Count(before.results + 1, total, before.refused))

    def copy(self, path: Path) -> None:
        """Write the count into a new file; what this process knows of it, if the old folder is gone.

        Raises: as `results`; FileError.
        """
        is_gone = self.path is not None and not self.path.parent.exists()
        count = self._known if is_gone else self._read()
        SharedCount(self._tag, path)._write(count)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self.path is None:
            if os.getpid() != self._process:
                raise KeyPairRefused(
                    f"pair {self._tag} is in the memory of process {self._process} alone, which would not count what a "
                    "child shares: save the pair first, or share there"
                )
            with self._lock:
                yield
            return
        with os_errors(self.path):
            lock = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os_errors(self.path):
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _read(self) -> _Count:
        if self.path is None:
            return self._known
        try:
            with os_errors(self.path, "read"):
                record = json.loads(self.path.read_bytes()) if self.path.exists() else None
            if record is None:
                raise KeyPairDamaged(f"{self.path} is missing: {_REMEDY}")
            count = _Count(int(record["results"]), float.fromhex(record["divergence"]), int(record["refused"]))
            tag = str(record["pair"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise KeyPairDamaged(f"{self.path}: it is damaged ({error}): {_REMEDY}") from error
        if tag != self._tag or record.get("check") != count.check(tag) or not math.isfinite(count.divergence):
            raise KeyPairDamaged(f"{self.path}: it is another pair's, or damaged: {_REMEDY}")
        self._known = count
        return count

    def _write(self, count: _Count) -> None:
        self._known = count
        if self.path is None:
            return
        content = {
            "pair": self._tag,
            "results": count.results,
            "divergence": count.divergence.hex(),
            "refused": count.refused,
            "check": count.check(self._tag),
        }
        write_atomic(self.path, json.dumps(content).encode() + b"\n", force=True, mode=0o600)


class _Count(NamedTuple):
    results: int = 0
    divergence: float = 0.0
    refused: int = 0

    def check(self, tag: str) -> str:
        """Of a whole file."""
        text = f"{tag} {self.results} {self.divergence.hex()} {self.refused}"
        return hashlib.sha256(text.encode()).hexdigest()
