"""The engine on several hosts = its slow twins: messages in exact fractions, dispatch in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import _engine
from penstock.lab.simulation.cluster.collectives import (
    ALL_GATHERS,
    AllGather,
    Broadcast,
    Pattern,
    ReduceScatter,
    pattern_of,
)
from penstock.lab.simulation.cluster.flows import flow_seconds
from penstock.lab.simulation.cluster.topology import build
from penstock.scheme.machines.networks import load_network
from support.examples import at_most
from twins.cluster import dispatch, round_seconds

TOPOLOGIES = ["star", "fat-tree", "fat-tree:k=6", "clos:leaf=2,spines=1,oversubscription=3", "torus", "ring"]


def exact(topology, network, pattern: Pattern, *, by_latency: bool = False) -> list[float]:
    rates = (topology.width * network.bandwidth_bytes_per_s).tolist()
    latency = [network.latency_s] * topology.links
    return [
        float(
            round_seconds(
                [(topology.route(i, j), size) for i, j, size in messages], rates, latency, by_latency=by_latency
            )
        )
        for messages in pattern.rounds()
    ]


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("network", ["ethernet-400", "infiniband-ndr"])
@pytest.mark.parametrize("sharing", ["equal", "by-latency"])
def test_an_uneven_all_gather_takes_what_exact_fractions_say(topology, network, sharing):
    layout, link = build(topology, 6), load_network(network)
    pattern = pattern_of(AllGather(tuple(range(6)), (3000, 3000, 1000, 0, 7001, 1)))
    got = flow_seconds(layout, link, pattern, sharing=sharing)
    assert got == pytest.approx(exact(layout, link, pattern, by_latency=sharing == "by-latency"), rel=1e-11)


@pytest.mark.parametrize("algorithm", [name for name in ALL_GATHERS if name != "recursive-doubling"])
@pytest.mark.parametrize("topology", ["star", "clos:leaf=2,spines=1,oversubscription=3"])
def test_every_algorithm_does(algorithm, topology):
    layout, link = build(topology, 5), load_network("infiniband-hdr")
    members = tuple(range(5))
    for collective in (
        AllGather(members, (9, 9, 5, 5, 5)),
        ReduceScatter(members, (9, 9, 5, 5, 5)),
        Broadcast(members, 3, 1000),
    ):
        pattern = pattern_of(collective, algorithm, "binomial")
        assert flow_seconds(layout, link, pattern) == pytest.approx(exact(layout, link, pattern), rel=1e-11)


message = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 10**9)).filter(lambda m: m[0] != m[1])


@at_most(60)
@given(
    messages=st.lists(message, min_size=1, max_size=12),
    topology=st.sampled_from(TOPOLOGIES),
    by_latency=st.booleans(),
)
def test_any_round_of_messages_does(messages, topology, by_latency):
    layout, link = build(topology, 6), load_network("infiniband-ndr")
    pattern = Pattern.of([messages])
    got = flow_seconds(layout, link, pattern, sharing="by-latency" if by_latency else "equal")
    assert got == pytest.approx(exact(layout, link, pattern, by_latency=by_latency), rel=1e-9)


@st.composite
def programs(draw):
    """Operations that read inputs and earlier results."""
    n = draw(st.integers(1, 14))
    durations = draw(st.lists(st.integers(0, 8), min_size=n, max_size=n))
    operands = [draw(st.lists(st.integers(0, 1 + i), max_size=3)) for i in range(n)]
    sizes = draw(st.lists(st.integers(0, 20), min_size=n + 2, max_size=n + 2))
    makes = [2 + i if draw(st.booleans()) else -1 for i in range(n)]
    return [float(d) for d in durations], operands, makes, [float(size) for size in sizes]


@given(program=programs(), hosts=st.integers(1, 5), latency=st.sampled_from([0.0, 0.25]))
def test_dispatch_puts_every_operation_where_its_twin_does(program, hosts, latency):
    durations, operands, makes, sizes = program
    total, host, start, sent = dispatch(durations, operands, makes, sizes, hosts, 4.0, latency)
    got = _engine.dispatch(
        np.asarray(durations),
        np.cumsum([0, *(len(row) for row in operands)], dtype=np.int64),
        np.asarray([obj for row in operands for obj in row], dtype=np.int64),
        np.asarray(makes, dtype=np.int64),
        np.asarray(sizes),
        hosts,
        4.0,
        latency,
    )
    assert (got.total_s, got.host.tolist(), got.start_s.tolist(), got.sent_bytes) == (total, host, start, sent)
