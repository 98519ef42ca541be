"""`penstock.sweep`: many simulated points, from a file or from axes, resumable in a run folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.base.runs.folder import RunFolder
from penstock.base.system.progress import Progress
from penstock.base.types import RowView
from penstock.front.hall.arguments import names_arguments
from penstock.front.hall.simulating import Simulation, shown_of
from penstock.lab.sweeps.plan import plan
from penstock.lab.sweeps.points import Plan, no_point
from penstock.lab.sweeps.run import config_of, run_sweep
from penstock.lab.sweeps.spec import SweepSpec, load_sweep, sweep_of
from penstock.lab.sweeps.store import read_results, unpacked

SHOWN = 10
"""Reasons for skipped points, and programs, that are named."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Swept(Simulation):
    """Every point of a sweep."""

    folder: Path
    """The run folder: results.parquet, and the files for a report."""
    skipped: tuple[str, ...] = ()
    """Combinations that cannot be, with the reason and their number."""


@names_arguments
def sweep(
    axes: str | Path | RowView,
    *,
    output: str | Path | None = None,
    workers: int = 1,
    scheduler: str | None = None,
    force: bool = False,
    quiet: bool = True,
) -> Swept:
    """Play every combination of axes: workloads, parameters, machines, tiers, caches, clusters.

    Args:   axes: a TOML file as of `penstock sweep`, or its keys with one value or a list each:
            `{"workload": "inner-product", "machine": ["sharp", "ark"], "cache": ["1 GiB", "4 GiB"]}`; output: run
            folder (default: runs/<time>-sweep-<name>); workers: processes (a script that asks for several starts its
            work below `if __name__ == "__main__"`); scheduler: address of a Dask scheduler instead; force: replace an
            existing run; quiet: no progress on stderr.
    Returns: all rows. The same call on the same folder goes on where an interrupted one stopped.
    Raises: UnknownName, UsageError: a key or value that breaks a rule; UsageError: no combination can be.
    """
    spec = load_sweep(Path(axes)) if isinstance(axes, str | Path) else sweep_of(axes, "sweep", "axes")
    planned = plan(spec)
    path, table = played(spec, planned, output=output, workers=workers, scheduler=scheduler, force=force, quiet=quiet)
    folder = RunFolder.open(path)
    skipped = folder.record.get("skipped", [])
    rows = unpacked(path, table)
    return Swept(
        rows=tuple(rows),
        title=f"sweep {planned.name}",
        provenance="simulated",
        warnings=tuple(f"{warning['what']}; {warning['remedy']}" for warning in folder.warnings),
        shown=("workload", *shown_of(rows)),
        folder=path,
        skipped=tuple(
            f"{combination['what']} ({combination['points']} points): {combination['why']}" for combination in skipped
        ),
    )


def played(
    spec: SweepSpec,
    planned: Plan,
    *,
    output: str | Path | None,
    workers: int | None,
    scheduler: str | None,
    force: bool,
    quiet: bool,
    tell: Callable[[str], None] = lambda text: None,
) -> tuple[Path, pa.Table]:
    """Play a plan in its run folder, or go on with it, or read it back. Returns: the folder and its results.

    Args:   tell: gets a line on the folder, on stored and skipped points, and each warning.
    Raises: UsageError: no point can be.
    """
    config, name = config_of(spec, planned), f"sweep-{planned.name}"
    unfinished = None if force or output is not None else RunFolder.find_unfinished(name, config)
    path = Path(output) if output is not None else unfinished or RunFolder.default_path(name)
    folder = RunFolder.open_or_resume(path, config, force=force)
    tell(f"run folder: {path}")
    if folder.complete and folder.has_results:
        tell(f"complete: {planned.num_points} points are there already and were not repeated")
        skipped = Counter(
            {
                (combination["what"], combination["why"]): combination["points"]
                for combination in folder.record.get("skipped", [])
            }
        )
    else:
        with folder:
            try:
                outcome = run_sweep(
                    planned, folder, workers=workers, scheduler=scheduler, progress=Progress(quiet=quiet)
                )
            except KeyboardInterrupt:
                # None where a second interrupt came while they were written.
                stored = folder.has_results
                kept = f"{read_results(path).num_rows} of {planned.num_points} points are" if stored else None
                tell(f"interrupted: {kept or 'what is finished is'} kept; the same command goes on")
                raise
        skipped = outcome.skipped
        if outcome.resumed:
            tell(f"{outcome.resumed} points were stored already and were not repeated")
    for text in skipped_lines(skipped):
        tell(text)
    for warning in folder.warnings:
        tell(f"warning: {warning['what']}; {warning['remedy']}")
    results = read_results(path)
    if not results.num_rows:
        raise no_point(planned.name, skipped)
    return path, results


def skipped_lines(skipped: Counter[tuple[str, str]]) -> list[str]:
    """The reasons of skipped points, the most frequent first."""
    lines = [f"skipped: {what} ({count} points): {why}" for (what, why), count in skipped.most_common(SHOWN)]
    if len(skipped) > SHOWN:
        lines.append(f"skipped: {len(skipped) - SHOWN} more reasons, in run.json")
    return lines
