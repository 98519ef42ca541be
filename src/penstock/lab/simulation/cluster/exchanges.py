"""What hosts exchange in operations of each shape: seconds, bytes, joules. Each distinct exchange is played once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.base.arrays import Ints
from penstock.lab.simulation.cluster.collectives import Collective, Pattern, pattern_of
from penstock.lab.simulation.cluster.flows import Sharing, flow_seconds, link_bytes, pattern_seconds
from penstock.lab.simulation.cluster.simgrid import SimGrid
from penstock.lab.simulation.cluster.spec import Cluster
from penstock.lab.simulation.cluster.topology import Topology
from penstock.scheme.machines.networks import Network


class Exchanges:
    """(shapes,) seconds and bytes of the exchanges of one operation of each shape, in one network."""

    def __init__(
        self, cluster: Cluster, exchanged: Sequence[Sequence[Collective]], simgrid: SimGrid | None = None
    ) -> None:
        network, layout = cluster.network, cluster.layout
        self._network = network
        self.seconds, self.sent_bytes = np.zeros(len(exchanged)), np.zeros(len(exchanged))
        self._link_bytes = np.zeros(len(exchanged))
        distinct = list(dict.fromkeys(collective for row in exchanged for collective in row))
        if not distinct or network is None:
            return
        patterns = [pattern_of(collective, cluster.algorithm, cluster.broadcast) for collective in distinct]
        seconds = _seconds(layout, network, patterns, cluster.sharing, simgrid)
        carried = [int(link_bytes(layout, pattern).sum()) for pattern in patterns] if network.energy else []
        at = {collective: i for i, collective in enumerate(distinct)}
        for i, row in enumerate(exchanged):
            for collective in row:
                self.seconds[i] += seconds[at[collective]]
                self.sent_bytes[i] += patterns[at[collective]].sent_bytes
                if carried:
                    self._link_bytes[i] += carried[at[collective]]

    def joules(self, counts: Ints) -> float | None:
        """Energy of all messages; `None` where the network does not say its energy a byte."""
        if not self.sent_bytes.any():
            return 0.0
        per_byte = self._network.energy_j_per_byte if self._network else None
        return None if per_byte is None else per_byte * float(self._link_bytes @ counts)


def _seconds(
    layout: Topology, network: Network, patterns: Sequence[Pattern], sharing: Sharing, simgrid: SimGrid | None
) -> list[float]:
    if simgrid is not None:
        return simgrid.seconds(layout, network, patterns)
    if sharing == "equal":
        return [pattern_seconds(layout, network, pattern) for pattern in patterns]
    return [float(flow_seconds(layout, network, pattern, sharing=sharing).sum()) for pattern in patterns]
