"""The `noisy` reading: the program on plain vectors, with the noise that each operation of OpenFHE's would add.

Nothing is encrypted. A ciphertext is represented by the values of its decryption. Every step adds a draw of its noise
(`penstock.program.evaluator.noise`) and changes the scale as OpenFHE does. Errors meet, cancel and grow by the
program's own arithmetic, on the user's own data. Composites are taken apart into the library's steps. Bootstrapping
too: raising the modulus adds whole multiples of q_0, and the sine's residue of them is the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from penstock.errors import ParamsError
from penstock.program.evaluator.abreast import Bundle, Circuit, members_of
from penstock.program.evaluator.call import (
    Call,
    Cipher,
    Composite,
    DatabaseBlock,
    Executed,
    Manner,
    Monomial,
    Refresh,
    WeightedSum,
    Whole,
)
from penstock.program.evaluator.composites import ExpandingEvaluator
from penstock.program.evaluator.fits import check_real_number, check_vector
from penstock.program.evaluator.imaginary import ComplexValues, check_dropped
from penstock.program.evaluator.noise import NoiseModel, Noisy, SharedNoise, Variance, coefficients_of, slots_of, tiled
from penstock.program.evaluator.noisy_small import NoisySmallRing
from penstock.program.evaluator.protocol import Plain, Values, check_real
from penstock.program.evaluator.scaling import ScaleState, align_pair
from penstock.scheme.operations import OpKind, Rules
from penstock.scheme.params.ckks import CkksParameters, Scaling

_LEAST_BITS = 5
"""OpenFHE refuses to decrypt where fewer bits are left above the noise."""
_LEAST_FLOODING = 0.125
"""Of the square root of the ring dimension: the least noise, of a coefficient, that OpenFHE's decryption assumes."""


