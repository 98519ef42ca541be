"""What the command line says of errors that no verb expects."""

from __future__ import annotations

import errno
import importlib
import os
import time

import pytest

from penstock.errors import UnknownName

module = importlib.import_module("penstock.cli.main")


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


def test_a_very_long_unknown_name_is_refused_at_once_and_cut() -> None:
    started = time.perf_counter()
    error = UnknownName("primitive", "x" * 70_000, ["x" * 30_000, "mult"])
    assert time.perf_counter() - started < 0.5
    assert error.nearest is None
    assert "(70000 characters)" in str(error)
    assert str(error).count("x" * 201) <= 150
