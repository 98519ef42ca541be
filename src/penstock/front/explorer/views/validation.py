"""The errors of predictions against measurements: the rows of `penstock predict validate`, from a file."""

from __future__ import annotations

from penstock.errors import UsageError
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.state import State
from penstock.front.explorer.view import View, inputs, results

ERRORS = {
    "mean_abs_error": "mean |error|", "median_abs_error": "median", "p90_abs_error": "p90", "worst_abs_error": "worst",
    "bias": "bias", "coverage90": "in 90 % interval",
}  # fmt: skip


def validation(engine: Engine, state: State) -> View:
    """Errors of each model, protocol and application; those over all applications are drawn.

    Raises: UsageError: no file was named at the start; as `Library.predictions`.
    """
    files = engine.library.prediction_files
    name = state.predictions or next(iter(files), "")
    if not name:
        raise UsageError(
            "no predictions were named: 'penstock predict validate --format json > validation.json' makes a file, and "
            "'penstock explore --predictions validation.json' shows it"
        )
    rows = engine.library.predictions(name)
    source = f"{files[name]}, predict validate: predicted / measured - 1"
    return View(
        title=f"Predictions against measurements, {name}",
        columns=[
            *inputs(*((name, name) for name in ("protocol", "application", "model")), ("n", "predictions", "1")),
            *results("predicted", source, *((name, label, "share") for name, label in ERRORS.items())),
        ],
        rows=rows,
        notes=["Errors of predictions of what the model was not fitted to; each protocol says what was held out."],
        drawing={"file": name},
    )
