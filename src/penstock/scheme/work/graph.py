"""An operation as a graph of kernels over limbs, which a scheduler puts on the units of a machine.

Each kernel is one pass of one kind over some limbs. It says which limbs it makes, which kernels it needs (limb by limb,
or whole), how much work it is, and how many limbs it reads from on-chip memory. The work of all kernels of a graph is
the `KernelWork` of the operation, number for number. `penstock.scheme.work.graphs` makes the graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from penstock.base.types import Row
from penstock.scheme.operations import Word
from penstock.scheme.work.kernel_work import KernelWork
from penstock.scheme.work.stages import Operation


class KernelName(Word):
    """A kind of kernel."""

    TRANSFORM = "transform"
    INVERSE = "inverse-transform"
    CONVERSION = "base-conversion"
    KEY_PRODUCT = "key-product"
    PRODUCT = "product"
    SCALING = "scaling"
    """A product with constants."""
    SUM = "sum"
    """A sum, a difference or a negation."""
    AUTOMORPHISM = "automorphism"


UNIT_OF = {
    KernelName.TRANSFORM: "transforms",
    KernelName.INVERSE: "transforms",
    KernelName.CONVERSION: "base_conversion",
    KernelName.KEY_PRODUCT: "multiplications",
    KernelName.PRODUCT: "multiplications",
    KernelName.SCALING: "multiplications",
    KernelName.SUM: "additions",
    KernelName.AUTOMORPHISM: "automorphisms",
}
"""Kernel -> the unit of a machine that runs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One pass over limbs. Limb l of Q has the number l, special limb i of k the number i - k."""

    name: KernelName
    stage: str
    """The part of the operation, such as `ModUp 1`."""
    limbs: tuple[int, ...]
    """Those that it makes, in their order."""
    work: KernelWork
    """Of all limbs together."""
    each: tuple[int, ...] = ()
    """Kernels of which a limb needs the limb of the same number, if they make it."""
    whole: tuple[int, ...] = ()
    """Kernels of which every limb needs all limbs."""
    operand: bool = False
    """Whether a limb needs the limb of the same number of the operation's ciphertexts or digits."""
    result: bool = False
    """Whether its limbs are the operation's result."""
    reads: int = 0
    """Limbs that it reads from on-chip memory, all together; it writes `limbs`."""


