"""Messages between hosts in the storage-I/O study's programs, and the effect of each assumption on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from penstock.base.types import Row
from penstock.lab.simulation.cluster.cluster import play_clusters
from penstock.lab.simulation.cluster.collectives import AllGather, Broadcast, Collective
from penstock.lab.simulation.cluster.dealing import MOD_DOWNS
from penstock.lab.simulation.cluster.exchanges import Exchanges
from penstock.lab.simulation.cluster.partitions import Together, partition_named
from penstock.lab.simulation.cluster.shapes import dealt
from penstock.lab.simulation.cluster.spec import Cluster
from penstock.scheme.machines import load_tiers
from penstock.scheme.machines.networks import load_network
from penstock.scheme.operations import OpKind
from penstock.scheme.play.hierarchy import Pace
from penstock_studies.io_study import data
from penstock_studies.io_study.calibrated import SHARP
from penstock_studies.io_study.model import ALL_HOSTS, PARTITION, StudyProgram
from penstock_studies.io_study.rows import row

Exchanged: TypeAlias = tuple[Collective, ...]
Change: TypeAlias = Callable[[OpKind, Exchanged], Exchanged]
"""What an operation of a kind exchanges instead."""


def communication_rows(program: StudyProgram) -> Iterator[Row]:
    """Seconds of messages on Ethernet at 32 hosts, in ideal times of one host: what decides SHARP's cluster rows."""
    name = f"{program.accelerator}.{program.application}"
    holders = _cluster()
    places = {
        "base": ("as computed", holders),
        "all-hosts": ("every host takes part in every exchange", replace(holders, partition=ALL_HOSTS)),
        "ring": ("all-gathers go round a ring", replace(holders, algorithm="ring")),
        "by-digit": ("digits over hosts instead of limbs", replace(holders, partition="by-digit")),
    }
    point = Pace(tier=load_tiers([data.SHOWN_TIER])[0], mode="serial")
    played = play_clusters(program.on_hosts, [cluster for _, cluster in places.values()], [point])
    ideal_s = program.priced.ideal_s
    slowdowns = {
        key: (says, result.communication_s / ideal_s)
        for (key, (says, _)), result in zip(places.items(), played, strict=True)
    }
    less: dict[str, tuple[str, Change]] = {
        "rescale-free": ("the limb that a rescale drops costs no message", no_broadcast),
        "one-moddown-polynomial": ("of ModDown one polynomial moves, not two", halved_mod_down),
        "no-moddown": ("ModDown moves nothing: special limbs are at every host", no_mod_down),
    }
    for key, (says, change) in less.items():
        slowdowns[key] = (says, messages_s(program, change) / ideal_s)
    base = slowdowns["base"][1]
    constant = SHARP.communication[program.application] if program.accelerator == "sharp" else None
    for key, (says, value) in slowdowns.items():
        yield row(
            f"sensitivity.{name}.communication.{key}",
            "sensitivity",
            "communication_time",
            value,
            f"{says}: {value / base - 1:+.1%}",
            unit="ideal times",
            calibrated=constant,
            policy=key,
        )


def _cluster() -> Cluster:
    return Cluster(hosts=data.MOST_HOSTS, network=load_network(data.NETWORKS[0]), partition=PARTITION)


def messages_s(program: StudyProgram, change: Change) -> float:
    """Seconds of all messages, each shape's exchanges changed."""
    cluster, prepared = _cluster(), program.on_hosts
    partition = partition_named(cluster.partition)
    assert isinstance(partition, Together)
    exchanged = dealt(prepared, partition, cluster.hosts).exchanged
    changed = [
        change(OpKind(shape.kind), exchange)
        for shape, exchange in zip(prepared.shapes.distinct, exchanged, strict=True)
    ]
    return float(Exchanges(cluster, changed).seconds @ prepared.shapes.counts)


def no_broadcast(kind: OpKind, exchanged: Exchanged) -> Exchanged:
    return tuple(exchange for exchange in exchanged if not isinstance(exchange, Broadcast))


def no_mod_down(kind: OpKind, exchanged: Exchanged) -> Exchanged:
    """ModDown's all-gather is the last exchange of an operation that has one."""
    return exchanged[:-1] if kind in MOD_DOWNS else exchanged


def halved_mod_down(kind: OpKind, exchanged: Exchanged) -> Exchanged:
    if kind not in MOD_DOWNS:
        return exchanged
    gather = exchanged[-1]
    assert isinstance(gather, AllGather), "ModDown gathers limbs of P"
    return (*exchanged[:-1], replace(gather, blocks=tuple(block // 2 for block in gather.blocks)))
