"""The vocabulary: every kind of operation that programs use, traces record and machines price."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from penstock.errors import PenstockError


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


class Verb(Word):
    """The calls of a package; the value is the name in texts."""

    ENCRYPT = "encrypt"
    OUTPUT = "output"
    ADD = "add"
    SUB = "sub"
    MULT = "mult"
    MULT_NO_RELIN = "mult_no_relin"
    ADD_PLAIN = "add_plain"
    SUB_PLAIN = "sub_plain"
    MULT_PLAIN = "mult_plain"
    ADD_SCALAR = "add_scalar"
    SUB_SCALAR = "sub_scalar"
    SCALAR_SUB = "scalar_sub"
    MULT_SCALAR = "mult_scalar"
    NEGATE = "negate"
    SQUARE = "square"
    RELINEARIZE = "relinearize"
    CONJUGATE = "conjugate"
    ROTATE = "rotate"
    DECOMPOSE = "decompose"
    ROTATE_HOISTED = "rotate_hoisted"
    RESCALE = "rescale"
    MOD_DROP = "mod_drop"
    BOOTSTRAP = "bootstrap"
    CHEBYSHEV = "chebyshev"
    POLYNOMIAL = "polynomial"
    MULT_BY_I = "mult_by_i"
    SCALED = "scaled"
    WEIGHTED_SUM = "weighted_sum"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRow:
    """A row of the table of operations (`crates/penstock-operations`)."""

    name: str
    code: int | None
    """In packages; `None`: no call of packages."""
    is_traced: bool
    """Whether it is a kind, `OpKind`, of rows in traces."""
    is_work: bool
    """Whether a device performs it."""
    actor: str
    """`client`, `server`, or `library`: a composite, which stands for many operations."""
    key: str | None
    """`relin`, `rot`, `conj`, `to-sparse`, `to-dense`, `rot-small`, `from-small` or `from-small-squared`; `None`: no
    evaluation key is read."""
    takes: tuple[str, ...]
    """Classes of the operands; where `operands` is `MANY`, the one class of all."""
    operands: int
    makes: str | None
    results: int
    constants: int
    """Vectors that are encoded where it is done."""
    numbers: int
    argument: str
    """The meaning of its whole number, or `none`."""
    is_product: bool
    """Whether the scale of the result is the product of two."""
    is_complex: bool
    """Whether real operands give complex values, so that decryption keeps imaginary parts."""
    description: str

    @property
    def client(self) -> bool:
        return self.actor == "client"

    @property
    def composite(self) -> bool:
        return self.actor == "library"

    @property
    def classes(self) -> set[str | None]:
        """Those of the operands and of the result."""
        return {*self.takes, self.makes}

    @property
    def is_small(self) -> bool:
        """Whether it is on ciphertexts of a smaller ring, or from it: it needs a set that has one."""
        return bool(self.classes & {"small", "stored"}) or "small" in (self.key or "")


MANY = -1
"""As many as an instruction states, at least one."""


@cache
def operations() -> dict[str, OperationRow]:
    """All operations by name, first the kinds of traces in the order of `OpKind`."""
    from penstock import _engine  # loading it takes longer than a short command

    rows = [OperationRow(**row | {"takes": tuple(row["takes"])}) for row in _engine.operations()]
    return {row.name: row for row in rows}


Rule = TypeVar("Rule")


class Rules(dict[OpKind, Rule]):
    """The rules of one sort, by kind. A room has one table for each sort and fills it where the rules are written."""

    def __init__(self, what: str, where: str, needs: Callable[[OperationRow], bool] = lambda _: True) -> None:
        """Args: needs: whether an operation has no rule unless one is written; no composite needs one."""
        super().__init__()
        self.what, self.where, self._needs = what, where, needs

    def of(self, *kinds: OpKind) -> Callable[[Rule], Rule]:
        """Registers the decorated rule."""

        def registered(rule: Rule) -> Rule:
            self.update(dict.fromkeys(kinds, rule))
            return rule

        return registered

    def lack(self, name: str) -> str:
        """The error of an operation without a rule."""
        return f"'{name}' has no rule of {self.what}: add one in src/penstock/{self.where}"

    def lacking(self, row: OperationRow) -> str | None:
        """`lack`, if the operation of a row needs a rule and has none."""
        needed = row.is_traced and not row.composite and row.name not in self and self._needs(row)
        return self.lack(row.name) if needed else None

    def __missing__(self, kind: OpKind) -> Rule:
        raise PenstockError(self.lack(kind))


if TYPE_CHECKING:
    TRAITS: dict[OpKind, OperationRow]
    SMALL_KINDS: frozenset[OpKind]


def __getattr__(name: str) -> object:
    """`TRAITS`, the properties of each kind, and `SMALL_KINDS`, from the table."""
    if name == "TRAITS":
        globals()[name] = {OpKind(row.name): row for row in operations().values() if row.is_traced}
    elif name == "SMALL_KINDS":
        globals()[name] = frozenset(OpKind(row.name) for row in operations().values() if row.is_traced and row.is_small)
    else:
        raise AttributeError(f"module 'penstock.scheme.operations' has no attribute '{name}'")
    return globals()[name]


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


def rotation_galois_element(step: int, ring_dim: int) -> int:
    """The Galois element of a left rotation by `step` slots: 5^step mod 2N.

    >>> rotation_galois_element(1, 4096), rotation_galois_element(-1, 4096)
    (5, 3277)
    """
    return pow(5, step % (ring_dim // 2), 2 * ring_dim)


@cache
def rotation_steps(ring_dim: int) -> dict[int, int]:
    """Galois element -> the step of the rotation that it is, in (-N/4, N/4].

    >>> rotation_steps(4096)[5], rotation_steps(4096)[3277]
    (1, -1)
    """
    half, element, steps = ring_dim // 2, 1, {}
    for step in range(half):
        steps[element] = step if step <= half // 2 else step - half
        element = element * 5 % (2 * ring_dim)
    return steps


@cache
def rotation_key(step: int, ring_dim: int) -> str:
    """The key id of a left rotation by `step` slots: `rot:<galois_element>`."""
    return f"rot:{rotation_galois_element(step, ring_dim)}"
