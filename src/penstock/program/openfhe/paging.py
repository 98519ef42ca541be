"""Rotation keys on disk: one file a key, loaded when it is used, the last used ones kept in memory.

OpenFHE keeps every automorphism key that it generates in one process-wide registry. Bootstrapping and hoisted rotations
read that registry, plain rotations take a map. So the keys of bootstrapping stay in one map and the registry points to
them only while a ciphertext is bootstrapped; for a hoisted rotation it points to the one key.
"""

from __future__ import annotations

import ctypes
import shutil
import time
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from penstock.base.units import format_bytes
from penstock.errors import PenstockError, UsageError
from penstock.program.openfhe.types import CryptoContext, Key


def check_folder(path: Path) -> None:
    """Before OpenFHE is given a file in a folder. Raises: UsageError: it could not open one there."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UsageError(f"{path}: OpenFHE opens names that are UTF-8, and this is none; name another folder") from None


class PagedKeys:
    """The rotation keys of one context. Not thread safe; the process has one OpenFHE registry.

    Args:   folder: empty, writable, with room for all keys; the caller removes it; budget_bytes: keys kept in memory.
            The key in use is kept even where it alone is larger.
    """

    def __init__(self, fhe: ModuleType, context: CryptoContext, folder: Path, budget_bytes: int) -> None:
        check_folder(folder)
        self._fhe = fhe
        self._cc = context
        self._folder = folder
        self._budget = budget_bytes
        self._files: dict[int, tuple[Path, int]] = {}
        self._resident: OrderedDict[int, Key] = OrderedDict()
        self._registered: Key = None
        self._bootstrap: Key = None
        self.num_loads = 0
        self.load_s = 0.0
        """Seconds spent on loading keys: not part of any operation."""

    @property
    def resident_bytes(self) -> int:
        """Serialized size of the keys in memory."""
        return sum(self._files[index][1] for index in self._resident)

    def generate(self, secret_key: Key, steps: Iterable[int]) -> None:
        """Make the keys of rotations by `steps`, one after the other, and write them.

        Raises: PenstockError: a file cannot be written, or the folder has no room for all of them.
        """
        self.register(None)
        indices = dict.fromkeys(self._cc.FindAutomorphismIndex(step) for step in steps)
        for index in indices:
            if index in self._files:
                continue
            keys = self._cc.EvalAutomorphismKeyGen(secret_key, [index])
            path = self._folder / f"rot-{index}.key"
            if not self._fhe.SerializeToFile(str(path), keys, self._fhe.BINARY):
                raise PenstockError(
                    f"{path} cannot be written: is the disk full? Set TMPDIR to a folder with more room"
                )
            self._files[index] = path, path.stat().st_size
            self._check_room(path.stat().st_size * sum(other not in self._files for other in indices))
            del keys
            # The map just written is the registered object, into which the next key would be merged.
            self._fhe.CryptoContext.ClearEvalAutomorphismKeys()
        _return_memory()

    def _check_room(self, needed_bytes: int) -> None:
        """The first key says how large the others will be: better to stop now than with a full disk."""
        free_bytes = shutil.disk_usage(self._folder).free
        if needed_bytes > free_bytes:
            raise PenstockError(
                f"{self._folder} has {format_bytes(free_bytes)} left and the rotation keys still to come take "
                f"{format_bytes(needed_bytes)}: set TMPDIR to a folder with more room"
            )

    def adopt_bootstrap(self, keys: Key) -> None:
        """Take the map of the keys that bootstrapping has registered."""
        self._bootstrap = self._registered = keys

    def get(self, index: int) -> Key:
        """The map that holds the key of automorphism `index`.

        Raises: PenstockError: no such key was made, or its file cannot be read.
        """
        if index in self._resident:
            self._resident.move_to_end(index)
            return self._resident[index]
        if index not in self._files:
            raise PenstockError(
                f"no key for automorphism {index}: the program rotates by a step that its trace has not"
            )
        path, size = self._files[index]
        started = time.perf_counter()
        evicted = False
        while self._resident and self.resident_bytes + size > self._budget:
            oldest, keys = self._resident.popitem(last=False)
            if keys is self._registered:
                self.register(None)
            del oldest, keys
            evicted = True
        if evicted:
            _return_memory()
        try:
            keys, read = self._fhe.DeserializeEvalKeyMap(str(path), self._fhe.BINARY)
        except RuntimeError:
            read = False
        if not read:
            raise PenstockError(f"{path} cannot be read: it was removed or damaged while the program ran; run it again")
        self._resident[index] = keys
        self.num_loads += 1
        self.load_s += time.perf_counter() - started
        return keys

    def register(self, keys: Key) -> None:
        """Point OpenFHE's registry to this map only (`None`: to nothing)."""
        if keys is not None and keys is self._registered:
            return
        self._fhe.CryptoContext.ClearEvalAutomorphismKeys()
        if keys is not None:
            self._fhe.CryptoContext.InsertEvalAutomorphismKey(keys, "")
        self._registered = keys

    def register_bootstrap(self) -> None:
        """Point OpenFHE's registry to the keys of bootstrapping."""
        self.register(self._bootstrap)

    def release(self) -> None:
        """Forget every key in memory and remove the files."""
        self._resident.clear()
        self._registered = self._bootstrap = None
        for path, _ in self._files.values():
            path.unlink(missing_ok=True)
        self._files.clear()


def _return_memory() -> None:
    """Freed keys go back to the system only when they are asked for."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)
