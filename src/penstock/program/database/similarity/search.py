"""The search in the large ring, from packed similarities to the result ciphertexts, and what it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.program.database.similarity.comparison import SearchCircuit
from penstock.program.database.similarity.scheme import PAYLOAD_LIMBS, Layout
from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.circuit_evaluator import CircuitEvaluator
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.counting import CountingEvaluator
from penstock.program.evaluator.protocol import Ciphertext
from penstock.program.evaluator.scaling import ScaleState
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.evaluator.tally import Tally
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import Trace, TraceMeta

WORKLOAD = "fetch-by-similarity"
"""The name of the program in traces."""


def search(
    ev: CircuitEvaluator | ClearEvaluator,
    layout: Layout,
    packed: Callable[[int], Ciphertext],
    payloads: Callable[[int, int, int], Ciphertext],
    *,
    count_only: bool = False,
) -> list[Ciphertext]:
    """The result ciphertexts.

    Args:   packed: number -> the packed similarities, asked for in order. payloads: (variant, score ciphertext, column)
            -> its payloads.
    """
    comparison = SearchCircuit(ev, layout)

    def matches() -> Iterator[Ciphertext]:
        for number in range(layout.packed):
            yield from comparison.near(packed(number))

    return comparison.count(matches()) if count_only else comparison.select(matches(), payloads)


def search_trace(params: CkksParameters, layout: Layout, *, count_only: bool = False) -> Trace:
    """The trace of the part in the large ring."""
    ev = SymbolicEvaluator(params)
    _searched(ev, layout, count_only=count_only)
    return ev.builder.finish(TraceMeta(workload=WORKLOAD, params=params.to_dict(), reading="trace"))


def search_tally(params: CkksParameters, layout: Layout) -> Tally:
    """The tally of the part in the large ring."""
    ev = CountingEvaluator(params)
    _searched(ev, layout, count_only=False)
    return ev.tally(WORKLOAD, "", params)


def _searched(ev: SymbolicEvaluator, layout: Layout, *, count_only: bool) -> None:
    def given(limbs: int) -> Cipher:
        return Cipher(ev.builder.ciphertext(limbs), ScaleState(limbs, 1))

    search(
        ev,
        layout,
        lambda number: given(1),
        lambda variant, score, column: given(PAYLOAD_LIMBS),
        count_only=count_only,
    )
