"""Links between hosts: star, fat-tree, leaf–spine Clos, 2-D torus, ring, and user-defined topologies.

A topology is hosts, switches and cables. A cable is full duplex: two links, one each way, each with the rate and
latency of the network times the cable's `width`. Between two hosts there is one fixed route, so a topology and its
routes are data, and the flow engine (`penstock.lab.simulation.cluster.flows`) and SimGrid get the same ones.

>>> star = build("star", 4)
>>> star.links, star.route(0, 3)
(8, (0, 7))
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import pairwise
from pathlib import Path

import numpy as np

from penstock.base.arrays import Floats, Ints
from penstock.base.system import toml
from penstock.base.system.kept import kept
from penstock.base.system.outside import MOST_SETTINGS_BYTES, content_of
from penstock.errors import UnknownName, UsageError, check_known

Route = tuple[int, ...]


MOST_HOSTS = 1024
"""Hosts of a topology at most: its table of routes has an entry for each pair of them."""


MOST_KEPT_BYTES = 128 * 2**20
"""Of topologies that are kept; one of 1024 hosts has 30 MB of routes or more."""


class TopologyError(UsageError):
    """A topology that cannot be built: a bad parameter, too few places for the hosts, hosts that nothing joins."""


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """Hosts, numbered from 0, and the links between them. Link `2 c` and `2 c + 1` are the two ways of cable `c`."""

    name: str
    """As it is asked for on the command line, with every parameter."""
    hosts: int
    width: Floats
    """(links,) rate of each link in rates of the network."""
    route_start: Ints
    """(hosts * hosts + 1,) the route from s to t is `route_link[route_start[s * hosts + t]:...]`; none from s to s."""
    route_link: Ints

    @property
    def links(self) -> int:
        """Number of links, one a direction."""
        return len(self.width)

    def route(self, source: int, target: int) -> Route:
        """The links from one host to another."""
        at = source * self.hosts + target
        return tuple(int(link) for link in self.route_link[self.route_start[at] : self.route_start[at + 1]])


class Cabling:
    """Cables in the file. Nodes are hosts (0 to hosts - 1) and whatever else is named: switches."""

    def __init__(self, hosts: int) -> None:
        self.hosts = hosts
        self.width: list[float] = []
        self._link: dict[tuple[object, object], int] = {}

    def cable(self, a: object, b: object, width: float = 1.0) -> None:
        """A full-duplex cable between two nodes; a second one between the same two is the same cable."""
        if (a, b) not in self._link:
            self._link[a, b], self._link[b, a] = len(self.width), len(self.width) + 1
            self.width += [width, width]

    def path(self, nodes: Sequence[object]) -> Route:
        """The links along these nodes."""
        return tuple(self._link[pair] for pair in pairwise(nodes))

    def neighbours(self) -> dict[object, list[object]]:
        """Of each node, in the order of the cables."""
        joined: dict[object, list[object]] = {host: [] for host in range(self.hosts)}
        for a, b in self._link:
            joined.setdefault(a, []).append(b)
        return joined

    def topology(self, name: str, nodes_between: Callable[[int, int], Sequence[object]]) -> Topology:
        """The topology with the route that `nodes_between` gives for each pair of hosts, both ends included."""
        start, links = [0], list[int]()
        for source in range(self.hosts):
            for target in range(self.hosts):
                if source != target:
                    links += self.path(nodes_between(source, target))
                start.append(len(links))
        return Topology(
            name=name,
            hosts=self.hosts,
            width=np.asarray(self.width, dtype=np.float64),
            route_start=np.asarray(start, dtype=np.int64),
            route_link=np.asarray(links, dtype=np.int64),
        )


def _star(hosts: int) -> Topology:
    cabling = Cabling(hosts)
    for host in range(hosts):
        cabling.cable(host, "switch")
    return cabling.topology("star", lambda s, t: (s, "switch", t))


def _fat_tree(hosts: int, *, k: int | None = None) -> Topology:
    """A k-ary fat-tree (Al-Fares, Loukissas, Vahdat, SIGCOMM 2008): k pods, (k/2)^2 core switches, k^3/4 places.

    Hosts fill the places from the left. Ways up are chosen by the target (destination modulo k), which is static.
    """
    if k is None:
        k = next(even for even in range(2, 2 * hosts + 3, 2) if even**3 // 4 >= hosts)
    if k < 2 or k % 2:
        raise TopologyError(f"fat-tree with k={k}: k is the ports of a switch, an even number from 2 on")
    if k**3 // 4 < hosts:
        raise TopologyError(f"fat-tree with k={k} has {k**3 // 4} places for {hosts} hosts; raise k, or leave it out")
    half, cabling = k // 2, Cabling(hosts)

    def edge(host: int) -> tuple[str, int]:
        return "edge", host // half

    def pod(host: int) -> int:
        return host // (half * half)

    for host in range(hosts):
        cabling.cable(host, edge(host))
    for switch in range((hosts - 1) // half + 1):
        for up in range(half):
            cabling.cable(("edge", switch), ("aggregation", switch // half, up))
    for group in range(pod(hosts - 1) + 1):
        for up in range(half):
            for core in range(half):
                cabling.cable(("aggregation", group, up), ("core", up, core))

    def nodes(source: int, target: int) -> Sequence[object]:
        if edge(source) == edge(target):
            return source, edge(source), target
        up, core = target % half, target // half % half
        if pod(source) == pod(target):
            return source, edge(source), ("aggregation", pod(source), up), edge(target), target
        above, below = ("aggregation", pod(source), up), ("aggregation", pod(target), up)
        return source, edge(source), above, ("core", up, core), below, edge(target), target

    return cabling.topology(f"fat-tree:k={k}", nodes)


def _clos(hosts: int, *, leaf: int | None = None, spines: int | None = None, oversubscription: float = 1.0) -> Topology:
    """Leaf–spine: `leaf` hosts on a leaf switch, each leaf with one cable to each of the spines.

    The cables up of a leaf carry together what its hosts send, divided by `oversubscription`. The spine is chosen by
    the target, which is static.
    """
    per_leaf = leaf if leaf is not None else max(1, math.ceil(math.sqrt(hosts)))
    count = spines if spines is not None else per_leaf
    if per_leaf < 1 or count < 1:
        raise TopologyError(f"clos with leaf={per_leaf}, spines={count}: each is at least 1, or nothing is joined")
    if not (oversubscription >= 1 and math.isfinite(oversubscription)):
        raise TopologyError(f"clos with oversubscription={oversubscription:g}: it is 1 (none) or more")
    cabling = Cabling(hosts)
    for host in range(hosts):
        cabling.cable(host, ("leaf", host // per_leaf))
    for switch in range((hosts - 1) // per_leaf + 1):
        for spine in range(count):
            cabling.cable(("leaf", switch), ("spine", spine), per_leaf / (oversubscription * count))

    def nodes(source: int, target: int) -> Sequence[object]:
        up, down = ("leaf", source // per_leaf), ("leaf", target // per_leaf)
        return (source, up, target) if up == down else (source, up, ("spine", target % count), down, target)

    name = f"clos:leaf={per_leaf},spines={count},oversubscription={oversubscription:g}"
    return cabling.topology(name, nodes)


def _torus(hosts: int, *, rows: int | None = None, columns: int | None = None) -> Topology:
    """A 2-D torus of hosts: four cables a host, each of the network's full rate.

    Routes go along the row first, then along the column, each the shorter way round (up where both are equal).
    """
    if rows is None and columns is None:
        rows = next(r for r in range(math.isqrt(hosts), 0, -1) if hosts % r == 0)
    high = rows if rows is not None else max(1, hosts // max(1, columns or 1))
    wide = columns if columns is not None else max(1, hosts // max(1, high))
    if high * wide != hosts or high < 1:
        raise TopologyError(
            f"torus of {high} x {wide} has {high * wide} places, and {hosts} hosts do not fill them; choose rows and "
            "columns whose product is the number of hosts, or leave both out"
        )
    cabling = Cabling(hosts)
    for host in range(hosts):
        row, column = divmod(host, wide)
        for other in (row * wide + (column + 1) % wide, (row + 1) % high * wide + column):
            if other != host:
                cabling.cable(host, other)

    def nodes(source: int, target: int) -> Sequence[object]:
        (row, column), (to_row, to_column) = divmod(source, wide), divmod(target, wide)
        along = [row * wide + at for at in _way_round(column, to_column, wide)]
        return along + [at * wide + to_column for at in _way_round(row, to_row, high)[1:]]

    return cabling.topology(f"torus:rows={high},columns={wide}", nodes)


def _ring(hosts: int) -> Topology:
    """Hosts in a circle: two cables a host, each of the network's full rate; the shorter way round."""
    cabling = Cabling(hosts)
    for host in range(hosts):
        if hosts > 1:
            cabling.cable(host, (host + 1) % hosts)
    return cabling.topology("ring", lambda s, t: _way_round(s, t, hosts))


