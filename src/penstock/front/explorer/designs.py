"""Design spaces of accelerators in a drive, with the defaults of `penstock ssd space`."""

from __future__ import annotations

from penstock.errors import UsageError
from penstock.lab.reports.designs import designs_space
from penstock.lab.reports.space import Space

DRIVES = ("ssd-s", "ssd-l")
DEFAULT = "ssc"


def queries() -> list[str]:
    """Workloads that have a design space."""
    from penstock.lab.instorage.named import QUERIES

    return list(QUERIES)


def designs(query: str) -> Space:
    """Every design of the default axes, for one query at a time.

    Raises: UnknownName: no such workload.
    """
    from penstock.lab.instorage.design_space import default_axes
    from penstock.lab.instorage.drive import drive_rates
    from penstock.lab.instorage.machine import UnitAccelerator
    from penstock.lab.instorage.machine_spec import load_instorage
    from penstock.lab.instorage.named import named_query
    from penstock.lab.instorage.policies import HOST_POLICIES, Contention
    from penstock.lab.instorage.queries import Inside
    from penstock.lab.instorage.space import Baseline, explore
    from penstock.scheme.machines import load_machine

    accelerator = load_instorage("fheins")
    if not isinstance(accelerator, UnitAccelerator):
        raise UsageError("fheins is known by one rate, and a design space needs functional units: reinstall penstock")
    space = explore(
        named_query(query, slot_bits=int(accelerator.slot.value)),
        default_axes([drive_rates(name) for name in DRIVES]),
        accelerator,
        Baseline(machine=load_machine("sharp"), policy=HOST_POLICIES["batch-overlap"]),
        inside=Inside(contention=Contention.SPILL),
    )
    most = accelerator.budget.value
    rows = [{**row, "within_budgets": row["watts"] <= most} for row in space.rows()]
    return designs_space(rows, f"penstock ssd space {query}")
