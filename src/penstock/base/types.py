"""Types that many rooms name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Row: TypeAlias = dict[str, Any]
"""A row of a table, or an object of JSON or TOML: column or key -> value."""
Rows: TypeAlias = list[Row]
RowView: TypeAlias = Mapping[str, Any]
"""A row that is only read."""
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Complexes: TypeAlias = npt.NDArray[np.complex128]
