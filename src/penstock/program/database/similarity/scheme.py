"""The scheme of the similarity search: its sizes, its two rings, and where each record lies.

Records are encrypted coordinate by coordinate in a small ring: one polynomial holds one coordinate of n records. The
sum over the coordinates of the products with the query's is one ciphertext with n similarities as its coefficients. N/n
of these fill a ciphertext of the large ring, where one refresh brings its N similarities into the slots of two.
`docs/guides/similarity.md` has the reasons, the security and the errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.base.types import Row
from penstock.errors import UsageError, check_known
from penstock.program.evaluator.circuits.openfhe.coefficients import slot_of_coefficient
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.primes import openfhe_primes, small_special_prime
from penstock.scheme.params.small_security import small_ring_level
from penstock.scheme.params.spec import CkksSpec

THRESHOLD = 0.8
"""Cosine similarities above it are matches."""
PAYLOAD = 7
"""Numbers of a record's payload, from 0 to `PAYLOAD_RANGE` - 1."""
PAYLOAD_RANGE = 4096
COLUMNS = (PAYLOAD + 1) // 2
"""Complex numbers that hold a payload, and a 1 that counts: two numbers each."""
PAYLOAD_LIMBS = 3
"""Of an encrypted payload: as many as the comparison leaves."""
BUCKET_RECORDS = 256
"""Records that a bucket adds up at most: the errors of their indicators, 2^-22 each, stay below 1/4."""

SMALL_DIM = 2**12
"""n."""
RECORD_BITS = 18
"""log2 of the factor on the records' coordinates."""
PERIODS = 4
"""q_0 over the factor on similarities: from -1 to 1 they fill half of the sine's period."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One size of the task."""

    name: str
    records: int
    dim: int


SIZES = {
    size.name: size
    for size in (
        Instance(name="toy", records=1_000, dim=128),
        Instance(name="small", records=50_000, dim=128),
        Instance(name="medium", records=1_000_000, dim=256),
        Instance(name="large", records=20_000_000, dim=512),
    )
}


def instance(name: str) -> Instance:
    """Raises: UnknownName: no such size."""
    check_known("size", name, SIZES)
    return SIZES[name]


PARAMS = "openfhe-similarity"
"""The set of the large ring."""


def large_parameters(ring_dim: int = 2**16, *, security: int = 128) -> CkksParameters:
    """The parameters of the large ring: 24 levels, of which the refresh takes 12, the comparison 10, the rest 2.

    Args:   ring_dim: smaller ones are for tests, and not secure.
    """
    if security:
        return catalogue.get(PARAMS)
    written = catalogue.spec(PARAMS).model_dump()
    small = min(written["small_ring_dim"], ring_dim // 2)
    name = f"insecure-similarity-{ring_dim}"
    other = {"name": name, "ring_dim": ring_dim, "slots": ring_dim // 2, "small_ring_dim": small, "security": "none"}
    return CkksSpec(**{**written, **other}).build()


@dataclass(frozen=True, slots=True)
class SmallRing:
    """The ring of records and queries: one limb, q_0 of the large ring, and one special prime."""

    ring_dim: int
    modulus: int
    special: int

    @classmethod
    def under(cls, params: CkksParameters, ring_dim: int | None = None) -> SmallRing:
        """The small ring of a large one.

        Args: ring_dim: n; by default the set's `small_ring_dim`, or `SMALL_DIM` where it states none.
        Raises: UsageError: it is not smaller than the large ring. `check_level` checks its security.
        >>> SmallRing.under(large_parameters()).special.bit_length()
        54
        """
        ring_dim = (params.small_ring_dim or SMALL_DIM) if ring_dim is None else ring_dim
        if ring_dim >= params.ring_dim:
            raise UsageError(f"a small ring of N = {ring_dim} below one of N = {params.ring_dim}: take a smaller one")
        (modulus, *_), _ = openfhe_primes(params)
        return cls(ring_dim, modulus, small_special_prime(ring_dim, modulus))

    def shape(self) -> Row:
        """As an evaluator and a client are made of it."""
        return {
            "ring_dim": self.ring_dim,
            "moduli_q": [self.modulus],
            "moduli_p": [self.special],
            "dnum": 1,
            "scaling": "fixed-manual",
            "scale_bits": RECORD_BITS,
        }

    @property
    def security(self) -> tuple[int, str]:
        """The level of its secret, under the modulus of its keys, and a sentence that names the bound."""
        return small_ring_level(self.ring_dim, (self.modulus * self.special).bit_length())

    def check_level(self, params: CkksParameters) -> None:
        """Refuse a ring whose level is below the one that its large ring's set states.

        A set that asks for no level, or whose name begins with `insecure`, is for tests and takes any.
        Raises: UsageError: naming the least dimension that holds the level.
        """
        if not params.security_asked or params.name.startswith("insecure"):
            return
        level, note = self.security
        if level >= params.security_bits:
            return
        larger = [1 << k for k in range(self.ring_dim.bit_length(), params.ring_dim.bit_length() - 1)]
        least = next((n for n in larger if SmallRing.under(params, n).security[0] >= params.security_bits), None)
        remedy = "a set with a shorter first_mod_bits" if least is None else f"small_dim={least}, the least that holds"
        raise UsageError(
            f"a small ring of n = {self.ring_dim} below set '{params.name}', which states {params.security_bits} bit: "
            f"its keys have a modulus of {(self.modulus * self.special).bit_length()} bits: {note}: take {remedy}"
        )


@dataclass(frozen=True)
class Layout:
    """Where the records of a database lie: cells of small ciphertexts, then slots of score ciphertexts.

    Cell c is coefficient c mod n of small ciphertext c // n.
    """

    records: int
    dim: int
    ring_dim: int
    small_dim: int

    @property
    def ratio(self) -> int:
        """N/n: small ciphertexts in a large one."""
        return self.ring_dim // self.small_dim

    @property
    def blocks(self) -> int:
        """Small ciphertexts of similarities."""
        return -(-self.records // self.small_dim)

    @property
    def packed(self) -> int:
        """Large ciphertexts of similarities."""
        return -(-self.blocks // self.ratio)

    @property
    def slots(self) -> int:
        """Of the slot transform: fewer where one small ciphertext holds all records."""
        return self.small_dim // 2 if self.blocks == 1 else self.ring_dim // 2

    @property
    def scores(self) -> int:
        """Ciphertexts whose slots are records: one with both halves where there are few."""
        return 1 if self.blocks == 1 else 2 * self.packed

    @property
    def period(self) -> int:
        """Slots after which a score ciphertext repeats."""
        return self.small_dim if self.blocks == 1 else self.ring_dim // 2

    @cached_property
    def places(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Of each cell, the score ciphertext and the slot, (blocks * n,) each."""
        cells = np.arange(self.blocks * self.small_dim)
        block, within = np.divmod(cells, self.small_dim)
        if self.blocks == 1:
            index, group = within, np.zeros_like(within)
        else:
            index, group = within * self.ratio + block % self.ratio, block // self.ratio
        half, place = np.divmod(index, self.slots)
        reversed_bits = np.array([slot_of_coefficient(self.slots, k)[1] for k in range(self.slots)])
        slot = reversed_bits[place]
        if self.blocks == 1:
            return group, slot + half * self.slots
        return 2 * group + half, slot
