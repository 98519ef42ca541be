"""The cost of recording a program: Python wraps each call of the library and writes a row of the trace.

The library's time of an operation is one thing; a recorded program also works out scales, asks for states, appends rows
and releases ciphertexts. It is timed alone (`recorded_…` in `penstock.lab.measure.bench.catalogue`), as a part of
recorded calls:

    calls of a class of operations * seconds of one                  (`element-wise`, `key-switching`)
    rows that a composite's expansion writes * seconds of one        (`expanded`)
    slots of vectors that are decrypted, which become an array       (`values`)

The library's calls empty the interpreter's caches of code and data. A program pays a cost between that of a loop over
one call (warm) and that of the second call after a flush (cold). As everywhere in a program the price is the cold one
(`penstock.scheme.machines.cold`); how far the warm one is from it is in the deviation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.scheme.machines.calibration import ELEMENT_WISE, KEY_SWITCHING, operation_class
from penstock.scheme.machines.figure import Figure
from penstock.scheme.operations import TRAITS, OpKind

EXPANDED, VALUES = "expanded", "values"
MEASURES: Mapping[str, str] = {ELEMENT_WISE: "", KEY_SWITCHING: "", EXPANDED: "row", VALUES: "slot"}
"""Term -> its unit; an empty text is a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingModel:
    """Seconds of one of each term."""

    costs: Mapping[str, Figure]
    """Term -> seconds; a term that was not timed costs nothing."""
    log_sd: float = 0.0
    """Standard deviation of the logarithm of the time of a program's recording."""

    def call(self, kind: str) -> float:
        """Of one call of the library. A composite switches keys."""
        return self._of(KEY_SWITCHING if TRAITS[OpKind(kind)].composite else operation_class(kind))

    def expanded(self, rows: float) -> float:
        """Of so many rows of composites' expansions."""
        return rows * self._of(EXPANDED)

    def values(self, slots: float) -> float:
        """Of reading so many slots of decrypted vectors."""
        return slots * self._of(VALUES)

    def _of(self, term: str) -> float:
        return self.costs[term].value if term in self.costs else 0.0
