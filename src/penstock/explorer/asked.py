"""A question to the engine: a state, some of its axes widened; and the command line for the same question."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.explorer.library import Library
from penstock.explorer.state import State
from penstock.machines import Machine
from penstock.simulation.cluster.spec import Cluster
from penstock.simulation.question import Question, Refused, asked, clusters_of


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
        )

    @property
    def networked(self) -> bool:
        """Whether hosts talk: one host alone has no network."""
        return self.hosts != (1,)

    @property
    def overlaps(self) -> bool:
        return "overlap" in self.modes

    def question(self, library: Library, machines: Sequence[Machine]) -> Question:
        """The same as a question to the simulator.

        Raises: UnknownName: no such tier or network; UsageError.
        """
        state, clusters = self.state, list[Cluster | Refused]()
        if self.networked:
            clusters = clusters_of(self.hosts, [library.network(state.network)], partitions=[state.partition])
        sized = self.hit_ratios is None
        return asked(
            machines,
            [library.tier(text) for text in self.tiers],
            hit_ratios=self.hit_ratios or (),
            caches=[state.cache] if sized else [],
            policies=[library.policy(state.policy)] if sized else [],
            modes=self.modes,
            prefetches=[library.policy(state.prefetch)],
            prefetch_buffer=state.prefetch_buffer,
            clusters=clusters,
            classes=state.class_names,
            key_forms=[state.key_form] if state.key_form else [],
        )

    def argv(self, library: Library) -> list[str]:
        """The words of the command that prints the same rows."""
        state = self.state
        words = ["penstock", "simulate", *program_words(library, state)]
        for machine in self.machines:
            words += ["--machine", library.machine_text(machine)]
        for tier in self.tiers:
            words += ["--tier", tier]
        for mode in self.modes:
            words += ["--mode", mode]
        if self.hit_ratios is None:
            words += ["--cache", state.cache, "--policy", library.policy(state.policy)]
        elif self.hit_ratios != (0.0,):
            words += [word for ratio in self.hit_ratios for word in ("--hit-ratio", repr(ratio))]
        if state.class_names != ("keys",):
            words += ["--classes", ",".join(state.class_names)]
        if state.key_form:
            words += ["--key-form", state.key_form]
        if self.overlaps and state.prefetch != "next-1":
            words += ["--prefetch", library.policy(state.prefetch)]
            words += ["--prefetch-buffer", state.buffer] if state.prefetch == "perfect" else []
        if self.networked:
            words += ["--hosts", ",".join(map(str, self.hosts)), "--network", state.network]
            words += ["--partition", state.partition] if state.partition != "rplp" else []
        return words

    def command(self, library: Library) -> str:
        """The command as a shell takes it."""
        return shlex.join(self.argv(library))


def program_words(library: Library, state: State) -> list[str]:
    """The program of a state as verbs take it, with its parameters where it has none of its own."""
    traced = library.trace_path(state.workload)
    if traced is not None:
        return [str(traced)]
    return [library.program(state.workload), *(["--params", state.params] if state.params else [])]


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
