"""A database in SQLite or PostgreSQL: its transactions, and when they are on the disk."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from penstock.base.system.files import sync_folder
from penstock.base.types import Row, Rows, RowView
from penstock.service.state import tables
from penstock.service.state.folder import DatabaseLock, StateUnusable, check_database, database_file
from penstock.service.state.problems import Problem
from penstock.service.state.tables import about
from penstock.service.state.tables import has as _has

_MOST_KEPT = 4096
BUSY_S = 10.0
"""The longest wait for a lock of SQLite."""
VERSION = 1
"""Of the tables. A state of another version is refused."""


class StateDatabase:
    """Connections and transactions. Thread safe.

    Args:   url: of SQLAlchemy; lock: without which no connection is used.
    Raises: StateUnusable: no database, a damaged one, or one of another program or version.
    """

    def __init__(self, url: str, lock: DatabaseLock | None = None) -> None:
        self._is_sqlite = url.startswith("sqlite")
        self._turn = threading.Lock()
        """Of writers of SQLite, which otherwise sleep between their tries."""
        self._settling, self._syncing, self._asked, self._settled = threading.Lock(), threading.Lock(), 0, 0
        self._log_inode = -1
        self._kept: dict[tuple[object, ...], Row] = {}
        self._changes, self._keeping = 0, threading.Lock()
        """Rows of tokens and programs, until one of them changes: SQLite's are changed by this process alone."""
        more: Row = {"connect_args": {"timeout": BUSY_S}} if self._is_sqlite else {"pool_pre_ping": True}
        self._engine = sa.create_engine(url, pool_size=8, max_overflow=24, **more)
        if self._is_sqlite:
            sa.event.listen(self._engine, "connect", tables.as_we_use_sqlite)
            sa.event.listen(self._engine, "begin", tables.begin_sqlite)
        if lock is not None:
            sa.event.listen(self._engine, "connect", lambda *_: lock.ensure())
        if (file := database_file(url)) is not None:
            check_database(file, VERSION, list(tables.metadata.tables))
        try:
            tables.make_tables(self._engine)
            with self._writing() as connection:
                version = connection.execute(sa.select(about.c.value).where(about.c.name == "version")).scalar()
                if version is None:
                    connection.execute(sa.insert(about).values(name="version", value=str(VERSION)))
        except (SQLAlchemyError, sqlite3.Error, Problem) as error:
            self._engine.dispose()
            raise StateUnusable(f"the state's database cannot be used ({_said(error)}); check its address") from error
        if version not in (None, str(VERSION)):
            self._engine.dispose()
            raise StateUnusable(f"the state has tables of version {version}, and this penstock reads version {VERSION}")

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with _outages(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self, *, soon: bool = False) -> Iterator[sa.Connection]:
        turn = self._turn if self._is_sqlite else nullcontext()
        with turn, _outages(), self._engine.connect().execution_options(writes=True) as connection, connection.begin():
            yield connection
        if not soon:  # after the turn: the disk keeps no other writer waiting
            with _outages():
                self.settle()

    def settle(self) -> None:
        """Return when all that was written before is on the disk. Calls that wait together sync once.

        SQLite's log is synced from here: a transaction that did it would keep all other ones waiting.
        Raises: OSError.
        """
        if not self._is_sqlite:
            return
        with self._settling:
            self._asked += 1
            mine = self._asked
        with self._syncing:
            with self._settling:
                upto = self._asked
            if self._settled < mine:
                log = Path(f"{self._engine.url.database}-wal")
                with suppress(FileNotFoundError):  # all of it is in the database's file, which SQLite has synced
                    self._sync_log(log)
                self._settled = upto

    def _sync_log(self, log: Path) -> None:
        descriptor = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(descriptor)
            inode = os.fstat(descriptor).st_ino
        finally:
            os.close(descriptor)
        if inode != self._log_inode:
            sync_folder(log.parent)
            self._log_inode = inode

    def note(self, name: str, value: str, *, soon: bool = False) -> None:
        """Keep a word about the state itself."""
        with self._writing(soon=soon) as connection:
            note_word(connection, name, value)

    def noted(self, name: str) -> str | None:
        """A word that was kept; `None`: there is none."""
        row = self._row(about, name=name)
        return None if row is None else row["value"]

    def _rows(self, query: sa.Executable) -> Rows:
        with self._reading() as connection:
            return [tables.read(dict(row)) for row in connection.execute(query).mappings()]

    def _row(self, table: sa.Table, **same: object) -> Row | None:
        """The row with these values; `None`: there is none."""
        rows = self._rows(sa.select(table).where(_has(table, same)))
        return rows[0] if rows else None

    def _kept_row(self, table: sa.Table, **same: object) -> Row | None:
        """The row of a token or a program, which requests ask for again and again."""
        name = tuple(same.values())
        row, changes = self._kept.get(name), self._changes
        if row is None:
            row = self._row(table, **same)
            with self._keeping:
                if row is not None and self._is_sqlite and changes == self._changes and len(self._kept) < _MOST_KEPT:
                    self._kept[name] = row
        return row

    @contextmanager
    def _changing(self) -> Iterator[sa.Connection]:
        """As `_writing`, of tokens or programs."""
        try:
            with self._writing() as connection:
                yield connection
        finally:
            with self._keeping:
                self._changes += 1
                self._kept.clear()

    def _update(self, table: sa.Table, same: RowView, *, soon: bool = False, **values: object) -> None:
        with self._writing(soon=soon) as connection:
            connection.execute(sa.update(table).where(_has(table, same)).values(**values))

    def _delete(self, table: sa.Table, **same: object) -> None:
        with self._writing() as connection:
            connection.execute(sa.delete(table).where(_has(table, same)))

    def check(self) -> None:
        """Raises: Problem: the database does not answer."""
        self._rows(sa.select(about.c.value))


def note_word(connection: sa.Connection, name: str, value: str) -> None:
    same = about.c.name == name
    if not connection.execute(sa.update(about).where(same).values(value=value)).rowcount:
        connection.execute(sa.insert(about).values(name=name, value=value))


def _said(error: Exception) -> str:
    return str(getattr(error, "orig", error))[:200]


@contextmanager
def _outages() -> Iterator[None]:
    """A database that is gone, locked or full is a refusal of this request alone."""
    try:
        yield
    except IntegrityError:
        raise
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        full = "disk is full" in str(error)
        raise Problem(
            507 if full else 503,
            "the server's database is full" if full else "the server's database does not answer",
            remedy="come again later",
            kind="database",
            retry_after_s=5,
        ) from error
