"""What the studies' commands share: the table of published, calibrated and own values, and that of the headlines."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from rich.table import Table

from penstock.base.types import RowView
from penstock.front.cli.output import rows_table
from penstock_studies.headlines import neighbours_text


def study_table(title: str, rows: Iterable[RowView]) -> Table:
    """One line a row, the groups apart."""
    columns = "row=id | >published=published:{:.4g} | >calibrated=calibrated:{:.4g} | >=error_calibrated "
    columns += "| >first principles=first_principles:{:.4g} | >error=error_first_principles | note*3"
    own = {name: partial(_percent, name) for name in ("error_calibrated", "error_first_principles")}
    return rows_table(rows, columns, own, section="group", title=title, fold=True)


def headline_table(headlines: Iterable[RowView]) -> Table:
    """A line for each headline: the reading behind it and the values of its neighbours."""
    columns = "headline*3=id | >published*1=published:{:.4g} | >ours*1=first_principles:{:.4g} "
    columns += "| rests on*4=rests_on | neighbours*4"
    title = "What each headline rests on"
    return rows_table(headlines, columns, {"neighbours": neighbours_text}, title=title, fold=True)


def _percent(name: str, row: RowView) -> str:
    return "" if row[name] is None else f"{row[name]:+.1%}"