class NoisyEvaluator(ExpandingEvaluator):
    """Each call computes on vectors and adds the call's noise; rows carry limbs, and no time.

    Args:   seed: of the noise. Another seed gives another draw of the same size. exact_ratio: bootstrapping knows the
            exact ratio of q_0 to the scale, as penstock's own evaluator does; OpenFHE takes the nearest power of two,
            so that a part of each multiple of q_0 stays. own_client: penstock's client encrypts (secret key) and
            decrypts; OpenFHE encrypts with the public key, and its decryption adds noise.
    Raises: ParamsError: the set is not for OpenFHE.
    """

    def __init__(
        self,
        params: CkksParameters,
        seed: int | Sequence[int] = 0,
        *,
        exact_ratio: bool = False,
        own_client: bool = False,
    ) -> None:
        super().__init__(params)
        if params.library != "openfhe":
            states = "primes and no rule of scales" if params.q_primes else "sizes of primes and no primes"
            raise ParamsError(
                f"set '{params.name}' is an accelerator's, which states {states}: the noise of OpenFHE's sets can be "
                "computed ('penstock params list')"
            )
        self.model = NoiseModel(params)
        self._random = np.random.default_rng(seed)
        self.run = SharedNoise(self.model.secret_weight, self._random)
        self._top, self._exact_ratio, self._own_client = params, exact_ratio, own_client

    # Client side.
    def _encrypt(self, values: Values) -> Executed:
        check_real(values)
        state = ScaleState.encrypted(self.params, self.params.num_q)
        model = self.model
        made = Noisy(values.astype(np.complex128), model.scale(state.limbs, state.degree))
        encryption = model.seeded_encryption if self._own_client else model.encryption
        variance = self._white(encryption, made) + self._encoding(len(values), state)
        return Executed(state, made.with_noise(variance))

    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        made: Noisy = a.value
        values, params = self._values(made), self.params
        log_scale = float(np.log2(made.scale))
        largest = float(np.max(np.abs(coefficients_of(values))))
        if not np.isfinite(largest):
            raise ParamsError(
                "decrypt: the values are not numbers any more: a series was left far outside its interval, or a "
                "product outgrew a double"
            )
        if largest > 0 and np.log2(largest) + log_scale >= self.model.log2_modulus(a.state.limbs) - 1:
            held = f"{a.state.limbs} limb{'s' if a.state.limbs > 1 else ''} of set '{params.name}'"
            raise ParamsError(
                f"decrypt: values up to {float(np.max(np.abs(values))):.3g} outgrow the modulus at {held}: scale the "
                "data down, or take a set with a wider first modulus"
            )
        is_complex = ComplexValues.of(self.builder).has(a.object_id, self.builder)
        if is_complex and self._own_client:
            return values, Executed(a.state)
        # Other imaginary parts are taken for pure noise.
        of_slots = np.sqrt(2 * len(values)) / 2.0**params.scale_bits
        seen = float(np.sqrt(np.mean(values.imag**2)))
        if is_complex:
            check_dropped(seen)
        if np.log2(max(seen / of_slots, 1e-300)) > params.scale_bits - _LEAST_BITS:
            raise ParamsError(
                f"decrypt: the imaginary parts, {seen:.3g} (rms), are too large to be noise, and OpenFHE refuses them: "
                "the noise has drowned the values, or they are complex"
            )
        if self._own_client:
            return values.real.astype(np.complex128), Executed(a.state)
        # OpenFHE adds as much again.
        flooding = max(seen, _LEAST_FLOODING * np.sqrt(params.ring_dim) * of_slots)
        flooded = values.real + flooding * self._random.standard_normal(len(values))
        return flooded.astype(np.complex128), Executed(a.state)

    @property
    def has_small_ring(self) -> bool:
        """OpenFHE's evaluation has none."""
        return self._exact_ratio

    def _decrypt_complex(self, a: Cipher) -> tuple[Values, Executed]:
        return self._values(a.value), Executed(a.state)

    def before_flooding(self, a: Cipher) -> tuple[int, Noisy]:
        """Limbs and value of a result that noise is added to: a product is rescaled first, so that the noise fits a
        word."""
        limbs = a.state.limbs
        return (limbs - 1, self._rescaled(a.value, limbs)) if a.state.degree == 2 and limbs > 1 else (limbs, a.value)

    def _composite(self, kind: OpKind, name: str, a: Cipher, circuit: Circuit, how: Composite) -> Cipher:
        result = super()._composite(kind, name, a, circuit, how)
        folded = [self._folded(member) for member in members_of(result)]
        return Bundle.of(folded) if isinstance(result, Bundle) else folded[0]

    def _folded(self, result: Cipher) -> Cipher:
        """Values are read from their own coefficients only; noise with another period does not belong to them."""
        made: Noisy = result.value
        slots = self.params.slots
        if len(made.drawn) == slots:
            return result
        folded = self._values(made).reshape(-1, slots).mean(axis=0)
        return Cipher(result.object_id, result.state, result.polynomials, Noisy(folded, made.scale))

    def sibling(self, params: CkksParameters) -> NoisyEvaluator:
        other = copy(self)
        other.params = params
        return other

    def refresh_numbers(self, a: Cipher, small: int) -> Refresh:
        model = self.model
        top = model.scale(self._top.num_q - (self._top.scaling is Scaling.FLEXIBLE_AUTO_EXT))
        limbs = a.state.limbs
        adjust = top * model.q[limbs - 1] / (a.value.scale * model.scale(limbs)) / small
        ratio = model.q[0] / top
        if not self._exact_ratio:
            ratio = 2.0 ** round(np.log2(ratio))
        return Refresh(adjust=adjust, small=small, modulus_ratio=ratio)

    # One step.
    def execute(self, call: Call) -> Executed:
        return Executed(call.state, self._computed(call))

    def _computed(self, call: Call) -> Noisy | Values:
        operands = call.operands
        if call.how is Manner.ADJUSTED:
            return self._brought(operands[0], call.state, operands[1].value)
        return NOISE[call.kind](self, call, operands[0].value if operands else None)

    def _stored(self, call: Call) -> Noisy | Values:
        """A ciphertext that was there before: of the large ring, or whole numbers of the small one."""
        values = _numbers(call)
        if values.dtype.kind != "c" and call.state == ScaleState(1, 1):
            return self.small.encrypted(values)
        made = Noisy(values.astype(np.complex128), self.model.scale(call.state.limbs))
        encryption = self._white(self.model.seeded_encryption, made)
        return made.with_noise(encryption + self._encoding(len(values), call.state))

    @cached_property
    def small(self) -> NoisySmallRing:
        """Polynomials of the small ring, with its noise."""
        return NoisySmallRing(self.model, self._random)

    def _sum_of(self, a: Noisy, b: Noisy, sign: int = 1) -> Noisy:
        x, y = self._alike(a, b)
        total = x + sign * (b.scale / a.scale) * y
        return Noisy(total, a.scale, polynomials=max(a.polynomials, b.polynomials))

    def _product(self, a: Cipher, b: Cipher, predicted: ScaleState) -> Noisy:
        first, second = self._pair(a, b)
        if self._meeting(a, b).limbs > predicted.limbs:  # factors that are products are rescaled first
            first, second = (self._rescaled(factor, predicted.limbs + 1) for factor in (first, second))
        return self._times(first, second)

    def _times(self, first: Noisy, second: Noisy) -> Noisy:
        x, y = self._alike(first, second)
        polynomials = min(first.polynomials, second.polynomials) and first.polynomials + second.polynomials - 1
        return Noisy(x * y, first.scale * second.scale, polynomials=polynomials)

    # Scales.
    def _pair(self, a: Cipher, b: Cipher) -> tuple[Noisy, Noisy]:
        """Both operands at the limbs and degree where they meet, before a product is rescaled."""
        state = self._meeting(a, b)
        return self._brought(a, state, b.value), self._brought(b, state, a.value)

    def _meeting(self, a: Cipher, b: Cipher) -> ScaleState:
        aligned = align_pair(a.state, b.state, self.params.scaling, multiplication=False)
        return ScaleState(aligned.limbs, max(aligned.degrees))

    def _brought(self, a: Cipher, to: ScaleState, other: Noisy) -> Noisy:
        """At the limbs and degree of `to`, as an operand that meets `other` under an automatic rule.

        The library then says that it has the scale of `other`. It differs from the level's scale if `other` lost limbs
        by `mod_drop`, and the difference stays in the value.
        """
        made: Noisy = a.value
        state, model = a.state, self.model
        if state == to or not self.params.scaling.automatic:
            return made
        if state.limbs == to.limbs:
            return self._lifted(made, to.limbs)
        if not model.flexible:
            if state.degree > to.degree:
                return self._rescaled(made, state.limbs)
            return self._lifted(made, to.limbs) if state.degree < to.degree else made
        if state.degree > to.degree and state.limbs - to.limbs == 1:
            return self._rescaled(made, state.limbs)
        # A product with a whole number, divided by the last prime if it was a product before, and by one for degree 1.
        aimed = other.scale if to.degree == 2 else model.scale(to.limbs + 1, 2)
        divisor = model.divisor(state.limbs) if state.degree == 2 else 1.0
        real = made.scale * float(np.rint(aimed / made.scale * divisor)) / divisor
        if to.degree == 1:
            real /= model.divisor(to.limbs + 1)
        brought = self._scaled(made, real / other.scale, other.scale)
        # Of two divisions only the last one's rounding is left.
        divided = to.degree == 1 or state.degree == 2
        return self._rounded(brought) if divided else brought

    def _lifted(self, made: Noisy, limbs: int) -> Noisy:
        """One degree higher, for a product that it meets: times the scale of the level, or, where all levels share one,
        times the prime that the next rescale divides by."""
        model = self.model
        unit = model.scale(limbs)
        by = np.rint(unit) / unit if model.flexible else 1 / model.drift(limbs)
        lifted = self._scaled(made, by, made.scale * unit)
        if by * unit == model.q[limbs - 1] or not model.flexible:
            lifted.rescaled[limbs] = made  # nothing is rounded
        return lifted

    def _rescaled(self, made: Noisy, limbs: int) -> Noisy:
        if limbs not in made.rescaled:
            model = self.model
            result = self._scaled(made, model.drift(limbs), made.scale / model.divisor(limbs))
            made.rescaled[limbs] = self._rounded(result)
        return made.rescaled[limbs]

    def _scaled(self, made: Noisy, number: float, scale: float) -> Noisy:
        """The values times a number, at another scale."""
        values = self._values(made)
        return made.like(values if number == 1 else values * number, scale)

    def _rounded(self, made: Noisy) -> Noisy:
        """With the rounding of a division."""
        return made.with_noise(self._rounding(made))

    # Operands that are not ciphertexts.
    def _with_plain(self, kind: OpKind, a: Cipher, plain: Plain, predicted: ScaleState) -> Noisy:
        made: Noisy = a.value
        limbs = predicted.limbs
        if not self._exact_ratio:
            check_real(plain.values)
        check_vector(
            self._top,
            "encode",
            plain.values,
            ScaleState(limbs, predicted.degree if kind is not OpKind.MULT_PLAIN else 1),
        )
        encoding = self._encoding(len(plain.values), predicted)
        if kind is OpKind.MULT_PLAIN:
            made = self._rescaled(made, a.state.limbs) if limbs < a.state.limbs else made
            values = self._values(made)
            # The library assigns the scale of the level's products, whatever the operand's scale is.
            real, assigned = made.scale * self.model.scale(limbs), self.model.plain_product(limbs, made.scale)
            product = made.like(values * plain.values * (real / assigned), assigned)
            return product.with_noise(encoding * np.abs(values) ** 2)
        ratio = self.model.scale(limbs, predicted.degree) / made.scale
        sign = -1 if kind is OpKind.SUB_PLAIN else 1
        total = self._values(made) + sign * ratio * plain.values
        return Noisy(total, made.scale, ratio**2 * encoding, polynomials=max(1, made.polynomials))

    def _with_scalar(self, kind: OpKind, a: Cipher, scalar: complex, predicted: ScaleState, *, reverse: bool) -> Noisy:
        check_real_number(kind, scalar)
        made: Noisy = a.value
        model, limbs = self.model, predicted.limbs
        unit = model.encoding_scale(limbs, predicted.degree)
        if kind is OpKind.MULT_SCALAR:
            # The library adds one half and cuts off, also below zero.
            number = np.trunc(scalar.real * unit + 0.5) / unit
            made = self._rescaled(made, a.state.limbs) if limbs < a.state.limbs else made
            product = self._scaled(made, number, made.scale * unit)
            product.polynomials = made.polynomials if number else 0
            return product
        number = round(scalar.real * unit) / unit * model.scale(limbs, predicted.degree) / made.scale
        if predicted.degree == 2 and not model.flexible:
            number /= model.drift(limbs)
        values = self._values(made)
        if kind is OpKind.SUB_SCALAR:
            values, number = (-values, number) if reverse else (values, -number)
        total = made.like(values + number)
        total.polynomials = max(1, made.polynomials)
        return total

    def _weighted(self, operands: Sequence[Cipher], how: WeightedSum, predicted: ScaleState) -> Noisy:
        terms = list(operands)
        plus = terms.pop() if len(terms) > len(how.plains) else None
        unit = self.model.scale(predicted.limbs)
        first: Noisy = terms[0].value
        length = max(len(first.drawn), *(len(factor.values) for factor in how.plains))
        total, variance = np.zeros(length, dtype=np.complex128), np.zeros(length)
        for term, plain in zip(terms, how.plains, strict=True):
            values, vector = (
                tiled(vector_values, length) for vector_values in (self._values(term.value), plain.values)
            )
            total += values * vector
            variance += self._encoding(len(plain.values), predicted) * np.abs(values) ** 2
        result = Noisy(total, first.scale * unit)
        if plus is not None:
            result = self._sum_of(result, plus.value)
        return result.with_noise(variance)

    # Noise.
    def _white(self, variance: float, made: Noisy) -> float:
        """Noise of the values, from noise in coefficients: noise in other coefficients than the values' does not
        count."""
        return 2 * len(made.drawn) * variance / made.scale**2

    def _rounding(self, made: Noisy) -> float:
        """Of the values that a rescale leaves: of the polynomials that have anything."""
        return self._white((0.0, 1 / 12, self.model.rounding)[min(made.polynomials, 2)], made)

    def _encoding(self, slots: int, state: ScaleState) -> float:
        """Of the values of a vector: its coefficients are rounded at the scale of its level."""
        return 2 * slots / 12 / self.model.encoding_scale(state.limbs, state.degree) ** 2

    def _switched(self, made: Noisy, state: ScaleState, over: int = 1) -> Noisy:
        """After a switch of the key of the polynomial behind the first `over`."""
        if made.polynomials <= over:
            return made
        noise = self._white(self.model.key_switch(state.limbs), made)
        return self._divided(Noisy(self._values(made), made.scale).with_noise(noise))

    def _divided(self, made: Noisy) -> Noisy:
        """After ModDown of both polynomials."""
        model, slots = self.model, len(made.drawn)
        mean = model.mod_down_mean / made.scale * self.run.mean_in_slots(slots)[0]
        result = Noisy(made.drawn - mean, made.scale, made.pending)
        return result.with_noise(self._white(model.mod_down, result))

    def _raised(self, made: Noisy, limbs: int) -> Noisy:
        """The modulus raised: every coefficient of the ring has its multiple of q_0."""
        model, ring = self.model, self._top.ring_dim
        self.run.refreshes += 1
        length = min(2 * len(made.drawn), ring // 2)
        scale = model.scale(limbs) if model.flexible else made.scale
        values = tiled(self._values(made), length) * (made.scale / scale)
        multiples = np.rint(self._random.standard_normal(2 * length) * np.sqrt(model.overflow))
        return Noisy(values + slots_of(multiples) * (model.q[0] / scale), scale)

    def _rolled(self, made: Noisy, step: int | None) -> Noisy:
        assert step is not None
        return made.like(np.roll(self._values(made), -step))

    def _alike(self, a: Noisy, b: Noisy) -> tuple[Values, Values]:
        """The values of both, as many of each."""
        length = max(len(a.drawn), len(b.drawn))
        return tiled(self._values(a), length), tiled(self._values(b), length)

    def _values(self, made: Noisy) -> Values:
        """Its values with all its noise."""
        if np.any(made.pending):
            made.drawn = made.drawn + self._normal(len(made.drawn), made.pending)
            made.pending = 0.0
        return made.drawn

    def _normal(self, slots: int, variance: Variance) -> Values:
        """Complex normal noise: half of the variance in each part."""
        both = self._random.standard_normal((slots, 2)).view(np.complex128)[:, 0]
        return both * np.sqrt(variance / 2)


# Each operation: its rule is of the evaluator, the call and the value of the first operand.
_K = OpKind
Rule: TypeAlias = Callable[[NoisyEvaluator, Any, Any], Noisy | Values]
NOISE: Rules[Rule] = Rules("noise", "program/evaluator/noisy.py", lambda row: row.makes is not None)
NOISE.of(_K.ENCRYPT)(lambda ev, call, a: ev._stored(call))
NOISE.of(_K.DECOMPOSE, _K.EXTEND)(lambda ev, call, a: a)
NOISE.of(_K.NEGATE)(lambda ev, call, a: a.like(-ev._values(a)))
NOISE.of(_K.RELINEARIZE)(lambda ev, call, a: ev._switched(a, call.state, over=2))
NOISE.of(_K.ROTATE, _K.ROTATE_HOISTED)(lambda ev, call, a: ev._switched(ev._rolled(a, call.argument), call.state))
NOISE.of(_K.CONJUGATE)(lambda ev, call, a: ev._switched(a.like(np.conj(ev._values(a))), call.state))
NOISE.of(_K.TO_SPARSE)(lambda ev, call, a: Noisy(ev._values(a), a.scale).with_noise(ev._white(ev.model.to_sparse, a)))
NOISE.of(_K.TO_DENSE)(lambda ev, call, a: ev._switched(a, call.state))
NOISE.of(_K.RESCALE)(lambda ev, call, a: ev._rescaled(a, call.operands[0].state.limbs))
NOISE.of(_K.ADD_EXTENDED)(lambda ev, call, a: ev._sum_of(a, call.operands[1].value))
NOISE.of(_K.MULT_PLAIN_EXTENDED)(lambda ev, call, a: ev._weighted(call.operands, call.how, call.state))
NOISE.of(_K.MOD_DOWN)(lambda ev, call, a: ev._divided(a))
NOISE.of(_K.MOD_RAISE)(lambda ev, call, a: ev._raised(a, call.state.limbs))
NOISE.of(_K.EXPAND_SMALL)(lambda ev, call, a: ev.small.expanded(a))
NOISE.of(_K.INNER_PRODUCTS)(lambda ev, call, a: ev.small.inner_products(a, _numbers(call)))
NOISE.of(_K.PACK_SMALL)(lambda ev, call, a: ev.small.packed([operand.value for operand in call.operands]))
# All that its value adds.
NOISE.of(_K.SWITCH_SMALL_SQUARED)(lambda ev, call, a: ev.small.noise(ev.params.ring_dim, ev.model.to_sparse))
NOISE.of(_K.ADD_PLAIN, _K.SUB_PLAIN, _K.MULT_PLAIN)(
    lambda ev, call, a: ev._with_plain(call.kind, call.operands[0], call.plain, call.state)
)


@NOISE.of(_K.ADD, _K.SUB)
def _sum(ev: NoisyEvaluator, call: Call, a: Noisy) -> Noisy:
    one, other = call.operands
    first, second = ev._pair(one, other)
    total = ev._sum_of(first, second, sign=-1 if call.kind is _K.SUB else 1)
    if call.kind is _K.SUB and first is second and one.state.limbs == other.state.limbs:
        total.polynomials = 0
    return total


@NOISE.of(_K.MULT, _K.MULT_NO_RELIN, _K.SQUARE)
def _product(ev: NoisyEvaluator, call: Call, a: Noisy) -> Noisy:
    product = ev._product(call.operands[0], call.operands[-1], call.state)
    return product if call.kind is _K.MULT_NO_RELIN else ev._switched(product, call.state, over=2)


@NOISE.of(_K.ADD_SCALAR, _K.SUB_SCALAR, _K.MULT_SCALAR)
def _with_number(ev: NoisyEvaluator, call: Call, a: Noisy) -> Noisy:
    how, one = call.how, call.operands[0]
    if isinstance(how, Monomial | Whole):
        factor = how.factor if isinstance(how, Whole) else 1j ** (2 * how.power // ev._top.ring_dim)
        return Noisy(ev._values(a) * factor, a.scale, bound=abs(factor) * a.bound)
    assert call.scalar is not None
    return ev._with_scalar(call.kind, one, call.scalar, call.state, reverse=how is Manner.REVERSED)


@NOISE.of(_K.MOD_DROP)
def _dropped(ev: NoisyEvaluator, call: Call, a: Noisy) -> Noisy:
    state = call.operands[0].state
    return ev._rescaled(a, state.limbs) if ev.params.scaling.automatic and state.degree == 2 else a


@NOISE.of(_K.DECOMPOSE_EXTENDED)
def _digits(ev: NoisyEvaluator, call: Call, a: Noisy) -> Noisy:
    """The noise of dividing the second polynomial: every rotation by these digits has it."""
    slots, model = len(a.drawn), ev.model
    noise = ev._normal(slots, ev._white(model.mod_down_second, a))
    noise -= model.mod_down_mean / a.scale * ev.run.mean_in_slots(slots)[1]
    return Noisy(noise, a.scale)


@NOISE.of(_K.ROTATE_HOISTED_EXTENDED, _K.ROTATE_EXTENDED)
def _rotation(ev: NoisyEvaluator, call: Call, a: Noisy) -> Noisy:
    values = ev._values(a)
    if call.kind is _K.ROTATE_EXTENDED:
        values = values + ev._alike(a, call.operands[1].value)[1]
    rolled = ev._rolled(Noisy(values, a.scale), call.argument)
    return rolled.with_noise(ev._white(ev.model.key_switch(call.state.limbs), a))


@NOISE.of(_K.SWITCH_SMALL)
def _from_small(ev: NoisyEvaluator, call: Call, a: Values) -> Noisy:
    scale = ev.model.scale(1)
    noise = ev.small.noise(ev.params.ring_dim, ev.model.to_sparse)
    return Noisy(slots_of(a + call.operands[1].value + noise) / scale, scale)


def _numbers(call: Call) -> Values:
    """The values that a call brings with it."""
    assert isinstance(call.how, DatabaseBlock)
    assert call.how.source is not None
    return call.how.source()
