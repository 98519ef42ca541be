"""Remedies for a prediction: each candidate is counted and priced as `penstock predict run` does."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.base.types import Row, RowView
from penstock.errors import PenstockError
from penstock.lab.advice.families import as_secure, other_forms
from penstock.lab.advice.remedy import LEAST_GAIN, Advice, Remedy, best, ranked, steps, unknown
from penstock.lab.advice.simulated import MOST_DIGITS, PASSES
from penstock.lab.prediction.prediction import Prediction, predict
from penstock.lab.prediction.whatif import Program, WhatIfAxes, Workload, what_if
from penstock.lab.rewriting import rewrite
from penstock.program.running.trace import trace_workload
from penstock.scheme.machines.schema import Machine
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.params.variation import varied
from penstock.scheme.traces.schema import Trace

THREADS = (2, 4, 8, 16, 32, 64)
"""Threads inside an operation that are tried."""
OUTSIDE = "with more warnings, as its command prints"
MOST_REWRITTEN = 500
"""Operations of a program that is rewritten, which traces it first."""
MOST_COUNTED = 3_000
"""Operations of a program that is counted at other ring dimensions, which reads it anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicts:
    """A program on a machine, and the words of its command."""

    program: Program
    prediction: Prediction
    machine: Machine
    target: str | None = None
    """The program as a command names it; `None`: it is in memory only."""
    machine_text: str | None = None
    """The machine's name or file; `None`: it is in memory only."""
    params: str | None = None
    size: str | None = None
    threads: int | None = None
    key_form: KeyForm | None = None
    trace: Callable[[], Trace] | None = None
    """Gives the program's trace, where it is one."""

    def command(self, *more: str, target: Sequence[str] | None = None) -> str | None:
        """`penstock predict run` of this program, and more options; `target`: instead of the program's words."""
        if self.target is None or self.machine_text is None:
            return None
        words = ["penstock", "predict", "run", *(self.words() if target is None else target)]
        words += ["--machine", self.machine_text]
        if self.threads is not None and not any(word.startswith("threads=") for word in more):
            words += ["--threads", str(self.threads)]
        if self.key_form is not None and "--key-form" not in more:
            words += ["--key-form", self.key_form.value]
        return shlex.join([*words, *more])

    def words(self) -> list[str]:
        arguments = [str(self.target)]
        arguments += ["--params", self.params] if self.params else []
        return arguments + (["--size", self.size] if self.size else [])


def advise(asked: Predicts) -> Advice:
    """What would help a predicted program most: seconds first, then bytes of keys.

    Raises: as `predict`.
    """
    return _PredictedAdvice(asked).advice()


