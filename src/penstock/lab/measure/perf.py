"""Linux perf: why it fails, and counting or sampling a process only while told to.

Control by named pipes is as in perf-stat(1), `--control` (Linux 5.10 and newer).
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.base.system import toml
from penstock.base.types import Rows
from penstock.errors import PenstockError
from penstock.lab.measure.events import EventRow, Processor, Unavailable, base_name, group, unique, unknown_event
from penstock.lab.measure.grouping import grouped
from penstock.lab.measure.perf_stat import SEPARATOR, parse_stat, to_rows, why_nothing

INSTALL = Unavailable(
    "perf is not installed",
    "apt install linux-perf (Debian), apt install linux-tools-generic linux-tools-$(uname -r) (Ubuntu)",
)

FAILURES: Rows = toml.packaged("penstock.lab.measure", "perf.toml")["failures"]
"""What perf says where it fails, the reason, and the remedy."""

# Why perf fails.


def explain_failure(returncode: int | None, stderr: str, event: str = "") -> Unavailable:
    """The reason and the remedy behind a perf that ended with an error.

    >>> explain_failure(255, "Access to performance monitoring and observability operations is limited.").remedy
    'sysctl -w kernel.perf_event_paranoid=1 (as root); in a container also --cap-add PERFMON'
    """
    if returncode is None:
        return INSTALL
    for failure in FAILURES:
        if any(phrase in stderr for phrase in failure["says"]):
            if event and "of_event" in failure:
                return unknown_event(event)
            return Unavailable(failure["reason"].format(paranoid=_paranoid()), failure["remedy"])
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    reason = lines[-1] if lines else f"exit status {returncode}"
    return Unavailable(f"perf failed: {reason}", "install the perf of the running kernel (linux-tools-$(uname -r))")


def _paranoid() -> str:
    try:
        level = Path("/proc/sys/kernel/perf_event_paranoid").read_text().strip()
    except OSError:
        level = ""
    return f" (kernel.perf_event_paranoid is {level})" if level else ""


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C", "PERF_BUILDID_DIR": os.devnull}


class Perf:
    """The perf of this machine: which events it and the processor have."""

    def __init__(self, processor: Processor | None = None, binary: str | None = None) -> None:
        self.processor = processor or Processor.here()
        self.binary = binary or shutil.which("perf")

    def missing(self) -> Unavailable | None:
        """Why perf cannot be used at all, or `None`."""
        if self.binary is None:
            return INSTALL
        code, _, stderr = self._run("stat", "-x", SEPARATOR, "-e", "task-clock", "--", "true")
        return None if code == 0 else explain_failure(code, stderr)

    def choose(self, asked: Sequence[str]) -> ChosenEvents:
        """Which of these events can be counted, under which name, and why the others cannot."""
        asked = unique(asked)
        lacking = self.missing()
        if lacking is not None:
            return ChosenEvents(asked, [], dict.fromkeys(asked, lacking), {})
        states = self._probe(asked)
        names: list[str] = []
        missing: dict[str, Unavailable] = {}
        counted_as: dict[str, str] = {}
        for event in asked:
            why = states[event]
            if why is not None and self.processor.has_counters:
                for name in self.processor.fallbacks(event):
                    if self._probe([name])[name] is None:
                        counted_as[event], why = name, None
                        break
            if why is None:
                names.append(counted_as.get(event, event))
            else:
                missing[event] = why
        return ChosenEvents(asked, unique(names), missing, counted_as)

    def _probe(self, events: Sequence[str]) -> dict[str, Unavailable | None]:
        """For each event `None` where it counts, otherwise why not: perf is tried on a trivial command."""
        if not events:
            return {}
        code, _, stderr = self._run("stat", "-x", SEPARATOR, *_each("-e", events), "--", "true")
        if code != 0:
            if len(events) == 1:
                return {events[0]: explain_failure(code, stderr, events[0])}
            return {event: self._probe([event])[event] for event in events}
        readings = grouped(parse_stat(stderr), lambda reading: base_name(reading.event).lower())
        reasons: dict[str, Unavailable | None] = {}
        for event in events:
            lines = readings.get(base_name(event).lower(), [])
            supported = any(r.state in ("counted", "not-counted") for r in lines)
            reasons[event] = None if supported else why_nothing(event, lines, self.processor)
        return reasons

    def _run(self, *arguments: str) -> tuple[int | None, str, str]:
        try:
            done = subprocess.run(
                [self.binary or "perf", *arguments],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=60,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except FileNotFoundError:
            return None, "", "perf is not installed"
        except OSError as error:
            return 126, "", f"perf cannot be started: {error.strerror or error}"
        except subprocess.TimeoutExpired:
            return 124, "", "perf did not answer within 60 s"
        return done.returncode, done.stdout, done.stderr


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


@dataclass(frozen=True, slots=True)
class ChosenEvents:
    """What of the events asked for can be counted."""

    asked: list[str]
    names: list[str]
    """Names to give to perf."""
    missing: dict[str, Unavailable]
    counted_as: dict[str, str]


# Switching perf on and off.


class ControlError(PenstockError):
    """perf did not answer on its control pipe; `why` quotes its message."""

    def __init__(self, why: Unavailable) -> None:
        self.why = why
        super().__init__(f"{why.reason}; {why.remedy}")


class Control:
    """One end of perf's control pipes: `enable`, `disable`, each acknowledged. Either end may be another process."""

    def __init__(self, control: Path, acknowledge: Path) -> None:
        self._control = os.open(control, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        # For reading alone: perf is then the only one that writes, and its end can be told from its silence.
        self._acknowledge = os.open(acknowledge, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def send(self, command: str, timeout_s: float = 10.0) -> bool:
        """Send a command and wait until perf has done it; `False` after `timeout_s`, or where perf has ended."""
        self.tell(command)
        deadline = time.monotonic() + timeout_s
        heard = b""
        while b"ack" not in heard:
            answer = self.answer(0.05)
            if answer == b"" or time.monotonic() > deadline:
                return False
            heard += answer or b""
        return True

    def tell(self, command: str) -> None:
        """Send a command."""
        os.write(self._control, command.encode() + b"\n")

    def answer(self, timeout_s: float) -> bytes | None:
        """What perf has answered; empty where there is none that could, `None` where it has not yet."""
        select.select([self._acknowledge], [], [], timeout_s)
        try:
            return os.read(self._acknowledge, 64)
        except BlockingIOError:
            return None

    def close(self) -> None:
        os.close(self._control)
        os.close(self._acknowledge)


class PerfProcess:
    """A running perf that is attached to a process and counts or samples only between `enable` and `disable`."""

    def __init__(self, arguments: Sequence[str], folder: Path, name: str, binary: str = "perf") -> None:
        self.control_paths = (folder / f"{name}.control", folder / f"{name}.ack")
        for path in self.control_paths:
            path.unlink(missing_ok=True)
            os.mkfifo(path, 0o600)
        self._log = folder / f"{name}.stderr"
        self.control = Control(*self.control_paths)
        pipes = "fifo:" + ",".join(str(path) for path in self.control_paths)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [binary, *arguments[:1], "--control", pipes, *arguments[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=_environment(),
                start_new_session=True,  # the terminal's interrupt must not end it before it has written
            )
        self._wait_until_attached()

    def _wait_until_attached(self, timeout_s: float = 30.0) -> None:
        # Events start disabled, so that "disable" changes nothing: its acknowledgement says that perf is attached.
        self.control.tell("disable")
        deadline = time.monotonic() + timeout_s
        while not self.control.answer(0.02):
            if self._process.poll() is not None or time.monotonic() > deadline:
                why = (
                    explain_failure(self._process.poll(), self._said())
                    if self._process.poll() is not None
                    else (Unavailable("perf did not attach within 30 s", "try again on a quieter machine"))
                )
                self.kill()
                raise ControlError(why)

    def _said(self) -> str:
        try:
            return self._log.read_text(errors="replace")
        except OSError:
            return ""

    def stop(self, timeout_s: float = 60.0) -> None:
        """End it; its output is on disk afterwards."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ControlError(
                Unavailable(f"perf did not end within {timeout_s:.0f} s", "try a shorter region")
            ) from None
        self._close()

    def kill(self) -> None:
        """End it at once, whatever it has measured."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            self.control.close()
        for path in self.control_paths:
            path.unlink(missing_ok=True)


class Counters:
    """Counts events of one process between `on` and `off`: threads that exist and threads to come.

    Made for a region of interest in this process (`bench run --events`) as well as for one in a child, which then gets
    `control_paths`. Never raises for what perf or the processor lacks: the rows say it.

    >>> with Counters(["task-clock", "no-such-event"]) as counters:
    ...     counters.on()
    ...     _ = sum(range(1000))
    ...     counters.off()
    >>> [row.event for row in counters.rows()]
    ['task-clock', 'no-such-event']
    """

    def __init__(
        self,
        events: Sequence[str],
        *,
        pid: int | None = None,
        folder: Path | None = None,
        perf: Perf | None = None,
        chosen: ChosenEvents | None = None,
        only: Sequence[str] | None = None,
    ) -> None:
        """`only` restricts this pass to a part of `chosen.names`."""
        self._perf = perf or Perf()
        self.chosen = chosen or self._perf.choose(events)
        self._names = [n for n in self.chosen.names if only is None or n in only]
        self._pid = pid or os.getpid()
        self._folder = folder
        self._own_folder: Path | None = None
        self._process: PerfProcess | None = None
        self._failure: Unavailable | None = None
        self.raw = ""
        """What perf printed."""

    def start(self) -> Counters:
        """Attach perf, switched off."""
        if not self._names:
            return self
        if self._folder is None:
            import tempfile

            self._own_folder = self._folder = Path(tempfile.mkdtemp(prefix="penstock-perf-"))
        self._output = self._folder / "stat.csv"
        # `:W` lets perf break up a group that does not fit on the counters, where it would count nothing.
        grouped = [
            "{" + ",".join(members) + "}:W" if len(members) > 1 else members[0] for members in group(self._names)
        ]
        counted, output = _each("-e", grouped), str(self._output)
        arguments = ["stat", "-x", SEPARATOR, "-o", output, "-D", "-1", *counted, "-p", str(self._pid)]
        try:
            self._process = PerfProcess(arguments, self._folder, "stat", self._perf.binary or "perf")
        except ControlError as error:
            self._failure = error.why
        except OSError as error:
            self._failure = Unavailable(f"perf cannot be started: {error.strerror or error}", INSTALL.remedy)
        return self

    @property
    def control_paths(self) -> tuple[Path, Path] | None:
        """The pipes by which another process switches the counting, or `None` where nothing is counted."""
        return self._process.control_paths if self._process is not None else None

    def on(self) -> None:
        """Count from now on."""
        self._switch("enable")

    def off(self) -> None:
        """Stop counting; `on` continues from here."""
        self._switch("disable")

    def _switch(self, command: str) -> None:
        if self._process is not None and not self._process.control.send(command):
            self._failure = Unavailable("perf stopped answering during the region", "try again; see dmesg")

    def fail(self, why: Unavailable) -> None:
        """The counts are not reliable: every row gives the reason."""
        self._failure = why

    def stop(self) -> None:
        """Detach, and read the counts."""
        if self._process is not None:
            try:
                self._process.stop()
                self.raw = self._output.read_text(errors="replace")
            except ControlError as error:
                self._failure = self._failure or error.why
            except OSError as error:
                failure = Unavailable(f"perf left no output: {error.strerror or error}", "see the free disk space")
                self._failure = self._failure or failure
            self._process = None
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)
            self._own_folder = None

    def rows(self) -> list[EventRow]:
        """One row for each event asked for, in that order; in a pass of several, for its own events only."""
        failed = {} if self._failure is None else dict.fromkeys(self.chosen.asked, self._failure)
        missing = {**failed, **self.chosen.missing}
        mine = set(self._names)
        asked = [e for e in self.chosen.asked if e in missing or self.chosen.counted_as.get(e, e) in mine]
        return to_rows(asked, parse_stat(self.raw), self._perf.processor, missing, self.chosen.counted_as)

    def __enter__(self) -> Counters:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
