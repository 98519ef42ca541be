"""Measured against predicted or simulated: whatever a run timed that a model says something of.

Runs of `penstock analyze` (each kind of operation and number of limbs), of `penstock bench run` (each primitive and
program), and any run whose rows hold both, as `penstock keys study -o` writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from penstock.base.runs.folder import RunFolder
from penstock.base.types import Row
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.pairs import Pair, pairs_of
from penstock.front.explorer.state import State
from penstock.front.explorer.view import PER_ROW, View, inputs, results
from penstock.front.explorer.views.rows import dimension_column, newest_with, with_damage

REMEDY = "make one with 'penstock analyze WORKLOAD' or 'penstock bench run', or name another folder with --runs"
MOST_ROWS = 2000


def measured(engine: Engine, state: State) -> View:
    """Each timing of the state's run, or of the newest run with timings, next to the value of the run's own model.

    Raises: UsageError: no run has both; as `Library.open_run`.
    """
    has = "holds times and what a model says of them", "holds no time with a model's value for it"
    name, (pairs, warnings, folder) = newest_with(engine, state.run, partial(_compared, engine, state.run), has, REMEDY)
    known = [pair for pair in pairs if pair.error is not None]
    dimensions = dict.fromkeys(name for pair in pairs for name in pair.where)
    used = [name for name in dimensions if len({pair.where.get(name) for pair in pairs}) > 1]
    against = " and ".join(sorted({pair.provenance for pair in known}))
    model = f"run {name}: the machine that was fitted to it, or its simulation"
    view = View(
        title=f"Measured against {against}, run {name}" if against else f"Measured times, run {name}",
        columns=[
            *inputs(("kind", "what")),
            *map(dimension_column, used),
            *results("measured", f"run {name}: timed", ("measured_s", "measured", "s")),
            *results(PER_ROW, model, ("predicted_s", "model", "s")),
            *results(PER_ROW, "model / measured - 1", ("error", "error", "share")),
            *inputs(("held_out", "fitted without it")),
        ],
        rows=[_row(pair, used) for pair in pairs[:MOST_ROWS]],
        warnings=warnings,
        notes=_notes(name, pairs, known),
        drawing={"run": name},
    )
    return view if folder is None else with_damage(view, folder)


def _compared(engine: Engine, wanted: str, name: str) -> tuple[list[Pair], list[str], RunFolder | None] | None:
    """The parts of a run to compare; the folder if its stages have the rows."""
    timed = engine.timed(name)
    folder = engine.library.open_run(name) if timed is None else None
    pairs, warnings = timed or ([], [])
    if folder is not None:
        pairs = pairs_of(folder.results().to_pylist())
    return (pairs, warnings, folder) if any(pair.model_s is not None for pair in pairs) or (wanted and pairs) else None


def _row(pair: Pair, used: Sequence[str]) -> Row:
    return {
        "kind": pair.what,
        **{name: pair.where.get(name) for name in used},
        "measured_s": pair.measured_s,
        "predicted_s": pair.model_s,
        "error": pair.error,
        "held_out": "yes" if pair.held_out else "no",
        "provenance": pair.provenance,
    }


def _notes(name: str, pairs: Sequence[Pair], known: Sequence[Pair]) -> list[str]:
    notes = [f"Run {name}: of {len(known)} of {len(pairs)} timings a model says something."]
    for held_out, group in ((True, "Held out of the model's fit"), (False, "Measurements of its fit")):
        errors = [(pair.error, pair) for pair in known if pair.held_out == held_out]
        if errors:
            mean = sum(abs(error) for error, _ in errors if error is not None) / len(errors)
            total = sum(pair.model_s or 0.0 for _, pair in errors) / sum(pair.measured_s for _, pair in errors) - 1
            notes.append(
                f"{group}: {len(errors)} times, mean |error| {100 * mean:.1f} %; error of the sum {100 * total:+.1f} %."
            )
    if len(pairs) > MOST_ROWS:
        notes.append(f"The first {MOST_ROWS} of {len(pairs)} timings.")
    return notes
