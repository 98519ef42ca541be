"""`penstock.sweep`: many simulated points, from a file or from axes, resumable in a run folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.hall.arguments import names_arguments
from penstock.hall.simulating import Simulation, shown_of
from penstock.runs.folder import RunFolder
from penstock.sweeps.plan import plan
from penstock.sweeps.points import no_point
from penstock.sweeps.run import config_of, run_sweep
from penstock.sweeps.spec import SweepSpec, load_sweep, sweep_of
from penstock.sweeps.store import read_results, unpacked
from penstock.system.progress import Progress


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Swept(Simulation):
    """Every point of a sweep."""

    folder: Path
    """The run folder: results.parquet, and the files for a report."""
    skipped: tuple[str, ...] = ()
    """Combinations that cannot be, with the reason and their number."""


@names_arguments
def sweep(
    axes: str | Path | Mapping[str, Any],
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
    return swept(spec, output=output, workers=workers, scheduler=scheduler, force=force, quiet=quiet)


def swept(
    spec: SweepSpec,
    *,
    output: str | Path | None,
    workers: int | None,
    scheduler: str | None,
    force: bool,
    quiet: bool,
) -> Swept:
    """A checked sweep, played or read back."""
    planned = plan(spec)
    config = config_of(spec, planned)
    name = f"sweep-{planned.name}"
    unfinished = None if force or output is not None else RunFolder.find_unfinished(name, config)
    path = Path(output) if output is not None else unfinished or RunFolder.default_path(name)
    folder = RunFolder.open_or_resume(path, config, force=force)
    if not (folder.complete and folder.has_results):
        with folder:
            run_sweep(planned, folder, workers=workers, scheduler=scheduler, progress=Progress(quiet=quiet))
    table = read_results(path)
    skipped = folder.record.get("skipped", [])
    if not table.num_rows:
        raise no_point(planned.name, Counter({(each["what"], each["why"]): each["points"] for each in skipped}))
    rows = unpacked(path, table)
    return Swept(
        rows=tuple(rows),
        title=f"sweep {planned.name}",
        provenance="simulated",
        warnings=tuple(f"{each['what']}; {each['remedy']}" for each in folder.warnings),
        shown=("workload", *shown_of(rows)),
        folder=path,
        skipped=tuple(f"{each['what']} ({each['points']} points): {each['why']}" for each in skipped),
    )
