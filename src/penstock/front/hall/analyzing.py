"""The main job in its run folder, as `penstock analyze` does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from penstock.base.runs.folder import RunFolder
from penstock.base.runs.record import DamagedRun
from penstock.base.system.progress import Progress
from penstock.base.types import Row
from penstock.lab.analysis import AnalysisRequest, analyze, describe, headline
from penstock.lab.reports.build import build_report
from penstock.runtime.native.client import require_library
from penstock.scheme.traces.io import read_trace


def analyzed(
    request: AnalysisRequest, command: str, output: Path | None, *, force: bool, quiet: bool, tell: Callable[..., None]
) -> Row:
    """Analyze, resume an interrupted run, or read a complete one back; with the report.

    Args:   command: stored with the run; output: its folder (default: an unfinished one of the same request, or a new
            one); tell(line, quiet): gets a line for the user.
    Returns: the headline numbers. A failed check is among them (`passed`).
    Raises: DifferentRun: the folder holds another run, and not `force`; DamagedRun; as `analyze`.
    """
    config = request.config(command)
    path = output or RunFolder.find_unfinished(request.name, config) or RunFolder.default_path(request.name)
    if not path.exists():
        # A run that cannot start leaves no folder behind.
        require_library(request.reading, request.client_library)
        describe(request)
    progress = Progress(quiet=quiet)
    with RunFolder.open_or_resume(path, config, force=force) as run:
        if run.complete:
            return _kept(run, quiet=quiet, tell=tell)
        try:
            numbers = analyze(run, request, progress)
        except KeyboardInterrupt:
            tell(f"interrupted; {path} keeps what is done, and the same command resumes", quiet=quiet)
            raise
        run.write_results()
        with progress.stage("report"):
            build_report(run)
        run.finish()
    return numbers


def _kept(run: RunFolder, *, quiet: bool, tell: Callable[..., None]) -> Row:
    """The numbers of a complete run."""
    if not run.has_stage("measured"):
        raise DamagedRun(
            f"{run.path}/stages/measured.parquet, what was measured, is damaged or gone; run the same command again "
            "with --force, or name another folder"
        )
    run.check_artifact(run.trace_path.name)
    numbers = headline(run, read_trace(run.trace_path))
    tell(f"{run.path} is complete already; --force runs it again", quiet=quiet)
    for text in run.damage():
        tell(text)
    return numbers
