"""The count of results of a key pair that others have learned, and the sum of their leaks: kept with the pair.

Each flooded result has a Kullback-Leibler divergence from the exact value, flooded, and the divergences of one pair add
up (`penstock.program.flooding`). The count is on the disk before a result is decrypted.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import KeyPairDamaged, KeyPairRefused
from penstock.program.flooding import divergence
from penstock.system.files import os_errors, write_atomic

FILE = "shared.json"
"""In the pair's folder."""
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
        self._tag, self.path, self._foreign = tag, path, foreign
        self._results, self._divergence = 0, 0.0

    @property
    def results(self) -> int:
        """Results that were given to others. Raises: KeyPairDamaged: the file is lost or damaged. FileError."""
        return self._read()[0]

    @property
    def advantage_bits(self) -> float:
        """-log2 of the bound on anybody's advantage in telling these results from exact values with noise; `inf`:
        none was shared. By Pinsker's inequality. Raises: as `results`."""
        total = self._read()[1]
        return math.inf if total == 0.0 else -math.log2(math.sqrt(total / 2))

    def add(self, queries: int, statistical_bits: int) -> None:
        """Count one result whose noise is enough for so many, before it is decrypted.

        Raises: KeyPairRefused: with it the results would tell more than the asked bits allow. KeyPairDamaged: the file
                is lost or damaged. FileError.
        """
        if self.path is None and self._foreign is not None:
            raise KeyPairRefused(
                f"{self._foreign}: OpenFHE's folder of a pair has no place for the count of shared results: take the "
                "pair over with 'penstock client from-openfhe' first, or keep the result with the owner"
            )
        with self._locked():
            results, total = self._read()
            total += divergence(queries, statistical_bits)
            if total > divergence(1, statistical_bits) * (1 + 1e-9):
                raise KeyPairRefused(
                    f"pair {self._tag} has given {results} results to others, and noise for {queries} with "
                    f"{statistical_bits} statistical bits does not hide the key in one more: make a new pair; or ask "
                    "for noise for more results (--queries), which makes each less precise"
                )
            self._write(results + 1, total)

    def copy(self, path: Path) -> None:
        """Write the count into a new file; what this process knows of it, if the old folder is gone.

        Raises: as `results`; FileError.
        """
        is_gone = self.path is not None and not self.path.parent.exists()
        results, total = (self._results, self._divergence) if is_gone else self._read()
        other = SharedCount(self._tag, path)
        other._write(results, total)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self.path is None:
            yield
            return
        with os_errors(self.path):
            lock = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
            finally:
                os.close(lock)

    def _read(self) -> tuple[int, float]:
        if self.path is None:
            return self._results, self._divergence
        try:
            with os_errors(self.path, "read"):
                found = json.loads(self.path.read_bytes()) if self.path.exists() else None
            if found is None:
                raise KeyPairDamaged(f"{self.path} is missing: {_REMEDY}")
            results, total, tag = int(found["results"]), float.fromhex(found["divergence"]), str(found["pair"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise KeyPairDamaged(f"{self.path}: it is damaged ({error}): {_REMEDY}") from error
        if tag != self._tag or found.get("check") != _check(tag, results, total):
            raise KeyPairDamaged(f"{self.path}: it is another pair's, or damaged: {_REMEDY}")
        self._results, self._divergence = results, total
        return results, total

    def _write(self, results: int, total: float) -> None:
        self._results, self._divergence = results, total
        if self.path is None:
            return
        content = {
            "pair": self._tag,
            "results": results,
            "divergence": total.hex(),
            "check": _check(self._tag, results, total),
        }
        write_atomic(self.path, json.dumps(content).encode() + b"\n", force=True, mode=0o600)


def _check(tag: str, results: int, total: float) -> str:
    return hashlib.sha256(f"{tag} {results} {total.hex()}".encode()).hexdigest()
