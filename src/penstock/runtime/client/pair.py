"""A key pair of penstock's client, and everything that it does."""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import numpy.typing as npt

from penstock.base.system.files import FileError, os_errors, place_whole, remove_dead, unfinished_folder
from penstock.base.system.temporary import temporary_folder
from penstock.errors import KeyPairDamaged, KeyPairRefused, PenstockError, UsageError
from penstock.program.evaluator.flooding import QUERIES, STATISTICAL_BITS
from penstock.program.evaluator.protocol import Values, padded
from penstock.runtime.client.engine import client_errors, encodable, make_ring
from penstock.runtime.client.shared_count import FILE as SHARED_FILE
from penstock.runtime.client.shared_count import SharedCount
from penstock.runtime.keystore import KeyStore, parameter_digest
from penstock.runtime.keystore.pairs import PAIRS
from penstock.scheme.params.ckks import CkksParameters

if TYPE_CHECKING:
    from penstock_client import EvaluationKey, PublicKey, Ring, SecretKey

    from penstock.program.package.content import Package
    from penstock.runtime.client.results import ProgramResults, StatedResult

OWNER, SHARED = "owner", "shared"
"""For whom a result is: the owner of the secret key alone, or others too."""
FILES = PAIRS["penstock"]
OPENFHE_FILES = PAIRS["openfhe"]
_SEALED_AT = 12
"""Offset of the word of a secret file that is 1 where it is sealed (docs/guides/client.md)."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The arguments of a decryption."""

    result_for: str
    package: ProgramResults | Package | Path | str | None
    result: str | None
    inputs: Mapping[str, Values] | None
    queries: int
    statistical_bits: int


