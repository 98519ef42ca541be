"""A sweep from its plan to its results: missing chunks are played anywhere and stored on arrival."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from penstock.base.runs.folder import RunFolder
from penstock.base.system.host import available_cores
from penstock.base.system.progress import Progress
from penstock.base.types import Row
from penstock.lab.simulation.cluster.simgrid import find_python
from penstock.lab.sweeps.local import OnPlayed, play_here, play_in_processes
from penstock.lab.sweeps.play import Played
from penstock.lab.sweeps.points import Chunk, Plan
from penstock.lab.sweeps.scheduler import play_on_cluster
from penstock.lab.sweeps.spec import SweepSpec
from penstock.lab.sweeps.store import ChunkStore
from penstock.scheme.machines import assumptions

MOST_WARNINGS = 50
MOST_SKIPPED = 1000
"""Reasons that `run.json` lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOutcome:
    """What one call did."""

    resumed: int
    """Points that were stored already."""
    played: int
    """Points that were played now."""
    num_rows: int
    skipped: Counter[tuple[str, str]]
    """Points of each (what, why) that cannot be."""


def config_of(sweep: SweepSpec, plan: Plan) -> Row:
    """What makes two sweeps the same: the configuration of their run folder."""
    written = [dict(table.written) for table in sweep.tables]
    return {
        "kind": "sweep", "name": plan.name, "sweep": written, "num_points": plan.num_points,
        "num_chunks": len(plan.chunks), "points_sha256": hashlib.sha256(plan.digest.encode()).hexdigest(),
    }  # fmt: skip


def run_sweep(
    plan: Plan,
    run: RunFolder,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> SweepOutcome:
    """Play every chunk that is not stored yet, and finish the folder.

    Args:   workers: processes on this machine (default: its cores); scheduler: address of a Dask scheduler instead.
    Raises: CapabilityMissing: points are SimGrid's, and it is not there: before anything is played; as
            `play_in_processes` and `play_on_cluster`. Whatever stops it, KeyboardInterrupt too, the finished chunks
            are kept and `results.parquet` holds their rows.
    """
    store = ChunkStore(run, plan)
    missing = store.missing
    if scheduler is None and plan.needs_simgrid and missing:
        find_python()
    total = plan.num_points
    to_play = sum(len(chunk.points) for chunk in missing)
    try:
        if missing:
            with (progress or Progress(quiet=True)).stage("playing points", to_play) as stage:

                def keep(played: Played) -> None:
                    store.put(played)
                    stage.advance(len(plan.chunks[played.index].points))

                _backend(store, workers, scheduler, len(missing))(missing, keep)
        rows = _finish(run, store, plan)
    except BaseException:
        if not run.complete:
            store.write_results()
        raise
    return SweepOutcome(resumed=total - to_play, played=to_play, num_rows=rows, skipped=store.skipped)


def _finish(run: RunFolder, store: ChunkStore, plan: Plan) -> int:
    """Write the rows, and their assumptions to `run.json`; return their number."""
    skipped = store.skipped
    listed = [{"what": what, "why": why, "points": count} for (what, why), count in skipped.most_common(MOST_SKIPPED)]
    machines = {program.machine.name: program.machine for program in plan.programs}
    stated = [assumption for machine in machines.values() for assumption in assumptions(machine)]
    run.update(skipped=listed, num_skipped=sum(skipped.values()), assumptions=stated)
    for text in store.warnings[:MOST_WARNINGS]:
        what, _, remedy = text.rpartition("; ")
        run.warn(what or text, remedy if what else "see docs/guides/sweep.md")
    return store.finish()


def _backend(
    store: ChunkStore, workers: int | None, scheduler: str | None, chunks: int
) -> Callable[[list[Chunk], OnPlayed], None]:
    plan = store.plan
    if scheduler is not None:
        return lambda missing, keep: play_on_cluster(plan, missing, keep, address=scheduler)
    count = min(workers or available_cores(), chunks)
    if count == 1:
        return lambda missing, keep: play_here(plan, missing, keep)
    return lambda missing, keep: play_in_processes(plan, missing, keep, workers=count, scratch=store.folder)
