"""What the modulus of a level holds: numbers and scales beyond it are refused before they wrap around or overflow.

Scales are the real ones of each level. An accelerator's set states sizes of primes and no primes: there they are its
sizes.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from penstock.errors import EvaluationRefused, ParamsError, PenstockError
from penstock.program.evaluator.noise import NoiseModel, coefficients_of
from penstock.program.evaluator.protocol import Values
from penstock.program.evaluator.scaling import ScaleState
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters

_SAME = 0.01
"""Bits of a real scale above the modulus that do not count."""


@lru_cache(maxsize=64)
def _model(params: CkksParameters) -> NoiseModel | None:
    return NoiseModel(params) if params.library == "openfhe" else None


@lru_cache(maxsize=1024)
def scale_bits(params: CkksParameters, state: ScaleState) -> float:
    """log2 of the scale of a ciphertext in this state."""
    model = _model(params)
    return state.degree * params.scale_bits if model is None else math.log2(model.scale(state.limbs, state.degree))


@lru_cache(maxsize=1024)
def held_bits(params: CkksParameters, limbs: int) -> float:
    """Bits of the modulus of so many limbs."""
    model = _model(params)
    return sum(params.q_bits[:limbs]) if model is None else model.log2_modulus(limbs)


def is_beyond(params: CkksParameters, state: ScaleState) -> bool:
    """Whether the primes that are left hold no values at the scale of a product.

    Primes differ a little from powers of two, and a scale as large as the modulus leaves values below one half.
    """
    spare = 0.0 if _model(params) is None else _SAME
    return state.degree > 1 and scale_bits(params, state) >= held_bits(params, state.limbs) + spare


def check_scale(params: CkksParameters, state: ScaleState) -> None:
    """Raises: ParamsError: a product that cannot be decrypted, since the primes that are left do not hold its scale."""
    if is_beyond(params, state):
        raise ParamsError(
            f"decrypt: a product at {_limbs(state)} has a scale of 2^{scale_bits(params, state):.6g}, and set "
            f"'{params.name}' has {held_bits(params, state.limbs):.6g} bits left for it: the program is deeper than "
            "the parameters"
        )


def check_real_number(what: OpKind, number: complex) -> None:
    """Raises: PenstockError: a number with an imaginary part, which OpenFHE does not take."""
    if number.imag != 0:
        raise PenstockError(f"{what}: OpenFHE takes real numbers only, not {number}; encode it as a vector")


def check_number(params: CkksParameters, what: OpKind, number: complex, state: ScaleState) -> None:
    """Raises: EvaluationRefused: a number that is not finite, or that is larger at this scale than the modulus."""
    size = max(abs(number.real), abs(number.imag))
    if not math.isfinite(size):
        raise EvaluationRefused(f"{what}: the number {_shown(number)} is not finite: take numbers that a double holds")
    if _model(params) is None:
        return  # nothing is encrypted there, and the sizes of primes alone do not tell what their product holds
    result = ScaleState(1, 2) if what is OpKind.MULT_SCALAR and state.limbs == 1 else state
    if not size or is_beyond(params, result):  # `check_scale` refuses to decrypt its result
        return
    bits, held = math.log2(size) + scale_bits(params, state), held_bits(params, state.limbs)
    if bits >= held - 1:
        raise EvaluationRefused(
            f"{what}: the number {_shown(number)} has {bits:.0f} bits at its scale, and {_limbs(state)} of set "
            f"'{params.name}' hold {held:.0f}, one of them for its sign: scale it down, or take more limbs"
        )


def outgrown_bits(params: CkksParameters, values: Values, state: ScaleState) -> float | None:
    """Bits of the largest coefficient of a finite vector, (n,), where the modulus does not hold it; n a power of 2."""
    size = _largest(values)
    if not size or _model(params) is None:
        return None
    free = held_bits(params, state.limbs) - 1 - scale_bits(params, state)
    if is_beyond(params, state):  # as in `check_number`
        return None
    # No coefficient is larger than the largest part of a complex value times the root of 2.
    if math.log2(size) + 0.5 < free:
        return None
    largest = float(np.max(np.abs(coefficients_of(values / size))))
    bits = math.log2(largest) + math.log2(size) if largest else -math.inf
    return bits + scale_bits(params, state) if bits >= free else None


def lost_bits(params: CkksParameters, values: Values, state: ScaleState) -> float | None:
    """Bits of the largest coefficient of a vector that is not zero, (n,), where all of them would be rounded to 0."""
    size, model = _largest(values), _model(params)
    if not size or model is None:
        return None
    scale = math.log2(model.encoding_scale(state.limbs, state.degree))
    # A value is at most the sum of its 2n coefficients.
    if math.log2(size) + scale > math.log2(2 * len(values)):
        return None
    largest = float(np.max(np.abs(coefficients_of(values / size))))
    bits = math.ceil(math.log2(largest) + math.log2(size) + scale)
    return bits if bits < 0 else None


def check_vector(params: CkksParameters, what: str, values: Values, state: ScaleState) -> None:
    """Raises: EvaluationRefused: a vector whose polynomial the modulus does not hold at this scale."""
    bits = outgrown_bits(params, values, state)
    if bits is not None:
        raise EvaluationRefused(
            f"{what}: values whose coefficients have {bits:.0f} bits at {_limbs(state)} of "
            f"{held_bits(params, state.limbs):.0f} bits; their modulus holds a bit more than the largest coefficient: "
            "scale them down, or take more limbs"
        )
    lost = lost_bits(params, values, state)
    if lost is not None:
        raise EvaluationRefused(
            f"{what}: values below 2^{lost:.0f} of a coefficient's unit; take a larger scale: all coefficients would "
            "round to 0"
        )


def _largest(values: Values) -> float:
    parts = (values.real, values.imag) if values.dtype.kind == "c" else (values,)
    return max(float(np.max(np.abs(part), initial=0.0)) for part in parts)


def _limbs(state: ScaleState) -> str:
    return f"{state.limbs} limb{'s' if state.limbs > 1 else ''}"


def _shown(number: complex) -> str:
    return f"{number.real:g}" if not number.imag else f"{number:g}"
