"""How far transfers run ahead of compute in the time mode `overlap`, as a person says it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from penstock.errors import UnknownName, UsageError
from penstock.simulation.own import OwnFile, is_own, own_file_at
from penstock.units import format_bytes

PREFETCHES = ("none", "next-1", "perfect")


@dataclass(frozen=True, slots=True)
class Prefetch:
    """How far transfers run ahead of compute: by operations, by bytes, by both or by neither."""

    depth: int | None = 1
    """Operations; 0: a transfer starts when its own operation may; `None`: no limit."""
    buffer_bytes: int | None = None
    """Bytes of the operations under way; `None`: no limit."""
    own: OwnFile | None = field(default=None, repr=False)
    """A prefetcher of the user's own, which says how far each operation's loads run ahead."""

    def __post_init__(self) -> None:
        for value, what in ((self.depth, "depth"), (self.buffer_bytes, "buffer")):
            if value is not None and value < 0:
                raise UsageError(f"prefetch {what} {value}: it is not negative")

    def __str__(self) -> str:
        name = (
            self.own.name
            if self.own
            else "perfect"
            if self.depth is None
            else "none"
            if self.depth == 0
            else f"next-{self.depth}"
        )
        return name if self.buffer_bytes is None else f"{name}, {format_bytes(self.buffer_bytes).split(' (')[0]}"


def parse_prefetch(text: str, buffer_bytes: int | None = None, what: str = "prefetch") -> Prefetch:
    """`none`, `next-K` (K operations ahead), `perfect` (as early as the buffer allows), or a Python file of one's own.

    Raises: UsageError: perfect prefetching without a buffer; a buffer without prefetching; of the file. UnknownName.
    >>> parse_prefetch("next-4")
    Prefetch(depth=4, buffer_bytes=None)
    >>> str(parse_prefetch("perfect", 64_000_000))
    'perfect, 64 MB'
    """
    if text == "none":
        if buffer_bytes is not None:
            raise UsageError(f"{what} none needs no buffer: leave the buffer out, or name next-K or perfect")
        return Prefetch(depth=0)
    if text == "perfect":
        if buffer_bytes is None:
            raise UsageError(f"{what} perfect runs ahead as far as its buffer allows: state the buffer's size")
        return Prefetch(depth=None, buffer_bytes=buffer_bytes)
    if is_own(text):
        return Prefetch(depth=None, buffer_bytes=buffer_bytes, own=own_file_at(text, "prefetch"))
    found = re.fullmatch(r"next-(\d+)", text)
    if found is None:
        raise UnknownName(what, text, PREFETCHES)
    return Prefetch(depth=int(found.group(1)), buffer_bytes=buffer_bytes)
