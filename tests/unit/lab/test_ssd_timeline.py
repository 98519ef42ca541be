"""Timelines of drives: what is drawn adds up to what the engine counts, and stays within its bound."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penstock.front.cli.main import main
from penstock.scheme.machines.drives import load_drive
from support.timeline_format import check_format, lanes_of

SCAN = ["ssd", "scan", "--drive", "ssd-s", "--quiet", "--format", "json"]


def drawn_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    assert main([*SCAN, *options, "--timeline", str(tmp_path / "t.json"), "--force"]) == 0
    return json.loads((tmp_path / "t.json").read_text()), json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--host", "pcie"),
        ("--arbitration", "convoy"),
        ("--page-mapping", "nand"),
        ("--engine", "jump"),
        ("--background-reads", "100 MB/s", "--background-writes", "500 MB/s", "--timeline-events", "100000"),
    ],
)
def test_what_is_drawn_is_what_the_engine_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    drawn, row = drawn_by(tmp_path, capsys, "--size", "8 MB", "--details", *options)
    check_format(drawn)
    facts = drawn["otherData"]
    assert facts["pages"] == row["pages"]
    assert facts["pages_left_out"] == facts["events_left_out"] == 0
    drive = load_drive("ssd-s", {})
    busy: dict[str, float] = defaultdict(float)
    # Other traffic goes on behind the scan, and is not drawn.
    end = row["simulated_s"]
    assert facts["end_s"] == end
    for event in drawn["traceEvents"]:
        if event["ph"] == "X":
            busy[event["cat"] if event["cat"] != "drive" else event["name"]] += event["dur"] * 1e-6
        assert event.get("ts", 0) + event.get("dur", 0) <= end * 1e6 * (1 + 1e-12)
    assert busy["channels"] == pytest.approx(row["bus_busy"] * end * drive.channels, rel=1e-9)
    assert busy["dies"] == pytest.approx(row["array_busy"] * end * drive.dies, rel=1e-9)
    assert busy["upload"] == pytest.approx(row["pcie_up_busy"] * end, rel=1e-9)
    assert busy["download"] == pytest.approx(row["pcie_down_busy"] * end, rel=1e-9)
    assert ("PCIe in" in lanes_of(drawn)) == ("--background-writes" in options)
    assert len(lanes_of(drawn)) > drive.channels


def test_the_bound_keeps_whole_pages_and_counts_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn, row = drawn_by(tmp_path, capsys, "--size", "1 GB", "--timeline-events", "1200")
    assert drawn["otherData"]["pages"] == 120
    assert drawn["otherData"]["pages_left_out"] == row["pages"] - 120
    assert sum(event["ph"] in "XC" for event in drawn["traceEvents"]) <= 1200


def test_counters_are_the_queue_and_the_channels_at_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn, row = drawn_by(tmp_path, capsys, "--size", "8 MB", "--details", "--queue-depth", "16")
    queue, channels = (
        [(e["ts"], *e["args"].values()) for e in drawn["traceEvents"] if e["ph"] == "C" and e["name"] == name]
        for name in ("pages under way", "channels at work")
    )
    assert 1 < max(value for _, value in queue) <= 16
    assert queue[-1][1] == channels[-1][1] == 0
    # The area below the curve is the time of all transfers.
    area = sum(value * (after - at) for (at, value), (after, _) in pairwise(channels))
    whole = drawn["otherData"]["end_s"] * load_drive("ssd-s", {}).channels
    assert area * 1e-6 == pytest.approx(row["bus_busy"] * whole, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--timeline-events", "2"), "holds no page"),
        (("--timeline", "t.txt"), "name the file so"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], reason: str
) -> None:
    target = ["--timeline", str(tmp_path / "t.json")] if "--timeline" not in options else []
    assert main([*SCAN, "--size", "8 MB", *target, *options]) == 2
    assert reason in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
