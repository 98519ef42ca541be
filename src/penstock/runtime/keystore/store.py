"""The store: import keys, list, verify and remove them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from penstock import _engine
from penstock.base.types import Row
from penstock.errors import KeyRefused
from penstock.runtime.keystore.place import object_settings
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.primes import openfhe_primes
from penstock.scheme.params.rlwe import RlweParameters

_FILES = ("index.sqlite", "lock")
"""Files in the folder of every store."""

_SEGMENT_START = b"PSTKKEY\n"

GONE = "is gone: import it again, or let 'penstock keys gc' forget it"


class KeyName(NamedTuple):
    """One key: whose it is, the digest of its parameters, and its id as traces write it."""

    tenant: str
    digest: str
    key: str
    pair: int = 1
    """Which of the tenant's key pairs: more than 1 after the first was replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """A whole key of the store."""

    name: KeyName
    secret_tag: str
    """OpenFHE's tag of the secret key that it was made from; empty where the file had none."""
    ring_dim: int
    moduli_q: tuple[int, ...]
    moduli_p: tuple[int, ...]
    dnum: int
    digit_limbs: int
    limbs: int
    """Limbs that its rows reach: no key switch at more can use it."""
    form: str
    """`full`, `seeded`, `truncated` or `seeded+truncated`."""
    file_bytes: int
    bytes_needed: tuple[int, ...]
    """`[l - 1]`: bytes that a key switch at `l` limbs keeps in memory, up to `limbs`."""
    stored_bytes: tuple[int, ...]
    """`[l - 1]`: bytes of them that are read from storage; the others are expanded from a seed."""


class ImportedKey(NamedTuple):
    """What one import wrote."""

    name: KeyName
    file_bytes: int
    replaced: bool
    """The store had this key before."""


class VerifiedKey(NamedTuple):
    """A key after every row of it was read."""

    name: KeyName
    file_bytes: int
    fault: str | None
    """The first fault found; `None`: every row equals its checksum."""
    damaged_rows: int


class Garbage(NamedTuple):
    """A file that no key needs, or whose index row or path is wrong."""

    path: str
    file_bytes: int
    reason: str
    kept: bool
    """It holds a whole key and stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The repairs at the opening of a store."""

    adopted: tuple[KeyName, ...]
    """Whole, and not in the index or replaced in it: their import was killed after its last step but one."""
    lost: tuple[KeyName, ...]
    """Once in the index, and their segments gone; until they are imported or `gc` forgets them."""
    damaged: tuple[tuple[str, str], ...]
    """Segments that are not whole, and why; they are not listed."""
    leftovers: tuple[str, ...]
    """Unfinished files of killed imports, removed."""
    index_rebuilt: bool
    """The index was none, and was built from the segments."""
    read_only: bool
    """The store is read-only: the repairs hold for this opening alone, and the files stay."""

    def notes(self) -> list[str]:
        """One line for each thing that a user should know."""
        notes = [why if why.startswith(f"{path}: ") else f"{path}: {why}" for path, why in self.damaged]
        notes += [f"{name.key} of tenant '{name.tenant}' {GONE}" for name in self.lost]
        if self.adopted:
            then = "are listed all the same" if self.read_only else "are now"
            notes.append(f"{len(self.adopted)} keys were whole but not in the index, and {then}")
        if self.leftovers:
            notes.append(f"{len(self.leftovers)} unfinished files of killed imports were removed")
        if self.index_rebuilt and self.read_only:
            notes.append("the index is damaged and may not be written to: the keys' own headers were read instead")
        elif self.index_rebuilt:
            notes.append("the index was damaged and was built again; the old one is index.sqlite.damaged")
        return notes


def parameter_digest(params: RlweParameters) -> str:
    """The digest of N, moduli and dnum that keys of an OpenFHE set are bound to, 32 hexadecimal digits.

    Raises: ParamsError: the set is not an OpenFHE set.
    """
    return _engine.key_digest(*_shape(params))


def _shape(params: RlweParameters) -> tuple[int, list[int], list[int], int]:
    q, p = openfhe_primes(params)
    return params.ring_dim, list(q), list(p), params.dnum


