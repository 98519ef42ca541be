"""The storage-I/O study from first principles: our traces, priced on cited machines, over its tiers and networks.

Nothing here is fitted to the study. Each machine has one calibrated number, its utilisation, from bootstrapping alone.
Keys count in full form, as the units read them. Traces and priced programs are kept for the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

import pyarrow.compute as pc

from penstock.lab.simulation.cluster.cluster import play_clusters
from penstock.lab.simulation.cluster.partitions import HostPart, Together, partition_named
from penstock.lab.simulation.cluster.program import ClusterProgram, prepare
from penstock.lab.simulation.cluster.shapes import compute_s, parts_of
from penstock.lab.simulation.cluster.spec import Cluster
from penstock.lab.simulation.memory.serial_law import required_hit_ratio
from penstock.lab.simulation.play import simulate
from penstock.program.running import trace_workload
from penstock.scheme.machines import Machine, load_machines, load_tiers
from penstock.scheme.machines.networks import load_network
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.play.caches import ForcedHitRatio
from penstock.scheme.play.hierarchy import Pace, PlayedPoint
from penstock.scheme.play.price import PricedTrace, price_trace
from penstock.scheme.traces.schema import Trace
from penstock_studies.io_study import data
from penstock_studies.io_study.calibrated import BANDWIDTH, printed_mean

WORKLOADS: Mapping[str, tuple[str, str]] = {
    "resnet20": ("resnet20-multiplexed", "published"),
    "helr": ("logistic-regression", "helr"),
}
"""Application -> workload and size."""
PARAMS: Mapping[tuple[str, str], str] = {
    ("sharp", "resnet20"): "sharp",
    ("sharp", "helr"): "sharp",
    ("tensorfhe", "resnet20"): "tensorfhe-resnet20",
    ("tensorfhe", "helr"): "tensorfhe-helr",
}
MACHINES: Mapping[str, str] = {"sharp": "sharp", "tensorfhe": "a100-tensorfhe"}
PARTITION = "rplp-holders"
"""The headline's rPLP: a limb goes to the hosts that compute with it, and to no other."""
ALL_HOSTS = "rplp"
"""The other reading: every host takes part in every exchange, even without work."""
OPPOSED = "rplp-opposed"
"""Limbs of P dealt from the last host down."""
FULL = KeyForm("full")


@dataclass(frozen=True, eq=False)
class StudyProgram:
    """One application on one accelerator."""

    accelerator: str
    application: str
    machine: Machine
    trace: Trace

    @cached_property
    def params(self) -> CkksParameters:
        return self.trace.parameters()

    @cached_property
    def priced(self) -> PricedTrace:
        return price_trace(self.trace, self.machine, key_form=FULL)

    @cached_property
    def on_hosts(self) -> ClusterProgram:
        return prepare(self.trace, self.machine, self.priced, FULL)

    @cached_property
    def _parts(self) -> dict[int, tuple[HostPart | None, ...]]:
        return {}

    def compute_s(self, machine: Machine, hosts: int = 1) -> float:
        """Seconds that the busiest host computes on another machine in the place of this one, of the whole program."""
        if hosts not in self._parts:
            partition = partition_named(PARTITION)
            assert isinstance(partition, Together)
            self._parts[hosts] = parts_of(self.on_hosts, partition, hosts)
        return compute_s(self.on_hosts, self._parts[hosts], machine)

    @property
    def clock_hz(self) -> float:
        """Of the accelerator."""
        clock = self.machine.clock
        assert clock is not None, f"machine '{self.machine.name}' states its clock"
        return clock.value

    @property
    def runs(self) -> int:
        """What the study reports one of: inferences, or iterations."""
        return data.HELR_ITERATIONS if self.application == "helr" else 1

    @property
    def ideal_s(self) -> float:
        """Seconds of an inference or an iteration with every byte resident."""
        return self.priced.ideal_s / self.runs

    @property
    def key_bytes(self) -> float:
        """Of an inference or an iteration."""
        return self.priced.accessed_bytes / self.runs

    @property
    def demand(self) -> float:
        """D [bytes/s]."""
        return self.priced.demand_bytes_per_s

    @cached_property
    def client_limbs(self) -> Mapping[str, tuple[int, ...]]:
        """`encrypt` and `decrypt` -> limbs of each ciphertext that the client makes or reads."""
        operations = self.trace.view(composites=False).operations
        return {
            kind: tuple(operations.filter(pc.equal(operations["kind"], kind))["limbs_in"].to_pylist())
            for kind in ("encrypt", "decrypt")
        }

    def key_accesses(self) -> int:
        """Reads of an evaluation key."""
        return len(self.priced.access_bytes)

    def num_keys(self) -> int:
        """Different evaluation keys."""
        keys = self.trace.view(composites=False).server_operations()["key"]
        return len(keys.unique().drop_null())

    @cached_property
    def _slowdowns(self) -> dict[tuple[str, float], float]:
        ratios = [step / 10 for step in range(11)]
        rows = simulate(self.priced, load_tiers(data.TIERS), caches=[ForcedHitRatio(r) for r in ratios])
        return {
            (tier, ratio): float(row["slowdown"])
            for row, (ratio, tier) in zip(rows, [(r, t) for r in ratios for t in data.TIERS], strict=True)
        }

    def slowdown(self, tier: str, hit_ratio: float = 0.0) -> float:
        """Played in mode `serial`; hit ratios are tenths."""
        return self._slowdowns[tier, hit_ratio]

    def hit_ratio(self, tier: str) -> float:
        return required_hit_ratio(self.demand, BANDWIDTH[tier], data.IDEAL_SHARE)

    @cached_property
    def _played(self) -> dict[str, dict[tuple[str, str, int], PlayedPoint]]:
        """Partition -> results, the headline's at every number of hosts, others at the most."""
        return {}

    def result(self, tier: str, network: str, hosts: int, partition: str = PARTITION) -> PlayedPoint:
        """Partitions other than the headline's: at 32 hosts only."""
        if partition not in self._played:
            counts = data.HOST_COUNTS if partition == PARTITION else (data.MOST_HOSTS,)
            self._played[partition] = play(self.on_hosts, counts, partition=partition)
        return self._played[partition][tier, network, hosts]

    def speedup(self, tier: str, network: str, hosts: int, partition: str = PARTITION) -> float:
        return self.result(tier, network, hosts, partition).speedup(self.result(tier, network, 1))

    def communication(self, partition: str = PARTITION) -> float:
        """Seconds of messages at 32 hosts on Ethernet, in ideal times of one host."""
        played = self.result(data.TIERS[0], data.NETWORKS[0], data.MOST_HOSTS, partition)
        return played.communication_s / self.priced.ideal_s

    def shares(self, tier: str, network: str, hosts: int) -> dict[str, float]:
        """Part -> share of the time."""
        result = self.result(tier, network, hosts)
        values = (result.compute_s, result.io_s, result.communication_s)
        return {part: value / result.total_s for part, value in zip(data.PARTS, values, strict=True)}


