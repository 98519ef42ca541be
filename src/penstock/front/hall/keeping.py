"""A run that stays: its folder, as `penstock analyze` leaves one, without the simulations."""

from __future__ import annotations

from pathlib import Path

from penstock.base.runs.folder import RunFolder
from penstock.base.runs.record import DamagedRun
from penstock.base.types import Row, RowView
from penstock.errors import UsageError
from penstock.front.hall.programs import set_of
from penstock.front.hall.running import Ran, checked_numbers
from penstock.program import workloads
from penstock.program.running.measured import byte_rows, measured_rows, number_rows
from penstock.program.running.reading import resolve
from penstock.program.running.readings import READINGS
from penstock.scheme.traces.export import timeline
from penstock.scheme.traces.io import write_trace

VERB = "run"
MEASURED = "measured"
"""Stage of the measurements."""
_AGAIN = "run the same command again with --force, or name another folder"


def config_of(program: str, params: object, size: str | None, reading: str, command: str, options: RowView) -> Row:
    """The resolved configuration of a run, as its folder stores it.

    Args:   program, params, size, reading: as of `penstock.run`; command: stored with the run; options: what else tells
            this run from others.
    Raises: UnknownName; UsageError: as `penstock.program.running.reading.resolve`.
    """
    workload, size_name, checked = resolve(program, set_of(params), size)
    own = workloads.identity(program)
    given = {name: _plain(value) for name, value in options.items() if value not in (None, ())}
    return {
        "verb": VERB,
        **({} if own is None else {"program": own}),
        "workload": str(workload.NAME),
        "size": size_name,
        "params": checked.name,
        "reading": reading,
        **given,
        "parameters": checked.to_dict(),
        "command": command,
    }


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value.resolve())
    return list(value) if isinstance(value, tuple) else value


def keep(folder: RunFolder, ran: Ran) -> Row:
    """Store a run in its folder, with its report, and end it. The numbers that `penstock run` prints, and the paths.

    Raises: FileError: the disk.
    """
    from penstock.lab.reports.build import build_report

    measures = READINGS[ran.reading].keys
    if ran.trace is not None:
        write_trace(ran.trace, folder.trace_path, force=True)
        folder.note_artifact(folder.trace_path.name)
        folder.write_timeline(timeline(ran.trace))
    check = ran.check
    if check is not None:
        folder.update(check=checked_numbers(check) | {"rules": list(check.rules)})
    numbers = dict(ran.numbers)
    folder.update(params=ran.params.to_dict(), numbers=numbers, data=str(numbers.get("inputs", "")))
    if ran.trace is not None and not folder.has_stage("bytes"):
        folder.append_rows("bytes", byte_rows(ran.trace))
    if not folder.has_stage(MEASURED):
        rows = list(measured_rows(ran.trace)) if measures and ran.trace is not None else []
        folder.append_rows(MEASURED, [*rows, *number_rows(numbers)])
    folder.write_results()
    build_report(folder)
    folder.finish()
    return kept_numbers(folder)


def kept_numbers(folder: RunFolder) -> Row:
    """The numbers of a run that its folder holds, and where it lies.

    Raises: DamagedRun: they are gone.
    """
    numbers = folder.record.get("numbers")
    if not isinstance(numbers, dict) or not folder.has_stage(MEASURED):
        raise DamagedRun(f"{folder.path}: its measurements are damaged or gone; {_AGAIN}")
    return {**numbers, "run_folder": str(folder.path), "report": str(folder.report_path)}


class Keeper:
    """The folder of one run, checked before the run; nothing is written until it has run.

    Args:   config: of `config_of`.
    Raises: DifferentRun: the folder holds another run, and not `force`.
    """

    def __init__(self, path: Path, config: Row, *, force: bool) -> None:
        self._path, self._config, self._force = path, config, force
        self._opened: RunFolder | None = None
        if path.exists():
            self._opened = RunFolder.open_or_resume(path, config, force=force)

    def done_before(self, wanted: RowView) -> Row | None:
        """The numbers of this run where its folder is complete; `None`: it has to run.

        Args:   wanted: option -> its file, which a run would write.
        Raises: UsageError: such a file is asked for; DamagedRun: the folder's numbers are gone.
        """
        if self._opened is None or not self._opened.complete:
            return None
        asked = [option for option, value in wanted.items() if value]
        if asked:
            raise UsageError(
                f"{self._path} holds this run already, complete, and {asked[0]} asks for what only a run writes: add "
                "--force to run again, or name another folder"
            )
        return kept_numbers(self._opened)

    def keep(self, ran: Ran) -> Row:
        """Store a run. Returns: the numbers to print."""
        folder = self._opened or RunFolder.open_or_resume(self._path, self._config, force=self._force)
        with folder:
            return keep(folder, ran)

    def close(self) -> None:
        """Give the folder free, where nothing was kept."""
        if self._opened is not None:
            self._opened.close()
