"""The evaluation keys that a program touches over time: per window of operations, and all that it has touched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.base.types import Row
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.traces.schema import Trace


@dataclass(frozen=True, slots=True)
class Window:
    """`num_operations` consecutive operations of the server."""

    first_operation: int
    num_operations: int
    key_accesses: int
    distinct_keys: int
    touched_bytes: int
    """Bytes of key that its key switches read, each at its own number of limbs, nothing re-used."""
    unique_bytes: int
    """Bytes of the distinct keys of this window, as stored."""
    cumulative_unique_bytes: int
    """Bytes of the distinct keys from the start of the program to the end of this window, as stored."""
    cumulative_distinct_keys: int


def key_windows(trace: Trace, num_windows: int = 60) -> list[Window]:
    """Split the server's operations, composites expanded, into at most `num_windows` windows of equal length.

    A composite that the trace does not expand names no keys and counts for none. Empty if no key is used.
    """
    operations = trace.view().server_operations()
    keys: list[str | None] = operations["key"].to_pylist()
    if not any(key is not None for key in keys):
        return []
    limbs: list[int] = operations["limbs_in"].to_pylist()
    full = _full_key_bytes(trace)
    at_limbs = _key_bytes_by_limbs(trace.meta.params, set(limbs))
    length = max(1, -(-len(keys) // num_windows))
    seen: dict[str, int] = {}
    windows = []
    for first in range(0, len(keys), length):
        part = [(k, n) for k, n in zip(keys[first : first + length], limbs[first : first + length], strict=True) if k]
        distinct = {key for key, _ in part}
        seen.update({key: full.get(key, 0) for key in distinct})
        windows.append(
            Window(
                first_operation=first,
                num_operations=min(length, len(keys) - first),
                key_accesses=len(part),
                distinct_keys=len(distinct),
                touched_bytes=sum(at_limbs.get(n, full.get(key, 0)) for key, n in part),
                unique_bytes=sum(full.get(key, 0) for key in distinct),
                cumulative_unique_bytes=sum(seen.values()),
                cumulative_distinct_keys=len(seen),
            )
        )
    return windows


def unexpanded_composites(trace: Trace) -> int:
    """Composite calls without an expansion: their key accesses are unknown."""
    origins = trace.view().operations["origin"].to_pylist()
    return int(np.count_nonzero(np.asarray(origins, dtype=object) == "composite"))


def _full_key_bytes(trace: Trace) -> dict[str, int]:
    objects = trace.objects
    return {
        name: size
        for cls, name, size in zip(
            objects["class"].to_pylist(), objects["name"].to_pylist(), objects["bytes"].to_pylist(), strict=True
        )
        if cls == "key" and name is not None
    }


def _key_bytes_by_limbs(params: Row, limbs: set[int]) -> dict[int, int]:
    """What a key switch at each number of limbs reads of a key: `digits x 2 x (limbs + num_p)` limbs of words.

    Empty where the parameters in the trace do not say; the full key is counted then.
    """
    try:
        num_q, num_p = len(params["q_bits"]), len(params["p_bits"])
        limb_bytes = int(params["ring_dim"]) * int(params["word_bits"]) // 8
        digit_limbs = -(-num_q // int(params["dnum"]))
        halves = 1 if KeyForm(params["key_form"]).is_seeded else 2
    except (KeyError, TypeError, ValueError):
        return {}
    return {n: halves * -(-n // digit_limbs) * (n + num_p) * limb_bytes for n in limbs}
