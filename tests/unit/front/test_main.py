"""What the command line says of errors that no verb expects."""

from __future__ import annotations

import difflib
import errno
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.base.system import limits
from penstock.errors import UnknownName
from penstock.lab.measure import events

module = importlib.import_module("penstock.front.cli.main")


@pytest.mark.parametrize(
    ("number", "said", "remedy"),
    [
        (errno.ENOSPC, "the disk is full", "free some space"),
        (errno.EACCES, "permission denied", "write to a folder that you own"),
        (errno.EMFILE, "Too many open files", "look at the path"),
    ],
)
def test_an_error_of_the_system_is_named_with_its_own_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, said: str, remedy: str
) -> None:
    def refused(**_: object) -> None:
        raise OSError(number, os.strerror(number), "/data/keys")

    monkeypatch.setattr(module.cli, "main", refused)
    assert module.main(["params", "list"]) == 1
    message = capsys.readouterr().err
    assert message.startswith("penstock: cannot use /data/keys: ")
    assert said in message
    assert remedy in message
    assert ("free some space" in message) == (number == errno.ENOSPC)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError("std::bad_alloc"), "out of memory (std::bad_alloc)"),
        (pa.ArrowMemoryError("malloc of size 64 failed"), "out of memory (malloc of size 64 failed)"),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "out of memory ("),
        (RuntimeError("can't start new thread"), "out of memory or threads (can't start new thread)"),
        (ImportError("x.so: failed to map segment from shared object"), "out of memory for a library ("),
    ],
)
@pytest.mark.parametrize("limit", [None, 400_000_000])
def test_a_lack_of_memory_is_no_internal_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, said: str, limit: int | None
) -> None:
    monkeypatch.setattr(module.cli, "main", _raising(error))
    monkeypatch.setattr(limits, "address_limit", lambda: limit)
    monkeypatch.setattr(module, "keep_within_limit", lambda: None)
    assert module.main(["params", "list"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"penstock: {said}")
    assert line.endswith(
        "free some memory, or take a smaller program or fewer threads"
        if limit is None
        else "'ulimit -v' allows this process 400 MB (381.5 MiB): raise it, or take a smaller program"
    )


def test_a_panic_of_the_engine_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    panic = type("PanicException", (BaseException,), {})
    monkeypatch.setattr(module.cli, "main", _raising(panic("an index")))
    assert module.main(["params", "list"]) == 1
    assert capsys.readouterr().err.startswith("penstock: internal error: PanicException: an index; ")
    monkeypatch.setattr(module.cli, "main", _raising(SystemExit(7)))
    with pytest.raises(SystemExit):
        module.main(["params", "list"])


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("click.utils", "cannot use standard output: the disk is full"),
        ("rich.console", "cannot use standard output: the disk is full"),
        ("multiprocessing.synchronize", "processes cannot share semaphores (No space left on device): /dev/shm"),
        ("socket", "the system refused what socket asked for: No space left on device;"),
    ],
)
def test_an_error_without_a_path_names_the_part_of_the_system_that_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], where: str, said: str
) -> None:
    space: dict[str, Any] = {"__name__": where}
    exec("def refused(**_):\n    raise OSError(28, 'No space left on device')", space)
    monkeypatch.setattr(module.cli, "main", space["refused"])
    assert module.main(["params", "list"]) == 1
    assert capsys.readouterr().err.startswith(f"penstock: {said}")


def test_a_full_device_is_the_standard_output() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from penstock.front.cli import main; raise SystemExit(main(['params', 'list']))"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("penstock: cannot use standard output: the disk is full")


def _raising(error: BaseException) -> Callable[..., None]:
    def raises(*_: object, **__: object) -> None:
        raise error

    return raises


def test_a_very_long_unknown_name_is_refused_at_once_and_cut() -> None:
    started = time.perf_counter()
    error = UnknownName("primitive", "x" * 70_000, ["x" * 30_000, "mult"])
    assert time.perf_counter() - started < 0.5
    assert error.nearest is None
    assert "(70000 characters)" in str(error)
    assert "x" * 201 not in str(error)


@pytest.mark.parametrize("when", ["keep_within_limit", "_ended"])
def test_an_interrupt_ahead_of_the_command_or_behind_it_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], when: str
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, when, interrupt)
    assert module.main(["params", "list"]) == 130
    assert capsys.readouterr().err == "penstock: interrupted\n"


@pytest.mark.timeout(0)  # whose own timer would be the alarm that is in use already
def test_an_interrupt_where_python_ignores_errors_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Ending:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    def work(**_: object) -> None:
        Ending()
        for _ in range(2000):
            time.sleep(0.001)

    handler = signal.getsignal(signal.SIGALRM)
    monkeypatch.setattr(module.cli, "main", work)
    assert module.main(["params", "list"]) == 130
    assert capsys.readouterr().err == "penstock: interrupted\n"
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_interrupt_while_the_interpreter_ends_shows_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "argv", ["penstock", "--version"])
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        assert module.main(["--version"]) == 0  # a caller goes on
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert module.main() == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        module.main()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_error_does_not_steer_the_terminal(tmp_path, capsys):
    """A name, or a server's answer, may hold what clears a screen or writes from right to left."""
    name = "\x1b[2Jkeys\u202e\r\x9b1m"
    assert module.main(["trace", "info", str(tmp_path / name)]) != 0
    said = capsys.readouterr().err
    assert "\\x1b[2Jkeys\\u202e\\r\\x9b1m" in said
    assert not {"\x1b", "\u202e", "\r", "\x9b"} & set(said)


def test_nothing_is_looked_for_that_is_close_to_a_very_long_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difflib, "get_close_matches", _raising(AssertionError("looked for")))
    assert events.nearest("x" * 70_000) is None
    assert len(str(events.unknown_event("x" * 70_000))) < 500


@pytest.mark.parametrize(
    "words", [["keys", "study", "cnn"], ["keys", "bench"], ["run", "cnn"], ["predict", "run", "cnn"]]
)
def test_more_threads_than_any_machine_has_are_refused(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert module.main([*words, "--threads", "9" * 20]) == 2
    assert "1<=x<=4096" in capsys.readouterr().err
