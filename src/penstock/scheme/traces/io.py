"""Reading and writing trace files.

A trace is one Parquet file. The operations are its table, so that any tool reads them. The footer holds the objects
under `penstock.objects` (Arrow IPC stream, zstd, base64) and the metadata under `penstock.meta` (JSON), with a digest
of both and of the operations. Pages carry Parquet's own checksums.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.system.files import os_errors, write_atomic
from penstock.base.system.outside import json_of, limit, reason
from penstock.base.system.tables import parquet
from penstock.base.system.tables.arrow_stream import decoded_size
from penstock.base.system.tables.parquet import Bounds, checked_columns, conformed, read_table
from penstock.base.types import Row
from penstock.errors import ParamsError, TraceError
from penstock.scheme.operations import OpKind
from penstock.scheme.traces.schema import OBJECTS_SCHEMA, OPERATIONS_SCHEMA, SCHEMA_VERSION, Trace, TraceMeta

_META, _OBJECTS, _VERSION = b"penstock.meta", b"penstock.objects", b"penstock.schema_version"
_DIGEST = b"penstock.sha256"
MOST_OPERATIONS = 10_000_000
"""Operations of a trace that is read: equal rows take no room in a file, and about 120 bytes each in memory."""
LIMIT_VARIABLE = "PENSTOCK_MOST_OPERATIONS"
"""The environment variable that states another number."""
_VALUES, _OBJECTS_EACH, _OBJECT_BYTES = 32, 4, 128
"""For each operation at most: values of its row with its operands, objects, and bytes of an object."""
_AGAIN = "make it again or copy it again"
_OPERATIONS = Bounds(schema=OPERATIONS_SCHEMA, what="trace", remedy=_AGAIN, error=TraceError)
_OBJECTS_OF = replace(_OPERATIONS, schema=OBJECTS_SCHEMA, what="table of a trace's objects")


def write_trace(trace: Trace, path: Path, *, force: bool = False) -> None:
    """Write a trace; the file appears under its name when it is whole.

    Raises: WouldOverwrite: `path` exists and not `force`. FileError: the disk is full, the folder not writable.
    """
    packed = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(packed, OBJECTS_SCHEMA, options=options) as writer:
        writer.write_table(trace.objects)
    footer = {
        _VERSION: str(SCHEMA_VERSION).encode(),
        _META: json.dumps(trace.meta.to_dict()).encode(),
        _OBJECTS: base64.b64encode(packed.getvalue()),
    }
    footer[_DIGEST] = _digest(footer, trace.operations)
    table = trace.operations.replace_schema_metadata(footer)

    def write(target: Path) -> None:
        # pyarrow writes no page checksum by default; with it a flipped bit is found when the file is read.
        parquet.write_table(table, target, compression="zstd", write_page_checksum=True)

    write_atomic(path, write, force=force)


def read_trace(path: Path) -> Trace:
    """The trace in a file.

    Raises: TraceError: no Parquet file, no trace, truncated, corrupt, or written by a newer penstock.
            FileError: it does not exist or cannot be read.
    """
    path = Path(path)
    with os_errors(path, "read"):
        if path.is_dir():
            raise TraceError(f"{path} is a folder; a trace is one .parquet file")
        with path.open("rb") as file:
            start = file.read(4)
    if start != b"PAR1":
        raise TraceError(
            f"{path} is not a trace: it does not start like a Parquet file; make one with 'penstock trace'"
        )
    try:
        described = parquet.read_metadata(path)
        footer = described.metadata or {}
        _check_version(path, footer)
        check_operations(str(path), described.num_rows)
        operations = read_table(path, replace(_OPERATIONS, most_cells=_VALUES * most_operations()))
        objects = _objects(path, footer[_OBJECTS])
        meta = meta_of(json_of(footer[_META]))
        check_version(str(path), meta.schema_version)
    except TraceError:
        raise
    except (pa.ArrowException, OSError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise TraceError(f"{path} is truncated or corrupt ({reason(error)}); {_AGAIN}") from error
    operations = operations.replace_schema_metadata(None)
    if footer.get(_DIGEST) != _digest(footer, operations):
        raise TraceError(f"{path} is corrupt: its content does not match its checksum; {_AGAIN}")
    trace = Trace(meta, operations, objects)
    try:
        trace.parameters()
    except ParamsError as error:
        raise TraceError(f"{path}: {error}") from error
    return trace


def _objects(path: Path, packed: bytes) -> pa.Table:
    """The objects of a trace, from its footer; the headers of the stream are checked before it is decompressed."""
    stream = pa.py_buffer(base64.b64decode(packed, validate=True))
    rows, size = decoded_size(stream)
    most = most_objects()
    if rows > most or size > most * _OBJECT_BYTES:
        raise TraceError(
            f"{path} has {rows:,} objects, which take {size:,} bytes decompressed; at most {most:,} of {_OBJECT_BYTES} "
            f"bytes each are read: {_AGAIN}, or set {LIMIT_VARIABLE}={max(rows, size // _OBJECT_BYTES)} to read it all "
            "the same"
        )
    with pa.ipc.open_stream(stream) as reader:
        checked_columns(path, reader.schema, _OBJECTS_OF)
        return conformed(path, reader.read_all(), _OBJECTS_OF)


def _digest(footer: dict[bytes, bytes], operations: pa.Table) -> bytes:
    """SHA-256 of version, metadata, objects and operations, however Parquet lays the columns out."""
    digest = hashlib.sha256(b"\0".join(footer[name] for name in (_VERSION, _META, _OBJECTS)))
    for column in operations.columns:
        digest.update(np.packbits(column.is_valid().to_numpy()).tobytes())
        kind = column.type
        if pa.types.is_dictionary(kind):
            digest.update(_lines(column))
        elif pa.types.is_list(kind):
            digest.update(pc.list_value_length(column).to_numpy().tobytes())
            digest.update(pc.list_flatten(column).to_numpy().tobytes())
        else:
            digest.update(column.fill_null(0).to_numpy().tobytes())
    return digest.hexdigest().encode()


def _lines(column: pa.ChunkedArray) -> pa.Buffer:
    """The names of a column, one a line, a null as an empty one; as bytes in UTF-8, made without a string for each."""
    names = pc.fill_null(column.cast(pa.large_string()), "").combine_chunks()
    whole = pa.LargeListArray.from_arrays(pa.array([0, len(names)], pa.int64()), names)
    return pc.binary_join(whole, pa.scalar("\n", pa.large_string()))[0].as_buffer()


def most_operations() -> int:
    """Operations of a trace that is read."""
    return limit(LIMIT_VARIABLE, MOST_OPERATIONS)


def most_objects() -> int:
    """Objects of a trace that is read."""
    return _OBJECTS_EACH * (most_operations() + 1000)


def check_operations(where: str, operations: int) -> None:
    """Before a row is decoded.

    Raises: TraceError: more operations than the limit.
    """
    if operations > most_operations():
        raise TraceError(
            f"{where} has {operations:,} operations; at most {most_operations():,} are read, since each takes about "
            f"120 bytes of memory: set {LIMIT_VARIABLE}={operations} to read it all the same"
        )


def too_many(where: str, most: int, what: str) -> TraceError:
    """The error of a file that is counted while it is read."""
    return TraceError(
        f"{where} has more than {most:,} {what}; with so many it is not read, since all are in memory at once: set "
        f"{LIMIT_VARIABLE} to its number of operations to read it all the same"
    )


def _check_version(path: Path, footer: dict[bytes, bytes]) -> None:
    if _VERSION not in footer:
        raise TraceError(f"{path} is a Parquet file but no trace: it has no 'penstock.schema_version'")
    check_version(str(path), int(footer[_VERSION]))


def check_version(where: str, version: int) -> None:
    """Raises: TraceError: this penstock does not read that version of the format."""
    if 1 <= version <= SCHEMA_VERSION:
        return
    why = (
        "it was written by a newer version; upgrade penstock"
        if version > 1
        else "there is no such version; make it again"
    )
    raise TraceError(f"{where} has trace format {version} and this penstock reads 1 to {SCHEMA_VERSION}: {why}")


def _left_out(record: Row) -> dict[str, int]:
    counts = {OpKind(kind).value: int(count) for kind, count in dict(record).items()}
    if min(counts.values(), default=1) < 1:
        raise ValueError(f"left_out counts operations: {counts}")
    return counts


def meta_of(record: Row) -> TraceMeta:
    """Metadata from what `TraceMeta.to_dict` gives. Raises KeyError, TypeError, ValueError where it is none."""
    return TraceMeta(
        workload=str(record["workload"]),
        params=dict(record["params"]),
        reading=str(record["reading"]),
        size=str(record.get("size", "")),
        seed=None if record.get("seed") is None else int(record["seed"]),
        versions=dict(record.get("versions", {})),
        notes=tuple(map(str, record.get("notes", ()))),
        left_out=_left_out(record.get("left_out", {})),
        schema_version=int(record["schema_version"]),
    )
