"""A point of a question in the words of a person: what to change in them, and the command that they make.

>>> setting = Setting(program="inner-product", params="sharp", words={"machine": ("sharp",), "tier": ("pcie5",)})
>>> setting.command()
'penstock simulate inner-product --params sharp --machine sharp --tier pcie5'
>>> setting.changed(tier=("hbm",), cache=("1 GiB",)).command()
"penstock simulate inner-product --params sharp --machine sharp --tier hbm --cache '1 GiB'"
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from penstock.machines import Machine
from penstock.simulation.asking import Asked, asked_in
from penstock.simulation.question import Levels, Question
from penstock.simulation.words import OPTIONS, WORDS, Words

_AXES = {word.name for word in OPTIONS.taken() if word.axis} | {"prefetch_depth", "prefetch_buffer"}
"""Words that `words_of_points` takes apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A program, and the words of one point."""

    program: str | None
    """As a command names it; `None`: it is in memory only, and has no command."""
    words: Mapping[str, Any]
    """Of `Words`; several values as tuples, the machine and the tier as texts."""
    machine: Machine | None = None
    """The machine itself, where it is loaded."""
    params: str | None = None
    size: str | None = None
    seed: int = 0
    named: bool = True
    """Whether every value has a text that a command takes."""

    def changed(self, **changes: Any) -> Setting:
        """The same with other values of these words; `None` takes a word away."""
        words = {name: value for name, value in {**self.words, **changes}.items() if value is not None}
        return replace(self, words=words)

    def asked(self) -> Asked:
        """The question.

        Raises: as `asked_in`.
        """
        words = dict(self.words)
        if self.machine is not None:
            words["machine"] = (self.machine,)
        return asked_in(Words(**words), set(words), OPTIONS)

    def of_program(self, program: str) -> Setting:
        """The same of another program, a file that has its own parameters."""
        return replace(self, program=program, params=None, size=None, seed=0)

    def target(self) -> list[str]:
        """The program and its parameters as arguments."""
        found = [str(self.program)]
        found += ["--params", self.params] if self.params else []
        found += ["--size", self.size] if self.size else []
        return found + (["--seed", str(self.seed)] if self.seed else [])

    def command(self) -> str | None:
        """`penstock simulate` with these words; `None`: something has no name."""
        if self.program is None or not self.named:
            return None
        found = ["penstock", "simulate", *self.target()]
        words = dict(self.words)
        beside = words.get("beside", ())
        if beside and set(beside) == {self.program}:  # users of the one program
            words["tenants"] = str(len(words.pop("beside")) + 1)
        for name in WORDS:
            found += _options(name, words[name]) if name in words else []
        return shlex.join(found)


def _options(name: str, value: Any) -> list[str]:
    option = OPTIONS(name)
    if isinstance(value, bool):
        return [option] if value else []
    if isinstance(value, str | int | float):
        return [option, str(value)]
    return [text for each in value for text in (option, str(each))]


def words_of_points(asked: Asked, question: Question) -> list[dict[str, Any]]:
    """The words of each point of a question on its one machine, in the order of `Question.points_on`, without machine.

    >>> asked = asked_in(Words(machine=["sharp"], tier=["hbm", "pcie5"]), {"machine", "tier"}, OPTIONS)
    >>> words_of_points(asked, asked.question)
    [{'tier': ('hbm',)}, {'tier': ('pcie5',)}]
    """
    words, given = asked.words, asked.given
    fixed: dict[str, Any] = {}
    for name in WORDS:
        if name in given and name not in _AXES:
            value = getattr(words, name)
            fixed[name] = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
    found = []
    for hold, cluster, pace in product(
        _holds(words, given, question), _clusters(words, given, question), _paces(words, given, question)
    ):
        found.append({**fixed, **hold, **cluster, **pace})
    return found


def _holds(words: Words, given: Collection[str], question: Question) -> list[dict[str, Any]]:
    policies = [{"policy": (each,)} if "policy" in given else {} for each in _distinct(words.policy) or ["lru"]]
    if isinstance(question.holds, Levels):
        return [{"levels": (text,), **policy} for text in _distinct(map(str, words.levels)) for policy in policies]
    stated = [{"hit_ratio": (ratio,)} if "hit_ratio" in given else {} for ratio in question.holds.hit_ratios]
    return [*stated, *({"cache": (size,), **policy} for size in question.holds.sizes for policy in policies)]


def _clusters(words: Words, given: Collection[str], question: Question) -> list[dict[str, Any]]:
    if not question.clusters:
        return [{}]
    networks: list[str | None] = _distinct(map(str, words.network)) or [None]
    hosts = _distinct(each.strip() for each in words.hosts.split(","))
    return [
        {
            **({"partition": (partition,)} if "partition" in given else {}),
            **({} if network is None else {"network": (network,)}),
            "hosts": str(int(count)),
        }
        for partition, network, count in product(_distinct(words.partition), networks, hosts)
    ]


def _paces(words: Words, given: Collection[str], question: Question) -> list[dict[str, Any]]:
    tiers: list[dict[str, Any]] = [{"tier": (text_of(each),)} for each in _distinct(words.tier)]
    if isinstance(question.holds, Levels):
        tiers = [{}]
    found = []
    for tier, mode in product(tiers, question.modes):
        timed = {**tier, **({"mode": (mode,)} if mode != "serial" else {})}
        if mode != "overlap":
            found.append(timed)
            continue
        for each in question.prefetches:
            name = "perfect" if each.depth is None else "none" if each.depth == 0 else f"next-{each.depth}"
            ahead: dict[str, Any] = {"prefetch": (name,)} if {"prefetch", "prefetch_depth"} & set(given) else {}
            if each.buffer_bytes is not None:
                ahead["prefetch_buffer"] = words.prefetch_buffer
            found.append({**timed, **ahead})
    return found


def text_of(value: Any) -> str:
    """A machine or tier as a command names it: its text, or the name of a value."""
    return value if isinstance(value, str) else str(getattr(value, "name", value))


def _distinct(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))
