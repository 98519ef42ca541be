"""The memory of a whole program before it runs, and the shares of a byte budget.

Values in use, their scratch and the process itself are always needed. Keys, encoded vectors and encrypted inputs share
the rest: each can be read or encoded again at each use, so bytes go first where a byte saves most seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.base.units import format_bytes, format_seconds
from penstock.errors import BudgetTooSmall
from penstock.runtime.native.compiled import Compiled
from penstock.runtime.native.plans import READ_BYTES_PER_S
from penstock.runtime.native.sharing import Wanted, dealt, short

INPUT_BYTES_PER_S = 1.5e9
"""To read an encrypted input again and to check its words. Assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Bytes of a run at its peak, predicted."""

    process_bytes: int
    """Measured before the run: the interpreter, tables, keys that are in memory already."""
    table_bytes: int
    """Made when they are first used."""
    value_bytes: int
    """Ciphertexts and digits in use at one time."""
    kept_bytes: int
    """Scratch of operations, and memory of dropped values for new ones."""
    key_bytes: int
    """Rows of keys, where they come from disk."""
    vector_bytes: int
    """Encoded vectors, kept for their next use or in use."""
    input_bytes: int
    """Encrypted inputs that wait for their use."""
    ahead_bytes: int = 0
    """Of the encoded vectors: those made ahead of their use."""
    why: str = ""
    """How a budget was shared."""

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return sum(self._parts().values())

    def _parts(self) -> dict[str, int]:
        return {
            "process": self.process_bytes,
            "tables": self.table_bytes,
            "values": self.value_bytes,
            "kept for new values": self.kept_bytes,
            "keys": self.key_bytes,
            "constants": self.vector_bytes,
            "inputs": self.input_bytes,
        }

    def words(self) -> str:
        """The parts in a sentence."""
        shares = ", ".join(f"{name} {short(size)}" for name, size in self._parts().items() if size)
        return f"peak memory {short(self.total_bytes)}: {shares}"


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


def wanted_inputs(compiled: Compiled, *, on_disk: bool, most_bytes: int | None = None) -> Wanted:
    """Encrypted inputs, which are used once each; on disk they are read then. `most_bytes`: in memory, if stated."""
    one = compiled.params.ciphertext_bytes(compiled.params.num_q)
    whole = one * len(compiled.inputs)
    least = min(one, whole) if on_disk else whole
    most = whole if most_bytes is None else min(whole, max(least, most_bytes))
    return Wanted(all_bytes=most, least_bytes=least, saved_s=(most - least) / INPUT_BYTES_PER_S)


def least_bytes(fixed: Room, parts: Mapping[str, Wanted]) -> int:
    """Without which the program does not run."""
    return fixed.total_bytes + sum(part.least_bytes for part in parts.values())


def shared_room(fixed: Room, parts: Mapping[str, Wanted], memory_bytes: int | None) -> Room:
    """The room of a run under a budget for the whole process, or of one without.

    Args:   fixed: its keys, vectors and inputs are 0; parts: `keys`, `vectors`, `inputs`.
    Raises: BudgetTooSmall: the budget is less than the least that the program needs.
    """
    given = {name: part.least_bytes for name, part in parts.items()}
    if memory_bytes is None:
        given = {name: part.all_bytes for name, part in parts.items()}
        return _with(fixed, given, "")
    least = least_bytes(fixed, parts)
    if least > memory_bytes:
        short = _with(fixed, given, "")
        raise BudgetTooSmall(
            f"--memory {format_bytes(memory_bytes)} is too little: the program needs {format_bytes(least)} at least "
            f"({short.words().partition(': ')[2]}); raise it to {least} bytes or more"
        )
    most = memory_bytes - fixed.total_bytes
    given, ranked = dealt(parts, lambda name, now: most - sum(now.values()))
    return _with(fixed, given, _why(parts, ranked, given))


def _with(fixed: Room, given: Mapping[str, int], why: str) -> Room:
    return replace(fixed, key_bytes=given["keys"], vector_bytes=given["vectors"], input_bytes=given["inputs"], why=why)


_NAMES = {"keys": "keys", "vectors": "constants", "inputs": "inputs"}


def _why(parts: Mapping[str, Wanted], ranked: list[str], given: Mapping[str, int]) -> str:
    """The order in which parts got their bytes."""
    reasons = []
    for name in ranked:
        part = parts[name]
        if part.all_bytes > part.least_bytes:
            saved = format_seconds(part.saved_s_per_byte * 1e9)
            reasons.append(f"{_NAMES[name]} {given[name] / part.all_bytes:.0%} in memory (1 GB saves {saved})")
    return "; ".join(reasons)
