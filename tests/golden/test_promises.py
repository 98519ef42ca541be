"""Each number that docs/reference/releases.md promises to read has a golden file, small, with a corrupted twin. Today's
writers still write these numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from golden import make, make_secret
from golden.fixtures import FORMATS, MOST_BYTES, ROOT, WHOLE, folder_of, number_at, twins_of
from penstock.base.system.host import host_description
from support import witness
from support.docs_blocks import ROOT as PROJECT

ROW = re.compile(r"^\|.*\| `\w+` in `([\w./-]+)` \| (\d+) \| (.+) \|$", re.M)
NO_WRITER = {("bench", 1), ("key-index", 1)}
"""Numbers that only the makers write."""
MOST_TOTAL_BYTES = 320_000
ALL = sorted((each.parent.name, int(each.name)) for each in ROOT.glob("*/[0-9]*"))
"""The fixtures that are there."""


def numbers_read(number: int, promise: str) -> set[int]:
    """Those that a row of the page promises to read.

    >>> numbers_read(4, "1 to 3 are read too"), numbers_read(2, "in every later release; 1 is read too")
    ({1, 2, 3, 4}, {1, 2})
    """
    found = {number}
    if "in every later release" in promise:
        found |= set(range(1, number))
    for first, last in re.findall(r"(\d+)(?: to (\d+))? (?:is|are) read too", promise):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def promised() -> dict[str, tuple[int, set[int]]]:
    """File that states a format's number -> that number, and all that are read."""
    rows = ROW.findall((PROJECT / "docs" / "reference" / "releases.md").read_text())
    return {file: (int(number), numbers_read(int(number), promise)) for file, number, promise in rows}


def size_of(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def test_each_promise_has_a_fixture_of_each_number_that_is_read() -> None:
    found = promised()
    assert len(found) >= 14
    assert found.keys() == FORMATS.keys(), (
        "a format has no golden file, or docs/reference/releases.md promises it no more"
    )
    for file, (number, read) in found.items():
        for name in FORMATS[file]:
            there = {each for of, each in ALL if of == name}
            assert read <= there <= set(range(1, number + 1)), f"{name}: golden files of {there}, {read} are read"
    assert {name for name, _ in ALL} == {name for names in FORMATS.values() for name in names}


@pytest.mark.parametrize(("name", "number"), ALL)
def test_a_fixture_is_small_and_has_a_corrupted_twin(name: str, number: int) -> None:
    folder = folder_of(name, number)
    parts = [each for each in folder.iterdir() if each.is_dir()]
    assert all(0 < size_of(each) <= MOST_BYTES for each in parts)
    assert twins_of(name, number)
    for twin in twins_of(name, number):
        for file in (each for each in (folder / twin).rglob("*") if each.is_file()):
            whole = folder / WHOLE / file.relative_to(folder / twin)
            assert name == "seeds" or whole.read_bytes() != file.read_bytes()


def test_all_golden_files_are_small_together_and_say_nothing_of_the_machine() -> None:
    files = [each for name, number in ALL for each in folder_of(name, number).rglob("*") if each.is_file()]
    assert sum(each.stat().st_size for each in files) <= MOST_TOTAL_BYTES
    host = host_description()
    words = [str(host[key]).encode() for key in ("cpu_model", "kernel") if host[key]]
    for each in files:
        content = each.read_bytes()
        assert not re.search(rb"/(home|root|tmp|work|Users|usr)/", content), each
        assert not [word for word in words if len(word) > 8 and word in content], each


def _json(file: str, key: str) -> Callable[[Path], int]:
    return lambda folder: int(json.loads((folder / file).read_text())[key])


def _metadata(file: str, key: bytes) -> Callable[[Path], int]:
    return lambda folder: int((pq.read_schema(folder / file).metadata or {}).get(key, b"1"))


def _word(file: str, at: int, size: str = "<I") -> Callable[[Path], int]:
    return lambda folder: number_at(folder / file, at, size)


def _of_lines(folder: Path) -> int:
    first = (folder / "trace.jsonl").read_text().splitlines()[0]
    return int(json.loads(first)["schema_version"])


def _of_tables(folder: Path) -> int:
    (found,) = re.findall(r"INSERT INTO \"about\" VALUES\('version','(\d+)'\)", (folder / "state.sql").read_text())
    return int(found)


STATED: dict[str, tuple[Callable[[Path], int], ...]] = {
    "trace": (_metadata("trace.parquet", b"penstock.schema_version"), _of_lines),
    "run": (_json("run.json", "schema_version"),),
    "sweep": (_json("run.json", "schema_version"),),
    "bench": (_metadata("bench.parquet", b"penstock_bench_schema"),),
    "database-records": (_json("database.json", "version"),),
    "database-ciphertexts": (_json("database.json", "version"),),
    "similarity": (_json("database.json", "version"),),
    "key": (_word("key.pkey", 8),),
    "key-index": (_word("index.sqlite", 60, ">I"),),  # `user_version`, by SQLite's own format
    "seeded-ciphertext": (_word("input.ct", 8),),
    "pair": (_word("secret.pskey", 8),),
    "package": (_word("score.pkg", 8),),
    "frames": (_word("frames.bin", 4, "<H"),),
    "service-state": (_of_tables,),
    "trace-pack": (_json("manifest.json", "pack_version"),),
}
"""Format -> how to find the numbers that its files state, without its reader. A seed states none: keys do."""
SAME_BYTES = {
    "trace": "trace.jsonl", "run": "results.csv", "sweep": "results.csv", "package": "score.pkg",
    "frames": "frames.bin", "seeds": "seeds.json",
}  # fmt: skip
"""Files whose bytes depend on nothing but penstock."""


def _files(folder: Path) -> set[Path]:
    """Names of what a clone holds: git keeps no empty folder."""
    return {each.relative_to(folder) for each in folder.rglob("*") if each.is_file()}


@pytest.mark.parametrize(("name", "number"), ALL)
def test_a_fixture_states_its_number_and_so_does_what_is_written_today(
    name: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (name, number) in make_secret.MAKERS:
        pytest.importorskip("penstock_client", reason="penstock's client is not installed")
    elif name == "service-state":
        pytest.importorskip("sqlalchemy")
    # The witness takes seconds to seal, and penstock has another writer.
    monkeypatch.setattr(witness, "sealed", lambda content, *_: content)
    golden = folder_of(name, number) / WHOLE
    written = make.made((make.MAKERS | make_secret.MAKERS)[name, number], tmp_path / "made") / WHOLE
    assert _files(golden) == _files(written)
    for stated in STATED.get(name, ()):
        assert stated(golden) == number
        assert (name, number) in NO_WRITER or stated(written) == number
    if (same := SAME_BYTES.get(name)) is not None:
        assert (written / same).read_bytes() == (golden / same).read_bytes(), "the format moved"
    assert name in STATED or name in SAME_BYTES
