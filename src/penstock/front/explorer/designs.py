"""Design spaces of accelerators in a drive, with the defaults of `penstock ssd space`."""

from __future__ import annotations

from penstock.base.system.progress import Progress
from penstock.base.types import Row
from penstock.lab.reports.designs import designs_space
from penstock.lab.reports.space import Space

_OPTIONS: Row = {
    "drives": ("ssd-s", "ssd-l"), "architecture": "fheins", "machine": "sharp", "policy": "batch-overlap", "batch": 1,
    "contention": "spill", "power": "per-engine",
}  # fmt: skip
"""Options of `penstock ssd space` that have a default; the others are not given."""
_LISTS = ("groups", "lanes", "scratchpads", "dram_rates", "dram_sizes", "links")
_TEXTS = ("params", "database", "max_power", "max_area", "max_dram_rate", "max_dram_size")


def queries() -> list[str]:
    """Workloads that have a design space."""
    from penstock.lab.instorage.named import QUERIES

    return list(QUERIES)


def designs(query: str) -> Space:
    """Every design of the default axes, for one query at a time.

    Raises: UnknownName: no such workload.
    """
    from penstock.front.hall import designs as spaces

    options = {**_OPTIONS, **dict.fromkeys(_LISTS, ()), **dict.fromkeys(_TEXTS)}
    *_, budgets, space = spaces.designs(query, options, Progress(quiet=True))
    rows = [{**row, "within_budgets": row["watts"] <= budgets[0].most} for row in space.rows()]
    return designs_space(rows, f"penstock ssd space {query}")
