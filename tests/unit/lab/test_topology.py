"""Topologies: routes, sizes, and what cannot be built."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import UnknownName, UsageError
from penstock.lab.simulation.cluster.topology import Topology, TopologyError, build


def longest(topology: Topology) -> int:
    """Links of the longest route."""
    return int(np.diff(topology.route_start).max(initial=0))


def test_a_star_has_a_way_in_and_a_way_out_for_each_host():
    star = build("star", 3)
    assert star.links == 6
    assert star.route(0, 2) == (0, 5)
    assert star.route(2, 0) == (4, 1)
    assert star.route(1, 1) == ()


def test_a_fat_tree_of_4_ports_is_the_one_of_the_paper():
    tree = build("fat-tree:k=4", 16)
    # 16 host cables, 8 edge switches with 2 cables up, 4 pods with 2 x 2 cables to 4 core switches.
    assert tree.links == 2 * (16 + 16 + 16)
    assert [len(tree.route(0, target)) for target in (1, 2, 4, 15)] == [2, 4, 6, 6]


def test_a_fat_tree_takes_the_fewest_ports_that_have_a_place_for_every_host():
    assert [build("fat-tree", hosts).name for hosts in (1, 2, 3, 16, 17, 54, 55)] == [
        "fat-tree:k=2",
        "fat-tree:k=2",
        "fat-tree:k=4",
        "fat-tree:k=4",
        "fat-tree:k=6",
        "fat-tree:k=6",
        "fat-tree:k=8",
    ]


def test_all_to_all_loads_no_link_of_a_full_fat_tree_more_than_a_hosts_own():
    tree = build("fat-tree:k=4", 16)
    load = np.bincount(tree.route_link, minlength=tree.links)
    assert load.max() == 15


def test_oversubscription_divides_the_cables_up():
    clos = build("clos:leaf=8,spines=4,oversubscription=4", 32)
    assert sorted(set(clos.width.tolist())) == [0.5, 1.0]  # 8 hosts / (4 x 4 spines)
    assert longest(clos) == 4


def test_a_torus_goes_along_the_row_first_and_the_shorter_way():
    torus = build("torus:rows=3,columns=4", 12)
    assert torus.name == "torus:rows=3,columns=4"
    assert torus.links == 2 * 24
    assert len(torus.route(0, 3)) == 1  # around the end of the row
    assert len(torus.route(0, 6)) == 3
    first, second, last = torus.route(0, 6)
    assert (first,) == torus.route(0, 1)
    assert (second,) == torus.route(1, 2)
    assert (last,) == torus.route(2, 6)


@pytest.mark.parametrize("hosts", [1, 2, 3, 8])
def test_a_ring_of_any_size_goes_the_shorter_way(hosts):
    ring = build("ring", hosts)
    assert ring.links == {1: 0, 2: 2}.get(hosts, 2 * hosts)
    assert longest(ring) == hosts // 2


@pytest.mark.parametrize(
    ("text", "hosts", "message"),
    [
        ("fat-tree:k=3", 2, "an even number"),
        ("fat-tree:k=4", 17, "16 places for 17 hosts"),
        ("fat-tree:k=four", 2, "which is not a number"),
        ("clos:spines=0", 4, "nothing is joined"),
        ("clos:oversubscription=0.5", 4, "1 (none) or more"),
        ("clos:oversubscription=nan", 4, "1 (none) or more"),
        ("torus:rows=3", 8, "do not fill them"),
        ("torus:rows=0", 8, "do not fill them"),
        ("star", 0, "at least one"),
    ],
)
def test_what_cannot_be_built_is_named(text, hosts, message):
    with pytest.raises(UsageError, match=message.replace("(", r"\(").replace(")", r"\)")):
        build(text, hosts)


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'fat-tree'"):
        build("fattree", 4)
    with pytest.raises(TopologyError, match="leaf is given twice"):
        build("clos:leaf=4,leaf=2", 8)
    with pytest.raises(TopologyError, match="leaf is 100000000; at most 1024 can be laid out"):
        build("clos:leaf=100000000", 4)
    with pytest.raises(UnknownName, match="did you mean 'oversubscription'"):
        build("clos:oversubscripton=2", 4)


class TestOwn:
    """A topology in a TOML file."""

    def write(self, tmp_path, text: str) -> str:
        path = tmp_path / "own.toml"
        path.write_text(text)
        return str(path)

    def test_routes_are_the_shortest(self, tmp_path):
        path = self.write(
            tmp_path,
            'hosts = ["a", "b", "c"]\ncables = [["a", "s"], ["s", "t", 4], ["t", "b"], ["t", "c"], ["a", "t"]]\n',
        )
        own = build(path, 3)
        assert own.links == 10
        assert own.route(0, 1) == (8, 4)  # a-t, t-b
        assert own.width[2:4].tolist() == [4.0, 4.0]

    def test_hosts_that_nothing_joins_are_named(self, tmp_path):
        path = self.write(tmp_path, 'hosts = ["a", "b", "c"]\ncables = [["a", "s"], ["s", "b"], ["c", "t"]]\n')
        with pytest.raises(TopologyError, match="nothing joins host 'a' to host 'c'; add a cable"):
            build(path, 3)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('hosts = ["a", "b"]\ncables = [["a", "a"]]', "two different names"),
            ('hosts = ["a", "b"]\ncables = [["a", "b", -1]]', "positive number"),
            ('hosts = ["a", "b"]\ncables = [["a", "b", "40 Gb/s"]]', "positive number"),
            ('hosts = ["a", "a"]\ncables = [["a", "b"]]', "different names"),
            ('hosts = ["a"]\ncables = []', "1 hosts, 2 are asked for"),
            ('hosts = ["a", "b"]\ncable = [["a", "b"]]', "did you mean 'cables'"),
            ("hosts = [", "is TOML, and this is not"),
        ],
    )
    def test_mistakes_are_named(self, tmp_path, text, message):
        with pytest.raises(TopologyError, match=message):
            build(self.write(tmp_path, text), 2)


def test_more_hosts_than_routes_can_be_kept_for_are_refused_at_once():
    for text in ("star", "fat-tree", "ring", "torus", "clos"):
        with pytest.raises(TopologyError, match="routes between all pairs of hosts are kept, so there are 1024 at"):
            build(text, 100_000)


def test_a_cable_that_is_written_twice_is_refused(tmp_path):
    path = tmp_path / "mesh.toml"
    path.write_text('hosts = ["a", "b"]\ncables = [["a", "s"], ["b", "s"], ["s", "a", 2.0]]\n')
    with pytest.raises(TopologyError, match=r"cables\[2\] joins 's' and 'a' a second time"):
        build(str(path), 2)
