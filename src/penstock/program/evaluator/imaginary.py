"""Which ciphertexts a program may have made complex: their decryption keeps imaginary parts.

The others are of real values, and what their imaginary parts hold is error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.errors import EvaluationRefused, ParamsError
from penstock.program.evaluator.protocol import Traits
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.builder import TraceBuilder
from penstock.scheme.traces.schema import ORIGIN_MODELLED, Trace

LEAST = 2.0**-10
"""Imaginary parts (rms) that OpenFHE's decryption may not drop of values that may be complex; less is taken for error,
as much of which it adds to the real parts."""
_NAME = "complex values"
Flow = tuple[str, Sequence[int], int | None, int | None]
"""Origin, operands, output and plaintext of an operation."""


def check_dropped(imaginary: float) -> None:
    """Args: imaginary: the imaginary parts, rms, that OpenFHE's decryption drops of values that may be complex.

    Raises: EvaluationRefused: they are too large for an error.
    """
    if imaginary > LEAST:
        raise EvaluationRefused(
            f"decrypt: the values are complex, and OpenFHE's decryption drops their imaginary parts, {imaginary:.3g} "
            "(rms): take penstock's client ('--client-library penstock'), or multiply by -i before the decryption"
        )


def refreshes_real_only(params: CkksParameters) -> bool:
    """Whether a refresh drops imaginary parts: where SlotsToCoeffs comes first, real coefficients hold the values."""
    return params.bootstrap is not None and params.bootstrap.order == "stc-first"


def complex_refresh(params: CkksParameters) -> ParamsError:
    """Of a refresh of values that may be complex, at a set that refreshes real ones only."""
    return ParamsError(
        f"bootstrap: the values may be complex, and set '{params.name}' begins with SlotsToCoeffs (order 'stc-first'), "
        "which drops imaginary parts: take order 'stc-last', or multiply by i behind the refresh"
    )


class ComplexValues:
    """Of one run. The steps inside a composite bring nothing complex into its result that its operand has not."""

    def __init__(self) -> None:
        self.made: set[int] = set()
        """Ciphertexts that are complex: products with i, and all that depends on them."""
        self.plains: dict[int, Traits] = {}
        """Of each plaintext object."""
        self._followed = 0

    @classmethod
    def of(cls, builder: TraceBuilder) -> ComplexValues:
        """Those of the run whose trace a builder writes."""
        return builder.shared.setdefault(_NAME, cls())

    def has(self, ciphertext: int, builder: TraceBuilder) -> bool:
        """Whether a ciphertext of a run may be complex, whose vectors were made when they were used."""
        if self._any():
            self._follow(builder.flows(self._followed))
        self._followed = builder.num_operations
        return ciphertext in self.made

    def outputs(self, trace: Trace, rows: Sequence[int]) -> set[int]:
        """The decryptions that may be complex, counted from 0, of a program whose vectors have been made by now.

        Args:   rows: of the trace, one a decryption.
        """
        if not self._any():
            return set()
        columns = [trace.operations[name].to_pylist() for name in ("origin", "operands", "output", "plaintext")]
        self._follow(zip(*columns, strict=True))
        return {number for number, row in enumerate(rows) if columns[1][row][0] in self.made}

    def _any(self) -> bool:
        return bool(self.made) or any(traits.is_complex for traits in self.plains.values())

    def _follow(self, flows: Iterable[Flow]) -> None:
        complex_plains = {number for number, traits in self.plains.items() if traits.is_complex}
        for origin, operands, output, plaintext in flows:
            if output is None:
                continue
            own = plaintext in complex_plains and origin != ORIGIN_MODELLED
            if own or not self.made.isdisjoint(operands):
                self.made.add(output)
