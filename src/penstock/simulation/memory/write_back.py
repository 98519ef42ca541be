"""The writes of a memory level: bytes of results that are read again from further down than they were made.

A result is born in the first level. A byte of it that some access later gets over a level's channel was not above that
channel any more, so it had crossed it downwards; once, since ciphertexts never change. Data without a later read is
never written: a runtime that knows the program drops it. So this is the minimum of writes of any runtime with the same
reads behind its caches. It is moved with the operation after the one that makes the result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.simulation.accesses import Accesses
from penstock.simulation.engine import Ints


@dataclass(frozen=True, slots=True)
class Written:
    """What crosses one channel downwards."""

    operation_bytes: Ints
    """(n,) bytes, at the operation whose transfers they join."""
    operation_writes: Ints
    """(n,) results that are written."""


def nothing_written(num_operations: int) -> Written:
    """Of a level that writes nothing."""
    none = np.zeros(num_operations, dtype=np.int64)
    return Written(none, none)


def written_by(accesses: Accesses, position: Ints, held: Ints) -> Written:
    """The writes of a channel, from its reads.

    Args:   position: (k,) the accesses that get bytes over the channel; held: (k,) bytes of each above it: the access
            gets the bytes from there to its need.
    """
    if accesses.is_result is None or not accesses.num_operations:
        return nothing_written(accesses.num_operations)
    made = np.nonzero(accesses.is_result)[0]
    results, first = np.unique(accesses.access_object[made], return_index=True)
    born = np.searchsorted(accesses.access_start, made[first], side="right") - 1
    got = accesses.access_object[position]
    place = np.minimum(np.searchsorted(results, got), len(results) - 1)
    back = (results[place] == got) & accesses.is_read[position] & (held < accesses.access_bytes[position])
    of, low, high = place[back].astype(np.int64), held[back], accesses.access_bytes[position][back]
    per_result = _covered(of, low, high, len(results))
    moved = np.minimum(born + 1, accesses.num_operations - 1)
    sums, writes = (np.zeros(accesses.num_operations, dtype=np.int64) for _ in range(2))
    np.add.at(sums, moved, per_result)
    np.add.at(writes, moved, (per_result > 0).astype(np.int64))
    return Written(sums, writes)


def _covered(of: Ints, low: Ints, high: Ints, count: int) -> Ints:
    """(count,) how many bytes of each object its ranges [low, high) have together."""
    order = np.lexsort((low, of))
    of, low, high = of[order], low[order], high[order]
    # Objects stand one behind the other on a line, so that one running maximum serves all of them.
    span = int(high.max(initial=0)) + 1
    reached = np.concatenate(([0], np.maximum.accumulate(high + of * span)))[: len(of)]
    new = np.maximum(high - np.maximum(low, np.maximum(reached - of * span, 0)), 0)
    found = np.zeros(count, dtype=np.int64)
    np.add.at(found, of, new)
    return found
