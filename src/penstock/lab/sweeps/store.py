"""Finished chunks of a sweep, each a file with a checksum, and the one table that they become.

`chunks/00007.parquet` appears when chunk 7 is finished, whole or not at all; `results.parquet` and `results.csv` are
written from them, in the order of the points. Once `.complete` is there the chunks are deleted.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from penstock.base.runs.folder import RunFolder, check_written
from penstock.base.runs.record import read_ended
from penstock.base.runs.replaced import clear_parts
from penstock.base.system.files import file_sha256, os_errors, remove_leftovers, write_atomic
from penstock.base.system.outside import json_of, reason
from penstock.base.system.tables import parquet
from penstock.base.system.tables.parquet import Bounds, read_table
from penstock.base.types import Rows
from penstock.errors import PenstockError
from penstock.lab.sweeps.play import SCHEMA, Played
from penstock.lab.sweeps.points import Chunk, Plan
from penstock.scheme.play.rows import LIST, MORE_COLUMNS

FOLDER = "chunks"


class DamagedResults(PenstockError):
    """`results.parquet` is not the file that the sweep wrote."""


_AGAIN = "run the same 'penstock sweep' command again"
_BOUNDS = Bounds(
    schema=SCHEMA, what="table of sweep results", remedy=_AGAIN, error=DamagedResults, most_cells=100_000_000
)


class ChunkStore:
    """Chunks of one plan in one run folder that is open to write."""

    def __init__(self, run: RunFolder, plan: Plan) -> None:
        self.run, self.plan = run, plan
        self.folder = run.path / FOLDER
        with os_errors(self.folder, "create"):
            self.folder.mkdir(exist_ok=True)
        remove_leftovers(self.folder)
        self._done: dict[int, Played] = {}
        """Chunks on the disk, without their tables."""
        for chunk in plan.chunks:
            self._find(chunk)

    @property
    def missing(self) -> list[Chunk]:
        """Chunks that are not finished."""
        return [chunk for chunk in self.plan.chunks if chunk.index not in self._done]

    @property
    def skipped(self) -> Counter[tuple[str, str]]:
        """Of the plan and of all finished chunks."""
        return sum((played.skipped for played in self._done.values()), Counter(self.plan.skipped))

    @property
    def warnings(self) -> list[str]:
        return list(dict.fromkeys(text for i in sorted(self._done) for text in self._done[i].warnings))

    def put(self, played: Played) -> None:
        """Store a finished chunk."""
        digest = self.plan.chunks[played.index].digest
        described = played.table.replace_schema_metadata(
            {
                "penstock.rows_sha256": _digest(played.table),
                "penstock.points": digest,
                "penstock.skipped": json.dumps([[*key, count] for key, count in played.skipped.items()]),
                "penstock.warnings": json.dumps(played.warnings),
            }
        )
        parquet.store_table(described, self._path(played.index), compression="zstd", write_page_checksum=True)
        self._remember(played)

    def write_results(self) -> int:
        """Write `results.parquet` and `results.csv` from the chunks that are finished; returns their rows."""
        rows = 0

        def rows_of(path: Path) -> None:
            nonlocal rows
            with parquet.open_writer(path, SCHEMA, compression="zstd", write_page_checksum=True) as writer:
                for table in self._tables():
                    writer.write_table(table)
                    rows += table.num_rows

        def text(path: Path) -> None:
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(SCHEMA.names)
                for table in self._tables():
                    columns = [column.to_pylist() for column in table.columns]
                    writer.writerows(["" if v is None else v for v in row] for row in zip(*columns, strict=True))

        write_atomic(self.run.path / "results.parquet", rows_of, force=True)
        write_atomic(self.run.path / "results.csv", text, force=True)
        self.run.note_artifact("results.parquet")
        return rows

    def finish(self) -> int:
        """Write the results, mark the run complete, delete the chunks; returns the number of rows."""
        rows = self.write_results()
        expected = self.plan.num_points - sum(self.skipped.values()) + sum(self.plan.skipped.values())
        if rows != expected or self.missing:
            raise PenstockError(
                f"{self.run.path} has {rows} rows for {expected} points: please report it; the same command goes on"
            )
        self.run.mark_complete(num_rows=rows, sha256=file_sha256(self.run.path / "results.parquet"))
        clear_parts(self.folder)
        return rows

    def _find(self, chunk: Chunk) -> None:
        path = self._path(chunk.index)
        if not path.is_file():
            return
        try:
            self._remember(_read(path, chunk))
        except (DamagedResults, AttributeError, KeyError, TypeError, ValueError) as error:
            with os_errors(path, "delete"):
                path.unlink(missing_ok=True)
            self.run.warn(
                f"chunk {chunk.index} was damaged ({reason(error)}); it was repeated",
                "check the disk if this comes back",
            )

    def _remember(self, played: Played) -> None:
        self._done[played.index] = replace(played, table=SCHEMA.empty_table())

    def _tables(self) -> Iterator[pa.Table]:
        for index in sorted(self._done):
            yield _read(self._path(index), self.plan.chunks[index]).table

    def _path(self, index: int) -> Path:
        return self.folder / f"{index:05d}.parquet"


def read_results(path: Path) -> pa.Table:
    """The rows of a sweep's folder, (points,) with the columns of `SCHEMA`; of an unfinished one those written so far.

    Raises: DamagedResults: the file is not the one that was written. DamagedRun: `.complete` cannot be read.
    """
    file = path / "results.parquet"
    if (path / ".complete").is_file():
        stated = read_ended(path).get("sha256")
        if not isinstance(stated, str):
            raise DamagedResults(f"{path / '.complete'}: it states no checksum of {file.name}; delete it and {_AGAIN}")
        if file_sha256(file) != stated:
            raise DamagedResults(
                f"{file}: its checksum is not the one in .complete: it was changed or damaged; delete it and {_AGAIN}"
            )
    check_written(file)
    try:
        return _with_columns(read_table(file, replace(_BOUNDS, partial=True)))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DamagedResults(f"{file} cannot be read ({reason(error)}); delete it and {_AGAIN}") from error


def unpacked(path: Path, table: pa.Table) -> Rows:
    """Rows of `read_results` whose lists are no longer JSON.

    Raises: DamagedResults: a cell holds none.
    """
    rows: Rows = table.to_pylist()
    for name in (column.name for column in MORE_COLUMNS if column.kind == LIST):
        for row in rows:
            if row[name] is not None:
                row[name] = _listed(path, name, row[name])
    return rows


def _listed(path: Path, name: str, text: str) -> object:
    try:
        return json_of(text)
    except ValueError as error:
        raise DamagedResults(
            f"{path}/results.parquet: column '{name}' holds no JSON ({error}); delete the folder and sweep again"
        ) from error


def _with_columns(table: pa.Table) -> pa.Table:
    """The table with the columns of `SCHEMA`; one that an earlier release did not write is null.

    Raises: ValueError, ArrowException: a column that every row needs is missing, null, or of another type.
    """
    columns = []
    for needed in SCHEMA:
        there = needed.name in table.column_names
        column = table[needed.name].cast(needed.type) if there else pa.nulls(table.num_rows, needed.type)
        if not needed.nullable and (not there or column.null_count):
            raise ValueError(f"it has no column '{needed.name}' without gaps")
        columns.append(column)
    return pa.table(columns, schema=SCHEMA)


def _read(path: Path, chunk: Chunk) -> Played:
    table = read_table(path, _BOUNDS)
    described = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
    table = table.replace_schema_metadata(None)
    if described["penstock.points"] != chunk.digest:
        raise ValueError("it holds other points")
    if _digest(table) != described["penstock.rows_sha256"]:
        raise ValueError("its checksum does not match")
    skipped: Counter[tuple[str, str]] = Counter()
    for what, why, count in json_of(described["penstock.skipped"]):
        skipped[what, why] += count
    return Played(
        index=chunk.index, table=table, skipped=skipped, warnings=tuple(json_of(described["penstock.warnings"]))
    )


def _digest(table: pa.Table) -> str:
    """Of the rows, independent of how Parquet lays them out."""
    columns = [column.to_pylist() for column in table.columns]
    return hashlib.sha256(json.dumps(columns).encode()).hexdigest()
