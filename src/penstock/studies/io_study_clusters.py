"""Rows of several hosts: mean speedups, curves over hosts and shares of the time (section 4.2, figures 6 and 7)."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from penstock.studies import io_study_data as data
from penstock.studies.io_study_calibrated import ACCELERATORS, SHARP, mean_gpu_speedup
from penstock.studies.io_study_model import Study
from penstock.studies.io_study_rows import row

GPU_HOSTS = (
    "assumptions 'a GPU's time shrinks as its work does' (the study: batches get too small, so compute decreases "
    "slowly) and 'dnum = L+1, one special limb', which sets loads and messages (sensitivity.tensorfhe.*)"
)
BY_CONSTRUCTION = "calibrated: four constants for four figures of TensorFHE, met by construction"
HELR_TOO = "HELR's demand is not the study's (sharp.helr.bytes_per_cycle), so its loads weigh otherwise"


def volume(study: Study) -> str:
    """Why SHARP's cluster rows differ: messages against those that the study's figures imply."""
    times, holders = (
        [
            program.communication(only) / SHARP.communication[program.application]
            for program in study.both("sharp")
        ]
        for only in (False, True)
    )  # fmt: skip
    return (
        "assumption 'every host takes part in direct all-gathers of ModUp and of both polynomials of ModDown': "
        f"messages take {times[0]:.2f} (ResNet-20) and {times[1]:.2f} (HELR) times what the study's figures imply; "
        f"where hosts without a limb of an operation stay out, {holders[0]:.2f} and {holders[1]:.2f} times (policy "
        "'rplp-holders', sensitivity.sharp.*.communication)"
    )


def cluster_rows(study: Study) -> Iterator[dict[str, Any]]:
    """The ten mean speedups of 32 hosts against one."""
    messages = volume(study)
    for network in data.NETWORKS:
        for tier in data.TIERS:
            printed = data.SHARP_SPEEDUP[network][tier]
            yield row(
                f"sharp.mean.{tier}.{network}.speedup", "cluster", "speedup", "1", printed,
                SHARP.mean_speedup(tier, network), study.mean_speedup("sharp", tier, network),
                f"printed as a slowdown of {printed.text}" if printed.inverse else "",
                because=f"{messages}; {HELR_TOO}",
            )  # fmt: skip
            yield row(
                f"sharp.mean.{tier}.{network}.speedup.holders-only", "cluster", "speedup", "1", printed, None,
                study.mean_speedup("sharp", tier, network, holders_only=True),
                "another reading of rPLP, not the headline: hosts that hold no limb of an operation stay out of its "
                "exchanges", policy="rplp-holders",
            )  # fmt: skip
    for network in data.NETWORKS:
        yield row(
            f"tensorfhe.mean.{network}.speedup", "cluster", "speedup", "1", data.GPU_SPEEDUP[network],
            mean_gpu_speedup(network), fmean(study.mean_speedup("tensorfhe", tier, network) for tier in data.TIERS),
            f"mean over applications and tiers; {BY_CONSTRUCTION}", because=GPU_HOSTS,
        )  # fmt: skip


def breakdown_rows(study: Study) -> Iterator[dict[str, Any]]:
    """Figure 7: ResNet-20 over PCIe and Ethernet. Published at 1 and 32 hosts, ours at each."""
    because = {"sharp": volume(study), "tensorfhe": GPU_HOSTS}
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
                    f"{name}.resnet20.pcie5.ethernet-400.hosts{hosts}.{part}_share", "breakdown", f"{part}_share", "1",
                    printed.get(part), theirs[part], ours[part], note, because=because[name],
                )  # fmt: skip


def curve_rows(study: Study) -> Iterator[dict[str, Any]]:
    """Figure 6: the speedup of each application at every number of hosts."""
    for name, by in ACCELERATORS.items():
        for application in data.APPLICATIONS:
            program = study.program(name, application)
            for network in data.NETWORKS:
                for tier in data.TIERS:
                    for hosts in data.HOST_COUNTS:
                        yield row(
                            f"{name}.{application}.{tier}.{network}.hosts{hosts}.speedup", "cluster-curve", "speedup",
                            "1", None, by.speedup(application, tier, network, hosts),
                            program.speedup(tier, network, hosts), _between(hosts),
                        )  # fmt: skip


def _between(hosts: int) -> str:
    drawn = "drawn, without values"
    if hosts in (1, data.MOST_HOSTS):
        return drawn
    return f"{drawn}; calibrated: how volumes grow from 1 to 32 hosts is rPLP's rule, the study's figures do not fix it"
