"""The rules of the Trace Event Format, and what a timeline has."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any


def check_format(drawn: dict[str, Any]) -> None:
    """The rules of the Trace Event Format: every event's fields, lanes that are named, flows that are whole."""
    assert set(drawn) == {"traceEvents", "displayTimeUnit", "otherData"}
    named: set[tuple[int, int]] = set()
    slices: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    flows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    counters: dict[tuple[int, str], list[tuple[float, set[str]]]] = defaultdict(list)
    for event in drawn["traceEvents"]:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        lane = event["pid"], event["tid"]
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "process_sort_index", "thread_name", "thread_sort_index")
            named |= {lane} if event["name"] == "thread_name" else set()
            continue
        assert event["cat"]
        assert event["ts"] >= 0
        assert lane in named
        if event["ph"] == "C":
            assert event["args"]
            assert all(isinstance(value, int | float) for value in event["args"].values())
            counters[event["pid"], event["name"]].append((event["ts"], set(event["args"])))
        elif event["ph"] == "X":
            assert event["dur"] >= 0
            slices[lane].append((event["ts"], event["ts"] + event["dur"]))
        else:
            assert event["ph"] in "sf"
            assert event["ph"] == "s" or event["bp"] == "e"
            flows[event["id"]].append(event)
    for told in counters.values():
        assert all(earlier[0] <= later[0] and earlier[1] == later[1] for earlier, later in pairwise(told))
    for both in flows.values():
        start, finish = both
        assert (start["ph"], finish["ph"]) == ("s", "f")
        assert start["ts"] <= finish["ts"]
        for end in both:
            around = slices[end["pid"], end["tid"]]
            assert any(begin - 1e-6 <= end["ts"] <= stop + 1e-6 for begin, stop in around)
    for lane in slices.values():
        around: list[float] = []
        for begin, end in sorted(lane, key=lambda each: (each[0], -each[1])):
            while around and around[-1] <= begin:
                around.pop()
            # It lies in the slice around it, or behind all before it.
            assert not around or end <= around[-1]
            around.append(end)


def lanes_of(drawn: dict[str, Any]) -> set[str]:
    return {event["args"]["name"] for event in drawn["traceEvents"] if event["name"] == "thread_name"}