class KeyPair:
    """A secret key with its public one.

    The secret stays in the memory of the client's module: it cannot be printed, copied or pickled, and is wiped when
    the pair goes. Words and bytes are those of OpenFHE 1.6.1.

    >>> from penstock.scheme.params import catalogue
    >>> pair = KeyPair.generate(catalogue.get("insecure-ci"))
    >>> [round(float(value.real), 4) for value in pair.decrypt(pair.encrypt([0.5, -0.25]), result_for="owner")[:2]]
    [0.5, -0.25]
    """

    def __init__(
        self,
        params: CkksParameters,
        ring: Ring,
        secret: SecretKey,
        public: PublicKey,
        shared: SharedCount | None = None,
    ) -> None:
        self.params = params
        self._ring, self._secret, self._public = ring, secret, public
        self.shared = SharedCount(self.tag) if shared is None else shared
        """The results that others know."""

    @classmethod
    def generate(cls, params: CkksParameters, *, threads: int | None = None) -> KeyPair:
        """A new pair, from the random bytes of the operating system.

        Raises: ParamsError: the set is not for OpenFHE. CapabilityMissing: the client is not installed.
        """
        ring = make_ring(params, threads)
        with client_errors():
            secret = ring.generate_secret()
            return cls(params, ring, secret, ring.generate_public(secret))

    @classmethod
    def load(
        cls, folder: Path, params: CkksParameters, *, passphrase: bytes | None = None, threads: int | None = None
    ) -> KeyPair:
        """The pair that `save` wrote.

        Raises: KeyPairDamaged: a file is missing, not whole, of a later version, or they do not form a pair.
                KeyPairRefused: the pair is of other parameters, the passphrase is missing or wrong, or others may read
                or change the secret key's file, or change the folder.
        """
        check_folder(folder, "pair")
        ring = make_ring(params, threads)
        for name in (FILES.secret, FILES.public):
            if not (folder / name).exists():
                raise KeyPairDamaged(f"{folder / name} is missing, and half a key pair is of no use: {_REMEDY}")
        secret_file, public_file = folder / FILES.secret, folder / FILES.public
        with client_errors(secret_file):
            secret = ring.read_secret(str(secret_file), passphrase)
        with client_errors(public_file):
            public = ring.read_public(str(public_file))
        pair = cls(params, ring, secret, public, SharedCount(secret.tag, folder / SHARED_FILE))
        return pair._checked(folder)

    @classmethod
    def from_openfhe(cls, folder: Path, params: CkksParameters, *, threads: int | None = None) -> KeyPair:
        """The pair in OpenFHE's files `secret.key` and `public.key` (BINARY). An ephemeral secret is new.

        Raises: KeyPairDamaged: they do not form a pair of these parameters. FileError: one cannot be read.
        """
        ring = make_ring(params, threads)
        secret_file, public_file = folder / OPENFHE_FILES.secret, folder / OPENFHE_FILES.public
        with os_errors(public_file, "read"):
            content = public_file.read_bytes()
        try:
            with client_errors(secret_file):
                secret = ring.secret_from_openfhe(str(secret_file))
            with client_errors():
                public = ring.public_from_openfhe(content)
        except FileError:
            raise
        except PenstockError as error:
            raise KeyPairDamaged(f"{folder}: {error}") from error
        return cls(params, ring, secret, public, SharedCount(secret.tag, foreign=folder))._checked(folder)

    def with_new_public(self) -> KeyPair:
        """The same secret key with a new public one, which `save` can write. The old public key stays of use."""
        with client_errors():
            public = self._ring.generate_public(self._secret)
        return KeyPair(self.params, self._ring, self._secret, public, self.shared)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key pair cannot be copied or pickled: its secret key stays where it is; save it to a folder")

    def _checked(self, folder: Path) -> KeyPair:
        if self._ring.is_pair(self._public, self._secret):
            return self
        raise KeyPairDamaged(
            f"{folder}: the public key does not belong to the secret key, so nothing is made from this pair: {_REMEDY}"
        )

    @property
    def tag(self) -> str:
        """The name of the pair, which its ciphertexts and keys carry: 32 hexadecimal digits."""
        return self._secret.tag

    @property
    def is_locked(self) -> bool:
        """Whether the system keeps the secret out of the swap."""
        return self._secret.is_locked

    def save(self, folder: Path, *, passphrase: bytes | None = None) -> bool:
        """Write the pair into a new folder, which appears whole or not at all; only its owner may read it.

        The count of shared results goes on in that folder: use the pair from one folder alone.

        Args:   passphrase: seals the secret key with it.
        Returns: `False`: the folder holds files already, and nothing was written.
        Raises: FileError: the file system refused. PenstockError: the public key came from OpenFHE.
        """
        files = {
            FILES.secret: lambda path: self._ring.write_secret(self._secret, path, passphrase),
            FILES.public: lambda path: self._ring.write_public(self._public, path),
            SHARED_FILE: lambda path: self.shared.copy(Path(path)),
        }
        if not self._save(folder, files):
            return False
        self.shared.path = folder / SHARED_FILE
        return True

    def to_openfhe(self, folder: Path) -> bool:
        """Write the pair as OpenFHE does, into a new folder: `secret.key` and `public.key`. Nothing is sealed.

        An ephemeral secret has no place there.

        Returns, raises: as `save`.
        """
        return self._save(
            folder,
            {
                OPENFHE_FILES.secret: lambda path: self._ring.secret_to_openfhe(self._secret, path),
                OPENFHE_FILES.public: lambda path: self._ring.public_to_openfhe(self._public, path),
            },
        )

    def _save(self, folder: Path, files: Mapping[str, Callable[[str], object]]) -> bool:
        with os_errors(folder.parent):
            folder.parent.mkdir(parents=True, exist_ok=True)
            remove_dead(folder.parent)
        with unfinished_folder(folder.parent) as made:
            for name, write in files.items():
                with client_errors(made / name):
                    write(str(made / name))
            return place_whole(made, folder)

    def encrypt(self, values: Values | list[float], *, limbs: int | None = None, degree: int = 1) -> bytes:
        """Encrypt with the public key, as anybody can: a ciphertext in OpenFHE's bytes.

        Args:   values: (n,) real, n up to `slots`; the other slots are 0. limbs: all if omitted. degree: power of the
                scale.
        """
        with client_errors():
            given, limbs = encodable(values, self.params.slots), limbs or self.params.num_q
            return self._ring.encrypt(self._public, given, limbs, degree)

    def encrypt_seeded(self, values: Values | list[float], *, limbs: int | None = None, degree: int = 1) -> bytes:
        """Encrypt with the secret key: half the bytes of `encrypt`, for penstock's evaluator alone."""
        with client_errors():
            given, limbs = encodable(values, self.params.slots), limbs or self.params.num_q
            return self._ring.encrypt_seeded(self._secret, given, limbs, degree)

    def decrypt(
        self,
        content: bytes,
        *,
        result_for: str,
        package: ProgramResults | Package | Path | str | None = None,
        result: str | None = None,
        inputs: Mapping[str, Values] | None = None,
        queries: int = QUERIES,
        statistical_bits: int = STATISTICAL_BITS,
    ) -> Values:
        """The values of a ciphertext, complex128 with imaginary parts of 0.

        The header of the ciphertext must be the one that the package gives the result; without a package, one that the
        parameter set has. A result of a package has its length, (length,), another one all (slots,).

        A shared result needs the package. Noise hides its error and with it the secret key: as much as the package's
        stated noise asks for. It is counted with the pair (`shared`) before it is decrypted.

        Args:   result_for: `"owner"`: nobody else learns the values. `"shared"`: others may. package: the program, or
                its file. result: which output it is, where the package has several. inputs: the values that were
                encrypted: the package must make the same result of them. Without them whoever evaluates is trusted to
                run the program. queries: results of this pair that others will learn in all.
                statistical_bits: as `predict precision --statistical-bits`.
        Raises: PenstockError: another pair's, not whole, another header, the values outgrew the modulus, or they are
                imaginary (`decrypt_complex`). UsageError: neither owner's nor shared; shared without a package.
                ParamsError: the package states no noise; values outside its range; not the result of `inputs`.
                KeyPairRefused: too many shared results. KeyPairDamaged: their count is lost.
        """
        asked = _Asked(result_for, package, result, inputs, queries, statistical_bits)
        return self._decrypted(content, asked, keep_imaginary=False)

    def decrypt_complex(
        self,
        content: bytes,
        *,
        result_for: str,
        package: ProgramResults | Package | Path | str | None = None,
        result: str | None = None,
        inputs: Mapping[str, Values] | None = None,
        queries: int = QUERIES,
        statistical_bits: int = STATISTICAL_BITS,
    ) -> Values:
        """As `decrypt`, with the imaginary parts. Nothing tells how much of them is error."""
        asked = _Asked(result_for, package, result, inputs, queries, statistical_bits)
        return self._decrypted(content, asked, keep_imaginary=True)

    def _decrypted(self, content: bytes, asked: _Asked, *, keep_imaginary: bool) -> Values:
        if asked.result_for not in (OWNER, SHARED):
            raise UsageError(
                f"result_for={asked.result_for!r}: a result is for its '{OWNER}', or '{SHARED}' with others"
            )
        is_shared = asked.result_for == SHARED
        if asked.package is None:
            if is_shared:
                raise UsageError(
                    "a shared result needs its program's package, which says how much noise hides the secret key: give "
                    f"it (--package FILE, package=); or keep the result with its owner (--for {OWNER})"
                )
            return self._opened(content, None, None, keep_imaginary)
        from penstock.runtime.client.results import (
            ProgramResults,  # a client's process, which needs no package, starts quicker
        )

        program = ProgramResults.of(asked.package) if not isinstance(asked.package, ProgramResults) else asked.package
        program.check_params(self.params)
        one = program.one(asked.result)
        if not is_shared:
            computed = None if asked.inputs is None else program.computed(one, asked.inputs)
            values = self._opened(content, one, None, keep_imaginary)
            if computed is not None:
                whole = self._opened(content, one, None, one.is_complex) if keep_imaginary else values
                program.check_computed(one, whole, computed)
            return values[: one.length]
        return self._shared(content, asked, program, one, keep_imaginary)[: one.length]

    def _shared(
        self, content: bytes, asked: _Asked, program: ProgramResults, one: StatedResult, keep_imaginary: bool
    ) -> Values:
        """The whole vector of a shared result. All that does not depend on the secret is checked first."""
        if keep_imaginary and not one.is_complex:
            raise UsageError(
                f"result '{one.name}' of '{program.program}' is real: its imaginary parts are error, and nobody else "
                "gets them. Leave out --complex, or call decrypt"
            )
        std = program.flooding_std(one, queries=asked.queries, statistical_bits=asked.statistical_bits)
        computed = None
        if asked.inputs is not None:
            from penstock.program.package.noise import size_in_eighths

            computed = program.computed(one, asked.inputs)
            program.check_inputs(size_in_eighths(asked.inputs))
            program.check_stated(computed[1])
        with client_errors():
            self._ring.check_result(self._secret, _bytes(content), one.stated)
        with self.shared.sharing(asked.queries, asked.statistical_bits):
            if computed is not None:
                program.check_computed(one, self._opened(content, one, None, one.is_complex), computed)
            values = self._opened(content, one, std, keep_imaginary)
        program.check_range(one, values, std)
        return values

    def _opened(self, content: bytes, one: StatedResult | None, flooding: float | None, keep_imaginary: bool) -> Values:
        stated = None if one is None else one.stated
        with client_errors():
            return self._ring.decrypt(
                self._secret, _bytes(content), stated=stated, flooding=flooding, keep_imaginary=keep_imaginary
            )

    def encrypt_complex(self, values: Values, *, limbs: int) -> bytes:
        """As `encrypt_seeded`, of complex numbers, for programs that compute with them."""
        with client_errors():
            given = np.ascontiguousarray(padded(values, self.params.slots), dtype=np.complex128)
            return self._ring.encrypt_seeded(self._secret, given, limbs, 1)

    def key_from_small(self, small: SecretKey, *, squared: bool) -> EvaluationKey:
        """The key from the secret of a smaller ring, or from its square, to the ephemeral secret of this pair.

        Args:   small: the secret of the client's ring of that dimension.
        """
        with client_errors():
            return self._ring.generate_key_from_small(self._secret, small, squared)

    def phase(self, content: bytes) -> npt.NDArray[np.uint64]:
        """`c0 + c1 s (+ c2 s^2)` modulo each limb, (limbs, N) uint64 in evaluation order: the message with its error.

        It tells the error, and so the secret in the end: give it to nobody.
        """
        with client_errors():
            return self._ring.phase(self._secret, _bytes(content))

    def write_key(self, key: str, path: Path, *, tenant: str, limbs: int | None = None, seeded: bool = True) -> int:
        """Make an evaluation key and write it as a segment that `KeyStore.import_segment` takes; bytes of the file.

        Args:   key: `relin`, `conj`, `rot:<galois_element>`, `to-sparse` or `to-dense`. limbs: of the highest use; all
                if omitted; `to-sparse` has one. seeded: the uniform half as a seed.
        Raises: PenstockError: `to-sparse` or `to-dense` of a pair without an ephemeral secret.
        """
        made = self.generate_key(key, limbs=limbs, seeded=seeded)
        with client_errors(path):
            return made.write(tenant, str(path))

    def generate_key(self, key: str, *, limbs: int | None = None, seeded: bool = True) -> EvaluationKey:
        """Make an evaluation key in memory, as `write_key` writes it."""
        with client_errors():
            return self._ring.generate_key(self._secret, key, limbs or self.params.num_q, seeded)

    def add_keys(self, store: KeyStore, keys: Mapping[str, int], *, tenant: str = "local") -> int:
        """Make and import the evaluation keys that a store lacks, half of each a seed; how many. They hold no secret.

        Args:   keys: as `penstock.package_keys` names them, key -> limbs of its highest use.
        Raises: KeyRefused: the store has keys of another secret key for this tenant. StoreUnusable: a full disk.
        """
        there = store.list_keys(tenant=tenant, digest=parameter_digest(self.params))
        have = {key.name.key: key.limbs for key in there if key.secret_tag == self.tag}
        missing = {key: limbs for key, limbs in keys.items() if have.get(key, 0) < limbs}
        with temporary_folder("penstock-making-") as place:
            path = place / "made.pkey"
            for key, limbs in missing.items():
                self.write_key(key, path, tenant=tenant, limbs=limbs)
                store.import_segment(path, tenant=tenant)
                path.unlink()
        return len(missing)


