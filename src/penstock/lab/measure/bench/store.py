"""Contexts and keys on disk: made once for each parameter set, checked by checksum, used again and again.

A set's folder holds `manifest.json` (its objects, their sizes and SHA-256) and one file an object in OpenFHE's
serialization. A file that is missing, or whose checksum differs, is made again; where a key pair is damaged everything
that hangs on it is. The folder holds the secret key of its benchmark: it protects nothing, and must not be used for
anything else.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from penstock.base.system.files import file_sha256, os_errors, remove_leftovers, write_atomic
from penstock.base.system.host import installed_version
from penstock.base.system.outside import content_of, json_of
from penstock.base.types import Row
from penstock.errors import PenstockError
from penstock.lab.fit.measurements import OPENFHE
from penstock.lab.measure.bench.spec import bootstrap_plan, params_identity
from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.protocol import Values
from penstock.program.evaluator.scaling import ScaleState
from penstock.program.openfhe.evaluator import OpenFheContext, OpenFheEvaluator, load_openfhe
from penstock.program.openfhe.paging import check_folder
from penstock.program.openfhe.turn import TURN, Held
from penstock.scheme.params.ckks import CkksParameters

MANIFEST = "manifest.json"
_BASE = ("context", "public", "secret")
Reader = Callable[[object], Values]
MAX_BOOTSTRAP_BYTES = 1 << 30
"""Keys of bootstrapping are stored up to this size; larger sets are made again, which is faster than to read them."""
ROTATION_STEP = 1


def default_store() -> Path:
    """`$XDG_CACHE_HOME/penstock/bench`, or below `~/.cache`."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "penstock" / "bench"


class BenchSet(ABC):
    """One parameter set's context, keys and inputs, as a context manager.

    Args:   warn: told of damaged files that were made again.
    """

    reading: str

    def __init__(
        self, root: Path, params: CkksParameters, *, warn: Callable[[str, str], None] = lambda what, remedy: None
    ) -> None:
        check_folder(root)
        self.params = params
        self.setup_s = 0.0
        """Seconds spent on making and loading, so far."""
        self._warn = warn
        self.folder = set_folder(root, params, self.reading)

    @abstractmethod
    def evaluator(self, threads: int, *, bootstraps: bool = False) -> Any:
        """An evaluator of the reading, with the keys for relinearization, for a rotation by `ROTATION_STEP`, and for
        bootstrapping where it `bootstraps`."""

    @abstractmethod
    def encoding(self, values: Values, limbs: int, threads: int) -> tuple[Callable[[], object], Reader | None]:
        """The call that encodes a vector as programs do, and what reads its result, if anything does."""

    @abstractmethod
    def cipher(self, ev: Any, name: str, limbs: int) -> Cipher:
        """The encryption of `values(name)` with `limbs` limbs left, for this evaluator."""

    def values(self, name: str) -> Values:
        """(slots,) the vector that the inputs named `name` hold, in [-1, 1]."""
        generator = np.random.default_rng([ord(c) for c in name])
        return generator.uniform(-1.0, 1.0, self.params.slots)

    def _make_folder(self) -> None:
        with os_errors(self.folder, "create"):
            self.folder.mkdir(parents=True, exist_ok=True)
            # It holds a secret key.
            self.folder.chmod(0o700)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        start, inner = time.perf_counter(), self.setup_s
        try:
            yield
        finally:
            # The time of a nested block belongs to it alone.
            self.setup_s = inner + time.perf_counter() - start

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time makes files in a set's folder."""
        descriptor = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


