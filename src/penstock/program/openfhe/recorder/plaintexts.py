"""What a package keeps of a script's plaintexts."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.program.evaluator.protocol import Values
from penstock.program.openfhe.types import Numeric

GivenValues = list[float] | npt.NDArray[np.generic]
"""The values of a plaintext, as a script gives them."""


@dataclass(eq=False, slots=True)
class Encoded:
    """One plaintext of the script."""

    values: GivenValues | None
    """`None`: it was decrypted, or edited by hand."""
    limbs: int
    degree: int
    slots: int
    decrypted: bool = False
    """Whether it, or a number in it, was decrypted."""
    owner: Any = None
    """The packaging in which it is an output, or has a number."""
    output: int = -1
    """The number of the output that it is."""
    constant: int = -1
    """Its number in the owner's package, once it was an operand."""


def as_array(values: Numeric) -> Numeric:
    """A list of real numbers as an array, which OpenFHE takes as well, so that it is converted once; else `values`."""
    if type(values) is not list:
        return values
    try:
        return np.frombuffer(array("d", values), dtype=np.float64) if values else values
    except TypeError:
        return values


def values_copy(values: GivenValues) -> GivenValues:
    """Copy the values of a plaintext, cheaply: most are never needed."""
    return np.array(values, subok=True) if isinstance(values, np.ndarray) else list(values)


def as_vector(values: GivenValues, is_complex: bool) -> Values:
    """What a script gave as the values of a plaintext, (n,); a context of real data drops imaginary parts."""
    vector: Values
    if isinstance(values, np.ndarray):
        vector = np.asarray(values).ravel()
    else:
        try:
            vector = np.frombuffer(array("d", values), dtype=np.float64)
        except TypeError:
            vector = np.array([complex(number) for number in values], dtype=np.complex128)
    if vector.dtype.kind == "c" and not is_complex:
        vector = vector.real
    return vector