def _way_round(source: int, target: int, size: int) -> list[int]:
    up = (target - source) % size
    step, count = (1, up) if 2 * up <= size else (-1, size - up)
    return [(source + step * i) % size for i in range(count + 1)]


TOPOLOGIES: dict[str, Callable[..., Topology]] = {
    "star": _star,
    "fat-tree": _fat_tree,
    "clos": _clos,
    "torus": _torus,
    "ring": _ring,
}
"""Name -> what builds it for a number of hosts; keyword arguments are its parameters on the command line."""


def build(text: str, hosts: int) -> Topology:
    """The topology `name` or `name:parameter=value,…` for this many hosts, or the current one of a TOML file.

    Raises: UnknownName: no such topology or parameter, with the nearest name; TopologyError: it cannot be built;
            UsageError: fewer hosts than one; FileError: the file cannot be read.
    """
    if hosts < 1:
        raise UsageError(f"a cluster of {hosts} hosts: there is at least one")
    if hosts > MOST_HOSTS:
        raise TopologyError(
            f"a cluster of {hosts} hosts: the routes between all pairs of hosts are kept, so there are {MOST_HOSTS} at "
            "most; an operation has a few dozen limbs, and more hosts than that only make its exchanges longer"
        )
    if text.endswith(".toml"):
        path = Path(text)
        return _own(path, content_of(path, MOST_SETTINGS_BYTES), hosts)
    return _named(text, hosts)


