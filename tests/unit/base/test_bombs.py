"""Small files that state much: each is refused by what it says of itself, before it is decoded."""

from __future__ import annotations

import base64
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.system.tables import parquet
from penstock.base.system.tables.arrow_stream import decoded_size
from penstock.base.system.tables.parquet import Bounds, read_table
from penstock.errors import PenstockError, TraceError
from penstock.front.cli.main import main
from penstock.scheme.traces import io
from penstock.scheme.traces.io import read_trace, write_trace
from penstock.scheme.traces.schema import OBJECTS_SCHEMA
from support.trace_samples import signed, small_trace

TABLE = Bounds(
    schema=pa.schema([pa.field("name", pa.string()), ("value", pa.float64()), ("samples", pa.list_(pa.float64()))]),
    what="table of tests",
    remedy="write it again",
    error=PenstockError,
)
ROWS = 200_000


def table(folder: Path, options: dict[str, Any] | None = None, **columns: Any) -> Path:
    """A Parquet file with these columns in place of sound ones."""
    path = folder / "t.parquet"
    sound = {"name": ["a", None], "value": [1.0, 2.0], "samples": [[1.0], None]}
    pq.write_table(pa.table(sound | columns), path, compression="zstd", **(options or {}))
    return path


def stream(objects: pa.Table, schema: pa.Schema | None = None, compression: str | None = "zstd") -> bytes:
    packed = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(packed, schema or objects.schema, options=options) as writer:
        writer.write_table(objects)
    return packed.getvalue().to_pybytes()


def test_a_sound_table_is_read_whatever_its_numbers_and_texts_are_stored_as(tmp_path: Path) -> None:
    plain = read_table(table(tmp_path), TABLE)
    assert plain.schema.equals(TABLE.schema)
    assert plain.to_pylist()[1] == {"name": None, "value": 2.0, "samples": None}
    stored = {
        "name": pa.array(["a", None]).dictionary_encode(),
        "value": pa.array([1, 2], pa.int32()),
        "samples": pa.array([[1.0], None], pa.large_list(pa.float32())),
        "more": [1, 2],
    }
    assert read_table(table(tmp_path, **stored), TABLE).equals(plain)
    assert read_table(table(tmp_path, {"use_dictionary": False}), TABLE).equals(plain)


def test_rows_and_elements_of_a_list_are_counted_in_the_footer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pq.ParquetFile, "read", lambda *_, **__: pytest.fail("a row is decoded"))
    monkeypatch.setenv(parquet.CELLS_VARIABLE, "300000")
    equal = {"name": pa.nulls(ROWS, pa.string()), "value": pa.nulls(ROWS, pa.float64())}
    path = table(tmp_path, **equal, samples=pa.nulls(ROWS, pa.list_(pa.float64())))
    assert path.stat().st_size < 5000
    with pytest.raises(
        PenstockError, match=r"t\.parquet has 600,000 values; at most 300,000 .*PENSTOCK_MOST_CELLS=600"
    ):
        read_table(path, TABLE)
    path = table(tmp_path, samples=[[0.0] * 2 * ROWS, None])
    with pytest.raises(PenstockError, match=r"t\.parquet has 400,00\d values; at most 300,000"):
        read_table(path, TABLE)


def test_one_long_text_in_many_rows_is_not_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_MOST_BYTES", "200000")
    indices = pa.array([0] * 1000, pa.int32())
    long = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 100_000]))
    columns = {"value": [1.0] * 1000, "samples": pa.nulls(1000, pa.list_(pa.float64()))}
    path = table(tmp_path, {"store_schema": False}, name=long, **columns)
    with pytest.raises(PenstockError, match=r"t\.parquet has 100,000,000 bytes decoded; at most 200,000"):
        read_table(path, TABLE)


def test_pages_that_decompress_to_much_are_not_decompressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pq.ParquetFile, "read", lambda *_, **__: pytest.fail("a row is decoded"))
    monkeypatch.setenv("PENSTOCK_MOST_BYTES", "200000")
    path = table(tmp_path, {"use_dictionary": False}, name=["x" * 300_000, None])
    assert path.stat().st_size < 5000
    with pytest.raises(PenstockError, match=r"t\.parquet has 300,\d+ bytes decoded; at most 200,000"):
        read_table(path, TABLE)
    path = table(tmp_path, {"use_dictionary": False, "column_encoding": {"name": "DELTA_BYTE_ARRAY"}})
    with pytest.raises(PenstockError, match=r"column 'name' is written as DELTA_BYTE_ARRAY"):
        read_table(path, TABLE)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"value": ["a", "b"]}, "column 'value' has type string, and its type is double; write it again"),
        ({"value": [b"a" * 100] * 2}, "column 'value' has type binary"),
        ({"value": pa.array([b"a" * 100] * 2, pa.binary(100))}, r"column 'value' has type fixed_size_binary\[100\]"),
        ({"name": [1, 2]}, "column 'name' has type int64, and its type is string"),
        ({"samples": [1.0, 2.0]}, "column 'samples' has type double"),
        ({"samples": [["a"], []]}, "column 'samples' has type list<"),
        ({"samples": [[[1.0]], []]}, "column 'samples' has type list<"),
        ({"samples": [{"a": 1.0}] * 2}, "column 'samples' has type struct<"),
    ],
)
def test_a_column_of_another_type_is_named(tmp_path: Path, columns: dict[str, Any], problem: str) -> None:
    with pytest.raises(PenstockError, match=r"t\.parquet is not a table of tests: " + problem):
        read_table(table(tmp_path, **columns), TABLE)


