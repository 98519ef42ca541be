"""The list of runs, and one of them."""

from __future__ import annotations

from dataclasses import replace

from penstock.base.types import Row, Rows
from penstock.errors import PenstockError
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.library import BENCH_FILE
from penstock.front.explorer.state import State
from penstock.front.explorer.view import View, inputs, results
from penstock.front.explorer.views.bench import bench
from penstock.front.explorer.views.rows import newest, result_columns, with_damage
from penstock.front.explorer.views.sweep import sweep
from penstock.lab.reports.sweep import is_sweep

MOST_ROWS = 2000
"""Rows of a run that a page shows; the run's own results.csv has all of them."""
_HEADINGS = (("wall_s", "wall", "s"), ("setup_s", "setup", "s"), ("peak_rss_bytes", "peak rss", "B"))
HEADLINES = tuple(name for name, *_ in _HEADINGS)


def runs(engine: Engine, state: State) -> View:
    """Every run folder, the newest first; one that cannot be read says why."""
    library = engine.library
    rows, damage = Rows(), list[str]()
    for name in library.run_names():
        rows.append(_row(engine, name, damage))
    return View(
        title=f"Runs in {library.runs}",
        columns=[
            *inputs(("run", "run"), ("workload", "workload"), ("size", "size"), ("params", "parameters")),
            *inputs(*((name, name) for name in ("started", "sort", "state"))),
            *results("measured", "the run's results.parquet", *_HEADINGS),
        ],
        rows=rows,
        warnings=damage,
        damage=damage,
        notes=[]
        if rows
        else [
            f"There is no run in {library.runs} yet: 'penstock analyze logistic-regression --size demo' makes one. "
            "The what-if page needs none."
        ],
    )


def _row(engine: Engine, name: str, damage: list[str]) -> Row:
    """A run in the list; adds to `damage` the file that the numbers of this row should be in."""
    try:
        run = engine.library.open_run(name)
        rows = run.stage_rows("measured")
        lost = run.damage("measured")
    except PenstockError as error:
        return {"run": name, "state": f"cannot be read: {error}"}
    damage += lost
    config = run.config
    values = {row["quantity"]: row["value"] for row in rows if row["quantity"] in HEADLINES}
    return {
        "run": name,
        **{key: _word(config.get(key)) for key in ("workload", "size", "params")},
        "started": _word(run.record.get("started")),
        "state": ("complete" if run.complete else "not finished") + (", not all of it can be read" if lost else ""),
        **{key: values.get(key) for key in HEADLINES},
        "sort": "sweep" if is_sweep(run) else "bench" if (run.path / BENCH_FILE).is_file() else "run",
        "has_report": run.report_path.is_file() and not run.report_path.is_symlink(),
        "provenance": "measured",
    }


def _word(value: object) -> str | None:
    """A value of a record as short text; records of others may hold anything."""
    return None if value is None else str(value)[:200]


def _of_its_own(engine: Engine, state: State) -> View | None:
    """The view of a run that is a sweep or a benchmark."""
    if engine.space(state.run) is not None:
        return sweep(engine, state)
    return bench(engine, state) if engine.library.bench_path(state.run) is not None else None


def run(engine: Engine, state: State) -> View:
    """One run: its rows, each with its provenance.

    Raises: as `Library.open_run`; UsageError: there are no runs.
    """
    name, folder, rows = newest(engine, state.run)
    if (own := _of_its_own(engine, replace(state, run=name))) is not None:
        return own
    notes = [f"Command: {_word(folder.config.get('command')) or 'not recorded'}"]
    if len(rows) > MOST_ROWS:
        notes.append(f"The first {MOST_ROWS} of {len(rows)} rows; {folder.path}/results.csv has all of them.")
    warnings = [
        f"{_word(warning.get('what'))}; {_word(warning.get('remedy'))}"
        for warning in folder.warnings
        if isinstance(warning, dict)
    ]
    view = View(
        title=f"Run {name}",
        columns=result_columns(name, rows),
        rows=rows[:MOST_ROWS],
        warnings=warnings[:20],
        notes=notes,
        drawing={"run": name, "has_report": folder.report_path.is_file()},
    )
    return with_damage(view, folder)
