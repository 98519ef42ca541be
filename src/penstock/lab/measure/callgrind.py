"""Instruction counts by function without hardware counters: valgrind's callgrind, about fifty times slower.

The file format is the one of valgrind's manual, "Callgrind Format Specification". Counts are exact and repeatable, for
the instructions that valgrind executes: it shows programs a processor without AVX-512.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.lab.measure.events import Unavailable
from penstock.lab.measure.stacks import module_name, short_name

SLOWDOWN = 60.0
"""Against the plain run, single-threaded; valgrind runs one thread at a time."""

INSTALL = Unavailable("valgrind is not installed", "apt install valgrind")
_NAME = re.compile(r"^\((\d+)\)(?:\s+(.*))?$")
_ADDRESS = re.compile(r"^0x[0-9a-f]+$")


@dataclass(frozen=True, slots=True)
class FunctionCount:
    """Instructions in one function itself."""

    function: str
    module: str
    instructions: int


@dataclass(frozen=True, slots=True)
class CallgrindCounts:
    """All instructions of the region, and those of each function in descending order."""

    instructions: int
    functions: tuple[FunctionCount, ...]


def parse_callgrind(lines: Iterable[str]) -> CallgrindCounts:
    """Instructions by function from a callgrind.out file.

    Functions without a name are added up by module. A line after `calls=` is the cost of the call, which the called
    function has already: it is passed over.
    Raises: ValueError: not a callgrind file, or one that does not count instructions (`Ir`).
    """
    names: dict[str, dict[str, str]] = {"fn": {}, "ob": {}}
    own: dict[tuple[str, str], int] = {}
    positions, column, events_seen = 1, 0, False
    function, module = "[unknown]", "[unknown]"
    call_follows = False

    def resolve(kind: str, text: str) -> str:
        match = _NAME.match(text)
        if not match:
            return text
        number, name = match.groups()
        if name:
            names[kind][number] = name
        return names[kind].get(number, "[unknown]")

    for line in lines:
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        key, equals, rest = line.partition("=")
        if equals and key in ("fn", "cfn", "ob", "cob", "fl", "fi", "fe", "cfi", "cfl", "calls", "jump", "jcnd"):
            if key in ("fn", "cfn"):  # a called function only gets its number here
                named = resolve("fn", rest)
                function = named if key == "fn" else function
            elif key in ("ob", "cob"):
                named = resolve("ob", rest)
                module = named if key == "ob" else module
            elif key in ("calls", "jump", "jcnd"):
                call_follows = True
            continue
        if line[0].isdigit() or line[0] in "+-*":
            if call_follows:
                call_follows = False
                continue
            fields = line.split()
            if len(fields) > positions + column:
                place = _place(function, module)
                own[place] = own.get(place, 0) + int(fields[positions + column])
            continue
        key, colon, rest = line.partition(":")
        if colon and key == "positions":
            positions = len(rest.split())
        elif colon and key == "events":
            if "Ir" not in rest.split():
                raise ValueError("the file counts no instructions (no event 'Ir')")
            column, events_seen = rest.split().index("Ir"), True
    if not events_seen:
        raise ValueError("not a callgrind file: it names no events")
    ranked = sorted(own.items(), key=lambda item: (-item[1], item[0]))
    return CallgrindCounts(
        sum(own.values()), tuple(FunctionCount(name, where, count) for (name, where), count in ranked if count)
    )


def _place(function: str, module: str) -> tuple[str, str]:
    where = module_name(module)
    if _ADDRESS.match(function) or function in ("???", "(below main)"):
        return "[unknown]", where
    name = re.sub(r"'\d+$", "", function)  # callgrind marks the depth of recursion
    return short_name(_without_arguments(name)), where


def _without_arguments(name: str) -> str:
    """A demangled name up to its argument list.

    >>> _without_arguments("lbcrypto::f(int, std::vector<int> const&)"), _without_arguments("A::operator()(int)")
    ('lbcrypto::f', 'A::operator()')
    """
    depth, i = 0, 0
    while i < len(name):
        literal = re.match(r"operator(\(\)|<<=?|>>=?|<=|>=|<|>|->)|\(anonymous namespace\)", name[i:])
        if literal:
            i += literal.end()
            continue
        if name[i] == "(" and not depth and i:
            return name[:i]
        depth += {"<": 1, ">": -1}.get(name[i], 0)
        i += 1
    return name


def missing() -> Unavailable | None:
    """Why callgrind cannot run here, or `None`."""
    if shutil.which("valgrind") is None or shutil.which("callgrind_control") is None:
        return INSTALL
    return None


def explain_end(returncode: int, log: str) -> Unavailable:
    """Why a program under valgrind ended early.

    >>> explain_end(-4, "").reason
    'valgrind does not know an instruction of the program (SIGILL), one of AVX-512 for example'
    """
    illegal = returncode in (-signal.SIGILL, 128 + signal.SIGILL)
    if illegal or "unrecognised instruction" in log or "Unrecognised instruction" in log:
        return Unavailable(
            "valgrind does not know an instruction of the program (SIGILL), one of AVX-512 for example",
            "a newer valgrind, or an OpenFHE built without -march=native",
        )
    if returncode in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return Unavailable("the program was killed under valgrind (out of memory?)", "take a smaller --size")
    lines = [line for line in log.splitlines() if line.strip()]
    return Unavailable(
        f"the program ended under valgrind with status {returncode}" + (f": {lines[-1].strip()}" if lines else ""),
        "take a smaller --size, or another valgrind",
    )


def switch(pid: int, state: str) -> bool:
    """Turn callgrind's instrumentation of a process `on` or `off`; `False` where it did not answer."""
    try:
        done = subprocess.run(
            ["callgrind_control", "-i", state, str(pid)], capture_output=True, text=True, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and "OK" in done.stdout
