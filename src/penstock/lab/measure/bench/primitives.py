"""The calls: each primitive prepared on stored keys and inputs, with the answer that it must decrypt to.

With OpenFHE a primitive is the library's call. In the native reading, and where the record of a call is timed, it is a
call of the evaluator. That call works out the scaling, computes, appends a row, and releases a ciphertext that the
program no longer needs. The row says how long the computing took, and the rest is the record.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.measure.bench.spec import BenchPoint
from penstock.lab.measure.bench.store import ROTATION_STEP, BenchSet, StoredSet
from penstock.program.evaluator.protocol import Values, chebyshev_coefficients

Number = TypeVar("Number", float, Values)
TOLERANCE = 1e-3
"""Largest error of a slot: far above the noise of every set here, far below the values, which are in [-1, 1]."""
SCALAR = 0.75
RANGE = (-4.0, 4.0)
INPUTS, OTHER_INPUTS = ("a", "b"), ("c", "d")
"""Names of operands: of the call that is timed, and of one that runs before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPrimitive:
    """A primitive that is ready to run."""

    call: Callable[[], object]
    decrypted: Callable[[object], Values] | None
    """(slots,) what its result holds; `None` where there is nothing to decrypt."""
    expected: Values | None
    key_path: Path | None = None
    """The key file that the call reads, or whose pages a cold run drops."""
    key_bytes: int = 0
    """Bytes that a call reads from a key file."""
    less_s: Callable[[], float] | None = None
    """Seconds of the last call outside of the timing."""

    def max_abs_error(self) -> float | None:
        """Run it once more and hold the result against the clear one."""
        if self.decrypted is None or self.expected is None:
            return None
        return float(np.max(np.abs(self.decrypted(self.call()) - self.expected)))


class EvaluatorCall:
    """A call of an evaluator that writes rows; the result of the call before is released in it."""

    def __init__(self, ev: Any, call: Callable[[], object]) -> None:
        self.ev, self._call = ev, call
        self._held: object = None
        self._first, self._wall_s = 0, 0.0

    def __call__(self) -> object:
        self._first, started = self.ev.builder.num_operations, time.perf_counter()
        self._held = self._call()
        self._wall_s = time.perf_counter() - started
        return self._held

    def computed_s(self) -> float:
        """What the operations of the last call took, as its rows state it."""
        return float(self.ev.builder.seconds_since(self._first))

    def record_s(self) -> float:
        """The rest of the last call."""
        return self._wall_s - self.computed_s()

    def decrypted(self, result: object) -> Values:
        """(slots,) the contents of a result."""
        return result if isinstance(result, np.ndarray) else self.ev.decrypt(result)


def logistic(x: Number) -> Number:
    """1 / (1 + e^-x), for numbers and for arrays."""
    return 1.0 / (1.0 + (math.exp(-x) if isinstance(x, float) else np.exp(-x)))


def prepare(point: BenchPoint, stored: BenchSet, inputs: tuple[str, str] = INPUTS) -> PreparedPrimitive:
    """The primitive of `point`, its inputs encrypted and its keys registered.

    Args:   inputs: names of its operands; other names are other ciphertexts.
    """
    primitive, path = PRIMITIVES[point.item], None
    if point.item == "encode":
        call, read = stored.encoding(stored.values(inputs[0]), point.limbs or point.params.num_q, point.threads)
        return PreparedPrimitive(call=call, decrypted=read, expected=stored.values(inputs[0]))
    expected = _expected(primitive.records or point.item, point, *map(stored.values, inputs))
    if isinstance(stored, StoredSet):
        if primitive.relinearizes:
            stored.relinearization_key()
        if primitive.rotates and point.item != "key_load":
            stored.rotation_key()
        if primitive.records is None:
            if point.item == "key_load" or point.condition == "cold-keys":
                path = stored.rotation_key_path()
            return PreparedPrimitive(
                call=_library_call(point, stored, inputs, path),
                decrypted=None if expected is None else stored.decrypted,
                expected=expected,
                key_path=path,
                key_bytes=path.stat().st_size if path is not None else 0,
            )
    ev = stored.evaluator(point.threads, bootstraps=point.item == "bootstrap")
    called = EvaluatorCall(ev, _evaluator_call(primitive.records or point.item, point, stored, ev, inputs))
    return PreparedPrimitive(
        call=called,
        decrypted=None if expected is None else called.decrypted,
        expected=expected,
        less_s=called.record_s if primitive.records is None else called.computed_s,
    )


