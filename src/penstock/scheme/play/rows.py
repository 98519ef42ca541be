"""Columns of the rows of simulated points; `penstock.lab.simulation.play.row_of` makes the rows.

`penstock simulate` prints the columns `ROW_NAMES`, and the columns that its question adds. A sweep stores all of them,
and the explorer shows them under their labels.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.base.types import Rows, RowView
from penstock.scheme.unpriced import AT_LEAST, UNPRICED

TEXT, REAL, WHOLE, LIST = "text", "real", "whole", "list"


class Column(NamedTuple):
    """One column of simulated rows."""

    name: str
    kind: str
    """`text`, `real`, `whole` or `list` (JSON in a file of flat columns)."""
    unit: str | None = None
    """`s`, `B`, `B/s`, `J`, `1` (a number), `x` (a ratio), `share`; `None`: text."""
    label: str = ""
    nullable: bool = False


COLUMNS = (
    Column("workload", TEXT),
    Column("params", TEXT),
    Column("machine", TEXT, None, "machine"),
    Column("tier", TEXT, None, "tier"),
    Column("mode", TEXT, None, "time mode"),
    Column("cache_bytes", WHOLE, "B", "cache", nullable=True),
    Column("policy", TEXT, None, "policy"),
    Column("hit_ratio", REAL, "share", "hit ratio", nullable=True),
    Column("hosts", WHOLE, "1", "hosts"),
    Column("network", TEXT, nullable=True),
    Column("compute_s", REAL, "s", "compute", nullable=True),
    Column("io_s", REAL, "s", "I/O", nullable=True),
    Column("decode_s", REAL, "s", "decode", nullable=True),
    Column("communication_s", REAL, "s", "communication", nullable=True),
    Column("total_s", REAL, "s", "total", nullable=True),
    Column("slowdown", REAL, "x", "slowdown", nullable=True),
    Column("energy_j", REAL, "J", "energy", nullable=True),
    Column("key_bytes", WHOLE, "B", "key bytes read", nullable=True),
    Column("stored_key_bytes", WHOLE, "B", "keys stored", nullable=True),
    Column("io_bytes", REAL, "B", "loaded", nullable=True),
    Column("prefetch", TEXT, nullable=True),
    Column("provenance", TEXT),
)
"""Of every row."""
CLUSTER_COLUMNS = (
    Column("topology", TEXT),
    Column("partition", TEXT),
    Column("all_gather", TEXT),
    Column("broadcast", TEXT),
    Column("programs", WHOLE, "1"),
    Column("speedup", REAL, "x", "speed-up", nullable=True),
    Column("sent_bytes", REAL, "B", "sent", nullable=True),
    Column("loaded_bytes", REAL, "B", "loaded, all hosts", nullable=True),
)
"""Of rows of a cluster."""
BOUND_COLUMNS = (
    Column(UNPRICED, LIST, nullable=True),  # kind -> operations without a price: totals are null; null: there are none
    Column(AT_LEAST, LIST, nullable=True),  # total -> its lower bound
)
"""Of rows that leave operations out, as `penstock.scheme.unpriced.bounded` makes them."""
MORE_COLUMNS = (
    Column("written_bytes", WHOLE, "B", nullable=True),  # results over the channel downwards; null: not written back
    Column("levels", LIST, nullable=True),  # `LEVEL_NAMES` of each level; null: one cache and one tier
    Column("tenants", LIST, nullable=True),  # when each of several programs ends; null: one program
    Column("tenant_slowdown", REAL, "x", "worst tenant's slowdown", nullable=True),  # as `PlayedPoint.tenant_slowdown`
    *BOUND_COLUMNS,
)
"""Columns of rows with write-back, with levels, and with programs that run together."""
CROWD_COLUMNS = (
    Column("num_tenants", WHOLE, "1", "tenants"),
    # The end of the tenant that waits longest over the total time of one alone, in the same memory.
    Column("times_alone", REAL, "x", "times one alone", nullable=True),
)
"""Of rows for growing numbers of users of one program."""

ROW_NAMES = tuple(column.name for column in COLUMNS)
CLUSTER_NAMES = tuple(column.name for column in CLUSTER_COLUMNS)
LEVEL_NAMES = (
    "level", "capacity_bytes", "policy", "reserved_bytes", "pinned_bytes", "hits", "misses", "evictions", "streamed",
    "served_bytes", "channel_bytes", "transfers", "busy_s", "decode_s", "energy_j", "invalidated", "demoted_bytes",
    "written_bytes",
)  # fmt: skip
"""Names of an entry of a row's `levels`, in their order."""
FORCED_POLICY = "forced"
"""`policy` of a row whose hit ratio was stated, not the outcome of a cache."""


def each_once(workload: str) -> str:
    """Programs that run together, each with how often it does.

    >>> each_once("a+b+a"), each_once("a+a+a"), each_once("a")
    ('2 x a + b', '3 x a', 'a')
    """
    names = workload.split("+")
    counts = {name: names.count(name) for name in names}
    return " + ".join(name if count == 1 else f"{count} x {name}" for name, count in counts.items())


def felt_slowdown(row: RowView) -> float | None:
    """The slowdown that a program's user sees: the worst tenant's if several programs run together."""
    slowdown = row["slowdown"] if row.get("tenants") is None else row.get("tenant_slowdown")
    return None if slowdown is None else float(slowdown)


def columns(rows: Iterable[RowView], *, of_clusters: bool) -> Rows:
    """Rows with the columns that say something: of one question, so that the first row speaks for all."""
    all_rows = list(rows)
    with_it = {"tenant_slowdown": "tenants"}  # stated with the tenants, also where it is not known
    more = [c.name for c in MORE_COLUMNS if all_rows and all_rows[0][with_it.get(c.name, c.name)] is not None]
    more += [c.name for c in BOUND_COLUMNS if c.name not in more and any(row[c.name] is not None for row in all_rows)]
    names = (*ROW_NAMES, *(CLUSTER_NAMES if of_clusters else ()), *more)
    return [{name: row[name] for name in names} for row in all_rows]
