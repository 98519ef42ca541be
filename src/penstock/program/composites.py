"""Composites: one call of the library, expanded by our own circuits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from penstock.operations import OpKind
from penstock.program.call import Call, Cipher, Period, Series
from penstock.program.circuit_evaluator import CircuitEvaluator
from penstock.program.circuits.bootstrap import bootstrap_circuit, checked_slots, refreshed_levels, scope_name
from penstock.program.circuits.chebyshev import chebyshev_circuit, library_chebyshev
from penstock.program.rows import RowWriter
from penstock.traces.schema import ORIGIN_COMPOSITE

Circuit = Callable[[CircuitEvaluator, Cipher], Cipher]


class CompositeEvaluator(RowWriter):
    """A reading in which a composite is one row, with the rows of its circuit inside."""

    @abstractmethod
    def _model(self) -> CircuitEvaluator:
        """What writes the rows of a circuit."""

    def bootstrap(self, a: Cipher, slots: int | None = None) -> Cipher:
        period = checked_slots(self.params, slots)
        refreshed_levels(self.params)
        name = scope_name(self.params, period)
        return self._composite(
            OpKind.BOOTSTRAP, name, a, lambda ev, c: bootstrap_circuit(ev, c, period), Period(period)
        )

    def chebyshev_series(self, a: Cipher, coefficients: Sequence[float], lower: float, upper: float) -> Cipher:
        series = [float(c) for c in coefficients]
        expand = library_chebyshev if self.params.library == "openfhe" else chebyshev_circuit
        how = Series(tuple(series), lower, upper)
        return self._composite(OpKind.CHEBYSHEV, "chebyshev", a, lambda ev, c: expand(ev, c, series, lower, upper), how)

    def _composite(self, kind: OpKind, name: str, a: Cipher, circuit: Circuit, how: Series | Period) -> Cipher:
        with self.builder.open_scope(name, modelled=True):
            modelled = circuit(self._model(), Cipher(a.object_id, a.state))
            done = self.execute(Call(kind, [a], modelled.state, how=how))
            self.builder.add(
                kind,
                limbs_in=a.state.limbs,
                limbs_out=done.state.limbs,
                operands=(a.object_id,),
                output=modelled.object_id,
                origin=ORIGIN_COMPOSITE,
                start_s=done.start_s,
                end_s=done.end_s,
            )
        return Cipher(modelled.object_id, done.state, value=done.value)


class ExpandingEvaluator(CompositeEvaluator, CircuitEvaluator):
    """A reading that computes a composite by its circuit: no call of a library is hidden."""

    def _model(self) -> CircuitEvaluator:
        return self

    def _composite(self, kind: OpKind, name: str, a: Cipher, circuit: Circuit, how: Series | Period) -> Cipher:
        with self.builder.open_scope(name, modelled=True):
            return circuit(self, a)
