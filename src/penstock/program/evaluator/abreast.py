"""Several ciphertexts through one circuit, side by side: each step is done for all of them before the next one.

An evaluation key is then read once for all of them, and a plaintext over Q and P is evaluated once. The ciphertexts of
a step are all in memory at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import PenstockError
from penstock.program.evaluator.call import Call, Cipher, Executed, How, Refresh
from penstock.program.evaluator.circuit_evaluator import CircuitEvaluator
from penstock.program.evaluator.protocol import Operand, Values
from penstock.program.evaluator.scaling import ScaleState
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters


@dataclass(eq=False, slots=True)
class Bundle(Cipher):
    """Ciphertexts of one state, as one operand of a circuit."""

    members: tuple[Cipher, ...] = ()

    @classmethod
    def of(cls, members: Sequence[Cipher]) -> Bundle:
        first = members[0]
        assert all(member.state == first.state and member.polynomials == first.polynomials for member in members)
        return cls(first.object_id, first.state, first.polynomials, members=tuple(members))


class EachOwn(tuple[float, ...]):
    """A number for each ciphertext of a bundle."""


def members_of(a: Cipher) -> tuple[Cipher, ...]:
    """The ciphertexts of a bundle, or the one ciphertext."""
    return a.members if isinstance(a, Bundle) else (a,)


def side_by_side(ev: CircuitEvaluator, a: Cipher) -> CircuitEvaluator:
    """What runs a circuit on `a`: `ev` itself, or for all ciphertexts of a bundle."""
    return Abreast(ev) if isinstance(a, Bundle) else ev


class Abreast(CircuitEvaluator):
    """A circuit's steps on bundles: each is done by `inner` for one ciphertext after the other."""

    def __init__(self, inner: CircuitEvaluator) -> None:
        super().__init__(inner.params, inner.builder)
        self.inner = inner

    # Bundles.
    def split(self, *operands: Cipher) -> list[tuple[Cipher, ...]]:
        return list(zip(*map(members_of, operands), strict=True))

    def joined(self, results: Sequence[Cipher]) -> Cipher:
        return Bundle.of(results)

    def one_by_one(self, work: Callable[..., Cipher], *operands: Cipher) -> Cipher:
        if any(isinstance(operand, Bundle) for operand in operands):
            return super().one_by_one(work, *operands)
        return work(*operands)  # a part of the circuit that runs for one ciphertext after the other

    # Steps.
    def execute(self, call: Call) -> Executed:
        return self.inner.execute(call)

    def weighted_sums(self, calls: Sequence[Call]) -> list[Executed]:
        return self.inner.weighted_sums(calls)

    def sibling(self, params: CkksParameters) -> Abreast:
        return Abreast(self.inner.sibling(params))

    def refresh_numbers(self, a: Cipher, small: int) -> Refresh:
        numbers = [self.inner.refresh_numbers(own, small) for own in members_of(a)]
        return replace(numbers[0], adjust=EachOwn(refresh.adjust for refresh in numbers))

    def mult(self, a: Cipher, b: Operand) -> Cipher:
        if not isinstance(b, EachOwn):
            return super().mult(a, b)
        return Bundle.of([self.inner.mult(own, number) for own, number in zip(members_of(a), b, strict=True)])

    def weighted(self, terms: Sequence[Cipher], weights: Sequence[float], kept: dict[int, object]) -> Cipher:
        return self.one_by_one(lambda *own: self.inner.weighted(own, weights, kept), *terms)

    def scaled(self, a: Cipher, factor: float) -> Cipher:
        return self.one_by_one(lambda own: self.inner.scaled(own, factor), a)

    def _two(self, kind: OpKind, a: Cipher, b: Cipher, **rest: Any) -> Cipher:
        return self.one_by_one(lambda x, y: self.inner._two(kind, x, y, **rest), a, b)

    def _one(self, kind: OpKind, a: Cipher, **rest: Any) -> Cipher:
        return self.one_by_one(lambda own: self.inner._one(kind, own, **rest), a)

    def _decompose(self, a: Cipher) -> Cipher:
        return self.one_by_one(self.inner._decompose, a)

    def _rotate_hoisted(self, a: Cipher, digits: Cipher, step: int) -> Cipher:
        return self.one_by_one(lambda own, parts: self.inner._rotate_hoisted(own, parts, step), a, digits)

    def _drop(self, kind: OpKind, a: Cipher, limbs: int, degree: int) -> Cipher:
        return self.one_by_one(lambda own: self.inner._drop(kind, own, limbs, degree), a)

    def _circuit_row(
        self,
        kind: OpKind,
        a: Cipher,
        state: ScaleState,
        *others: Cipher,
        limbs_in: int,
        implied_rescales: int = 0,
        how: How | None = None,
    ) -> Cipher:
        def row(*own: Cipher) -> Cipher:
            first, *rest = own
            inner = self.inner._circuit_row
            return inner(kind, first, state, *rest, limbs_in=limbs_in, implied_rescales=implied_rescales, how=how)

        return self.one_by_one(row, a, *others)

    # A circuit has none of these inside.
    def _encrypt(self, values: Values) -> Executed:
        raise _no_step("encryption")

    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        raise _no_step("decryption")

    def bootstrap(self, a: Cipher, slots: int | None = None) -> Cipher:
        raise _no_step("bootstrapping")

    def bootstrap_many(self, operands: Sequence[Cipher], slots: int | None = None) -> list[Cipher]:
        raise _no_step("bootstrapping")

    def chebyshev_series(self, a: Cipher, coefficients: Sequence[float], lower: float, upper: float) -> Cipher:
        raise _no_step("a Chebyshev series")

    def polynomial(self, a: Cipher, coefficients: Sequence[float]) -> Cipher:
        raise _no_step("a power series")


def _no_step(what: str) -> PenstockError:
    return PenstockError(
        f"{what} of several ciphertexts at once: only circuits inside a composite run so; call it for each ciphertext"
    )


def levelled(ev: CircuitEvaluator, operands: Sequence[Cipher]) -> list[Cipher]:
    """The ciphertexts at one state: that of all of them, or no product and the fewest levels."""
    if len({operand.state for operand in operands}) == 1:
        return list(operands)
    lowest = min(ev.levels(operand) for operand in operands)

    def lowered(a: Cipher) -> Cipher:
        a = ev.rescale(a) if a.state.degree > 1 else a
        return ev.mod_drop(a, lowest + 1)

    return [lowered(operand) for operand in operands]


Circuit = Callable[[CircuitEvaluator, Cipher], Cipher]
"""The steps of a composite, on one ciphertext or on a bundle."""
