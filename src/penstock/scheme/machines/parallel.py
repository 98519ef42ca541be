"""The division of one operation's kernel work between threads, and the cost of data beyond the cache.

OpenFHE starts threads in loops over limbs (over coefficients in a base conversion): a loop over w limbs keeps at most w
threads busy, whatever their number. The remainder is work that stays in one thread, data that one core wrote and
another reads, the start of a loop, and memory that all threads share.
Source: OpenFHE 1.2.4 and 1.5.1, src/core/include/lattice/hal/default/dcrtpoly-impl.h (`omp parallel for
num_threads(GetThreadLimit(size))`, size the limbs of the loop; GetThreadLimit(8) in ApproxSwitchCRTBasis) and
src/pke/lib/keyswitch/keyswitch-hybrid.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from penstock.scheme.machines.figure import Figure
from penstock.scheme.work.kernel_work import KernelWork, Loops

CONVERSION_THREADS = 8
"""Threads that OpenFHE gives a base conversion at most."""
WORD_BYTES = 8
"""Of a coefficient in OpenFHE, whatever its prime."""

LOOPS, CACHE = "loops", "cache"
"""Names of the costs of threads and of the cache, next to the units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadModel:
    """The dependence of a CPU's times on the number of threads; its unit rates are those of one thread.

    A loop over t threads gives 1/t of its elements the cost of one thread. The rest is done meanwhile, but it is not
    free: other cores wrote its data, memory is shared, and some of it is done by one thread after all.
    """

    count: int
    """Threads that the machine is priced at."""
    shared: Mapping[str, Figure] = field(default_factory=lambda: MappingProxyType({}))
    """Unit -> seconds that each element of the rest costs; as many as on one thread: nothing is gained by threads."""
    loop: Figure | None = None
    """Seconds to start and join two threads in a loop; four take twice as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheModel:
    """What an operation pays for data that the cache does not hold."""

    size: Figure
    """Bytes that stay in the cache from one kernel to the next."""
    beyond: Figure
    """Bytes a second of what does not."""


def busy_share(loops: Loops, threads: int) -> float:
    """Time of loops on `threads` threads relative to one: limb steps over threads that have a limb, and all steps.

    >>> busy_share(((10, 1),), 4), busy_share(((2, 5),), 4), busy_share((), 4)
    (0.25, 0.5, 1.0)
    """
    if threads == 1 or not loops:
        return 1.0
    steps = spent = 0.0
    for width, count in loops:
        steps += width * count
        spent += width * count / min(width, threads)
    return spent / steps


def unit_shares(work: KernelWork, threads: int) -> dict[str, float]:
    """Time of units on `threads` threads relative to one, for work that threads divide as its loops allow.

    Index maps and the copies that results start from are made by one thread; they are left out."""
    element = busy_share(work.element_loops, threads)
    conversion = 1.0 / min(threads, CONVERSION_THREADS)
    return {
        "transforms": busy_share(work.transform_loops, threads),
        "base_conversion": conversion,
        "conversions": conversion,
        "multiplications": element,
        "key_products": element,
        "constant_products": element,
        "additions": element,
        "automorphisms": element,
    }


def loop_starts(work: KernelWork, threads: int) -> float:
    """Loops that start threads, each as many times as its threads double: they start and meet as a tree.

    None on one thread, and none over one limb.
    """
    if threads == 1:
        return 0.0
    over_limbs = sum(
        count * math.log2(min(width, threads)) for width, count in (*work.transform_loops, *work.element_loops)
    )
    return over_limbs + work.base_conversions * math.log2(min(threads, CONVERSION_THREADS))


def touched_bytes(work: KernelWork) -> float:
    """Operands, results and keys, and every limb that is transformed on the way."""
    return float(
        work.key_bytes
        + work.plaintext_bytes
        + work.ciphertext_read_bytes
        + work.ciphertext_write_bytes
        + work.limb_transforms * work.ring_dim * WORD_BYTES
    )


def beyond_cache(work: KernelWork, size: float) -> float:
    """Bytes that a cache of `size` bytes does not hold."""
    return max(0.0, touched_bytes(work) - size)
