"""Steps on ciphertexts of a smaller ring: a query expanded, inner products with stored records, packing into the large
ring.

A small ciphertext is a polynomial of whole numbers modulo q_0, encrypted at the one limb of the small ring. The values
of a program are its coefficients here, not slots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.errors import PenstockError
from penstock.program.evaluator.call import Call, Cipher, DatabaseBlock, Executed
from penstock.program.evaluator.protocol import Values
from penstock.program.evaluator.rows import RowWriter
from penstock.program.evaluator.scaling import ScaleState
from penstock.scheme.operations import FROM_SMALL_KEY, FROM_SMALL_SQUARED_KEY, SMALL_ROTATION, OpKind

_ONE_LIMB = ScaleState(1, 1)


class SmallSteps(RowWriter):
    """The steps of a reading whose circuits may begin in a smaller ring. It does them by `execute`."""

    @property
    def has_small_ring(self) -> bool:
        """Whether `execute` knows them."""
        return False

    def small_ciphertext(self, coefficients: Callable[[], Values], *, name: str | None = None) -> Cipher:
        """A ciphertext that its owner encrypted: whole numbers, (n,) or shorter, by a function that makes them."""
        self._check_small()
        value = self.execute(Call(OpKind.ENCRYPT, [], _ONE_LIMB, how=DatabaseBlock(coefficients))).value
        return Cipher(self.builder.small(2, name), _ONE_LIMB, value=value)

    def stored_ciphertext(self, values: Callable[[], Values], limbs: int, *, name: str | None = None) -> Cipher:
        """A ciphertext of the large ring that its owner stored before: `values`, (slots,), complex if need be."""
        state = ScaleState(limbs, 1)
        value = self.execute(Call(OpKind.ENCRYPT, [], state, how=DatabaseBlock(values))).value
        return Cipher(self.builder.ciphertext(limbs, name=name), state, value=value)

    def expand_small(self, a: Cipher, count: int) -> Cipher:
        """`count` ciphertexts, a power of two: the first coefficients of `a`, as constants times `count`."""
        n, made = self.params.small_ring_dim, 1
        while made < count:
            key = f"{SMALL_ROTATION}:{n // made + 1}"
            a = self._small_row(OpKind.EXPAND_SMALL, [a], self.builder.small(4 * made), key=key, how=None)
            made *= 2
        return a

    def inner_products(
        self, vector: Cipher, count: int, block: Callable[[], Values] | None, *, name: str | None = None
    ) -> Cipher:
        """The sum over the `count` ciphertexts of `vector` of their products with those of a stored block.

        Args:   block: makes the block's whole numbers, (count, records). Half of each ciphertext is made of a seed.
        """
        stored = Cipher(self.builder.stored(count, name), _ONE_LIMB)
        return self._small_row(OpKind.INNER_PRODUCTS, [vector, stored], self.builder.small(3), how=DatabaseBlock(block))

    def pack_small(self, parts: Sequence[Cipher]) -> Cipher:
        """Up to N/n small ciphertexts in one: coefficient i of part t is coefficient i N/n + t."""
        output = self.builder.ciphertext(1, 3)
        return self._small_row(OpKind.PACK_SMALL, parts, output, polynomials=3)

    def switch_small(self, a: Cipher) -> Cipher:
        """From the small secret to the ephemeral one of the large ring, at one limb: two polynomials."""
        squared = self._small_row(
            OpKind.SWITCH_SMALL_SQUARED, [a], self.builder.ciphertext(1), key=FROM_SMALL_SQUARED_KEY
        )
        return self._small_row(OpKind.SWITCH_SMALL, [a, squared], self.builder.ciphertext(1), key=FROM_SMALL_KEY)

    def decrypt_complex(self, a: Cipher) -> Values:
        """The complex vector in `a`, (slots,): its owner's client decrypts it, who adds no noise."""
        self._check_small()
        return self._decrypt_by(a, self._decrypt_complex)

    def _decrypt_complex(self, a: Cipher) -> tuple[Values, Executed]:
        return self._decrypt(a)

    def _small_row(
        self,
        kind: OpKind,
        operands: Sequence[Cipher],
        output: int,
        *,
        key: str | None = None,
        how: DatabaseBlock | None = None,
        polynomials: int = 2,
    ) -> Cipher:
        self._check_small()
        done = self.execute(Call(kind, operands, _ONE_LIMB, key, how=how))
        self.write_row(kind, operands, output, done, 1, key=key)
        return Cipher(output, _ONE_LIMB, polynomials, done.value)

    def _check_small(self) -> None:
        if not self.has_small_ring:
            raise PenstockError(
                f"{type(self).__name__} does not compute in a smaller ring: trace, simulate or predict this program; "
                "docs/guides/similarity.md says how to run a search on encrypted data"
            )
        if not self.params.small_ring_dim:
            raise PenstockError(
                f"parameter set '{self.params.name}' has no small ring: take 'openfhe-similarity', or state "
                "small_ring_dim in a set of your own"
            )
