"""`penstock` in forks of a process that has loaded it: as one that a shell starts, without half a second of imports."""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol


class Loaded:
    """The process. A command ends as an interpreter does: threads are joined, and what is registered for it runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(
        self, *words: str, cwd: Path, environment: dict[str, str] | None = None, seconds: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """`penstock words…` with nothing on its standard input. `environment`: added to this process's own."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            said = [str(Path(folder, name)) for name in ("out", "err")]
            asked = [words, str(cwd), {**os.environ, **(environment or {})}, said, seconds]
            print(json.dumps(asked), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
            assert answer, "the process that forks has ended"
            code = json.loads(answer)
            out, err = (Path(name).read_text(encoding="utf-8") for name in said)
        assert code is not None, f"penstock {' '.join(words)} did not end within {seconds:g} s: {err}"
        return subprocess.CompletedProcess(["penstock", *words], code, out, err)


@contextmanager
def loaded(*modules: str) -> Iterator[Loaded]:
    """A process with these modules of penstock."""
    command = [sys.executable, __file__, *modules]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Loaded(process)


class Record(Protocol):
    def __call__(self, script: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]: ...


@contextmanager
def loaded_record() -> Iterator[Record]:
    """`penstock record` in forks of a process that has loaded it, and not OpenFHE."""
    with loaded("penstock.front.cli.verbs.record") as command:

        def record(script: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
            return command.run("record", str(script), *arguments, cwd=cwd)

        yield record


def _serve(modules: Sequence[str]) -> int:
    for name in modules:
        importlib.import_module(name)
    for line in sys.stdin:
        words, cwd, environment, said, seconds = json.loads(line)
        child = os.fork()
        if child == 0:
            return _command(words, cwd, environment, said)
        print(json.dumps(_ended(child, seconds)), flush=True)
    return 0


def _command(words: list[str], cwd: str, environment: dict[str, str], said: list[str]) -> int:
    """In the child: what an interpreter that was started for this command would have."""
    from penstock.front.cli.main import main

    for number, name in enumerate((os.devnull, *said)):
        opened = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv, sys.path[0] = ["-c", *words], ""
    return main()


def _ended(child: int, seconds: float) -> int | None:
    """The exit code of a child, as `subprocess` gives it; `None`: it hung, and was killed."""
    watch = os.pidfd_open(child)
    try:
        ready = bool(select.select([watch], [], [], seconds)[0])
    finally:
        os.close(watch)
    if not ready:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if ready else None


if __name__ == "__main__":
    sys.exit(_serve(sys.argv[1:]))
