"""Steps over Q and P: what OpenFHE's composites do between a product with a key and ModDown.

Source: OpenFHE 1.5.1, `keyswitch-hybrid.cpp` (KeySwitchExt, KeySwitchDown), `ckksrns-leveledshe.cpp`
(EvalFastRotationExt) and `ckksrns-fhe.cpp` (EvalMultExt, EvalAddExt).
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.program.evaluator.call import Call, Cipher, Executed, Pass, WeightedSum
from penstock.program.evaluator.circuit_evaluator import CircuitEvaluator
from penstock.program.evaluator.protocol import Plain
from penstock.program.evaluator.scaling import ScaleState
from penstock.scheme.operations import OpKind


class Extended:
    """Operations over Q and P. The ciphertexts that it takes and gives have no public operation."""

    def __init__(self, ev: CircuitEvaluator) -> None:
        self.ev, self.builder = ev, ev.builder

    def _row(self, call: Call, output: int) -> Cipher:
        done = self.ev.execute(call)
        limbs = call.state.limbs
        self.ev.write_row(call.kind, call.operands, output, done, limbs, step=call.argument, key=call.key)
        return Cipher(output, call.state, value=done.value)

    def _made(self, kind: OpKind, *operands: Cipher, step: int | None = None, key: str | None = None) -> Cipher:
        state = operands[0].state
        return self.ev.one_by_one(
            lambda *own: self._row(Call(kind, own, state, key, step), self.builder.extended(state.limbs)), *operands
        )

    def _digits(self, kind: OpKind, a: Cipher) -> Cipher:
        limbs = a.state.limbs
        return self.ev.one_by_one(lambda own: self._row(Call(kind, [own], own.state), self.builder.digits(limbs)), a)

    def extend(self, a: Cipher) -> Cipher:
        """`a` times P."""
        return self._made(OpKind.EXTEND, a)

    def add(self, a: Cipher, b: Cipher) -> Cipher:
        return self._made(OpKind.ADD_EXTENDED, a, b)

    def weighted(self, terms: Sequence[tuple[Cipher, Plain]], total: Cipher | None) -> Cipher:
        """`total`, where there is one, plus the sum of ciphertexts times vectors that are encoded over Q and P.

        Each product and each sum is a row. A reading that computes does all of them in one pass, whose time is dealt to
        the rows in equal parts.
        """
        state = ScaleState(terms[0][0].state.limbs, 2)
        operands = [term for term, _ in terms] + ([] if total is None else [total])
        how = WeightedSum(tuple(plain for _, plain in terms))
        own = self.ev.split(*operands)
        done = self.ev.weighted_sums([Call(OpKind.MULT_PLAIN_EXTENDED, members, state, how=how) for members in own])
        return self.ev.joined([self._sum_rows(*pair, how.plains, state) for pair in zip(own, done, strict=True)])

    def _sum_rows(
        self, operands: Sequence[Cipher], done: Executed, plains: Sequence[Plain], state: ScaleState
    ) -> Cipher:
        """The rows of one sum, and its result."""
        total = operands[-1] if len(operands) > len(plains) else None
        times = Pass(done.start_s, done.end_s).parts(2 * len(plains) - (total is None))
        for term, plain in zip(operands, plains, strict=False):
            plaintext = self._plaintext(plain, state.limbs)
            product = self._added(OpKind.MULT_PLAIN_EXTENDED, [term], state, next(times), plaintext)
            if total is not None:
                product = self._added(OpKind.ADD_EXTENDED, [total, product], state, next(times))
            total = product
        assert total is not None
        total.value = done.value
        return total

    def _added(
        self,
        kind: OpKind,
        operands: Sequence[Cipher],
        state: ScaleState,
        times: tuple[float | None, float | None],
        plaintext: int | None = None,
    ) -> Cipher:
        """The row of a step that was computed with others, and its result without a value."""
        output = self.builder.extended(state.limbs)
        self.ev.write_row(kind, operands, output, Executed(state, None, *times), state.limbs, plaintext=plaintext)
        return Cipher(output, state)

    def _plaintext(self, plain: Plain, limbs: int) -> int:
        """The object of a vector that is encoded over Q and P, once a trace."""
        known = plain.kept(self.builder)
        plaintext = known.get(("extended", limbs))
        if plaintext is None:
            plaintext = known["extended", limbs] = self.builder.plaintext(limbs, plain.name, extended=True)
        return int(plaintext)

    def rotated(self, a: Cipher, steps: Sequence[int]) -> list[Cipher]:
        """A ciphertext over Q, rotated by each step: one decomposition, no ModDown."""
        rotations = [self.ev.rotation(step) for step in steps]
        if not any(step for step, _ in rotations):
            return [self.extend(a) for _ in steps]
        digits = self._digits(OpKind.DECOMPOSE, a)
        return [
            self._made(OpKind.ROTATE_HOISTED_EXTENDED, a, digits, step=step, key=key) if step else self.extend(a)
            for step, key in rotations
        ]

    def digits(self, a: Cipher) -> Cipher:
        """The decomposition of a ciphertext over Q and P, whose second polynomial is divided by P first."""
        return self._digits(OpKind.DECOMPOSE_EXTENDED, a)

    def rotate(self, a: Cipher, step: int, digits: Cipher | None = None) -> Cipher:
        """A ciphertext over Q and P, rotated; it stays over both."""
        step, key = self.ev.rotation(step)
        if not step:
            return a
        if digits is not None:
            return self._made(OpKind.ROTATE_EXTENDED, a, digits, step=step, key=key)

        def rotated(own: Cipher) -> Cipher:
            # Digits are larger than ciphertexts: those of one ciphertext at a time.
            parts = self._row(Call(OpKind.DECOMPOSE_EXTENDED, [own], own.state), self.builder.digits(own.state.limbs))
            call = Call(OpKind.ROTATE_EXTENDED, [own, parts], own.state, key, step)
            return self._row(call, self.builder.extended(own.state.limbs))

        return self.ev.one_by_one(rotated, a)

    def divided(self, a: Cipher) -> Cipher:
        """Back over Q: ModDown of both polynomials."""
        limbs = a.state.limbs
        return self.ev.one_by_one(
            lambda own: self._row(Call(OpKind.MOD_DOWN, [own], own.state), self.builder.ciphertext(limbs)), a
        )
