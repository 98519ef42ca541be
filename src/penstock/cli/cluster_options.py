"""Options of verbs that play a program on several hosts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from penstock.errors import UsageError
from penstock.machines.networks import Network, load_networks, network_names
from penstock.simulation.cluster.collectives import ALL_GATHERS, BROADCASTS
from penstock.simulation.cluster.partitions import PARTITIONS, ByTenant
from penstock.simulation.cluster.topology import TOPOLOGIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """What the command line asks of clusters."""

    counts: tuple[int, ...]
    networks: tuple[Network, ...]
    topology: str
    partitions: tuple[str, ...]
    all_gather: str
    broadcast: str
    sharing: str
    simgrid: bool

    @property
    def single(self) -> bool:
        """Whether nothing but one host without a network is asked for."""
        return self.counts == (1,) and not self.networks

    def clusters(self) -> list[Any]:
        """Every number of hosts in every network with every partition, checked: `cluster.Cluster`."""
        from penstock.simulation.cluster.cluster import Cluster

        return [
            Cluster(
                hosts=hosts,
                network=network,
                topology=self.topology,
                partition=partition,
                algorithm=self.all_gather,
                broadcast=self.broadcast,
                sharing="by-latency" if self.sharing == "by-latency" else "equal",
            )
            for partition in self.partitions
            for network in self.networks or (None,)
            for hosts in self.counts
        ]


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--hosts`, `--network` and what goes with them; the command gets one argument `hosts`, a `Hosts`."""

    @click.option("--hosts", default="1", show_default=True, metavar="N[,N…]", help="Hosts: '8' or '1,2,4,8,16,32'.")
    @click.option(
        "--network", "networks", multiple=True,
        help=f"Network between hosts: {', '.join(network_names())}, a .toml file or a bandwidth ('100 Gb/s'); may be "
        "repeated.",
    )  # fmt: skip
    @click.option(
        "--topology", default="star", show_default=True,
        help=f"How links join hosts: {', '.join(TOPOLOGIES)}, with parameters ('fat-tree:k=8', "
        "'clos:leaf=8,spines=4,oversubscription=3', 'torus:rows=4'), or a .toml file.",
    )  # fmt: skip
    @click.option(
        "--partition", "partitions", multiple=True, default=("rplp",), show_default=True,
        help=f"What goes to which host: {', '.join(PARTITIONS)}; may be repeated.",
    )  # fmt: skip
    @click.option("--all-gather", default="direct", show_default=True, help=f"Algorithm: {', '.join(ALL_GATHERS)}.")
    @click.option("--broadcast", default="scatter", show_default=True, help=f"Algorithm: {', '.join(BROADCASTS)}.")
    @click.option(
        "--sharing",
        type=click.Choice(["equal", "by-latency"]),
        default="equal",
        show_default=True,
        help="How messages share a link: each the same rate, or less over long routes, as TCP does.",
    )
    @click.option("--simgrid", is_flag=True, help="Let SimGrid play the messages (a check of the flow engine).")
    @functools.wraps(command)
    def with_hosts(
        *args: Any, hosts: str, networks: tuple[str, ...], topology: str, partitions: tuple[str, ...],
        all_gather: str, broadcast: str, sharing: str, simgrid: bool, **others: Any,
    ) -> Any:  # fmt: skip
        asked = Hosts(
            counts=_counts(hosts),
            networks=tuple(load_networks(networks)),
            topology=topology,
            partitions=tuple(dict.fromkeys(partitions)),
            all_gather=all_gather,
            broadcast=broadcast,
            sharing=sharing,
            simgrid=simgrid,
        )
        if max(asked.counts) > 1 and not asked.networks and set(partitions) != {ByTenant.name}:
            raise UsageError(
                f"--hosts {hosts}: hosts talk to each other; name a --network: {', '.join(network_names())}"
            )
        if simgrid and asked.single:
            raise UsageError("--simgrid plays messages between hosts: name --hosts and a --network")
        asked.clusters()  # names and topologies are checked before anything is traced, for one host too
        return command(*args, hosts=asked, **others)

    return with_hosts


def _counts(text: str) -> tuple[int, ...]:
    counts = []
    for item in text.split(","):
        word = item.strip()
        if not word.isdecimal() or int(word) < 1:
            raise UsageError(f"--hosts '{text}': '{word}' is no number of hosts; write '8' or '1,2,4,8'")
        counts.append(int(word))
    return tuple(dict.fromkeys(counts))