class StoredSet(BenchSet):
    """A set with OpenFHE: leaving it frees OpenFHE's registry."""

    reading = OPENFHE

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._fhe: ModuleType = load_openfhe()
        self._manifest: Row = {}
        self._inputs: dict[tuple[int, str], object] = {}
        self._checked: set[str] = set()
        """Files whose checksum was right, or which were made, in the life of this object."""
        self._registered: set[str] = set()
        self._holds = False
        self._turn: Held | None = None
        self.context: Any = None
        self.public_key: Any = None
        self.secret_key: Any = None

    def __enter__(self) -> StoredSet:
        with TURN.kept() as self._turn:
            return self._entered()

    def _entered(self) -> StoredSet:
        with self._timed():
            self._make_folder()
        with self._timed(), self._locked():
            remove_leftovers(self.folder)
            self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self._inputs.clear()
        if self.context is not None:
            OpenFheContext(self.params, self.context, None, None).release()
        self.context = self.public_key = self.secret_key = None
        self._checked.clear()
        self._registered.clear()
        if self._turn is not None:
            self._turn.give()

    # What is stored.

    def evaluator(self, threads: int, *, bootstraps: bool = False) -> OpenFheEvaluator:
        """It uses the registered keys."""
        return OpenFheEvaluator(OpenFheContext(self.params, self.context, self.public_key, self.secret_key))

    def cipher(self, ev: OpenFheEvaluator, name: str, limbs: int) -> Cipher:
        state = ScaleState.encrypted(self.params, limbs)
        return Cipher(ev.builder.ciphertext(limbs), state, value=self.ciphertext(name, limbs))

    def encoding(self, values: Values, limbs: int, threads: int) -> tuple[Callable[[], object], Reader | None]:
        # From an array to a plaintext: the list is a part of the call.
        return lambda: self.encode(values, limbs), self.decrypted

    def decrypted(self, result: object) -> Values:
        """(slots,) the contents of a ciphertext or a plaintext."""
        plain: Any = result if hasattr(result, "SetLength") else self.context.Decrypt(result, self.secret_key)
        plain.SetLength(self.params.slots)
        return np.asarray(plain.GetCKKSPackedValue(), dtype=np.complex128)

    def encode(self, values: Values, limbs: int) -> object:
        """A plaintext for ciphertexts with `limbs` limbs."""
        level = self.params.num_q - limbs
        return self.context.MakeCKKSPackedPlaintext(values.tolist(), 1, level, None, self.params.slots)

    def ciphertext(self, name: str, limbs: int) -> object:
        """The encryption of `values(name)` with `limbs` limbs left, the same values every time.

        Encrypted anew in each process. OpenFHE gives a deserialized ciphertext a separate description of the modulus
        chain. An addition then compares the two descriptions prime by prime, which takes ten times as long as the
        addition (N = 2^11, 7 limbs: 430 us, not 33). Keys that were read are not affected.
        """
        if (limbs, name) not in self._inputs:
            # Those of one number of limbs are kept: a long chain's would add up.
            self._inputs = {key: value for key, value in self._inputs.items() if key[0] == limbs}
            with self._timed():
                self._inputs[limbs, name] = self.context.Encrypt(self.public_key, self.encode(self.values(name), limbs))
        return self._inputs[limbs, name]

    def relinearization_key(self) -> None:
        """Have the key registered."""
        if "relin" in self._registered:
            return

        def make(path: Path) -> None:
            self._fhe.ClearEvalMultKeys()
            self.context.EvalMultKeyGen(self.secret_key)
            if not self.context.SerializeEvalMultKey(str(path), self._fhe.BINARY, ""):
                raise self._cannot_write(path)
            self._fhe.ClearEvalMultKeys()

        with self._timed(), self._locked():
            self._ensure("relin", make)
            if not self.context.DeserializeEvalMultKey(str(self.path("relin")), self._fhe.BINARY):
                raise self._cannot_read("relin")
        self._registered.add("relin")

    def rotation_key_path(self) -> Path:
        """The file of the key of a rotation by `ROTATION_STEP`."""
        index = self.context.FindAutomorphismIndex(ROTATION_STEP)

        def make(path: Path) -> None:
            # A key that is registered already would come back empty, and the map made here is the registry itself.
            self._fhe.CryptoContext.ClearEvalAutomorphismKeys()
            self._registered -= {"rotation", "bootstrap"}
            self._write(path, self.context.EvalAutomorphismKeyGen(self.secret_key, [index]))
            self._fhe.CryptoContext.ClearEvalAutomorphismKeys()

        with self._timed(), self._locked():
            self._ensure(f"rotation-{index}", make)
        return self.path(f"rotation-{index}")

    def load_rotation_key(self, path: Path) -> object:
        """The key map read from the file that `rotation_key_path` gave: what `key_load` times, and nothing more."""
        return self._read(self._fhe.DeserializeEvalKeyMap, path.stem)

    def rotation_key(self) -> None:
        """Have the key registered."""
        if "rotation" not in self._registered:
            path = self.rotation_key_path()
            with self._timed():
                self.context.InsertEvalAutomorphismKey(self.load_rotation_key(path), "")
            self._registered.add("rotation")

    def bootstrapping(self) -> None:
        """Have everything ready that EvalBootstrap needs."""
        if "bootstrap" in self._registered:
            return
        plan, params = bootstrap_plan(self.params), self.params
        self.relinearization_key()
        with self._timed(), self._locked():
            self._fhe.CryptoContext.ClearEvalAutomorphismKeys()
            self._registered.discard("rotation")
            self.context.EvalBootstrapSetup([plan.cts_stages, plan.stc_stages], [0, 0], params.slots)

            def make(path: Path) -> None:
                self.context.EvalBootstrapKeyGen(self.secret_key, params.slots)
                if not self.context.SerializeEvalAutomorphismKey(str(path), self._fhe.BINARY, ""):
                    raise self._cannot_write(path)
                self._fhe.CryptoContext.ClearEvalAutomorphismKeys()

            from penstock.lab.measure.bench.estimate import bootstrap_key_count

            if bootstrap_key_count(params) * params.key_bytes() > MAX_BOOTSTRAP_BYTES:
                self.context.EvalBootstrapKeyGen(self.secret_key, params.slots)
            else:
                self._ensure("bootstrap", make)
                if not self.context.DeserializeEvalAutomorphismKey(str(self.path("bootstrap")), self._fhe.BINARY):
                    raise self._cannot_read("bootstrap")
        self._registered.add("bootstrap")

    def path(self, name: str) -> Path:
        """The file of an object."""
        return self.folder / f"{name}.bin"

    # Inside.

    def _open(self) -> None:
        manifest = self._read_manifest()
        damaged = [name for name in _BASE if self._damage(manifest, name)] if manifest else []
        if manifest and not damaged:
            self._manifest = manifest
        else:
            if damaged:
                self._report(f"{', '.join(damaged)} in {self.folder}", "it and everything that hangs on it")
            self._make_base()
        self.context = self._read(self._fhe.DeserializeCryptoContext, "context")
        self.public_key = self._read(self._fhe.DeserializePublicKey, "public")
        self.secret_key = self._read(self._fhe.DeserializePrivateKey, "secret")

    def _make_base(self) -> None:
        for file in self.folder.glob("*.bin"):
            file.unlink()
        # No checksum of an earlier key pair may outlive it.
        self._manifest = {"params": self.params.to_dict(), "openfhe": installed_version("openfhe"), "files": {}}
        self._save()
        made = OpenFheContext.create(self.params, relinearize=False)
        for name, value in zip(_BASE, (made.context, made.public_key, made.secret_key), strict=True):
            self._make(name, lambda path, value=value: self._write(path, value))  # type: ignore[misc]
        made.release()

    def _ensure(self, name: str, make: Callable[[Path], None]) -> None:
        """Have the file of `name` whole. Checked once in the life of this object."""
        if name in self._checked:
            return
        known = name in self._manifest["files"]
        if known and self._damage(self._manifest, name) is not None:
            self._report(str(self.path(name)), "it")
            known = False
        if not known:
            self._make(name, make)
        self._checked.add(name)

    def _make(self, name: str, make: Callable[[Path], None]) -> None:
        path = self.path(name)
        write_atomic(path, make, force=True)
        self._manifest["files"][name] = {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
        self._save()

    def _damage(self, manifest: Row, name: str) -> str | None:
        """The fault of a file, or `None`."""
        entry, path = manifest["files"].get(name), self.path(name)
        if entry is None or not path.is_file():
            return "missing"
        if path.stat().st_size != entry["bytes"]:
            return "size"
        return None if file_sha256(path) == entry["sha256"] else "checksum"

    def _report(self, what: str, again: str) -> None:
        self._warn(f"stored {what} was damaged or missing; {again} was made again", "check the disk if this comes back")

    def _read_manifest(self) -> Row | None:
        path = self.folder / MANIFEST
        if not path.is_file():
            return None
        try:
            manifest = json_of(content_of(path))
            if not isinstance(manifest["files"], dict):
                raise TypeError
        except (ValueError, KeyError, TypeError):
            self._report(f"manifest of {self.folder}", "the whole set")
            return None
        return manifest if isinstance(manifest, dict) else None

    def _save(self) -> None:
        write_atomic(self.folder / MANIFEST, (json.dumps(self._manifest, indent=1) + "\n").encode(), force=True)

    def _write(self, path: Path, value: object) -> None:
        path.touch(mode=0o600)
        if not self._fhe.SerializeToFile(str(path), value, self._fhe.BINARY):
            raise self._cannot_write(path)

    def _read(self, reader: Callable[[str, object], tuple[object, bool]], name: str) -> object:
        try:
            value, read = reader(str(self.path(name)), self._fhe.BINARY)
        except RuntimeError as error:
            raise self._cannot_read(name) from error
        if not read:
            raise self._cannot_read(name)
        return value

    def _cannot_write(self, path: Path) -> PenstockError:
        return PenstockError(f"{path} cannot be written: is the disk full? Name another folder with --store")

    def _cannot_read(self, name: str) -> PenstockError:
        return PenstockError(
            f"{self.path(name)} has the right checksum but OpenFHE cannot read it; delete {self.folder} and run again"
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._holds:
            yield
            return
        with self._alone():
            self._holds = True
            try:
                self._reload()
                yield
            finally:
                self._holds = False

    def _reload(self) -> None:
        """Take over what another process made since; a new key pair would make ours useless."""
        if not self._manifest:
            return
        manifest = self._read_manifest()
        if manifest is None or any(manifest["files"].get(n) != self._manifest["files"].get(n) for n in _BASE):
            raise PenstockError(f"{self.folder} was made anew by another process; run the same command again")
        self._manifest = manifest


def set_folder(root: Path, params: CkksParameters, reading: str) -> Path:
    """The folder of a set's context and keys."""
    made_by = installed_version("openfhe") if reading == OPENFHE else reading
    text = json.dumps([params_identity(params), made_by], sort_keys=True)
    return root / f"{params.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def is_stored(root: Path, params: CkksParameters, reading: str) -> bool:
    """Whether a set has been opened before: its context and most of its keys are read then, not made."""
    return set_folder(root, params, reading).is_dir()
