"""Foreign traces and results that state much, or what no program has: each is an error that names it, and soon."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.base.system import outside
from penstock.errors import TraceError, UsageError
from penstock.front.cli.main import main
from penstock.lab.measure.bench.results import load_results
from penstock.scheme.traces import heracles, io, jsonl
from penstock.scheme.traces.export import export
from penstock.scheme.traces.fhetch import read_fhetch
from penstock.scheme.traces.heracles import HeraclesCall, HeraclesTrace, Operand, encode, from_heracles
from penstock.scheme.traces.inspect import differences
from penstock.scheme.traces.jsonl import read_jsonl
from support.toy import toy
from support.trace_samples import small_trace


def exported(folder: Path) -> Path:
    export(small_trace(), path := folder / "t.jsonl", "jsonl")
    return path


def imported(path: Path, *options: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the import of a file says when it fails, in one line."""
    target = path.with_name("made.parquet")
    assert main(["trace", "import", str(path), *options, "-o", str(target)]) in (1, 2)
    assert not target.exists()
    said = " ".join(capsys.readouterr().err.split())
    assert "report it" not in said
    return said


# JSON lines.


def test_rows_are_turned_into_columns_as_they_come(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jsonl, "ROWS_AT_ONCE", 3)
    most = 0
    from_pylist = pa.Table.from_pylist

    class Table:
        @staticmethod
        def from_pylist(rows: list[Any], schema: pa.Schema) -> pa.Table:
            nonlocal most
            most = max(most, len(rows))
            return from_pylist(rows, schema=schema)

    monkeypatch.setattr(jsonl, "Table", Table)
    trace = read_jsonl(exported(tmp_path).read_text().splitlines())
    assert not list(differences(trace, small_trace()))
    assert most == 3


def test_lines_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = exported(tmp_path).read_text().splitlines()
    monkeypatch.setenv(io.LIMIT_VARIABLE, "10")
    with pytest.raises(TraceError, match=r"JSON lines has more than 10 operations; .*PENSTOCK_MOST_OPERATIONS"):
        read_jsonl(lines)
    objects = [lines[0], *['{"record": "object", "id": 1}'] * 4041]
    with pytest.raises(TraceError, match="JSON lines has more than 4,040 objects"):
        read_jsonl(objects)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[" * 3000 + "]" * 3000, "line 2: no record of a trace .*nested deeper than 64"),
        ('{"record": "operation", "id": ' + "9" * 5000 + "}", "line 2: .*a whole number of more than 40 digits"),
        ('{"record": "operation", "id": 1e308}', "JSON lines: .*"),
        ('{"record": "operation", "id": ' + "9" * 30 + "}", "JSON lines: .*"),
        ('{"record": ["operation"]}', "line 2: no record"),
    ],
)
def test_a_line_that_no_program_has_is_named(tmp_path: Path, line: str, problem: str) -> None:
    with pytest.raises(TraceError, match=problem):
        read_jsonl([exported(tmp_path).read_text().splitlines()[0], line])


def test_files_of_lines_are_read_a_bounded_line_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = exported(tmp_path)
    whole = path.read_bytes()
    for content, said in (
        (b"\xff\n" + whole, "is not UTF-8; save it as UTF-8"),
        (whole.decode().encode("utf-16"), "the byte order mark of UTF-16; save it as UTF-8"),
        (gzip.compress(bytes(10_000)), "it is compressed with gzip; unpack it first"),
    ):
        path.write_bytes(content)
        for kind in (["jsonl"], ["fhetch", "--params", "sharp"]):
            assert said in imported(path, "--from", *kind, capsys=capsys)
    monkeypatch.setattr(outside, "LONGEST_LINE", 500)
    path.write_bytes(b"x" * 600)
    for kind in (["jsonl"], ["fhetch", "--params", "sharp"]):
        assert "t.jsonl, line 1: longer than 500 bytes" in imported(path, "--from", *kind, capsys=capsys)
    path.write_bytes(b"\xef\xbb\xbf" + whole)
    monkeypatch.setattr(outside, "LONGEST_LINE", 2**20)
    assert main(["trace", "import", str(path), "--from", "jsonl", "-o", str(tmp_path / "made.parquet")]) == 0


# HERACLES and FHETCH.


ROTATE = HeraclesCall("rotate", [Operand("t", 4, 2)], [Operand("a", 4, 2)], {heracles.GALOIS: "5"})


def message(*instructions: HeraclesCall, **header: int) -> bytes:
    params = toy()
    stated = {
        "ring_dim": params.ring_dim, "key_rns_num": params.num_q + params.num_p, "q_size": params.num_q,
        "dnum": params.dnum,
    }  # fmt: skip
    return encode(HeraclesTrace(list(instructions), 3, **stated | header))


def test_a_sound_message_is_read() -> None:
    assert len(from_heracles(message(ROTATE))) == 1


