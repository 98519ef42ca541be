"""The time of a pattern of messages on a topology: the closed form of a star, the flow engine for the rest.

The flow engine (`penstock_sim::flows`) lets messages share links by max-min fairness; its slow twin is in
`tests/twins`, and SimGrid (`penstock.lab.simulation.cluster.simgrid`) is the check from outside.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from penstock.base.arrays import Floats, Ints
from penstock.base.system.kept import kept
from penstock.lab.simulation.cluster.collectives import Pattern
from penstock.lab.simulation.cluster.topology import Topology
from penstock.scheme.machines.networks import Network
from penstock.scheme.play.engine import _engine

Sharing = Literal["equal", "by-latency"]
"""How messages share a link: each the same rate, or rates as one over the latency of the route (as TCP does, and
SimGrid's CM02). Without latency, or with the same one on every route, they are the same."""

STAR = "star"
MOST_KEPT_BYTES = 128 * 2**20
"""Of bytes on links that are kept, with their messages and routes."""


@kept(MOST_KEPT_BYTES)
def link_bytes(topology: Topology, pattern: Pattern) -> Ints:
    """(rounds, links) bytes that go over each link in each round, read-only.

    They are the same at any rate of the links, so networks and energies share them.
    """
    rounds = len(pattern.round_start) - 1
    carried = np.zeros((rounds, topology.links), dtype=np.int64)
    round_of = np.repeat(np.arange(rounds), np.diff(pattern.round_start))
    pair = pattern.source * topology.hosts + pattern.target
    length = topology.route_start[pair + 1] - topology.route_start[pair]
    message = np.repeat(np.arange(len(pair)), length)
    first = np.cumsum(length) - length
    link = topology.route_link[topology.route_start[pair][message] + np.arange(len(message)) - first[message]]
    np.add.at(carried, (round_of[message], link), pattern.size[message])
    carried.setflags(write=False)
    return carried


def bottleneck_seconds(topology: Topology, network: Network, pattern: Pattern) -> float:
    """The time of the busiest link of each round, after the shortest latency: a lower bound of every pattern.

    It is exact where a link is busy from the first byte to the last and all routes have the same latency. That holds
    for every collective here on a star in which no member sends without receiving: the link of the largest block
    carries messages of one size, which share it alike to the end.
    """
    if not len(pattern.source):
        return 0.0
    rates = topology.width * network.bandwidth_bytes_per_s
    pair = pattern.source * topology.hosts + pattern.target
    hops = topology.route_start[pair + 1] - topology.route_start[pair]
    latency_s = np.minimum.reduceat(hops, pattern.round_start[:-1]) * network.latency_s
    return float(((link_bytes(topology, pattern) / rates).max(axis=1) + latency_s).sum())


def flow_seconds(topology: Topology, network: Network, pattern: Pattern, *, sharing: Sharing = "equal") -> Floats:
    """(rounds,) seconds of each round, by the flow engine.

    Raises: SimulationInputError: a message between hosts that no route joins.
    """
    return _engine.play_rounds(
        topology.hosts,
        topology.width * network.bandwidth_bytes_per_s,
        np.full(topology.links, network.latency_s),
        topology.route_start,
        topology.route_link,
        pattern.round_start,
        pattern.source,
        pattern.target,
        pattern.size.astype(np.float64),
        sharing,
    )


def pattern_seconds(topology: Topology, network: Network, pattern: Pattern) -> float:
    """Seconds of a pattern: by the closed form where it is exact (star), else by the flow engine.

    >>> from penstock.scheme.machines.networks import load_network
    >>> from penstock.lab.simulation.cluster.collectives import AllGather, pattern_of
    >>> from penstock.lab.simulation.cluster.topology import build
    >>> gather = pattern_of(AllGather(tuple(range(32)), (2_000_000,) * 3 + (1_000_000,) * 29))
    >>> round(pattern_seconds(build("star", 32), load_network("ethernet-400"), gather), 9)  # 31 * 2 MB / (50 GB/s)
    0.00124
    """
    if not len(pattern.source):
        return 0.0
    if topology.name == STAR and pattern.every_member_receives:
        return bottleneck_seconds(topology, network, pattern)
    return float(flow_seconds(topology, network, pattern).sum())
