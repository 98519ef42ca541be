"""A cluster: hosts, their network, and the division of the work.

>>> from penstock.scheme.machines.networks import load_network
>>> Cluster(hosts=4, network=load_network("ethernet-400"), topology="fat-tree").described
'4 hosts, ethernet-400, fat-tree:k=4, rplp'
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.errors import UsageError
from penstock.lab.simulation.cluster.collectives import check_algorithms
from penstock.lab.simulation.cluster.flows import STAR, Sharing
from penstock.lab.simulation.cluster.partitions import ByTenant, partition_named
from penstock.lab.simulation.cluster.topology import Topology, build
from penstock.scheme.machines.networks import Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Hosts, what joins them and how the work is cut. One host needs no network."""

    hosts: int
    network: Network | None = None
    topology: str = STAR
    """A name of `TOPOLOGIES`, with parameters after a colon, or a .toml file."""
    partition: str = "rplp"
    """A name of `PARTITIONS`."""
    algorithm: str = "direct"
    """The algorithm of all-gathers and reduce-scatters: a name of `ALL_GATHERS`."""
    broadcast: str = "scatter"
    """The algorithm of broadcasts: a name of `BROADCASTS`."""
    sharing: Sharing = "equal"
    """How messages share a link."""

    def __post_init__(self) -> None:
        if isinstance(self.hosts, bool) or not isinstance(self.hosts, int | np.integer) or self.hosts < 1:
            raise UsageError(f"a cluster of {self.hosts!r} hosts: it is a whole number from 1 on")
        partition_named(self.partition)
        check_algorithms(self.algorithm, self.broadcast)
        if self.network is None and self.hosts > 1 and self.partition != ByTenant.name:
            raise UsageError(f"{self.hosts} hosts with partition '{self.partition}' talk to each other: name a network")
        build(self.topology, int(self.hosts))

    @property
    def layout(self) -> Topology:
        """Hosts, links and routes."""
        return build(self.topology, int(self.hosts))

    @property
    def described(self) -> str:
        """In one line."""
        network = self.network.name if self.network else "no network"
        return f"{self.hosts} hosts, {network}, {self.layout.name}, {self.partition}"
