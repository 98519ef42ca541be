"""Idle power of a fitted machine: stated, or counted while nothing runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import CapabilityMissing, UsageError
from penstock.lab.measure import energy
from penstock.lab.prediction import idle
from penstock.scheme.machines.figure import Evidence


def test_a_stated_power_is_assumed() -> None:
    found = idle.idle_power("20 W")
    assert (found.value, found.text, found.kind) == (20.0, "20 W", Evidence.ASSUMED)


@pytest.mark.parametrize("text", ["20", "0 W", "-3 W", "much"])
def test_what_is_no_power_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="idle-power"):
        idle.idle_power(text)


def test_a_machine_without_counters_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(idle, "packages", lambda: energy.packages(tmp_path))
    with pytest.raises(CapabilityMissing, match="idle power cannot be measured"):
        idle.idle_power("measure")


def test_counters_are_read_before_and_after(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    (zone / "name").write_text("package-0")
    (zone / "max_energy_range_uj").write_text("1000000000")
    counter = zone / "energy_uj"
    counter.write_text("1000")
    monkeypatch.setattr(idle, "packages", lambda: energy.packages(tmp_path))
    times = iter([100.0, 102.0])
    monkeypatch.setattr(energy.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(energy.time, "sleep", lambda seconds: counter.write_text("30001000"))
    found = idle.idle_power("measure")
    assert (found.value, found.kind) == (15.0, Evidence.MEASURED)  # 30 J in 2 s
