"""Composites: one call of the library, expanded by our own circuits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from penstock.program.evaluator.abreast import Bundle, Circuit, levelled, members_of, side_by_side
from penstock.program.evaluator.arguments import chebyshev_of, operands_of, period_of, powers_of
from penstock.program.evaluator.call import Call, ChebyshevSeries, Cipher, Composite, Period, Powers
from penstock.program.evaluator.circuit_evaluator import CircuitEvaluator
from penstock.program.evaluator.circuits.bootstrap import (
    bootstrap_circuit,
    is_abreast,
    refreshed_levels,
    scope_name,
)
from penstock.program.evaluator.circuits.chebyshev import chebyshev_circuit
from penstock.program.evaluator.circuits.openfhe.series import evaluate_series
from penstock.program.evaluator.imaginary import ComplexValues, complex_refresh, refreshes_real_only
from penstock.program.evaluator.rows import RowWriter, relinearized
from penstock.scheme.operations import OpKind
from penstock.scheme.traces.schema import ORIGIN_COMPOSITE


class CompositeEvaluator(RowWriter):
    """A reading in which a composite is one row, with the rows of its circuit inside."""

    @abstractmethod
    def _model(self) -> CircuitEvaluator:
        """What writes the rows of a circuit."""

    def bootstrap(self, a: Cipher, slots: int | None = None) -> Cipher:
        period, a = period_of(self.params, slots), relinearized("bootstrap", a)
        refreshed_levels(self.params)
        if refreshes_real_only(self.params):
            values = ComplexValues.of(self.builder)
            if any(values.has(member.object_id, self.builder) for member in members_of(a)):
                raise complex_refresh(self.params)
        name, how = scope_name(self.params, period), Period(period, len(members_of(a)))
        return self._composite(OpKind.BOOTSTRAP, name, a, lambda ev, c: bootstrap_circuit(ev, c, period), how)

    def bootstrap_many(self, operands: Sequence[Cipher], slots: int | None = None) -> list[Cipher]:
        given = [relinearized("bootstrap_many", a) for a in operands_of(operands)]
        return [self.bootstrap(a, slots) for a in given]

    def chebyshev_series(self, a: Cipher, coefficients: Sequence[float], lower: float, upper: float) -> Cipher:
        series, lower, upper = chebyshev_of(coefficients, lower, upper)
        a = relinearized("chebyshev_series", a)
        if len(series) == 1:
            return self.constant(a, series[0] / 2)

        def circuit(ev: CircuitEvaluator, c: Cipher) -> Cipher:
            if self.params.library == "openfhe":
                return evaluate_series(ev, c, series, (lower, upper))
            return chebyshev_circuit(ev, c, series, lower, upper)

        return self._composite(OpKind.CHEBYSHEV, "chebyshev", a, circuit, ChebyshevSeries(tuple(series), lower, upper))

    def polynomial(self, a: Cipher, coefficients: Sequence[float]) -> Cipher:
        powers, a = powers_of(coefficients), relinearized("polynomial", a)
        if len(powers) == 1:
            return self.constant(a, powers[0])

        def circuit(ev: CircuitEvaluator, c: Cipher) -> Cipher:
            return evaluate_series(ev, c, powers, None)

        return self._composite(OpKind.COMPOSITE, "polynomial", a, circuit, Powers(powers))

    def _composite(self, kind: OpKind, name: str, a: Cipher, circuit: Circuit, how: Composite) -> Cipher:
        with self.builder.open_scope(name, modelled=True):
            own = [Cipher(member.object_id, member.state) for member in members_of(a)]
            operand = Bundle.of(own) if isinstance(a, Bundle) else own[0]
            modelled = circuit(side_by_side(self._model(), a), operand)
            results = [self._called(kind, *pair, how) for pair in zip(members_of(a), members_of(modelled), strict=True)]
        return Bundle.of(results) if isinstance(a, Bundle) else results[0]

    def _called(self, kind: OpKind, a: Cipher, modelled: Cipher, how: Composite) -> Cipher:
        """The composite's own row, after those inside it."""
        done = self.execute(Call(kind, [a], modelled.state, how=how))
        self.write_row(kind, [a], modelled.object_id, done, a.state.limbs, origin=ORIGIN_COMPOSITE)
        return Cipher(modelled.object_id, done.state, value=done.value)


class AbreastEvaluator(CompositeEvaluator, CircuitEvaluator):
    """A reading in which our own circuits refresh several ciphertexts side by side."""

    def bootstrap_many(self, operands: Sequence[Cipher], slots: int | None = None) -> list[Cipher]:
        operands = [relinearized("bootstrap_many", a) for a in operands_of(operands)]
        if len(operands) < 2 or not is_abreast(self.params):
            return super().bootstrap_many(operands, slots)
        return list(members_of(self.bootstrap(Bundle.of(levelled(self, operands)), slots)))


class ExpandingEvaluator(AbreastEvaluator):
    """A reading that computes a composite by its circuit: no call of a library is hidden."""

    def _model(self) -> CircuitEvaluator:
        return self

    def _composite(self, kind: OpKind, name: str, a: Cipher, circuit: Circuit, how: Composite) -> Cipher:
        with self.builder.open_scope(name, modelled=True):
            return circuit(side_by_side(self, a), a)
