"""The files under a server: of its user alone, used by one server at a time, and with room kept for the end of things.

A lock goes with its process, however that ends; processes that it starts do not inherit it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from penstock.errors import PenstockError, UsageError
from penstock.service.state.problems import Problem

RESERVED_BYTES, _RESERVED_SHARE = 8 << 20, 16
"""Of the disk, or of a small one that part."""
_TRY_S, _PAUSE_S = 1.0, 0.05
"""How long a killed server may take to end, with its lock."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF)
_CHECKED_BYTES = 32 << 20
"""A larger database is not read whole at the start."""
_SIDES = ("", "-wal", "-shm", "-journal")
"""Files of a database of SQLite."""


class StateUnusable(PenstockError):
    """The database cannot be used: its server is gone, or it is damaged, or its tables are of another version."""

    exit_code = 2


class FolderRefused(UsageError):
    """The folder or the database is another server's or user's, or cannot be used."""


def owner_only(path: Path, say: Callable[[str], object], *, make: bool = False) -> Path:
    """Let nobody but this user read or write a file or folder; returns it without links.

    Args:   say: hears of a mode that was changed. make: a folder that is not there.
    Raises: FolderRefused: it is another user's, a link to a place of others, or its mode cannot be set.
    """
    try:
        if make:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        real = path.resolve(strict=True)
        if path.is_symlink():
            _check_link(path, real)
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if found.st_uid != os.geteuid():
                raise FolderRefused(
                    f"{path} belongs to user {found.st_uid}, and this server runs as {os.geteuid()}: run it as that "
                    f"user, or give it away with 'chown -R {os.geteuid()} {real}'"
                )
            mode = stat.S_IMODE(found.st_mode)
            if mode & 0o077 and (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
                os.fchmod(descriptor, mode & 0o700)
                if os.fstat(descriptor).st_mode & 0o077:
                    raise OSError(errno.EPERM, "its file system keeps no modes")
                say(f"{path} had mode {mode:04o}, so others could use it; it has {mode & 0o700:04o} now")
        finally:
            os.close(descriptor)
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or error
        raise FolderRefused(
            f"{path} cannot be kept for this user alone ({why}): run 'chmod -R go= {path}' as its owner, or name "
            "another place, on a disk that can be written"
        ) from error
    return real


def _check_link(link: Path, real: Path) -> None:
    """Raises: FolderRefused: others made the link, or can put something else in the place of what it leads to."""
    if link.lstat().st_uid not in (0, os.geteuid()):
        raise FolderRefused(f"{link} is a link of another user; name the place itself: {real}")
    for place in (real, *real.parents):
        found = place.stat()
        others = found.st_mode & 0o022 and not (place != real and found.st_mode & stat.S_ISVTX)
        if others or found.st_uid not in (0, os.geteuid()):
            raise FolderRefused(
                f"{link} leads to {real}, and others can write {place}: take that away with 'chmod go-w {place}', or "
                "name another place"
            )


class FileLock:
    """A lock of a file, held until `release` or the end of this process; the file says who holds it.

    Args:   folder: locked as well, since a file may be removed.
    Raises: FolderRefused: another server has it, or the file system has no locks.
    """

    def __init__(self, path: Path, what: str, folder: Path | None = None) -> None:
        self._descriptors: list[int] = []
        flags = os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._descriptors.append(os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600))
            self._take(self._descriptors[0], path, what)
            if folder is not None:
                self._descriptors.append(os.open(folder, os.O_RDONLY | flags))
                with suppress(OSError):  # some file systems lock no folder
                    self._take(self._descriptors[1], path, what)
            with suppress(OSError):  # the disk is full
                os.ftruncate(self._descriptors[0], 0)
                os.pwrite(self._descriptors[0], f"{who()}\n".encode(), 0)
        except OSError as error:
            self.release()
            if error.errno in _NO_LOCKS:
                raise FolderRefused(
                    f"the file system of {path} has no locks ({error.strerror}), so two servers could use {what} at "
                    "once: put it on a local disk, or mount it with locks"
                ) from error
            raise FolderRefused(
                f"{path} cannot be written ({error.strerror}): name a place that user {os.geteuid()} can write"
            ) from error
        except BaseException:
            self.release()
            raise

    def _take(self, descriptor: int, path: Path, what: str) -> None:
        ends = time.monotonic() + _TRY_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > ends:
                    holder = os.pread(self._descriptors[0], 200, 0).decode(errors="replace").strip()
                    raise FolderRefused(_in_use(what, holder or f"see {path}")) from None
                time.sleep(_PAUSE_S)
            else:
                return

    def release(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []


class DatabaseLock:
    """PostgreSQL's lock of a database, which goes with a connection that is kept.

    `ensure` takes it again where that connection broke. Where another server has it by then, this one has lost the
    database for good: `lost` says to whom.

    Raises: FolderRefused: another server has it. SQLAlchemyError: no answer.
    """

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        self._connection: sa.Connection | None = None
        self._turn, self._backend, self.lost = threading.Lock(), dict[str, object](), ""
        if not self._take():
            holder = self._holder()
            self.release()
            raise FolderRefused(_in_use("the database", holder))

    def ensure(self) -> None:
        """Raises: Problem: another server has the database now. SQLAlchemyError: no answer."""
        with self._turn:
            if not self.lost and not self._is_there() and not self._take():
                self.lost = self._holder()
        if self.lost:
            raise Problem(
                503, "another server uses the database now", remedy="use that one", kind="database", retry_after_s=5
            )

    def _is_there(self) -> bool:
        with suppress(SQLAlchemyError, OSError):  # the driver does not wrap a reset connection
            return self._connection is not None and bool(self._connection.execute(sa.text("select 1")).scalar())
        return False

    def _take(self) -> bool:
        """Connect, and whether the lock is ours. A connection of ours that only the database believes in is ended."""
        self._disconnect()
        self._connection = connection = self._engine.connect()
        for name, value in (("idle", 5), ("interval", 2), ("count", 3)):  # of a machine that lost its power
            connection.execute(sa.text(f"set tcp_keepalives_{name} = {value}"))
        which = "from pg_stat_activity where pid = :pid and backend_start = :backend_start"
        if self._backend:
            connection.execute(sa.text(f"select pg_terminate_backend(pid) {which}"), self._backend)
        lock = sa.text("select pg_try_advisory_lock(hashtext('penstock serve'), hashtext(current_schema()))")
        ends = time.monotonic() + _TRY_S
        while not connection.execute(lock).scalar():
            if time.monotonic() > ends:
                return False
            time.sleep(_PAUSE_S)
        own = sa.text("select pid, backend_start from pg_stat_activity where pid = pg_backend_pid()")
        self._backend = dict(connection.execute(own).mappings().one())
        return True

    def _holder(self) -> str:
        with suppress(SQLAlchemyError, OSError):
            if self._connection is not None:
                found = self._connection.execute(sa.text("select value from about where name = 'server'")).scalar()
                return str(found or "its name is not known")
        return "its name is not known"

    def _disconnect(self) -> None:
        with suppress(SQLAlchemyError, OSError):
            if self._connection is not None:
                self._connection.close()
        self._connection = None

    def release(self) -> None:
        self._disconnect()
        self._engine.dispose()


def who() -> str:
    """What names this server to the next one."""
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return f"process {os.getpid()} on {socket.gethostname()}, since {since}"


def _in_use(what: str, holder: str) -> str:
    return f"{what} is in use by another server ({holder}): stop that one first, or name another place"


def database_file(url: str) -> Path | None:
    """The file of a database of SQLite, without links; `None`: it has none. Raises: FolderRefused: a URI."""
    address = sa.engine.make_url(url)
    name = address.database or ":memory:"
    if address.get_backend_name() != "sqlite" or name == ":memory:":
        return None
    if name.startswith("file:"):
        raise FolderRefused("database: a URI of SQLite is not taken: write sqlite:///FILE")
    return Path(name).resolve()


def addresses(url: str) -> list[str]:
    """Words of a database's address that nobody else should read."""
    address = sa.engine.make_url(url)
    path = address.database if "/" in (address.database or "") else None
    return [word for word in (address.host, address.password, path) if word]


def hold_database(url: str, say: Callable[[str], object]) -> FileLock | DatabaseLock | None:
    """Lock a database, and let nobody else read its file. Raises: FolderRefused. SQLAlchemyError: no answer."""
    file = database_file(url)
    if file is None:
        return DatabaseLock(url) if url.startswith("postgresql") else None
    lock = FileLock(file.with_name(f"{file.name}.lock"), f"the database {file}")
    with suppress(FileExistsError):  # SQLite gives its other files the mode of this one
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    for side in _SIDES:
        if (beside := file.with_name(file.name + side)).exists():
            owner_only(beside, say)
    return lock


def check_database(file: Path, newest: int, tables: Collection[str]) -> None:
    """Look at a file of SQLite before anything in it is changed.

    Args:   newest: version of its tables that is known. tables: their names.
    Raises: StateUnusable: it is damaged, of another program, or of a newer version.
    """
    where, there = f"the state's database {file}", set[str]()
    if not file.exists() or not file.stat().st_size:
        return
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
            there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            whole = file.stat().st_size > _CHECKED_BYTES or connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if whole not in (True, "ok"):
                raise sqlite3.DatabaseError(str(whole).splitlines()[-1])
            row = None
            if "about" in there and there & set(tables) > {"about"}:
                row = connection.execute("SELECT value FROM about WHERE name = 'version'").fetchone()
    except (sqlite3.Error, OSError) as error:
        if is_full(file.parent):
            raise StateUnusable(f"{where} cannot be used ({error}): its disk is full; free some space") from error
        raise StateUnusable(
            f"{where} cannot be used, since it is damaged or cannot be read ({error}): restore it from a "
            "backup, together with its folder"
        ) from error
    if there and row is None and not there <= {*tables, "sqlite_sequence"}:
        raise StateUnusable(f"{where} holds tables of another program: name another file")
    if row is not None and not (row[0].isdigit() and int(row[0]) <= newest):
        raise StateUnusable(
            f"{where} has tables of version {row[0]}, and this penstock reads version {newest}: use the newer one"
        )


Asked = ParamSpec("Asked")
Found = TypeVar("Found")


class HasRoom(Protocol):
    """What has a method that gives the reserve up where the disk is full; it says whether there is more room now."""

    give_up_room: Callable[[], bool]


Roomy = TypeVar("Roomy", bound=HasRoom)


def also_if_full(write: Callable[Concatenate[Roomy, Asked], Found]) -> Callable[Concatenate[Roomy, Asked], Found]:
    """A method that ends or removes something: on a full disk it takes the room that is kept for it."""

    @wraps(write)
    def tried(state: Roomy, /, *args: Asked.args, **named: Asked.kwargs) -> Found:
        try:
            return write(state, *args, **named)
        except Problem:
            if not state.give_up_room():
                raise
            return write(state, *args, **named)

    return tried


class Reserve:
    """A file that is given up where the disk is full, so that ends and deletions can be written still."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def keep(self) -> bool:
        """Make the file where there is room for it and as much again; whether it is there."""
        size = _reserved(self._path.parent)
        if self._path.exists():
            return True
        if _free(self._path.parent) < 2 * size:
            return False
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, size)
            finally:
                os.close(descriptor)
        except OSError:
            self._path.unlink(missing_ok=True)
            return False
        return True

    def give_up(self) -> bool:
        """Whether there is more room now: the disk was full, and the file was there."""
        with suppress(OSError):
            if is_full(self._path.parent):
                self._path.unlink()
                return True
        return False


def is_full(folder: Path) -> bool:
    """Whether a disk has less room than is kept for deletions."""
    found = os.statvfs(folder)
    return _free(folder) < _reserved(folder) or bool(found.f_files and not found.f_favail)


def _free(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _reserved(folder: Path) -> int:
    found = os.statvfs(folder)
    return min(RESERVED_BYTES, found.f_blocks * found.f_frsize // _RESERVED_SHARE)
