"""What the shapes of a program cost on so many hosts: compute and messages, worked out once for any cache and tier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.machines.schema import Machine
from penstock.simulation.cluster.collectives import Collective
from penstock.simulation.cluster.exchanges import Exchanges
from penstock.simulation.cluster.partitions import Part, Together
from penstock.simulation.cluster.program import ClusterProgram
from penstock.simulation.cluster.simgrid import SimGrid
from penstock.simulation.cluster.spec import Cluster
from penstock.simulation.engine import Floats


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
        return Exchanges(
            cluster.layout,
            cluster.network,
            dealt(program, partition, cluster.hosts).exchanged,
            all_gather=cluster.algorithm,
            broadcast=cluster.broadcast,
            sharing=cluster.sharing,
            simgrid=simgrid,
        )

    if simgrid is not None or cluster.topology.endswith(".toml"):
        return made()
    return program.keep(("exchanges", cluster), made)


def parts_of(program: ClusterProgram, partition: Together, hosts: int) -> tuple[Part | None, ...]:
    """Each shape on so many hosts, `None` for those without kernel work."""
    return tuple(
        partition.part(shape, program.params, program.key_form, hosts) if program.priced_shape(i) else None
        for i, shape in enumerate(program.shapes.distinct)
    )


def compute_s(program: ClusterProgram, parts: Sequence[Part | None], machine: Machine) -> float:
    """Seconds that the busiest host computes, on a machine in the place of the program's.

    Args:   parts: of `parts_of`.
    """
    seconds, _ = _priced(program, parts, machine)
    return float(seconds @ program.shapes.counts)


def _priced(program: ClusterProgram, parts: Sequence[Part | None], machine: Machine) -> tuple[Floats, Floats]:
    """(shapes,) seconds of the busiest host, and joules of all."""
    shapes, together = program.shapes, program.priced.together
    seconds, joules = np.zeros(len(parts)), np.zeros(len(parts))
    for i, (shape, part) in enumerate(zip(shapes.distinct, parts, strict=True)):
        if part is None:
            continue
        # The measured factor of the whole operation holds for each share of it.
        factor = machine.factor(shape.kind, program.params.ring_dim, shape.limbs_in)
        alike = 1.0 if together is None else float(together[i])
        seconds[i] = factor * machine.price(part.path, alike).seconds
        joules[i] = factor * (machine.price(part.total, alike).joules or 0.0)
    return seconds, joules


def _deal(program: ClusterProgram, partition: Together, hosts: int) -> Dealt:
    parts = parts_of(program, partition, hosts)
    seconds, joules = _priced(program, parts, program.machine)
    known = program.priced.joules is not None
    return Dealt(
        compute_s=seconds,
        joules=float(joules @ program.shapes.counts) if known else None,
        exchanged=tuple(() if part is None else part.exchanged for part in parts),
    )
