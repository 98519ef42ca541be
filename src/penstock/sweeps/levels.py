"""Points of a sweep over several memory levels, and of programs that run together: one host, as `simulate --levels`.

Programs that run together share the machine as `tenants` has it, also over one cache and one tier.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import UnknownName, UsageError
from penstock.machines.schema import Machine
from penstock.simulation.memory.levels import Hierarchy, cache_over, changed
from penstock.simulation.memory.levels_replay import check_write_back
from penstock.simulation.memory.prefetch import Prefetch
from penstock.simulation.memory.tenants import Tenants
from penstock.simulation.price import PricedTrace

ON_HOST = {"topology": "star", "partition": "rplp", "all_gather": "direct", "broadcast": "scatter"}
"""What says nothing on one host, as a row of one host has it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TogetherProgram:
    """Programs priced on one machine and interleaved; travels as a priced program does."""

    tenants: Tenants
    machine: Machine

    @property
    def priced(self) -> PricedTrace:
        return self.tenants.together


def hierarchies(
    texts: Sequence[str],
    policies: Sequence[str],
    inclusions: Sequence[str | None],
    machine: Machine,
    decode_bytes_per_s: float | None,
    *,
    write_back: bool = False,
) -> Iterator[tuple[str, Hierarchy | str]]:
    """What is asked for and its levels on a machine; for levels that the machine cannot have, the reason.

    Raises: UnknownName: a tier, policy or inclusion that does not exist; MachineError: of a file of levels.
    """
    from penstock.simulation.memory.levels_spec import is_file_of_levels, load_hierarchy

    for text in dict.fromkeys(texts):
        for policy in dict.fromkeys(policies or ("lru",)):
            for inclusion in dict.fromkeys(inclusions or (None,)):
                what = f"levels {text} of {machine.name}"
                try:
                    found = load_hierarchy(text, machine, default_policy=policy)
                    found = changed(found, decode_bytes_per_s=decode_bytes_per_s, inclusion=inclusion)
                    if write_back:
                        check_write_back(found)
                    yield what, found
                except UnknownName:
                    raise
                except UsageError as error:
                    if isinstance(error.__cause__, UnknownName) or is_file_of_levels(text):
                        raise
                    yield what, str(error)


def of_point(point: Any) -> Hierarchy:
    """The levels of a point: its own, or its cache over its tier."""
    if point.hierarchy is not None:
        found: Hierarchy = point.hierarchy
        return found
    return cache_over(point.cache, point.tier, point.tier.name, point.decode_bytes_per_s)


def level_rows(program: Any, point: Any) -> tuple[dict[str, Any], list[str]]:
    """The row of a point, in the names of a sweep's results, and its warnings.

    Args:   program: priced, a `ClusterProgram` or a `TogetherProgram`.
    """
    from penstock.simulation.memory.levels_study import simulate_levels

    tenants = program.tenants if isinstance(program, TogetherProgram) else None
    ahead = point.prefetch or Prefetch()
    rows, warnings = simulate_levels(
        program.priced, program.machine, [of_point(point)], modes=(point.mode,), prefetches=(ahead,), tenants=tenants,
        write_back=point.write_back,
    )  # fmt: skip
    made = rows[0]
    levels = made.pop("levels")
    together = made.pop("tenants", None)
    if point.hierarchy is None:
        made.update(tier=point.tier.name, policy=getattr(point.cache, "policy", "forced"))
    return {
        **made,
        **ON_HOST,
        "programs": 1 if tenants is None else len(tenants.names),
        "written_bytes": made.get("written_bytes"),
        "speedup": 1.0,
        "sent_bytes": 0.0,
        "loaded_bytes": made["io_bytes"],
        "levels": None if point.hierarchy is None else json.dumps(levels),
        "tenants": None if together is None else json.dumps(together),
    }, warnings
