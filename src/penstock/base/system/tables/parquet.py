"""Parquet tables from outside: the footer is checked before a row is decoded.

A few megabytes of Parquet may state billions of values: equal rows, one long text a million times, a list without an
end. Files of penstock are far from these bounds.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.base.system.files import FileError, write_atomic
from penstock.base.system.limits import address_limit, address_space_is_small
from penstock.base.system.outside import LIMIT_VARIABLE, limit, reason
from penstock.base.system.tables.seal import EMPTY, KEY, check_seal, seal
from penstock.base.system.tables.trial import OUT_OF_MEMORY
from penstock.base.system.workers import python_module
from penstock.errors import PenstockError

MOST_DECODED_BYTES = 2 * 2**30
"""Of a table as its pages decode, and of all its texts written out."""
CELLS_VARIABLE = "PENSTOCK_MOST_CELLS"
"""The environment variable that states another limit for the values of a table."""
MOST_CELLS = 20_000_000
"""Values of a table of which each becomes an object of Python, of some 60 bytes."""
_TRIAL_BYTES, _TRIAL_SHARE = 1 << 30, 4
"""Memory of a trial: so much, and so many times the decoded bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The table to read: its columns, and its largest number of values."""

    schema: pa.Schema
    """Columns with their types; a column of numbers may have another type of numbers in the file."""
    what: str
    """The name of such a table in messages: "table of benchmark results"."""
    remedy: str
    error: type[PenstockError]
    most_cells: int = MOST_CELLS
    """Rows times columns, and each element of a list besides."""
    variable: str = CELLS_VARIABLE
    partial: bool = False
    """Nullable columns may be missing, and are null then; the reader looks itself for nulls in the others."""


def read_table(path: Path, bounds: Bounds) -> pa.Table:
    """The columns of `bounds` of a Parquet file, in its types, with the file's metadata; other columns are not read.

    Raises: `bounds.error`: more values or longer texts than the bounds, a column that is missing or of another type, a
            file that is damaged or no Parquet. FileError: the system does not let it be read.
            MemoryError.
    """
    try:
        sealed = check_seal(path)
        footer = _footer(path)
        names = checked_columns(path, footer.schema.to_arrow_schema(), bounds)
        decoded_bytes = _check_footer(path, footer, names, bounds)
        if not sealed:
            _try_apart(path, names, decoded_bytes, bounds)
        # Texts stay numbers and a dictionary until it is known how long they are together.
        texts = [name for name in names if _is_text(bounds.schema.field(name).type)]
        table = _read(path, names, footer, texts)
        table.validate(full=True)
    except pa.ArrowMemoryError as error:  # of a class of its own: the file is not damaged
        raise MemoryError(str(error)) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise FileError(path, "read", error) from error  # the system refused: the file may be whole
        raise bounds.error(
            f"{path} is truncated, corrupt or no Parquet file ({reason(error)}); {bounds.remedy}"
        ) from error
    return conformed(path, table, bounds)


def _read(path: Path, columns: Sequence[str], footer: pq.FileMetaData, texts: Sequence[str]) -> pa.Table:
    """The columns of a file, `texts` as dictionaries, its pages held against their checksums.

    If the address space is small, the caller's thread reads alone: Arrow waits for ever for threads that it cannot
    start, or ends the process. The file is Arrow's own: one of Python's is let go by an Arrow thread, and such a thread
    ends a process that is about to exit.
    """
    threads = not address_space_is_small()
    options = {"metadata": footer, "read_dictionary": texts, "page_checksum_verification": True, "pre_buffer": threads}
    with pa.OSFile(os.fsencode(path)) as raw, pq.ParquetFile(raw, **options) as file:
        return file.read(columns=columns, use_threads=threads)


def read_metadata(path: Path) -> pq.FileMetaData:
    """The footer of a file.

    Raises: OSError: the file cannot be opened. pa.ArrowException, OSError, SealBroken: it is damaged or no Parquet
            file.
    """
    check_seal(path)
    return _footer(path)


def _footer(path: Path) -> pq.FileMetaData:
    with path.open("rb") as file:  # pyarrow itself opens names in UTF-8 alone
        return pq.read_metadata(file)


def _try_apart(path: Path, columns: Sequence[str], decoded_bytes: int, bounds: Bounds) -> None:
    """Decode a file without a seal in a separate process first.

    Raises: `bounds.error`: the decoder ended over it. MemoryError: the system, or 'ulimit -v', has too little memory.
    """
    most_bytes = _TRIAL_BYTES + _TRIAL_SHARE * decoded_bytes
    command = [*python_module("penstock.base.system.tables.trial"), str(path), str(most_bytes), *columns]
    ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if ended.returncode == 0:
        return
    if ended.returncode > 0 and address_limit() is not None:
        raise MemoryError("a process that tries a Parquet file has too little")
    how = {OUT_OF_MEMORY: "asked for more memory than its footer allows"}.get(
        ended.returncode, f"ended with status {ended.returncode}"
    )
    raise bounds.error(f"{path} is damaged: the process that decoded it {how}; {bounds.remedy}")


def write_table(table: pa.Table, path: Path, **options: str | bool) -> None:
    """Write a file with a seal, in place. `options` go to `pyarrow.parquet.ParquetWriter`. Raises: OSError."""
    with open_writer(path, table.schema, **options) as writer:
        writer.write_table(table)


def store_table(table: pa.Table, path: Path, **options: str | bool) -> None:
    """Write a file with a seal, which replaces another when it is whole.

    Raises: FileError: the disk is full, the folder not writable.
    """
    write_atomic(path, lambda temporary: write_table(table, temporary, **options), force=True)


@contextmanager
def open_writer(path: Path, schema: pa.Schema, **options: str | bool) -> Iterator[pq.ParquetWriter]:
    """Write a file in parts; it is sealed at the end. Raises: OSError."""
    with path.open("wb") as file, pq.ParquetWriter(file, schema, **options) as writer:
        yield writer
        writer.add_key_value_metadata({KEY: EMPTY})
    seal(path)


def conformed(path: Path, table: pa.Table, bounds: Bounds) -> pa.Table:
    """A table whose columns are checked, in the types of `bounds`.

    Raises: `bounds.error`: its texts are too long, or a value is not of its column's type.
    """
    _check_decoded(path, sum(map(_text_bytes, table.columns)), bounds)
    columns = []
    for field in bounds.schema:
        if field.name not in table.column_names:
            columns.append(pa.nulls(len(table), field.type))
            continue
        try:
            columns.append(table[field.name].cast(field.type))
            if columns[-1].null_count and not field.nullable and not bounds.partial:
                raise ValueError("it is null")
        except (pa.ArrowException, ValueError) as error:
            raise bounds.error(
                f"{path}: a value of column '{field.name}' is not of its type, {field.type} ({reason(error)}); "
                f"{bounds.remedy}"
            ) from error
    return pa.table(columns, schema=bounds.schema.with_metadata(table.schema.metadata))


def checked_columns(path: Path, schema: pa.Schema, bounds: Bounds) -> list[str]:
    """The names of the columns to read.

    Raises: `bounds.error`: one is missing, there twice, or of another type.
    """
    names = []
    for field in bounds.schema:
        times = schema.names.count(field.name)
        if times == 0 and bounds.partial and field.nullable:
            continue
        if times != 1:
            has = "has no column" if times == 0 else "has twice the column"
            raise bounds.error(f"{path} is not a {bounds.what}: it {has} '{field.name}'; {bounds.remedy}")
        kind = schema.field(field.name).type
        if not _is_like(kind, field.type):
            raise bounds.error(
                f"{path} is not a {bounds.what}: column '{field.name}' has type {str(kind)[:80]}, and its type is "
                f"{field.type}; {bounds.remedy}"
            )
        names.append(field.name)
    return names


def _is_like(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a type decodes to no more than the wanted one, and may be cast to it."""
    if pa.types.is_null(kind):
        return True
    if _is_text(wanted):
        return _is_text(kind)
    if pa.types.is_list(wanted):
        listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        return listed and _is_number(kind.value_type)
    return _is_number(kind)