def test_other_tables_and_damaged_ones_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": ["a"]}), path := tmp_path / "other.parquet")
    with pytest.raises(PenstockError, match=r"other\.parquet is not a table of tests: it has no column 'value'"):
        read_table(path, TABLE)
    twice = pa.table([pa.array(["a"])] * 2, names=["name", "name"])
    pq.write_table(twice, path)
    with pytest.raises(PenstockError, match=r"it has twice the column 'name'"):
        read_table(path, TABLE)
    path.write_bytes(table(tmp_path).read_bytes()[:-9])
    with pytest.raises(PenstockError, match=r"other\.parquet is truncated, corrupt or no Parquet file .*; write it ag"):
        read_table(path, TABLE)


@pytest.mark.parametrize("compression", ["zstd", "lz4", None])
def test_the_headers_of_a_stream_state_its_size(compression: str | None) -> None:
    objects = small_trace().objects.take([0] * 1000)
    rows, size = decoded_size(pa.py_buffer(stream(objects, compression=compression)))
    assert 1000 < rows < 1010  # and the names of its dictionary
    # Id, bytes, limbs, class, and the offset and letter of the name, apart from bits and rounding.
    assert 26_000 <= size < 27_000


@pytest.mark.parametrize("kind", ["rows", "texts", "nulls"])
def test_objects_of_a_trace_are_bounded_before_they_are_decompressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    write_trace(small_trace(), source := tmp_path / "t.parquet")
    sound = small_trace().objects
    many = 50_000
    if kind == "rows":
        objects, problem = sound.take([0] * many), "has 50,0.* objects, which"
    elif kind == "texts":
        names = pa.array(["x" * 1_000_000] + [None] * (sound.num_rows - 1))
        objects, problem = sound.set_column(2, "name", names), "has .* which take 1,00.* bytes decompressed"
    else:
        objects = pa.table([pa.nulls(many)] * 5, names=OBJECTS_SCHEMA.names)
        problem = "has 50,000 objects"
    packed = base64.b64encode(stream(objects))
    assert len(packed) < 200_000
    bomb = signed(source, tmp_path / "bomb.parquet", objects=packed)
    monkeypatch.setattr(pa.ipc, "open_stream", lambda *_: pytest.fail("the objects are decompressed"))
    monkeypatch.setenv(io.LIMIT_VARIABLE, "11")
    with pytest.raises(TraceError, match=rf"bomb\.parquet {problem}.*set PENSTOCK_MOST_OPERATIONS="):
        read_trace(bomb)


def test_one_long_name_of_many_objects_is_not_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_trace(small_trace(), source := tmp_path / "t.parquet")
    objects = small_trace().objects.take([0] * 1000)
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array(["x" * 100_000]))
    objects = objects.set_column(2, "name", long)
    bomb = signed(source, tmp_path / "bomb.parquet", objects=base64.b64encode(stream(objects)))
    monkeypatch.setenv("PENSTOCK_MOST_BYTES", "200000")
    with pytest.raises(TraceError, match=r"bomb\.parquet has 100,0.* bytes decoded"):
        read_trace(bomb)


def test_a_damaged_header_of_the_objects_is_named(tmp_path: Path) -> None:
    write_trace(small_trace(), source := tmp_path / "t.parquet")
    whole = stream(small_trace().objects)
    for at in range(8, len(whole), 97):
        broken = bytearray(whole)
        broken[at] ^= 0xFF
        path = signed(source, tmp_path / "damaged.parquet", objects=base64.b64encode(broken))
        with suppress(TraceError):  # any other is an internal error
            read_trace(path)


def test_operands_without_an_end_are_counted_in_the_footer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_trace(small_trace(), source := tmp_path / "t.parquet")
    table = pq.read_table(source)
    operands = pa.array([[0] * 5000] + [[]] * (len(table) - 1), pa.list_(pa.int64()))
    bomb = table.set_column(table.schema.get_field_index("operands"), "operands", operands)
    path = signed(source, tmp_path / "bomb.parquet", bomb)
    assert path.stat().st_size < source.stat().st_size + 1000
    monkeypatch.setenv(io.LIMIT_VARIABLE, "20")
    with pytest.raises(TraceError, match=r"bomb\.parquet has 5,\d+ values; at most 640"):
        read_trace(path)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [("operations", "kind", "no kind"), ("operations", "output", 2**62), ("objects", "limbs", 2**31 - 1)],
)
def test_a_trace_that_breaks_a_rule_is_not_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str, column: str, value: object
) -> None:
    trace = small_trace()
    columns = getattr(trace, table)
    field = columns.schema.field(column)
    values = columns[column].to_pylist()
    values[3] = value
    changed = columns.set_column(columns.schema.get_field_index(column), field, pa.array(values, field.type))
    write_trace(replace(trace, **{table: changed}), path := tmp_path / "t.parquet")
    for verb in (["simulate", str(path), "--machine", "sharp"], ["predict", "run", str(path), "--machine", "sharp"]):
        assert main(verb) == 1
        said = " ".join(capsys.readouterr().err.split())
        assert f"t.parquet: {table[:-1] if table == 'objects' else 'operation'}" in said
        assert "'penstock trace validate' names all that is wrong" in said
