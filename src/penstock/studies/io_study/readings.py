"""The readings behind the storage-I/O study's headlines, and their neighbours."""

from __future__ import annotations

from penstock.studies.headlines import Reading
from penstock.studies.io_study import data


def readings() -> list[Reading]:
    """SHARP's slowdowns, demands and speedups; what seeded keys and other readings of the text give."""
    found = []
    for application in data.APPLICATIONS:
        sensitive = f"sensitivity.sharp.{application}"
        found.append(
            Reading(
                row=f"sharp.{application}.bytes_per_cycle",
                rests_on="full keys at the limbs in use, each key switch reads its key, over our own time",
                neighbours={
                    "seeded keys": f"reading.sharp.{application}.bytes_per_cycle.limbs-in-use.36-bit.seeded.ours",
                    "words of 64 bits": f"reading.sharp.{application}.bytes_per_cycle.limbs-in-use.64-bit.full.ours",
                    "whole keys": f"reading.sharp.{application}.bytes_per_cycle.whole.36-bit.full.ours",
                    "over the published time": (
                        f"reading.sharp.{application}.bytes_per_cycle.limbs-in-use.36-bit.full.published"
                    ),
                },
            )
        )
        for tier in (data.TIERS[0], data.TIERS[-1]):
            found.append(
                Reading(
                    row=f"sharp.{application}.{tier}.slowdown",
                    rests_on="full keys at the limbs in use, one load after another with computing",
                    neighbours={
                        "seeded keys": f"{sensitive}.{tier}.slowdown.keys-seeded",
                        "whole keys": f"{sensitive}.{tier}.slowdown.keys-whole",
                        "the two keys used last stay": f"{sensitive}.{tier}.slowdown.two-keys-kept",
                    },
                )
            )
    for network in data.NETWORKS:
        for tier in (data.TIERS[0], data.TIERS[-1]):
            found.append(
                Reading(
                    row=f"sharp.mean.{tier}.{network}.speedup",
                    rests_on="our demands; a limb goes to the hosts that compute with it, and to no other",
                    neighbours={
                        "all hosts take part": f"sensitivity.sharp.mean.{tier}.{network}.speedup.all-hosts",
                        "the study's demands": f"sensitivity.sharp.mean.{tier}.{network}.speedup.demands-of-the-study",
                    },
                )
            )
    return found