def _is_text(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _check_footer(path: Path, footer: pq.FileMetaData, names: Sequence[str], bounds: Bounds) -> int:
    """The decoded bytes of the columns.

    Raises: `bounds.error`: more values or bytes than the bounds, or texts of unknown length.
    """
    chunks: list[pq.ColumnChunkMetaData] = [
        column
        for group in (footer.row_group(i) for i in range(footer.num_row_groups))
        for column in (group.column(i) for i in range(footer.num_columns))
        if column.path_in_schema.split(".")[0] in names
    ]
    check_cells(path, max(footer.num_rows * len(names), sum(chunk.num_values for chunk in chunks)), bounds)
    decoded_bytes = sum(chunk.total_uncompressed_size for chunk in chunks)
    _check_decoded(path, decoded_bytes, bounds)
    for chunk in chunks:
        if "DELTA_BYTE_ARRAY" in chunk.encodings:
            raise bounds.error(
                f"{path}: column '{chunk.path_in_schema}' is written as DELTA_BYTE_ARRAY, of which nobody knows how "
                f"long its texts are before they are decoded; write it with a dictionary, or {bounds.remedy}"
            )
    return decoded_bytes


def check_cells(path: Path, cells: int, bounds: Bounds) -> None:
    """Raises: `bounds.error`: more values than the bounds."""
    most = limit(bounds.variable, bounds.most_cells)
    if cells > most:
        raise bounds.error(
            f"{path} has {cells:,} values; at most {most:,} are read of a {bounds.what}, since all are in memory at "
            f"once: {bounds.remedy}, or set {bounds.variable}={cells} to read it all the same"
        )


def _check_decoded(path: Path, size: int, bounds: Bounds) -> None:
    most = limit(LIMIT_VARIABLE, MOST_DECODED_BYTES)
    if size > most:
        raise bounds.error(
            f"{path} has {size:,} bytes decoded; at most {most:,} are read, since all are in memory at once: "
            f"{bounds.remedy}, or set {LIMIT_VARIABLE}={size} to read it all the same"
        )


def _text_bytes(column: pa.ChunkedArray) -> int:
    """The bytes that a column of names takes with each row's name written out; 0 of any other column."""
    if not pa.types.is_dictionary(column.type):
        return 0
    total = 0
    for chunk in column.chunks:
        lengths = np.asarray(pc.binary_length(chunk.dictionary).fill_null(0), dtype=np.int64)
        rows = np.asarray(chunk.indices.drop_null())
        total += int(lengths[rows].sum())
    return total
