"""Remedies for a run: what its own times predict of other budgets for keys and of other parameters.

Budgets are played by the store's own rules (`penstock.runtime.native.play`), with the computing and the rate of reading
of this run. Parameters are priced on a processor that is fitted to the primitives of this run.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from penstock.base.types import RowView
from penstock.errors import PenstockError
from penstock.lab.advice.families import MIB, as_secure, is_named
from penstock.lab.advice.remedy import Advice, Remedy, best, ranked, steps
from penstock.lab.fit.fit import fit_machine, trace_measurements
from penstock.lab.prediction.whatif import WhatIfAxes, Workload, what_if
from penstock.lab.simulation.words import OPTIONS
from penstock.program.running.reading import Run
from penstock.runtime.native.budgets import computing, key_uses_of
from penstock.runtime.native.play import ReadRates, play_reads
from penstock.runtime.native.prepared import NativeRun
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.variation import varied

MOST_PLAYED = 20_000
"""Operations of a run whose keys are played under other budgets."""
MOST_AWAY = 2
"""Digits more or fewer that are tried: the processor is fitted to one number of them."""
_OPTIONS = (
    "reading", "params", "size", "seed", "threads", "key_budget", "keys", "tenant", "input_budget", "memory", "client",
    "client_library",
)  # fmt: skip
"""Options of `penstock run` in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A run, and the words of its command."""

    program: str
    size: str
    params: CkksParameters
    done: Run
    words: RowView
    """Option of `penstock run` -> its value; `None`: not given."""
    named: bool = True
    """Whether a command can say all that was given: not data in memory."""

    def command(self, **changes: object) -> str | None:
        """`penstock run` with other options; `None` takes one away."""
        if not self.named:
            return None
        arguments, words = ["penstock", "run", self.program], {**self.words, **changes}
        for name in _OPTIONS:
            if words.get(name) is not None and not (name == "seed" and not words[name]):
                arguments += [OPTIONS(name), str(words[name])]
        return shlex.join(arguments)


def advise(asked: Measured) -> Advice:
    """What would help a run most, predicted from its own times."""
    tried: list[str] = []
    not_tried: list[str] = []
    remedies = steps(_budgets(asked, tried, not_tried)) + best(_digits(asked, tried, not_tried))
    about = f"{asked.program} ({asked.size}) at {asked.params.name}, {asked.words.get('reading')}"
    return ranked(about, "wall_s", asked.done.wall_s, "predicted", remedies, tried, tuple(not_tried))


def _budgets(asked: Measured, tried: list[str], not_tried: list[str]) -> list[Remedy]:
    """More memory for keys, up to all of them."""
    done = asked.done
    if not isinstance(done, NativeRun) or done.budget_bytes is None:
        return []
    traffic, operations = done.traffic, len(done.trace)
    moved = traffic.read_bytes + traffic.expanded_bytes
    keys = done.trace.operations["key"].to_pylist()
    if not moved or not traffic.read_s or sum(key is not None for key in keys) != len(done.key_waits_s):
        not_tried.append("cache: this run read no keys one by one")
        return []
    if operations > MOST_PLAYED:
        not_tried.append(f"cache: {operations:,} operations take too long to play; 'penstock keys study' runs budgets")
        return []
    tried.append("cache")
    compute_s, uses = computing(done), key_uses_of(done, asked.params)
    rates = ReadRates(bytes_per_s=moved / traffic.read_s)
    now = play_reads(uses, compute_s, done.budget_bytes, rates)
    remedies, budget = list[Remedy](), 2 * done.budget_bytes
    while budget < traffic.key_bytes:
        text = f"{-(-budget // MIB)} MiB"
        played = play_reads(uses, compute_s, budget, rates)
        remedies.append(_budget(asked, f"{text} for keys", now.total_s, played.total_s, key_budget=text))
        budget *= 2
    remedies.append(_budget(asked, "all keys in memory", now.total_s, float(compute_s.sum()), key_budget=None))
    return remedies


def _budget(asked: Measured, says: str, before: float, after: float, **changes: object) -> Remedy:
    return Remedy(
        kind="cache", says=says, figure="wall_s", before=before, after=after, command=asked.command(**changes),
        provenance="predicted", changes=changes, note="both times by the same play of this run",
    )  # fmt: skip


def _digits(asked: Measured, tried: list[str], not_tried: list[str]) -> list[Remedy]:
    """Other numbers of digits, priced on a processor fitted to this run, where they gain more than its error."""
    base, done = asked.params, asked.done
    if not is_named(base):
        not_tried.append("parameters: the set is in a file or a package; change it there")
        return []
    if isinstance(done, NativeRun) and done.budget_bytes is not None:
        not_tried.append("parameters: other digits change the keys that the budget must hold; run without one")
        return []
    try:
        fitted = fit_machine(trace_measurements(done.trace, asked.words.get("threads") or 1), fewest=1)
        axes = WhatIfAxes(dnum=tuple(range(max(1, base.dnum - MOST_AWAY), base.dnum + MOST_AWAY + 1)))
        rows = what_if(Workload(name=asked.program, size=asked.size, params=base), axes, [fitted])
    except PenstockError as error:
        not_tried.append(f"parameters: no processor can be fitted to this run: {error}")
        return []
    priced = {
        row["dnum"]: row["predicted_s"]
        for row in rows
        if row["predicted_s"] and as_secure(varied(base, dnum=row["dnum"]), base)
    }
    before = priced.pop(base.dnum, None)
    if before is None:
        return []
    tried.append("parameters")
    wrong = 1.0 if fitted.fit is None else fitted.fit.overall.p90_abs
    priced = {dnum: after for dnum, after in priced.items() if before / after > 1 + wrong}
    return [
        Remedy(
            kind="parameters", says=f"{dnum} digits of key switching instead of {base.dnum}", figure="server_s",
            before=before, after=after, command=asked.command(params=f"{base.name}-k{dnum}", size=asked.size),
            provenance="predicted", changes={"params": f"{base.name}-k{dnum}"},
            note="both times of a processor fitted to this run",
        )
        for dnum, after in priced.items()
    ]  # fmt: skip
