"""The views of the explorer, by name. A view is a function from the engine and a state to a `View`.

A new one is a module here with a line in `VIEWS`, and a drawing in `static/draw.js`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from penstock.front.explorer.engine import Engine
from penstock.front.explorer.library import DEFAULT_RUNS, Library
from penstock.front.explorer.state import State
from penstock.front.explorer.view import View
from penstock.front.explorer.views.bench import bench
from penstock.front.explorer.views.compare import compare_machines, compare_runs
from penstock.front.explorer.views.drive import drive
from penstock.front.explorer.views.measured import measured
from penstock.front.explorer.views.memory import levels, tenants
from penstock.front.explorer.views.point import hosts, slowdown, whatif
from penstock.front.explorer.views.predicting import precision, predicted, suggest
from penstock.front.explorer.views.residency import residency
from penstock.front.explorer.views.roofline import roofline
from penstock.front.explorer.views.runs import run, runs
from penstock.front.explorer.views.sweep import designs, sweep
from penstock.front.explorer.views.validation import validation
from penstock.lab.simulation.names import one_of

VIEWS: dict[str, Callable[[Engine, State], View]] = {
    "whatif": whatif,
    "slowdown": slowdown,
    "roofline": roofline,
    "residency": residency,
    "hosts": hosts,
    "drive": drive,
    "machines": compare_machines,
    "predict": predicted,
    "suggest": suggest,
    "precision": precision,
    "tenants": tenants,
    "levels": levels,
    "runs": runs,
    "run": run,
    "compare": compare_runs,
    "measured": measured,
    "sweep": sweep,
    "designs": designs,
    "bench": bench,
    "validation": validation,
}
SLOW = ("predict", "suggest", "precision", "tenants", "levels")
"""Views that take long, and are kept."""


def show(engine: Engine, name: str, state: State) -> View:
    """The view of that name.

    Raises: UnknownName: no such view; as the view.
    """
    one_of("view", name, VIEWS)
    state = engine.settled(state)
    make = partial(VIEWS[name], engine, state)
    view = engine.sheet(name, state, make) if name in SLOW else make()
    return replace(view, name=view.name or name, command=view.command or printing(engine.library, name, state))


def printing(library: Library, name: str, state: State) -> str:
    """The command that prints the rows of a view, where no other command has them."""
    words = ["penstock", "explore", name, *(f"{key}={value}" for key, value in state.to_query().items()), "--print"]
    words += ["--runs", str(library.runs)] if library.runs != DEFAULT_RUNS else []
    words += [word for path in library.machine_files.values() for word in ("--machine", str(path))]
    programs = (*library.trace_files.values(), *library.program_files.values())
    words += [word for path in programs for word in ("--trace", str(path))]
    words += [word for path in library.policy_files.values() for word in ("--policy", str(path))]
    words += [word for path in library.prediction_files.values() for word in ("--predictions", str(path))]
    return shlex.join(words)
