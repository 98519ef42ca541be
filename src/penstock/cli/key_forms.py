"""The table of a program's evaluation keys in each form, for the verbs that count keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from penstock.cli.output import table_of
from penstock.units import format_bytes
from penstock.unpriced import shown_total


def draw_forms(console: Console, rows: Sequence[dict[str, Any]], key_limbs: Mapping[str, int]) -> None:
    """Draw the bytes of a program's keys in each form, and the limbs at which truncated keys end."""
    table = table_of("form of all keys | >stored | >of full", no_wrap=True)
    for row in rows:
        ratio = "-" if row["ratio_to_full"] is None else f"{row['ratio_to_full']:.3f}"
        table.add_row(row["key_form"], shown_total(row, "stored_key_bytes", format_bytes), ratio)
    console.print()
    console.print(table)
    ends = ", ".join(
        f"{count} at {limbs}" for limbs, count in sorted(Counter(key_limbs.values()).items(), reverse=True)
    )
    console.print("rows alone, without headers; the key store adds 4 or 8 KiB a key", highlight=False)
    console.print(f"truncated keys end at their most limbs in use: {ends or 'none'}", highlight=False, soft_wrap=True)
