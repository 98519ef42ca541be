"""Timelines follow the Trace Event Format, say when things happen, and stay within their bound."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.front.cli.main import main
from penstock.program.running import trace_workload
from penstock.scheme.operations import OpKind
from penstock.scheme.traces.builder import TraceBuilder
from penstock.scheme.traces.export import timeline
from penstock.scheme.traces.perfetto import Timeline, write_timeline
from penstock.scheme.traces.schema import TraceMeta
from support.timeline_format import check_format, lanes_of
from support.toy import toy

POINT = ["simulate", "inner-product", "--params", "sharp", "--machine", "sharp"]


def drawn_by(tmp_path: Path, *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The timeline and the row of one simulated point."""
    rows = tmp_path / "rows.json"
    command = [*POINT, *options, "--timeline", str(tmp_path / "t.json"), "-o", str(rows), "--force"]
    assert main(command) == 0
    (row,) = json.loads(rows.read_text())
    return json.loads((tmp_path / "t.json").read_text()), row


@pytest.mark.parametrize(
    ("options", "lanes"),
    [
        (("--tier", "pcie5"), {"pcie5"}),
        (
            ("--tier", "pcie5", "--cache", "on-chip", "--mode", "overlap", "--decode", "20 GB/s"),
            {"pcie5", "decode pcie5"},
        ),
        (("--levels", "on-chip,hbm:1 GB,nvme-gen5", "--mode", "overlap"), {"hbm", "nvme-gen5"}),
        (("--tier", "pcie5", "--hosts", "8", "--network", "ethernet-400"), {"pcie5", "messages"}),
    ],
)  # fmt: skip
def test_a_simulated_point_has_its_lanes_and_ends_when_its_row_says(
    tmp_path: Path, options: tuple[str, ...], lanes: set[str]
) -> None:
    drawn, row = drawn_by(tmp_path, *options)
    check_format(drawn)
    assert lanes <= lanes_of(drawn)
    slices = [e for e in drawn["traceEvents"] if e["ph"] == "X"]
    assert max(e["ts"] + e["dur"] for e in slices) * 1e-6 == pytest.approx(row["total_s"], rel=1e-9)
    by_category: dict[str, float] = defaultdict(float)
    for event in slices:
        by_category[event["cat"]] += event["dur"] * 1e-6
    assert by_category["operation"] == pytest.approx(row["compute_s"], rel=1e-6)
    assert by_category["exchange"] == pytest.approx(row["communication_s"], rel=1e-6)
    assert by_category["load"] == pytest.approx(row["io_s"] + row["decode_s"], rel=1e-6)
    assert drawn["otherData"]["operations_left_out"] == 0


def curve(drawn: dict[str, Any], name: str) -> list[tuple[float, float]]:
    """The steps of a counter: seconds, and the value from then on."""
    found = [e for e in drawn["traceEvents"] if e["ph"] == "C" and e["name"] == name]
    return [(e["ts"] * 1e-6, next(iter(e["args"].values()))) for e in found]


def integral(steps: list[tuple[float, float]]) -> float:
    assert not steps or steps[-1][1] == 0
    return sum(value * (then - at) for (at, value), (then, _) in pairwise(steps))


@pytest.mark.parametrize(
    "options",
    [
        ("--tier", "pcie5"),
        ("--tier", "pcie5", "--hit-ratio", "0.3"),
        ("--tier", "rdma", "--cache", "64 MB", "--mode", "overlap", "--prefetch", "next-4", "--decode", "5 GB/s"),
        ("--tier", "pcie5", "--cache", "64 MB", "--policy", "optimal", "--classes", "keys,ciphertexts,plaintexts"),
        ("--levels", "on-chip:32 MB,hbm:100 MB,nvme-gen5", "--mode", "overlap"),
        ("--tier", "pcie5", "--hosts", "4", "--network", "ethernet-400", "--cache", "32 MB"),
    ],
)
def test_the_integral_of_each_bandwidth_is_the_bytes_that_were_moved(tmp_path: Path, options: tuple[str, ...]) -> None:
    drawn, row = drawn_by(tmp_path, *options)
    check_format(drawn)
    names = {e["name"].removeprefix("bandwidth ") for e in drawn["traceEvents"] if e["ph"] == "C"}
    moved = {name: integral(curve(drawn, f"bandwidth {name}")) for name in names if curve(drawn, f"bandwidth {name}")}
    if row.get("levels"):
        wanted = {level["level"]: level["channel_bytes"] for level in row["levels"] if level["busy_s"]}
    else:
        wanted = dict.fromkeys([row["tier"]] + [f"decode {row['tier']}"] * (row["decode_s"] > 0), row["io_bytes"])
    assert moved == pytest.approx(wanted, rel=1e-6)
    assert min(moved.values()) > 0


