"""Reading ahead of a computation, by its closed form and by a simulation that knows nothing of it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.system.files import WouldOverwrite
from penstock.errors import MachineError, UnitError
from penstock.lab.prediction.database import pipeline_s
from penstock.runtime.scanning.disk import Disk, read_disk


@given(st.integers(1, 60), st.floats(0.001, 10), st.floats(0.001, 10), st.integers(1, 8))
def test_the_slower_stage_binds_and_the_other_shows_once(n: int, load: float, compute: float, prefetch: int) -> None:
    # n max(load, compute) + min(load, compute): the first load or the last computation is not hidden.
    assert pipeline_s(n, load, compute, prefetch) == pytest.approx(n * max(load, compute) + min(load, compute))
    assert pipeline_s(n, load, compute, 0) == pytest.approx(n * (load + compute))


def stepped(entries: int, load: int, compute: int, prefetch: int) -> int:
    """The two stages tick by tick: a thread that loads, a queue of `prefetch` places, one that computes."""
    clock = begun = queued = done = 0
    left_load = left_compute = 0
    holding = False
    while done < entries:
        moved = True
        while moved:
            moved = False
            if holding and queued < prefetch:
                holding, queued, moved = False, queued + 1, True
            if not left_compute and queued:
                queued, left_compute, moved = queued - 1, compute, True
            if not holding and not left_load and begun < entries:
                begun, left_load, moved = begun + 1, load, True
        clock += 1
        if left_load:
            left_load -= 1
            holding = not left_load
        if left_compute:
            left_compute -= 1
            done += not left_compute
    return clock


@given(st.integers(1, 12), st.integers(1, 6), st.integers(1, 6), st.integers(1, 4))
def test_the_recurrence_equals_the_stages_tick_by_tick(n: int, load: int, compute: int, prefetch: int) -> None:
    assert pipeline_s(n, load, compute, prefetch) == stepped(n, load, compute, prefetch)


def disk() -> Disk:
    return Disk(
        name="d",
        read_bytes_per_s=1e9,
        checksum_bytes_per_s=5e8,
        decode_bytes_per_s=2.5e8,
        decode_call_s=1e-4,
        source="by hand",
    )


def test_stages_of_a_disk_are_bytes_over_rates(tmp_path: Path) -> None:
    path = tmp_path / "disk.toml"
    disk().write_toml(path)
    found = read_disk(path)
    assert Fraction(found.read_s(10**9)) == 1
    assert found.checksum_s(10**9) == 2
    assert found.decode_s(10**6) == pytest.approx(1e-4 + 4e-3)
    with pytest.raises(WouldOverwrite):
        disk().write_toml(path)


def test_a_disk_file_with_a_fault_is_refused_with_its_field(tmp_path: Path) -> None:
    path = tmp_path / "disk.toml"
    disk().write_toml(path)
    text = path.read_text()
    for old, new, problem, what in (
        ("[read]", "[raed]", MachineError, "unknown key 'raed': did you mean 'read'"),
        ('name = "d"', 'name = "d"\nnmae = "d"', MachineError, "unknown key 'nmae': did you mean 'name'"),
        ("1 GB/s", "1", UnitError, "no unit"),
        ("1 GB/s", "0 GB/s", MachineError, "more than zero"),
        ("[read]", "[read", MachineError, "is TOML, and this is not"),
    ):
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(problem, match=what):
            read_disk(path)
