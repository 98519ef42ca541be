"""Recording from inside a program: `cc = penstock.record(cc)`."""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from penstock.base.system.files import WouldOverwrite, check_target
from penstock.errors import PenstockError, UsageError
from penstock.program.openfhe.evaluator import load_openfhe
from penstock.program.openfhe.recorder.packagings import Packagings
from penstock.program.openfhe.recorder.recording import Recording
from penstock.program.openfhe.recorder.refusals import NotPackaged
from penstock.program.openfhe.recorder.tap import TAP, script_name
from penstock.program.openfhe.types import CryptoContext
from penstock.program.package.content import ConstantsInMemory
from penstock.program.package.file import write_package
from penstock.scheme.traces.io import write_trace

# `concurrent.futures.thread` is imported above because Arrow imports pandas, where it is installed, which imports that
# module, and the interpreter refuses it while the program ends: the trace would be lost.
CC = TypeVar("CC")


@dataclass(slots=True)
class _Target:
    """The destination of a recording at the end of the program."""

    path: Path | None
    force: bool
    folder: Path
    """The destination of a trace without a path."""
    saved: int = 0
    """Operations that were saved explicitly, anywhere."""
    written: bool = False
    """Whether `path` holds this recording already, and so may be replaced by more of it."""


_targets: dict[int, tuple[Recording, _Target]] = {}
_process = 0


def record(cc: CC, path: str | os.PathLike[str] | None = None, *, force: bool = False, constants: bool = False) -> CC:
    """Record every operation of a CKKS CryptoContext from now on; the context itself is returned.

    The trace is written when the program ends, to `path` or, without one, to `<script>.trace.parquet` in the current
    folder (numbered if that exists); `cc.save_trace(path)` writes it at once. The program's results do not change.

    Args:   cc: an OpenFHE CryptoContext; path: of the trace file; force: replace an existing file;
            constants: keep the values of plaintext operands, which `cc.save_package(path)` needs.
    Raises: NotRecordable: a BGV or BFV context. WouldOverwrite: `path` exists and not `force`. FileError: it could not
            be written.
            CapabilityMissing: OpenFHE cannot be imported.
    """
    global _process
    target = _Target(None if path is None else Path(path).absolute(), force, Path.cwd())
    if target.path is not None:
        try:
            check_target(target.path, force=force)
        except WouldOverwrite as error:
            raise WouldOverwrite(target.path, "pass force=True to penstock.record()") from error
    if not TAP.is_open:
        TAP.workload = script_name()
    TAP.open(load_openfhe())
    try:
        recording = TAP.start(cc)
    except UsageError:
        TAP.stop(cc)
        raise
    TAP.add_method("save_trace", save_trace)
    TAP.add_method("save_package", save_package)
    if constants:
        TAP.keep_constants(recording, lambda number: ConstantsInMemory())
    if TAP.everything and path is None:
        return cc  # 'penstock record' writes it
    if not _targets:
        _process = os.getpid()
        atexit.register(_save_all)
    _targets[id(cc)] = (recording, target)
    return cc


def save_trace(cc: CryptoContext, path: str | os.PathLike[str] | None = None, *, force: bool = False) -> Path:
    """Write the recording of `cc` so far; the recording goes on. Without `path`: where `record` was told to.

    Raises: UsageError: `cc` is not recorded, or nobody named a path. WouldOverwrite: the file exists, not `force`.
    """
    recording = TAP.recordings.get(id(cc))
    if recording is None:
        raise UsageError("save_trace: this context is not recorded; call penstock.record(cc) first")
    _, target = _targets.get(id(cc), (recording, _Target(None, False, Path.cwd())))
    where = target.path if path is None else Path(path).absolute()
    if where is None:
        raise UsageError("save_trace: name a path, here or in penstock.record(cc, path)")
    own = where == target.path
    write_trace(recording.trace(), where, force=force or (own and (target.force or target.written)))
    target.saved, target.written = recording.num_operations, target.written or own
    return where


def save_package(cc: CryptoContext, path: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Write the program that `cc` has run so far as a package; the recording goes on.

    Raises: UsageError: `cc` is not recorded with its constants. NotPackaged: a call that a package cannot hold, with
            its line, or several key pairs. WouldOverwrite: the file exists, not `force`.
    """
    recording = TAP.recordings.get(id(cc))
    packagings = None if recording is None else recording.packaging
    if not isinstance(packagings, Packagings):
        raise UsageError(
            "save_package: the constants of this context are not kept; call penstock.record(cc, constants=True) first"
        )
    if packagings.refusals:
        raise packagings.refusals[0]
    if len(packagings.packages) != 1:
        raise NotPackaged(
            f"save_package: {len(packagings.packages)} key pairs encrypted in this context, and a package has one: "
            "take a script for each"
        )
    where = Path(path).absolute()
    write_package(packagings.packages[0].package(), where, force=force)
    return where


def stop(cc: CryptoContext) -> Recording | None:
    """End the recording of `cc` without writing it; OpenFHE's classes are put back with the last one."""
    recording, _ = _targets.pop(id(cc), (TAP.recordings.get(id(cc)), None))
    TAP.stop(cc)
    if not _targets:
        atexit.unregister(_save_all)
    return recording


@contextmanager
def recorded(cc: CryptoContext, *, constants: bool = False) -> Iterator[Recording]:
    """Record `cc` inside the block; afterwards `.trace()` has it. Nothing is written.

    With `constants` the values of plaintext operands are kept, and `.packaging` makes the package.
    """
    TAP.open(load_openfhe())
    already = id(cc) in TAP.recordings
    try:
        recording = TAP.start(cc)
        if constants:
            TAP.keep_constants(recording, lambda number: ConstantsInMemory())
        yield recording
    finally:
        if not already:
            TAP.stop(cc)


def _save_all() -> None:
    """At the end of the program: every recording that was not saved since its last operation."""
    if os.getpid() != _process:
        return
    for recording, target in list(_targets.values()):
        # Without a path, the trace that the program saved itself is the result.
        complete = (
            target.saved > 0 if target.path is None else target.written and recording.num_operations == target.saved
        )
        if recording.num_operations == 0 or complete:
            continue
        try:
            name = recording.workload.partition("#")[0]
            path = target.path or free_path(target.folder / f"{name}.trace.parquet")
            write_trace(recording.trace(), path, force=target.force or target.written)
            message = f"{recording.num_operations} operations recorded in {path}"
        except PenstockError as error:
            message = f"the recording is lost: {error}"
        print(f"penstock: {message}", file=sys.stderr)


def free_path(path: Path) -> Path:
    """`path`, or the first numbered one that does not exist: mine.trace.parquet, mine-2.trace.parquet, …"""
    stem, dot, suffixes = path.name.partition(".")
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{stem}-{number}{dot}{suffixes}")
    return free
