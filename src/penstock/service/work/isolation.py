"""What a worker may not do, by the kernel's word: applied at its start, before it reads anything of others.

Each measure is taken where the kernel has it, and never fails where it has not; `apply` says which hold. They bind the
calling thread and all that it starts later, so nothing else may run before.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from penstock.base.system.workers import no_core_files

_PR_SET_NO_NEW_PRIVS = 38
_MOST_FILES = 1024
"""Descriptors: a store opens segments as it reads."""

# Landlock; all architectures have these numbers.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULESET_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 1 << 1, 1 << 2, 1 << 3
_REMOVE_FILE, _MAKE_REG, _REFER, _TRUNCATE = 1 << 5, 1 << 8, 1 << 13, 1 << 14
_FILE_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 5: 16}
"""Kernel interface -> how many rights of files it knows, from bit 0 on."""
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_READ = _READ_FILE | _READ_DIR
_CHANGE = _READ | _WRITE_FILE | _TRUNCATE | _MAKE_REG | _REMOVE_FILE | _REFER
_NET_ABI, _SCOPE_ABI = 4, 6
_TCP = 0b11
_SCOPES = 0b11
"""Abstract sockets, and signals to processes outside."""

# Seccomp.
_SECCOMP, _SET_MODE_FILTER, _TSYNC = {"x86_64": 317, "aarch64": 277}, 1, 1
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS = 1, 38
_X32 = 0x40000000
_CLONE_THREAD = 0x00010000
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
"""Its flags lie in memory, which a filter cannot read: the C library falls back to `clone`."""
_CALLS: dict[str, dict[str, int]] = json.loads(Path(__file__).with_name("calls.json").read_text(encoding="utf-8"))
"""Refused system calls and their numbers, by architecture, and those that have one number on all of them. `io_uring`
opens sockets past the filter; keys are read by `pread` then."""


def apply(readable: Sequence[Path] = (), writable: Sequence[Path] = ()) -> dict[str, str]:
    """Take all measures that this kernel has: name -> `in force`, or why not.

    Args:   readable, writable: files and folders with all below them that the process needs.
    """
    protections = {"limits": _limits()}
    if not sys.platform.startswith("linux"):
        return {**protections, **dict.fromkeys(("no_new_privs", "landlock", "seccomp"), "not on this system")}
    library = ctypes.CDLL(None, use_errno=True)
    privileges = library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    protections["no_new_privs"] = "in force" if privileges == 0 else _why("prctl")
    protections["landlock"] = _landlock(library, readable, writable)
    protections["seccomp"] = _seccomp(library)
    return protections


def _why(what: str) -> str:
    return f"{what}: {os.strerror(ctypes.get_errno())}"


def _limits() -> str:
    no_core_files()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(_MOST_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return "in force: core files, descriptors"


def _landlock(library: ctypes.CDLL, readable: Sequence[Path], writable: Sequence[Path]) -> str:
    abi = library.syscall(_CREATE_RULESET, None, 0, _RULESET_VERSION)
    if abi < 1:
        return _why("this kernel has no Landlock")
    rights = (1 << _FILE_RIGHTS_BY_ABI[max(known for known in _FILE_RIGHTS_BY_ABI if known <= abi)]) - 1
    handled = struct.pack("QQQ", rights, _TCP if abi >= _NET_ABI else 0, _SCOPES if abi >= _SCOPE_ABI else 0)
    # Older kernels refuse a larger structure than they know, unless its end is zeros.
    size = 8 if abi < _NET_ABI else 16 if abi < _SCOPE_ABI else 24
    ruleset = library.syscall(_CREATE_RULESET, handled, size, 0)
    if ruleset < 0:
        return _why("Landlock")
    try:
        for paths, wanted in ((_libraries(), _READ | _EXECUTE), (readable, _READ), (writable, _CHANGE)):
            for path in paths:
                _allow(library, ruleset, path, wanted & rights)
        for device in (Path("/dev/null"), Path("/dev/urandom"), Path("/dev/zero")):
            _allow(library, ruleset, device, (_READ_FILE | _WRITE_FILE) & rights)
        if library.syscall(_RESTRICT_SELF, ruleset, 0):
            return _why("Landlock")
    finally:
        os.close(ruleset)
    return f"in force, version {abi}"


def _allow(library: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # it is not there, and so is never read
    try:
        if not path.is_dir():
            rights &= _ON_FILES
        library.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)


def _libraries() -> Iterable[Path]:
    """What the interpreter and its libraries read."""
    own = Path(__file__).resolve().parents[3]
    entries = [*sys.path, sys.prefix, sys.base_prefix, sys.exec_prefix, str(own)]
    system = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/proc/self", "/proc/cpuinfo"]
    machine = ["/proc/meminfo", "/proc/mounts", "/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm"]
    return [Path(path) for path in (*entries, *system, *machine) if str(path) and Path(path) != Path("/")]


def _seccomp(library: ctypes.CDLL) -> str:
    machine = platform.machine()
    if machine not in _SECCOMP or sys.byteorder != "little":
        return f"no filter is written for {machine}"
    denied = _CALLS[machine] | _CALLS["everywhere"]
    program = _filter(machine, denied)
    content = ctypes.create_string_buffer(program, len(program))

    class FilterProgram(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    given = FilterProgram(len(program) // 8, ctypes.addressof(content))
    if library.syscall(_SECCOMP[machine], _SET_MODE_FILTER, _TSYNC, ctypes.byref(given)):
        return _why("seccomp")
    return f"in force: {len(denied)} calls refused"


def _filter(machine: str, denied: Mapping[str, int]) -> bytes:
    """A BPF program: other architectures are killed, denied calls and new processes get EPERM, all else goes on."""
    load, equal, at_least, bits, answer = 0x20, 0x15, 0x35, 0x45, 0x06
    steps = [
        (load, 0, 0, 4),
        (equal, 1, 0, _AUDIT_ARCH[machine]),
        (answer, 0, 0, _KILL),
        (load, 0, 0, 0),
        (at_least, 0, 1, _X32),
        (answer, 0, 0, _ERRNO | _EPERM),
        (equal, 0, 1, _CLONE3),
        (answer, 0, 0, _ERRNO | _ENOSYS),
    ]
    for number in sorted(denied.values()):
        steps += [(equal, 0, 1, number), (answer, 0, 0, _ERRNO | _EPERM)]
    # Only threads: the flags are the first argument, its lower half.
    steps += [
        (equal, 0, 3, _CLONE[machine]),
        (load, 0, 0, 16),
        (bits, 1, 0, _CLONE_THREAD),
        (answer, 0, 0, _ERRNO | _EPERM),
        (answer, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
