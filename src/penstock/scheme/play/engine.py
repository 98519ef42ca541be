"""The engine, loaded with a remedy where it cannot be."""

from __future__ import annotations

from penstock.base.system import remedy
from penstock.base.system.limits import shortage
from penstock.errors import CapabilityMissing, PenstockError

try:
    from penstock import _engine
except ImportError as error:
    if (lacking := shortage(error)) is not None:
        raise PenstockError(lacking) from error
    raise CapabilityMissing(f"the engine penstock._engine cannot be loaded ({error}): {remedy.engine()}") from error

__all__ = ["_engine"]
