"""The results of jobs that are done: whole before the state says so, and synced soon after that."""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress
from pathlib import Path

from penstock.base.system.files import sync_all, sync_folder
from penstock.base.types import Row, RowView
from penstock.scheme.params.ckks import CkksParameters
from penstock.service.http.uploads import Files
from penstock.service.state.clock import boot_identity
from penstock.service.state.state import ServiceState
from penstock.service.state.tables import OPEN_STATES
from penstock.service.work.messages import HEADER_BYTES

_SYNCED, _BOOT = "results synced", "boot"
"""Words in the state: until when the results of done jobs are on the disk, and which start of the machine that was."""


class Results:
    """The folders of results of all tenants. Thread safe."""

    def __init__(self, state: ServiceState, files: Files) -> None:
        self._state, self._files, self._lock = state, files, threading.Lock()
        self._unsynced: list[Path] = []

    def done(self, row: Row) -> float:
        """A job is done; at which time. Its results are synced with the next ones."""
        with self._lock:
            self._unsynced.append(self._files.results(row["tenant"], row["job"]))
            return self._state.clock()

    def drop(self, row: Row) -> None:
        """Remove the results of a job."""
        shutil.rmtree(self._files.results(row["tenant"], row["job"]), ignore_errors=True)

    def sync(self) -> None:
        """Sync the results of the jobs that are done, and note the time up to which they are.

        Raises: OSError; Problem. Failed syncs are tried again.
        """
        with self._lock:
            folders, self._unsynced = self._unsynced, []
            upto = self._state.clock()
        if not folders:
            return
        try:
            # Some have expired, or their job was cancelled.
            sync_all(file for folder in folders for file in _inside(folder, set()))
            for folder in (*folders, *{folder.parent for folder in folders}):
                with suppress(FileNotFoundError):
                    sync_folder(folder)
            self._state.note(_SYNCED, repr(upto), soon=True)
        except BaseException:
            with self._lock:
                self._unsynced = [*folders, *self._unsynced]
            raise

    def recover(self) -> None:
        """Look after results of the last server that it may not have synced.

        They are there if the machine has run since, and are synced now. Else their jobs wait again.
        """
        boot, before = boot_identity(), self._state.noted(_BOOT)
        if before is None:  # no server was here that left results unsynced
            self._state.note(_BOOT, boot)
            return
        rows = self._state.done_since(float(self._state.noted(_SYNCED) or 0.0))
        if boot and boot == before:
            self._unsynced = [self._files.results(row["tenant"], row["job"]) for row in rows]
            return
        for row in rows:
            empty = {"ended_s": None, "figures": None, "outputs": None, "expires_s": None}
            self._state.move_job(row["job"], "queued", only=("done",), **empty)
        self._state.note(_BOOT, boot)


def file_of(number: int) -> str:
    """The name of an output's file: names of outputs are anything."""
    return f"{number:04}.ciphertext"


def predicted_output_bytes(description: RowView) -> int:
    """Bytes of all results of a job: by its examination, or at most fresh ciphertexts of an old one."""
    if "output_bytes" in description:
        return int(description["output_bytes"])
    params, outputs = CkksParameters.from_dict(description["params"]), len(description["outputs"])
    return outputs * (params.ciphertext_bytes(params.num_q) + HEADER_BYTES)


def sweep_files(files: Files, state: ServiceState) -> int:
    """Remove files without a row, which a kill has left, or which could not be removed before; how many."""
    gone = 0
    for folder in files.tenants.iterdir():
        tenant = folder.name
        for path in _inside(folder / "blobs", {row["sha256"] for row in state.blobs(tenant)}):
            with files.turn(path.name):
                if state.blob(tenant, path.name) is None:
                    gone += _is_removed(path)
        for path in _inside(folder / "uploads", {row["upload"] for row in state.uploads(tenant)}):
            if state.upload(tenant, path.stem) is None:
                gone += _is_removed(path)
        for path in _inside(folder / "results", set()):
            row = state.job(path.name)
            if row is None or row["state"] not in (*OPEN_STATES, "done"):
                gone += _is_removed(path)
    return gone


def _inside(folder: Path, known: set[str]) -> list[Path]:
    """What a folder holds besides names that are known."""
    try:
        return [path for path in folder.iterdir() if path.stem not in known]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_removed(path: Path) -> bool:
    """Whether a file or folder could be removed; the next sweep tries again."""
    try:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    except OSError:
        return False
    return True
