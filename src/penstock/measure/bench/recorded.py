"""Calls as a recorded program makes them: the time of the record of a call beyond the library's.

A recorded call works out the scaling, calls the library, asks the result for its state, appends a row, and releases a
ciphertext that the program no longer needs. The row of the same call gives the library's part, so the rest needs no
difference of two measurements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.errors import PenstockError
from penstock.measure.bench.spec import BenchPoint
from penstock.measure.bench.store import ROTATION_STEP, StoredSet
from penstock.openfhe.evaluator import OpenFheContext, OpenFheEvaluator
from penstock.program.call import Call, Cipher, Executed
from penstock.program.evaluator import Values
from penstock.program.scaling import ScaleState


class TimedEvaluator(OpenFheEvaluator):
    """Records like any recorded program, and keeps the library's time of the last call."""

    library_s = 0.0

    def execute(self, call: Call) -> Executed:
        return self._noted(super().execute(call))

    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        values, done = super()._decrypt(a)
        return values, self._noted(done)

    def _noted(self, done: Executed) -> Executed:
        assert done.start_s is not None
        assert done.end_s is not None
        self.library_s = done.end_s - done.start_s
        return done


class RecordedCall:
    """A recorded operation on stored inputs; each call releases the result of the one before.

    Args:   item: the primitive that is recorded; inputs: names of its operands; series, bounds: of a Chebyshev series.
    Raises: PenstockError: nothing of that name is recorded.
    """

    def __init__(
        self,
        item: str,
        point: BenchPoint,
        stored: StoredSet,
        inputs: tuple[str, str],
        series: list[float],
        bounds: tuple[float, float],
    ) -> None:
        self.stored = stored
        context = OpenFheContext(stored.params, stored.context, stored.public_key, stored.secret_key)
        self.evaluator = ev = TimedEvaluator(context)
        limbs = point.limbs or stored.params.num_q

        def operand(name: str) -> Cipher:
            state = ScaleState.encrypted(stored.params, limbs)
            return Cipher(ev.builder.ciphertext(limbs), state, value=stored.ciphertext(name, limbs))

        a, b = map(operand, inputs)
        va, vb = map(stored.values, inputs)
        plain = ev.encode(vb)
        found: dict[str, tuple[Callable[[], Any], Values | None]] = {
            "add": (lambda: ev.add(a, b), va + vb),
            "mult_plain": (lambda: ev.mult(a, plain), va * vb),
            "rotate": (lambda: ev.rotate(a, ROTATION_STEP), np.roll(va, -ROTATION_STEP)),
            "mult": (lambda: ev.mult(a, b), va * vb),
            "decrypt": (lambda: ev.decrypt(a), va),
            "chebyshev_series": (lambda: ev.chebyshev_series(a, series, *bounds), None),
        }
        if item not in found:
            raise PenstockError(f"primitive '{item}' is not timed as a recorded call")
        self._call, self.expected = found[item]
        self._held: Any = None

    def __call__(self) -> Any:
        self._held = self._call()
        return self._held

    def library_s(self) -> float:
        """What the library took in the last call."""
        return self.evaluator.library_s

    def decrypted(self, result: Any) -> Values:
        """(slots,) the contents of a result."""
        return result if isinstance(result, np.ndarray) else self.evaluator.decrypt(result)
