"""The table of the words of a question: each declared once, with its type, unit, default, help, group and spellings.

Options of `penstock simulate`, arguments of `penstock.simulate`, keys of a sweep's file, settings of the explorer's
address, shell completion and the commands of advice are made from it. A front end that does not take a word says why.

>>> OPTIONS("hit_ratio"), OPTIONS.give("mode", "overlap"), KEYS.give("mode", "overlap")
('--hit-ratio', '--mode overlap', 'mode = "overlap"')
>>> KEYS.field("with"), SETTINGS.field("buffer")
('beside', 'prefetch_buffer')
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, get_args

from penstock.base.types import Row
from penstock.errors import UnknownName, UsageError
from penstock.scheme.machines import STUDY_TIERS

if TYPE_CHECKING:
    from penstock.scheme.machines import Machine, Tier

Front = Literal["option", "argument", "key", "setting"]
FRONTS: dict[Front, str] = {
    "option": "penstock simulate", "argument": "penstock.simulate", "key": "a sweep's file", "setting": "the explorer",
}  # fmt: skip
"""The front ends, with their names for people."""
Takes = Literal["text", "list", "counts", "number", "count", "flag"]
"""A text, texts with commas between, whole numbers with commas between, a number, a whole number, yes or no."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionWord:
    """One word of a question."""

    name: str
    """Of its field in `Words`."""
    usual: object
    """The value where nobody says one."""
    group: str
    """Heading in a help."""
    help: str
    """`{known}` stands for the known values."""
    takes: Takes = "text"
    unit: str | None = None
    """Of a size, rate, time or number, as a person writes one."""
    metavar: str | None = None
    several: bool = False
    """Whether it may be repeated."""
    axis: bool = False
    """Whether each value makes further points."""
    swept: bool = False
    """Whether it is an axis of sweeps only."""
    registry: str = ""
    """`module:NAME` of the known values, below `penstock`."""
    strict: bool = False
    """Whether the known values are all."""
    completes: tuple[str, ...] = ()
    """Values that a shell completes besides the known ones (`*.py`: files), or the kind of names that it knows."""
    spelled: Mapping[str, str] = field(default_factory=dict)
    """Front -> the word there, where it is not its name."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Front -> why it does not take the word."""

    def known(self) -> tuple[str, ...]:
        """The known values; empty: any text."""
        if not self.registry:
            return ()
        module, _, name = self.registry.partition(":")
        values = getattr(import_module(f"penstock.{module}"), name)
        return tuple(str(getattr(value, "value", value)) for value in get_args(values) or values)

    def fronts(self) -> list[Front]:
        """The front ends that take it."""
        return [front for front in FRONTS if front not in self.refused]

    def text(self) -> str:
        """Its help, with the known values."""
        return self.help.replace("{known}", ", ".join(self.known())) if "{known}" in self.help else self.help


def _word(usual: Any, group: str, help: str, metavar: str | None = None, **more: Any) -> Any:
    """A field of `Words`, with the other fields of its `QuestionWord`."""
    return field(default=usual, metadata={"usual": usual, "group": group, "help": help, "metavar": metavar, **more})


