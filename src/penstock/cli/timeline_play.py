"""`--timeline` of `penstock simulate`: plays the one point asked for once more, and writes when what happens."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import click
import numpy as np

from penstock.cli.output import progress_console
from penstock.errors import UsageError
from penstock.simulation.memory.prefetch import Prefetch
from penstock.system.files import check_target
from penstock.traces.perfetto import DEFAULT_EVENTS, check_timeline_path, write_timeline

if TYPE_CHECKING:
    from penstock.cli.cluster_options import Hosts
    from penstock.machines import Machine, Tier
    from penstock.params.ckks import KeyForm
    from penstock.simulation.caches import Cache
    from penstock.simulation.memory.levels import Hierarchy
    from penstock.simulation.price import PricedTrace
    from penstock.traces.schema import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A timeline that the command line asks for."""

    path: Path
    max_events: int
    force: bool

    def check(self, *, alone: bool, **axes: Sequence[Any]) -> None:
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

    @click.option("--timeline", "timeline_path", type=click.Path(path_type=Path), metavar="FILE",
                  help="Write when each unit and channel is busy, for ui.perfetto.dev (.json, .json.gz).")  # fmt: skip
    @click.option("--timeline-events", type=click.IntRange(min=1), default=DEFAULT_EVENTS, show_default=True,
                  help="Events of --timeline at most; whole operations, from the start.")  # fmt: skip
    @functools.wraps(command)
    def wrapped(*arguments: Any, timeline_path: Path | None, timeline_events: int, force: bool, **rest: Any) -> Any:
        wanted = None
        if timeline_path is not None:
            wanted = Wanted(path=timeline_path, max_events=timeline_events, force=force)
        return command(*arguments, timeline=wanted, force=force, **rest)

    return wrapped


def draw_point(
    wanted: Wanted,
    trace: Trace,
    machine: Machine,
    priced: PricedTrace,
    *,
    tier: Tier,
    cache: Cache | None,
    mode: str,
    ahead: Prefetch,
    decode_bytes_per_s: float | None,
    hierarchy: Hierarchy | None,
    hosts: Hosts,
    key_form: KeyForm | None,
) -> None:
    """Write the timeline of one point: over a tier, over levels, or of the busiest host of a cluster.

    Raises: UsageError: the mode, or the partition, puts no operation at a time.
    """
    from penstock.simulation.caches import ForcedHitRatio
    from penstock.simulation.memory.hierarchy import play_replay, replay
    from penstock.simulation.memory.levels_replay import replay_levels
    from penstock.simulation.memory.levels_study import TEMPORARY
    from penstock.simulation.memory.levels_time import play_levels
    from penstock.simulation.price import ACCESS_CLASSES
    from penstock.simulation.timelines import level_channels, simulated_timeline, tier_channels

    if mode == "bound":
        raise UsageError(
            "--mode bound takes the largest of sums and puts no operation at a time; use serial or overlap"
        )
    timed = cast(Literal["serial", "overlap"], mode)
    accesses = priced.accesses
    exchange_s = missed = None
    facts: dict[str, Any] = {"mode": mode}
    if hierarchy is not None:
        loaded = replay_levels(
            accesses, hierarchy, access_class=priced.access_class, class_names=ACCESS_CLASSES, temporary=TEMPORARY
        )
        played = play_levels(
            priced.compute_s, loaded, mode=timed, prefetch_depth=ahead.depth, prefetch_buffer_bytes=ahead.buffer_bytes,
            timeline=True,
        )  # fmt: skip
        channels, start_s, end_s = level_channels(played)
        facts |= {"tier": hierarchy.name, "total_s": played.total_s}
    else:
        seconds = priced.compute_s
        if not hosts.single:
            seconds, exchange_s, accesses = _on_cluster(trace, machine, priced, hosts, key_form)
            facts |= {"hosts": hosts.counts[0], "shown": "the host with most work; the others wait for it"}
        exact = cache is not None and not isinstance(cache, ForcedHitRatio)
        whole = replay(accesses, cache or ForcedHitRatio(0.0), detail=exact)
        missed = whole.access_miss_bytes
        over = play_replay(
            seconds, whole, tier, mode=timed, decode_bytes_per_s=decode_bytes_per_s, prefetch_depth=ahead.depth,
            prefetch_buffer_bytes=ahead.buffer_bytes, timeline=True,
        )  # fmt: skip
        if over.schedule is None:
            raise UsageError(f"time mode '{mode}' puts no operation at a time; use serial or overlap")
        channels = tier_channels(over.schedule, tier.name)
        start_s, end_s = over.schedule.compute_start_s, over.schedule.compute_end_s
        facts |= {"tier": tier.name, "total_s": over.total_s}
    drawn = simulated_timeline(
        trace, priced, channels, start_s, end_s, exchange_s=exchange_s, access_miss_bytes=missed,
        max_events=wanted.max_events, **facts,
    )  # fmt: skip
    write_timeline(wanted.path, drawn, force=wanted.force)
    other = drawn["otherData"]
    left = other["operations_left_out"]
    note = f"; {left} later ones left out (--timeline-events)" if left else ""
    progress_console.print(
        f"timeline of {other['operations']} operations{note} written to {wanted.path}: open it at ui.perfetto.dev",
        highlight=False,
    )


def _on_cluster(
    trace: Trace, machine: Machine, priced: PricedTrace, hosts: Hosts, key_form: KeyForm | None
) -> tuple[Any, Any, Any]:
    """(n,) seconds of each operation on the busiest host with its messages, those of the messages, and its accesses."""
    from penstock.simulation.cluster.cluster import exchanges
    from penstock.simulation.cluster.partitions import Together, partition_named
    from penstock.simulation.cluster.program import prepare
    from penstock.simulation.cluster.shapes import dealt

    cluster = hosts.clusters()[0]
    partition = partition_named(cluster.partition)
    if not isinstance(partition, Together):
        raise UsageError(
            f"--timeline shows hosts that work on one operation together; partition '{cluster.partition}' gives each "
            "its own: use rplp, rplp-opposed, rplp-holders or by-digit"
        )
    program = prepare(trace, machine, key_form=key_form, classes=priced.classes, priced=priced)
    row = program.shapes.of_row
    exchange_s = np.ascontiguousarray(exchanges(program, partition, cluster).seconds[row])
    return (
        dealt(program, partition, cluster.hosts).compute_s[row] + exchange_s,
        exchange_s,
        program.accesses(partition, cluster.hosts),
    )
