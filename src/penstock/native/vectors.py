"""Encoded vectors of a run under a byte budget: the first ones stay, the others are encoded at each use.

A program uses its vectors in the same order again and again. Of such uses a store that lets the oldest go keeps none;
one that keeps the first ones keeps as many as fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock import _engine
from penstock.native.engine import EngineHere
from penstock.native.keys import KeySource
from penstock.params.ckks import CkksParameters
from penstock.program.evaluator import Plain


class EngineOfBudget(EngineHere):
    """The engine of this process, whose encoded vectors stay up to `vector_bytes`; `None`: all of them."""

    def __init__(
        self,
        params: CkksParameters,
        context: _engine.CkksContext,
        keys: KeySource,
        *,
        vector_bytes: int | None = None,
    ) -> None:
        super().__init__(params, context, keys)
        self.kept_vector_bytes = 0
        self._vector_bytes = vector_bytes

    def _now_encoded(self, new: Sequence[Plain], name: tuple[Any, ...], size: int) -> None:
        super()._now_encoded(new, name, size)
        for each in new:
            if self._vector_bytes is not None and self.kept_vector_bytes + size > self._vector_bytes:
                del each.kept(self)[name]
            else:
                self.kept_vector_bytes += size
