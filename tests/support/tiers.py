"""Which tests a target of the Makefile runs, on which process, and how long each took.

`durations.json` holds the seconds of every test as they were last recorded (`make durations`): `{file: {test: [call,
set-up]}}`. Tests below `BRIEF_S` are left out; one that is new counts as brief.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

TIERS = ("smoke", "core", "rest", "all")
"""`smoke`: marked so. `core`: of `make test`. `rest`: what `core` leaves out. `all`: both."""
RECORD = Path(__file__).parents[1] / "durations.json"
SHARES_S = {"tests/system/": 0.3, "tests/fidelity/": 0.3}
SHARE_S = 0.4
"""Seconds that one test function, with all its parameters, may take in `core`: of systems, and of other tests."""
FIXTURE_S = 5.0
"""A fixture that takes longer leaves its file to `rest`, whatever its tests take."""
PIECE_S = 20.0
"""Seconds of a long file that one process runs at a time."""
BRIEF_S = 0.02

Seconds = dict[str, dict[str, list[float]]]


def recorded(path: Path = RECORD) -> Seconds:
    """Raises: ValueError: the file is not of this form."""
    return json.loads(path.read_text()) if path.exists() else {}


def split(nodeid: str) -> tuple[str, str]:
    """The file and the test of a node id."""
    file, _, test = nodeid.partition("::")
    return file, test


def function(test: str) -> str:
    """A test without its parameters."""
    return test.partition("[")[0]


def total(seconds: Seconds, nodeid: str) -> float:
    """Seconds of a test with what was set up for it."""
    file, test = split(nodeid)
    return sum(seconds.get(file, {}).get(test, (BRIEF_S / 4,)))


def in_core(nodeids: Sequence[str], seconds: Seconds, always: Iterable[str] = ()) -> set[str]:
    """Those of `core`: of each function the quickest tests that its share of the time holds; and `always`."""
    functions: dict[tuple[str, str], list[tuple[float, int, str]]] = defaultdict(list)
    dear = {file for file, tests in seconds.items() if max(times[1] for times in tests.values()) > FIXTURE_S}
    for place, nodeid in enumerate(nodeids):
        file, test = split(nodeid)
        if file not in dear:
            functions[file, function(test)].append((total(seconds, nodeid), place, nodeid))
    chosen = set(always)
    for (file, _), tests in functions.items():
        left = next((share for folder, share in SHARES_S.items() if file.startswith(folder)), SHARE_S)
        for took, _, nodeid in sorted(tests):
            left -= took
            if left < 0:
                break
            chosen.add(nodeid)
    return chosen


class Pieces:
    """Parts of long files that need not stay together: those whose fixtures cost little."""

    def __init__(self, seconds: Seconds) -> None:
        self._piece: dict[tuple[str, str], int] = {}
        for file, tests in seconds.items():
            if max(times[1] for times in tests.values()) > 1.0:
                continue
            piece, filled = 0, 0.0
            for test, times in tests.items():
                new = (file, function(test)) not in self._piece
                if new and filled > PIECE_S:
                    piece, filled = piece + 1, 0.0
                self._piece.setdefault((file, function(test)), piece)
                filled += sum(times)

    def of(self, nodeid: str) -> str:
        file, test = split(nodeid)
        return f"{file}::{self._piece.get((file, function(test)), 0)}"


def longest_first(nodeids: Sequence[str], seconds: Seconds) -> list[int]:
    """Places of the tests in the order of dealing: a long piece that begins last keeps one core waiting."""
    pieces = Pieces(seconds)
    took: dict[str, float] = defaultdict(float)
    for nodeid in nodeids:
        took[pieces.of(nodeid)] += total(seconds, nodeid)
    return sorted(range(len(nodeids)), key=lambda place: (-took[name := pieces.of(nodeids[place])], name, place))


class Recording:
    """Adds up what each test of a run took, and writes it at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._took: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._took[report.nodeid][report.when != "call"] += report.duration

    def pytest_sessionfinish(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self._took))


def merge(runs: Iterable[Path], into: Path = RECORD) -> Seconds:
    """Replace what is recorded of the files that ran."""
    seconds = recorded(into)
    took: dict[str, list[float]] = {}
    for path in runs:
        took |= json.loads(path.read_text())
    files: Seconds = defaultdict(dict)
    for nodeid, times in took.items():
        file, test = split(nodeid)
        if sum(times) >= BRIEF_S:
            files[file][test] = [round(each, 2) for each in times]
    for file in {split(nodeid)[0] for nodeid in took}:
        seconds.pop(file, None)
    seconds |= files
    lines = (f"{json.dumps(file)}: {json.dumps(tests, ensure_ascii=True)}" for file, tests in sorted(seconds.items()))
    into.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return seconds


def dearest(seconds: Seconds, count: int) -> list[tuple[float, str]]:
    """The tests that take longest, with what was set up for them."""
    each = ((sum(times), f"{file}::{test}") for file, tests in seconds.items() for test, times in tests.items())
    return sorted(each, reverse=True)[:count]


if __name__ == "__main__":
    for seconds, test in dearest(merge([Path(name) for name in sys.argv[1:]]), 30):
        print(f"{seconds:7.2f} s  {test}")
