"""The division of a program's work over hosts: the registry of partitions.

| partition | a host has | hosts exchange | at once |
|---|---|---|---|
| `rplp` | a share of the limbs of everything | limbs, in every key switch and rescale | one program |
| `rplp-opposed` | the same, the limbs of P dealt from the last host down | the same | one program |
| `rplp-holders` | the same as `rplp` | the same, among the hosts that hold a limb of the operation | one program |
| `by-digit` | all ciphertexts, its digits' share of keys | products with keys, in every key switch | one program |
| `by-ciphertext` | the operations that were sent to it | results that another host needs | one program |
| `by-tenant` | a program of its own | nothing | as many programs as hosts |

The first four run each operation on all hosts: `Together`. A new one is a subclass and a line of `PARTITIONS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from penstock.base.arrays import Ints
from penstock.errors import check_known
from penstock.lab.simulation.cluster.collectives import AllGather, Collective, ReduceScatter
from penstock.lab.simulation.cluster.dealing import (
    KEY_PRODUCTS,
    MOD_UPS,
    Dealing,
    DealtOperation,
    SpecialLimbs,
    dealt_count,
    difference,
    most,
)
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.work.kernel_work import KernelWork, add_loops
from penstock.scheme.work.kernels import digit_sizes
from penstock.scheme.work.shapes import Shape, shape_work

AccessClass = Literal["key", "digits", "plaintext", "ciphertext"]


@dataclass(frozen=True, slots=True)
class HostPart:
    """One operation on all hosts together."""

    path: KernelWork
    """The basis of its time: the maximum over hosts, stage by stage."""
    total: KernelWork
    """What all hosts compute."""
    exchanged: tuple[Collective, ...]
    """Between the stages; hosts wait for each."""


class HostPartition(ABC):
    """A way to use several hosts."""

    name: ClassVar[str]


class Together(HostPartition):
    """Every operation runs on all hosts at once."""

    @abstractmethod
    def part(self, shape: Shape, params: CkksParameters, key_form: KeyForm | None, hosts: int) -> HostPart:
        """The operation on so many hosts. With one host `path` and `total` are the whole operation's work."""

    @abstractmethod
    def held(self, what: AccessClass, limbs: Ints, params: CkksParameters, hosts: int) -> tuple[Ints, Ints]:
        """(own, all) parts of an object at so many limbs of which the busiest host loads the first number."""

    def replicates(self, what: AccessClass) -> bool:
        """Whether every host loads the whole of such an object."""
        return False

    def copies(self, what: AccessClass, limbs: Ints, params: CkksParameters, hosts: int) -> Ints:
        """How often all hosts together load an object at so many limbs."""
        return np.full(len(limbs), hosts if self.replicates(what) else 1, dtype=np.int64)


