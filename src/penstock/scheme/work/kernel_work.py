"""Kernel work: how much of each kernel an operation is, how many bytes it touches and which loops it runs in.

Plain numbers that add up; `penstock.scheme.work.kernels` computes them and machines price them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import add, attrgetter

from penstock.errors import UsageError

Loops = tuple[tuple[int, int], ...]
"""((width, loops), …) by width: so many loops over so many limbs each. The limbs of one loop can go to threads."""


def add_loops(*parts: Loops) -> Loops:
    """All loops together.

    >>> add_loops(((4, 1), (9, 2)), ((4, 2),))
    ((4, 3), (9, 2))
    """
    if len(parts) == 2 and not (parts[0] and parts[1]):
        return parts[0] or parts[1]
    total: dict[int, int] = {}
    for part in parts:
        for width, loops in part:
            total[width] = total.get(width, 0) + loops
    return tuple(sorted((width, loops) for width, loops in total.items() if width and loops))


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelWork:
    """Kernel work of one operation, or of many added up. `KernelWork()` is empty."""

    ring_dim: int = 0
    """Points of one limb transform; 0 where nothing was added yet."""
    limb_transforms: int = 0
    """NTTs and inverse NTTs of `ring_dim` points."""
    bconv_macs: int = 0
    """Multiply-adds of base conversions, one a coefficient and a pair of limbs."""
    converted_coefficients: int = 0
    """Coefficients that conversions from several primes give: each sum of products is reduced once."""
    elementwise_mults: int = 0
    """Multiplications modulo a prime; an addition that accumulates products is part of them (multiply-add)."""
    key_mults: int = 0
    """Those of them by words of an evaluation key."""
    constant_mults: int = 0
    """Those of them by constants, for which quotients are known beforehand."""
    elementwise_adds: int = 0
    """Additions, subtractions and negations modulo a prime that stand alone."""
    automorphism_coefficients: int = 0
    """Coefficients that an automorphism moves."""
    mapped_indices: int = 0
    """Entries of the index maps of automorphisms, made anew for each."""
    digit_steps: int = 0
    """Digits that were decomposed or met with a key."""
    base_conversions: int = 0
    """Conversions of one polynomial's limbs to other primes; each is a loop over its coefficients."""
    plaintext_limbs: int = 0
    """Limbs of encoded plaintext operands."""
    key_bytes: int = 0
    plaintext_bytes: int = 0
    ciphertext_read_bytes: int = 0
    """Ciphertexts and digits that are operands."""
    ciphertext_write_bytes: int = 0
    transform_loops: Loops = ()
    """Loops over limbs that transform each: widths times loops are `limb_transforms`."""
    element_loops: Loops = ()
    """Loops over limbs of element-wise work: widths times loops times `ring_dim` are the multiplications and additions
    and the coefficients that automorphisms move."""

    def __add__(self, other: KernelWork) -> KernelWork:
        """Work of both.

        Raises: UsageError: they are over different ring dimensions.
        """
        if self.ring_dim and other.ring_dim and self.ring_dim != other.ring_dim:
            raise UsageError(
                f"kernel work over ring dimensions {self.ring_dim} and {other.ring_dim} cannot be added: "
                "their transforms differ; price each separately and add the seconds"
            )
        total = dict(zip(AMOUNTS, map(add, amounts_of(self), amounts_of(other)), strict=True))
        return KernelWork(
            ring_dim=self.ring_dim or other.ring_dim,
            transform_loops=add_loops(self.transform_loops, other.transform_loops),
            element_loops=add_loops(self.element_loops, other.element_loops),
            **total,
        )

    def times(self, count: int) -> KernelWork:
        """The same work `count` times."""
        total = {name: count * getattr(self, name) for name in AMOUNTS}
        return KernelWork(
            ring_dim=self.ring_dim,
            transform_loops=add_loops(tuple((width, count * loops) for width, loops in self.transform_loops)),
            element_loops=add_loops(tuple((width, count * loops) for width, loops in self.element_loops)),
            **total,
        )


AMOUNTS = tuple(f.name for f in fields(KernelWork) if f.name not in ("ring_dim", "transform_loops", "element_loops"))
"""The fields that add up as numbers."""
amounts_of: Callable[[KernelWork], tuple[int, ...]] = attrgetter(*AMOUNTS)
"""The numbers of a work, in the order of `AMOUNTS`."""
