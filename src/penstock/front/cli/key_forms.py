"""The table of a program's evaluation keys in each form, for the verbs that count keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console

from penstock.base.types import Row
from penstock.front.cli.output import draw_rows


def draw_forms(console: Console, rows: Sequence[Row], key_limbs: Mapping[str, int]) -> None:
    """Draw the bytes of a program's keys in each form, and the limbs at which truncated keys end."""
    columns = "form of all keys=key_form | >stored=stored_key_bytes:bytes | >of full=ratio_to_full:{:.3f}"
    console.print()
    draw_rows(console, rows, columns, no_wrap=True)
    ends = ", ".join(
        f"{count} at {limbs}" for limbs, count in sorted(Counter(key_limbs.values()).items(), reverse=True)
    )
    console.print("rows alone, without headers; the key store adds 4 or 8 KiB a key", highlight=False)
    console.print(f"truncated keys end at their most limbs in use: {ends or 'none'}", highlight=False, soft_wrap=True)
