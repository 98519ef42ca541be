"""Types of rows that many rooms name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]
"""A row of a table, or an object of JSON or TOML: column or key -> value."""
Rows: TypeAlias = list[Row]
RowView: TypeAlias = Mapping[str, Any]
"""A row that is only read."""
