"""Prices many works at once: what `Machine.price` gives each, as arrays.

A what-if study prices the same few hundred works on thousands of machines and numbers of threads. Values that depend on
the works alone are kept; the rest is a few array products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.base.arrays import Floats
from penstock.scheme.machines.parallel import CACHE, CONVERSION_THREADS, LOOPS, beyond_cache, loop_starts, unit_shares
from penstock.scheme.machines.schema import TRANSFORM_MEASURES, Machine, Overlap
from penstock.scheme.work.kernel_work import KernelWork
from penstock.scheme.work.units import MULTIPLICATIONS, apart, unit_amounts


@dataclass(frozen=True, slots=True)
class WorkBatch:
    """Works over one ring dimension, as arrays of shape (n,)."""

    works: tuple[KernelWork, ...]
    ring_dim: int
    widest: int
    """Most threads that any loop of the works can give something to do."""
    limb_transforms: Floats
    plaintext_limbs: Floats
    amounts: dict[str, Floats]
    """Unit -> amount, for every unit but the transforms."""
    shares: dict[int, dict[str, Floats]] = field(default_factory=dict)
    """Threads -> unit -> time relative to one thread; filled on demand."""
    beyond: dict[float, Floats] = field(default_factory=dict)
    """Bytes of cache -> bytes beyond it; filled on demand."""

    @classmethod
    def of(cls, works: Sequence[KernelWork]) -> WorkBatch:
        """The arrays of these works."""

        def summed(*names: str) -> Floats:
            return np.asarray([sum(getattr(work, name) for name in names) for work in works], dtype=np.float64)

        amounts = [unit_amounts(work) for work in works]
        return cls(
            works=tuple(works),
            ring_dim=max((work.ring_dim for work in works), default=0),
            widest=max(
                [CONVERSION_THREADS, *(w for work in works for w, _ in (*work.transform_loops, *work.element_loops))]
            ),
            limb_transforms=summed("limb_transforms"),
            plaintext_limbs=summed("plaintext_limbs"),
            amounts={name: np.asarray([one[name] for one in amounts]) for name in (amounts[0] if amounts else ())},
        )

    def at(self, threads: int) -> dict[str, Floats]:
        """Unit -> (n,) time on so many threads relative to one; `loops` -> (n,) loops that start threads."""
        # More threads than the widest loop has limbs find nothing to do.
        threads = min(threads, self.widest)
        known = self.shares.get(threads)
        if known is None:
            shares = [{**unit_shares(work, threads), LOOPS: loop_starts(work, threads)} for work in self.works]
            known = {unit: np.asarray([one[unit] for one in shares], dtype=np.float64) for unit in shares[0]}
            self.shares[threads] = known
        return known

    def beyond_cache(self, size: float) -> Floats:
        """(n,) bytes that a cache of this size does not hold."""
        known = self.beyond.get(size)
        if known is None:
            known = np.asarray([beyond_cache(work, size) for work in self.works], dtype=np.float64)
            self.beyond[size] = known
        return known


def batch_seconds(machine: Machine, batch: WorkBatch) -> Floats:
    """(n,) seconds of each work on a machine: `machine.price(work).seconds` of each."""
    if not batch.works:
        return np.zeros(0)
    if machine.gpu is not None:
        return np.asarray([machine.price(work).seconds for work in batch.works])
    parts = {unit: _amount(machine, batch, unit) * unit_s for unit, unit_s in machine.unit_seconds.items()}
    model = machine.threads
    if model is not None:
        shares = batch.at(model.count)
        for unit, share in shares.items():
            if unit in parts:
                shared = model.shared[unit].value if unit in model.shared else 0.0
                parts[unit] = share * parts[unit] + (1.0 - share) * shared * _amount(machine, batch, unit)
        if model.loop is not None:
            parts[LOOPS] = model.loop.value * shares[LOOPS]
    if machine.cache is not None:
        parts[CACHE] = batch.beyond_cache(machine.cache.size.value) / machine.cache.beyond.value
    every = np.stack(list(parts.values()))
    kernels = every.max(axis=0) if machine.overlap is Overlap.PIPELINED else every.sum(axis=0)
    seconds: Floats = kernels + (machine.overhead.value if machine.overhead else 0.0)
    return seconds


def _amount(machine: Machine, batch: WorkBatch, unit: str) -> Floats:
    if unit == MULTIPLICATIONS:
        amount = batch.amounts[unit]
        for other in apart(machine.units):
            amount = amount - batch.amounts[other]
        return amount
    if unit != "transforms":
        return batch.amounts[unit]
    transforms = batch.limb_transforms
    if machine.plaintext_transforms is not None:
        transforms = transforms + machine.plaintext_transforms.value * batch.plaintext_limbs
    return transforms * TRANSFORM_MEASURES[machine.units["transforms"].measure](batch.ring_dim)