def test_curves_of_the_queue_and_of_bytes_on_chip_agree_with_the_slices(tmp_path: Path) -> None:
    drawn, row = drawn_by(tmp_path, "--tier", "3350 GB/s", "--mode", "overlap", "--prefetch", "next-4")
    loads = {e["args"]["operation"]: e for e in drawn["traceEvents"] if e.get("cat") == "load"}
    operations = {e["args"]["id"]: e for e in drawn["traceEvents"] if e.get("cat") == "operation"}
    waited = sum(operations[op]["ts"] - load["ts"] for op, load in loads.items()) * 1e-6
    queue = curve(drawn, "operations loaded ahead")
    assert integral(queue) == pytest.approx(waited, rel=1e-6)
    assert 1 < max(value for _, value in queue) <= 5
    held = integral(curve(drawn, "loaded bytes on chip"))
    rate = row["io_bytes"] / row["io_s"]  # of a tier without latency
    used = sum(
        load["dur"] * rate * (operations[op]["ts"] + operations[op]["dur"] - load["ts"]) for op, load in loads.items()
    )
    assert held == pytest.approx(used * 1e-12, rel=1e-6)


@pytest.mark.parametrize("policy", ["lru", "belady", "optimal"])
def test_bytes_on_chip_are_those_of_the_cache_and_of_one_object_that_passes_by(tmp_path: Path, policy: str) -> None:
    options = ("--tier", "pcie5", "--cache", "64 MB", "--policy", policy)
    drawn, row = drawn_by(tmp_path, *options)
    held = curve(drawn, "loaded bytes on chip")
    largest = max(e["args"]["bytes"] for e in drawn["traceEvents"] if e.get("cat") == "load")
    most = row["cache_bytes"] + (largest if policy != "lru" else 0)  # LRU keeps whatever is loaded
    assert largest <= max(value for _, value in held) <= most
    assert integral(held) <= most * row["total_s"]


def test_loads_are_named_by_key_and_lead_to_their_operation(tmp_path: Path) -> None:
    drawn, row = drawn_by(tmp_path, "--tier", "pcie5", "--cache", "on-chip")
    loads = [e for e in drawn["traceEvents"] if e["ph"] == "X" and e["cat"] == "load"]
    assert sum(load["args"]["bytes"] for load in loads) == row["io_bytes"]
    operations = {e["args"]["id"]: e for e in drawn["traceEvents"] if e["ph"] == "X" and e["cat"] == "operation"}
    assert all(load["name"] == operations[load["args"]["operation"]]["args"]["key"] for load in loads)
    assert sum(e["ph"] == "s" for e in drawn["traceEvents"]) == len(loads)


def test_results_are_not_among_the_loads(tmp_path: Path) -> None:
    drawn, _ = drawn_by(tmp_path, "--tier", "pcie5", "--classes", "ciphertexts")
    trace = trace_workload("inner-product", "sharp")
    names = {each["id"]: each["name"] or f"{each['class']} {each['id']}" for each in trace.objects.to_pylist()}
    made = {op["id"]: names.get(op["output"]) for op in trace.operations.to_pylist()}
    loads = [e for e in drawn["traceEvents"] if e["ph"] == "X" and e["cat"] == "load"]
    assert loads
    assert all(made[load["args"]["operation"]] not in load["name"].split(", ") for load in loads)


def test_the_bound_keeps_whole_operations_and_counts_the_others(tmp_path: Path) -> None:
    whole, _ = drawn_by(tmp_path, "--tier", "pcie5")
    cut, _ = drawn_by(tmp_path, "--tier", "pcie5", "--timeline-events", "25")
    check_format(cut)
    assert sum(e["ph"] != "M" for e in cut["traceEvents"]) <= 25
    facts = cut["otherData"]
    assert facts["operations"] + facts["operations_left_out"] == whole["otherData"]["operations"]
    assert facts["operations_left_out"] > 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "--tier names 4"),
        (("--tier", "hbm", "--mode", "bound"), "no operation at a time"),
        (("--tier", "hbm", "--hit-ratio", "0.5", "--hit-ratio", "0.9"), "--hit-ratio names 2"),
        (("--tier", "hbm", "--with", "inner-product"), "leave --with"),
        (("--tier", "hbm", "--hosts", "2", "--network", "nvlink4", "--partition", "by-tenant"), "on one operation"),
        (("--tier", "hbm", "--timeline-events", "1"), "holds no operation"),
    ],
)  # fmt: skip
def test_what_is_no_single_point_is_refused(tmp_path: Path, capsys: Any, options: tuple[str, ...], reason: str) -> None:
    assert main([*POINT, *options, "--timeline", str(tmp_path / "t.json")]) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "t.json").exists()


