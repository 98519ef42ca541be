"""`--timeline` of `penstock simulate`: plays the one point asked for once more, and writes when what happens."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import numpy as np

from penstock.cli.options import PATH
from penstock.cli.output import progress_console
from penstock.errors import UsageError
from penstock.machines import Inside, Machine
from penstock.simulation.caches import Cache, ForcedHitRatio
from penstock.simulation.memory.levels import Hierarchy
from penstock.system.files import check_target
from penstock.traces.perfetto import DEFAULT_EVENTS, check_timeline_path, write_timeline
from penstock.unpriced import refuse

if TYPE_CHECKING:
    from penstock.params.rlwe import KeyForm
    from penstock.simulation.cluster.program import ClusterProgram
    from penstock.simulation.cluster.spec import Cluster
    from penstock.simulation.play import Ready
    from penstock.simulation.points import Point
    from penstock.traces.schema import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A timeline that the command line asks for."""

    path: Path
    max_events: int
    force: bool

    def check(self, axes: Mapping[str, Sequence[Any]], *, alone: bool) -> None:
        """Raises UsageError where the options name more than one point, or another program; WouldOverwrite."""
        check_timeline_path(self.path)
        if not alone:
            raise UsageError(
                "--timeline draws one program at one point: leave --with, --write-back and --compare-policies out"
            )
        check_target(self.path, force=self.force)
        for name, values in axes.items():
            if len(values) > 1:
                raise UsageError(
                    f"--timeline draws one point, and --{name.replace('_', '-')} names {len(values)}: name one"
                )


def timeline_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--timeline` and `--timeline-events`; the command gets one argument `timeline`, a `Wanted` or `None`."""

    @click.option(
        "--timeline",
        "timeline_path",
        type=PATH,
        metavar="FILE",
        help="Write when each unit and channel is busy, for ui.perfetto.dev (.json, .json.gz).",
    )
    @click.option(
        "--timeline-events",
        type=click.IntRange(min=1),
        default=DEFAULT_EVENTS,
        help="Events of --timeline at most; whole operations, from the start.",
    )
    @functools.wraps(command)
    def wrapped(*arguments: Any, timeline_path: Path | None, timeline_events: int, force: bool, **rest: Any) -> Any:
        wanted = None
        if timeline_path is not None:
            wanted = Wanted(path=timeline_path, max_events=timeline_events, force=force)
        return command(*arguments, timeline=wanted, force=force, **rest)

    return wrapped


def draw_point(
    wanted: Wanted, trace: Trace, ready: Ready, point: Point, machine: Machine, key_form: KeyForm | None = None
) -> None:
    """Write the timeline of one point: over a tier, over levels, or of the busiest host of a cluster; of a machine with
    scheduled operations its kernels, every byte on chip.

    Raises: UsageError: the mode, or the partition, puts no operation at a time; an operation has no price.
    """
    from penstock.simulation.timelines import simulated_timeline

    refuse(ready.priced.unpriced, "--timeline puts each operation at its time")
    if machine.inside is Inside.SCHEDULE:
        from penstock.simulation.inside.timeline import kernel_timeline

        _write(wanted, kernel_timeline(trace, machine, key_form=key_form, max_events=wanted.max_events))
        return
    if point.mode == "bound":
        raise UsageError(
            "--mode bound takes the largest of sums and puts no operation at a time; use serial or overlap"
        )
    draw = _over_levels if isinstance(point.hold, Hierarchy) else _over_tier
    drawn = simulated_timeline(trace, ready.priced, max_events=wanted.max_events, mode=point.mode, **draw(ready, point))
    _write(wanted, drawn)


def _write(wanted: Wanted, drawn: dict[str, Any]) -> None:
    write_timeline(wanted.path, drawn, force=wanted.force)
    other = drawn["otherData"]
    left = other["operations_left_out"]
    note = f"; {left} later ones left out (--timeline-events)" if left else ""
    progress_console.print(
        f"timeline of {other['operations']} operations{note} written to {wanted.path}: open it at ui.perfetto.dev",
        highlight=False,
    )


def _over_levels(ready: Ready, point: Point) -> dict[str, Any]:
    """The level arguments of `simulated_timeline`."""
    from penstock.simulation.host import replayed, timed
    from penstock.simulation.timelines import level_channels

    played = timed(ready.priced, replayed(ready.priced, point.levels), point.pace, timeline=True)
    channels, start_s, end_s = level_channels(played)
    facts = {"tier": point.levels.name, "total_s": played.total_s}
    return {"channels": channels, "compute_start_s": start_s, "compute_end_s": end_s, **facts}


def _over_tier(ready: Ready, point: Point) -> dict[str, Any]:
    """The same of a cache and a tier, on one host or on the busiest of several."""
    from penstock.simulation.memory.replay import replay
    from penstock.simulation.points import tier_name
    from penstock.simulation.timelines import tier_channels
    from penstock.simulation.timing import play_pace

    cache, facts = cast(Cache, point.hold), dict[str, Any]()
    seconds, accesses = ready.priced.compute_s, ready.priced.accesses
    if point.cluster is not None and ready.on_hosts is not None:
        seconds, facts["exchange_s"], accesses = _on_cluster(ready.on_hosts, point.cluster)
        facts |= {"hosts": point.cluster.hosts, "shown": "the host with most work; the others wait for it"}
    whole = replay(accesses, cache, detail=not isinstance(cache, ForcedHitRatio))
    over = play_pace(seconds, whole, point.pace, timeline=True)
    if over.schedule is None:
        raise UsageError(f"time mode '{point.mode}' puts no operation at a time; use serial or overlap")
    name = tier_name(point.tier)
    return facts | {
        "channels": tier_channels(over.schedule, name, whole.operation_bytes),
        "compute_start_s": over.schedule.compute_start_s,
        "compute_end_s": over.schedule.compute_end_s,
        "accesses": accesses,
        "access_miss_bytes": whole.access_miss_bytes,
        "tier": name,
        "total_s": over.total_s,
    }


def _on_cluster(program: ClusterProgram, cluster: Cluster) -> tuple[Any, Any, Any]:
    """(n,) seconds of each operation on the busiest host including messages, the seconds of the messages, and its
    accesses."""
    from penstock.simulation.cluster.partitions import Together, partition_named
    from penstock.simulation.cluster.shapes import dealt, exchanges

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
