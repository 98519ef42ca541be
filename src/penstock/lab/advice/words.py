"""A point of a question in the words of a person: what to change in them, and the command that they make.

>>> setting = Setting(program="inner-product", params="sharp", words={"machine": ("sharp",), "tier": ("pcie5",)})
>>> setting.command()
'penstock simulate inner-product --params sharp --machine sharp --tier pcie5'
>>> setting.changed(tier=("hbm",), cache=("1 GiB",)).command()
"penstock simulate inner-product --params sharp --machine sharp --tier hbm --cache '1 GiB'"
"""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from penstock.base.types import Row, Rows, RowView
from penstock.lab.simulation.question import Levels, Question
from penstock.lab.simulation.worded import WordedQuestion, worded_question
from penstock.lab.simulation.words import OPTIONS, WORDS, Words
from penstock.scheme.machines import Machine

_AXES = {word.name for word in OPTIONS.taken() if word.axis} | {"prefetch_depth", "prefetch_buffer"}
"""Words that `words_of_points` takes apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A program, and the words of one point."""

    program: str | None
    """As a command names it; `None`: it is in memory only, and has no command."""
    words: RowView
    """Of `Words`; several values as tuples, the machine and the tier as texts."""
    machine: Machine | None = None
    """The machine itself, where it is loaded."""
    params: str | None = None
    size: str | None = None
    seed: int = 0
    named: bool = True
    """Whether every value has a text that a command takes."""

    def changed(self, **changes: object) -> Setting:
        """The same with other values of these words; `None` takes a word away."""
        words = {name: value for name, value in {**self.words, **changes}.items() if value is not None}
        return replace(self, words=words)

    def asked(self) -> WordedQuestion:
        """The question.

        Raises: as `worded_question`.
        """
        words = dict(self.words)
        if self.machine is not None:
            words["machine"] = (self.machine,)
        return worded_question(Words(**words), set(words), OPTIONS)

    def of_program(self, program: str) -> Setting:
        """The same of another program, a file that has its own parameters."""
        return replace(self, program=program, params=None, size=None, seed=0)

    def target(self) -> list[str]:
        """The program and its parameters as arguments."""
        arguments = [str(self.program)]
        arguments += ["--params", self.params] if self.params else []
        arguments += ["--size", self.size] if self.size else []
        return arguments + (["--seed", str(self.seed)] if self.seed else [])

    def command(self) -> str | None:
        """`penstock simulate` with these words; `None`: something has no name."""
        if self.program is None or not self.named:
            return None
        arguments = ["penstock", "simulate", *self.target()]
        words = dict(self.words)
        beside = words.get("beside", ())
        if beside and set(beside) == {self.program}:  # users of the one program
            words["tenants"] = str(len(words.pop("beside")) + 1)
        for name in WORDS:
            arguments += options(name, words[name]) if name in words else []
        return shlex.join(arguments)


def options(name: str, value: object) -> list[str]:
    """A word with its value as arguments; several values as a tuple."""
    option = OPTIONS(name)
    if isinstance(value, bool):
        return [option] if value else []
    if isinstance(value, str) or not isinstance(value, Iterable):
        return [option, str(value)]
    return [text for part in value for text in (option, str(part))]


def words_of_points(asked: WordedQuestion, question: Question) -> Rows:
    """The words of each point of a question on its one machine, in the order of `Question.points_on`, without machine.

    >>> asked = worded_question(Words(machine=["sharp"], tier=["hbm", "pcie5"]), {"machine", "tier"}, OPTIONS)
    >>> words_of_points(asked, asked.question)
    [{'tier': ('hbm',)}, {'tier': ('pcie5',)}]
    """
    words, given = asked.words, asked.given
    fixed: Row = {}
    for name in WORDS:
        if name in given and name not in _AXES:
            value = getattr(words, name)
            fixed[name] = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
    policies, tiers = _each("policy", words.policy), _each("tier", map(text_of, words.tier))
    if isinstance(question.holds, Levels):
        holds, tiers = _all(_each("levels", map(str, words.levels)), policies), [{}]
    else:
        holds = _each("hit_ratio", words.hit_ratio) if question.holds.hit_ratios else []
        holds += _all(_each("cache", words.cache), policies) if words.cache else []
    clusters: Rows = [{}]
    if question.clusters:
        partitions = _each("partition", words.partition if "partition" in given else ())
        hosts = [{"hosts": str(count)} for count in dict.fromkeys(map(int, words.hosts.split(",")))]
        clusters = _all(partitions, _each("network", map(str, words.network)), hosts)
    depth = f"next-{words.prefetch_depth}" if words.prefetch_depth else "none"
    ahead = _each("prefetch", words.prefetch or ((depth,) if "prefetch_depth" in given else ()))
    for prefetch in ahead:
        prefetch |= {"prefetch_buffer": words.prefetch_buffer} if words.prefetch_buffer and prefetch != _NONE else {}
    modes: Rows = []
    for mode in question.modes:
        modes += _all([{} if mode == "serial" else {"mode": (mode,)}], ahead if mode == "overlap" else [{}])
    return _all([fixed], holds, clusters, tiers, modes)


_NONE = {"prefetch": ("none",)}


def _each(word: str, values: Iterable[Hashable]) -> Rows:
    """One value at a time; none: without the word."""
    return [{word: (value,)} for value in dict.fromkeys(values)] or [{}]


def _all(*axes: Sequence[RowView]) -> Rows:
    """Each with each, the last axis fastest."""
    return [{name: value for part in parts for name, value in part.items()} for parts in product(*axes)]


def text_of(value: object) -> str:
    """A machine or tier as a command names it: its text, or the name of a value."""
    return value if isinstance(value, str) else str(getattr(value, "name", value))
