"""Evaluation keys out of core: segment files on disk or in an object store, a byte budget in memory, many tenants.

The work is done in Rust (`crates/penstock-store`). This package checks arguments and talks in the types
of the rest of penstock. Format, guarantees and commands: `docs/guides/keystore.md`.
"""

from penstock._engine import KeyPlan, KeySession
from penstock.errors import BudgetTooSmall, KeyDamaged, KeyRefused
from penstock.runtime.keystore.cache import KeyCache, KeyUse
from penstock.runtime.keystore.place import StorePlace, local_folder
from penstock.runtime.keystore.store import (
    KeyName,
    KeyStore,
    StoredKey,
    check_tenant,
    is_segment,
    parameter_digest,
    require_store,
)

__all__ = [
    "BudgetTooSmall",
    "KeyCache",
    "KeyDamaged",
    "KeyName",
    "KeyPlan",
    "KeyRefused",
    "KeySession",
    "KeyStore",
    "KeyUse",
    "StorePlace",
    "StoredKey",
    "check_tenant",
    "is_segment",
    "local_folder",
    "parameter_digest",
    "require_store",
]
