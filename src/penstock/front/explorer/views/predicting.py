"""A program before it runs: parameter sets for it, how precise it will be, and its time, energy and memory."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.base.units import format_bytes, format_seconds
from penstock.base.version import __version__
from penstock.errors import UsageError
from penstock.front.explorer.asked import setting_of
from penstock.front.explorer.bounds import TooMuch
from penstock.front.explorer.columns import short
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.state import State
from penstock.front.explorer.view import View, inputs, results
from penstock.program.workloads import valued
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.overflow import needs_another_secret
from penstock.scheme.unpriced import AT_LEAST, shown_total

if TYPE_CHECKING:
    from penstock.front.hall.predicting import Predicted

MOST_SETS = 10
"""Sets that are shown, as 'penstock predict suggest' prints them."""
LONG = 5000
"""Operations from which one ring dimension is tried: each is a reading of the program at many depths."""
MOST_WITH_NOISE = 25_000
"""Operations of a program whose precision is predicted here: ResNet-20 takes 24 s of a core, HELR 2 s."""
_OF_ONE_RING = "Sets of one ring dimension: the command without --ring-dim tries all, which takes longer."
_NO_LEVEL = "No level is asked for: the set's bootstrapping presupposes a secret that it does not state."
_SETS = (
    ("ring_dim", "ring dimension", "1"), ("depth", "depth", "1"), ("dnum", "digits", "1"),
    ("security_bits", "security, bits", "1"), ("slots", "slots", "1"), ("predicted_s", "time", "s"),
    ("low_s", "from", "s"), ("high_s", "to", "s"), ("s_per_slot", "a slot", "s"), ("num_keys", "keys", "1"),
    ("key_bytes", "key bytes", "B"), ("peak_bytes", "peak memory", "B"), ("bootstraps", "bootstraps", "1"),
)  # fmt: skip
_PRECISION = (
    ("ring_dim", "ring dimension", "1"), ("scale_bits", "scale, bits", "1"), ("security_bits", "security, bits", "1"),
    ("precision_bits", "precision, bits", "1"), ("low_bits", "least", "1"), ("high_bits", "most", "1"),
    ("rms_error", "rms error", "1"), ("high_max_error", "largest error", "1"),
    ("largest_value", "largest value", "1"), ("checks_passed", "checks passed", "1"), ("draws", "draws", "1"),
)  # fmt: skip
_PARTS = (
    ("limbs", "limbs", "1"), ("count", "count", "1"), ("predicted_s", "time", "s"), ("share", "share", "share"),
)  # fmt: skip


def suggest(engine: Engine, state: State) -> View:
    """Parameter sets that carry the program, the fastest first: the first rows of `penstock predict suggest`."""
    from penstock.front.hall.suggesting import suggest as suggested

    machine = engine.machine(state.machine)
    setting = setting_of(engine.library, state)
    ring_dim = _only_ring(engine, state)
    rings = None if ring_dim is None else [ring_dim]
    stated = not (_bootstraps(engine, state) and needs_another_secret(_base(engine, state)))
    sets = suggested(
        str(setting.program),
        machine,
        params=setting.params,
        key_form=state.key_form or None,
        ring_dims=rings,
        security=128 if stated else 0,
    )
    rows = [dict(row) for row in sets.rows[:MOST_SETS]]
    left = len(sets.rows) - len(rows)
    ring_words = ["--ring-dim", str(ring_dim)] if rings else []
    return View(
        title=f"Parameter sets for {rows[0]['workload']} on {short(machine)}",
        columns=results("predicted", f"penstock {__version__}: predict suggest on {machine.title}", *_SETS),
        rows=rows,
        command=_command("suggest", engine, state, *([] if stated else ["--security", "none"]), *ring_words),
        warnings=[text for text in sets.warnings if text not in sets.notes],
        notes=[
            "Every secure ring dimension and number of digits at the least depth that carries the program, the fastest "
            f"first; {left} more are left out."
            if left
            else "Every set that carries the program, the fastest first.",
            *([_OF_ONE_RING] if rings else []),
            *([] if stated else [_NO_LEVEL]),
            *(note for note in sets.notes if not note.startswith("warning")),
        ],
    )


def _only_ring(engine: Engine, state: State) -> int | None:
    """The ring dimension that is tried of a long program, or of one that bootstraps; `None`: all are."""
    trace = engine.trace(state)
    if len(trace) <= LONG and not _bootstraps(engine, state):
        return None
    return _base(engine, state).ring_dim


def _bootstraps(engine: Engine, state: State) -> bool:
    return bool(engine.trace(state).count_by_kind().get("bootstrap", 0))


def _base(engine: Engine, state: State) -> CkksParameters:
    """The set that the suggested ones are near to."""
    native = engine.machine(state.machine).native_params
    return catalogue.get(native) if native is not None and not state.params else engine.trace(state).parameters()


def precision(engine: Engine, state: State) -> View:
    """How precise the result will be: the row of `penstock predict precision`.

    Raises: UsageError: a trace, which has no values.
    """
    from penstock.lab.prediction.precision import ProgramAtSet, predict_precision

    notes = []
    if engine.library.trace_path(state.workload) is not None:
        # Its path is not shown: an address names entries of a listing.
        raise UsageError(
            f"{state.workload} is a trace, made at one chain, of operations without values: name the workload, the .py "
            "file of your program, or its package"
        )
    if state.params and catalogue.get(state.params).library != "openfhe":
        notes = [f"Set '{state.params}' is an accelerator's, whose noise is not known: the program's own set is taken."]
        state = replace(state, params="")
    setting = setting_of(engine.library, state)
    command = shlex.join(["penstock", "predict", "precision", *setting.target()])
    count = len(engine.trace(state))
    if count > MOST_WITH_NOISE:
        raise TooMuch(
            f"{state.workload} has {count:,} operations: the explorer adds noise to at most {MOST_WITH_NOISE:,}, and "
            f"'{command}' to any"
        )
    row = predict_precision(ProgramAtSet.of(valued(str(setting.program)), setting.params)).to_row()
    return View(
        title=f"Precision of {row['workload']} at {row['params']}",
        columns=results(
            "predicted", f"penstock {__version__}: predict precision, {row['draws']} draws of the noise", *_PRECISION
        ),
        rows=[row],
        command=command,
        warnings=row["warnings"],
        notes=[*notes, "Bits behind the binary point of the result: -log2 of the root mean square of its error."],
    )


def predicted(engine: Engine, state: State) -> View:
    """Time, energy, memory and keys before the run, and the operations that take the time: `penstock predict run`."""
    from penstock.front.hall.predicting import predict

    machine = engine.machine(state.machine)
    setting = setting_of(engine.library, state)
    forecast = predict(str(setting.program), machine, params=setting.params, key_form=state.key_form or None)
    span = forecast.seconds_range
    within = "" if span is None else f" ({format_seconds(span[0])} to {format_seconds(span[1])} in 90 % of runs)"
    energy = _total(forecast, "predicted_j", "{:.4g} J".format, "")
    energy, memory = energy and f", {energy}", _total(forecast, "peak_bytes", format_bytes, "not known")
    keys = _total(forecast, "key_bytes", format_bytes, "not known")
    rows = [{**row, "provenance": "predicted"} for row in forecast.rows[:MOST_SETS]]
    return View(
        title=f"Predicted run of {forecast.title}",
        columns=[
            *inputs(("operation", "operation")),
            *results("predicted", f"penstock {__version__}: predict run on {machine.title}", *_PARTS),
        ],
        rows=rows,
        command=_command("run", engine, state),
        warnings=forecast.warnings,
        notes=[
            f"Predicted: {_total(forecast, 'predicted_s', format_seconds)}{within}{energy}; peak memory {memory}; keys "
            f"{keys}; {_total(forecast, 'num_operations', '{:,}'.format)} operations.",
            "The operations that take the most time, by their limbs.",
        ],
    )


def _total(forecast: Predicted, name: str, text: Callable[[float], str], absent: str = "-") -> str:
    return shown_total({name: getattr(forecast.prediction, name), AT_LEAST: forecast.at_least}, name, text, absent)


def _command(verb: str, engine: Engine, state: State, *options: str) -> str:
    program, *words = setting_of(engine.library, state).target()
    form = ["--key-form", state.key_form] if state.key_form else []
    machine = engine.library.machine_text(state.machine)
    return shlex.join(["penstock", "predict", verb, program, "--machine", machine, *words, *options, *form])
