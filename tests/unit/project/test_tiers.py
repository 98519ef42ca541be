"""Tests of each target: the core fits its time, the rest is all others, and pieces of files stay whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import tiers
from support.tiers import Pieces, dearest, in_core, longest_first, merge, recorded

ROOT = Path(__file__).parents[3]


def test_the_core_has_the_quickest_tests_of_each_function_within_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "SHARE_S", 1.5)
    seconds = {"tests/unit/a.py": {"test_f[1]": [1.0, 0.0], "test_f[2]": [0.2, 0.1], "test_f[3]": [0.9, 0.0]}}
    tests = [f"tests/unit/a.py::test_f[{k}]" for k in (1, 2, 3)]
    assert in_core(tests, seconds) == {tests[1], tests[2]}


def test_a_test_that_is_dearer_than_its_share_is_left_to_the_rest_unless_it_is_marked() -> None:
    seconds = {"tests/unit/a.py": {"test_f": [9.0, 0.0]}}
    tests = ["tests/unit/a.py::test_f", "tests/unit/a.py::test_new"]
    assert in_core(tests, seconds) == {tests[1]}
    assert in_core(tests, seconds, tests[:1]) == set(tests)


def test_functions_of_systems_have_a_share_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "SHARE_S", 3.0)
    monkeypatch.setattr(tiers, "SHARES_S", {"tests/system/": 1.0})
    files = ("tests/unit/a.py", "tests/system/a.py")
    assert in_core([f"{f}::test" for f in files], {f: {"test": [2.0, 0.0]} for f in files}) == {f"{files[0]}::test"}


def test_a_file_with_a_dear_fixture_is_left_to_the_rest_but_for_what_is_marked() -> None:
    seconds = {"tests/unit/a.py": {"test_1": [0.1, 6.0], "test_2": [0.1, 0.0]}}
    tests = ["tests/unit/a.py::test_1", "tests/unit/a.py::test_2"]
    assert in_core(tests, seconds) == set()
    assert in_core(tests, seconds, tests[1:]) == {tests[1]}


def test_a_file_whose_fixtures_are_dear_is_one_piece_and_a_function_is_never_cut() -> None:
    many = {f"test_{name}[{k}]": [6.0, 0.0] for name in "abcdef" for k in range(2)}
    pieces = Pieces({"cheap.py": many, "dear.py": many | {"test_z": [0.1, 3.0]}})
    assert len({pieces.of(f"dear.py::{test}") for test in many}) == 1
    cut = {test: pieces.of(f"cheap.py::{test}") for test in many}
    assert len(set(cut.values())) == 3
    assert all(cut[f"test_{name}[0]"] == cut[f"test_{name}[1]"] for name in "abcdef")


def test_the_longest_piece_comes_first_and_keeps_its_order() -> None:
    seconds = {"a.py": {"test_1": [1.0, 0.0], "test_2": [1.0, 0.0]}, "b.py": {"test": [9.0, 0.0]}}
    tests = ["a.py::test_1", "a.py::test_2", "b.py::test", "c.py::test"]
    assert longest_first(tests, seconds) == [2, 0, 1, 3]


def test_what_ran_again_replaces_what_was_recorded_of_its_files(tmp_path: Path) -> None:
    into, run = tmp_path / "durations.json", tmp_path / "run.json"
    into.write_text(json.dumps({"a.py": {"test_old": [1.0, 0.0]}, "b.py": {"test": [2.0, 0.5]}}))
    run.write_text(json.dumps({"a.py::test_new": [3.001, 0.0], "a.py::test_brief": [0.001, 0.001]}))
    expected = {"a.py": {"test_new": [3.0, 0.0]}, "b.py": {"test": [2.0, 0.5]}}
    assert merge([run], into) == expected == recorded(into)
    assert dearest(expected, 1) == [(3.0, "a.py::test_new")]


def test_the_record_names_files_that_are_there() -> None:
    gone = [file for file in recorded() if not (ROOT / file).exists()]
    assert not gone, f"run `make durations`: {gone}"


def test_without_a_record_every_test_is_in_the_core(tmp_path: Path) -> None:
    assert in_core(["tests/unit/a.py::test"], recorded(tmp_path / "none.json")) == {"tests/unit/a.py::test"}
