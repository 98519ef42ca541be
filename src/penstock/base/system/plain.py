"""Values as JSON has them, and tables as CSV has them."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

_AS_THEY_ARE = {str, int, bool, type(None)}


def plain(value: object) -> Any:
    """`value` as JSON has it: numpy's numbers unwrapped, enums by value, paths as text, NaN and infinity as `None`."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    value = getattr(value, "value", value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(plain(inner) for inner in value)
    return str(value) if isinstance(value, Path) else value


def csv_of(names: Sequence[str], lines: Iterable[Iterable[object]]) -> bytes:
    """A table as CSV: its head, then its lines; a cell without a value is empty."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(lines)
    return text.getvalue().encode(errors="backslashreplace")
