"""The storage-I/O study by its own rules: its demands D and divisors go in, its tables have to come out.

One host: T / T_ideal = 1 + D / BW. Several: T(h) = T/d_compute + (D T/BW)/d_io + V/BW_net, where rPLP gives the busiest
host ceil(l/h) + ceil(k/h) of l + k limbs. "Average" is the arithmetic mean of the printed values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from penstock.lab.simulation.memory.serial_law import required_hit_ratio, serial_slowdown
from penstock.scheme.machines import load_tiers
from penstock_studies.io_study import data
from penstock_studies.io_study.law import (
    STUDY_COMMUNICATION,
    STUDY_DIVISORS,
    ClusterTimes,
    cluster_times,
    rplp_divisor,
)

GPU_COMPUTE_DIVISOR: Mapping[str, float] = {"resnet20": 4.8407, "helr": 15.623}
GPU_COMMUNICATION: Mapping[str, float] = {"resnet20": 0.21534, "helr": 0.15891}
"""V/BW_net of TensorFHE on Ethernet at 32 hosts, in ideal times of one host.

With the compute divisors these are four constants for four figures (two shares of ResNet-20's time, two mean speedups),
so TensorFHE's cluster rows are met by construction: they test nothing. Loads are divided as rPLP does it at the top
level (15.5 and 13.3). HELR's compute is then divided by more than its loads: the three-part sum with those loads is not
quite the study's computation.
"""

BANDWIDTH: Mapping[str, float] = {
    name: tier.bandwidth_bytes_per_s for name, tier in zip(data.TIERS, load_tiers(data.TIERS), strict=True)
}


def printed_mean(speedups: Sequence[float], *, as_slowdowns: bool) -> float:
    """The study's average: the arithmetic mean of its printed values, speedups or slowdowns.

    >>> printed_mean([0.5, 0.25], as_slowdowns=True)
    0.3333333333333333
    """
    return 1 / fmean(1 / speedup for speedup in speedups) if as_slowdowns else fmean(speedups)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """The calibrated reading's inputs: an accelerator and its two programs."""

    name: str
    demand: Mapping[str, float]
    """Application -> D [bytes/s]."""
    limbs: Mapping[str, tuple[int, int]]
    compute_divisor: Mapping[str, float]
    """At 32 hosts."""
    io_divisor: Mapping[str, float]
    communication: Mapping[str, float]
    """At 32 hosts on Ethernet, in ideal times."""

    def slowdown(self, application: str, tier: str, hit_ratio: float = 0.0) -> float:
        return serial_slowdown(self.demand[application], BANDWIDTH[tier], hit_ratio=hit_ratio)

    def mean_slowdown(self, tier: str) -> float:
        return fmean(self.slowdown(application, tier) for application in data.APPLICATIONS)

    def mean_hit_ratio(self, tier: str) -> float:
        return fmean(required_hit_ratio(self.demand[a], BANDWIDTH[tier], data.IDEAL_SHARE) for a in data.APPLICATIONS)

    def times(self, application: str, tier: str, network: str, hosts: int) -> ClusterTimes:
        """In ideal times of one host. Only 1 and 32 hosts are the study's: between, volumes grow as rPLP's do."""
        q, p = self.limbs[application]
        share = rplp_divisor(q, p, hosts) / rplp_divisor(q, p, data.MOST_HOSTS)
        volume = _volume(q, p, hosts) / _volume(q, p, data.MOST_HOSTS) * self.communication[application]
        faster = data.FAST_TO_ETHERNET if network == data.NETWORKS[1] else 1.0
        return cluster_times(
            ideal_s=1.0,
            bytes_per_ideal_s=self.demand[application],
            bandwidth_bytes_per_s=BANDWIDTH[tier],
            compute_divisor=_divisor(self.compute_divisor[application], share, hosts),
            io_divisor=_divisor(self.io_divisor[application], share, hosts),
            communication_bytes=volume,
            network_bytes_per_s=faster,
        )

    def speedup(self, application: str, tier: str, network: str, hosts: int) -> float:
        single = self.times(application, tier, network, 1)
        return self.times(application, tier, network, hosts).speedup(single)

    def mean_speedup(self, tier: str, network: str) -> float:
        """At 32 hosts, over both applications: the mean of slowdowns where the study prints slowdowns."""
        speedups = [self.speedup(a, tier, network, data.MOST_HOSTS) for a in data.APPLICATIONS]
        return printed_mean(speedups, as_slowdowns=self is SHARP and data.SHARP_SPEEDUP[network][tier].inverse)

    def shares(self, application: str, tier: str, network: str, hosts: int) -> dict[str, float]:
        """Part -> share of the time."""
        times = self.times(application, tier, network, hosts)
        values = (times.compute_s, times.io_s, times.communication_s)
        return {part: value / times.total_s for part, value in zip(data.PARTS, values, strict=True)}


SHARP = Accelerator(
    "sharp", data.SHARP_DEMAND, data.CALIBRATED_LIMBS, STUDY_DIVISORS, STUDY_DIVISORS, STUDY_COMMUNICATION
)
TENSORFHE = Accelerator(
    "tensorfhe",
    data.GPU_DEMAND,
    data.GPU_LIMBS,
    GPU_COMPUTE_DIVISOR,
    {a: rplp_divisor(*limbs, data.MOST_HOSTS) for a, limbs in data.GPU_LIMBS.items()},
    GPU_COMMUNICATION,
)
ACCELERATORS = {accelerator.name: accelerator for accelerator in (SHARP, TENSORFHE)}


def _divisor(at_most_hosts: float, share: float, hosts: int) -> float:
    """1 on one host, the calibrated one on 32, and between in proportion to rPLP's."""
    return 1.0 if hosts == 1 else max(1.0, at_most_hosts * share)


def _volume(limbs: int, special: int, hosts: int) -> int:
    """Limbs over the busiest link in one key switch: ModUp of one polynomial, ModDown of two."""
    return (hosts - 1) * (-(-limbs // hosts) + 2 * -(-special // hosts))


def mean_gpu_speedup(network: str) -> float:
    """Over applications and tiers."""
    return fmean(TENSORFHE.mean_speedup(tier, network) for tier in data.TIERS)
