"""Golden files that hold no secret: each is read with the values that its maker wrote, and its corrupted twins are
refused by name."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from golden import make
from golden.fixtures import copied, cut, flipped, params_of, replaced
from penstock.base.runs.folder import RunFolder
from penstock.base.runs.record import DamagedRun
from penstock.base.system.outside import lines_of
from penstock.base.version import __version__
from penstock.errors import PenstockError, TraceError
from penstock.lab.measure.bench.results import load_results, summary_rows
from penstock.lab.sweeps.store import DamagedResults, read_results
from penstock.program.package.content import PackageError, Verb
from penstock.program.package.file import check_package, open_package
from penstock.program.running.trace_pack import check_pack, write_pack
from penstock.scheme.params import catalogue
from penstock.scheme.traces.inspect import problems
from penstock.scheme.traces.io import read_trace
from penstock.scheme.traces.jsonl import read_jsonl
from penstock.scheme.traces.schema import Trace
from penstock.service.near.frames import ANSWER_FIELDS, REQUEST_FIELDS, FrameRefused, Kind, decode_header
from penstock.service.near.link import Link, LinkClosed


def change(path: Path, by: Callable[[bytes], bytes]) -> None:
    path.write_bytes(by(path.read_bytes()))


# Traces.


def lines_read(path: Path) -> Trace:
    return read_jsonl(lines_of(path, TraceError), str(path))


@pytest.mark.parametrize(("file", "read"), [("trace.parquet", read_trace), ("trace.jsonl", lines_read)])
def test_a_trace_is_read_whole_and_a_damaged_one_is_refused(
    tmp_path: Path, file: str, read: Callable[[Path], Trace]
) -> None:
    found, wanted = read(copied("trace", 1, tmp_path / "whole") / file), make.trace()
    assert found.operations.equals(wanted.operations)
    assert found.objects.equals(wanted.objects)
    assert found.meta == wanted.meta
    assert list(problems(found)) == []
    with pytest.raises(TraceError, match=f"{file}.*(truncated or corrupt|, line 16: no record of a trace)"):
        read(copied("trace", 1, tmp_path / "cut", "cut") / file)


def test_a_changed_byte_of_a_trace_is_found_where_the_format_has_checksums(tmp_path: Path) -> None:
    path = copied("trace", 1, tmp_path / "trace") / "trace.parquet"
    for place in (600, 5000, -600):
        change(path, flipped(place))
        with pytest.raises(TraceError, match=r"trace\.parquet is (truncated or )?corrupt"):
            read_trace(path)
        change(path, flipped(place))
    assert read_trace(path).meta.workload == "golden"


# Run folders.


def test_a_run_folder_has_its_rows_its_machine_and_its_warning(tmp_path: Path) -> None:
    run = RunFolder.open(copied("run", 1, tmp_path / "run"))
    assert run.complete
    assert run.damage() == []
    run.check_tables()
    assert run.stages() == ["measured", "bytes"]
    for stage, rows in make.ROWS.items():
        found = run.stage_rows(stage)
        assert [{name: each[name] for name in rows[0]} for each in found] == rows
    assert {row["params"] for row in run.results().to_pylist()} == {"insecure-golden"}
    assert {name: run.record[name] for name in make.ELSEWHERE} == make.ELSEWHERE
    assert run.warnings == [{"what": "the golden run was never run", "remedy": "read its rows"}]


def test_a_damaged_run_folder_says_which_file_it_is(tmp_path: Path) -> None:
    damaged = RunFolder.open(copied("run", 1, tmp_path / "stage", "damaged"))
    (said,) = damaged.damage()
    assert "bytes.parquet is damaged" in said
    assert damaged.stages() == ["measured"]
    with pytest.raises(DamagedRun, match=r"run\.json cannot be read"):
        RunFolder.open(copied("run", 1, tmp_path / "cut", "cut"))
    folder = copied("run", 1, tmp_path / "results")
    change(folder / "results.parquet", flipped(200))
    with pytest.raises(DamagedRun, match=r"results\.parquet is not the file that the run wrote"):
        RunFolder.open(folder).check_tables()


def test_a_sweeps_folder_has_a_row_a_point(tmp_path: Path) -> None:
    folder = copied("sweep", 1, tmp_path / "sweep")
    rows = read_results(folder).to_pylist()
    assert [(row["tier"], row["machine"], row["workload"]) for row in rows] == [
        ("hbm", "sharp", "inner-product"),
        ("pcie5", "sharp", "inner-product"),
    ]
    written = (folder / "results.csv").read_text().splitlines()
    totals = [dict(zip(written[0].split(","), line.split(","), strict=True))["total_s"] for line in written[1:]]
    assert [row["total_s"] for row in rows] == [float(each) for each in totals]
    assert RunFolder.open(folder).config["num_points"] == 2
    for twin in ("damaged", "cut"):
        with pytest.raises(DamagedResults, match=r"results\.parquet: its checksum is not the one in \.complete"):
            read_results(copied("sweep", 1, tmp_path / twin, twin))


# Benchmark results.


@pytest.mark.parametrize("number", [1, 2, 3])
def test_benchmark_results_of_each_number_are_read(tmp_path: Path, number: int) -> None:
    found = load_results(copied("bench", number, tmp_path / "bench") / "bench.parquet")
    unknown = dict.fromkeys(make.SINCE_2) if number == 1 else {}
    wanted = [row | unknown for row in make.bench_rows()]
    assert [{name: row[name] for name in wanted[0]} for row in found.to_pylist()] == wanted
    (point,) = summary_rows(found)
    assert (point["item"], point["runs"], point["median_s"]) == ("add", 3, 2e-3)
    with pytest.raises(PenstockError, match=r"bench\.parquet is truncated, corrupt or no Parquet file"):
        load_results(copied("bench", number, tmp_path / "cut", "cut"))


def test_a_changed_byte_of_benchmark_results_is_found(tmp_path: Path) -> None:
    path = copied("bench", 3, tmp_path / "bench") / "bench.parquet"
    change(path, flipped(300))
    with pytest.raises(PenstockError, match=r"bench\.parquet is truncated, corrupt or no Parquet file"):
        load_results(path)


# Packages.


def test_a_package_has_its_program_its_constants_and_its_names(tmp_path: Path) -> None:
    package = check_package(copied("package", 1, tmp_path / "package") / "score.pkg")
    assert (package.name, package.description, package.provenance) == ("score", "a golden file", {"by": "hand"})
    assert package.params == params_of(limbs=2)
    assert package.constants.values(0).tolist() == [0.5, 1.0, -2.0, 0.25]
    assert [each.verb for each in package.instructions] == [
        Verb.ENCRYPT, Verb.MULT_PLAIN, Verb.RESCALE, Verb.ROTATE, Verb.ADD_SCALAR, Verb.OUTPUT,
    ]  # fmt: skip
    assert (package.instructions[3].argument, package.instructions[4].number) == (1, 0.125)
    assert ([each.name for each in package.inputs], [each.name for each in package.outputs]) == (["x"], ["score"])
    assert package.keys == {"rot:5": 1}


@pytest.mark.parametrize(
    ("twin", "rule"),
    [
        ("damaged-constant", "constant 0 differs from its digest"),
        ("damaged-tables", "its tables differ from their digest"),
        ("cut", "it does not end as a program package does"),
    ],
)
def test_a_damaged_package_is_refused_with_the_place(tmp_path: Path, twin: str, rule: str) -> None:
    with pytest.raises(PackageError, match=rf"score\.pkg.*{rule}"):
        check_package(copied("package", 1, tmp_path / "package", twin) / "score.pkg")
    if twin != "damaged-constant":
        with pytest.raises(PackageError):
            open_package(tmp_path / "package" / "score.pkg")


# Frames.


@contextmanager
def sent(content: bytes) -> Iterator[Link]:
    """The receiving end of a connection whose other end sent these bytes and went."""
    here, there = socket.socketpair()
    with closing(here):
        there.sendall(content)
        there.close()
        yield Link(here, timeout_s=5)


def frames_in(content: bytes) -> Iterator[tuple[Kind, dict[str, Any], list[int]]]:
    """Kind, header and words of each frame, as an end of a connection receives them."""
    with sent(content) as link:
        while True:
            try:
                prefix, header = link.receive_prefix(4096)
            except LinkClosed:
                return
            fields = (REQUEST_FIELDS | ANSWER_FIELDS)[prefix.kind]
            yield prefix.kind, decode_header(header, fields), link.receive_body(prefix).tolist()


def test_frames_of_every_kind_are_received(tmp_path: Path) -> None:
    found = list(frames_in((copied("frames", 1, tmp_path / "frames") / "frames.bin").read_bytes()))
    assert found == [(kind, header, make.words_of(count).tolist()) for kind, header, count in make.FRAMES]
    assert {kind for kind, _, _ in found} == set(Kind)


@pytest.mark.parametrize(
    ("twin", "error", "rule"),
    [
        ("damaged-magic", FrameRefused, "these bytes are not a frame of a key node"),
        ("damaged-header", FrameRefused, "a header that is not JSON"),
        ("damaged-length", FrameRefused, "a body of 1 bytes: rows are whole words of 8 bytes"),
        ("later", FrameRefused, "a frame of version 2: this side speaks 1; run the same release on both"),
    ],
)
def test_a_damaged_frame_is_refused(tmp_path: Path, twin: str, error: type[PenstockError], rule: str) -> None:
    with pytest.raises(error, match=rule):
        next(frames_in((copied("frames", 1, tmp_path / "frames", twin) / "frames.bin").read_bytes()))


def test_a_frame_that_ends_early_is_no_frame(tmp_path: Path) -> None:
    found = []
    with suppress(StopIteration):
        frames = frames_in((copied("frames", 1, tmp_path / "frames", "cut") / "frames.bin").read_bytes())
        while True:
            found.append(next(frames))
    assert len(found) == len(make.FRAMES) - 1


# The state of the service.


def tables(folder: Path) -> Path:
    """The tables of a dump, as SQLite has them."""
    path = folder / "state.sqlite"
    with closing(sqlite3.connect(path)) as made:
        made.executescript((folder / "state.sql").read_text())
    return path


def test_the_tables_of_the_service_have_their_rows(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    from penstock.service.state.state import ServiceState

    path = tables(copied("service-state", 1, tmp_path / "state"))
    with closing(ServiceState(f"sqlite:///{path}", clock=lambda: make.NOW)) as state:
        assert [row["tenant"] for row in state.tenants()] == ["alice"]
        caller = state.caller(make.TOKEN)
        assert caller is not None
        assert (caller.tenant, caller.scopes) == ("alice", {"run", "read"})
        assert state.uploads("alice") == [{**make.UPLOAD, "name": None, "params": None}]
        assert [(row["sha256"], row["bytes"]) for row in state.blobs("alice")] == [(make.BLOB, 7)]
        program = state.program("alice", "score")
        assert program is not None
        assert (program["package"], program["description"]) == (make.BLOB, {"inputs": ["x"]})
        (job,) = state.open_jobs()
        assert {name: job[name] for name in make.JOB} == {**make.JOB, "request": {"inputs": {}}}
        assert [(row["action"], row["subject"]) for row in state.trail()] == [("submit", "job-1")]


def test_tables_of_a_later_number_or_of_half_a_file_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    from penstock.service.state.folder import StateUnusable
    from penstock.service.state.state import ServiceState

    later = tables(copied("service-state", 1, tmp_path / "later", "later"))
    with pytest.raises(StateUnusable, match="tables of version 2, and this penstock reads version 1"):
        ServiceState(f"sqlite:///{later}")
    path = tables(copied("service-state", 1, tmp_path / "state"))
    whole = path.read_bytes()
    for damaged, rule in ((flipped(3)(whole), "file is not a database"), (cut(6000)(whole), "malformed")):
        path.write_bytes(damaged)
        with pytest.raises(StateUnusable, match=f"cannot be used.*{rule}"):
            ServiceState(f"sqlite:///{path}")


# Trace packs.


def test_a_trace_pack_lists_its_traces(tmp_path: Path) -> None:
    folder = copied("trace-pack", 1, tmp_path / "pack")
    listed = json.loads((folder / "manifest.json").read_text())
    assert listed["penstock"] == __version__, "a list stays readable for one release: make the golden one again"
    assert list(check_pack(folder)) == []
    pack = write_pack(folder, ["sharp"], ["inner-product"])
    assert (pack.made, pack.left_out) == (0, ())
    (trace,) = pack.traces
    assert (trace.file, trace.num_operations, trace.num_keys) == ("sharp/inner-product.parquet", 144, 9)
    assert read_trace(folder / trace.file).parameters() == catalogue.get("sharp")


def test_a_damaged_trace_pack_is_refused(tmp_path: Path) -> None:
    (said,) = check_pack(copied("trace-pack", 1, tmp_path / "trace", "cut-trace"))
    assert said.startswith("sharp/inner-product.parquet: its SHA-256 is")
    for twin in ("damaged", "cut"):
        with pytest.raises(TraceError, match=r"manifest\.json is not a manifest of a trace pack"):
            list(check_pack(copied("trace-pack", 1, tmp_path / twin, twin)))


def test_a_trace_pack_of_another_version_is_not_called_valid(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"manifest\.json is of format 2 .*only lists of format 1 and"):
        list(check_pack(copied("trace-pack", 1, tmp_path / "later", "later")))
    folder = copied("trace-pack", 1, tmp_path / "earlier")
    change(folder / "manifest.json", replaced(f'"penstock": "{__version__}"', '"penstock": "0.0.9"'))
    with pytest.raises(TraceError, match=r"is of format 1 and penstock 0\.0\.9, .*'penstock trace validate'"):
        list(check_pack(folder))
