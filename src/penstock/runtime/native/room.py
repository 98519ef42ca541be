"""The memory of a whole program before it runs, and the shares of a byte budget.

Values in use, their scratch and the process itself are always needed. Keys, encoded vectors and encrypted inputs share
the rest: each can be read or encoded again at each use, so bytes go first where a byte saves most seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.base.units import format_bytes, format_seconds
from penstock.errors import BudgetTooSmall
from penstock.runtime.native.compiled import Compiled
from penstock.runtime.native.plans import READ_BYTES_PER_S
from penstock.runtime.native.sharing import MemoryPlan, Wanted, least_of, parts_of, plan_memory

INPUT_BYTES_PER_S = 1.5e9
"""To read an encrypted input again and to check its words. Assumed."""


def wanted_keys(compiled: Compiled, sizes: Mapping[tuple[str, int], int], repeats: int = 1) -> Wanted:
    """Rows of keys from disk. `sizes`: bytes of a key's rows at limbs. `repeats`: of the program."""
    most: dict[str, int] = {}
    for use in compiled.key_uses:
        most[use[0]] = max(most.get(use[0], 0), sizes[use])
    whole, used = sum(most.values()), repeats * sum(sizes[use] for use in compiled.key_uses)
    return Wanted(all_bytes=whole, least_bytes=max(most.values(), default=0), saved_s=(used - whole) / READ_BYTES_PER_S)


def wanted_vectors(compiled: Compiled, encode_s: float, ahead_bytes: int) -> Wanted:
    """Encoded vectors. `encode_s`: to encode one again, for each byte. `ahead_bytes`: made ahead of their use."""
    again = sum((uses - 1) * compiled.encoded_bytes(name) for name, uses in compiled.encoded.items())
    least = compiled.most_vector_bytes + ahead_bytes
    return Wanted(all_bytes=least + compiled.repeated_bytes, least_bytes=least, saved_s=encode_s * again)


def wanted_inputs(compiled: Compiled, most_bytes: int | None = None) -> Wanted:
    """Encrypted inputs on disk, which are used once each, and read then. `most_bytes`: in memory, if stated."""
    one = compiled.params.ciphertext_bytes(compiled.params.num_q)
    whole = one * len(compiled.inputs)
    least = min(one, whole)
    most = whole if most_bytes is None else min(whole, max(least, most_bytes))
    return Wanted(all_bytes=most, least_bytes=least, saved_s=(most - least) / INPUT_BYTES_PER_S)


def shared_room(wanted: Mapping[str, Wanted], memory_bytes: int | None) -> MemoryPlan:
    """The memory of a run under a budget for the whole process, or of one without.

    Raises: BudgetTooSmall: the budget is less than the least that the program needs.
    """
    parts = parts_of(wanted, "run")
    least = least_of(parts)
    if memory_bytes is not None and least > memory_bytes:
        raise BudgetTooSmall(
            f"--memory {format_bytes(memory_bytes)} is too little: the program needs {format_bytes(least)} at least "
            f"({plan_memory(parts, least, '--memory').shares_at_peak()}); raise it to {least} bytes or more"
        )
    return plan_memory(parts, memory_bytes, "--memory")


def why(room: MemoryPlan) -> str:
    """The order in which classes got their bytes, and what these save; empty without a budget."""
    if room.memory_bytes is None:
        return ""
    reasons = []
    for share in sorted(room.shares, key=lambda share: -share.wanted.saved_s_per_byte):
        if share.wanted.all_bytes > share.wanted.least_bytes:
            saved = format_seconds(share.wanted.saved_s_per_byte * 1e9)
            kept = share.given_bytes / share.wanted.all_bytes
            reasons.append(f"{share.name} {kept:.0%} in memory (1 GB saves {saved})")
    return "; ".join(reasons)