def check_tenant(name: str, where: str) -> None:
    """Raises: KeyRefused, which begins with `where`: not a name of a tenant, since it becomes the name of a folder."""
    try:
        _engine.check_tenant(name)
    except KeyRefused as error:
        raise KeyRefused(f"{where}: {error}") from error


def is_segment(file: Path) -> bool:
    """Whether a file begins like a segment of a key store. An import checks its content."""
    try:
        with file.open("rb") as content:
            return content.read(len(_SEGMENT_START)) == _SEGMENT_START
    except OSError:
        return False  # Who reads it next says why.


def require_store(folder: Path) -> None:
    """Raises: KeyRefused: the folder holds no key store, and what opens it is not to make one."""
    # A store whose index is lost has its segments still.
    if not all((folder / name).is_file() for name in _FILES) and not any(folder.glob("*/*/*.pkey")):
        raise KeyRefused(
            f"there is no key store at {folder}: name it with --store, or make it with 'penstock keys import'"
        )


class KeyStore:
    """Evaluation keys of many tenants. Threads and processes may use one store at once, children of a fork too.

    Args:   folder: made where it is missing; holds the index, and the segments unless `objects` says where they are.
            reader: `auto` (io_uring where the kernel allows it, else pread), `uring` or `pread`.
            direct: read past the page cache, where the file system allows it.
            objects: URL of an object store for the segments (`s3://bucket/prefix`); its settings are read from the
            environment (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …).
            reading: of a folder: write nothing to it. The store shows what other processes import. Its sessions do not
            keep `keys retire` from removing their key pair.
    Raises: StoreUnusable: folder, index or object store cannot be used. KeyRefused: a wrong URL or setting.
            CapabilityMissing: a build without object stores.
    """

    def __init__(
        self,
        folder: Path,
        *,
        reader: str = "auto",
        direct: bool = True,
        objects: str | None = None,
        reading: bool = False,
    ) -> None:
        self.folder = Path(folder)
        settings = {} if objects is None else object_settings()
        self._arguments = (str(folder), reader, direct, objects, settings, reading)
        self._handles: dict[int, _engine.KeyStore] = {}
        repairs = self.handle.opening
        self.opening = Opening(
            adopted=tuple(KeyName(*name) for name in repairs["adopted"]),
            lost=tuple(KeyName(*name) for name in repairs["lost"]),
            damaged=tuple(repairs["damaged"]),
            leftovers=tuple(repairs["leftovers"]),
            index_rebuilt=repairs["index_rebuilt"],
            read_only=repairs["read_only"],
        )

    @property
    def handle(self) -> _engine.KeyStore:
        """The store of this process: a child of a fork opens it anew, and leaves its parent's connections alone."""
        process = os.getpid()
        if process not in self._handles:
            self._handles[process] = _engine.KeyStore(*self._arguments)
        return self._handles[process]

    @property
    def notes(self) -> list[str]:
        """The ways of reading in use here, if not the best: fallbacks with their reasons."""
        return self.handle.notes

    def list_keys(self, *, tenant: str | None = None, digest: str | None = None) -> list[StoredKey]:
        """Whole keys in the order of names; optionally of one tenant or one set of parameters.

        Raises: KeyRefused: what cannot be the name of a tenant, or a digest.
        """
        return [_stored(entry) for entry in self.handle.entries(tenant, digest)]

    def key(self, name: KeyName) -> StoredKey:
        """One key.

        Raises: KeyMissing, with the command that imports it.
        """
        return _stored(self.handle.entry(name))

    def import_openfhe(
        self,
        tenant: str,
        source: Path | bytes,
        *,
        params: CkksParameters | None = None,
        num_q: int | None = None,
        key: str | None = None,
        only: Sequence[str] | None = None,
    ) -> list[ImportedKey]:
        """Import the keys of a file that OpenFHE wrote in its binary format.

        One key, a map of automorphism keys, or a context's automorphism or multiplication keys
        (`SerializeEvalAutomorphismKey`, `SerializeEvalMultKey`). A file is read row by row and need not fit memory.
        Each word is checked against its modulus, and the key is bound to its tenant, its parameters and the tag of its
        secret key. A key of the same name is replaced.

        Args:   params: the set of the keys; a key of another set is refused, and one that was made at a level (fewer
                limbs of Q, then P's) becomes a truncated key. num_q: limbs of Q, for a set without a file of
                penstock's (the key does not say where P begins). key: `relin`, `conj`, `rot:<galois_element>`,
                `to-sparse` or `to-dense`; needed if the file is a single key, which does not say. only: of a file of
                many keys, these; all if omitted.
        Raises: KeyRefused: no such key, other parameters, another tenant's secret key. StoreUnusable: a full disk.
        """
        if (params is None) == (num_q is None):
            raise TypeError("name the parameters or the limbs of Q, one of the two")
        shape = None if params is None else _shape(params)
        limbs = params.num_q if params is not None else num_q
        assert limbs is not None
        try:
            imported = self.handle.import_openfhe(tenant, source, limbs, key, shape, only)
        except KeyRefused as error:
            if isinstance(source, bytes):
                raise
            raise KeyRefused(f"{source}: {error}") from error
        return [_imported(*row) for row in imported]

    def import_segment(
        self,
        source: Path,
        *,
        tenant: str | None = None,
        params: CkksParameters | None = None,
        is_given: bool = False,
    ) -> ImportedKey:
        """Import a segment file that was made elsewhere, one row at a time; its header names the key.

        Args:   tenant, params: whose key it must be, and of which set. is_given: nobody changes the file any more, so
                that it becomes the store's own by a second name where the file system allows it: it is read and
                checked as ever, and not copied.
        Raises: KeyRefused: another secret key, a word that is not below its modulus. KeyDamaged: the file is not whole,
                of a newer version, or another tenant's. StoreUnusable: a full disk.
        """
        digest = None if params is None else parameter_digest(params)
        return _imported(*self.handle.import_segment(str(source), tenant, digest, is_given))

    def replace_pair(self, tenant: str, params: CkksParameters) -> int:
        """Begin a new key pair: keys of the next other secret key are imported next to the old ones.

        Returns: the number of the new pair.
        Raises: KeyRefused: the tenant has no keys of this set.
        """
        return self.handle.replace(tenant, parameter_digest(params))

    def retire_pairs(self, tenant: str, params: CkksParameters) -> list[Garbage]:
        """Remove the keys of every pair but the newest. A pair that a session of any process uses is kept and named.

        Raises: KeyRefused: there is one pair. StoreUnusable: a file cannot be removed.
        """
        return [Garbage(*row) for row in self.handle.retire(tenant, parameter_digest(params))]

    def takes(self, tenant: str, digest: str, secret_tag: str) -> bool:
        """Whether keys of this secret key may be imported: the tenant's own, its first, or a new pair's."""
        return self.handle.takes(tenant, digest, secret_tag)

    def name_for(self, tenant: str, digest: str, key: str, *, secret_tag: str | None = None) -> KeyName:
        """The name of a key for sessions of this secret key, or else of the oldest pair that has it."""
        return KeyName(*self.handle.name_for(tenant, digest, key, secret_tag))

    def verify(self, name: KeyName) -> VerifiedKey:
        """Read every row of a key and hold it against its checksum.

        Raises: KeyMissing.
        """
        size = self.key(name).file_bytes
        return VerifiedKey(name, size, *self.handle.verify(name))

    def gc(self, *, tenant: str | None = None, dry_run: bool = False) -> list[Garbage]:
        """Remove what no key needs: damaged segments, unfinished files, and with `tenant` all keys of that tenant.

        Keys whose files are gone are forgotten. A whole segment stays: the index row is put anew where it says
        something else, and one at the path of another key is only named.

        Returns: the removed and repaired files; with `dry_run`, the files that would be.
        Raises: StoreUnusable: an import is running, or a file cannot be removed.
        """
        return [Garbage(*row) for row in self.handle.gc(tenant, dry_run)]


def _imported(name: tuple[str, str, str, int], size: int, replaced: bool) -> ImportedKey:
    return ImportedKey(KeyName(*name), size, replaced)


def _stored(entry: Row) -> StoredKey:
    fields: Row = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
    return StoredKey(**fields | {"name": KeyName(*entry["name"])})