def play(
    program: ClusterProgram, host_counts: tuple[int, ...], **options: Any
) -> dict[tuple[str, str, int], PlayedPoint]:
    """(tier, network, hosts) -> result, in mode `serial` on a star unless `options` of `Cluster` say more."""
    tiers = load_tiers(data.TIERS)
    places = [(network, hosts) for network in data.NETWORKS for hosts in host_counts]
    clusters = [Cluster(hosts=hosts, network=load_network(network), **options) for network, hosts in places]
    played = play_clusters(program, clusters, [Pace(tier=tier, mode="serial") for tier in tiers])
    keys = [(tier, network, hosts) for network, hosts in places for tier in data.TIERS]
    return dict(zip(keys, played, strict=True))


class Study:
    """The four programs, each made when it is first asked for."""

    def __init__(self) -> None:
        self._programs: dict[tuple[str, str, str], StudyProgram] = {}

    def program(self, accelerator: str, application: str, size: str | None = None) -> StudyProgram:
        """`size`: of the workload, where it is not the headline's."""
        workload, own = WORKLOADS[application]
        key = accelerator, application, size or own
        if key not in self._programs:
            machine = load_machines([MACHINES[accelerator]])[0]
            trace = trace_workload(workload, PARAMS[accelerator, application], size or own, 0)
            self._programs[key] = StudyProgram(accelerator, application, machine, trace)
        return self._programs[key]

    def both(self, accelerator: str) -> list[StudyProgram]:
        return [self.program(accelerator, application) for application in data.APPLICATIONS]

    def mean_slowdown(self, accelerator: str, tier: str) -> float:
        return fmean(program.slowdown(tier) for program in self.both(accelerator))

    def mean_hit_ratio(self, accelerator: str, tier: str) -> float:
        return fmean(program.hit_ratio(tier) for program in self.both(accelerator))

    def mean_speedup(self, accelerator: str, tier: str, network: str, partition: str = PARTITION) -> float:
        """At 32 hosts, averaged as the study averages."""
        speedups = [program.speedup(tier, network, data.MOST_HOSTS, partition) for program in self.both(accelerator)]
        return mean_of(accelerator, tier, network, speedups)


def mean_of(accelerator: str, tier: str, network: str, speedups: Sequence[float]) -> float:
    """Of both applications' speedups, as the study averages this row: slowdowns where it prints one."""
    as_slowdowns = accelerator == "sharp" and data.SHARP_SPEEDUP[network][tier].inverse
    return printed_mean(speedups, as_slowdowns=as_slowdowns)