_MACHINE, _CACHE, _LEVELS = "Machine and memory", "Cache and policy", "Levels of memory"
_PROGRAMS, _HOSTS = "Several programs", "Several hosts"
GROUPS = (_MACHINE, _CACHE, _LEVELS, _PROGRAMS, _HOSTS)
"""Headings of a help, in their order."""
_MANY: Row = {"several": True, "axis": True}
_ALONE = {"setting": "a page shows one program; its view 'tenants' plays 1, 2, 4 and 8 users of it"}
_OF_LEVELS = {"key": "no column of a sweep tells points of two values apart; write it into a file of levels"}
_OF_TENANTS = _ALONE | {"key": "a sweep plays one user of a program; write other programs at the same time as 'with'"}


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What a person may say, as texts; machines and tiers also as values. The fields are the table."""

    machine: Sequence[str | Machine] = _word(
        (), _MACHINE, "A machine's name or .toml file; may be repeated.", **_MANY, completes=("machine",)
    )
    tier: Sequence[str | Tier] = _word(
        STUDY_TIERS, _MACHINE,
        "Source of data: a name, a .toml file or a bandwidth ('3.5 GB/s'); may be repeated.",
        **_MANY, completes=("tier",), unit="bytes/s", spelled={"argument": "tiers"},
    )
    mode: Sequence[str] = _word(
        ("serial",), _MACHINE, "serial: transfer, then compute; overlap: load ahead; bound: the slower of the two.",
        **_MANY, registry="scheme.play.hierarchy:MODES",
    )
    hit_ratio: Sequence[float] = _word(
        (), _MACHINE, "Share of the bytes that is on chip; may be repeated.", "RATIO", **_MANY, takes="number"
    )
    cache: Sequence[str] = _word(
        (), _CACHE, "A cache of this size ('1 GiB'), or of the machine's on-chip memory.", "SIZE|on-chip",
        **_MANY, unit="bytes",
    )
    policy: Sequence[str] = _word(
        (), _CACHE,
        "Replacement: lru (default), belady, optimal, …, or a file of your own; an unknown name lists all.",
        "NAME|FILE.py", **_MANY, registry="scheme.play.caches:POLICIES", completes=("*.py",),
    )
    classes: str | Sequence[str] = _word(
        "keys", _MACHINE, "Data that is not resident: {known}, separated by commas.",
        takes="list", registry="lab.simulation.names:CLASSES",
    )
    key_form: str | Sequence[str] | None = _word(
        None, _MACHINE,
        "Form of stored and moved keys: {known}. Default: the parameter set's.",
        "FORM", swept=True, registry="scheme.params.rlwe:KeyForm",
    )
    decode: str | None = _word(
        None, _MACHINE, "Loaded bytes are decoded at this rate ('0.27 GB/s').", "RATE", unit="bytes/s"
    )
    prefetch_depth: int = _word(
        1, _CACHE, "Operations that --mode overlap loads ahead.", "K", takes="count", unit="operations",
        refused=dict.fromkeys(("argument", "key", "setting"), "prefetch next-K says the same"),
    )
    hosts: str = _word(
        "1", _HOSTS, "Hosts: '8' or '1,2,4,8,16,32'.", "N[,N…]", axis=True, takes="counts", unit="hosts"
    )
    network: Sequence[str] = _word(
        (), _HOSTS,
        "Network between hosts: a name ('ethernet-400'), a .toml file or a bandwidth ('100 Gb/s'); repeatable.",
        **_MANY, completes=("network",), unit="bits/s",
    )
    topology: str | Sequence[str] = _word(
        "star", _HOSTS, "{known}, with parameters ('fat-tree:k=8', 'torus:rows=4'), or a .toml file.",
        swept=True, registry="lab.simulation.cluster.topology:TOPOLOGIES",
    )
    partition: Sequence[str] = _word(
        ("rplp",), _HOSTS, "What goes to which host: {known}; may be repeated.",
        **_MANY, registry="lab.simulation.cluster.partitions:PARTITIONS",
    )
    all_gather: str = _word(
        "direct", _HOSTS, "Algorithm: {known}.", registry="lab.simulation.cluster.collectives:ALL_GATHERS"
    )
    broadcast: str = _word(
        "scatter", _HOSTS, "Algorithm: {known}.", registry="lab.simulation.cluster.collectives:BROADCASTS"
    )
    sharing: str = _word(
        "equal", _HOSTS, "Messages share a link: equal, or by-latency (less over long routes, as TCP does).", "RULE",
        registry="lab.simulation.cluster.flows:Sharing", strict=True,
        refused={"key": "no column of a sweep tells points of two rules apart"},
    )
    simgrid: bool = _word(
        False, _HOSTS, "Let SimGrid play the messages, as a check.", takes="flag",
        refused={
            "key": 'simgrid is an engine: write engine = ["penstock", "simgrid"]',
            "setting": "SimGrid takes seconds for each point, too long for a page",
        },
    )
    engine: Sequence[str] = _word(
        (), _HOSTS, "The player of messages between hosts: {known}.", **_MANY,
        registry="lab.simulation.question:ENGINES",
        refused={
            "option": "SimGrid plays messages with --simgrid", "argument": "SimGrid plays messages with simgrid=True",
            "setting": "SimGrid takes seconds for each point, too long for a page",
        },
    )
    levels: Sequence[str] = _word(
        (), _LEVELS,
        "Memory levels, fastest first, instead of --tier and --cache: 'on-chip,hbm2:40 GB,nvme-gen4' "
        "(NAME[:SIZE[:POLICY]] or NAME:hit=RATIO; the last holds everything) or a .toml file; may be repeated.",
        "FILE|NAME:SIZE,…", **_MANY,
    )
    inclusion: str | Sequence[str] | None = _word(
        None, _LEVELS, "What a level holds of those above: {known}.", "RULE",
        swept=True, registry="lab.simulation.memory.levels:INCLUSIONS", strict=True,
    )
    pin: Sequence[str] = _word(
        (), _LEVELS, "A class lives in this level from the start: 'ciphertexts=hbm2'.", "CLASS=LEVEL",
        several=True, refused=_OF_LEVELS,
    )
    share: Sequence[str] = _word(
        (), _LEVELS, "A class has this much of a level for itself: 'keys=on-chip:40 MB'.", "CLASS=LEVEL:SIZE",
        several=True, refused=_OF_LEVELS,
    )
    reserve: Sequence[str] = _word(
        (), _LEVELS,
        "Others take this of a level: a size, or a resident with its requests ('hbm2=opt-13b:4'); '@ 30 %' adds a "
        "share of the bandwidth.",
        "LEVEL=WHAT", several=True, refused=_OF_LEVELS,
    )
    prefetch: Sequence[str] = _word(
        (), _CACHE, "How far --mode overlap loads ahead; perfect needs --prefetch-buffer.",
        "none|next-K|perfect|FILE.py", **_MANY, completes=("none", "next-", "perfect", "*.py"),
    )
    prefetch_buffer: str | None = _word(
        None, _CACHE, "Bytes that loads ahead may hold at once ('64 MB').", "SIZE",
        unit="bytes", spelled={"setting": "buffer"},
    )
    beside: Sequence[str] = _word(
        (), _PROGRAMS, "Another program at the same time, with its own keys.", "TRACE|WORKLOAD",
        several=True, completes=("program",), spelled={"option": "with", "key": "with"}, refused=_ALONE,
    )
    tenants: str | None = _word(
        None, _PROGRAMS, "Users of the program at once, each with its own keys: '1..8'.", "N|N..M|N,…",
        takes="counts", unit="tenants", refused=_OF_TENANTS,
    )
    limit: str | None = _word(
        None, _PROGRAMS,
        "Of --tenants: stop where they wait X times as long as one alone, or a time ('450 ms').", "X|TIME",
        unit="s", refused=_OF_TENANTS,
    )
    interleave: str = _word(
        "round-robin", _PROGRAMS, "Turns of programs: round-robin (by operation) or time (by their own compute time).",
        "ORDER|FILE.py", registry="lab.simulation.memory.tenants:ORDERS", completes=("*.py",),
    )
    write_back: bool = _word(
        False, _CACHE, "Ciphertexts that are read again from further down are written there first.", takes="flag"
    )
    inside: str = _word(
        "units", _MACHINE,
        "Time of an operation: units (the slowest one binds), or schedule (its kernels on the units, limb by limb).",
        "MODEL", registry="scheme.machines:InsideModel", strict=True,
        refused={"key": "no column of a sweep tells points of two models apart"},
    )
    compare_policies: bool = _word(
        False, _CACHE, "The gain of a runtime that knows the program, on each tier.", takes="flag",
        refused={
            "argument": "its rows are runtimes, not points: 'penstock simulate --compare-policies' prints them",
            "key": "its rows are runtimes, not points: ask 'penstock simulate --compare-policies'",
            "setting": "its rows are runtimes, not points: ask 'penstock simulate --compare-policies'",
        },
    )
# fmt: on


WORDS: dict[str, QuestionWord] = {word.name: QuestionWord(name=word.name, **word.metadata) for word in fields(Words)}
"""The table, by the name of a word."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """The words as a front end writes them."""

    front: Front

    def __call__(self, word: str) -> str:
        """A word in its written form."""
        written = WORDS[word].spelled.get(self.front, word) if word in WORDS else word
        return f"--{written.replace('_', '-')}" if self.front == "option" else written

    def give(self, word: str, *values: str) -> str:
        """A word with its value, as an example to copy."""
        if self.front == "option":
            return f"{self(word)} {','.join(values)}" if " " not in values[0] else f"{self(word)} '{values[0]}'"
        if self.front == "setting":
            return f"{self(word)}={','.join(values)}"
        written = ", ".join(f'"{value}"' for value in values)
        return f"{self(word)} = {written}" if len(values) == 1 else f"{self(word)} = [{written}]"

    def taken(self) -> list[QuestionWord]:
        """The words that this front end takes, in the order of the table."""
        return [word for word in WORDS.values() if self.front in word.fronts()]

    def field(self, written: str, also: Iterable[str] = (), *, where: str = "") -> str:
        """The field of a written word, or one of the front end's own words.

        Args:   also: words of the front end itself; where: as of `UnknownName`.
        Raises: as `check`; UnknownName: it is nobody's word, with the nearest and where that works.
        """
        own = {self(word.name): word.name for word in self.taken()} | {name: name for name in also}
        if written not in own:
            self.check(written, where)
            raise UnknownName(self.front, written, own, where=where)
        return own[written]

    def check(self, written: str, where: str = "") -> None:
        """Refuse a word of another front end.

        Raises: UsageError: with the reason, and where it works.
        """
        bare, start = written.lstrip("-").replace("-", "_"), f"{where}: " if where else ""
        for word in WORDS.values():
            if bare not in {word.name, *word.spelled.values()}:
                continue
            if self.front in word.refused:
                works = ", ".join(f"{FRONTS[front]} as {Spelling(front)(word.name)}" for front in word.fronts())
                raise UsageError(f"{start}{written}: {word.refused[self.front]} (it works in {works})")
            if self(word.name) != written:
                raise UsageError(f"{start}{written}: {FRONTS[self.front]} writes it {self(word.name)}")


OPTIONS, ARGUMENTS, KEYS, SETTINGS = (Spelling(front) for front in FRONTS)
OF_ONE_HOST = ("levels", "beside", "tenants", "write_back", "compare_policies")
"""Words that play one host."""
OF_LEVELS = ("inclusion", "pin", "share", "reserve")
"""Words that change levels of memory."""
OF_HOSTS = ("topology", "partition", "all_gather", "broadcast")
"""Words that say something of several hosts only."""


def check_used(
    given: Collection[str], spelling: Spelling, *, modes: Collection[str], prefetches: Collection[str], beside: bool
) -> None:
    """A word that changes no point is a slip.

    Args:   given: the user's words; beside: whether several programs run together.
    Raises: UsageError.
    """
    if "interleave" in given and not beside:
        raise UsageError(
            f"{spelling('interleave')} says how programs take turns: name another program, "
            f"{spelling.give('beside', 'WORKLOAD')}"
        )
    for word in ("prefetch", "prefetch_depth", "prefetch_buffer"):
        if word in given and "overlap" not in modes:
            raise UsageError(
                f"{spelling(word)} is of mode overlap, the only one that loads ahead of compute: add "
                f"{spelling.give('mode', 'overlap')}"
            )
    if "prefetch_buffer" in given and set(prefetches) == {"none"}:
        raise UsageError(f"{spelling('prefetch')} none needs no buffer: leave {spelling('prefetch_buffer')} out")


def check_together(given: Collection[str], spelling: Spelling, *, hit_ratio: bool, ciphertexts: bool) -> None:
    """What does not go together.

    Args:   given: the words whose values are not the usual ones; hit_ratio: whether one above 0 is stated;
            ciphertexts: whether they are among the classes.
    Raises: UsageError.
    """
    words, stated = spelling, set(given)
    if "levels" in stated and stated & {"tier", "cache", "hit_ratio"}:
        raise UsageError(
            f"{words('levels')} names caches and tiers itself: leave {words('tier')}, {words('cache')} and "
            f"{words('hit_ratio')} out"
        )
    for word in OF_LEVELS:
        if word in stated and "levels" not in stated:
            example = words.give("levels", "on-chip,hbm:40 GB,nvme-gen5")
            raise UsageError(f"{words(word)} is of levels: name them with {example}")
    if "policy" in stated and not stated & {"cache", "levels"}:
        raise UsageError(
            f"{words('policy')} is the replacement of a cache: give its size with {words.give('cache', '1 GiB')}"
        )
    if "write_back" in stated:
        if hit_ratio:
            raise UsageError(
                f"{words('write_back')}: a stated hit ratio does not say what is read again: leave "
                f"{words('hit_ratio')} out and give {words.give('cache', '1 GiB')}"
            )
        if not ciphertexts and "levels" not in stated:
            raise UsageError(
                f"{words('write_back')} is of ciphertexts, which are resident unless named: add "
                f"{words.give('classes', 'keys', 'ciphertexts')}"
            )
    for word in filter(stated.__contains__, OF_ONE_HOST):
        if stated & {"hosts", "network"}:
            raise UsageError(f"{words(word)} plays one host: leave {words('hosts')} and {words('network')} out")
        if "engine" in stated:
            raise UsageError(f"{words(word)} plays one host, which sends no messages: leave {words('engine')} out")
        for other in filter(stated.__contains__, OF_HOSTS):
            raise UsageError(f"{words(word)} plays one host: leave {words(other)} out")
