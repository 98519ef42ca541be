"""Files that appear whole or not at all, and errors of the file system with their remedy."""

from __future__ import annotations

import atexit
import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

from penstock.errors import PenstockError, UsageError

TEMPORARY_PREFIX = ".tmp-penstock-"
"""Files with this prefix are unfinished: leftovers of killed processes."""
_OPEN = 64
"""Files that are open together to be synced."""
_DEAD_FILE = re.compile(re.escape(TEMPORARY_PREFIX) + r"(?:[a-z]+-)?(?P<pid>\d+)-[0-9a-f]+(?:\..*)?")
"""Of an unfinished file: perhaps a word, the number of the process, something random, and the final suffix."""

_REMEDIES: dict[int, tuple[str, str]] = {
    errno.ENOSPC: ("the disk is full", "free some space, or write to another disk"),
    errno.EDQUOT: ("the disk quota is used up", "free some space, or write to another disk"),
    errno.EFBIG: ("the file is larger than this process may write", "raise the limit with 'ulimit -f'"),
    errno.EROFS: ("the file system is read-only", "write to a folder on a writable file system"),
    errno.EACCES: ("permission denied", "write to a folder that you own, or change its permissions"),
    errno.EPERM: ("operation not permitted", "write to a folder that you own, or change its permissions"),
    errno.ENOENT: ("it does not exist", "check the path, or create the folder first"),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", "choose another path, or move that file away"),
    errno.EISDIR: ("it is a folder", "name a file"),
    errno.EEXIST: ("it exists already", "choose another path, or use --force"),
    errno.ENAMETOOLONG: ("the name is too long for the file system", "choose a shorter name"),
    errno.EIO: ("the disk reported an error", "check the disk, or write to another one"),
    errno.ENOMEM: ("out of memory", "free some, or raise the limit ('ulimit -v')"),
    errno.ELOOP: ("its links form a loop", "choose another path"),
}


class FileError(PenstockError):
    """The file system refused: a full disk, a folder that cannot be written, a broken disk."""

    def __init__(self, path: Path, doing: str, cause: OSError) -> None:
        self.path, self.errno = path, cause.errno
        what, remedy = _REMEDIES.get(cause.errno or 0, (cause.strerror or str(cause), "look at the path and try again"))
        if cause.errno == errno.ENOENT and path.parent != path and not path.parent.exists():
            what = f"the folder {path.parent} does not exist"
        if cause.errno == errno.ENOENT and doing == "read":
            remedy = "check the path"
            # A file that a person named and that is not there: a wrong request, as an unknown name is.
            self.exit_code = UsageError.exit_code
        super().__init__(f"cannot {doing} {path}: {what}; {remedy}")


class ForeignLink(PenstockError):
    """A file to write is a link that another user made: it could lead to any file of this user's."""

    def __init__(self, path: Path, link: Path) -> None:
        self.path = path
        super().__init__(
            f"cannot write {path}: {link} is a link of another user, and is not followed; name the file itself, or "
            "remove the link"
        )


class WouldOverwrite(UsageError):
    """The target exists, and nobody said that it may be replaced."""

    def __init__(self, path: Path, force: str = "use --force") -> None:
        self.path = path
        super().__init__(f"{path} exists: it is not overwritten; choose another path, or {force}")


def readable(text: str) -> str:
    """A name for people and for files in UTF-8: bytes of it that are not UTF-8 are escaped.

    >>> readable("caf" + chr(0xDCE9))
    'caf\\\\udce9'
    """
    return text.encode(errors="backslashreplace").decode()


@contextmanager
def os_errors(path: Path, doing: str = "write") -> Iterator[None]:
    """Turn an `OSError` inside the block into a `FileError` that names `path` and the remedy."""
    try:
        yield
    except OSError as error:
        raise FileError(path, doing, error) from error


def write_atomic(
    path: Path,
    write: Callable[[Path], None] | bytes,
    *,
    force: bool = False,
    mode: int = 0o666,
    is_synced: bool = True,
) -> None:
    """Write a file that appears under its name only when it is whole and on the disk.

    The content goes to a temporary name in the same folder, is synced, and is then renamed; after any failure the final
    name holds its old content. A device or pipe (`/dev/stdout`) is written directly. Links are followed, except those
    of other users.

    Args:   path: the final name; its folder must exist. write: the bytes, or a function that writes the file at
            the path that it is given (same suffix as `path`). force: replace an existing file. mode: who may read
            the file, from its first byte on, less the process's mask. is_synced: without it the file is whole for every
            process, also after this one is killed, and the caller syncs it against a loss of power.
    Raises: WouldOverwrite: `path` exists and `force` is false. ForeignLink. FileError: the file system refused.
    """
    path = Path(path)
    with os_errors(path):
        there = _target_mode(path)
        if there is not None and not stat.S_ISREG(there):
            device = _opened(path, os.O_WRONLY, kind=stat.S_IFMT(there))
            try:
                _fill(path, write, device)
            finally:
                os.close(device)
            return
        with UnfinishedFile(path, force=force, mode=mode) as file:
            _fill(file.temporary, write, file.descriptor)
            file.publish(is_synced=is_synced)


