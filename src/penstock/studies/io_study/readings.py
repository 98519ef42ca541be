"""The readings behind the storage-I/O study's headlines, and their neighbours."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.studies.headlines import Reading
from penstock.studies.io_study import data

FULL_KEYS = "full keys at the limbs in use, each key switch reads its key"
DIGITS = "full keys of dnum = L+1 and one special limb, which nobody publishes"
HOSTS = f"hosts{data.MOST_HOSTS}"


def readings() -> list[Reading]:
    """Every row of the page's table of headlines; what seeded keys and other readings of the text give."""
    return [*_sharp(), *_hit_ratios(), *_clusters(), *_tensorfhe(), *_servers()]


def _sharp() -> Iterator[Reading]:
    for application in data.APPLICATIONS:
        sensitive = f"sensitivity.sharp.{application}"
        reading = f"reading.sharp.{application}.bytes_per_cycle"
        yield Reading(
            row=f"sharp.{application}.ideal_time",
            rests_on="pipelined units at one utilisation, calibrated on bootstrapping alone; rotations by Min-KS",
            neighbours={
                "units in turn": f"{sensitive}.ideal_time.units-in-turn",
                "in turn, calibrated again": f"{sensitive}.ideal_time.units-in-turn.recalibrated",
                "hoisted rotations": f"{sensitive}.ideal_time.hoisted",
                "refreshes of all slots": f"{sensitive}.ideal_time.refresh-all-slots",
                "10 % less utilisation": f"{sensitive}.ideal_time.utilisation-10-percent-less",
            },
        )
        yield Reading(
            row=f"sharp.{application}.bytes_per_cycle",
            rests_on=f"{FULL_KEYS}, over our own time",
            neighbours={
                "seeded keys": f"{reading}.limbs-in-use.36-bit.seeded.ours",
                "words of 64 bits": f"{reading}.limbs-in-use.64-bit.full.ours",
                "whole keys": f"{reading}.whole.36-bit.full.ours",
                "over the published time": f"{reading}.limbs-in-use.36-bit.full.published",
            },
        )
        for tier in data.TIERS:
            yield Reading(
                row=f"sharp.{application}.{tier}.slowdown",
                rests_on=f"{FULL_KEYS}, one load after another with computing",
                neighbours={
                    "seeded keys": f"{sensitive}.{tier}.slowdown.keys-seeded",
                    "whole keys": f"{sensitive}.{tier}.slowdown.keys-whole",
                    "the two keys used last stay": f"{sensitive}.{tier}.slowdown.two-keys-kept",
                },
            )


def _hit_ratios() -> Iterator[Reading]:
    for tier in data.TIERS:
        yield Reading(
            row=f"sharp.mean.{tier}.hit_ratio_80",
            rests_on=f"the mean of both applications; {FULL_KEYS}",
            neighbours={
                "ResNet-20 alone": f"sharp.resnet20.{tier}.hit_ratio_80",
                "HELR alone": f"sharp.helr.{tier}.hit_ratio_80",
                "seeded keys": f"sensitivity.sharp.mean.{tier}.hit_ratio_80.keys-seeded",
                "whole keys": f"sensitivity.sharp.mean.{tier}.hit_ratio_80.keys-whole",
            },
        )


def _clusters() -> Iterator[Reading]:
    for network in data.NETWORKS:
        for tier in data.TIERS:
            sensitive = f"sensitivity.sharp.mean.{tier}.{network}.speedup"
            yield Reading(
                row=f"sharp.mean.{tier}.{network}.speedup",
                rests_on="our demands; a limb goes to the hosts that compute with it, and to no other",
                neighbours={
                    "all hosts take part": f"{sensitive}.all-hosts",
                    "the study's demands": f"{sensitive}.demands-of-the-study",
                    "limbs of P dealt from the last host": f"{sensitive}.special-limbs-opposed",
                },
            )
    for part in data.PARTS:
        share = f"sharp.resnet20.{data.SHOWN_TIER}.{data.NETWORKS[0]}.{HOSTS}.{part}_share"
        yield Reading(
            row=share,
            rests_on="a limb goes to the hosts that compute with it; limbs of Q and P dealt from the same host on",
            neighbours={
                "all hosts take part": f"sensitivity.{share}.all-hosts",
                "limbs of P dealt from the last host": f"sensitivity.{share}.special-limbs-opposed",
            },
        )