MOST = 1024
"""Largest parameter of a named topology: ports, hosts on a leaf, spines, rows, columns. Every cable is laid out."""


@kept(MOST_KEPT_BYTES)
def _named(text: str, hosts: int) -> Topology:
    name, _, rest = text.partition(":")
    check_known("topology", name, TOPOLOGIES)
    parameters = {key: parameter for key, parameter in signature(TOPOLOGIES[name]).parameters.items() if key != "hosts"}
    known: dict[str, Callable[[str], float]] = {
        key: float if parameter.annotation == "float" else int for key, parameter in parameters.items()
    }
    given = dict[str, float]()
    for item in filter(None, rest.split(",")):
        key, _, value = (part.strip() for part in item.partition("="))
        check_known(f"parameter of topology '{name}'", key, known)
        if key in given:
            raise TopologyError(f"topology '{text}': {key} is given twice")
        try:
            given[key] = known[key](value)
        except ValueError as error:
            raise TopologyError(f"topology '{text}': {key} is '{value}', which is not a number") from error
        if given[key] > MOST:
            raise TopologyError(f"topology '{text}': {key} is {value}; at most {MOST} can be laid out")
    return TOPOLOGIES[name](hosts, **given)


@kept(MOST_KEPT_BYTES)
def _own(path: Path, content: bytes, hosts: int) -> Topology:
    """A user-defined topology: `hosts = ["a", …]` and `cables = [["a", "switch"], ["switch", "b", 2.0], …]`.

    The third entry is the cable's rate in rates of the network. Routes have the fewest links; among those, the ones
    over cables that were written first.
    """
    record = toml.table(content, str(path), "a topology file", TopologyError)
    for key in record:
        if key not in ("hosts", "cables"):
            raise TopologyError(f"{path}: {UnknownName('key', key, ('hosts', 'cables'))}")
    joined: set[frozenset[str]] = set()
    names, cables = record.get("hosts", []), record.get("cables", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise TopologyError(f"{path}: hosts is a list of different names")
    if len(names) != hosts:
        raise TopologyError(f"{path}: it has {len(names)} hosts, {hosts} are asked for; ask for as many as it has")
    number: dict[object, object] = {name: i for i, name in enumerate(names)}
    cabling = Cabling(hosts)
    for i, cable in enumerate(cables if isinstance(cables, list) else [cables]):
        width = cable[2] if isinstance(cable, list) and len(cable) == 3 else 1.0
        ends = cable[:2] if isinstance(cable, list) else []
        if len(ends) != 2 or not all(isinstance(end, str) for end in ends) or ends[0] == ends[1]:
            raise TopologyError(f'{path}: cables[{i}] is {cable!r}; write two different names: ["a", "switch"]')
        if frozenset(ends) in joined:
            raise TopologyError(
                f"{path}: cables[{i}] joins '{ends[0]}' and '{ends[1]}' a second time; routes are fixed, so write one "
                "cable with the width of both together"
            )
        joined.add(frozenset(ends))
        if isinstance(width, bool) or not isinstance(width, int | float) or not 0 < width < math.inf:
            raise TopologyError(f"{path}: cables[{i}] has width {width!r}; it is a positive number of network rates")
        cabling.cable(number.get(ends[0], ends[0]), number.get(ends[1], ends[1]), float(width))
    paths = [_shortest(cabling.neighbours(), source) for source in range(hosts)]
    for source, routes in enumerate(paths):
        for target in range(hosts):
            if target not in routes:
                raise TopologyError(
                    f"{path}: nothing joins host '{names[source]}' to host '{names[target]}'; add a cable between them"
                )

    def nodes(source: int, target: int) -> Sequence[object]:
        way: list[object] = [target]
        while way[-1] != source:
            way.append(paths[source][way[-1]])
        return way[::-1]

    return cabling.topology(str(path), nodes)


def _shortest(neighbours: Mapping[object, Sequence[object]], source: int) -> dict[object, object]:
    """The node before each node on the shortest way from `source`."""
    before: dict[object, object] = {source: source}
    queue = deque[object]([source])
    while queue:
        node = queue.popleft()
        for other in neighbours.get(node, ()):
            if other not in before:
                before[other] = node
                queue.append(other)
    return before
