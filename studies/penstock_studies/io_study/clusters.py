"""Rows of several hosts: mean speedups, curves over hosts and shares of the time (section 4.2, figures 6 and 7)."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from penstock.base.types import Row
from penstock_studies.io_study import data
from penstock_studies.io_study.calibrated import ACCELERATORS, SHARP, mean_gpu_speedup
from penstock_studies.io_study.cluster_variants import sharp_speedup, study_demands
from penstock_studies.io_study.model import ALL_HOSTS, OPPOSED, PARTITION, Study
from penstock_studies.io_study.rows import row

GPU_HOSTS = (
    "assumptions 'operations that do not wait for each other share launches, and loops over limbs are launches of "
    "their own', which set by how much hosts divide compute (occupancy.tensorfhe.*), and 'dnum = L+1, one special "
    "limb', which sets loads and messages (sensitivity.tensorfhe.mean.*.speedup, "
    "sensitivity.tensorfhe.resnet20.pcie5.ethernet-400.hosts32.*_share)"
)
BY_CONSTRUCTION = "calibrated: four constants for four figures of TensorFHE, met by construction"
FITTED = "calibrated: five constants for these eight figures and the shares of figure 7"


def messages(study: Study) -> str:
    """The cause of the differences in SHARP's cluster rows: its messages against those implied by the study's
    figures."""
    times, everyone = (
        [program.communication(partition) / SHARP.communication[program.application] for program in study.both("sharp")]
        for partition in (PARTITION, ALL_HOSTS)
    )
    return (
        "assumption 'limbs go directly to the hosts that compute with them, in ModUp and for both polynomials of "
        f"ModDown': messages take {times[0]:.2f} (ResNet-20) and {times[1]:.2f} (HELR) times what the study's figures "
        f"imply; where every host takes part in every exchange, {everyone[0]:.2f} and {everyone[1]:.2f} times (policy "
        "'rplp', sensitivity.sharp.*.communication)"
    )


def divisors(study: Study) -> str:
    """Why the shares of SHARP's time on several hosts differ: by how much loads and compute are divided."""
    program = study.program("sharp", "resnet20")
    place = data.SHOWN_TIER, data.NETWORKS[0]
    one, (many, opposed) = (
        program.result(*place, 1),
        (program.result(*place, data.MOST_HOSTS, partition) for partition in (PARTITION, OPPOSED)),
    )
    return (
        "assumption 'limbs of Q and of P are dealt from the same host on': 32 hosts divide ResNet-20's loads by "
        f"{one.io_s / many.io_s:.1f} and its compute by {one.compute_s / many.compute_s:.1f}, the study's figures "
        f"imply {SHARP.io_divisor['resnet20']} for both, and limbs of P dealt from the last host down give "
        f"{one.io_s / opposed.io_s:.1f} and {one.compute_s / opposed.compute_s:.1f} "
        "(sensitivity.sharp.resnet20.pcie5.ethernet-400.hosts32.*_share)"
    )


def cluster_rows(study: Study) -> Iterator[Row]:
    """The ten mean speedups of 32 hosts against one."""
    sent, demands = messages(study), study_demands(study)
    for network in data.NETWORKS:
        for tier in data.TIERS:
            printed = data.SHARP_SPEEDUP[network][tier]
            with_theirs = sharp_speedup(study, tier, network, demands) / printed.value - 1
            yield row(
                f"sharp.mean.{tier}.{network}.speedup",
                "cluster",
                "speedup",
                study.mean_speedup("sharp", tier, network),
                (f"printed as a slowdown of {printed.text}; " if printed.inverse else "") + FITTED,
                published=printed,
                calibrated=SHARP.mean_speedup(tier, network),
                because=(
                    f"{sent}; HELR's demand is not the study's (sharp.helr.bytes_per_cycle): with both demands of "
                    f"the study this row is off by {with_theirs:+.0%} (sensitivity.sharp.mean.*.demands-of-the-study)"
                ),
            )
            row_id = f"sharp.mean.{tier}.{network}.speedup.all-hosts"
            note = (
                "another reading of rPLP, not the headline: every host takes part in every exchange, even one that "
                "holds no limb of the operation"
            )
            ours = study.mean_speedup("sharp", tier, network, ALL_HOSTS)
            yield row(row_id, "cluster", "speedup", ours, note, published=printed, policy=ALL_HOSTS)
    for network in data.NETWORKS:
        yield row(
            f"tensorfhe.mean.{network}.speedup",
            "cluster",
            "speedup",
            fmean(study.mean_speedup("tensorfhe", tier, network) for tier in data.TIERS),
            f"mean over applications and tiers; {BY_CONSTRUCTION}",
            published=data.GPU_SPEEDUP[network],
            calibrated=mean_gpu_speedup(network),
            because=GPU_HOSTS,
            fitted=True,
        )


def breakdown_rows(study: Study) -> Iterator[Row]:
    """Figure 7: ResNet-20 over PCIe and Ethernet. Published at 1 and 32 hosts, ours at each."""
    because = {"sharp": divisors(study), "tensorfhe": GPU_HOSTS}
    for name, by in ACCELERATORS.items():
        for hosts in data.HOST_COUNTS:
            printed = data.BREAKDOWN[name].get(hosts, {})
            theirs = by.shares("resnet20", "pcie5", data.NETWORKS[0], hosts)
            ours = study.program(name, "resnet20").shares("pcie5", data.NETWORKS[0], hosts)
            note = "" if printed else _between(hosts)
            if printed and name == "tensorfhe":
                note = BY_CONSTRUCTION
            for part in data.PARTS:
                yield row(
                    f"{name}.resnet20.pcie5.ethernet-400.hosts{hosts}.{part}_share",
                    "breakdown",
                    f"{part}_share",
                    ours[part],
                    note,
                    published=printed.get(part),
                    calibrated=theirs[part],
                    because=because[name],
                    fitted=name == "tensorfhe" and part in printed,
                )


def curve_rows(study: Study) -> Iterator[Row]:
    """Figure 6: the speedup of each application at every number of hosts."""
    for name, by in ACCELERATORS.items():
        for application in data.APPLICATIONS:
            program = study.program(name, application)
            for network in data.NETWORKS:
                for tier in data.TIERS:
                    for hosts in data.HOST_COUNTS:
                        row_id = f"{name}.{application}.{tier}.{network}.hosts{hosts}.speedup"
                        ours = program.speedup(tier, network, hosts)
                        calibrated = by.speedup(application, tier, network, hosts)
                        yield row(row_id, "cluster-curve", "speedup", ours, _between(hosts), calibrated=calibrated)


def _between(hosts: int) -> str:
    drawn = "drawn, without values"
    if hosts in (1, data.MOST_HOSTS):
        return drawn
    return f"{drawn}; calibrated: how volumes grow from 1 to 32 hosts is rPLP's rule, the study's figures do not fix it"