@dataclass(frozen=True)
class OperationGraph:
    """The kernels of one operation, each behind the kernels that it needs."""

    kernels: tuple[Kernel, ...]
    ring_dim: int
    limb_bytes: int
    """Of one limb of one polynomial."""

    @cached_property
    def work(self) -> KernelWork:
        """Of all kernels."""
        return sum((kernel.work for kernel in self.kernels), KernelWork(ring_dim=self.ring_dim))

    @cached_property
    def least_limbs(self) -> int:
        """Limbs that are on chip at once if kernels run one after another in this order.

        Operands, keys and plaintexts pass limb by limb, one at a time. A kernel writes over the limbs of which it is
        the last reader.
        """
        kernels = self.kernels
        last = [len(kernels) if kernel.result else i for i, kernel in enumerate(kernels)]
        for i, kernel in enumerate(kernels):
            for needed in (*kernel.each, *kernel.whole):
                last[needed] = max(last[needed], i)
        dying = [0] * (len(kernels) + 1)
        for i, kernel in enumerate(kernels):
            dying[last[i]] += len(kernel.limbs)
        most = alive = 0
        for i, kernel in enumerate(kernels):
            unread = len(kernel.limbs) if last[i] == i else 0
            apart = sum(len(kernels[j].limbs) for j in kernel.whole if last[j] == i)
            before = dying[i] - unread
            most = max(most, alive - before + max(before, apart + len(kernel.limbs)))
            alive += len(kernel.limbs) - dying[i]
        return most + 1 if kernels else 0

    @property
    def least_bytes(self) -> int:
        """The least room on chip that the operation needs."""
        return self.least_limbs * self.limb_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes on chip while it runs: operands and intermediates. Keys and plaintexts pass limb by limb."""
        return self.least_bytes + sum(kernel.work.ciphertext_read_bytes for kernel in self.kernels)


@dataclass
class Builder:
    """Puts kernels together. `add` gives the number of each, by which later ones need it."""

    s: Operation
    kernels: list[Kernel] = field(default_factory=list)

    @property
    def q(self) -> tuple[int, ...]:
        """The limbs of Q at the operation."""
        return tuple(range(self.s.limbs))

    @property
    def p(self) -> tuple[int, ...]:
        """The special limbs."""
        return tuple(range(-self.s.params.num_p, 0))

    def add(
        self,
        name: KernelName,
        stage: str,
        limbs: Iterable[int],
        *,
        by_limb: Sequence[int] = (),
        whole: Sequence[int] = (),
        operand: bool = False,
        result: bool = False,
        sources: int = 0,
        in_loop: bool = False,
        reduced: bool = True,
        reads: int | None = None,
    ) -> int:
        """A kernel over limbs, with its work.

        Args:   sources: limbs that a conversion converts from; in_loop: it is done in the loop of the transform behind
                it; reduced: its sums are reduced apart; reads: default one limb for each limb and operand.
        """
        made = tuple(limbs)
        w = len(made)
        work = _work(name, self.s.params.ring_dim, w, sources, in_loop=in_loop, reduced=reduced)
        if reads is None:
            reads = w * max(1, len(by_limb) + operand)
        if name is KernelName.KEY_PRODUCT:
            reads += w  # the limb of the key
        self.kernels.append(
            Kernel(
                name=name,
                stage=stage,
                limbs=made,
                work=work,
                each=tuple(by_limb),
                whole=tuple(whole),
                operand=operand,
                result=result,
                reads=reads,
            )
        )
        return len(self.kernels) - 1

    def more(self, kernel: int, **amounts: int) -> None:
        """Adds to the work of a kernel what belongs to no loop: bytes, digits, index maps."""
        before = self.kernels[kernel]
        values: Row = {**amounts}
        work = before.work + KernelWork(ring_dim=self.s.params.ring_dim, **values)
        self.kernels[kernel] = replace(before, work=work)

    def shared(self, amount: str, total: int, kernels: Sequence[int]) -> None:
        """Deals an amount to kernels by their limbs; the first one gets the rest of the division."""
        if not kernels:
            if total:
                self.more(self.add(KernelName.SUM, "", ()), **{amount: total})
            return
        widths = [len(self.kernels[i].limbs) for i in kernels]
        parts = [total * width // max(1, sum(widths)) for width in widths]
        parts[0] += total - sum(parts)
        for i, part in zip(kernels, parts, strict=True):
            self.more(i, **{amount: part})

    def finish(self, *, read: int = 0, write: int = 0) -> OperationGraph:
        """The graph, with the bytes of operands and results at the kernels that read and make them."""
        self.shared("ciphertext_read_bytes", read, [i for i, kernel in enumerate(self.kernels) if kernel.operand])
        self.shared("ciphertext_write_bytes", write, [i for i, kernel in enumerate(self.kernels) if kernel.result])
        params = self.s.params
        return OperationGraph(tuple(self.kernels), params.ring_dim, params.polynomial_bytes(1))


def _work(name: KernelName, size: int, w: int, sources: int, *, in_loop: bool, reduced: bool) -> KernelWork:
    """Of a kernel over `w` limbs of `size` points."""
    points = w * size
    if name in (KernelName.TRANSFORM, KernelName.INVERSE):
        return KernelWork(ring_dim=size, limb_transforms=w, transform_loops=_loop(w))
    if name is KernelName.CONVERSION:
        return KernelWork(
            ring_dim=size,
            bconv_macs=sources * points,
            converted_coefficients=points if reduced and not in_loop else 0,
            base_conversions=0 if in_loop else 1,
        )
    if name is KernelName.SUM:
        return KernelWork(ring_dim=size, elementwise_adds=points, element_loops=_loop(w))
    if name is KernelName.AUTOMORPHISM:
        return KernelWork(ring_dim=size, automorphism_coefficients=points, element_loops=_loop(w))
    return KernelWork(
        ring_dim=size,
        elementwise_mults=points,
        key_mults=points if name is KernelName.KEY_PRODUCT else 0,
        constant_mults=points if name is KernelName.SCALING else 0,
        element_loops=_loop(w),
    )


def _loop(width: int) -> tuple[tuple[int, int], ...]:
    return ((width, 1),) if width else ()
