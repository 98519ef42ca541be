"""Encrypted inputs on a shelf: what is in memory under a budget, and what comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import PenstockError, UsageError
from penstock.runtime.native.inputs import InputShelf


def shelf(folder: Path, budget: int) -> InputShelf:
    return InputShelf(folder, budget, bytes.decode)


def test_an_input_comes_back_and_the_budget_holds_the_last_ones(tmp_path: Path) -> None:
    kept = shelf(tmp_path, 20)
    one, two, three = (kept.put(text) for text in (b"0123456789", b"abcdefghij", b"ABCDEFGHIJ"))
    assert [kept.get(each) for each in (one, two, one, three)] == [
        "0123456789",
        "abcdefghij",
        "0123456789",
        "ABCDEFGHIJ",
    ]
    # The second is the one not used for the longest time: it went for the third.
    assert kept.traffic.read_bytes == 30
    kept.get(one)
    assert kept.traffic.read_bytes == 30
    kept.get(two)
    assert kept.traffic.read_bytes == 40
    assert kept.traffic.peak_resident_bytes == 20
    assert kept.traffic.input_bytes == 30


def test_without_a_budget_an_input_is_there_until_its_use_is_over(tmp_path: Path) -> None:
    kept = shelf(tmp_path, 0)
    one = kept.put(b"0123456789")
    assert kept.get(one) == kept.get(one)
    assert kept.traffic.read_bytes == 10
    kept.end_use()
    kept.get(one)
    assert kept.traffic.read_bytes == 20


def test_a_file_that_is_gone_and_a_negative_budget_are_told(tmp_path: Path) -> None:
    kept = shelf(tmp_path, 0)
    one = kept.put(b"0")
    (tmp_path / "input-0").unlink()
    with pytest.raises(PenstockError, match="input-0"):
        kept.get(one)
    with pytest.raises(UsageError, match="not negative"):
        shelf(tmp_path, -1)
