"""The owner's side of a similarity search: the keys, the encrypted database, queries, and results in the clear."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from penstock import _engine
from penstock.base.system.files import os_errors, remove_dead, sync, sync_folder, unfinished_folder, write_atomic
from penstock.base.system.host import available_cores
from penstock.base.system.temporary import temporary_folder
from penstock.errors import KeyPairDamaged, PenstockError, UsageError
from penstock.program.database.similarity.comparison import Selection
from penstock.program.database.similarity.result import (
    Matches,
    Payloads,
    counted,
    encoded_payloads,
    found_in,
    tables_of,
)
from penstock.program.database.similarity.scheme import (
    BUCKET_RECORDS,
    COLUMNS,
    PAYLOAD,
    PAYLOAD_LIMBS,
    PAYLOAD_RANGE,
    PERIODS,
    RECORD_BITS,
    Layout,
    SmallRing,
    large_parameters,
)
from penstock.runtime.client.engine import client_errors, load_client
from penstock.runtime.client.pair import KeyPair, check_folder
from penstock.runtime.keystore import KeyStore
from penstock.runtime.keystore.stated import check_bytes
from penstock.runtime.similarity.files import INDEX, PAYLOADS, RECORDS, DatabaseIndex, RecordBlock
from penstock.runtime.similarity.server import (
    FROM_SMALL,
    FROM_SMALL_SQUARED,
    QUERY_MAGIC,
    RESULT_MAGIC,
    TENANT,
    keys_needed,
)
from penstock.scheme.params.ckks import CkksParameters

if TYPE_CHECKING:
    from penstock_client import EvaluationKey, Ring, SecretKey

LARGE, SMALL = "large", "small.key"
"""In a folder of secret keys: the pair of the large ring, and the secret of the small one."""
UNIT_TOLERANCE = 1e-3
"""By how much the length of a record or query may differ from 1."""


Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]


class NotUnit(UsageError):
    """A record or a query that is not a unit vector."""


class Owner:
    """The two secret keys, and all that is done with them.

    `pair` is of the large ring, `small` of the small one; its secret meets no modulus but q_0 times one special prime.
    """

    def __init__(self, params: CkksParameters, pair: KeyPair, ring: Ring, secret: SecretKey, small: SmallRing) -> None:
        self.params, self.pair, self.small = params, pair, small
        self._ring, self._secret = ring, secret

    @classmethod
    def generate(
        cls, params: CkksParameters | None = None, *, small_dim: int | None = None, threads: int | None = None
    ) -> Owner:
        """New secret keys.

        Args:   small_dim: n of the small ring; the set's `small_ring_dim` if omitted.
        Raises: UsageError: the small ring has a lower level than the set states.
        """
        params, small = _rings(params, small_dim)
        ring = _small_ring(small, threads)
        with client_errors():
            return cls(params, KeyPair.generate(params, threads=threads), ring, ring.generate_secret(), small)

    @classmethod
    def load(
        cls,
        folder: Path,
        params: CkksParameters | None = None,
        *,
        small_dim: int | None = None,
        passphrase: bytes | None = None,
        threads: int | None = None,
    ) -> Owner:
        """The keys that `save` wrote.

        Args:   passphrase: of sealed keys.
        Raises: as `generate` and `KeyPair.load`.
        """
        params, small = _rings(params, small_dim)
        ring = _small_ring(small, threads)
        check_folder(folder, "keys")
        pair = KeyPair.load(folder / LARGE, params, passphrase=passphrase, threads=threads)
        path = folder / SMALL
        if not path.exists():
            raise KeyPairDamaged(
                f"{path} is missing, and half of the secret keys are of no use: put the right file back; or remove the "
                "folder, and what was made with these keys, and begin anew"
            )
        with client_errors(path):
            return cls(params, pair, ring, ring.read_secret(str(path), passphrase), small)

    def save(self, folder: Path, *, passphrase: bytes | None = None) -> None:
        """Write the secret keys into a new folder, which appears whole or not at all; only its owner may read it.

        Args:   passphrase: seals both secrets.
        Raises: UsageError: it holds files already. FileError: the file system refused. PenstockError: an empty
                passphrase.
        """
        with os_errors(folder.parent):
            folder.parent.mkdir(parents=True, exist_ok=True)
            remove_dead(folder.parent)
        with unfinished_folder(folder.parent) as made:
            before = self.pair.shared.path
            self.pair.save(made / LARGE, passphrase=passphrase)
            counted, self.pair.shared.path = self.pair.shared.path, before
            path = made / SMALL
            with client_errors(path):
                self._ring.write_secret(self._secret, str(path), passphrase)
            with os_errors(folder):
                sync_folder(made)
                try:
                    made.rename(folder)
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
                    keys = any((folder / name).exists() for name in (LARGE, SMALL))
                    raise UsageError(
                        f"{folder} holds {'secret keys' if keys else 'files'} already: name another folder, or remove "
                        "it with all that needs it"
                    ) from None
                sync_folder(folder.parent)
            if counted is not None:
                self.pair.shared.path = folder / LARGE / counted.name

    def make_keys(
        self,
        layout: Layout,
        store: KeyStore,
        *,
        count_only: bool = False,
        on_key: Callable[[int, int], None] | None = None,
    ) -> int:
        """Make the evaluation keys of a search and import them; how many. They hold no secret.

        Args:   on_key: called with keys done and in all.
        """
        large, small = keys_needed(self.params, layout, count_only=count_only)
        total, done = len(large) + len(small), 0
        with temporary_folder("penstock-making-") as place:
            path = place / "made.pkey"
            for key, limbs in (*large.items(), *((key, None) for key in small)):
                if on_key is not None:
                    on_key(done, total)
                made = self._small_key(key) if limbs is None else self._large_key(key, limbs)
                with client_errors(path):
                    made.write(TENANT, str(path))
                store.import_segment(path, tenant=TENANT)
                path.unlink()
                done += 1
        return total

    def _large_key(self, key: str, limbs: int) -> EvaluationKey:
        if key in (FROM_SMALL, FROM_SMALL_SQUARED):
            return self.pair.key_from_small(self._secret, squared=key == FROM_SMALL_SQUARED)
        return self.pair.generate_key(key, limbs=limbs)

    def _small_key(self, key: str) -> EvaluationKey:
        with client_errors():
            return self._ring.generate_key(self._secret, key, 1, True)

    # The database.
    def encrypt_database(
        self,
        records: Floats,
        payloads: Payloads | None,
        folder: Path,
        *,
        on_block: Callable[[int, int], None] | None = None,
    ) -> DatabaseIndex:
        """Encrypt records with their payloads into a new folder.

        Args:   records: (records, dim) unit vectors; a mapped file will do. payloads: (records, `PAYLOAD`) integers;
                `None`: matches can only be counted. on_block: called with blocks done and in all.
        Raises: NotUnit: a record is not a unit vector. UsageError: a payload out of range, or another number of them; a
                folder that holds a database. FileError: the file system refused; the unfinished files are removed.
        """
        count, dim = records.shape
        layout = self.layout(count, dim)
        _check_payloads(payloads, count)
        most = BUCKET_RECORDS * Selection(layout.ring_dim // 2, layout.scores).buckets
        if payloads is not None and count > most:
            raise UsageError(
                f"{count} records with payloads: the errors of so many would hide a payload; at most {most:g} in one "
                "database. Make several, or leave the payloads out and count"
            )
        with os_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if (folder / INDEX).exists():
                raise UsageError(f"{folder} holds a database already: name another folder, or remove it")
        try:
            # Records in random places: the chance that matches hide each other is then the same for every database.
            cells = np.random.default_rng(np.frombuffer(os.urandom(32), dtype=np.uint64)).permutation(count)
            blocks = self._write_records(records, cells, layout, folder / RECORDS, on_block)
            sizes = self._write_payloads(payloads, cells, layout, folder / PAYLOADS)
            made = DatabaseIndex(layout, self.small.modulus, tuple(blocks), *sizes)
            write_atomic(folder / INDEX, made.to_json().encode())
        except BaseException:
            for name in (RECORDS, PAYLOADS):
                (folder / name).unlink(missing_ok=True)
            raise
        return made

    def layout(self, records: int, dim: int) -> Layout:
        """Raises: UsageError: a dimension that the small ring does not take."""
        if records < 1 or dim < 2 or dim & (dim - 1) or dim > self.small.ring_dim:
            raise UsageError(
                f"{records} records of {dim} coordinates: at least one record, and a power of two of coordinates, at "
                f"most {self.small.ring_dim}"
            )
        return Layout(records, dim, self.params.ring_dim, self.small.ring_dim)

    def _write_records(
        self,
        records: Floats,
        cells: npt.NDArray[np.int64],
        layout: Layout,
        path: Path,
        on_block: Callable[[int, int], None] | None,
    ) -> list[RecordBlock]:
        n, blocks = layout.small_dim, []
        words = np.empty(layout.dim * n, dtype=np.uint64)
        with os_errors(path), path.open("wb") as file:
            for number in range(layout.blocks):
                if on_block is not None:
                    on_block(number, layout.blocks)
                chosen = cells[number * n : (number + 1) * n]
                values = _real(records[chosen], "the records")
                _check_unit(values, chosen, "record")
                coefficients = np.zeros((layout.dim, n), dtype=np.int64)
                coefficients[:, : len(chosen)] = np.rint(values.T * 2.0**RECORD_BITS)
                with client_errors():
                    seed = self._ring.encrypt_polynomials(self._secret, coefficients.ravel(), words)
                blocks.append(RecordBlock(seed, _engine.ckks_row_checksum(words)))
                file.write(words.data)
        sync(path)
        return blocks

    def _write_payloads(
        self, payloads: Payloads | None, cells: npt.NDArray[np.int64], layout: Layout, path: Path
    ) -> tuple[int, int]:
        """Returns: bytes of one ciphertext, and of the one of zeros."""
        size, zeros = 0, self.pair.encrypt_complex(np.zeros(layout.ring_dim // 2, dtype=np.complex128), limbs=1)
        with os_errors(path), path.open("wb") as file:
            file.write(zeros)
            if payloads is not None:
                score, slot = layout.places
                score, slot = score[: len(cells)], slot[: len(cells)]
                columns = encoded_payloads(payloads[cells])
                selection = Selection(layout.ring_dim // 2, layout.scores)
                for variant in range(selection.variants):
                    for number in range(layout.scores):
                        own = score == number
                        for column in range(COLUMNS):
                            values = np.zeros(selection.slots, dtype=np.complex128)
                            values[slot[own]] = columns[column, own]
                            turned = np.roll(values, -selection.distance(number, baby=True)) if variant else values
                            content = self.pair.encrypt_complex(turned, limbs=PAYLOAD_LIMBS)
                            size = len(content)
                            file.write(content)
        sync(path)
        return size, len(zeros)

    # Queries and results.
    def encrypt_query(self, query: Floats) -> bytes:
        """One small ciphertext, with the coordinates as coefficients; the other half is a seed.

        Raises: NotUnit: no unit vector. UsageError: as `layout`; not real numbers.
        """
        values = _real(query, "the query")
        if values.ndim != 1:
            raise UsageError(f"a query of shape {values.shape}: it is one vector")
        layout = self.layout(1, len(values))
        _check_unit(values[None, :], np.zeros(1, dtype=np.int64), "query")
        coefficients = np.zeros(layout.small_dim, dtype=np.int64)
        coefficients[: layout.dim] = np.rint(values * query_factor(self.small, layout.dim))
        words = np.empty(layout.small_dim, dtype=np.uint64)
        with client_errors():
            seed = self._ring.encrypt_polynomials(self._secret, coefficients, words)
        head = QUERY_MAGIC + layout.dim.to_bytes(4, "little") + layout.small_dim.to_bytes(4, "little")
        return head + bytes(seed) + words.astype("<u8").tobytes()

    def decrypt(self, result: bytes, layout: Layout) -> Matches:
        """The matches of a result with payloads.

        Raises: PenstockError: not a whole result, or of other keys.
        """
        selection = Selection(layout.ring_dim // 2, layout.scores)
        tables = tables_of(selection, self._decrypted(result))
        # Few records have a bucket each in the first table.
        return found_in(tables[:1] if layout.scores == 1 and layout.period <= selection.buckets else tables)

    def decrypt_count(self, result: bytes, layout: Layout) -> int:
        """The number of matches of a result that only counts. Raises: as `decrypt`."""
        (values,) = self._decrypted(result)
        return counted(values[: layout.period])

    def _decrypted(self, result: bytes) -> list[npt.NDArray[np.complex128]]:
        return [self.pair.decrypt_complex(content, result_for="owner") for content in split_result(result)]


def query_factor(small: SmallRing, dim: int) -> float:
    """The factor on a query's coordinates: with the records' and the expansion's, which is `dim`, similarities have the
    factor q_0 / `PERIODS`."""
    return small.modulus / PERIODS / 2.0**RECORD_BITS / dim


def _real(given: object, what: str) -> Floats:
    """Real numbers as doubles. Raises: UsageError: text, complex numbers, or what has no shape."""
    try:
        numbers = np.asarray(given)
    except ValueError:
        numbers = np.asarray(None)
    if numbers.dtype.kind not in "biuf":
        raise UsageError(f"{what} must have real numbers, in rows of one length: pass an array of floats")
    return numbers.astype(np.float64)


def split_result(result: bytes) -> list[bytes]:
    """The ciphertexts of a result. Raises: UsageError: no bytes. PenstockError: it is not whole."""
    check_bytes(result, "the result")
    at, parts = len(RESULT_MAGIC), []
    if not result.startswith(RESULT_MAGIC):
        raise PenstockError("these bytes are not a result of a similarity search: its first bytes differ")
    while at < len(result):
        size = int.from_bytes(result[at : at + 8], "little")
        at += 8
        if not 0 < size <= len(result) - at:
            raise PenstockError(
                f"the result is not whole: it ends {size - (len(result) - at)} bytes early; fetch it again"
            )
        parts.append(result[at : at + size])
        at += size
    return parts


def _rings(params: CkksParameters | None, small_dim: int | None) -> tuple[CkksParameters, SmallRing]:
    """The parameters of the large ring, and the small ring, whose level is computed here."""
    params = large_parameters() if params is None else params
    small = SmallRing.under(params, small_dim)
    small.check_level(params)
    return params, small


def _small_ring(small: SmallRing, threads: int | None) -> Ring:
    client = load_client()
    with client_errors():
        return client.Ring(
            **small.shape(),
            slots=small.ring_dim // 2,
            depth=0,
            secret="uniform-ternary",
            security=None,
            threads=threads or available_cores(),
        )


def _check_unit(values: Floats, numbers: Sequence[int] | npt.NDArray[np.int64], what: str) -> None:
    lengths = np.linalg.norm(values, axis=1)
    wrong = np.flatnonzero(~(np.abs(lengths - 1) <= UNIT_TOLERANCE))
    if len(wrong):
        at = int(wrong[0])
        name = f"{what} {int(numbers[at])}" if what == "record" else f"the {what}"
        length = float(lengths[at])
        shown = f"{length:.6g}" if math.isfinite(length) else str(length)
        raise NotUnit(
            f"{name} has length {shown}: cosine similarity is the inner product of unit vectors, so each has length 1 "
            f"within {UNIT_TOLERANCE}; divide it by its length"
        )


def _check_payloads(payloads: Payloads | None, records: int) -> None:
    if payloads is None:
        return
    if payloads.shape != (records, PAYLOAD):
        raise UsageError(f"payloads of shape {payloads.shape} for {records} records: each record has {PAYLOAD} numbers")
    if np.any(payloads < 0) or np.any(payloads >= PAYLOAD_RANGE):
        at = int(np.flatnonzero(np.any((payloads < 0) | (payloads >= PAYLOAD_RANGE), axis=1))[0])
        raise UsageError(f"payload {at} has a number outside 0 to {PAYLOAD_RANGE - 1}: {payloads[at].tolist()}")
