"""Remedies for a simulated point: each candidate is asked and played as `penstock simulate` does."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from penstock.base.types import Row, RowView
from penstock.base.units import format_bytes
from penstock.errors import PenstockError, UsageError
from penstock.lab.advice import families
from penstock.lab.advice.remedy import Advice, Remedy, best, ranked, steps, unknown
from penstock.lab.advice.words import Setting, words_of_points
from penstock.lab.rewriting import RewriteOptions, rewrite
from penstock.lab.simulation.play import OnMachine, Ready, play, ready_for
from penstock.lab.simulation.question import Point, Question
from penstock.lab.simulation.worded import WordedQuestion
from penstock.program.evaluator.counting import structure
from penstock.program.workloads.packaged import is_package
from penstock.scheme.machines import InsideModel, Machine, load_machine, machine_names, tier_names
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.variation import varied
from penstock.scheme.play.caches import SizedCache
from penstock.scheme.play.rows import each_once, felt_slowdown
from penstock.scheme.traces import is_trace_file
from penstock.scheme.traces.schema import Trace
from penstock.scheme.unpriced import UNPRICED

PASSES = ("hoist", "min-ks", "reorder", "additions")
"""Passes of `penstock trace rewrite` that are tried, each alone."""
MOST_DIGITS = 8
MOST_REWRITTEN = 600
"""Operations of a trace that is rewritten for advice: more of them take longer than an answer may."""
MOST_PRICED = 60_000
"""Operations of a trace that is priced at other forms of keys and at other parameters."""
MOST_DEALT = 2_000
"""The same of a trace that is dealt to several hosts."""
MOST_PLAYED = 200_000
"""Accesses that are played through other caches."""
MOST_KEPT = 32
"""Prices that are kept for further questions about the same program."""
FORMS_ENOUGH = 1.01
SOFTWARE = ("policy", "prefetch", "key-form")
"""Kinds that need no other hardware and no other parameters."""
ReadyFor = Callable[[Question, Trace, Sequence[Trace]], Ready]


@dataclass(slots=True, kw_only=True)
class Plays:
    """Plays questions about one program on one machine. Equal prices are computed once. Thread safe."""

    trace: Trace
    beside: Sequence[Trace] = ()
    ready: ReadyFor | None = None
    """Prices a program (default: `penstock.lab.simulation.play.ready_for`)."""
    _kept: dict[tuple[object, ...], tuple[Ready, object]] = field(default_factory=dict)
    _derived: dict[Hashable, Trace] = field(default_factory=dict)

    def derived(self, key: Hashable, make: Callable[[], Trace]) -> Trace:
        """A trace that follows from the program's, made once for each key."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def keep(self, question: Question, ready: Ready) -> None:
        """Take the prices of the program itself under a question, which are known."""
        self._kept[_key(question, self.trace, self.beside)] = ready, None

    def rows(
        self, setting: Setting, trace: Trace | None = None, beside: Sequence[Trace] | None = None
    ) -> tuple[list[Row], list[Point], Ready]:
        """The rows of a setting, with every column.

        Args:   trace, beside: other programs (default: the given ones).
        Raises: as `Question.points_on` and `play`.
        """
        question = setting.asked().question
        points = question.points_on(question.machines[0])
        used = self.trace if trace is None else trace
        others = self.beside if beside is None else beside
        key = _key(question, used, others)
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            made = self.ready(question, used, others) if self.ready is not None else _ready(question, used, others)
            kept = made, (used, others)  # held, so that no other object gets their ids
            self._kept[key] = kept
        return play(kept[0], points)[0], points, kept[0]


def _key(question: Question, trace: Trace, beside: Sequence[Trace]) -> tuple[object, ...]:
    """What the prices of a program depend on."""
    programs = id(trace), tuple(map(id, beside))
    return (
        programs, question.key_forms, question.classes_on(question.machines[0]), question.order, question.on_clusters
    )  # fmt: skip


