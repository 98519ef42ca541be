"""What the shapes of a program cost on so many hosts: compute and messages, worked out once for any cache and tier."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.simulation.cluster.collectives import Collective
from penstock.simulation.cluster.exchanges import Exchanges
from penstock.simulation.cluster.partitions import Together
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


def _deal(program: ClusterProgram, partition: Together, hosts: int) -> Dealt:
    machine, shapes = program.machine, program.shapes
    seconds, joules = np.zeros(len(shapes.distinct)), np.zeros(len(shapes.distinct))
    exchanged: list[tuple[Collective, ...]] = []
    batches = program.priced.batches
    for i, shape in enumerate(shapes.distinct):
        if not program.priced_shape(i):
            exchanged.append(())
            continue
        part = partition.part(shape, program.params, program.key_form, hosts)
        # The measured factor of the whole operation holds for each share of it.
        factor = machine.factor(shape.kind, program.params.ring_dim, shape.limbs_in)
        batch = 1.0 if batches is None else float(batches[i])
        seconds[i] = factor * machine.price(part.path, batch).seconds
        joules[i] = factor * (machine.price(part.total, batch).joules or 0.0)
        exchanged.append(part.exchanged)
    known = program.priced.joules is not None
    return Dealt(compute_s=seconds, joules=float(joules @ shapes.counts) if known else None, exchanged=tuple(exchanged))
