"""The steps that only circuits of composites use, in addition to the `Evaluator` protocol.

Readings that expand composites by our own circuits share them: `trace`, `counting`, `noisy` and `native`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from penstock.program.evaluator.call import Call, Cipher, Executed, How, Manner, Monomial, Refresh, Whole
from penstock.program.evaluator.protocol import Made
from penstock.program.evaluator.rows import ciphertext
from penstock.program.evaluator.scaling import ScaleState, align_pair
from penstock.program.evaluator.small import SmallSteps
from penstock.scheme.operations import TO_DENSE_KEY, TO_SPARSE_KEY, OpKind
from penstock.scheme.params.ckks import CkksParameters


class CircuitEvaluator(SmallSteps):
    """A writer of rows whose steps may be those inside a composite. It does them by `execute`, as all others."""

    def rotation(self, step: int) -> tuple[int, str]:
        """The one name of a rotation, and its key."""
        normal = self.normal_step(step)
        return normal, self._rotation_key(normal)

    @abstractmethod
    def sibling(self, params: CkksParameters) -> CircuitEvaluator:
        """An evaluator of the same run under other rules: slots, or when to rescale."""

    @abstractmethod
    def refresh_numbers(self, a: Cipher, small: int) -> Refresh:
        """For a bootstrapping of `a`."""

    # Several ciphertexts side by side: here one, in `penstock.program.evaluator.abreast` the members of a bundle.
    def split(self, *operands: Cipher) -> list[tuple[Cipher, ...]]:
        """The operands of each of the ciphertexts that go through the circuit."""
        return [operands]

    def joined(self, results: Sequence[Cipher]) -> Cipher:
        """The result of a step, from those of all ciphertexts."""
        (result,) = results
        return result

    def one_by_one(self, work: Callable[..., Cipher], *operands: Cipher) -> Cipher:
        """A step, done for one ciphertext after the other."""
        return self.joined([work(*own) for own in self.split(*operands)])

    def weighted_sums(self, calls: Sequence[Call]) -> list[Executed]:
        """Sums of products over Q and P, all with the same vectors."""
        return [self.execute(call) for call in calls]

    def elementwise(self, a: Cipher, how: Monomial | Whole) -> Cipher:
        """A product that leaves the scale."""
        return self._circuit_row(OpKind.MULT_SCALAR, a, a.state, limbs_in=a.state.limbs, how=how)

    def to_sparse(self, a: Cipher) -> Cipher:
        """A ciphertext of one limb, under the ephemeral sparse secret."""
        return self._one(OpKind.TO_SPARSE, a, key=TO_SPARSE_KEY)

    def to_dense(self, a: Cipher) -> Cipher:
        """From the ephemeral sparse secret back to that of the pair."""
        return self._one(OpKind.TO_DENSE, a, key=TO_DENSE_KEY)

    def mod_raise(self, a: Cipher) -> Cipher:
        """The modulus raised to the full chain: the first step of bootstrapping."""
        return self.raised(a, self.params.num_q)

    def raised(self, a: Cipher, limbs: int) -> Cipher:
        """The modulus raised to `limbs` limbs; of the operand only its first limb counts."""
        return self._circuit_row(OpKind.MOD_RAISE, a, ScaleState(limbs, 1), limbs_in=a.state.limbs)

    def rescale_limbs(self, a: Cipher, limbs: int) -> Cipher:
        """A level that is `limbs` primes wide: so many rescales at the end of a product, whatever the scaling rule."""
        for i in range(limbs):
            a = self._drop(OpKind.RESCALE, a, a.state.limbs - 1, 1 if i == limbs - 1 else a.state.degree)
        return a

    def lowered(self, a: Cipher, levels: int) -> Cipher:
        """`a` with at most `levels` levels left, by dropping limbs."""
        if self.levels(a) <= levels:
            return a
        return self.mod_drop(a, levels + (1 if self.params.scaling.automatic else a.state.degree))

    def adjusted(self, a: Cipher, to: Cipher) -> Cipher:
        """`a` at the limbs and scale of `to` under an automatic rule, once for all its uses: a sum would do it in
        each."""
        if a.state == to.state:
            return a
        aligned = align_pair(a.state, to.state, self.params.scaling, multiplication=False)
        if aligned.scalar_mults:
            kind, limbs = OpKind.MULT_SCALAR, to.state.limbs
        elif aligned.rescales:
            kind, limbs = OpKind.RESCALE, to.state.limbs + aligned.rescales
        else:  # one scale for all levels: limbs are dropped
            kind, limbs = OpKind.MOD_DROP, a.state.limbs
        return self._circuit_row(
            kind,
            a,
            to.state,
            to,
            limbs_in=limbs,
            implied_rescales=aligned.rescales if kind is OpKind.MULT_SCALAR else 0,
            how=Manner.ADJUSTED,
        )

    def mult_by_i(self, a: Cipher) -> Cipher:
        """Every slot times i: a product with a monomial, which leaves the scale."""
        return self.made_complex(self.elementwise(ciphertext("mult_by_i", a), Monomial(self.params.ring_dim // 2)))

    def weighted(self, terms: Sequence[Cipher], weights: Sequence[float], kept: dict[int, object]) -> Cipher:
        """Sum of ciphertexts times numbers, not rescaled. `kept` is for what another sum of the same can use."""
        total = self.mult(terms[0], weights[0])
        for term, weight in zip(terms[1:], weights[1:], strict=True):
            total = self.add(total, self.mult(term, weight))
        return total

    def shared(self, name: str, make: Callable[[], Made]) -> Made:
        """What `make` returns, made once within a trace."""
        shared = self.builder.shared
        if name not in shared:
            shared[name] = make()
        return shared[name]

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
        """One row with one operand; `others` say what state is wanted."""
        done = self.execute(Call(kind, [a, *others], state, how=how))
        output = self.builder.ciphertext(state.limbs)
        self.write_row(kind, [a], output, done, limbs_in, implied_rescales=implied_rescales)
        return Cipher(output, done.state, value=done.value)
