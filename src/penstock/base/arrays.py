"""Types of arrays that many rooms name."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Complexes: TypeAlias = npt.NDArray[np.complex128]
Bools: TypeAlias = npt.NDArray[np.bool_]
