"""Keys in memory under a byte budget: read ahead along a trace, given up by the known future or by age."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from penstock import _engine
from penstock._engine import KeyPlan, KeySession
from penstock.runtime.keystore.store import KeyName, KeyStore

DEFAULT_PREFETCH_USES = 64


class KeyUse(NamedTuple):
    """One use of a key by a program, as a trace has it."""

    name: KeyName
    limbs: int


class ResidentKey(NamedTuple):
    """A key with rows in memory."""

    name: KeyName
    limbs: int
    num_bytes: int


class KeyRead(NamedTuple):
    """One load of rows of a key into memory."""

    name: KeyName
    read_bytes: int
    """From storage."""
    expanded_bytes: int
    """That seeds were expanded into."""
    ahead: bool
    """Whether it was read ahead of its use; else a get waited for it."""
    began_ago_s: float
    ended_ago_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """Sums since the cache was made; `hits + misses` is the number of gets that succeeded."""

    hits: int = 0
    """Gets that found every row there, or on its way."""
    late_hits: int = 0
    """Hits that had to wait for a read ahead to end."""
    misses: int = 0
    """Gets that read rows themselves."""
    failures: int = 0
    requested_bytes: int = 0
    miss_bytes: int = 0
    """Bytes that gets read or expand themselves."""
    read_bytes: int = 0
    """Bytes that were read from storage, ahead or not."""
    expanded_bytes: int = 0
    """Bytes that seeds were expanded into: with `read_bytes`, `resident + evicted + dropped` while nothing is read."""
    prefetched_bytes: int = 0
    evictions: int = 0
    evicted_bytes: int = 0
    dropped_bytes: int = 0
    """Bytes given up because their key was imported again, here or by another process."""
    unplanned: int = 0
    """Gets that the plan did not have."""
    prefetch_failures: int = 0
    resident_bytes: int = 0
    peak_resident_bytes: int = 0
    wait_s: float = 0.0
    """Seconds that gets took, summed over threads."""
    read_s: float = 0.0
    """Seconds of reading, expanding and checking, ahead or not."""


class KeyCache:
    """The keys of a store in memory; tenants, sessions and threads share the budget.

    Args:   budget_bytes: most bytes of rows in memory, in use or not; a key in use must fit.
            policy: `future` gives up what the plans use last, limb by limb; `lru` the key used longest ago, whole.
            prefetch_uses: how many uses ahead a thread reads along the plans; 0: never ahead.
            floor_bytes: bytes of each tenant that the keys of others do not displace, unless a get finds no other room.
    """

    def __init__(
        self,
        store: KeyStore,
        budget_bytes: int,
        *,
        policy: str = "future",
        prefetch_uses: int = DEFAULT_PREFETCH_USES,
        floor_bytes: int = 0,
    ) -> None:
        self.handle = _engine.KeyCache(store.handle, budget_bytes, policy, prefetch_uses, floor_bytes)

    def reserve(self, ring_dim: int, num_bytes: int) -> None:
        """Take memory for so many bytes of rows of `ring_dim` words from the system now, as far as the budget allows.

        Reads then find it there. On a virtual machine whose host gives memory at its first use, that is seconds a GB.
        """
        self.handle.reserve(ring_dim, num_bytes)

    def plan(self, uses: Iterable[KeyUse], *, lead: int = 0) -> KeyPlan:
        """Make a future known, until the plan is closed. It begins once `lead` uses of other plans are over."""
        return self.handle.plan([(use.name, use.limbs) for use in uses], lead)

    def residents(self) -> list[ResidentKey]:
        """The keys with rows in memory."""
        return [ResidentKey(KeyName(*name), limbs, size) for name, limbs, size in self.handle.residents()]

    def take_reads(self) -> list[KeyRead]:
        """The reads that have ended since the last call, the oldest first; at most the latest 4096."""
        return [KeyRead(KeyName(*read[0]), *read[1:]) for read in self.handle.take_reads()]

    def forget_tenant(self, tenant: str) -> None:
        """Let go of a tenant's keys; those in use go after their use. Close its plans and sessions first."""
        self.handle.forget_tenant(tenant)

    def session(
        self, tenant: str, digest: str, plan: KeyPlan | None = None, *, secret_tag: str | None = None
    ) -> KeySession:
        """Access to one tenant's keys under one set of parameters; each get moves `plan` on.

        With `secret_tag`, keys of another secret key are refused, even if imported since; without, it is the tenant's
        oldest key pair that is used. The pair is not retired while the session exists.
        """
        return self.handle.session(tenant, digest, plan, secret_tag)

    def stats(self) -> CacheStats:
        """The counters so far."""
        return CacheStats(**self.handle.stats())
