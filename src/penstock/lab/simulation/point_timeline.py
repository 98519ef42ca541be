"""The timeline of one simulated point."""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.base.arrays import Floats
from penstock.base.types import Row
from penstock.errors import UsageError
from penstock.lab.simulation.cluster.partitions import Together, partition_named
from penstock.lab.simulation.cluster.program import ClusterProgram
from penstock.lab.simulation.cluster.shapes import dealt, exchanges
from penstock.lab.simulation.cluster.spec import Cluster
from penstock.lab.simulation.inside.timeline import kernel_timeline
from penstock.lab.simulation.memory.levels import Hierarchy
from penstock.lab.simulation.memory.levels_time import play_levels
from penstock.lab.simulation.play import Ready, level_loads
from penstock.lab.simulation.question import Point
from penstock.lab.simulation.timelines import simulated_timeline
from penstock.scheme.machines import InsideModel, Machine
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import Cache, ForcedHitRatio
from penstock.scheme.play.hierarchy import play_many, replay, tier_name
from penstock.scheme.traces.schema import Trace
from penstock.scheme.unpriced import refuse


def point_timeline(
    trace: Trace, ready: Ready, point: Point, machine: Machine, *, key_form: KeyForm | None, max_events: int
) -> Row:
    """One point as a timeline for Perfetto: over a tier, over levels, or of the busiest host of a cluster; of a machine
    with scheduled operations its kernels, every byte on chip.

    Args:   max_events: whole operations, from the start.
    Raises: UsageError: the mode, or the partition, puts no operation at a time; an operation has no price.
    """
    refuse(ready.priced.unpriced, "--timeline puts each operation at its time")
    if machine.inside is InsideModel.SCHEDULE:
        return kernel_timeline(trace, machine, key_form=key_form, max_events=max_events)
    if point.mode == "bound":
        raise UsageError(
            "--mode bound takes the largest of sums and puts no operation at a time; use serial or overlap"
        )
    draw = _over_levels if isinstance(point.hold, Hierarchy) else _over_tier
    return simulated_timeline(trace, ready.priced, max_events=max_events, mode=point.mode, **draw(ready, point))


def _over_levels(ready: Ready, point: Point) -> Row:
    """The level arguments of `simulated_timeline`."""
    loads = level_loads(ready.priced, point.levels)
    played = play_levels(ready.priced.compute_s, loads, mode=point.mode, prefetch=point.prefetch, timeline=True)
    return {"stages": played.stages, "tier": point.levels.name, "total_s": played.total_s}


def _over_tier(ready: Ready, point: Point) -> Row:
    """The same of a cache and a tier, on one host or on the busiest of several."""
    cache, facts = cast(Cache, point.hold), Row()
    seconds, accesses = ready.priced.compute_s, ready.priced.accesses
    if point.cluster is not None:
        seconds, facts["exchange_s"], accesses = _on_cluster(cast(ClusterProgram, ready), point.cluster)
        facts |= {"hosts": point.cluster.hosts, "shown": "the host with most work; the others wait for it"}
    whole = replay(accesses, cache, detail=not isinstance(cache, ForcedHitRatio))
    (over,) = play_many(seconds, whole, [point], timeline=True)
    return facts | {
        "stages": over.stages,
        "accesses": accesses,
        "access_miss_bytes": whole.access_miss_bytes,
        "tier": tier_name(point.tier),
        "total_s": over.total_s,
    }


def _on_cluster(program: ClusterProgram, cluster: Cluster) -> tuple[Floats, Floats, Accesses]:
    """(n,) seconds of each operation on the busiest host including messages, the seconds of the messages, and its
    accesses."""
    partition = partition_named(cluster.partition)
    if not isinstance(partition, Together):
        raise UsageError(
            f"--timeline shows hosts that work on one operation together; partition '{cluster.partition}' gives each "
            "its own: use rplp, rplp-opposed, rplp-holders or by-digit"
        )
    row = program.shapes.of_row
    exchange_s = np.ascontiguousarray(exchanges(program, partition, cluster).seconds[row])
    return (
        dealt(program, partition, cluster.hosts).compute_s[row] + exchange_s,
        exchange_s,
        program.accesses(partition, cluster.hosts),
    )
