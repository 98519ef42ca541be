"""A GPU with a library on it: what a launch takes, by a roofline or by measured rates of its kernels.

Roofline of a launch over w limbs of B ciphertexts at once, N points each:

    seconds = launch + passes * max(latency, bytes / memory, instructions / (integers * filled))
    filled  = min(1, w * B * N / points / (multiprocessors * threads))

No kernel is shorter than one access to device memory, and integer units work at their rate only where enough threads
hide the latency of an instruction. So time shrinks with limbs and ciphertexts until a launch fills the GPU no more, and
then stays: `Gpu.least_limbs`. Utilisation is the share of the rates that is reached, of a full GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from penstock.scheme.machines.figure import Figure
from penstock.scheme.machines.gpu.launches import KERNELS, TRANSFORMS, Launch, launches_of
from penstock.scheme.work.kernel_work import KernelWork

LAUNCHES = "launches"
"""Name of the cost of starting kernels, next to the kernels."""
PARTS = (*KERNELS, LAUNCHES)
NARROW_BITS, NARROW_BYTES, WIDE_BYTES = 32, 4, 8
"""Coefficients of up to so many bits are in words of so many bytes, wider ones in the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The hardware, and the instructions of a library's kernels on it."""

    multiprocessors: Figure
    integers: Figure
    """32-bit integer instructions a second of one multiprocessor."""
    tensor: Figure | None = None
    """8-bit multiply-adds a second of one multiprocessor's tensor cores, which then do the transforms."""
    butterfly: Figure
    """Instructions of a butterfly, on words of the library."""
    product: Figure
    """Instructions of a product modulo a prime."""
    multiply_add: Figure
    """Instructions of a product that is added before the sum is reduced."""
    sum: Figure
    """Instructions of a sum modulo a prime."""
    passes: Figure
    """Launches of a transform; each reads and writes its limbs."""
    memory: Figure
    """Bytes a second of device memory."""
    latency: Figure
    """Seconds from a request to device memory to its answer."""
    threads: Figure
    """Threads on one multiprocessor that keep its integer units busy."""
    points: Figure
    """Coefficients that a thread makes."""
    launch: Figure
    """Seconds between two kernels of a stream."""

    @property
    def full_points(self) -> float:
        """Points of a launch that fills the GPU."""
        return self.multiprocessors.value * self.threads.value * self.points.value

    def seconds(
        self, launch: Launch, moved_bytes: float, batch: float, ring_dim: int, word_bytes: int, share: float
    ) -> float:
        """Of one launch, of a transform in all its passes, without starting it."""
        passes = self.passes.value if launch.kernel == TRANSFORMS else 1.0
        filled = min(1.0, launch.points * batch / self.full_points)
        units = self.multiprocessors.value * share * filled
        if launch.kernel == TRANSFORMS and self.tensor is not None:
            # A transform as two matrix products; each product of words is one of every pair of their bytes.
            products = 2 * math.sqrt(ring_dim) * word_bytes**2 * launch.points
            computing = products * batch / (self.tensor.value * units)
        else:
            instructions = (
                launch.products * self.product.value
                + launch.multiply_adds * self.multiply_add.value
                + launch.sums * self.sum.value
                + (launch.amount * self.butterfly.value if launch.kernel == TRANSFORMS else 0.0)
            )
            computing = instructions * batch / (self.integers.value * units)
        return max(passes * self.latency.value, passes * moved_bytes / (self.memory.value * share), computing)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRate:
    """A measured kernel: `start` seconds and its work over `rate`."""

    rate: Figure
    start: Figure | None = None

    def seconds(self, amount: float) -> tuple[float, float]:
        """(working, starting) of one launch with so much work."""
        return amount / self.rate.value, self.start.value if self.start else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A library on a GPU. A kernel with a measured rate takes it, any other one the roofline."""

    batch: Figure | None = None
    """Most ciphertexts of one launch; `None`: one."""
    inputs: Figure | None = None
    """Inputs of a program that run at once with the same keys; times are those of one of them. `None`: one."""
    fused: tuple[str, ...] = ()
    """What the library does inside of other kernels: names of `FUSIONS`."""
    fused_source: str = ""
    joined: bool = False
    """Whether loops over equally many limbs share a launch."""
    roofline: Roofline | None = None
    kernels: Mapping[str, KernelRate] = field(default_factory=lambda: MappingProxyType({}))
    """Kernel -> its measured rate."""

    @property
    def most_ciphertexts(self) -> float:
        """Of one launch."""
        return self.batch.value if self.batch else 1.0

    @property
    def num_inputs(self) -> float:
        """Inputs that run at once."""
        return self.inputs.value if self.inputs else 1.0

    def rates(self) -> list[Figure]:
        """Of measured kernels."""
        return [known.rate for known in self.kernels.values()]

    def unpriced(self) -> list[str]:
        """Kernels of which nothing is known, so that operations that need them have no price."""
        return [] if self.roofline is not None else [name for name in KERNELS if name not in self.kernels]

    def lacks(self, work: KernelWork) -> bool:
        """Whether a kernel of the work is one of `unpriced`."""
        gone = self.unpriced()
        return bool(gone) and any(
            launch.kernel in gone and launch.amount for launch in _launches(work, self.fused, self.joined, 4, 0.0)
        )

    def least_limbs(self, ring_dim: int) -> float:
        """Limbs below which a launch gets no faster: integer units are not full, 0 without a roofline."""
        return 0.0 if self.roofline is None else self.roofline.full_points / ring_dim

    def seconds(
        self, work: KernelWork, *, word_bytes: int, share: float = 1.0, together: float = 1.0, plaintexts: float = 0.0
    ) -> dict[str, float]:
        """Part -> seconds of one operation, where `together` like it share their launches, of each input.

        Args:   word_bytes: of a coefficient in memory; share: of the roofline's rates that is reached; plaintexts:
                transforms to make one limb of a plaintext from another.
        """
        per_part = dict.fromkeys(PARTS, 0.0)
        batch = min(together * self.num_inputs, self.most_ciphertexts)
        sharing = min(batch, self.num_inputs)
        for launch in _launches(work, self.fused, self.joined, word_bytes, plaintexts):
            known = self.kernels.get(launch.kernel)
            if known is not None:
                working, starting = known.seconds(launch.amount * batch)
            elif self.roofline is not None:
                moved = word_bytes * (launch.own * batch + launch.shared * batch / sharing)
                working = self.roofline.seconds(launch, moved, batch, work.ring_dim, word_bytes, share)
                passes = self.roofline.passes.value if launch.kernel == TRANSFORMS else 1.0
                starting = passes * self.roofline.launch.value
            else:
                continue
            per_part[launch.kernel] += launch.count * working / batch
            per_part[LAUNCHES] += launch.count * starting / batch
        return per_part


@lru_cache(maxsize=4096)
def _launches(
    work: KernelWork, fused: tuple[str, ...], joined: bool, word_bytes: int, plaintexts: float
) -> tuple[Launch, ...]:
    return tuple(launches_of(work, fused=fused, joined=joined, word_bytes=word_bytes, plaintexts=plaintexts))


def word_bytes_of(word: Figure | None) -> int:
    """Bytes of a coefficient in device memory, by the bits of the widest prime."""
    return NARROW_BYTES if word is not None and word.value <= NARROW_BITS else WIDE_BYTES
