"""The parts of a sweep: programs, points, and chunks of points that are played, stored and resumed together."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field, replace

from penstock.errors import UsageError
from penstock.lab.simulation.memory.tenants import Turns
from penstock.lab.simulation.question import SIMGRID, Point
from penstock.scheme.machines import Machine
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.traces.schema import Trace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SweptProgram:
    """The unit of pricing: a workload, or a trace, on a machine."""

    workload: str
    size: str | None
    params: CkksParameters | None
    """`None` for a trace, which has its own."""
    seed: int
    trace: Trace | None
    source: str | None
    """The file of a trace, as the sweep names it; `None` for a workload."""
    machine: Machine
    key_form: KeyForm | None
    classes: tuple[str, ...]
    id: str
    """A digest of all this."""
    beside: tuple[SweptProgram, ...] = ()
    """Programs that run on the machine at the same time."""
    order: Turns = "round-robin"

    def without_trace(self) -> SweptProgram:
        """What playing needs, light to send."""
        return replace(self, trace=None, beside=tuple(other.without_trace() for other in self.beside))

    @property
    def name(self) -> str:
        """The workload, or the file of a trace: two traces may be of one workload."""
        return self.source or self.workload

    def label(self) -> str:
        """For people."""
        others = [f"with {other.name}" for other in self.beside]
        parts = [self.name, self.size, self.params and f"at {self.params.name}", f"on {self.machine.name}", *others]
        return " ".join(part for part in parts if part) + (f" with {self.key_form.value} keys" if self.key_form else "")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunk:
    """Points of one program that are played, stored and resumed together."""

    index: int
    program: int
    """Index into `Plan.programs`."""
    points: tuple[Point, ...]

    @property
    def digest(self) -> str:
        """Of its points, in their order."""
        return digest([point.id for point in self.points])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """The resolved content of a sweep file."""

    name: str
    programs: list[SweptProgram]
    chunks: list[Chunk]
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Points of each (what, why) that the axes name and that cannot be."""
    notes: tuple[str, ...] = ()
    """The default parameter set of each program without one in the file, and why."""

    @property
    def num_points(self) -> int:
        return sum(len(chunk.points) for chunk in self.chunks)

    @property
    def needs_simgrid(self) -> bool:
        """Whether a point is played by SimGrid."""
        return any(point.engine == SIMGRID for chunk in self.chunks for point in chunk.points)

    @property
    def digest(self) -> str:
        """Of all points."""
        return digest([chunk.digest for chunk in self.chunks])


def no_point(name: str, skipped: Counter[tuple[str, str]]) -> UsageError:
    """The error of a sweep none of whose combinations can be, with the first reason."""
    why = "".join(f": {what}: {reason}" for what, reason in list(skipped)[:1])
    return UsageError(f"sweep '{name}' has no point to play{why}")


def digest(value: object) -> str:
    """Of a value that JSON can say."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]
