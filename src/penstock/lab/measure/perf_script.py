"""What `perf script` prints, as in perf-script(1): samples of stacks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """One function on a stack. `module` is the path of its binary, `[kernel.kallsyms]`, or `[unknown]`."""

    name: str
    module: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample of a thread: its stack from the root to the function that ran."""

    thread: int
    command: str
    time_s: float
    """On the machine's monotonic clock."""
    weight_s: float
    stack: tuple[Frame, ...]


_HEADER = re.compile(
    r"^(?P<comm>\S.*?)\s+(?:(?P<pid>\d+)/)?(?P<tid>\d+)\s+(?:\[\d+\]\s+)?(?P<time>\d+\.\d+):\s+"
    r"(?:(?P<period>\d+)\s+)?(?P<event>[\w.:/=,-]+?):?\s*$"
)
_FRAME = re.compile(r"^\s+(?P<ip>[0-9a-f]+)\s+(?P<symbol>.*?)(?:\s+\((?P<module>(?:[^()]|\([^()]*\))*)\))?\s*$")
_OFFSET = re.compile(r"\+0x[0-9a-f]+$")
NANOSECOND = 1e-9


def parse_script(lines: Iterable[str], period_s: float | None = None) -> Iterator[Sample]:
    """The samples of `perf script -F comm,tid,time,period,event,ip,sym,dso`, one by one.

    A sample weighs its period, which is in ns for `cpu-clock` and `task-clock`; for other events, or where the period
    is not printed, `period_s`, or 1 s.
    """
    header: re.Match[str] | None = None
    stack: list[Frame] = []

    def finish() -> Iterator[Sample]:
        if header is None:
            return
        period = header["period"]
        clock = header["event"].split(":")[0] in ("cpu-clock", "task-clock")
        weight = int(period) * NANOSECOND if period and clock else period_s if period_s is not None else 1.0
        yield Sample(
            thread=int(header["tid"]),
            command=header["comm"].strip(),
            time_s=float(header["time"]),
            weight_s=weight,
            stack=tuple(reversed(stack)),
        )

    for line in lines:
        if not line.strip():
            yield from finish()
            header, stack = None, []
        elif line[0].isspace() and header is not None:
            frame = _FRAME.match(line)
            if frame:
                symbol = _OFFSET.sub("", frame["symbol"].strip()) or "[unknown]"
                stack.append(Frame(symbol, _module(frame["module"])))
        elif not line.startswith("#"):
            yield from finish()
            header, stack = _HEADER.match(line), []
    yield from finish()


def _module(text: str | None) -> str:
    return (text or "[unknown]").removesuffix(" (deleted)")
