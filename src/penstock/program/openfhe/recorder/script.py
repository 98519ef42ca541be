"""Runs a user's script unchanged, with every CKKS context that it makes recorded."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import NoReturn

from penstock.base.system.probe import try_openfhe
from penstock.base.system.remedy import install
from penstock.errors import CapabilityMissing, UsageError
from penstock.program.openfhe.recorder.packaging import SinkMaker
from penstock.program.openfhe.recorder.packagings import Packagings
from penstock.program.openfhe.recorder.parameters import NotRecordable
from penstock.program.openfhe.recorder.recording import Recording
from penstock.program.openfhe.recorder.tap import TAP

INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """The end of a script, and its recording."""

    exit_code: int
    recordings: list[Recording]
    """One for each context that executed operations, in the order in which they were met."""
    refused: list[NotRecordable] = field(default_factory=list)
    shown: str = ""
    """The script's own traceback, or the words that it exited with; empty where it ended well."""

    @property
    def packagings(self) -> list[Packagings]:
        """Of the recordings that make packages."""
        return [made.packaging for made in self.recordings if isinstance(made.packaging, Packagings)]


def run_script(
    script: Path,
    args: Sequence[str] = (),
    *,
    on_refused: Callable[[NotRecordable], None] | None = None,
    sinks: SinkMaker | None = None,
    other_inputs: bool = False,
) -> ScriptRun:
    """Run `script` as `python script args` would, and record it. Its standard output is its own.

    A script that raises, exits or is interrupted ends the run, not the recording: what ran before is kept.

    Args:   on_refused: called at once for a context that is not recorded; it works on unrecorded.
            sinks: makes, for each context that has constants, what takes them: its recording's `packaging` makes a
            package. Without it no values are kept.
            other_inputs: `Encrypt` encrypts other values of the same kind than the script gives.
    Raises: UsageError: no such script. CapabilityMissing: OpenFHE cannot be imported here.
    """
    _check_script(script)
    _check_openfhe()
    refused: list[NotRecordable] = []

    def refuse(error: NotRecordable) -> None:
        refused.append(error)
        if on_refused is not None:
            on_refused(error)

    TAP.workload, TAP.on_refused = script.stem, refuse
    TAP.everything, TAP.sinks, TAP.other_inputs = True, sinks, other_inputs
    try:
        with _opened_at_import(), _as_main(script, args):
            process = os.getpid()
            code, shown, reason = _outcome(script)
            if os.getpid() != process:
                _end_child(code, shown)
        # A context that was written and read again is there twice.
        met = dict.fromkeys(r for r in TAP.recordings.values() if r is not None)
        recordings = [r for r in met if r.num_operations]
    finally:
        TAP.close()
    for recording in recordings:
        recording.ended = reason
    return ScriptRun(code, recordings, refused, shown)


def _check_script(script: Path) -> None:
    if script.is_dir():
        raise UsageError(f"{script} is a folder: name a Python script")
    if not script.exists():
        near = sorted(p.name for p in script.parent.glob("*.py"))[:5] if script.parent.is_dir() else []
        hint = f"Python scripts there: {', '.join(near)}" if near else "check the path"
        raise UsageError(f"no script {script}: {hint}")
    if not os.access(script, os.R_OK):
        raise UsageError(f"{script} cannot be read: change its permissions")


def _check_openfhe() -> None:
    if "openfhe" not in sys.modules and importlib.util.find_spec("openfhe") is None:
        raise _openfhe_missing()


def _openfhe_missing() -> CapabilityMissing:
    outcome = try_openfhe(sys.executable)
    reason = outcome.reason or "the import failed"
    remedy = outcome.remedy or f"{install('openfhe', anew=True)} installs it anew"
    return CapabilityMissing(
        f"OpenFHE cannot be imported by {sys.executable}: {reason}; {remedy}. 'penstock doctor' tells more"
    )


def _of_openfhe(error: ImportError) -> bool:
    """Whether OpenFHE could not be imported: it is named, or its own files raised."""
    frames = traceback.extract_tb(error.__traceback__)
    raised_in = Path(frames[-1].filename) if frames else Path()
    return (error.name or "").startswith("openfhe") or raised_in.stem == "openfhe" or "openfhe" in raised_in.parts


def _outcome(script: Path) -> tuple[int, str, str]:
    """Run it; return the exit code of `python`, the output, and a short form of both for the notes."""
    others = set(threading.enumerate())
    try:
        runpy.run_path(str(script), run_name="__main__")
        _join_threads(others)
    except SystemExit as error:
        _join_threads(others)
        if error.code is None or isinstance(error.code, int):
            code = int(error.code or 0)
            return code, "", f"exit code {code}" if code else ""
        return 1, f"{error.code}\n", f"exit with '{error.code}'"
    except KeyboardInterrupt:
        return INTERRUPTED, "interrupted\n", "interrupted"
    except BaseException as error:
        # Once it is loaded an import error is the script's own: a name that OpenFHE does not have.
        if isinstance(error, ImportError) and _of_openfhe(error) and not TAP.is_open:
            raise _openfhe_missing() from error
        reason = (str(error).splitlines() or [""])[0]
        return 1, own_traceback(error, script), f"{type(error).__name__}: {reason}"
    return 0, "", ""


def _end_child(code: int, shown: str) -> NoReturn:
    """A process that the script forked has come to the script's end: the trace is its parent's to write."""
    sys.stderr.write(shown)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _join_threads(others: Set[threading.Thread]) -> None:
    """Threads that the script leaves running still compute: the interpreter waits for them, and so does the trace.

    `others` were there before, and are not the script's: they may never end.
    """
    for thread in threading.enumerate():
        if thread not in others and not thread.daemon:
            thread.join()


def own_traceback(error: BaseException, script: Path) -> str:
    """The traceback as the script's author knows it: without the frames of the recorder and of what started it."""
    own = Path(__file__).parent
    frames = _from_script(error.__traceback__, str(script))
    if frames is None:
        return "".join(traceback.format_exception_only(type(error), error))
    shown = traceback.TracebackException(type(error), error, frames)
    part: traceback.TracebackException | None = shown
    while part is not None:
        part.stack = traceback.StackSummary.from_list([f for f in part.stack if Path(f.filename).parent != own])
        part = part.__cause__ or part.__context__
    return "".join(shown.format())


def _from_script(frames: TracebackType | None, script: str) -> TracebackType | None:
    start = frames
    while start is not None and start.tb_frame.f_code.co_filename != script:
        start = start.tb_next
    return start


@contextmanager
def _as_main(script: Path, args: Sequence[str]) -> Iterator[None]:
    """`sys.argv` and the first entry of `sys.path` as `python script args` sets them."""
    argv, path = sys.argv, sys.path[:]
    sys.argv = [str(script), *args]
    sys.path[0] = str(script.resolve().parent)
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path
        sys.stdout.flush()


class _Loader(importlib.abc.Loader):
    """Loads OpenFHE as its own loader does, then opens the tap."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        TAP.open(module)


class _OpenFheFinder(importlib.abc.MetaPathFinder):
    """Meets the script's first `import openfhe`: the library sees the environment as the script has set it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "openfhe":
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


@contextmanager
def _opened_at_import() -> Iterator[None]:
    """The tap opens as soon as OpenFHE is there: now, or when the script imports it."""
    loaded = sys.modules.get("openfhe")
    if loaded is not None:
        TAP.open(loaded)
        yield
        return
    finder = _OpenFheFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
