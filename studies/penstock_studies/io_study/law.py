"""Closed forms of a cluster: the three-part sum, and the divisor of rPLP.

The storage-I/O study's cluster results follow a sum of three parts: on h hosts

    T(h) = T(1)/d_compute + D T(1)/(BW d_io) + V/BW_net,

with T(1) the ideal time of one host, D the bytes requested per second of it, d the effective divisors and V the bytes
over the busiest host's link. rPLP deals whole limbs, so an operation of n + k limbs is divided by
(n+k)/(ceil(n/h)+ceil(k/h)), not by h; a program's divisor is the mean over its operations, weighted by their time.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import UsageError

STUDY_DIVISORS = {"resnet20": 18.5, "helr": 12.7}
"""Effective divisors of SHARP's programs at 32 hosts that the study's nine cluster figures fit (calibrated)."""
STUDY_COMMUNICATION = {"resnet20": 17.67, "helr": 29.06}
"""V/BW_net on Ethernet (400 Gb/s) at 32 hosts, in ideal times of one host, calibrated with the above on the same nine
figures: 8 mean speedups and the 92.5 % of ResNet-20's time that is communication. All are met within 0.41 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTimes:
    """The three parts of a program's time on a cluster, in series."""

    compute_s: float
    io_s: float
    communication_s: float

    @property
    def total_s(self) -> float:
        return self.compute_s + self.io_s + self.communication_s

    def speedup(self, single: ClusterTimes) -> float:
        """Against another cluster, such as one host."""
        return single.total_s / self.total_s


def cluster_times(
    *,
    ideal_s: float,
    bytes_per_ideal_s: float,
    bandwidth_bytes_per_s: float,
    compute_divisor: float = 1.0,
    io_divisor: float | None = None,
    communication_bytes: float = 0.0,
    network_bytes_per_s: float = float("inf"),
) -> ClusterTimes:
    """The three-part sum. With the defaults it is one host's serial law, T (1 + D/BW).

    Args:   ideal_s: T(1); bytes_per_ideal_s: D; bandwidth_bytes_per_s: of each host's tier; compute_divisor: by how
            much the busiest host computes less than one host; io_divisor: the same for loads (default: the same
            number); communication_bytes: V, over the busiest link; network_bytes_per_s: of a link.
    Raises: UsageError: a time, demand or volume that is negative, a rate or divisor that is not positive.
    >>> one = cluster_times(ideal_s=1.0, bytes_per_ideal_s=1633e9, bandwidth_bytes_per_s=64e9)
    >>> many = cluster_times(ideal_s=1.0, bytes_per_ideal_s=1633e9, bandwidth_bytes_per_s=64e9, compute_divisor=18.5,
    ...     communication_bytes=17.67 * 50e9, network_bytes_per_s=50e9)
    >>> round(many.speedup(one), 2), round(many.communication_s / many.total_s, 3)
    (1.39, 0.925)
    """
    for what, value in (
        ("ideal time", ideal_s),
        ("demand", bytes_per_ideal_s),
        ("communication volume", communication_bytes),
    ):
        if not value >= 0:
            raise UsageError(f"a {what} of {value}: it is not negative")
    loads = compute_divisor if io_divisor is None else io_divisor
    for what, value in (
        ("bandwidth", bandwidth_bytes_per_s),
        ("network bandwidth", network_bytes_per_s),
        ("compute divisor", compute_divisor),
        ("I/O divisor", loads),
    ):
        if not value > 0:
            raise UsageError(f"a {what} of {value}: it is more than zero")
    return ClusterTimes(
        compute_s=ideal_s / compute_divisor,
        io_s=ideal_s * bytes_per_ideal_s / bandwidth_bytes_per_s / loads,
        communication_s=communication_bytes / network_bytes_per_s,
    )


def rplp_divisor(limbs: int, special_limbs: int, hosts: int) -> float:
    """The divisor of rPLP for an operation of this many limbs: all limbs over those of the busiest host.

    >>> rplp_divisor(25, 12, 32)
    18.5
    """
    if limbs < 1 or special_limbs < 0 or hosts < 1:
        raise UsageError(f"{limbs} + {special_limbs} limbs on {hosts} hosts: at least one limb and one host")
    return (limbs + special_limbs) / (-(-limbs // hosts) + -(-special_limbs // hosts))