def _ready(question: Question, trace: Trace, beside: Sequence[Trace]) -> Ready:
    return ready_for(question, trace, question.machines[0], question.key_forms[0], beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks:
    """A question about one program on one machine, its answer, and the program as a command names it."""

    asked: WordedQuestion
    answer: OnMachine
    program: str | None = None
    params: object = None
    """Set of the program: a name, a file, a value, or `None`."""
    size: str | None = None
    seed: int = 0


def advise(asked: Sequence[Asks], index: int | None = None) -> Advice:
    """What would help one point of a question most.

    Args:   asked: the question on each machine; index: of all rows, machine by machine (default: the slowest row).
    Raises: UsageError: no such row.
    """
    rows = [(asks, i) for asks in asked for i in range(len(asks.answer.rows))]
    if index is not None and not 0 <= index < len(rows):
        raise UsageError(f"row {index}: there are rows 0 to {len(rows) - 1}")
    asks, i = rows[index] if index is not None else max(rows, key=lambda at: _figure(at[0].answer.rows[at[1]])[1])
    question = replace(asks.asked.question, machines=(asks.answer.machine,))
    plays = Plays(trace=asks.answer.trace, beside=asks.answer.beside)
    plays.keep(question, asks.answer.ready)
    return advise_setting(_setting(asks, words_of_points(asks.asked, question)[i]), plays)


def advise_setting(setting: Setting, plays: Plays) -> Advice:
    """What would help a setting of one point most."""
    return _SimulatedAdvice(setting, plays).advice()


def _setting(asks: Asks, words: RowView) -> Setting:
    machine = asks.answer.machine
    text, named = _text(machine, asks.asked.words.machine)
    tiers = [tier for tier in asks.asked.words.tier if not isinstance(tier, str)]
    named = named and all(tier.name in tier_names() for tier in tiers)
    params = asks.params
    if isinstance(params, CkksParameters):
        named, params = named and families.is_named(params), params.name
    return Setting(
        program=asks.program,
        words={"machine": (text,), **words},
        machine=machine,
        params=None if params is None else str(params),
        size=asks.size,
        seed=asks.seed,
        named=named,
    )


def _text(machine: Machine, given: Iterable[str | Machine]) -> tuple[str, bool]:
    """The machine as a command names it, and whether it has such a name."""
    for spelled in given:
        if isinstance(spelled, str) and (spelled == machine.name or load_machine(spelled).name == machine.name):
            return spelled, True
        if not isinstance(spelled, str) and spelled.name == machine.name:
            return spelled.name, spelled.name in machine_names() and load_machine(spelled.name) == spelled
    return machine.name, False


def _figure(row: Row) -> tuple[str, float]:
    """The figure to improve: the worst tenant's slowdown, or the time of the one program; least where it is unknown."""
    if row.get("tenants") is not None and row.get("tenant_slowdown") is not None:
        return "tenant_slowdown", float(row["tenant_slowdown"])
    return "total_s", -math.inf if row["total_s"] is None else float(row["total_s"])


class _SimulatedAdvice:
    """All candidates for one setting."""

    def __init__(self, setting: Setting, plays: Plays) -> None:
        self.setting, self.plays = setting, plays
        (self.row,), (self.point,), ready = plays.rows(setting)
        self.priced = ready.priced
        self.figure, self.before = _figure(self.row)
        question = setting.asked().question
        self.machine, self.form = question.machines[0], question.key_forms[0]
        self.classes = question.classes_on(self.machine)
        self.params = plays.trace.parameters()
        self.tried: list[str] = []
        self.not_tried: list[str] = []

    def advice(self) -> Advice:
        words, point = self.setting.words, self.point
        if self.row.get(UNPRICED):
            return unknown(_about(self.row), self.figure, "simulated", self.row[UNPRICED])
        remedies = steps(self._played(families.faster_tiers(dict(words), point)))
        software: list[Remedy] = []
        if self._may_play():
            remedies += steps(self._played(families.more_cache(dict(words), point, self.machine, self.priced)))
            software += best(self._played(families.other_policies(dict(words), point)))
        software += steps(self._played(families.loads_ahead(dict(words), point)))
        if self._may_price("key-form"):
            forms, stored = self._forms()
            software += forms
            remedies += stored
        remedies += software + self._all_of(software)
        remedies += self._at_other_parameters() + self._rewritten()
        remedies += best(self._without_tenants())
        return ranked(
            _about(self.row), self.figure, self.before, "simulated", remedies, self.tried, tuple(self.not_tried)
        )

    def _played(self, candidates: Sequence[families.Candidate]) -> list[Remedy]:
        """The remedies of candidates of one kind, in their order, without impossible ones."""
        self.tried += [candidate.kind for candidate in candidates[:1]]
        together = _together(candidates)
        if together is not None:
            try:
                rows, _, _ = self.plays.rows(self.setting.changed(**together))
            except UsageError:
                rows = []
            if len(rows) == len(candidates):
                return [self._remedy(candidate, row) for candidate, row in zip(candidates, rows, strict=True)]
        remedies = []
        for candidate in candidates:
            try:
                (row,), _, _ = self.plays.rows(self.setting.changed(**candidate.words))
            except UsageError:
                continue
            remedies.append(self._remedy(candidate, row))
        return remedies

    def _remedy(
        self, candidate: families.Candidate, row: Row, setting: Setting | None = None, command: str | None = None
    ) -> Remedy:
        changed = setting or self.setting.changed(**candidate.words)
        return Remedy(
            kind=candidate.kind,
            says=candidate.says,
            figure=self.figure,
            before=self.before,
            after=float(row[self.figure]),
            command=command or changed.command(),
            provenance="simulated",
            changes=candidate.words,
            note=candidate.note,
        )

    def _all_of(self, software: Sequence[Remedy]) -> list[Remedy]:
        """Policy, loads ahead and form of keys at once, each at its best."""
        chosen = {remedy.kind: remedy for remedy in software}
        if len(chosen) < 2:
            return []
        words = {name: value for remedy in chosen.values() for name, value in remedy.changes.items()}
        says = "; ".join(chosen[kind].says for kind in SOFTWARE if kind in chosen)
        note = next((remedy.note for remedy in chosen.values() if remedy.note), "")
        return self._played([families.Candidate("software", says, words, note)])

    def _forms(self) -> tuple[list[Remedy], list[Remedy]]:
        """Other forms of keys: the one that is fastest, and the one that is smallest where keys are stored."""
        now, candidates = (
            float(self.row["stored_key_bytes"]),
            families.other_forms(self.params, self.form, self.classes),
        )
        seconds, stored = list[Remedy](), list[Remedy]()
        for candidate in candidates:
            (row,), _, _ = self.plays.rows(self.setting.changed(**candidate.words))
            seconds.append(self._remedy(candidate, row))
            after = float(row["stored_key_bytes"])
            stored.append(replace(seconds[-1], figure="stored_key_bytes", before=now, after=after))
        self.tried += ["key-form"] if candidates else []
        return best(seconds, FORMS_ENOUGH), best(stored)

    def _may_play(self) -> bool:
        """Whether other caches can be played in the time of an answer."""
        accesses = len(self.priced.access_object)
        if accesses > MOST_PLAYED:
            self.not_tried.append(f"cache and policy: {accesses:,} accesses take too long to play again here")
        return accesses <= MOST_PLAYED

    def _may_price(self, kind: str) -> bool:
        """Whether the program can be priced a few times more in the time of an answer."""
        if self.machine.inside is InsideModel.SCHEDULE:
            self.not_tried.append(f"{kind}: the kernels of the program would be scheduled again")
            return False
        if len(self.priced) > (MOST_DEALT if self.row["hosts"] > 1 else MOST_PRICED):
            self.not_tried.append(f"{kind}: {len(self.priced):,} operations take too long to price again here")
            return False
        return True

    def _at_other_parameters(self) -> list[Remedy]:
        """Other numbers of digits: the operations are the same, with other keys."""
        program, base = self.setting.program, self.params
        if self.plays.beside or program is None:
            self.not_tried.append("parameters: programs that run together keep theirs")
            return []
        if is_trace_file(program) or is_package(program):
            name, machine = shlex.quote(program), shlex.quote(self.setting.words["machine"][0])
            self.not_tried.append(
                f"parameters: {program} keeps its own; 'penstock predict suggest {name} --machine {machine} -o "
                f"set.toml' finds a set for the program, and 'penstock trace {name} --params set.toml' takes it there"
            )
            return []
        if "ciphertext" in self.classes or "database" in self.classes:
            self.not_tried.append("parameters: digits change the ciphertexts, which are not resident here")
            return []
        if not families.is_named(base):
            self.not_tried.append("parameters: the set is in a file; change 'dnum' there")
            return []
        if not self._may_price("parameters"):
            return []
        remedies = []
        for dnum in range(1, MOST_DIGITS + 1):
            try:
                params = varied(base, dnum=dnum)
            except PenstockError:
                continue
            if dnum == base.dnum or structure(params) != structure(base) or not families.as_secure(params, base):
                continue
            meta = replace(self.plays.trace.meta, params=params.to_dict())
            setting = replace(
                self.setting, params=params.name, size=self.setting.size or self.plays.trace.meta.size or None
            )
            other = self.plays.derived(params.name, partial(replace, self.plays.trace, meta=meta))
            (row,), _, _ = self.plays.rows(setting, other)
            says = f"{dnum} digits of key switching instead of {base.dnum}"
            remedies.append(self._remedy(families.Candidate("parameters", says, {"params": params.name}), row, setting))
        self.tried += ["parameters"] if remedies else []
        return best(remedies)

    def _rewritten(self) -> list[Remedy]:
        trace = self.plays.trace
        if self.plays.beside:
            self.not_tried.append("rewriting: of one program at a time")
            return []
        if len(self.priced) > MOST_REWRITTEN or self.machine.inside is InsideModel.SCHEDULE:
            self.not_tried.append(
                f"rewriting: {len(self.priced):,} operations take too long here; 'penstock trace rewrite' tries it"
            )
            return []
        hold = self.point.hold
        sized = isinstance(hold, SizedCache)
        options = RewriteOptions(cache_bytes=int(hold.capacity_bytes) if isinstance(hold, SizedCache) else None)
        remedies = []
        for name in PASSES:
            try:
                make = partial(rewrite, trace, [name], options)
                other = make() if name == "reorder" else self.plays.derived((name,), make)  # it orders for the cache
            except PenstockError:
                continue
            file = f"{self._file_stem()}-{name}.parquet"
            setting = self.setting.of_program(file)
            (row,), _, _ = self.plays.rows(setting, other)
            command = self._rewriting(name, file, setting, sized=sized)
            remedies.append(
                self._remedy(families.Candidate("rewriting", f"the pass {name}", {"pass": name}), row, setting, command)
            )
        self.tried += ["rewriting"] if remedies else []
        return best(remedies)

    def _file_stem(self) -> str:
        """Of files that commands write: of a file's own name, so that two traces of one program do not collide."""
        program = self.setting.program
        return Path(program).stem if program is not None and is_trace_file(program) else self.plays.trace.meta.workload

    def _rewriting(self, name: str, file: str, setting: Setting, *, sized: bool) -> str | None:
        """Both commands: the pass, and the question about its trace."""
        then = setting.command()
        if self.setting.program is None or then is None:
            return None
        words = ["penstock", "trace", "rewrite", *self.setting.target(), "--pass", name]
        if sized:
            words += ["--machine", *self.setting.words["machine"], "--cache", *self.setting.words["cache"]]
        return f"{shlex.join([*words, '--quiet', '-o', file])} && {then}"

    def _without_tenants(self) -> list[Remedy]:
        """Without one of the programs that run together, for the worst of the others."""
        names, remedies = tuple(self.setting.words.get("beside", ())), []
        if self.figure != "tenant_slowdown":
            return []
        for candidate in families.fewer_tenants(dict(self.setting.words)):
            left = candidate.words["beside"] or ()
            gone = next(i for i in range(len(names)) if names[:i] + names[i + 1 :] == left)
            beside = [trace for i, trace in enumerate(self.plays.beside) if i != gone]
            setting = self.setting.changed(**candidate.words)
            (row,), _, _ = self.plays.rows(setting, beside=beside)
            felt = felt_slowdown(row)
            if felt is None:
                continue
            remedy = self._remedy(candidate, {**row, "tenant_slowdown": felt}, setting)
            remedies.append(replace(remedy, figure="tenant_slowdown" if left else "slowdown"))
        self.tried += ["tenants"] if remedies else []
        return remedies


def _together(candidates: Sequence[families.Candidate]) -> Row | None:
    """The words of all candidates as one question, where they differ in one word that takes several values."""
    if len(candidates) < 2:
        return None
    first = candidates[0].words
    varying = [name for name in first if any(candidate.words.get(name) != first[name] for candidate in candidates)]
    alike = all(set(candidate.words) == set(first) for candidate in candidates)
    if not alike or len(varying) != 1 or not isinstance(first[varying[0]], tuple):
        return None
    values = tuple(value for candidate in candidates for value in candidate.words[varying[0]])
    return {**first, varying[0]: values}


def _about(row: Row) -> str:
    """The point of a row in words."""
    parts = [f"{each_once(row['workload'])} at {row['params']} on {row['machine']} over {row['tier']}, {row['mode']}"]
    if row["cache_bytes"] is not None:
        parts.append(f"{format_bytes(row['cache_bytes']).split(' (')[0]} {row['policy']}")
    else:
        parts.append(f"{row['hit_ratio']:.4g} of the bytes on chip" if row["hit_ratio"] else "nothing on chip")
    parts += [f"{row['hosts']} hosts"] if row["hosts"] > 1 else []
    return ", ".join(parts)
