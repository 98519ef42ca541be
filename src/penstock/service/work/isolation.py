"""What a worker may not do, by the kernel's word: applied at its start, before it reads anything of others.

Each measure is taken where the kernel has it, and never fails where it has not; `apply` says which hold. They bind the
calling thread and all that it starts later, so nothing else may run before. `crates/penstock-sandbox` has the calls.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from penstock.base.system.workers import no_core_files
from penstock.errors import UsageError
from penstock.service.work.messages import Message

_MOST_FILES = 1024
"""Descriptors: a store opens segments as it reads."""
_IS_LINUX = sys.platform.startswith("linux")
_MEASURES = ("user", "no_new_privs", "landlock", "seccomp")
_CAPABILITIES = 0b1_1100_0101
"""To give files to another user, read its files and become it: chown, dac_read_search, setgid, setuid, setpcap."""
_NOBODY = "nobody"
_NOBODYS_NUMBERS = 65534, 65534


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessBounds(Message):
    """Files and folders, each with all below it, that a process needs besides the libraries."""

    readable: tuple[Path, ...] = ()
    listed: tuple[Path, ...] = ()
    """Folders whose names are listed, and no file of which is read."""
    writable: tuple[Path, ...] = ()
    """Files are made, changed, renamed within their folder and removed."""
    user: tuple[int, int] | None = None
    """Numbers of the user and the group that a process of root becomes; `None`: it keeps its own."""
    is_examining: bool = False
    """It has one thread, and writes only to descriptors that it has."""


Bounds = ProcessBounds
"""As users of the module write it."""


def user_of(name: str) -> tuple[int, int] | None:
    """The numbers of the user and group that workers get; `None`: this process is not root's, or has not root's
    capabilities, as in a container, and workers keep its user.

    Raises: UsageError: there is no such user, or it is root.
    """
    if not _IS_LINUX or os.geteuid() != 0 or _permitted() & _CAPABILITIES != _CAPABILITIES:
        return None
    import pwd

    try:
        found = pwd.getpwnam(name)
    except KeyError:
        if name == _NOBODY:
            return _NOBODYS_NUMBERS
        raise UsageError(
            f"work.user = '{name[:100]}': this machine has no such user; make it, or name one that there is, such as "
            f"'{_NOBODY}'"
        ) from None
    if found.pw_uid == 0:
        raise UsageError(f"work.user = '{name[:100]}' is root, who may do everything; name another user")
    return found.pw_uid, found.pw_gid


def apply(bounds: ProcessBounds) -> dict[str, str]:
    """Take all measures that this kernel has: name -> `in force`, or why not. A few milliseconds after the first time.

    Also for a child of a fork that has one thread.
    """
    if not _IS_LINUX:
        return {"limits": _limits(), **dict.fromkeys(_MEASURES, "not on this system")}
    from penstock import _engine

    def filtered() -> str:
        return f"{_engine.sandbox_filter(is_examining=bounds.is_examining)} calls allowed"

    def confined() -> str:
        readable = [*_libraries(_around(bounds)), *map(str, bounds.readable)]
        reached = _engine.sandbox_confine_to(readable=readable, listed=bounds.listed, writable=bounds.writable)
        return f"version {reached}"

    user = "not in force: the server was not started as root with its capabilities, or the system gives no other user"
    if bounds.user is not None:
        numbers = bounds.user
        user = _taken(lambda: _engine.sandbox_become_user(*numbers), f"user {numbers[0]}")
    return {
        "user": user,
        # A new user may undo what holds for core files.
        "limits": _limits(),
        "no_new_privs": _taken(_engine.sandbox_no_new_privileges),
        "landlock": _taken(confined),
        "seccomp": _taken(filtered),
    }


def _taken(measure: Callable[[], str | None], more: str = "") -> str:
    try:
        said = measure() or more
    except OSError as error:
        return f"not in force: {error}"
    return f"in force, {said}" if said else "in force"


def lacking(user: tuple[int, int] | None) -> list[str]:
    """What does not hold for workers on this system, for people."""
    missing = []
    if not _IS_LINUX:
        return ["this system bounds no worker: it may do all that the server may"]
    from penstock import _engine

    if not _engine.sandbox_has_landlock():
        missing.append("no Landlock: workers are not bound to their folders, and reach what their user reaches")
    if "\nSeccomp:" not in Path("/proc/self/status").read_text(encoding="ascii", errors="replace"):
        missing.append("no seccomp: workers may use every system call")
    if user is None:
        missing.append("not started as root with its capabilities: workers run as the server's user")
    return missing


def _permitted() -> int:
    """The capabilities of this process, a bit each; 0: the system does not say."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("CapPrm:"):
            return int(line.split()[1], 16)
    return 0


def _limits() -> str:
    no_core_files()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(_MOST_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return "in force: core files, descriptors"


def _around(bounds: ProcessBounds) -> frozenset[Path]:
    """The folders in which those of a process lie: a path of Python's that is one of them holds more than libraries."""
    return frozenset(
        around for path in (*bounds.readable, *bounds.listed, *bounds.writable) for around in path.absolute().parents
    )


@lru_cache(maxsize=8)
def _libraries(held: frozenset[Path]) -> tuple[str, ...]:
    """What the interpreter and its libraries read."""
    entries = [Path(path).absolute() for path in (*sys.path, sys.prefix, sys.base_prefix, sys.exec_prefix) if path]
    own = Path(__file__).resolve().parents[2]
    system = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/proc/self", "/proc/cpuinfo"]
    machine = ["/proc/meminfo", "/proc/mounts", "/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm"]
    devices = ["/dev/null", "/dev/urandom", "/dev/zero"]
    found = [*(path for entry in entries for path in _outside(entry, held)), own]
    return (*(str(path) for path in found if path != Path("/")), *system, *machine, *devices)


def _outside(entry: Path, held: frozenset[Path]) -> Iterable[Path]:
    """A path of Python's; where the data lie below it, the packages and modules in it alone."""
    if entry not in held:
        return [entry]
    if not entry.is_dir():
        return []
    inside = [path for path in entry.iterdir() if path not in held]
    return [path for path in inside if (path / "__init__.py").is_file() or path.suffix in (".py", ".so")]
