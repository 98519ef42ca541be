"""What every topology and every partition promises. A new line in their registries joins by itself."""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain

import numpy as np
import pytest

from penstock.lab.simulation.cluster.cluster import play_clusters
from penstock.lab.simulation.cluster.collectives import AllGather, pattern_of
from penstock.lab.simulation.cluster.flows import flow_seconds, link_bytes
from penstock.lab.simulation.cluster.partitions import PARTITIONS
from penstock.lab.simulation.cluster.program import MOST_KEPT_BYTES, prepare
from penstock.lab.simulation.cluster.spec import Cluster
from penstock.lab.simulation.cluster.topology import TOPOLOGIES, build
from penstock.program.running import trace_workload
from penstock.scheme.machines import load_machine, load_tier
from penstock.scheme.machines.networks import load_network
from penstock.scheme.play.caches import ForcedHitRatio, Lru
from penstock.scheme.play.hierarchy import Pace
from penstock.scheme.play.price import price_trace

topologies = pytest.mark.parametrize("name", TOPOLOGIES)
partitions = pytest.mark.parametrize("name", PARTITIONS)
SIZES = (1, 2, 3, 5, 8, 12, 32)


@topologies
def test_every_host_reaches_every_other_over_links_that_are_there(name):
    for hosts in SIZES:
        layout = build(name, hosts)
        assert layout.hosts == hosts
        assert (layout.width > 0).all()
        for source in range(hosts):
            for target in range(hosts):
                route = layout.route(source, target)
                assert bool(route) == (source != target)
                assert len(set(route)) == len(route)
                assert all(0 <= link < layout.links for link in route)


@topologies
def test_nothing_that_leaves_a_host_comes_back_over_the_same_way(name):
    layout = build(name, 8)
    for source in range(8):
        for target in range(8):
            there, back = set(layout.route(source, target)), set(layout.route(target, source))
            assert not there & back  # cables are full duplex: two links


@topologies
def test_the_same_name_gives_the_same_topology_and_its_own_name_too(name):
    once = build(name, 12)
    again = build(once.name, 12)
    assert np.array_equal(once.route_link, again.route_link)
    assert np.array_equal(once.width, again.width)


@topologies
def test_what_a_host_sends_is_on_its_links_and_takes_time(name):
    layout, members = build(name, 8), tuple(range(8))
    pattern = pattern_of(AllGather(members, (1000,) * 8))
    carried = link_bytes(layout, pattern).sum()
    assert carried >= pattern.sent_bytes
    assert carried == sum(1000 * len(layout.route(i, j)) for i in members for j in members)
    assert flow_seconds(layout, load_network("ethernet-400"), pattern).min() > 0


@pytest.fixture(scope="module")
def program():
    return prepare(
        trace_workload("inner-product", "sharp"),
        load_machine("sharp"),
        price_trace(trace_workload("inner-product", "sharp"), load_machine("sharp")),
    )


@partitions
def test_a_program_that_has_answered_before_answers_the_same_to_the_bit(name):
    """It keeps what hosts compute and exchange; other caches, tiers, networks and numbers of hosts lie in between."""
    trace, machine, used = trace_workload("inner-product", "sharp"), load_machine("sharp"), []
    for network in ("ethernet-400", "fastfabric-300"):
        clusters = [Cluster(hosts=n, network=load_network(network), partition=name) for n in (1, 2, 5)]
        points = [Pace(tier=load_tier(tier), mode=mode) for tier in ("hbm", "rdma") for mode in ("serial", "overlap")]
        caches = [ForcedHitRatio(0.3), *([Lru(10**8)] if name != "by-ciphertext" else [])]
        used += [(clusters, points, cache) for cache in caches]
    kept = prepare(trace, machine, price_trace(trace, machine))
    first = [play_clusters(kept, *each[:2], cache=each[2]) for each in used]
    again = [play_clusters(kept, *each[:2], cache=each[2]) for each in reversed(used)][::-1]
    fresh = [
        play_clusters(prepare(trace, machine, price_trace(trace, machine)), *each[:2], cache=each[2]) for each in used
    ]
    for other in (again, fresh):
        for one, two in zip(chain(*first), chain(*other), strict=True):
            assert asdict(one) == asdict(two)


def test_a_program_keeps_only_so_much():
    program = prepare(
        trace_workload("inner-product", "sharp"),
        load_machine("sharp"),
        price_trace(trace_workload("inner-product", "sharp"), load_machine("sharp")),
    )
    part = MOST_KEPT_BYTES // 16
    for n in range(32):
        assert len(program.keep(n, lambda: bytes(part))) == part
        assert program.kept.num_bytes <= MOST_KEPT_BYTES
    assert len(program.kept) == 15
    assert program.keep(31, lambda: None) == bytes(part)
    assert program.keep(0, lambda: None) is None
    assert program.keep(0, lambda: b"") is None
    assert len(program.keep("too large", lambda: bytes(MOST_KEPT_BYTES))) == MOST_KEPT_BYTES
    assert program.kept.num_bytes <= MOST_KEPT_BYTES


@partitions
@pytest.mark.parametrize("mode", ["serial", "overlap"])
def test_times_and_bytes_add_up(program, name, mode):
    network = load_network("ethernet-400")
    clusters = [Cluster(hosts=hosts, network=network, partition=name) for hosts in (1, 2, 5, 16)]
    played = play_clusters(program, clusters, [Pace(tier=load_tier("pcie5"), mode=mode)])
    for cluster, got in zip(clusters, played, strict=True):
        parts = (got.compute_s, got.io_s, got.decode_s, got.communication_s)
        assert all(part >= 0 for part in parts)
        assert got.total_s <= sum(parts) + max(got.wait_s, 0) + 1e-12
        assert got.total_s >= max(got.compute_s, got.io_s) * (1 - 1e-12)
        assert got.loaded_bytes >= got.io_bytes * (1 - 1e-12)
        assert cluster.hosts > 1 or got.sent_bytes == 0
        assert got.programs in (1, cluster.hosts)


@partitions
def test_a_partition_says_what_it_is(name):
    partition = PARTITIONS[name]
    assert partition.name == name
    assert type(partition).__doc__