def test_a_measured_run_shows_its_scopes_around_its_operations() -> None:
    builder = TraceBuilder(toy())
    objects = [builder.ciphertext(10) for _ in range(4)]
    with builder.open_scope("outer"):
        for i in range(3):
            with builder.open_scope("step"):
                builder.add(
                    OpKind.NEGATE,
                    limbs_in=10,
                    limbs_out=10,
                    operands=(objects[i],),
                    output=objects[i + 1],
                    start_s=i + 0.25,
                    end_s=i + 0.75,
                )
    trace = builder.finish(TraceMeta(workload="w", params=toy().to_dict(), reading="openfhe"))
    drawn = timeline(trace)
    scopes = [(e["name"], e["ts"], e["dur"]) for e in drawn["traceEvents"] if e.get("cat") == "scope"]
    assert scopes == [
        ("step[0]", 0.25e6, 0.5e6),
        ("step[1]", 1.25e6, 0.5e6),
        ("step[2]", 2.25e6, 0.5e6),
        ("outer[0]", 0.25e6, 2.5e6),
    ]
    few = timeline(trace, max_events=5)
    assert few["otherData"] == {"workload": "w", "provenance": "measured", "operations": 2, "operations_left_out": 1}
    assert sum(e["ph"] != "M" for e in few["traceEvents"]) <= 5


SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=30)


@given(spans=SPANS)
def test_slices_that_overlap_are_spread_over_as_many_lanes_as_that_needs(spans: list[tuple[int, int]]) -> None:
    made = Timeline()
    lane, to = made.lane("p", "l"), made.lane("p", "to")
    made.slice(to, "target", 100.0, 101.0, category="c")
    for start, length in spans:
        made.slice(lane, f"{start}", start, start + length, category="c")
        made.flow("f", (lane, start), (to, 100.0))
    drawn = made.to_dict()
    check_format(drawn)
    assert made.to_dict() == drawn
    most = max((sum(start <= at < start + length for start, length in spans) for at in range(40)), default=0)
    # Something of no time beside others has its own lane.
    assert {"l", "to", *(f"l ({n})" for n in range(2, most + 1))} <= lanes_of(drawn)
    if all(length for _, length in spans):
        assert len(lanes_of(drawn)) == 1 + max(most, 1)
    by_lane: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for event in drawn["traceEvents"]:
        if event["ph"] == "X":
            by_lane[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        if event["ph"] == "s":
            assert any(begin == event["ts"] for begin, _ in by_lane[event["tid"]])
    for slices in by_lane.values():
        assert all(left[1] <= right[0] for left, right in pairwise(sorted(slices))), "none lies in another"


@given(spans=SPANS, paths=st.lists(st.sampled_from(["", "a", "a/x", "a/y", "b", "b/x/z"]), min_size=30, max_size=30))
def test_a_run_whose_operations_ran_side_by_side_is_drawn_in_rows(
    spans: list[tuple[int, int]], paths: list[str]
) -> None:
    builder = TraceBuilder(toy())
    source = builder.ciphertext(10)
    builder.add(OpKind.ENCRYPT, limbs_in=10, limbs_out=10, output=source, start_s=0.0, end_s=0.0)
    for (start, length), path in zip(spans, paths, strict=False):
        with ExitStack() as opened:
            for name in filter(None, path.split("/")):
                opened.enter_context(builder.open_scope(name))
            builder.add(
                OpKind.NEGATE,
                limbs_in=10,
                limbs_out=10,
                operands=(source,),
                output=builder.ciphertext(10),
                start_s=float(start),
                end_s=float(start + length),
            )
    drawn = timeline(builder.finish(TraceMeta(workload="w", params=toy().to_dict(), reading="openfhe")))
    check_format(drawn)
    slices = [e for e in drawn["traceEvents"] if e["ph"] == "X"]
    of_operations = [(e["ts"] * 1e-6, e["dur"] * 1e-6) for e in slices if e["cat"] == "called"]
    expected = [(start, length) for start, length in spans]
    assert of_operations[1:] == [pytest.approx(each, abs=1e-9) for each in expected]
    # A scope lasts from the first beginning to the last end of its operations.
    ends = {start + length for start, length in spans}
    assert all(round((e["ts"] + e["dur"]) * 1e-6, 9) in ends for e in slices if e["cat"] == "scope")


def test_a_packed_timeline_is_the_same_bytes_twice(tmp_path: Path) -> None:
    made = Timeline()
    made.slice(made.lane("p", "l"), "work", 0.0, 1.0, category="c")
    for name in ("a.json.gz", "b.json.gz"):
        write_timeline(tmp_path / name, made.to_dict(machine="m"))
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    assert json.loads(gzip.decompress((tmp_path / "a.json.gz").read_bytes())) == made.to_dict(machine="m")
    with pytest.raises(UsageError, match="name the file so"):
        write_timeline(tmp_path / "t.txt", {})
