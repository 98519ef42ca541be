"""A few commands killed at chosen moments; `make faults` kills every verb that writes, at random ones."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from faults.kill_kinds import KINDS, Place
from faults.kills import Plan, heed_interrupts, prepared, reference, tried

KILLED = [
    ("trace --force", signal.SIGKILL, "alone", 0.7),  # its file is written, and has not replaced the old one
    ("trace --force", signal.SIGTERM, "group", 0.2),
    ("sweep, 1 worker", signal.SIGINT, "alone", 0.45),  # all points are played, no results are written
    ("database make", signal.SIGKILL, "group", 0.6),
]
"""Command, signal, whom it hits, and ahead of which of its changes to files, as a share of them."""


@pytest.mark.usefixtures("encrypting")
@pytest.mark.parametrize("name", dict.fromkeys(name for name, *_ in KILLED))
def test_a_killed_command_comes_to_the_same_end_and_leaves_nothing(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heed_interrupts()
    monkeypatch.setattr(Place, "forks", True)  # what makes and reads things: the killed commands are real ones
    kind = replace(KINDS[name], reads=())
    prepared(tmp_path / "things", kind.needs)
    known = reference(tmp_path, kind)
    for seed, (_, number, target, share) in enumerate(each for each in KILLED if each[0] == name):
        result = tried(tmp_path, Plan(kind, number, target, True, share), known, seed)
        assert not result.faults, result
        assert result.ended == number.name
