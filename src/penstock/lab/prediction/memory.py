"""Memory of a program before it runs: of an OpenFHE process, or of an accelerator's data.

The process is the interpreter with its libraries, the tables of the context, and the allocations for keys, live data
and the plaintexts of composites. Constants and ranges are calibrated to the peaks of ten runs from 0.2 to 15 GB and
fourteen from 0.14 to 2.1 GB, which lie within `Memory.low_bytes` and `high_bytes`: errors of the fit, not of runs that
were held out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.base.units import WORD_BYTES
from penstock.lab.measure.memory import ALLOCATION, PROCESS_BYTES
from penstock.program.evaluator.tally import Tally
from penstock.scheme.params.rlwe import KeyForm

PROCESS_RANGE = (100_000_000, 200_000_000)
"""Fewest and most bytes of a process before its keys and data: what else it has done makes the difference."""
ALLOCATION_RANGE = (1.0, 1.3)
"""Fewest and most bytes that were allocated for a byte of keys and data."""
TABLES_PER_PRIME = 4
"""Tables of `ring_dim` words that OpenFHE keeps for each prime: roots of unity and their inverses, each with the
quotients of its Barrett products."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Peak bytes, with the range in which measured peaks were."""

    peak_bytes: int
    low_bytes: int
    high_bytes: int
    parts: Mapping[str, int]
    """Bytes of keys, data, plaintexts of composites, tables; before what allocation adds."""


def memory_of(tally: Tally, *, key_form: KeyForm | None = None, key_budget_bytes: int | None = None) -> Memory:
    """Peak memory of one run.

    Args:   key_form: how keys are stored (default: as the set says); key_budget_bytes: bytes of rotation keys that are
            kept in memory where the program pages them (default: as the size of the workload says).
    Returns: for an accelerator's set the bytes of keys and data alone: it runs in no process.
    """
    params = tally.params
    if key_budget_bytes is None:
        key_budget_bytes = size_budget(tally)
    # OpenFHE encodes the diagonals of bootstrapping over the special primes too.
    wide = sum(
        count * params.plaintext_bytes(limbs + (params.num_p if params.library == "openfhe" else 0))
        for limbs, count in tally.composite_encodings.items()
    )
    parts = {
        "keys": _resident_keys(tally, key_form, key_budget_bytes),
        "data": tally.live_bytes,
        "composite_plaintexts": wide,
    }
    if params.library != "openfhe":
        total = sum(parts.values())
        return Memory(peak_bytes=total, low_bytes=total, high_bytes=total, parts=parts)
    parts["tables"] = TABLES_PER_PRIME * params.ring_dim * WORD_BYTES * (params.num_q + params.num_p)
    used = sum(parts.values())
    low, high = (process + round(share * used) for process, share in zip(PROCESS_RANGE, ALLOCATION_RANGE, strict=True))
    return Memory(peak_bytes=PROCESS_BYTES + round(ALLOCATION * used), low_bytes=low, high_bytes=high, parts=parts)


def size_budget(tally: Tally) -> int | None:
    """Bytes of rotation keys that the size of a workload keeps in memory; `None`: all, or no such workload."""
    from penstock.program import workloads

    if tally.workload not in workloads.names():
        return None
    size = workloads.get(tally.workload).SIZES.get(tally.size)
    budget = getattr(size, "key_budget_bytes", None)
    return None if budget is None else int(budget)


def _resident_keys(tally: Tally, key_form: KeyForm | None, budget: int | None) -> int:
    everything = tally.key_bytes(key_form)
    if budget is None or tally.params.library != "openfhe":
        return everything
    # Those of bootstrapping stay: the library reads them from memory.
    kept = tally.params.total_key_bytes({key: tally.keys[key] for key in tally.composite_keys}, key_form)
    return min(everything, budget + kept)
