"""One byte budget for all classes of data of a run: the least of each, and the order in which they get the rest.

A class lives in some phases of a run, and only classes of one phase are in memory together. Bytes go first where a byte
saves most seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.base.types import Row
from penstock.base.units import format_bytes, format_seconds
from penstock.errors import BudgetTooSmall
from penstock.runtime.native.compiled import Compiled
from penstock.runtime.native.plans import READ_BYTES_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The bytes that a program could use, and the seconds that they save."""

    all_bytes: int
    """With which nothing is read or encoded twice."""
    least_bytes: int
    """Without which it does not run."""
    saved_s: float = 0.0
    """Seconds that all bytes save over the least."""
    step_bytes: int = 1
    """Above the least it takes multiples of this."""

    @property
    def saved_s_per_byte(self) -> float:
        return self.saved_s / max(1, self.all_bytes - self.least_bytes)

    @classmethod
    def always(cls, num_bytes: int) -> Wanted:
        """What has one size."""
        return cls(all_bytes=num_bytes, least_bytes=num_bytes)


def dealt(
    wanted: Mapping[str, Wanted], left: Callable[[str, Mapping[str, int]], int]
) -> tuple[dict[str, int], list[str]]:
    """Class -> its bytes, and the classes in the order in which they got more than the least.

    Args:   left(class, given): bytes that are free for the class, after what is given.
    >>> some = {"a": Wanted(all_bytes=9, least_bytes=1, saved_s=1.0), "b": Wanted(all_bytes=9, least_bytes=1)}
    >>> dealt(some, lambda name, given: 12 - sum(given.values()))
    ({'a': 9, 'b': 3}, ['a', 'b'])
    """
    given = {name: part.least_bytes for name, part in wanted.items()}
    ranked = sorted(wanted, key=lambda name: -wanted[name].saved_s_per_byte)
    for name in ranked:
        part = wanted[name]
        more = max(0, min(left(name, given), part.all_bytes - part.least_bytes))
        given[name] += more - more % part.step_bytes
    return given, ranked


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A class of data, and when it is in memory."""

    name: str
    wanted: Wanted
    phases: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(Part):
    """A class of data, and what it gets."""

    given_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """The memory of a run before it runs, by classes of data."""

    memory_bytes: int | None
    """The budget; `None`: no limit."""
    shares: tuple[Share, ...]

    def given(self, name: str) -> int:
        """Bytes of a class; 0 where there is no such class."""
        return sum(share.given_bytes for share in self.shares if share.name == name)

    @property
    def total_bytes(self) -> int:
        """Predicted peak of the process: of the phase that holds most."""
        return self._most(lambda share: share.given_bytes)

    @property
    def least_bytes(self) -> int:
        """The least budget."""
        return self._most(lambda share: share.wanted.least_bytes)

    def _most(self, size: Callable[[Share], int]) -> int:
        return _most_of({phase: list(map(size, self._of(phase))) for phase in self.phases})

    @property
    def phases(self) -> tuple[str, ...]:
        """In their order."""
        return tuple(dict.fromkeys(phase for share in self.shares for phase in share.phases))

    def _of(self, phase: str) -> list[Share]:
        return [share for share in self.shares if phase in share.phases]

    def words(self) -> str:
        """The peak and its parts, in a sentence."""
        peak = max(self.phases, key=lambda phase: sum(share.given_bytes for share in self._of(phase)))
        parts = [f"{share.name} {_short(share.given_bytes)}" for share in self._of(peak) if share.given_bytes]
        return f"predicted peak {_short(self.total_bytes)}, at least {_short(self.least_bytes)}: {', '.join(parts)}"

    def to_dict(self) -> Row:
        """For a report, in bytes."""
        return {
            "memory_bytes": self.memory_bytes,
            "predicted_peak_bytes": self.total_bytes,
            "least_bytes": self.least_bytes,
            "classes": {
                share.name: {
                    "given_bytes": share.given_bytes,
                    "least_bytes": share.wanted.least_bytes,
                    "all_bytes": share.wanted.all_bytes,
                    "phases": list(share.phases),
                }
                for share in self.shares
            },
        }


def plan_memory(parts: Sequence[Part], memory_bytes: int | None, option: str) -> MemoryPlan:
    """Share a budget among classes of data; without one each gets all that it can use.

    Args:   option: what states the budget, for messages: `--memory`.
    Raises: BudgetTooSmall: the least of all classes is more than the budget.
    """
    wanted = {part.name: part.wanted for part in parts}
    phases = {part.name: part.phases for part in parts}
    if memory_bytes is None:
        given = {name: need.all_bytes for name, need in wanted.items()}
    else:
        _check(parts, memory_bytes, option)

        def left(name: str, given: Mapping[str, int]) -> int:
            sums = [sum(size for other, size in given.items() if phase in phases[other]) for phase in phases[name]]
            return memory_bytes - max(sums)

        given, _ = dealt(wanted, left)
    shares = [
        Share(name=part.name, wanted=part.wanted, phases=part.phases, given_bytes=given[part.name]) for part in parts
    ]
    return MemoryPlan(memory_bytes=memory_bytes, shares=tuple(shares))


def least_of(parts: Sequence[Part]) -> int:
    """The least budget of these classes."""
    return max(_most_of({phase: [part.wanted.least_bytes for part in own] for phase, own in _by_phase(parts)}), 0)


def _check(parts: Sequence[Part], memory_bytes: int, option: str) -> None:
    """Raises: BudgetTooSmall: naming the first class that does not fit any more, and the least that does."""
    least = least_of(parts)
    if least <= memory_bytes:
        return
    phase, own = max(_by_phase(parts), key=lambda phased: sum(part.wanted.least_bytes for part in phased[1]))
    left = memory_bytes
    for part in own:
        size = part.wanted.least_bytes
        if size > left:
            needs = ", ".join(f"{part.name} {_short(part.wanted.least_bytes)}" for part in own)
            raise BudgetTooSmall(
                f"{option} {format_bytes(memory_bytes)} is too little: in the phase '{phase}' the class "
                f"'{part.name}' needs {format_bytes(size)} at least, and {format_bytes(left)} are left. All classes "
                f"need {format_bytes(least)} ({needs}); raise {option} to {least} B or more"
            )
        left -= size


def _by_phase(parts: Sequence[Part]) -> list[tuple[str, list[Part]]]:
    names = dict.fromkeys(phase for part in parts for phase in part.phases)
    return [(phase, [part for part in parts if phase in part.phases]) for phase in names]


def _most_of(sizes: Mapping[str, Sequence[int]]) -> int:
    return max(map(sum, sizes.values()), default=0)


def _short(size: int) -> str:
    """In decimal units only."""
    return format_bytes(size).partition(" (")[0]


KEPT_AUTOMORPHISMS = 128
"""Permutations that the engine keeps, of 4 bytes a coefficient."""
INPUT_BYTES_PER_S = 1.5e9
"""To read an encrypted input again and to check its words. Assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Bytes of a run of a whole program at its peak, predicted.

    Values in use, their scratch and the process itself are always needed. Keys, encoded vectors and encrypted inputs
    share the rest: each can be read or encoded again at each use.
    """

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
        shares = ", ".join(f"{name} {_short(size)}" for name, size in self._parts().items() if size)
        return f"peak memory {_short(self.total_bytes)}: {shares}"


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
