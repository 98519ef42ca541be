"""The content of a page of the explorer: one flat record of words and numbers, which is also its address.

>>> state = State.from_query({"machine": "sharp", "hit_ratio": "0.9", "tier": "rdma"})
>>> state.hit_ratio, state.to_query()
(0.9, {'tier': 'rdma', 'hit_ratio': '0.9'})
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from penstock.errors import UnknownName, UsageError
from penstock.explorer.bounds import MOST_HOSTS, check_hosts
from penstock.params.rlwe import form_of
from penstock.simulation.caches import POLICIES
from penstock.simulation.cluster.partitions import PARTITIONS
from penstock.simulation.memory.prefetch import Prefetch, parse_prefetch
from penstock.simulation.names import ON_CHIP, classes_named, modes_named, one_of
from penstock.units import parse_bytes, parse_rate

FILE = "file:"
"""Prefix of the names of files that were named at the start."""
HOLDS = ("ratio", "cache")
"""What stands between compute and the tier: a stated hit ratio, or a cache of a size."""
PATTERNS = ("sequential", "random")
SCAN_ENDS = ("pcie", "none")
SHAPES = ("points", "map")
PICKS = ("best", "median", "worst")
MAX_TEXT = 200
"""Characters of one value of an address."""
MAX_OPERATIONS = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One point of the what-if page, and the contents of its views. Names are checked where they are looked up."""

    workload: str = "bootstrapping"
    """A workload; `run:NAME`, the trace of a run folder; `file:NAME`, a program, a package or a trace named at the
    start."""
    params: str = "sharp"
    """Empty: the set that the machine was built for, where the program runs on it; else the size's own."""
    machine: str = "sharp"
    """A machine of the catalogue, `run:NAME` (fitted by a run), or `file:NAME`."""
    tier: str = "pcie5"
    """A name, or a bandwidth with its unit."""
    mode: str = "serial"
    classes: str = "keys"
    key_form: str = ""
    """The form of stored and moved keys; empty: as the parameter set says."""
    hold: str = "ratio"
    hit_ratio: float = 0.0
    cache: str = ON_CHIP
    policy: str = "lru"
    """A name, or `file:NAME` of a file named at the start."""
    prefetch: str = "next-1"
    """The same. Only the mode `overlap` looks at it."""
    buffer: str = "1 GB"
    """Only perfect prefetching looks at it."""
    hosts: int = 1
    network: str = "ethernet-400"
    """Only several hosts talk."""
    partition: str = "rplp"
    drive: str = ""
    """A drive whose simulated bandwidth replaces the tier's; empty: the tier's own."""
    pattern: str = "sequential"
    queue_depth: int = 1024
    scan_end: str = "pcie"
    """Where the pages of the drive view end: in the host's memory, or out of error correction."""
    other: str = "ark"
    """The machine that is compared."""
    levels: str = ""
    """Levels of memory of the levels view, as `--levels` takes them; empty: the machine's own memory over the tier."""
    run: str = ""
    other_run: str = ""
    predictions: str = ""
    """A file of predictions named at the start; empty: the first."""
    query: str = "ssc"
    """The workload of a design space."""
    shape: str = ""
    """Of the drawing of a sweep: `points` or `map`; empty: points."""
    x: str = ""
    """What a sweep's drawing shows across, up, as colour, and in the cells of its map: axes and measures by name."""
    y: str = ""
    by: str = ""
    z: str = ""
    pick: str = ""
    """Which point stands for a cell of the map: `best`, `median` or `worst`."""
    where: str = ""
    """Filters of a sweep's points: `axis=value; axis=value`."""
    first: int = 0
    """The window of operations of the residency view, `first` to `last`; `last` 0: to the end."""
    last: int = 0

    def __post_init__(self) -> None:
        for what, name, known in (
            ("hold", self.hold, HOLDS),
            ("pattern", self.pattern, PATTERNS),
            ("end of scans", self.scan_end, SCAN_ENDS),
            ("shape", self.shape, ("", *SHAPES)),
            ("pick", self.pick, ("", *PICKS)),
            ("partition", self.partition, PARTITIONS),
        ):
            one_of(what, name, known)
        if not self.policy.startswith(FILE):
            one_of("replacement policy", self.policy, POLICIES)
        modes_named([self.mode])
        classes_named([self.classes])
        form_of(self.key_form or None)
        if not (math.isfinite(self.hit_ratio) and 0 <= self.hit_ratio <= 1):
            raise UsageError(f"hit_ratio {self.hit_ratio}: it lies between 0 and 1")
        check_hosts(self.hosts)
        for name, most in (("hosts", MOST_HOSTS), ("queue_depth", 2**16)):
            if not 1 <= getattr(self, name) <= most:
                raise UsageError(f"{name} {getattr(self, name)}: it lies between 1 and {most}")
        if not 0 <= self.first <= MAX_OPERATIONS or not 0 <= self.last <= MAX_OPERATIONS:
            raise UsageError(f"operations {self.first} to {self.last}: numbers of operations are not negative")
        if self.cache != ON_CHIP:
            parse_bytes(self.cache, "cache")
        if not self.prefetch.startswith(FILE):
            self.ahead(self.prefetch)

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> State:
        """The state of an address.

        Raises: UnknownName: no such name, of a field or of a value; UsageError: a value that is too long, no number,
                or out of range.
        """
        known = {field.name: type(field.default) for field in fields(cls)}
        values: dict[str, Any] = {}
        for name, text in query.items():
            if name not in known:
                raise UnknownName("setting", name[:MAX_TEXT], known)
            if len(text) > MAX_TEXT:
                raise UsageError(f"{name} has {len(text)} characters: at most {MAX_TEXT} are read")
            values[name] = _read(name, text, known[name])
        return cls(**values)

    def to_query(self) -> dict[str, str]:
        """The settings that are not the default, as an address has them; `from_query` gives the state again."""
        return {
            field.name: str(getattr(self, field.name))
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }

    @property
    def class_names(self) -> tuple[str, ...]:
        """Classes that are not resident, as `--classes` has them."""
        return tuple(dict.fromkeys(name.strip() for name in self.classes.split(",") if name.strip()))

    @property
    def prefetch_buffer(self) -> str | None:
        """The buffer of loads ahead, where they have one."""
        return self.buffer if self.prefetch == "perfect" else None

    def ahead(self, prefetch: str) -> Prefetch:
        """The depth of prefetch, in mode `overlap`. `prefetch`: as options name it."""
        buffer = None if self.prefetch_buffer is None else parse_bytes(self.prefetch_buffer, "buffer")
        return parse_prefetch(prefetch, buffer)


def own_rate(text: str) -> bool:
    """Whether this is a bandwidth with its unit, and no name.

    Raises: UnitError: it starts like a number, but is not a bandwidth.
    >>> own_rate("3.5 GB/s"), own_rate("pcie5")
    (True, False)
    """
    if not re.match(r"\s*[+-]?\.?\d", text):
        return False
    parse_rate(text)
    return True


def _read(name: str, text: str, kind: type[Any]) -> Any:
    if kind is str:
        if any(ord(character) < 32 for character in text):
            raise UsageError(f"{name} has control characters: write it in one line of plain text")
        return text
    try:
        if kind is int and not text.isascii():
            raise ValueError
        return kind(text)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise UsageError(f"{name} '{text}' is not {wanted}") from None
