"""SimGrid as an external judge: it plays patterns of messages in a separate process.

SimGrid (Casanova, Giersch, Legrand, Quinson, Suter, JPDC 74(10), 2014) is an established simulator of distributed
systems, the one of the storage-I/O study. Here it checks the flow engine, and plays patterns on a user's request. It
runs in a worker (`simgrid_worker.py`) on any interpreter that imports `simgrid`, since its bindings belong to one, and
a process holds one simulation. A play costs milliseconds, so equal patterns are played once and remembered.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from penstock.base.system import remedy
from penstock.errors import CapabilityMissing, PenstockError
from penstock.lab.simulation.cluster.collectives import Pattern
from penstock.lab.simulation.cluster.topology import Topology
from penstock.scheme.machines.networks import Network

PYTHON_VARIABLE = "PENSTOCK_SIMGRID_PYTHON"
"""Environment variable that names the interpreter of the worker."""
CANDIDATES = ("/usr/bin/python3", "python3")
CONFIG = ("network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0", "surf/precision:1e-15")
"""The fluid model without TCP's window, without acknowledgements on the way back, and with a clock for microseconds.
Links are split-duplex."""
TIMEOUT_S = 600.0

_WORKER = Path(__file__).with_name("simgrid_worker.py")


def _install() -> str:
    return f"{remedy.simgrid()}, or name an interpreter that imports simgrid with {PYTHON_VARIABLE}"


class SimGridMissing(CapabilityMissing):
    """No interpreter that imports SimGrid."""


class SimGridFailed(PenstockError):
    """The worker ended without an answer, or with one that makes no sense. Results that were there already are kept."""


def find_python(environ: Mapping[str, str] | None = None) -> str:
    """The interpreter of the worker: the one that the environment names, or the first that imports SimGrid.

    Raises: SimGridMissing: there is none; the message has the line that installs it.
    """
    environ = os.environ if environ is None else environ
    return _find_python(environ.get(PYTHON_VARIABLE, ""), environ.get("PATH", ""))


@lru_cache(maxsize=8)
def _find_python(chosen: str, path: str) -> str:
    reasons = []
    for python in [chosen] if chosen else CANDIDATES:
        try:
            done = _run_worker(python, "--version", timeout_s=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            reasons.append(f"{python}: {error}")
            continue
        if done.returncode == 0:
            return python
        last = done.stderr.strip().splitlines()
        reasons.append(f"{python}: {last[-1] if last else f'exit status {done.returncode}'}")
    raise SimGridMissing(f"SimGrid is not there ({'; '.join(reasons)}); get it: {_install()}")


def _run_worker(python: str, *options: str, request: str = "", timeout_s: float) -> subprocess.CompletedProcess[str]:
    command = [python, "-I", str(_WORKER), *options]
    return subprocess.run(command, input=request, capture_output=True, text=True, timeout=timeout_s, check=False)


@dataclass(slots=True)
class SimGrid:
    """Plays patterns in SimGrid. Answers are kept by topology, network and pattern as long as this object lives.

    Not for several threads at once.
    """

    python: str = ""
    """The worker's interpreter; found where it is not given."""
    timeout_s: float = TIMEOUT_S
    processes: int = 0
    """Workers that were started."""
    version: str = ""
    """SimGrid's own, known after the first answer."""
    _known: dict[tuple[object, ...], float] = field(default_factory=dict)

    def seconds(self, topology: Topology, network: Network, patterns: Sequence[Pattern]) -> list[float]:
        """Seconds of each pattern, each in an idle network. Those not known yet are played by one worker.

        Raises: SimGridMissing; SimGridFailed: the worker was killed, hung, or printed something else than an answer.
        """
        keys = [_key(topology, network, pattern) for pattern in patterns]
        fresh = {key: pattern for key, pattern in zip(keys, patterns, strict=True) if key not in self._known}
        if fresh:
            played = self.play(topology, network, list(fresh.values()), range(len(fresh)))
            self._known.update(zip(fresh, played, strict=True))
        return [self._known[key] for key in keys]

    def play(
        self, topology: Topology, network: Network, patterns: Sequence[Pattern], order: Sequence[int]
    ) -> list[float]:
        """Seconds of `patterns[i]` for each i of `order`, one after the other in one worker, none from memory.

        Raises: as `seconds`.
        """
        if not self.python:
            self.python = find_python()
        request = request_of(topology, network, patterns, order)
        reply = self._ask(json.dumps(request))
        seconds = reply.get("seconds")
        if "error" in reply:
            raise SimGridFailed(f"SimGrid refused the simulation ({self.python}): {reply['error']}")
        if not isinstance(seconds, list) or len(seconds) != len(order) or not all(map(_is_time, seconds)):
            raise SimGridFailed(f"the SimGrid worker ({self.python}) gave no time for each of {len(order)} patterns")
        self.version = str(reply.get("simgrid", ""))
        return [float(value) for value in seconds]

    def _ask(self, request: str) -> dict[str, object]:
        self.processes += 1
        try:
            done = _run_worker(self.python, request=request, timeout_s=self.timeout_s)
        except OSError as error:
            raise SimGridMissing(f"{self.python} does not run ({error}); get SimGrid: {_install()}") from error
        except subprocess.TimeoutExpired as error:
            raise SimGridFailed(
                f"the SimGrid worker gave no answer within {self.timeout_s:g} s and was ended; play fewer patterns at "
                "once, or allow more time (timeout_s)"
            ) from error
        if done.returncode < 0:
            name = signal.Signals(-done.returncode).name
            raise SimGridFailed(
                f"the SimGrid worker was killed by {name} (memory?); nothing that was played before is lost: try again"
            )
        try:
            reply = json.loads(done.stdout.strip().splitlines()[-1])
        except (ValueError, IndexError) as error:
            last = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1][:300]
            raise SimGridFailed(
                f"the SimGrid worker ({self.python}) ended with status {done.returncode} and no answer; it said: {last}"
            ) from error
        if not isinstance(reply, dict):
            raise SimGridFailed(
                f"the SimGrid worker ({self.python}) answered {str(reply)[:100]!r}, which is not an object"
            )
        if "no SimGrid" in str(reply.get("error", "")):
            raise SimGridMissing(f"{self.python}: {reply['error']}; get it: {_install()}")
        return reply


def request_of(
    topology: Topology, network: Network, patterns: Sequence[Pattern], order: Sequence[int]
) -> dict[str, object]:
    """What the worker reads: links, the routes that messages take, the patterns and the order to play them in."""
    pairs = sorted({pair for p in patterns for pair in zip(p.source.tolist(), p.target.tolist(), strict=True)})
    rates = topology.width * network.bandwidth_bytes_per_s
    return {
        "hosts": topology.hosts,
        "links": [[float(rate), network.latency_s] for rate in rates],
        "routes": [[source, target, list(topology.route(source, target))] for source, target in pairs],
        "patterns": [pattern.rounds() for pattern in patterns],
        "play": list(order),
        "config": list(CONFIG),
    }


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _key(topology: Topology, network: Network, pattern: Pattern) -> tuple[object, ...]:
    parts = (pattern.round_start, pattern.source, pattern.target, pattern.size)
    return (
        topology.name,
        topology.hosts,
        topology.width.tobytes(),
        topology.route_link.tobytes(),
        network.bandwidth_bytes_per_s,
        network.latency_s,
        *(part.tobytes() for part in parts),
    )
