"""The inside of a composite call, if it is known: rows marked `modelled` beneath the call's row.

Each expansion was checked against OpenFHE 1.6.1: the sequence of key switches, decompositions, products and rescales
that a debugger counts inside the library. One that ends at another level than the real result is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from types import ModuleType
from typing import TypeVar

import numpy as np

from penstock.errors import PenstockError
from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.circuits.openfhe.bootstrapping import BootstrapSetup, bootstrap, can_expand
from penstock.program.evaluator.circuits.openfhe.division import degree_of
from penstock.program.evaluator.circuits.openfhe.series import evaluate_series
from penstock.program.evaluator.circuits.openfhe.sums import sum_slots
from penstock.program.evaluator.protocol import Plain
from penstock.program.evaluator.scaling import ScaleState
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.openfhe.recorder.calls import OMITTED
from penstock.program.openfhe.recorder.identity import Known
from penstock.program.openfhe.types import Arguments
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.builder import TraceBuilder

_Term = TypeVar("_Term")
Circuit = Callable[[SymbolicEvaluator, list[Cipher]], Cipher]
Finder = Callable[["Expander", Arguments, Sequence[Known], Known | None], "Expansion | None"]


@dataclass(frozen=True, slots=True)
class Expansion:
    """A circuit, and the arguments that it depends on (besides the states of the operands)."""

    shape: Hashable
    circuit: Circuit


class Expander:
    """Writes the expansions of one recording's composites."""

    def __init__(self, params: CkksParameters, fhe: ModuleType) -> None:
        # Rotations keep their own step and key, whatever the number of slots.
        self._params = replace(params, slots=params.ring_dim // 2)
        self._fhe = fhe
        self._fits: dict[Hashable, bool] = {}
        self._setups: dict[int, BootstrapSetup] = {}

    def bootstrap_setup(self, args: Arguments) -> None:
        """Remember what EvalBootstrapSetup was called with: levels, baby steps, slots, …, whether StC comes first."""
        level_budget, baby_steps, slots, _, _, slots_first = (*args, *(OMITTED,) * 6)[:6]
        count = (0 if slots is OMITTED else int(slots)) or self._params.ring_dim // 2
        self._setups.pop(count, None)
        if slots_first is OMITTED or not slots_first:
            self._setups[count] = BootstrapSetup(
                count,
                (5, 4) if level_budget is OMITTED else (int(level_budget[0]), int(level_budget[1])),
                (0, 0) if baby_steps is OMITTED else (int(baby_steps[0]), int(baby_steps[1])),
            )

    def setup(self, slots: int) -> BootstrapSetup | None:
        """The arguments of EvalBootstrapSetup for a number of slots; `None`: no call, or an unknown form."""
        return self._setups.get(slots)

    def expand(
        self,
        builder: TraceBuilder,
        name: str,
        args: Arguments,
        operands: Sequence[Known],
        plain: Known | None,
        state: ScaleState,
    ) -> int | None:
        """The object that the expansion of `name` ends with, or `None` where none is known or none fits.

        Args: plain: the plaintext among the arguments, if any; state: of the real result.
        """
        finder = _FINDERS.get(name)
        expansion = finder(self, args, operands, plain) if finder is not None else None
        if expansion is None:
            return None
        key = (name, expansion.shape, tuple(o.state for o in operands), state)
        if key not in self._fits:
            self._fits[key] = self._fit(expansion.circuit, operands, state)
        if not self._fits[key]:
            return None
        evaluator = SymbolicEvaluator(self._params, builder)
        return expansion.circuit(evaluator, [Cipher(o.object_id, o.state, o.polynomials) for o in operands]).object_id

    def _fit(self, circuit: Circuit, operands: Sequence[Known], state: ScaleState) -> bool:
        """Whether the circuit, run aside, ends where the library did."""
        evaluator = SymbolicEvaluator(self._params)
        fresh = [evaluator.fresh(o.state.limbs, o.state.degree) for o in operands]
        try:
            return circuit(evaluator, fresh).state == state
        except PenstockError:
            return False

    # Finders: from the arguments of a call to its circuit.
    def _linear_sum(self, args: Arguments, operands: Sequence[Known], plain: Known | None) -> Expansion | None:
        """Only for operands in one state: the library first brings others together in its own way."""
        if not operands or len({o.state for o in operands}) != 1:
            return None
        return Expansion(None, _weighted_sum)

    def _sum(self, args: Arguments, operands: Sequence[Known], plain: Known | None) -> Expansion | None:
        batch = int(args[1])
        return Expansion(batch, lambda ev, cs: sum_slots(ev, cs[0], batch)) if _power_of_two(batch) else None

    def _inner_product(self, args: Arguments, operands: Sequence[Known], plain: Known | None) -> Expansion | None:
        batch = int(args[2])
        if not _power_of_two(batch):
            return None
        if len(operands) == 2:
            return Expansion(batch, lambda ev, cs: sum_slots(ev, ev.mult(cs[0], cs[1]), batch))
        if plain is None:
            return None

        def with_plaintext(ev: SymbolicEvaluator, cs: list[Cipher]) -> Cipher:
            vector = Plain(np.zeros(0))
            limbs = cs[0].state.limbs
            # The product is with the object that the script's plaintext has already.
            vector.kept(ev.builder).update(dict.fromkeys(range(1, limbs + 1), plain.object_id))
            return sum_slots(ev, ev.mult(cs[0], vector), batch)

        return Expansion(("plain", batch), with_plaintext)

    # Series. The coefficients matter where they are zero or one, so they are part of the shape.
    def _chebyshev_of_function(
        self, args: Arguments, operands: Sequence[Known], plain: Known | None
    ) -> Expansion | None:
        """No function is called, a user's neither: its series is taken to have every term."""
        lower, upper, degree = args[-3:]
        every_term = [1.0 / (k + 2) for k in range(int(degree) + 1)]
        return _series_expansion(every_term, (float(lower), float(upper)))

    def _bootstrap(self, args: Arguments, operands: Sequence[Known], plain: Known | None) -> Expansion | None:
        setup = self._setups.get(args[0].GetSlots())
        once = len(args) < 2 or args[1] is OMITTED or int(args[1]) == 1
        if setup is None or not once or not can_expand(self._params):
            return None
        return Expansion(setup, lambda ev, cs: bootstrap(ev, cs[0], setup))


def _of_many(circuit: Circuit) -> Finder:
    """Of two operands or more."""
    return lambda expander, args, operands, plain: Expansion(None, circuit) if len(operands) > 1 else None


def _series_expansion(
    coefficients: Sequence[float], interval: tuple[float, float] | None, linear: bool | None = None
) -> Expansion | None:
    series = tuple(coefficients)
    if any(isinstance(c, complex) for c in series) or not degree_of(series):
        return None
    return Expansion((series, interval), lambda ev, cs: evaluate_series(ev, cs[0], series, interval, linear=linear))


def _chebyshev(linear: bool | None = None) -> Finder:
    return lambda expander, args, operands, plain: _series_expansion(args[1], (float(args[2]), float(args[3])), linear)


def _power_series(linear: bool | None = None) -> Finder:
    return lambda expander, args, operands, plain: _series_expansion(args[1], None, linear)


def _power_of_two(n: int) -> bool:
    return n >= 1 and n & (n - 1) == 0


def tree(terms: Sequence[_Term], combine: Callable[[_Term, _Term], _Term]) -> _Term:
    """Neighbours first, then their results in the order in which they were made, as EvalAddMany and EvalMultMany do."""
    queue = list(terms)
    for i in range(0, 2 * len(terms) - 2, 2):
        queue.append(combine(queue[i], queue[i + 1]))
    return queue[-1]


def _weighted_sum(ev: SymbolicEvaluator, terms: list[Cipher]) -> Cipher:
    total = ev.mult(terms[0], 1.0)
    for term in terms[1:]:
        total = ev.add(total, ev.mult(term, 1.0))
    return ev.rescale(total)


_FINDERS: dict[str, Finder] = {
    "EvalAddMany": _of_many(lambda ev, cs: tree(cs, ev.add)),
    "EvalAddManyInPlace": _of_many(lambda ev, cs: reduce(ev.add, cs)),
    "EvalMultMany": _of_many(lambda ev, cs: tree(cs, lambda a, b: ev.rescale(ev.mult(a, b)))),
    "ComposedEvalMult": _of_many(lambda ev, cs: ev.rescale(ev.mult(cs[0], cs[1]))),
    "EvalLinearWSum": Expander._linear_sum,
    "EvalLinearWSumMutable": Expander._linear_sum,
    "EvalSum": Expander._sum,
    "EvalInnerProduct": Expander._inner_product,
    "EvalChebyshevSeries": _chebyshev(),
    "EvalChebyshevSeriesLinear": _chebyshev(linear=True),
    "EvalChebyshevSeriesPS": _chebyshev(linear=False),
    "EvalChebyshevFunction": Expander._chebyshev_of_function,
    **dict.fromkeys(("EvalLogistic", "EvalSin", "EvalCos", "EvalDivide"), Expander._chebyshev_of_function),
    "EvalPoly": _power_series(),
    "EvalPolyLinear": _power_series(linear=True),
    "EvalPolyPS": _power_series(linear=False),
    "EvalBootstrap": Expander._bootstrap,
}