def _tensorfhe() -> Iterator[Reading]:
    for tier in data.TIERS:
        sensitive = f"sensitivity.tensorfhe.mean.{tier}.slowdown"
        yield Reading(
            row=f"tensorfhe.mean.{tier}.slowdown",
            rests_on=f"{DIGITS}; a utilisation from a bootstrapping of 250 ms",
            neighbours={
                "digits of 3 limbs": f"{sensitive}.digits-of-3-limbs",
                "seeded keys": f"{sensitive}.keys-seeded",
                "whole keys": f"{sensitive}.keys-whole",
            },
        )
    yield Reading(
        row="tensorfhe.max.rdma.slowdown",
        rests_on=f"{DIGITS}; HELR",
        neighbours={
            "ResNet-20": "tensorfhe.resnet20.rdma.slowdown",
            "whole keys": "sensitivity.tensorfhe.helr.rdma.slowdown.keys-whole",
            "seeded keys": "sensitivity.tensorfhe.helr.rdma.slowdown.keys-seeded",
        },
    )
    others = {
        "all hosts take part": "all-hosts",
        "computing of one host": "compute-of-one-host",
        "digits of 3 limbs": "digits-of-3-limbs",
    }
    for network in data.NETWORKS:
        yield Reading(
            row=f"tensorfhe.mean.{network}.speedup",
            rests_on=f"computing is divided as the work is; {DIGITS}",
            neighbours={says: f"sensitivity.tensorfhe.mean.{network}.speedup.{name}" for says, name in others.items()},
        )
    for part in data.PARTS:
        share = f"tensorfhe.resnet20.{data.SHOWN_TIER}.{data.NETWORKS[0]}.{HOSTS}.{part}_share"
        yield Reading(
            row=share,
            rests_on=f"computing is divided as the work is; {DIGITS}",
            neighbours={says: f"sensitivity.{share}.{name}" for says, name in others.items()},
        )
    yield Reading(
        row="tensorfhe_to_sharp.mean.key_ratio",
        rests_on=f"the mean over all levels; {DIGITS}",
        neighbours={"over the reads of our programs": "tensorfhe_to_sharp.mean.key_read_ratio"},
    )
    for application in data.APPLICATIONS:
        sensitive = f"sensitivity.tensorfhe_to_sharp.{application}.io_ratio"
        yield Reading(
            row=f"tensorfhe_to_sharp.{application}.io_ratio",
            rests_on=f"{FULL_KEYS} on both; {DIGITS}",
            neighbours={
                "TensorFHE's digits of 3 limbs": f"{sensitive}.digits-of-3-limbs",
                "whole keys on both": f"{sensitive}.keys-whole",
                "SHARP's keys seeded": f"{sensitive}.keys-seeded-on-sharp",
            },
        )


def _servers() -> Iterator[Reading]:
    for tier in ("pcie5", "rdma"):
        name = f"servers.sharp.resnet20.{tier}"
        yield Reading(
            row=f"{name}.local-ahead.fewest",
            rests_on="16 users who keep 10 % of a server busy each, 80 GB for keys a server, locality first",
            neighbours={
                "first come, first served": f"{name}.pooled-ahead.fewest",
                "keys not ahead": f"{name}.pooled-wait.fewest",
                "half of the load": f"assumed.servers.{tier}.load.times-0.5",
                "twice the load": f"assumed.servers.{tier}.load.times-2",
                "half of the memory": f"assumed.servers.{tier}.memory.times-0.5",
                "twice the memory": f"assumed.servers.{tier}.memory.times-2",
            },
        )
