"""The memory of a program that runs operation by operation, before it runs: from a run that only notes its calls.

Values end where Python lets go of them, in this run as in one that computes: both run the same program, and have the
same live ranges. The engine's memory is played over them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from penstock import _engine
from penstock.program.evaluator.call import Call, Executed
from penstock.program.evaluator.protocol import Values
from penstock.program.evaluator.scaling import ScaleState
from penstock.runtime.native.compiled import Compiled, CompilingEngine, CompilingEvaluator, Encoded
from penstock.runtime.native.sharing import MemoryPlan, Part, least_of, plan_memory
from penstock.runtime.native.work import Work
from penstock.scheme.params.ckks import CkksParameters


class _NotedValue(int):
    """The number of a value, which notes its end."""

    events: list[int]

    def __del__(self) -> None:
        self.events.append(~int(self))


class MeteredEngine(CompilingEngine):
    """An engine that notes calls, and when each result ends."""

    def __init__(self, params: CkksParameters, scale_at: Callable[[int], float]) -> None:
        super().__init__(params, scale_at)
        self.events: list[int] = []
        """The number of a task where it runs, the complement of a value's number where it ends."""

    def given(self, limbs: int, polynomials: int = 2) -> int:
        """A ciphertext that comes into memory now."""
        return self._held(self._add(Work("input"), [], [[self.params.polynomial_bytes(limbs)] * polynomials]))

    def input(self, values: Values, state: ScaleState) -> int:
        """An encrypted input, which is in memory from its encryption on."""
        return self.given(state.limbs)

    def perform(self, work: Work, calls: Sequence[Call]) -> list[Executed]:
        return [replace(executed, value=self._held(executed.value)) for executed in super().perform(work, calls)]

    def _add(
        self,
        work: Work,
        operands: Sequence[int],
        sizes: Sequence[list[int]],
        vectors: Sequence[Encoded] = (),
        key: tuple[int, int] | None = None,
    ) -> int:
        number = super()._add(work, operands, sizes, vectors, key)
        self.events.append(self.task)
        return number

    def _held(self, number: int) -> int:
        held = _NotedValue(number)
        held.events = self.events
        return held


@dataclass(slots=True, kw_only=True)
class Metered:
    """A program's calls, in order, with the ends of its values."""

    compiled: Compiled
    events: list[int]

    @property
    def key_sizes(self) -> dict[tuple[str, int], int]:
        """(key, limbs) of a use -> bytes of its rows."""
        return {(key, n): self.compiled.params.key_bytes(n, key=key) for key, n in self.compiled.key_uses}

    def held_bytes(self, keep_bytes: int) -> tuple[int, int]:
        """The most bytes at one time: of values; of values, scratch, and memory that waits for new ones.

        Args:   keep_bytes: of dropped values, which the engine keeps for new ones.
        """
        return self.compiled.played_bytes(self.events, keep_bytes)[:2]


def meter(
    program: Callable[[CompilingEvaluator, MeteredEngine], object],
    params: CkksParameters,
    context: _engine.CkksContext,
) -> Metered:
    """Run a program that asks for no decrypted value. `context`: its scales are asked for."""
    engine = MeteredEngine(params, context.scale_at)
    ev = CompilingEvaluator(engine)
    program(ev, engine)
    ev.builder.on_add = None
    return Metered(compiled=engine.compiled, events=engine.events)


VALUES, KEPT = "values", "memory kept for new values"
"""Classes of data."""


def plan_kept(
    metered: Metered, ciphertexts: Sequence[int], parts: Sequence[Part], memory_bytes: int | None, option: str
) -> tuple[MemoryPlan, int]:
    """The plan of a budget, and the bytes of dropped values that the engine keeps: as many as leave the least of all.

    Args:   ciphertexts: numbers of them whose memory may be kept, the most first. parts: all classes of data; `VALUES`
            and `KEPT` get the program's bytes besides their own. option: as `plan_memory`.
    Raises: BudgetTooSmall: as `plan_memory`.
    """
    params, wanted, keep = metered.compiled.params, parts, 0
    for kept in ciphertexts:
        keep = kept * params.ciphertext_bytes(params.num_q + params.num_p)
        values, held = metered.held_bytes(keep)
        wanted = [_with(part, {VALUES: values, KEPT: held - values}.get(part.name, 0)) for part in parts]
        if memory_bytes is None or least_of(wanted) <= memory_bytes:
            break
    return plan_memory(wanted, memory_bytes, option), keep


def _with(part: Part, more: int) -> Part:
    """A class with so many bytes more."""
    wanted = part.wanted
    return replace(
        part, wanted=replace(wanted, all_bytes=wanted.all_bytes + more, least_bytes=wanted.least_bytes + more)
    )
