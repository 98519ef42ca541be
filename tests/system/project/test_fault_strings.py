"""Some mutated bytes for everything that takes bytes from outside; `make faults` gives many."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from faults import strings
from faults.strings_ckks import Mutant, Wrong

STRINGS = 1000


@pytest.mark.usefixtures("openfhe")
def test_mutated_bytes_of_openfhe_are_refused_or_legitimate(tmp_path: Path) -> None:
    results = strings.bench(tmp_path, STRINGS, seed=0, jobs=1, batch_size=STRINGS)
    assert not [str(each) for each in results if each.faults]
    ended = {(each.kind, each.ended) for each in results}
    assert {kind for kind, _ in ended} == strings.WEIGHTS.keys()
    assert {("ciphertext", "another ciphertext"), ("key", "accepted"), ("request", "answered")} <= ended
    assert sum(each.cases for each in results) == STRINGS


class Frail:
    """Takes bytes, and breaks at some seeds in the ways that no input may bring about."""

    name = "ciphertext"

    def check(self, rng: Any, folder: Path) -> tuple[Mutant, str]:
        drawn = int(rng.integers(12))
        if drawn == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if drawn == 1:
            raise ZeroDivisionError("a defect")
        if drawn == 2:
            raise Wrong("two bytes are five")
        if drawn == 3:
            os.write(2, b"thread panicked at x.rs:1")
        if drawn == 4:
            bytearray(2 << 30)
        if drawn == 5:
            os._exit(0)
        return Mutant(b"", "as it was"), "accepted"


def test_each_way_of_breaking_is_found_at_its_seed_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strings, "WEIGHTS", {"ciphertext": 1})
    results = strings.batch([Frail()], range(60), tmp_path)
    assert sum(each.cases for each in results) == 60
    found = {each.seed: each.faults[0] for each in results if each.faults}
    expected = {seed: int(strings._chosen([Frail()], seed)[1].integers(12)) for seed in range(60)}
    assert found.keys() == {seed for seed, drawn in expected.items() if drawn < 6}
    said = ("SIGKILL", "ZeroDivisionError: a defect", "silently wrong: two bytes", "printed: b'thread panicked",
            "MemoryError", "exit code 0")  # fmt: skip
    assert all(said[expected[seed]] in fault for seed, fault in found.items())
    assert Counter(expected[seed] for seed in found).keys() == set(range(6))


class Sleeper:
    """Answers no string in time."""

    name = "ciphertext"

    def check(self, rng: Any, folder: Path) -> tuple[Mutant, str]:
        time.sleep(60)
        raise AssertionError


def test_a_string_without_an_answer_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strings, "WEIGHTS", {"ciphertext": 1})
    monkeypatch.setattr(strings, "MOST_SECONDS", 0.1)
    (result,) = strings.batch([Sleeper()], range(1), tmp_path)
    assert result.seed == 0
    assert "no answer after" in result.faults[0]
