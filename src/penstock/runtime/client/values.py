"""Values for the client's encoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.program.evaluator.protocol import Values, check_real, padded


def encodable(values: Any, slots: int) -> Values:
    """A contiguous vector of complex numbers without imaginary parts, (slots,), zeros at the end.

    Raises: PenstockError: a vector with imaginary parts; as `padded`.
    """
    given = padded(values, slots)
    check_real(given)
    return np.ascontiguousarray(given, dtype=np.complex128)