@pytest.mark.parametrize(
    "header",
    [
        {"q_size": 2**40, "key_rns_num": 2**40 + 4},
        {"key_rns_num": 2**63},
        {"q_size": 2**64 - 1},
        {"dnum": 2**64 - 1},
        {"ring_dim": 2**63},
    ],
)
def test_a_header_that_no_set_has_is_refused(header: dict[str, int]) -> None:
    with pytest.raises(TraceError, match=r"primes|dnum|ring_dim"):
        from_heracles(message(ROTATE, **header))


@pytest.mark.parametrize(
    ("instruction", "problem"),
    [
        (
            HeraclesCall("rotate", [Operand("t", 4, 2)], [Operand("a", 4, 2)], {"galois_elt": "9" * 5000}),
            "galois_elt",
        ),
        (HeraclesCall("rotate", [Operand("t", 4, 2)], [Operand("a", 4, 2)], {"galois_elt": "²"}), "galois_elt"),
        (
            HeraclesCall("rotate", [Operand("t", 4, 2)], [Operand("a", 4, 2)], {"galois_elt": "99999999"}),
            "galois_elt",
        ),
        (
            HeraclesCall("negate", [Operand("t", 4, 2**63)], [Operand("a", 4, 2)]),
            "9223372036854775808 polynomials",
        ),
        (
            HeraclesCall("negate", [Operand("t", 4, 2)], [Operand("a", 2**64 - 1, 2)]),
            "18446744073709551615 limbs",
        ),
        *(
            (
                HeraclesCall("negate", [Operand("t", 4, 2)], [Operand("a", 4, 2)], {"implied_rescales": text}),
                "implied_re",
            )
            for text in ("9" * 5000, "x", "-1", "99999", "²")
        ),
    ],
)
def test_an_instruction_that_no_program_has_is_named(instruction: HeraclesCall, problem: str) -> None:
    with pytest.raises(TraceError, match=rf"instruction 0 .*{problem}"):
        from_heracles(message(instruction))


def test_instructions_and_their_parts_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(io.LIMIT_VARIABLE, "10")
    with pytest.raises(TraceError, match=r"has more than 10 instructions; .*PENSTOCK_MOST_OPERATIONS"):
        from_heracles(message(*[ROTATE] * 11))
    many = HeraclesCall("rotate", [Operand()] * 41, [])
    with pytest.raises(TraceError, match=r"has more than 40 operands and parameters; .*PENSTOCK_MOST_OPERATIONS"):
        from_heracles(message(many))
    steps = ["sr_negp %1, %0, m=65537"] * 11
    with pytest.raises(TraceError, match=r"has more than 10 instructions; .*PENSTOCK_MOST_OPERATIONS"):
        read_fhetch(steps, toy())


def test_a_message_is_refused_by_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (path := tmp_path / "t.bin").write_bytes(message(ROTATE))
    monkeypatch.setenv("PENSTOCK_MOST_BYTES", "20")
    assert "at most 20 are read" in imported(path, "--from", "heracles", capsys=capsys)


# Results of the fhe-benchmarking suite, and of Google Benchmark.


@pytest.mark.parametrize(
    "content",
    [
        {"Timing": {"Total": "9" * 400 + "s"}},
        {"Timing": {"Total": "1s"}, "Bandwidth": {"Keys": "9" * 400 + "P"}},
        {"Timing": {"Total": "1e999s"}},
    ],
)
def test_a_result_without_an_end_is_named(tmp_path: Path, content: dict[str, Any]) -> None:
    (path := tmp_path / "result.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match=r"result\.json: '.*' is not a (time|size) of the fhe-benchmarking suite"):
        load_results(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 3000 + "]" * 3000, "nested deeper than 64"),
        ('{"benchmarks": [{"name": "a", "iterations": 1, "real_time": ' + "9" * 5000 + "}]}", "more than 40 digits"),
        ('{"benchmarks": [{"name": "a", "iterations": 1e308, "real_time": 1}]}', "type"),
        ('{"benchmarks": [{"name": "a", "iterations": Infinity, "real_time": 1}]}', "Google Benchmark"),
        ('{"benchmarks": [{"name": "a", "iterations": 1, "real_time": 1e999}]}', "inf"),
        ('{"benchmarks": [{"name": "a", "iterations": 1, "real_time": NaN}]}', "nan"),
        ('{"benchmarks": [{"name": "a", "iterations": 9e15, "real_time": 1e308, "time_unit": "s"}]}', "inf"),
        ('{"benchmarks": [{"name": ["a"], "iterations": 1, "real_time": 1}]}', "type"),
        ('{"benchmarks": [{"name": "a", "iterations": 1, "real_time": 1, "time_unit": []}]}', "Google Benchmark"),
    ],
)
def test_an_entry_that_no_benchmark_writes_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (path := tmp_path / "google.json").write_text(text)
    with pytest.raises(UsageError, match=rf"google\.json.*{problem}"):
        load_results(path)