CLEAR: dict[str, Callable[[Values, Values], Values]] = {
    **dict.fromkeys(("add", "add_plain"), lambda a, b: a + b),
    **dict.fromkeys(("mult", "mult_plain", "mult_no_relin", "relinearize", "rescale"), lambda a, b: a * b),
    **dict.fromkeys(("rotate", "rotate_hoisted"), lambda a, _: np.roll(a, -ROTATION_STEP)),
    "sub": lambda a, b: a - b,
    "sub_scalar": lambda a, _: a - SCALAR,
    "mult_scalar": lambda a, _: a * SCALAR,
    "square": lambda a, _: a * a,
}
"""Primitive -> the clear result of its operands; any other whose result is a ciphertext leaves its operand as it is."""


def _expected(item: str, point: BenchPoint, a: Values, b: Values) -> Values | None:
    """(slots,) the clear result; `None` of a result without a ciphertext."""
    if item in ("decompose", "key_load"):
        return None
    if PRIMITIVES[item].uses_degree:
        # The series itself is evaluated in the clear; its fit to the function is not checked.
        coefficients = np.asarray(chebyshev_coefficients(logistic, *RANGE, point.degree or 1))
        coefficients[0] /= 2
        return np.polynomial.chebyshev.chebval(a / RANGE[1], coefficients)
    return CLEAR[item](a, b) if item in CLEAR else a


def _library_call(
    point: BenchPoint, stored: StoredSet, inputs: tuple[str, str], path: Path | None
) -> Callable[[], object]:
    """OpenFHE's own call."""
    params, cc, primitive = point.params, stored.context, PRIMITIVES[point.item]
    limbs = point.limbs or params.num_q
    if path is not None:
        load = partial(stored.load_rotation_key, path)
        if point.item == "key_load":
            return load
        a, index = stored.ciphertext(inputs[0], limbs), cc.FindAutomorphismIndex(ROTATION_STEP)
        return lambda: cc.EvalAutomorphism(a, index, load())
    if point.item == "bootstrap":
        stored.bootstrapping()
    known = _operands(
        point,
        partial(stored.ciphertext, limbs=limbs),
        inputs,
        lambda: stored.encode(stored.values(inputs[1]), limbs),
        (cc.EvalMultNoRelin, cc.EvalMult, cc.EvalFastRotationPrecompute),
    ) | {
        "encoded": lambda: stored.encode(stored.values(inputs[0]), limbs), "2N": lambda: 2 * params.ring_dim,
        "public key": lambda: stored.public_key, "secret key": lambda: stored.secret_key,
    }  # fmt: skip
    operands = [known[word]() for word in primitive.library or primitive.operands]
    return partial(getattr(cc, primitive.call.partition(" ")[0]), *operands)


def _evaluator_call(
    item: str, point: BenchPoint, stored: BenchSet, ev: Any, inputs: tuple[str, str]
) -> Callable[[], object]:
    """The evaluator's call."""
    limbs = point.limbs or point.params.num_q
    known = _operands(
        point,
        lambda name: stored.cipher(ev, name, limbs),
        inputs,
        lambda: ev.encode(stored.values(inputs[1])),
        (ev.mult_no_relin, ev.mult, ev.decompose),
    ) | {"values": lambda: stored.values(inputs[0])}
    operands = [known[word]() for word in PRIMITIVES[item].operands]
    return partial(getattr(ev, item.removesuffix("_plain").removesuffix("_scalar")), *operands)


def _operands(
    point: BenchPoint,
    cipher: Callable[[str], object],
    inputs: tuple[str, str],
    plain: Callable[[], object],
    before: tuple[Callable[..., object], Callable[..., object], Callable[..., object]],
) -> dict[str, Callable[[], object]]:
    """What makes the operands of calls, by the words of the primitives.

    Args:   cipher: the ciphertext of a name; plain: makes the second operand as a plaintext; before: a product without
            relinearization, a product and a decomposition, which make operands of some calls.
    """
    a, b = (cache(partial(cipher, name)) for name in inputs)
    degree = point.degree or 1
    return {
        "a": a, "b": b, "plain": plain, "scalar": lambda: SCALAR, "step": lambda: ROTATION_STEP,
        "product": lambda: before[0](a(), b()), "scaled": lambda: before[1](a(), plain()),
        "digits": lambda: before[2](a()), "logistic": lambda: logistic, "degree": lambda: degree,
        "coefficients": lambda: chebyshev_coefficients(logistic, *RANGE, degree),
        "low": lambda: RANGE[0], "high": lambda: RANGE[1],
    }  # fmt: skip
