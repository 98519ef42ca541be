"""Evaluation keys out of core: segment files on disk or in an object store, a byte budget in memory, many tenants.

The work is done in Rust (`crates/penstock-store`). This package checks arguments and talks in the types
of the rest of penstock. Format, guarantees and commands: `docs/guides/keystore.md`.
"""

from penstock._engine import KeyPlan as KeyPlan
from penstock._engine import KeySession as KeySession
from penstock.errors import BudgetTooSmall as BudgetTooSmall
from penstock.errors import KeyDamaged as KeyDamaged
from penstock.errors import KeyMissing as KeyMissing
from penstock.errors import KeyRefused as KeyRefused
from penstock.runtime.keystore.cache import KeyCache as KeyCache
from penstock.runtime.keystore.cache import KeyUse as KeyUse
from penstock.runtime.keystore.place import StorePlace as StorePlace
from penstock.runtime.keystore.place import local_folder as local_folder
from penstock.runtime.keystore.store import (
    ImportedKey as ImportedKey,
)
from penstock.runtime.keystore.store import (
    KeyName as KeyName,
)
from penstock.runtime.keystore.store import (
    KeyStore as KeyStore,
)
from penstock.runtime.keystore.store import (
    StoredKey as StoredKey,
)
from penstock.runtime.keystore.store import (
    VerifiedKey as VerifiedKey,
)
from penstock.runtime.keystore.store import (
    check_tenant as check_tenant,
)
from penstock.runtime.keystore.store import (
    is_segment as is_segment,
)
from penstock.runtime.keystore.store import (
    parameter_digest as parameter_digest,
)
from penstock.runtime.keystore.store import (
    require_store as require_store,
)