_REMEDY = "put the right file back; or remove the folder, and what was made with that pair, and begin anew"


def check_folder(folder: Path, what: str) -> None:
    """Before secrets are read from a folder, of which a killed process may have left half.

    Raises: KeyPairRefused: others may put files into it. FileError.
    """
    with os_errors(folder, "read"):
        remove_dead(folder.parent)
        mode = folder.stat().st_mode if folder.is_dir() else 0
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise KeyPairRefused(
            f"{folder}: others may put files into it (mode {stat.S_IMODE(mode):04o}), so the {what} in it may be "
            f"anybody's: look who did, then 'chmod 700 {folder}'"
        )


def is_sealed(folder: Path) -> bool:
    """Whether the secret key that `KeyPair.save` wrote needs a passphrase, as its header says.

    Raises: FileError: it cannot be read. KeyPairDamaged: it is too short to say.
    """
    file = folder / FILES.secret
    with os_errors(file, "read"), file.open("rb") as opened:
        head = opened.read(_SEALED_AT + 4)
    if len(head) < _SEALED_AT + 4:
        raise KeyPairDamaged(f"{file}: it has {len(head)} bytes, less than its header: {_REMEDY}")
    return int.from_bytes(head[_SEALED_AT:], "little") == 1


def _bytes(content: object) -> bytes:
    """Raises: UsageError: a ciphertext that is not bytes."""
    if not isinstance(content, bytes | bytearray | memoryview):
        kind = type(content).__name__
        raise UsageError(f"a ciphertext is given as {kind}: give its bytes, as 'encrypt' and an evaluator return them")
    return bytes(content)