class UnfinishedFile:
    """A file that is written under a temporary name, and has its own once it is whole; as `write_atomic`, in steps.

    A context manager. Write `temporary`, then call `publish`; without it the end removes the file. A child of
    a fork that leaves the block removes nothing.
    """

    def __init__(self, path: Path, *, force: bool = False, mode: int = 0o666) -> None:
        """Args: as of `write_atomic`. Raises: WouldOverwrite; ForeignLink; UsageError: a device; FileError."""
        self.path, self.force, self._process = path, force, os.getpid()
        with os_errors(path):
            there = _target_mode(path)
            if there is not None and not stat.S_ISREG(there):
                raise UsageError(f"cannot write {path}: it is a device or a pipe; name an ordinary file")
            if there is not None and not force:
                raise WouldOverwrite(path)
            self._target = path.resolve() if path.is_symlink() else path
            remove_dead_files(self._target.parent.absolute())
            name = f"{TEMPORARY_PREFIX}{os.getpid()}-{os.urandom(6).hex()}{self._target.suffix}"
            self.temporary = self._target.with_name(name)
            # A name that is there already, a link above all, is never written to.
            self.descriptor = _opened(self.temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
            with suppress(OSError):  # some file systems lock nothing
                fcntl.flock(self.descriptor, fcntl.LOCK_EX)  # says to other machines' processes, too, that it is in use

    def publish(self, *, is_synced: bool = True) -> None:
        """Sync the file and give it its name. Raises: WouldOverwrite; FileError."""
        with os_errors(self.path):
            if is_synced:
                sync(self.temporary)
            _publish(self.temporary, self._target, self.force)
            with suppress(OSError):
                self.temporary.unlink(missing_ok=True)
            if is_synced:
                sync_folder(self._target.parent)

    def __enter__(self) -> UnfinishedFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self.descriptor >= 0:
            if self._process == os.getpid():
                with suppress(OSError):
                    self.temporary.unlink(missing_ok=True)
            os.close(self.descriptor)
            self.descriptor = -1


def _target_mode(path: Path) -> int | None:
    """The mode of the file at a name to write, `None` where there is none."""
    _check_links(path)
    mode = _mode(path)
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return mode


def check_target(path: Path, *, force: bool = False) -> None:
    """Ahead of long work: whether `write_atomic` could write `path` after it, as far as one can know without writing.

    Args:   force: an existing file may be replaced.
    Raises: WouldOverwrite: `path` exists and `force` is false. ForeignLink. FileError: no such folder, or none to write
            into.
    """
    with os_errors(path):
        mode = _target_mode(path)
        if mode is not None and not stat.S_ISREG(mode):
            return
        if mode is not None and not force:
            raise WouldOverwrite(path)
        folder = (path.resolve() if path.is_symlink() else path).parent
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        if not os.access(folder, os.W_OK | os.X_OK):
            reason = errno.EROFS if os.statvfs(folder).f_flag & os.ST_RDONLY else errno.EACCES
            raise OSError(reason, os.strerror(reason), str(path))


def sync(path: Path) -> None:
    """Wait until the content of `path` is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(paths: Iterable[Path]) -> None:
    """As `sync` of each, in a fraction of its time: files that are gone are left out.

    All are on their way before the first is waited for, so one commit of the file system serves many.
    """
    left = iter(paths)
    while group := list(islice(left, _OPEN)):
        with ExitStack() as stack:
            descriptors = []
            for path in group:
                with suppress(FileNotFoundError):
                    descriptors.append(os.open(path, os.O_RDONLY))
                    stack.callback(os.close, descriptors[-1])
            if hasattr(os, "posix_fadvise"):
                for descriptor in descriptors:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)  # what is written leaves no sooner
            for descriptor in descriptors:
                os.fsync(descriptor)


def file_sha256(path: Path) -> str:
    """SHA-256 of the content of a file, in hexadecimal digits. Raises: FileError."""
    import hashlib  # at use: each command loads this file

    digest = hashlib.sha256()
    with os_errors(path, "read"), path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


@contextmanager
def unfinished_folder(parent: Path) -> Iterator[Path]:
    """A private folder for content that is renamed when it is whole; the end removes the rest."""
    with held_folder(parent / f"{TEMPORARY_PREFIX}{os.getpid()}-{os.urandom(6).hex()}") as made:
        yield made


def place_whole(made: Path, folder: Path) -> bool:
    """Rename a whole folder; `False`: files lie in `folder` already, and stay. Raises: FileError."""
    with os_errors(folder):
        try:
            made.rename(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return False
        sync_folder(folder.parent)
    return True


@contextmanager
def held_folder(folder: Path) -> Iterator[Path]:
    """Make a folder of this process's user alone, locked so that `remove_dead` sees its use. It goes at the end.

    The process that made it removes it: a child of a fork that leaves the block does not.
    Args:   folder: its name has the number of this process in it, and something that nobody foresees.
    Raises: FileError: it cannot be made.
    """
    descriptor = None
    _HELD[folder] = os.getpid()
    try:
        with os_errors(folder):
            folder.mkdir(mode=0o700)
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        with suppress(OSError):  # some file systems lock no folder
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # says to other machines' processes, too, that it is in use
        yield folder
    finally:
        if _HELD.get(folder) == os.getpid():
            _remove_tree(folder, ignore_errors=True)
            if not folder.exists():
                _HELD.pop(folder, None)
        if descriptor is not None:
            os.close(descriptor)


_HELD: dict[Path, int] = {}
"""Folders that are held -> the process that made them."""


@atexit.register
def _remove_held() -> None:
    """Folders whose block an interrupt ended before it began, or in which a child process wrote until now."""
    for folder, process in _HELD.items():
        if process == os.getpid():
            _remove_tree(folder, ignore_errors=True)


UNFINISHED = re.compile(re.escape(TEMPORARY_PREFIX) + r"(?:[a-z]+-)?(?P<pid>\d+)-[0-9a-z_]+")
"""Names of unfinished folders, with the number of their process."""


def remove_dead(folder: Path, named: re.Pattern[str] = UNFINISHED) -> list[Path]:
    """Delete the folders that killed processes of this user left in `folder`; folders of live processes stay.

    Args:   named: the form of their whole names, with a group `pid`, the number of the process.
    """
    gone = list[Path]()
    for left in _dead(folder, named):
        with suppress(OSError), _locked(left, os.O_DIRECTORY, stat.S_ISDIR):
            _remove_tree(left)
            gone.append(left)
    return gone


def _dead(folder: Path, named: re.Pattern[str]) -> list[Path]:
    """What lies in a folder under such a name, of processes that have ended."""
    try:
        with os.scandir(folder) as entries:
            names = [(Path(entry.path), name) for entry in entries if (name := named.fullmatch(entry.name))]
    except OSError:
        return []
    return [left for left, name in names if not _is_alive(int(name["pid"]))]


@contextmanager
def _locked(left: Path, flags: int, is_kind: Callable[[int], bool]) -> Iterator[None]:
    """Hold the lock of a leftover of this user's. Raises: OSError: it is another's, of another kind, or in use."""
    descriptor = os.open(left, os.O_RDONLY | os.O_NOFOLLOW | flags)
    try:
        state = os.fstat(descriptor)
        if state.st_uid != os.geteuid() or not is_kind(state.st_mode):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(left))
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _remove_tree(folder: Path, *, ignore_errors: bool = False) -> None:
    try:
        import shutil  # at use: it loads every compression, and each command loads this file

        shutil.rmtree(folder, ignore_errors=ignore_errors)
    except KeyboardInterrupt:
        # Secrets may lie in the rest: it goes first, and then the process may end.
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
        raise


@lru_cache(maxsize=64)
def remove_dead_files(folder: Path) -> None:
    """Delete the temporary files that killed processes of this user left in `folder`: once, by its absolute path."""
    for left in _dead(folder, _DEAD_FILE):
        with suppress(OSError), _locked(left, os.O_NONBLOCK, stat.S_ISREG):
            left.unlink()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def remove_leftovers(folder: Path) -> int:
    """Delete the temporary files and folders that a killed process left in `folder`; returns how many."""
    leftovers = sorted(folder.glob(f"{TEMPORARY_PREFIX}*"))
    for leftover in leftovers:
        with os_errors(leftover, "delete"):
            if leftover.is_dir() and not leftover.is_symlink():
                _remove_tree(leftover)
            else:
                leftover.unlink(missing_ok=True)
    return len(leftovers)


def _mode(path: Path) -> int | None:
    """The mode of what `path` leads to, `None` where nothing is there."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _check_links(path: Path) -> None:
    """Raises: ForeignLink: one of the links from `path` on is another user's, and not root's."""
    link, seen = path, set[Path]()
    while link.is_symlink() and link not in seen:  # a loop shows where the file is looked at
        if link.lstat().st_uid not in (0, os.geteuid()):
            raise ForeignLink(path, link)
        seen.add(link)
        link = link.parent / link.readlink()


def _opened(path: Path, flags: int, mode: int = 0o666, *, kind: int = stat.S_IFREG) -> int:
    """A descriptor of a file that is of this kind still."""
    descriptor = os.open(path, flags, mode)
    if stat.S_IFMT(os.fstat(descriptor).st_mode) != kind:
        os.close(descriptor)
        raise OSError(errno.ESTALE, "it has changed since it was looked at", str(path))
    return descriptor


def _fill(path: Path, write: Callable[[Path], None] | bytes, descriptor: int) -> None:
    if callable(write):
        write(path)
        return
    rest = memoryview(write)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _publish(temporary: Path, target: Path, force: bool) -> None:
    if force:
        temporary.replace(target)
        return
    # A hard link, unlike a rename, fails when another process has created the target in the meantime.
    try:
        target.hardlink_to(temporary)
    except FileExistsError:
        raise WouldOverwrite(target) from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        temporary.replace(target)


def sync_folder(folder: Path) -> None:
    """Make the rename itself durable; file systems that cannot sync a folder are left alone."""
    try:
        sync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES):
            raise
