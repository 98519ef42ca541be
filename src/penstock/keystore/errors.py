"""What the key store refuses, by what the caller can do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import CheckFailed, PenstockError, UsageError


class KeyMissing(PenstockError):
    """The tenant has no such key; the message has the command that imports it."""


class KeyDamaged(CheckFailed):
    """A segment is not what was imported: truncated, flipped, swapped. Import the key again."""


class KeyRefused(UsageError):
    """The request is wrong: other parameters, another tenant's key, bytes that are no key."""


class BudgetTooSmall(UsageError):
    """What is to be in memory at once does not fit the budget."""


class StoreUnusable(PenstockError):
    """The file system, the index or the object store refused."""


@contextmanager
def store_errors() -> Iterator[None]:
    """Turn the exceptions of the Rust store into penstock's."""
    try:
        yield
    except LookupError as error:
        raise KeyMissing(str(error)) from error
    except MemoryError as error:
        raise BudgetTooSmall(str(error)) from error
    except OSError as error:
        raise StoreUnusable(str(error)) from error
    except RuntimeError as error:
        raise KeyDamaged(str(error)) from error
    except (ValueError, OverflowError) as error:
        raise KeyRefused(str(error)) from error
