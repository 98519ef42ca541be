"""Evaluation keys of the `native` reading: held whole in memory, or on disk by rows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from penstock._engine import CkksContext, CkksKey
from penstock.base.system.files import os_errors
from penstock.errors import PenstockError
from penstock.runtime.keystore import KeyCache, KeyPlan, KeySession, KeyStore, KeyUse, parameter_digest
from penstock.runtime.keystore.cache import DEFAULT_PREFETCH_USES, CacheStats
from penstock.scheme.params.ckks import CkksParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTraffic(CacheStats):
    """What the keys of one run did. `requested_bytes`: rows that key switches used. `wait_s`: of operations."""

    key_bytes: int
    """Of all keys of the program, whole."""


class KeySource(Protocol):
    """The evaluator's source of keys."""

    waits_s: list[float]
    """Seconds that each `get` took, in order."""

    def get(self, key: str, limbs: int) -> AbstractContextManager[CkksKey]:
        """The engine's form of the key, for a key switch at `limbs` limbs. The rows stay until the exit."""
        ...

    def traffic(self) -> KeyTraffic:
        """What happened so far."""
        ...

    def close(self) -> None:
        """No more keys are asked for."""
        ...


class WholeKeys(Protocol):
    """Keys for a whole program at once."""

    def of_program(self, names: Sequence[str]) -> tuple[KeySession, Sequence[str]] | list[CkksKey]:
        """The keys of these names as `_engine.CkksProgram.run` takes them."""
        ...

    def ran(self, uses: Sequence[tuple[str, int]], waits_s: Sequence[float]) -> None:
        """A whole program used keys at limbs, in order, and waited for each so long."""
        ...


class ProgramKeys(KeySource, WholeKeys, Protocol):
    """Keys one by one, or for a whole program."""


class SessionKeys:
    """The keys of one run of a whole program, from a cache that many runs share."""

    def __init__(self, session: KeySession) -> None:
        self.session = session
        self.waits_s: list[float] = []

    def of_program(self, names: Sequence[str]) -> tuple[KeySession, Sequence[str]]:
        return self.session, names

    def ran(self, uses: Sequence[tuple[str, int]], waits_s: Sequence[float]) -> None:
        self.waits_s.extend(waits_s)


class _ResidentKeys:
    """Keys that are in memory before a run, and stay there for further ones."""

    def __init__(self, params: CkksParameters) -> None:
        self._params = params
        self._keys: dict[str, CkksKey] = {}
        self._resident_bytes: int | None = None
        """`None`: of the whole keys."""
        self._requested_bytes = 0
        self.waits_s: list[float] = []

    def get(self, key: str, limbs: int) -> AbstractContextManager[CkksKey]:
        """Raises: PenstockError: no such key is there."""
        there = self._key(key)
        self.ran([(key, limbs)], [0.0])
        return nullcontext(there)

    def _key(self, key: str) -> CkksKey:
        if key not in self._keys:
            raise PenstockError(f"no key '{key}': the program asks for a key that its trace has not")
        return self._keys[key]

    def of_program(self, names: Sequence[str]) -> list[CkksKey]:
        return [self._key(name) for name in names]

    def ran(self, uses: Sequence[tuple[str, int]], waits_s: Sequence[float]) -> None:
        self.waits_s.extend(waits_s)
        self._requested_bytes += sum(self._params.key_bytes(limbs, key=key) for key, limbs in uses)

    def begin(self) -> None:
        """Count another run's uses, from none."""
        self.waits_s, self._requested_bytes = [], 0

    def traffic(self) -> KeyTraffic:
        size = sum(self._params.key_bytes(key=key) for key in self._keys)
        there = size if self._resident_bytes is None else self._resident_bytes
        return KeyTraffic(
            key_bytes=size, requested_bytes=self._requested_bytes, hits=len(self.waits_s), peak_resident_bytes=there
        )

    def close(self) -> None:
        """The keys stay for another run."""


class KeysInMemory(_ResidentKeys):
    """All keys, whole."""

    def __init__(self, params: CkksParameters, engine: CkksContext) -> None:
        super().__init__(params)
        self._engine = engine

    def put(self, key: str, content: bytes) -> None:
        """Take a key in OpenFHE's bytes."""
        self._keys[key] = self._engine.import_key(content)

    def take(self, key: str, made: Path) -> None:
        """Take a key from a file of OpenFHE's."""
        with os_errors(made, "read"):
            self.put(key, made.read_bytes())