class Rplp(Together):
    """Residue-polynomial-level parallelism: the study's own."""

    name = "rplp"
    special: ClassVar[SpecialLimbs] = "same"
    holders_only: ClassVar[bool] = False

    def dealing(self, hosts: int) -> Dealing:
        return Dealing(hosts, self.special, self.holders_only)

    def part(self, shape: Shape, params: CkksParameters, key_form: KeyForm | None, hosts: int) -> HostPart:
        operation = DealtOperation(shape, params, self.dealing(hosts), key_form)
        return HostPart(operation.path(), shape_work(shape, params, key_form), operation.exchanged())

    def held(self, what: AccessClass, limbs: Ints, params: CkksParameters, hosts: int) -> tuple[Ints, Ints]:
        if what in ("plaintext", "ciphertext"):
            return -(-limbs // hosts), limbs
        dealing = self.dealing(hosts)
        special = np.asarray(dealing.held_special(params.num_p), dtype=np.int64)
        busiest = np.asarray(
            [int((np.asarray(dealing.held(n)) + special).max()) for n in range(params.num_q + 1)], dtype=np.int64
        )
        return busiest[np.minimum(limbs, params.num_q)], limbs + params.num_p


class RplpOpposed(Rplp):
    """As `Rplp`; a host that has few limbs of Q has more of P."""

    name = "rplp-opposed"
    special = "opposed"


class RplpHolders(Rplp):
    """As `Rplp`; a host that holds no limb of an operation neither sends nor receives for it."""

    name = "rplp-holders"
    holders_only = True


class ByDigit(Together):
    """The digits of a key switch over hosts; ciphertexts are at every host, and other operations run at every host.

    Host i has the digits i, i + h, … and their share of the key. Key switch: ModUp and product of the host's own
    digits. The m = min(h, b) hosts with a digit reduce the sums of 2(n+k) limbs (reduce-scatter), all hosts gather
    them, and each does ModDown for itself. A decomposition leaves each digit where it was made. With one active digit
    every host does all of it, with the whole key.
    Source: output aggregation of Cinnamon's parallel key switching (Jayashankar et al., ASPLOS 2025).
    """

    name = "by-digit"

    def part(self, shape: Shape, params: CkksParameters, key_form: KeyForm | None, hosts: int) -> HostPart:
        whole, kind = shape_work(shape, params, key_form), OpKind(shape.kind)
        n, k = shape.limbs_in, params.num_p
        digits = params.active_digits(n)
        active = min(hosts, digits)
        product = kind in KEY_PRODUCTS
        if active == 1 or not (product or kind in MOD_UPS):
            return HostPart(whole, whole.times(hosts), ())
        # Host 0 has the most digits, the host of the last one perhaps a smaller digit.
        work = _DigitWork(kind, params, n, key_form)
        own = most([work.of(range(host, digits, hosts)) for host in sorted({0, (digits - 1) % hosts})])
        shared = work.of(range(digits))
        rest = difference(whole, shared, shape)
        if not product:
            return HostPart(own + rest, shared + rest.times(hosts), ())
        limbs = [dealt_count(2 * (n + k), active, host) for host in range(active)]
        adds = [(active - 1) * count * params.ring_dim for count in limbs]
        reduced = KernelWork(
            ring_dim=params.ring_dim, elementwise_adds=adds[0], element_loops=((limbs[0], active - 1),)
        )
        everywhere = KernelWork(ring_dim=params.ring_dim, elementwise_adds=sum(adds))
        members = tuple(range(hosts))
        blocks = tuple(count * params.polynomial_bytes(1) for count in limbs)
        return HostPart(
            own + reduced + rest,
            shared + everywhere + rest.times(hosts),
            (ReduceScatter(members[:active], blocks), AllGather(members, blocks + (0,) * (hosts - active))),
        )

    def held(self, what: AccessClass, limbs: Ints, params: CkksParameters, hosts: int) -> tuple[Ints, Ints]:
        if what in ("plaintext", "ciphertext"):
            return limbs, limbs
        digits = -(-limbs // params.digit_limbs)
        return -(-digits // hosts), digits

    def replicates(self, what: AccessClass) -> bool:
        return what in ("plaintext", "ciphertext")

    def copies(self, what: AccessClass, limbs: Ints, params: CkksParameters, hosts: int) -> Ints:
        loads = super().copies(what, limbs, params, hosts)
        # Every host computes the whole key switch of one digit, with its own key.
        return np.where(limbs <= params.digit_limbs, hosts, loads)


@dataclass(frozen=True, slots=True)
class _DigitWork:
    """The part of an operation that goes with digits."""

    kind: OpKind
    params: CkksParameters
    limbs: int
    key_form: KeyForm | None

    def of(self, digits: range) -> KernelWork:
        """For some of the digits, by number."""
        params, kind, count = self.params, self.kind, len(digits)
        wide, size = self.limbs + params.num_p, params.ring_dim
        work = KernelWork(ring_dim=size)
        if kind in MOD_UPS:
            all_sizes = digit_sizes(params, self.limbs)
            sizes = [all_sizes[digit] for digit in digits]
            work += KernelWork(
                ring_dim=size,
                limb_transforms=count * wide,
                bconv_macs=sum(a * (wide - a) for a in sizes) * size,
                converted_coefficients=sum(wide - a for a in sizes) * size,
                elementwise_mults=sum(sizes) * size,
                constant_mults=sum(sizes) * size,
                digit_steps=count,
                base_conversions=count,
                transform_loops=add_loops(*(((a, 1), (wide - a, 1)) for a in sizes)),
                element_loops=add_loops(*(((a, 1),) for a in sizes)),
            )
        else:
            work += KernelWork(
                ring_dim=size, digit_steps=count, ciphertext_read_bytes=count * params.polynomial_bytes(wide)
            )
        if kind not in KEY_PRODUCTS:
            return work + KernelWork(ring_dim=size, ciphertext_write_bytes=count * params.polynomial_bytes(wide))
        return work + KernelWork(
            ring_dim=size,
            elementwise_mults=2 * count * wide * size,
            key_mults=2 * count * wide * size,
            key_bytes=params.key_bytes(self.limbs, self.key_form) // params.active_digits(self.limbs) * count,
            element_loops=((wide, 2 * count),),
        )


class ByCiphertext(HostPartition):
    """Whole operations over hosts, along the dependencies of the program: each goes where it ends first.

    List scheduling in program order. A result is fetched once by each other host that needs it; a fetch holds the way
    out of one host and the way into the other. Inputs and plaintexts are everywhere, keys come from each host's tier.
    Of 1, 2, 4, … hosts and all of them it uses the number with which the program ends first.
    """

    name = "by-ciphertext"


class ByTenant(HostPartition):
    """A different program on every host: as many tenants at once as hosts, each as fast as alone."""

    name = "by-tenant"


PARTITIONS: dict[str, HostPartition] = {
    partition.name: partition
    for partition in (Rplp(), RplpOpposed(), RplpHolders(), ByDigit(), ByCiphertext(), ByTenant())
}


def partition_named(name: str) -> HostPartition:
    """Raises: UnknownName: no such partition, with the nearest name."""
    check_known("partition", name, PARTITIONS)
    return PARTITIONS[name]
