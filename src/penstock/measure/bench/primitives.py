"""The calls: each primitive prepared on stored keys and inputs, with the answer that it must decrypt to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from penstock.errors import PenstockError
from penstock.measure.bench.catalogue import PRIMITIVES
from penstock.measure.bench.recorded import RecordedCall
from penstock.measure.bench.spec import BenchPoint
from penstock.measure.bench.store import ROTATION_STEP, StoredSet
from penstock.program.evaluator import Values, chebyshev_coefficients

TOLERANCE = 1e-3
"""Largest error of a slot: far above the noise of every set here, far below the values, which are in [-1, 1]."""
SCALAR = 0.75
RANGE = (-4.0, 4.0)
INPUTS, OTHER_INPUTS = ("a", "b"), ("c", "d")
"""Names of operands: of the call that is timed, and of one that runs before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A primitive that is ready to run."""

    call: Callable[[], Any]
    decrypted: Callable[[Any], Values] | None
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


def logistic(x: Any) -> Any:
    """1 / (1 + e^-x), for numbers and for arrays."""
    return 1.0 / (1.0 + (math.exp(-x) if isinstance(x, float) else np.exp(-x)))


def prepare(point: BenchPoint, stored: StoredSet, inputs: tuple[str, str] = INPUTS) -> Prepared:
    """The primitive of `point`, its inputs encrypted and its keys registered.

    Args:   inputs: names of its operands; other names are other ciphertexts.
    """
    primitive, params, cc = PRIMITIVES[point.item], point.params, stored.context
    limbs = point.limbs or params.num_q
    if primitive.relinearizes:
        stored.relinearization_key()
    if primitive.rotates and primitive.name != "key_load":
        stored.rotation_key()
    if primitive.records is not None:
        return _recorded(primitive.records, point, stored, inputs)

    def ready(call: Callable[[], Any], expected: Values, **more: Any) -> Prepared:
        return Prepared(call=call, decrypted=partial(_read, stored), expected=expected, **more)

    first, second = inputs
    va, vb = stored.values(first), stored.values(second)
    if primitive.name == "key_load":
        return _key_load(stored)
    if primitive.name == "encode":
        level = params.num_q - limbs  # from an array to a plaintext, as programs do it: the list is a part of the call
        return ready(lambda: cc.MakeCKKSPackedPlaintext(va.tolist(), 1, level, None, params.slots), va)
    if primitive.name == "bootstrap":
        stored.bootstrapping()
        a = stored.ciphertext(first, limbs)
        return ready(lambda: cc.EvalBootstrap(a), va)
    a = stored.ciphertext(first, limbs)
    of_two = {
        "add": (cc.EvalAdd, va + vb),
        "add_plain": (cc.EvalAdd, va + vb),
        "sub": (cc.EvalSub, va - vb),
        "sub_scalar": (cc.EvalSub, va - SCALAR),
        "mult": (cc.EvalMult, va * vb),
        "mult_plain": (cc.EvalMult, va * vb),
        "mult_scalar": (cc.EvalMult, va * SCALAR),
        "mult_no_relin": (cc.EvalMultNoRelin, va * vb),
    }
    if primitive.name in of_two:
        call, expected = of_two[primitive.name]
        b = _second(primitive.name, stored, second, limbs)
        return ready(lambda: call(a, b), expected)
    match primitive.name:
        case "relinearize":
            product = cc.EvalMultNoRelin(a, stored.ciphertext(second, limbs))
            return ready(lambda: cc.Relinearize(product), va * vb)
        case "square":
            return ready(lambda: cc.EvalSquare(a), va * va)
        case "rescale":
            scaled = cc.EvalMult(a, stored.encode(vb, limbs))
            return ready(lambda: cc.Rescale(scaled), va * vb)
        case "encrypt":
            plain = stored.encode(va, limbs)
            return ready(lambda: cc.Encrypt(stored.public_key, plain), va)
        case "decrypt":
            return ready(lambda: cc.Decrypt(a, stored.secret_key), va)
        case "decompose":
            return Prepared(call=lambda: cc.EvalFastRotationPrecompute(a), decrypted=None, expected=None)
        case "rotate_hoisted":
            digits, order = cc.EvalFastRotationPrecompute(a), 2 * params.ring_dim
            return ready(lambda: cc.EvalFastRotation(a, ROTATION_STEP, order, digits), np.roll(va, -ROTATION_STEP))
        case "rotate":
            turned = np.roll(va, -ROTATION_STEP)
            if point.condition != "cold-keys":
                return ready(lambda: cc.EvalRotate(a, ROTATION_STEP), turned)
            path, index = stored.rotation_key_path(), cc.FindAutomorphismIndex(ROTATION_STEP)
            return ready(
                lambda: cc.EvalAutomorphism(a, index, stored.load_rotation_key(path)),
                turned,
                key_path=path,
                key_bytes=path.stat().st_size,
            )
        case "chebyshev_series":
            coefficients = chebyshev_coefficients(logistic, *RANGE, point.degree or 1)
            return ready(lambda: cc.EvalChebyshevSeries(a, coefficients, *RANGE), _approximated(va, point))
        case "chebyshev_function":
            degree = point.degree or 1
            return ready(lambda: cc.EvalChebyshevFunction(logistic, a, *RANGE, degree), _approximated(va, point))
    raise PenstockError(f"primitive '{primitive.name}' has no call")


def _read(stored: StoredSet, result: Any) -> Values:
    plain = result if hasattr(result, "SetLength") else stored.context.Decrypt(result, stored.secret_key)
    plain.SetLength(stored.params.slots)
    return np.asarray(plain.GetCKKSPackedValue(), dtype=np.complex128)


def _second(name: str, stored: StoredSet, operand: str, limbs: int) -> Any:
    """The second operand of a primitive: a scalar, a plaintext or a ciphertext."""
    if name.endswith("_scalar"):
        return SCALAR
    if name.endswith("_plain"):
        return stored.encode(stored.values(operand), limbs)
    return stored.ciphertext(operand, limbs)


def _key_load(stored: StoredSet) -> Prepared:
    path = stored.rotation_key_path()
    return Prepared(
        call=lambda: stored.load_rotation_key(path),
        decrypted=None,
        expected=None,
        key_path=path,
        key_bytes=path.stat().st_size,
    )


def _recorded(item: str, point: BenchPoint, stored: StoredSet, inputs: tuple[str, str]) -> Prepared:
    coefficients = chebyshev_coefficients(logistic, *RANGE, point.degree or 1) if item == "chebyshev_series" else []
    call = RecordedCall(item, point, stored, inputs, coefficients, RANGE)
    expected = call.expected
    if item == "chebyshev_series":
        expected = _approximated(stored.values(inputs[0]), point)
    return Prepared(call=call, decrypted=call.decrypted, expected=expected, less_s=call.library_s)


def _approximated(values: Values, point: BenchPoint) -> Values:
    """The Chebyshev series itself is evaluated in the clear; its fit to the function is not checked."""
    coefficients = np.asarray(chebyshev_coefficients(logistic, *RANGE, point.degree or 1))
    coefficients[0] /= 2
    return np.polynomial.chebyshev.chebval(values / RANGE[1], coefficients)