class KeysHeld(_ResidentKeys):
    """Keys of a store that are read once, up to each one's highest limbs, and stay in memory.

    Args:   limbs: key -> limbs of its highest use. secret_tag: of the secret key whose keys alone are handed out.
    Raises: KeyMissing, KeyRefused, KeyDamaged, StoreUnusable.
    """

    def __init__(
        self,
        params: CkksParameters,
        store: KeyStore,
        tenant: str,
        limbs: Mapping[str, int],
        *,
        secret_tag: str | None = None,
    ) -> None:
        super().__init__(params)
        digest = parameter_digest(params)
        stored = {key.name.key: key for key in store.list_keys(tenant=tenant, digest=digest)}
        self._limbs = dict(limbs)
        self._resident_bytes = sum(stored[key].bytes_needed[most - 1] for key, most in limbs.items() if key in stored)
        self._cache = KeyCache(store, max(1, self._resident_bytes), policy="lru", prefetch_uses=0)
        session = self._cache.session(tenant, digest, secret_tag=secret_tag)
        self._keys = {key: session.get(key, most) for key, most in limbs.items()}

    def get(self, key: str, limbs: int) -> AbstractContextManager[CkksKey]:
        """Raises: PenstockError: no such key was read, or fewer rows of it."""
        if limbs > self._limbs.get(key, limbs):
            raise PenstockError(f"key '{key}' was read up to {self._limbs[key]} limbs, and is asked for at {limbs}")
        return super().get(key, limbs)


class KeysOnDisk:
    """Keys of a store under a byte budget, read ahead along the program's uses of them.

    Args:   uses: (key, limbs) of each key switch of the program, in order. ahead: read ahead from now on, and not only
            from `begin` or the first use. secret_tag: of the secret key whose keys alone are handed out.
    """

    def __init__(
        self,
        params: CkksParameters,
        store: KeyStore,
        tenant: str,
        budget_bytes: int,
        uses: Iterable[tuple[str, int]],
        *,
        policy: str = "future",
        prefetch_uses: int = DEFAULT_PREFETCH_USES,
        ahead: bool = True,
        secret_tag: str | None = None,
    ) -> None:
        digest = parameter_digest(params)
        self._uses = list(uses)
        self._key_bytes = sum(params.key_bytes(key=key) for key in {key for key, _ in self._uses})
        self._store = store
        self._cache: KeyCache | None = KeyCache(store, budget_bytes, policy=policy, prefetch_uses=prefetch_uses)
        self._budget_bytes, self._ring_dim = budget_bytes, params.ring_dim
        self._tenant, self._digest, self._secret_tag = tenant, digest, secret_tag
        self._ended: KeyTraffic | None = None
        self._plan: KeyPlan | None = None
        self._session: KeySession | None = None
        self.waits_s: list[float] = []
        if ahead:
            self.begin()

    def reserve(self) -> None:
        """Take the memory for the keys from the system now."""
        if self._cache is not None:
            self._cache.reserve(self._ring_dim, min(self._budget_bytes, self._key_bytes))

    def begin(self) -> KeySession:
        """Read ahead from now on."""
        if self._cache is None:
            raise PenstockError("a key is asked for after the last use of keys")
        if self._session is None:
            self._plan = self._cache.plan(self._future())
            self._session = self._cache.session(self._tenant, self._digest, self._plan, secret_tag=self._secret_tag)
        return self._session

    def _future(self) -> list[KeyUse]:
        """The uses of the keys of this source's pair."""
        names = {
            key: self._store.name_for(self._tenant, self._digest, key, secret_tag=self._secret_tag)
            for key in {key for key, _ in self._uses}
        }
        return [KeyUse(names[key], limbs) for key, limbs in self._uses]

    def get(self, key: str, limbs: int) -> AbstractContextManager[CkksKey]:
        """Raises: KeyMissing, KeyRefused, KeyDamaged, BudgetTooSmall, StoreUnusable."""
        started = time.perf_counter()
        pinned = self.begin().get(key, limbs)
        self.waits_s.append(time.perf_counter() - started)
        return pinned

    def of_program(self, names: Sequence[str]) -> tuple[KeySession, Sequence[str]]:
        return self.begin(), names

    def ran(self, uses: Sequence[tuple[str, int]], waits_s: Sequence[float]) -> None:
        self.waits_s.extend(waits_s)

    def traffic(self) -> KeyTraffic:
        if self._cache is None:
            assert self._ended is not None
            return self._ended
        own = {"key_bytes": self._key_bytes, "wait_s": sum(self.waits_s)}
        return KeyTraffic(**asdict(self._cache.stats()) | own)

    def close(self) -> None:
        """Give up the rows; keep the counters."""
        self._ended = self.traffic()
        if self._plan is not None:
            self._plan.close()
        self._plan = self._session = self._cache = None