class _PredictedAdvice:
    """All candidates for one prediction."""

    def __init__(self, asked: Predicts) -> None:
        self.asked = asked
        self.before = asked.prediction.predicted_s or 0.0  # nothing is tried where it is not known
        self.num_operations = asked.prediction.num_operations or 0
        self.tried: list[str] = []
        self.not_tried: list[str] = []

    def advice(self) -> Advice:
        asked = self.asked
        about = f"{asked.program.title} at {asked.program.params.name} on {asked.machine.name}"
        if asked.prediction.unpriced:
            return unknown(about, "predicted_s", "predicted", asked.prediction.unpriced)
        remedies = best(self._digits()) + best(self._ring_dims()) + steps(self._threads())
        remedies += self._forms() + best(self._rewritten())
        return ranked(about, "predicted_s", self.before, "predicted", remedies, self.tried, tuple(self.not_tried))

    def _rows(self, **values: tuple[int, ...]) -> list[Row]:
        """The possible rows, at least as secure as the program is."""
        asked = self.asked
        axes = WhatIfAxes(**{"threads": (asked.threads,), **values}, key_form=(asked.key_form,))
        try:
            rows = what_if(asked.program, axes, [asked.machine])
        except PenstockError:
            return []
        base = asked.program.params
        return [
            row
            for row in rows
            if row["reason"] is None and as_secure(varied(base, ring_dim=row["ring_dim"], dnum=row["dnum"]), base)
        ]

    def _what_if(self, kind: str, axis: str, rows: Sequence[Row], says: str) -> list[Remedy]:
        self.tried += [kind] if rows else []
        column = axis.replace("-", "_")
        return [
            Remedy(
                kind=kind,
                says=says.format(row[column]),
                figure="predicted_s",
                before=self.before,
                after=float(row["predicted_s"]),
                command=self.asked.command("--what-if", f"{axis}={row[column]}"),
                provenance="predicted",
                changes={column: row[column]},
                note="" if set(row["warnings"]) <= set(self.asked.prediction.warnings) else OUTSIDE,
            )
            for row in rows
            if row["predicted_s"]
        ]

    def _digits(self) -> list[Remedy]:
        now = self.asked.program.params.dnum
        others = tuple(dnum for dnum in range(1, MOST_DIGITS + 1) if dnum != now)
        says = f"{{}} digits of key switching instead of {now}"
        return self._what_if("parameters", "dnum", self._rows(dnum=others), says)

    def _ring_dims(self) -> list[Remedy]:
        """Half the ring dimension, where the program and the security allow it; every slot counts."""
        program = self.asked.program
        if not isinstance(program, Workload):
            self.not_tried.append("ring dimension: a trace keeps its own")
            return []
        if self.num_operations > MOST_COUNTED:
            self.not_tried.append("ring dimension: the program would be read anew; 'penstock predict suggest' tries it")
            return []
        now = program.params.ring_dim
        rows = self._rows(ring_dim=(now // 2,))
        return self._what_if("parameters", "ring-dim", rows, f"ring dimension {{}} instead of {now}")

    def _threads(self) -> list[Remedy]:
        machine = self.asked.machine
        now = self.asked.threads or machine.thread_count
        if now is None:
            return []
        timed = (now, now) if machine.fit is None else machine.fit.ranges.get("threads", (now, now))
        more = [count for count in THREADS if now < count <= timed[1]]
        rows = self._rows(threads=tuple(more)) if more else []
        return self._what_if("threads", "threads", rows, f"{{}} threads instead of {now}")

    def _forms(self) -> list[Remedy]:
        """Smaller forms of keys: the time, and the bytes of all keys."""
        asked = self.asked
        if not asked.prediction.key_bytes:
            return []
        tally, seconds, stored = asked.program.count([asked.program.params])[0], list[Remedy](), list[Remedy]()
        for candidate in other_forms(asked.program.params, asked.key_form, ("key",)):
            form = candidate.words["key_form"]
            smaller = predict(tally, asked.machine, threads=asked.threads, key_form=KeyForm(form))
            common: RowView = {
                "kind": candidate.kind, "says": candidate.says, "changes": candidate.words,
                "command": asked.command("--key-form", form), "provenance": "predicted",
            }  # fmt: skip
            seconds.append(Remedy(figure="predicted_s", before=self.before, after=smaller.known_s, **common))
            stored.append(
                Remedy(
                    figure="key_bytes", before=asked.prediction.key_bytes, after=float(smaller.key_bytes or 0),
                    note="fewer bytes, the same time" if smaller.known_s * LEAST_GAIN > self.before else "", **common,
                )
            )  # fmt: skip
        self.tried += ["key-form"] if seconds else []
        return best(seconds, 1.01) + best(stored)

    def _rewritten(self) -> list[Remedy]:
        asked, remedies = self.asked, list[Remedy]()
        program = asked.program
        if self.num_operations > MOST_REWRITTEN:
            self.not_tried.append(
                f"rewriting: {self.num_operations:,} operations take too long here; 'penstock trace rewrite' tries it"
            )
            return []
        if asked.trace is not None:
            trace = asked.trace()
        elif isinstance(program, Workload):
            trace = trace_workload(program.name, program.params, program.size)
        else:
            return []
        for name in PASSES:
            file = f"{program.title}-{name}.parquet"
            try:
                other = predict(rewrite(trace, [name]), asked.machine, threads=asked.threads, key_form=asked.key_form)
            except PenstockError:
                continue
            then = asked.command(target=[file])
            command = None
            if then is not None:
                words = ["penstock", "trace", "rewrite", *asked.words(), "--pass", name, "--quiet", "-o", file]
                command = f"{shlex.join(words)} && {then}"
            remedies.append(
                Remedy(
                    kind="rewriting", says=f"the pass {name}", figure="predicted_s", before=self.before,
                    after=other.known_s, command=command, provenance="predicted", changes={"pass": name},
                )
            )  # fmt: skip
        self.tried += ["rewriting"] if remedies else []
        return remedies
