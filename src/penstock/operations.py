"""The vocabulary: every kind of CKKS operation that programs use, traces record and machines price."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Word(str, Enum):
    """One of a set of words: it is written as its value."""

    def __str__(self) -> str:
        return str(self.value)


class OpKind(Word):
    """A kind of operation; the value is its name in traces, tables and on the command line."""

    ENCRYPT = "encrypt"
    DECRYPT = "decrypt"
    ADD = "add"
    ADD_PLAIN = "add_plain"
    ADD_SCALAR = "add_scalar"
    SUB = "sub"
    SUB_PLAIN = "sub_plain"
    SUB_SCALAR = "sub_scalar"
    NEGATE = "negate"
    MULT = "mult"
    MULT_NO_RELIN = "mult_no_relin"
    RELINEARIZE = "relinearize"
    MULT_PLAIN = "mult_plain"
    MULT_SCALAR = "mult_scalar"
    SQUARE = "square"
    ROTATE = "rotate"
    DECOMPOSE = "decompose"
    ROTATE_HOISTED = "rotate_hoisted"
    CONJUGATE = "conjugate"
    TO_SPARSE = "to_sparse"
    TO_DENSE = "to_dense"
    EXTEND = "extend"
    ADD_EXTENDED = "add_extended"
    MULT_PLAIN_EXTENDED = "mult_plain_extended"
    ROTATE_HOISTED_EXTENDED = "rotate_hoisted_extended"
    DECOMPOSE_EXTENDED = "decompose_extended"
    ROTATE_EXTENDED = "rotate_extended"
    MOD_DOWN = "mod_down"
    RESCALE = "rescale"
    MOD_DROP = "mod_drop"
    MOD_RAISE = "mod_raise"
    EXPAND_SMALL = "expand_small"
    INNER_PRODUCTS = "inner_products"
    PACK_SMALL = "pack_small"
    SWITCH_SMALL = "switch_small"
    SWITCH_SMALL_SQUARED = "switch_small_squared"
    BOOTSTRAP = "bootstrap"
    CHEBYSHEV = "chebyshev"
    COMPOSITE = "composite"


@dataclass(frozen=True, slots=True)
class OpTraits:
    """The properties of a kind: run by the client or the server, a library composite or one primitive, the key it
    needs."""

    client: bool = False
    composite: bool = False
    key: str | None = None
    """`relin`, `rot`, `conj`, `to-sparse`, `to-dense`, `rot-small`, `from-small` or `from-small-squared`; `None`: no
    evaluation key is read."""
    description: str = ""


TRAITS: dict[OpKind, OpTraits] = {
    OpKind.ENCRYPT: OpTraits(client=True, description="encrypt a packed vector (client)"),
    OpKind.DECRYPT: OpTraits(client=True, description="decrypt to a vector (client)"),
    OpKind.ADD: OpTraits(description="sum of two ciphertexts"),
    OpKind.ADD_PLAIN: OpTraits(description="sum of a ciphertext and an encoded vector"),
    OpKind.ADD_SCALAR: OpTraits(description="sum of a ciphertext and one number"),
    OpKind.SUB: OpTraits(description="difference of two ciphertexts"),
    OpKind.SUB_PLAIN: OpTraits(description="difference of a ciphertext and an encoded vector"),
    OpKind.SUB_SCALAR: OpTraits(description="difference of a ciphertext and one number, in either order"),
    OpKind.NEGATE: OpTraits(description="negation"),
    OpKind.MULT: OpTraits(key="relin", description="product of two ciphertexts, relinearized"),
    OpKind.MULT_NO_RELIN: OpTraits(description="product of two ciphertexts, three polynomials"),
    OpKind.RELINEARIZE: OpTraits(key="relin", description="three polynomials back to two"),
    OpKind.MULT_PLAIN: OpTraits(description="product of a ciphertext and an encoded vector"),
    OpKind.MULT_SCALAR: OpTraits(description="product of a ciphertext and one number"),
    OpKind.SQUARE: OpTraits(key="relin", description="product of a ciphertext with itself, relinearized"),
    OpKind.ROTATE: OpTraits(key="rot", description="cyclic left rotation of the slots"),
    OpKind.DECOMPOSE: OpTraits(description="digit decomposition (ModUp) shared by hoisted rotations"),
    OpKind.ROTATE_HOISTED: OpTraits(key="rot", description="rotation that re-uses a digit decomposition"),
    OpKind.CONJUGATE: OpTraits(key="conj", description="complex conjugation of the slots"),
    OpKind.TO_SPARSE: OpTraits(key="to-sparse", description="one limb to the ephemeral sparse secret (bootstrapping)"),
    OpKind.TO_DENSE: OpTraits(key="to-dense", description="key switch back from the ephemeral sparse secret"),
    OpKind.EXTEND: OpTraits(description="ciphertext times P, over the primes of Q and P (only inside circuits)"),
    OpKind.ADD_EXTENDED: OpTraits(description="sum of two ciphertexts over Q and P"),
    OpKind.MULT_PLAIN_EXTENDED: OpTraits(description="product of a ciphertext and an encoded vector, over Q and P"),
    OpKind.ROTATE_HOISTED_EXTENDED: OpTraits(key="rot", description="hoisted rotation without ModDown: over Q and P"),
    OpKind.DECOMPOSE_EXTENDED: OpTraits(description="ModDown of one polynomial over Q and P, and its decomposition"),
    OpKind.ROTATE_EXTENDED: OpTraits(key="rot", description="rotation over Q and P that re-uses a decomposition"),
    OpKind.MOD_DOWN: OpTraits(description="ciphertext over Q and P back to Q: division by P"),
    OpKind.RESCALE: OpTraits(description="division by the last prime; one limb fewer"),
    OpKind.MOD_DROP: OpTraits(description="limbs dropped without division"),
    OpKind.MOD_RAISE: OpTraits(description="modulus raised to the full chain (first step of bootstrapping)"),
    OpKind.EXPAND_SMALL: OpTraits(key="rot-small", description="small ciphertexts, each split by its odd coefficients"),
    OpKind.INNER_PRODUCTS: OpTraits(description="stored small ciphertexts times a vector of small ciphertexts, summed"),
    OpKind.PACK_SMALL: OpTraits(description="ciphertexts of the small ring side by side in one of the large ring"),
    OpKind.SWITCH_SMALL: OpTraits(key="from-small", description="key switch from the small ring's secret"),
    OpKind.SWITCH_SMALL_SQUARED: OpTraits(
        key="from-small-squared", description="key switch from the square of the small ring's secret"
    ),
    OpKind.BOOTSTRAP: OpTraits(composite=True, description="refresh of the modulus chain, as the library's one call"),
    OpKind.CHEBYSHEV: OpTraits(composite=True, description="Chebyshev series, as the library's one call"),
    OpKind.COMPOSITE: OpTraits(composite=True, description="any other composite call of the library"),
}

KINDS: tuple[str, ...] = tuple(kind.value for kind in OpKind)

RELIN_KEY = "relin"
CONJ_KEY = "conj"
TO_SPARSE_KEY = "to-sparse"
TO_DENSE_KEY = "to-dense"
FROM_SMALL_KEY = "from-small"
FROM_SMALL_SQUARED_KEY = "from-small-squared"
SINGLE_KEYS = (RELIN_KEY, CONJ_KEY, TO_SPARSE_KEY, TO_DENSE_KEY, FROM_SMALL_KEY, FROM_SMALL_SQUARED_KEY)
"""Keys of which a pair has one each."""
EPHEMERAL_KEYS = (TO_SPARSE_KEY, FROM_SMALL_KEY, FROM_SMALL_SQUARED_KEY)
"""Those to the ephemeral secret: over q_0 and two auxiliary primes."""
SMALL_ROTATION = "rot-small"
"""Before a colon and the Galois element, in names of keys of the small ring."""
SMALL_KINDS = frozenset(
    {
        OpKind.EXPAND_SMALL,
        OpKind.INNER_PRODUCTS,
        OpKind.PACK_SMALL,
        OpKind.SWITCH_SMALL,
        OpKind.SWITCH_SMALL_SQUARED,
    }
)
"""Operations on ciphertexts of a smaller ring, or from it: they need a set that has one."""


def rotation_galois_element(step: int, ring_dim: int) -> int:
    """The Galois element of a left rotation by `step` slots: 5^step mod 2N.

    >>> rotation_galois_element(1, 4096), rotation_galois_element(-1, 4096)
    (5, 3277)
    """
    return pow(5, step % (ring_dim // 2), 2 * ring_dim)


def rotation_key(step: int, ring_dim: int) -> str:
    """The key id of a left rotation by `step` slots: `rot:<galois_element>`."""
    return f"rot:{rotation_galois_element(step, ring_dim)}"
