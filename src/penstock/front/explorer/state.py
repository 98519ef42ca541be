"""The content of a page of the explorer: one flat record of words and numbers, which is also its address.

Every word of a question that the table (`penstock.lab.simulation.words`) gives to settings is one. Those that pages
need by name are fields; the others are `more`.

>>> state = State.from_query({"machine": "sharp", "hit_ratio": "0.9", "tier": "rdma"})
>>> state.hit_ratio, state.to_query()
(0.9, {'tier': 'rdma', 'hit_ratio': '0.9'})
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from penstock.base.types import Row
from penstock.base.units import parse_rate
from penstock.errors import UnknownName, UsageError
from penstock.front.explorer.bounds import MOST_HOSTS, check_hosts
from penstock.lab.simulation.names import ON_CHIP, one_of
from penstock.lab.simulation.question import PREFETCHES
from penstock.lab.simulation.worded import question_in
from penstock.lab.simulation.words import SETTINGS, QuestionWord, Words
from penstock.scheme.play.own import is_own

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
    more: tuple[tuple[str, str], ...] = ()
    """The other words of the question with unusual values: (setting, value), by name."""

    def __post_init__(self) -> None:
        for what, name, known in (
            ("hold", self.hold, HOLDS),
            ("pattern", self.pattern, PATTERNS),
            ("end of scans", self.scan_end, SCAN_ENDS),
            ("shape", self.shape, ("", *SHAPES)),
            ("pick", self.pick, ("", *PICKS)),
        ):
            one_of(what, name, known)
        check_hosts(self.hosts)
        for name, most in (("hosts", MOST_HOSTS), ("queue_depth", 2**16)):
            if not 1 <= getattr(self, name) <= most:
                raise UsageError(f"{name} {getattr(self, name)}: it lies between 1 and {most}")
        if not 0 <= self.first <= MAX_OPERATIONS or not 0 <= self.last <= MAX_OPERATIONS:
            raise UsageError(f"operations {self.first} to {self.last}: numbers of operations are not negative")
        for name, text in self.to_query().items():
            word = _WORDS.get(name)
            own = name in ("policy", "prefetch") and text.startswith(FILE)
            if word is not None and word.registry and word.takes != "list" and text and not own:
                # A name, never a path; a topology has its parameters after a colon.
                one_of(name.replace("_", " "), text.partition(":")[0], word.known())
        if is_own(self.prefetch) and not self.prefetch.startswith(FILE):
            raise UnknownName("prefetch", self.prefetch, PREFETCHES)
        words = {**self.words(), **self.loads_ahead(), "cache": (self.cache,), "hit_ratio": (self.hit_ratio,)}
        if self.prefetch.startswith(FILE):
            del words["prefetch"]
        question_in(Words(**words), (), SETTINGS)

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> State:
        """The state of an address.

        Raises: UnknownName: no such name, of a field or of a value; UsageError: a value that is too long, no number,
                or out of range.
        """
        known: dict[str, type] = {field.name: type(field.default) for field in fields(cls) if field.name != "more"}
        values, more = Row(), dict[str, str]()
        for name, text in query.items():
            SETTINGS.field(name[:MAX_TEXT], also=known)
            if len(text) > MAX_TEXT:
                raise UsageError(f"{name} has {len(text)} characters: at most {MAX_TEXT} are read")
            if name in known:
                values[name] = _text(name, text) if known[name] is str else _number(name, text, known[name])
            elif text and text != usual(MORE[name]):
                more[name] = _text(name, text)
        return cls(**values, more=tuple(sorted(more.items())))

    def to_query(self) -> dict[str, str]:
        """The settings that are not the default, as an address has them; `from_query` gives the state again."""
        own = (field for field in fields(self) if field.name != "more")
        changed = {
            field.name: str(getattr(self, field.name)) for field in own if getattr(self, field.name) != field.default
        }
        return changed | dict(self.more)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Classes that are not resident, as `--classes` has them."""
        return tuple(dict.fromkeys(name.strip() for name in self.classes.split(",") if name.strip()))

    def text(self, word: str) -> str:
        """The value of a word of the question as this address says it; empty: none."""
        name = SETTINGS(word)
        return dict(self.more).get(name, usual(MORE[name])) if name in MORE else str(getattr(self, name))

    def words(self) -> Row:
        """The words of the question that mean the same on every page, as `Words` has them."""
        words: Row = {"mode": (self.mode,), "classes": ",".join(self.class_names) or self.classes}
        words |= {"key_form": self.key_form} if self.key_form else {}
        for name, text in self.more:
            word = MORE[name]
            if word.takes == "flag":
                words[word.name] = one_of(name, text or FLAGS[0], FLAGS) == FLAGS[1]
            elif text:
                words[word.name] = tuple(part.strip() for part in text.split(";")) if word.several else text
        return words

    def loads_ahead(self) -> Row:
        """Words of loads ahead, of the mode `overlap`."""
        buffer = {"prefetch_buffer": self.buffer} if self.prefetch == "perfect" else {}
        return {"prefetch": (self.prefetch,), **buffer}


FLAGS = ("no", "yes")
"""Values of a word that is said or not."""
_WORDS = {SETTINGS(word.name): word for word in SETTINGS.taken()}
MORE = {name: word for name, word in _WORDS.items() if name not in State.__slots__}
"""The words of `State.more`, by setting."""


def usual(word: QuestionWord) -> str:
    """The value of a word of `MORE` that an address need not say; empty: none."""
    return FLAGS[0] if word.usual is False else str(word.usual or "")


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


def _text(name: str, text: str) -> str:
    if any(ord(character) < 32 for character in text):
        raise UsageError(f"{name} has control characters: write it in one line of plain text")
    return text


def _number(name: str, text: str, kind: type) -> float:
    try:
        if kind is int and not text.isascii():
            raise ValueError
        number: float = kind(text)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise UsageError(f"{name} '{text}' is not {wanted}") from None
    return number
