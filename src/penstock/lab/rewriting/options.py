"""What a user may say to the passes."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteOptions:
    """Settings of all passes; each reads its own.

    Raises: UsageError: a value out of range.
    """

    unroll: bool = False
    """`hoist`: a rotation of a rotated ciphertext becomes one of the first ciphertext, by another key: the opposite of
    `min-ks`."""
    stretch: float = 2.0
    """`min-ks`: a group of rotations may become so many times as many rotations."""
    repeats: int = 2
    """`min-ks`: a rotation that stands alone may become so many rotations by a key that is kept; 1: it stays."""
    window: int = 1024
    """`reorder`: operations that are looked at ahead of the first that has not run, at most."""
    cache_bytes: int | None = None
    """`reorder`: the cache (LRU) that keys are shared in; room for two full keys if omitted."""

    def __post_init__(self) -> None:
        if not self.stretch >= 1:  # not a number is neither
            raise UsageError(f"stretch {self.stretch}: a group becomes at least as many rotations; use 1 or more")
        if self.repeats < 1:
            raise UsageError(f"repeats {self.repeats}: a rotation becomes at least one; use 1 or more")
        if self.window < 1:
            raise UsageError(f"window {self.window}: it holds at least the next operation; use 1 or more")
        if self.cache_bytes is not None and self.cache_bytes < 0:
            raise UsageError(f"a cache of {self.cache_bytes} bytes: it is not negative")
