"""What the shapes of a program cost on so many hosts: compute and messages, worked out once for any cache and tier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from penstock.base.arrays import Floats
from penstock.lab.simulation.cluster.collectives import Collective
from penstock.lab.simulation.cluster.exchanges import Exchanges
from penstock.lab.simulation.cluster.partitions import HostPart, Together
from penstock.lab.simulation.cluster.program import ClusterProgram
from penstock.lab.simulation.cluster.simgrid import SimGrid
from penstock.lab.simulation.cluster.spec import Cluster
from penstock.scheme.machines.schema import Cost, Machine
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.work.kernel_work import KernelWork

_SECONDS: Callable[[Cost], float] = attrgetter("seconds")
_JOULES: Callable[[Cost], float | None] = attrgetter("joules")


@dataclass(frozen=True, slots=True)
class Dealt:
    """The shapes of a program on so many hosts, whatever their caches and network."""

    compute_s: Floats
    """(shapes,) of the busiest host."""
    joules: float | None
    """Of all hosts."""
    exchanged: tuple[tuple[Collective, ...], ...]
    """(shapes,)"""


def dealt(program: ClusterProgram, partition: Together, hosts: int) -> Dealt:
    """The program's shapes on so many hosts; the program keeps them."""
    return program.keep(("dealt", partition.name, hosts), lambda: _deal(program, partition, hosts))


def exchanges(
    program: ClusterProgram, partition: Together, cluster: Cluster, simgrid: SimGrid | None = None
) -> Exchanges:
    """The messages between hosts; the program keeps them, except SimGrid's answers and user-defined topologies."""

    def made() -> Exchanges:
        return Exchanges(cluster, dealt(program, partition, cluster.hosts).exchanged, simgrid)

    if simgrid is not None or cluster.topology.endswith(".toml"):
        return made()
    return program.keep(("exchanges", cluster), made)


def parts_of(program: ClusterProgram, partition: Together, hosts: int) -> tuple[HostPart | None, ...]:
    """Each shape on so many hosts, `None` for those without kernel work: composites without an expansion."""
    return tuple(
        None if TRAITS[OpKind(shape.kind)].composite else partition.part(shape, program.params, program.key_form, hosts)
        for shape in program.shapes.distinct
    )


def compute_s(program: ClusterProgram, parts: Sequence[HostPart | None], machine: Machine) -> float:
    """Seconds that the busiest host computes, on a machine in the place of the program's.

    Args:   parts: of `parts_of`.
    """
    return float(_priced(program, _paths(parts), machine, _SECONDS) @ program.shapes.counts)


def _paths(parts: Sequence[HostPart | None]) -> list[KernelWork | None]:
    return [None if part is None else part.path for part in parts]


def _priced(
    program: ClusterProgram, works: Sequence[KernelWork | None], machine: Machine, of: Callable[[Cost], float | None]
) -> Floats:
    """(shapes,) seconds or joules of each shape's work, 0 without work."""
    shapes, together = program.shapes, program.priced.together
    amounts = np.zeros(len(works))
    for i, (shape, work) in enumerate(zip(shapes.distinct, works, strict=True)):
        if work is None:
            continue
        # The measured factor of the whole operation holds for each share of it.
        factor = machine.factor(shape.kind, program.params.ring_dim, shape.limbs_in)
        amounts[i] = factor * (of(machine.price(work, 1.0 if together is None else float(together[i]))) or 0.0)
    return amounts


def _joules(program: ClusterProgram, totals: tuple[KernelWork | None, ...]) -> float:
    """Of all hosts. Most partitions have the same work in all at any number of hosts, so the program keeps this too."""
    return program.keep(
        ("joules", totals), lambda: float(_priced(program, totals, program.machine, _JOULES) @ program.shapes.counts)
    )


def _deal(program: ClusterProgram, partition: Together, hosts: int) -> Dealt:
    parts = parts_of(program, partition, hosts)
    known = program.priced.joules is not None
    return Dealt(
        compute_s=_priced(program, _paths(parts), program.machine, _SECONDS),
        joules=_joules(program, tuple(None if part is None else part.total for part in parts)) if known else None,
        exchanged=tuple(() if part is None else part.exchanged for part in parts),
    )
