"""`penstock.simulate`: a program on machines whose keys do not fit in fast memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from penstock.base.types import Row, RowView
from penstock.errors import UsageError
from penstock.front.hall.advising import Advised, advised_as
from penstock.front.hall.arguments import names_arguments
from penstock.front.hall.programs import AskedSet, Home, Program, homes
from penstock.front.hall.result import Result, groups_of, listed, varying
from penstock.lab.advice.simulated import Asks, advise
from penstock.lab.simulation.cluster.simgrid import SimGrid, find_python
from penstock.lab.simulation.memory.levels import Hierarchy
from penstock.lab.simulation.play import OnMachine, answers, answers_among
from penstock.lab.simulation.question import Point, Question
from penstock.lab.simulation.worded import WordedQuestion, worded_question
from penstock.lab.simulation.words import ARGUMENTS, QuestionWord, Words
from penstock.scheme.machines import Machine, Network, Tier, assumptions
from penstock.scheme.machines.missing import of_link
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.play.rows import CLUSTER_COLUMNS, COLUMNS, CROWD_COLUMNS, REAL, TEXT, WHOLE

_AXES = (
    "num_tenants", "hosts", "tier", "cache_bytes", "hit_ratio", "policy", "mode", "prefetch", "machine", "params",
    "network", "topology", "partition",
)  # fmt: skip
"""Columns that a question varies; the first that does is the x axis of a picture."""
_SHOWN = (
    "machine", "params", "tier", "mode", "prefetch", "cache_bytes", "policy", "hit_ratio", "hosts", "network",
    "num_tenants", "compute_s", "io_s", "communication_s", "total_s", "slowdown", "tenant_slowdown", "times_alone",
    "speedup", "energy_j",
)  # fmt: skip
_ALWAYS = frozenset({"machine", "tier", "compute_s", "io_s", "total_s", "slowdown"})
_ARROW = {TEXT: pa.string(), REAL: pa.float64(), WHOLE: pa.int64()}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Simulation(Result):
    """Simulated rows, one a machine, tier, cache, time mode and cluster; docs/guides/memory.md has the columns."""

    asks: tuple[Asks, ...] = ()
    """The question on each machine, for `advice`."""

    TYPES: ClassVar = {
        column.name: _ARROW[column.kind]
        for column in (*COLUMNS, *CLUSTER_COLUMNS, *CROWD_COLUMNS)
        if column.kind in _ARROW
    }

    def advice(self, row: int | None = None) -> Advised:
        """What would help most: a ranked list of changes, each simulated as this result was.

        Args:   row: which row to help (default: the slowest).
        Raises: UsageError: no such row; rows of a sweep, whose points are not kept.
        """
        if not self.asks:
            raise UsageError("a sweep keeps no programs to try changes on: ask penstock.simulate for one of its points")
        return advised_as(advise(self.asks, row))

    def _drawn(self) -> tuple[str | None, str | None]:
        clusters = len(varying(self.rows, ["hosts"])) > 0
        shown = "speedup" if clusters and "speedup" in self.columns else "slowdown"
        along = next(iter(varying(self.rows, _AXES)), "tier")
        return along, "times_alone" if "times_alone" in self.columns else shown

    def _told_apart(self, x: str) -> tuple[str, ...]:
        # A column that follows from those before it (the on-chip memory from the machine) tells nothing more.
        apart: tuple[str, ...] = (x,)
        for name in ("machine", *_AXES):
            if name not in apart and groups_of(self.rows, (*apart, name)) > groups_of(self.rows, apart):
                apart = (*apart, name)
        return apart[1:]


@names_arguments
def simulate(
    program: Program | object,
    machine: str | Path | Machine | Sequence[str | Path | Machine],
    tiers: str | Path | Tier | Sequence[str | Path | Tier] | None = None,
    *,
    params: str | Path | CkksParameters | None = None,
    size: str | None = None,
    seed: int = 0,
    cache: str | Sequence[str] | None = None,
    policy: str | Path | Sequence[str | Path] | None = None,
    hit_ratio: float | Sequence[float] | None = None,
    mode: str | Sequence[str] | None = None,
    prefetch: str | Path | Sequence[str | Path] | None = None,
    prefetch_buffer: str | None = None,
    classes: str | Sequence[str] | None = None,
    key_form: str | None = None,
    decode: str | None = None,
    levels: str | Path | Sequence[str | Path] | None = None,
    inclusion: str | None = None,
    pin: str | Sequence[str] | None = None,
    share: str | Sequence[str] | None = None,
    reserve: str | Sequence[str] | None = None,
    write_back: bool | None = None,
    beside: Program | Sequence[Program] | None = None,
    interleave: str | Path | None = None,
    tenants: int | str | Sequence[int] | None = None,
    limit: float | str | None = None,
    hosts: int | Sequence[int] | None = None,
    network: str | Path | Sequence[str | Path] | None = None,
    topology: str | Path | None = None,
    partition: str | Sequence[str] | None = None,
    all_gather: str | None = None,
    broadcast: str | None = None,
    sharing: str | None = None,
    simgrid: bool | None = None,
    inside: str | None = None,
) -> Simulation:
    """Play a program on machines and over tiers: one row for each machine, cache, tier and mode.

    Each argument has the meaning of the option of `penstock simulate`, and takes one value or several. Without
    `hit_ratio` and `cache` every access comes from the tier.

    Args:   program: as of `penstock.trace`; machine: a name, a .toml file, or a machine; tiers: names, .toml files,
            bandwidths ("3.5 GB/s") or tiers (default: the storage-I/O study's four); params, size, seed: of a workload
            (default: the set that the machine was built for, where the program runs on it); cache: "1 GiB", or
            "on-chip" for the machine's own; policy: lru, belady, optimal, …, or a .py file of your own, as prefetch and
            interleave take one; mode: serial, overlap, bound; levels: several levels of memory
            ("on-chip,hbm:2 GB,nvme-gen5") instead of tiers and cache; beside: programs that run at the same time, with
            keys of their own; tenants: users of the program at once, each with its own keys ("1..8"), a row for each
            number; limit: the last of them is the first that wait longer than this many times one alone, or than a time
            ("450 ms"); hosts, network: a cluster; inside: "schedule" has the kernels of operations scheduled on the
            machine's units.
    Returns: rows in SI units; `assumed` lists the values behind them that nobody stated or measured.
    Raises: UnknownName: a name that does not exist, with the nearest; UsageError, UnitError, MachineError: what
            `penstock simulate` refuses, with the same words.
    """
    asked = _asked_of(dict(locals()))
    asks, notes = _answered(asked, program, params, size, seed, listed(beside))
    result = simulation_of(asked, [answered.answer for answered in asks])
    return replace(result, warnings=(*notes, *result.warnings), asks=tuple(asks))


def _asked_of(arguments: RowView) -> WordedQuestion:
    """The question that arguments ask."""
    given = {
        word.name: _word_of(word, arguments[ARGUMENTS(word.name)])
        for word in ARGUMENTS.taken()
        if arguments[ARGUMENTS(word.name)] is not None
    }
    if others := listed(arguments["beside"]):
        given["beside"] = [
            str(program) if isinstance(program, str | Path) else f"program {i}" for i, program in enumerate(others)
        ]
    asked = worded_question(Words(**given), set(given), ARGUMENTS)
    for machine in asked.question.machines:  # before anything is traced
        asked.question.points_on(machine)
    return asked


def _answered(
    asked: WordedQuestion, program: object, params: AskedSet, size: str | None, seed: int, others: Sequence[object]
) -> tuple[list[Asks], list[str]]:
    """The answers on each machine, and notes on the sets that were taken."""
    messages = SimGrid(python=find_python()) if asked.simgrid else None
    named = all(isinstance(text, str | Path) for text in (program, *others))
    asks, notes = list[Asks](), dict[str, None]()
    for home in homes(program, params, size, seed, asked.question.machines, others):
        notes |= {} if home.note is None else {home.note: None}
        asks += asks_of(asked, str(program) if named else None, home, size, seed, messages)
    return asks, list(notes)


def asks_of(
    asked: WordedQuestion, program: str | None, home: Home, size: str | None, seed: int, simgrid: SimGrid | None = None
) -> Iterator[Asks]:
    """The answers about a program at home on one machine; of each number of tenants, where they are asked about.

    Args:   program: as a command names it.
    """
    question = asked.question
    words: Row = {"program": program, "params": home.params, "size": size, "seed": seed}
    if asked.crowd is None:
        for answer in answers(question, home.machine, home.trace, home.beside, simgrid):
            yield Asks(asked=asked, answer=answer, **words)
        return
    for count, answer in answers_among(question, home.machine, home.trace, asked.crowd):
        others = _beside(asked, program or "the program", count - 1)
        yield Asks(asked=others, answer=answer, **words)


def _beside(asked: WordedQuestion, program: str, count: int) -> WordedQuestion:
    """The question with so many copies of a program as others, without numbers of tenants."""
    words = replace(asked.words, tenants=None, limit=None, beside=(program,) * count)
    given = asked.given - {"tenants", "limit"}
    given = given | {"beside"} if count else given - {"interleave"}
    return replace(asked, words=words, given=given, beside=tuple(words.beside), crowd=None)


def simulation_of(asked: WordedQuestion, machines_played: Sequence[OnMachine]) -> Simulation:
    """Rows of all machines as one result."""
    rows = [row for played in machines_played for row in played.rows]
    first = rows[0]
    tiers = dict.fromkeys(tier for played in machines_played for tier in tiers_of(played.points))
    return Simulation(
        rows=tuple(rows),
        title=f"{first['workload']} at {', '.join(dict.fromkeys(row['params'] for row in rows))}",
        provenance="simulated",
        warnings=tuple(dict.fromkeys(text for played in machines_played for text in played.warnings)),
        assumed=tuple(rests_on(asked.question, tiers, asked.networks)),
        shown=shown_of(rows),
    )


def rests_on(question: Question, tiers: Iterable[Tier], networks: Iterable[Network]) -> list[dict[str, str]]:
    """Every value below a simulation that is assumed, calibrated or not stated."""
    entries = [entry for machine in question.machines for entry in assumptions(machine)]
    entries += [entry for tier in tiers for entry in of_link("tier", tier)]
    return entries + [entry for network in networks for entry in of_link("network", network)]


def tiers_of(points: Iterable[Point]) -> list[Tier]:
    """The tiers that the data of points come from."""
    tiers = []
    for point in points:
        hold = point.hold
        held = [level.tier for level in hold.levels] if isinstance(hold, Hierarchy) else [point.tier]
        tiers += [tier for tier in held if isinstance(tier, Tier)]
    return tiers


def shown_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """Columns of the short table: the usual ones, and those that tell these rows apart."""
    apart = varying(rows, _SHOWN)
    stated = [
        name for name in ("cache_bytes", "policy", "tenant_slowdown") if rows[0].get(name) not in (None, "forced")
    ]
    return tuple(name for name in _SHOWN if name in _ALWAYS or name in apart or name in stated)


def _word_of(word: QuestionWord, value: object) -> Any:
    """An argument as `Words` has it.

    Raises: UsageError: no value where one is needed, or no truth value.
    """
    name = ARGUMENTS(word.name)
    if word.takes == "flag" and not isinstance(value, bool):
        raise UsageError(f"{name} is {value!r}: write True or False")
    values = listed(value)
    if word.axis and not values:
        raise UsageError(f"{name} is empty: name at least one, or leave it out")
    if word.takes == "text":
        values = [str(number) if isinstance(number, int | float) else number for number in values]
    if word.takes in ("list", "counts"):
        return ",".join(map(str, values))
    if word.several:
        return values
    return str(value) if word.takes == "text" and not isinstance(value, str) else value
