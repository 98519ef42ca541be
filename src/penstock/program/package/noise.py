"""The noise of a package's results: a worst-case bound, from inputs as large as the program may get.

The package runs without cryptography on inputs of the stated size, and each value carries a bound on its error
(`penstock.program.evaluator.bounding`). No ciphertext of a later run may have larger values than here; `SLACK` times as
large are allowed for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from penstock.errors import PenstockError
from penstock.program.evaluator.bounding import BoundingEvaluator
from penstock.program.evaluator.clear import ClearResults
from penstock.program.evaluator.protocol import Values
from penstock.program.package.content import Noise, Package, Verb
from penstock.program.package.replay import run_package

SLACK = 2.0
"""Values of ciphertexts may be so many times as large as here."""


def stated_noise(package: Package, inputs: Mapping[str, Values]) -> Noise | None:
    """The bounds for inputs as large as the largest of these, rounded up; `None`: there are none.

    A program that refreshes has none, and neither has a set that is not for OpenFHE, or a recording of zeros alone.
    """
    if package.params.library != "openfhe" or any(call.verb is Verb.BOOTSTRAP for call in package.instructions):
        return None
    largest = max((_largest(values) for values in inputs.values()), default=0.0)
    if not 2.0**-100 < largest < 2.0**100:
        return None
    eighths = size_in_eighths(inputs)
    edge = {name: np.asarray(values) * (2.0 ** (eighths / 8) / largest) for name, values in inputs.items()}
    try:
        bounds = bounded(package, edge, slack=SLACK)
    except PenstockError:  # no bound of a call is known, or it outgrows doubles
        return None
    errors, results = zip(*bounds.values(), strict=True)
    # A bound of 0 would say that everything is refused, and that the results were 0.
    return Noise(eighths, _bits(max(*results, 1.0)), _bits(max(errors)))


def size_in_eighths(inputs: Mapping[str, Values]) -> int:
    """Eight times log2 of the largest value, rounded up."""
    largest = max((_largest(values) for values in inputs.values()), default=0.0)
    return math.ceil(8 * math.log2(max(largest, 2.0**-100)) - 1e-9)


def bounded(package: Package, inputs: Mapping[str, Values], *, slack: float = 1.0) -> dict[str, tuple[float, float]]:
    """Of each result the bound on the root mean square of its error's values, in all slots, and its largest value.

    Raises: ParamsError, PenstockError: there is no bound; as `run_package`.
    """
    ev = BoundingEvaluator(package.params, exact_ratio=True, slack=slack)
    run_package(ev, package, inputs)
    exact = clear_results(package, inputs)
    bounds = {}
    for (name, values), done in zip(exact.items(), ev.decryptions, strict=True):
        # Drift of scales and rounded numbers are not secret, but noise stands for the exact result.
        drift = float(np.sqrt(np.mean(np.abs(done.values - values) ** 2)))
        bounds[name] = (done.bound + drift * slack, slack * _largest(values))
    return bounds


def clear_results(package: Package, inputs: Mapping[str, Values]) -> dict[str, Values]:
    """Each result in the clear, (slots,) float64 or complex128: the slots behind its length too."""
    ev = ClearResults(package.params)
    run_package(ev, package, inputs)
    return dict(zip(output_names(package), ev.results, strict=True))


def output_names(package: Package) -> Sequence[str]:
    """The names of the outputs in the order of their decryptions."""
    return [package.outputs[call.argument].name for call in package.instructions if call.verb is Verb.OUTPUT]


def _largest(values: Values) -> float:
    return float(np.max(np.abs(values), initial=0.0))


def _bits(value: float) -> int:
    """The power of two that it does not exceed."""
    return math.ceil(math.log2(max(value, 2.0**-999)))
