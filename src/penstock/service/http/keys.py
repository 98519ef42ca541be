"""Evaluation keys of tenants: imported into the key store, listed, and compared with a program's needs."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from penstock.base.types import Row, Rows, RowView
from penstock.base.units import WORD_BYTES
from penstock.errors import KeyDamaged, KeyRefused, PenstockError, StoreUnusable
from penstock.runtime.keystore import KeyStore, StoredKey, is_segment, parameter_digest
from penstock.scheme.params.ckks import CkksParameters
from penstock.service.state.problems import Problem, no_such, problem_of
from penstock.service.state.state import ServiceState

_BLOCK_BYTES, _HEADER_BYTES = 4096, 3 * 4096
"""Of a segment: rows and header begin and end with blocks."""
_TRIES, _PAUSE_S = 20, 0.1
"""A worker that opens the store keeps it from being changed for a moment."""


class Quota:
    """The bytes that each tenant may hold: keys, contents, results, and announced ones."""

    def __init__(self, most_bytes: int, keys: Keys) -> None:
        self._most_bytes, self._keys = most_bytes, keys

    def fits(self, tenant: str, more: int) -> Callable[[int], None]:
        """What refuses so many bytes more, in the transaction that adds them."""
        self._keys.used_bytes(tenant)  # listed now, since the transaction keeps others waiting

        def check(used: int) -> None:
            used += self._keys.used_bytes(tenant)
            if used + more > self._most_bytes:
                raise Problem(
                    507, f"the tenant uses {used} of {self._most_bytes} bytes, and {more} more do not fit",
                    remedy="delete keys, ciphertexts, results or uploads, or ask for a larger quota", kind="quota",
                    rule="results count from the submission of their job, at their predicted size",
                )  # fmt: skip

        return check


class TenantTurns:
    """A lock whose turns go round the tenants: nobody waits for more than one turn of each other one."""

    def __init__(self) -> None:
        self._lock, self._is_held = threading.Condition(), False
        self._waiting: OrderedDict[str, deque[object]] = OrderedDict()
        """Tenant -> who waits. The first tenant is next."""

    @contextmanager
    def of(self, tenant: str) -> Iterator[None]:
        """A turn of the tenant."""
        me = object()
        with self._lock:
            self._waiting.setdefault(tenant, deque()).append(me)
            self._lock.wait_for(lambda: not self._is_held and next(iter(self._waiting.values()))[0] is me)
            self._is_held = True
            self._waiting[tenant].popleft()
            self._waiting.move_to_end(tenant)
            if not self._waiting[tenant]:
                del self._waiting[tenant]
        try:
            yield
        finally:
            with self._lock:
                self._is_held = False
                self._lock.notify_all()


class Keys:
    """The keys of all tenants in one store."""

    def __init__(self, store: KeyStore, state: ServiceState) -> None:
        self._store, self._state = store, state
        self._used: dict[str, int] = {}
        self._there: dict[tuple[str, str], list[StoredKey]] = {}
        """By tenant and set: the keys of the latest list."""
        self._changes = 0
        """Imports and removals: a list from before the last one is not kept."""
        self._changing = TenantTurns()
        """Held by who imports or removes: the store itself would refuse the second one."""

    def used_bytes(self, tenant: str) -> int:
        """Bytes of a tenant's keys on disk."""
        used, changes = self._used.get(tenant), self._changes
        if used is None:
            used = sum(key.file_bytes for key in self._store.list_keys(tenant=tenant))
            if changes == self._changes:
                self._used[tenant] = used
        return used

    def take(self, tenant: str, file: Path, upload: RowView, check: Callable[[int], None]) -> Rows:
        """Import the keys in a file, all or none.

        Args:   upload: `params`, the program that they are for; `name`, the key of a file with a single one. check:
                refuses so many bytes besides the file's.
        Raises: Problem: bytes that hold no key of this tenant, pair and set.
        """
        program = self._state.program(tenant, upload["params"] or "")
        if program is None:
            raise no_such(
                "program", upload["params"] or "", "deploy it, then name it as 'params' of the upload of its keys"
            )
        params = CkksParameters.from_dict(program["description"]["params"])
        try:
            with self._changing.of(tenant):
                if is_segment(file):
                    imported = [self._store.import_segment(file, tenant=tenant, params=params, is_given=True)]
                else:
                    check(_more_bytes(upload["bytes"], params))
                    imported = self._store.import_openfhe(tenant, file, params=params, key=upload["name"])
        except (KeyRefused, KeyDamaged) as error:
            reason = str(error).replace(f"{file}: ", "").replace(str(file), "the upload")
            raise Problem(
                422, reason, kind="key-refused", rule="keys are of this tenant, of one pair, and of the program's set",
                remedy="make the keys again for this program with the tenant's key pair; a new pair needs "
                "DELETE /v1/keys first",
            ) from error  # fmt: skip
        except PenstockError as error:
            raise problem_of(error) from error
        self._changed(tenant)
        return [{"key": made.name.key, "bytes": made.file_bytes, "replaced": made.replaced} for made in imported]

    def listed(self, tenant: str) -> Rows:
        """The keys of a tenant."""
        return [
            {
                "key": key.name.key,
                "set": key.name.digest,
                "pair": key.secret_tag,
                "limbs": key.limbs,
                "form": key.form,
                "bytes": key.file_bytes,
            }
            for key in self._store.list_keys(tenant=tenant)
        ]

    def forget(self, tenant: str) -> int:
        """Remove all keys of a tenant; how many."""
        with self._changing.of(tenant):
            count = len(self._store.list_keys(tenant=tenant))
            for left in reversed(range(_TRIES)):
                try:
                    self._store.gc(tenant=tenant)
                    break
                except StoreUnusable:
                    if not left:
                        raise
                    time.sleep(_PAUSE_S)
        self._changed(tenant)
        return count

    def _changed(self, tenant: str) -> None:
        self._changes += 1
        self._used.pop(tenant, None)
        for name in [name for name in list(self._there) if name[0] == tenant]:
            self._there.pop(name, None)
        self.used_bytes(tenant)

    def needs(self, tenant: str, description: RowView) -> Row:
        """Which keys a program needs, which of them the tenant lacks, and its key pair.

        The store is asked again where keys seem to be lacking: another process may have imported them. The job finds
        out which keys another process has removed.
        """
        digest = _digest_of(json.dumps(description["params"], sort_keys=True))
        known = self._there.get((tenant, digest))
        held = None if known is None else _held(known, description["keys"])
        if held is None or held["lacking"]:
            changes = self._changes
            known = self._store.list_keys(tenant=tenant, digest=digest)
            if changes == self._changes:
                self._there[tenant, digest] = known
            held = _held(known, description["keys"])
        return held


def _more_bytes(size: int, params: CkksParameters) -> int:
    """What the store's segments of OpenFHE's keys have at most besides the words: headers, and rows of whole blocks."""
    row = params.ring_dim * WORD_BYTES
    keys = 1 + size // (4 * row)
    return keys * _HEADER_BYTES + size * (-row % _BLOCK_BYTES) // row


@lru_cache(maxsize=256)
def _digest_of(params: str) -> str:
    """The key store's digest of a set, from its JSON."""
    return parameter_digest(CkksParameters.from_dict(json.loads(params)))


def _held(keys: Sequence[StoredKey], needed: Rows) -> Row:
    """The pair with the fewest lacking keys, and these keys."""
    pairs: dict[str, dict[str, StoredKey]] = {}
    for key in keys:
        pairs.setdefault(key.secret_tag, {})[key.name.key] = key
    best: str | None = None
    lacking: Rows = list(needed)
    for tag, there in pairs.items():
        short = [need for need in needed if need["key"] not in there or there[need["key"]].limbs < need["limbs"]]
        if best is None or len(short) < len(lacking):
            best, lacking = tag, short
    return {"needed": needed, "lacking": lacking, "pair": best}
