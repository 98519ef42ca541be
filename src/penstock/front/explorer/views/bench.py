"""Benchmark runs: how the times of each point spread, how they moved from run to run, and whether that is chance."""

from __future__ import annotations

from penstock.base.types import Row
from penstock.errors import PenstockError, UsageError
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.state import State
from penstock.front.explorer.view import View, ViewColumn, inputs, results
from penstock.lab.measure.bench.history import History
from penstock.lab.measure.bench.verdict import headline

MOST_RUNS = 8
"""Runs of a trend: the newest, and those before it."""
REMEDY = "make one with 'penstock bench run', or name another folder with --runs"


def bench(engine: Engine, state: State) -> View:
    """The points of the state's benchmark run, or of the newest, against the run before it or the other one named.

    Raises: UsageError: there is none, or twice the same; as `Library.bench_path`.
    """
    names, warnings = _runs(engine, state)
    timings = engine.benches(tuple(names))
    last = names[-1]
    source = f"run {last}, bench.parquet"
    several = len(names) > 1

    def measured(detail: str, *named: tuple[str, str, str]) -> list[ViewColumn]:
        return results("measured", f"{source}: {detail}", *named)

    columns = [
        *inputs(("item", "point"), ("where", "with")),
        *measured("median over the runs of each run's median", ("median_s", "median", "s")),
        *measured("largest less smallest, over the median", ("spread", "spread", "share")),
        *inputs(("runs", "runs", "1")),
    ]
    if several:
        columns += [
            *inputs(("verdict", "verdict")),
            *measured("above 1 is slower", ("ratio", "now / before", "x")),
            *measured("95 % bootstrap interval of the ratio", ("low", "from", "x"), ("high", "to", "x")),
            *measured("Mann-Whitney U test", ("p_value", "p", "1")),
            *measured("how far the machine itself changed between the two", ("noise", "noise", "share")),
            *inputs(("against", "before")),
        ]
    return View(
        name="bench",
        title=f"Benchmarks of run {last}" + (f" against {names[-2]}" if several else ""),
        columns=columns,
        rows=[_row(history) for history in timings],
        warnings=warnings,
        notes=[headline(timings)] if several else ["One benchmark run: a second one shows what changed."],
        drawing={
            "runs": names,
            "points": [
                {"label": history.label, "samples": [history.samples.get(name, ()) for name in names]}
                for history in timings
            ],
        },
    )


def _runs(engine: Engine, state: State) -> tuple[list[str], list[str]]:
    """Names of benchmark runs, the oldest first: those before the state's, with the other one named right before it."""
    known = engine.library.bench_names()
    last = state.run or next(iter(known), "")
    if not last:
        raise UsageError(f"no run below {engine.library.runs} holds benchmarks: {REMEDY}")
    if engine.library.bench_path(last) is None:
        raise UsageError(f"run {last} holds no benchmarks: {REMEDY}")
    if state.other_run == last:
        raise UsageError(f"run '{last}' on both sides: choose another one to compare with")
    after = known.index(last) if last in known else 0
    before, warnings = list[str](), list[str]()
    for name in ([state.other_run] if state.other_run else []) + known[after + 1 :]:
        if len(before) == MOST_RUNS - 1 or name in before:
            continue
        try:
            engine.bench(name)
        except PenstockError as error:
            if name == state.other_run:
                raise
            warnings.append(f"run {name} is left out: {error}")
            continue
        before.append(name)
    return [*reversed(before), last], warnings


def _row(history: History) -> Row:
    change = history.change or {}
    return {
        **{name: getattr(history, name) for name in ("item", "where", "median_s", "spread")},
        "runs": len(history.last),
        "verdict": history.verdict,
        **{name: change.get(name) for name in ("ratio", "low", "high", "p_value", "noise")},
        "against": history.against,
        "provenance": "measured",
    }
