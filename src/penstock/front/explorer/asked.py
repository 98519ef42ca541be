"""A question to the engine: a state, some of its axes widened; and the command line for the same question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.base.types import Row
from penstock.front.explorer.library import Library
from penstock.front.explorer.state import State
from penstock.lab.advice.words import Setting
from penstock.lab.simulation.question import Question
from penstock.lab.simulation.worded import worded_question
from penstock.lab.simulation.words import OF_HOSTS, OF_LEVELS, SETTINGS, WORDS, Words
from penstock.scheme.machines import Machine

OF_VIEWS = (
    dict.fromkeys((*OF_HOSTS, "sharing"), "hosts") | dict.fromkeys(OF_LEVELS, "levels") | {"interleave": "tenants"}
)
"""Word -> what alone looks at it: several hosts, or a view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Rows of one program: for each machine, cache, number of hosts, tier and time mode."""

    state: State
    machines: tuple[str, ...]
    tiers: tuple[str, ...]
    modes: tuple[str, ...]
    hosts: tuple[int, ...]
    hit_ratios: tuple[float, ...] | None
    """`None`: the cache of the state."""
    levels: tuple[str, ...]
    """Instead of tiers and a cache, as `--levels` takes them."""
    tenants: tuple[int, ...]
    """Numbers of users of the program; empty: it runs alone."""

    @classmethod
    def of(
        cls,
        state: State,
        *,
        tier: str | None = None,
        machines: Sequence[str] | None = None,
        tiers: Sequence[str] | None = None,
        modes: Sequence[str] | None = None,
        hosts: Sequence[int] | None = None,
        hit_ratios: Sequence[float] | None = None,
        levels: Sequence[str] = (),
        tenants: Sequence[int] = (),
    ) -> Asked:
        """The one point of a state, or more where axes are given; `tier` replaces the state's own."""
        forced = (state.hit_ratio,) if state.hold == "ratio" else None
        return cls(
            state=state,
            machines=_distinct(machines or (state.machine,)),
            tiers=_distinct(tiers or (tier or state.tier,)),
            modes=_distinct(modes or (state.mode,)),
            hosts=tuple(dict.fromkeys(hosts or (state.hosts,))),
            hit_ratios=forced if hit_ratios is None else tuple(dict.fromkeys(hit_ratios)),
            levels=tuple(levels),
            tenants=tuple(tenants),
        )

    @property
    def networked(self) -> bool:
        """Whether hosts talk: one host alone has no network."""
        return self.hosts != (1,)

    def words(self, library: Library) -> Row:
        """The words of the question, as `Words` has them, texts only. The usual values are left out.

        Raises: UnknownName: no such machine, tier, network or file of the start.
        """
        state = self.state
        words = {**state.words(), "machine": tuple(map(library.machine_text, self.machines)), "mode": self.modes}
        if self.levels:
            words["levels"] = tuple(map(library.levels, self.levels))
            words |= {} if state.policy == "lru" else {"policy": (library.policy(state.policy),)}
        else:
            for text in self.tiers:
                library.tier(text)
            words["tier"] = self.tiers
            if self.hit_ratios is None:
                words |= {"cache": (state.cache,), "policy": (library.policy(state.policy),)}
            elif self.hit_ratios != (0.0,):
                words["hit_ratio"] = self.hit_ratios
        if "overlap" in self.modes and state.prefetch != "next-1":
            words |= state.loads_ahead() | {"prefetch": (library.policy(state.prefetch),)}
        if self.networked:
            library.network(state.network)
            words |= {"hosts": ",".join(map(str, self.hosts)), "network": (state.network,)}
            words["partition"] = (state.partition,)
        if self.tenants:
            words["tenants"] = ",".join(map(str, self.tenants))
        here = {"": True, "hosts": self.networked, "levels": self.levels, "tenants": self.tenants}
        used = {name: value for name, value in words.items() if here[OF_VIEWS.get(name, "")]}
        return {name: value for name, value in used.items() if value != WORDS[name].usual}

    def question(self, library: Library, machines: Sequence[Machine]) -> Question:
        """The same as a question to the simulator.

        Raises: as `words` and `worded_question`.
        """
        words = self.words(library) | {"machine": tuple(machines)}
        return worded_question(Words(**words), set(words), SETTINGS).question

    def command(self, library: Library) -> str:
        """The command that prints the same rows, as a shell takes it."""
        return setting_of(library, self.state, self.words(library)).command() or ""


def setting_of(library: Library, state: State, words: Row | None = None) -> Setting:
    """The program of a state as verbs take it, with its parameters where it has none of its own."""
    traced = library.trace_path(state.workload)
    if traced is not None:
        return Setting(program=str(traced), words=words or {})
    return Setting(program=library.program(state.workload), params=state.params or None, words=words or {})


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
