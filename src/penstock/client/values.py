"""Values for the client's encoder."""

from __future__ import annotations

import numpy as np

from penstock.program.evaluator import Values, check_real, finite


def encodable(values: Values | list[float]) -> Values:
    """A contiguous vector of complex numbers without imaginary parts.

    Raises: PenstockError: a vector with imaginary parts, or with what no double holds.
    """
    given = finite(np.asarray(values))
    check_real(given)
    return np.ascontiguousarray(given, dtype=np.complex128)
