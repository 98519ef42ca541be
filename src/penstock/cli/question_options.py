"""The options of a question to the simulator, and the question that they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from penstock.cli.options import is_given, key_form_option, together
from penstock.machines import STUDY_TIERS, Inside
from penstock.simulation.cluster.collectives import ALL_GATHERS, BROADCASTS
from penstock.simulation.cluster.partitions import PARTITIONS
from penstock.simulation.cluster.topology import TOPOLOGIES
from penstock.simulation.memory.levels import INCLUSIONS
from penstock.simulation.memory.tenants import ORDERS
from penstock.simulation.names import CLASSES
from penstock.simulation.spelling import OPTIONS
from penstock.simulation.timing import MODES
from penstock.simulation.words import Asked, Words, asked_in

_OPTIONS = (
    click.option("--machine", multiple=True, help="A machine's name or .toml file; may be repeated."),
    click.option(
        "--tier", multiple=True, default=STUDY_TIERS,
        help="Source of data: a name, a .toml file or a bandwidth ('3.5 GB/s'); may be repeated."
    ),
    click.option(
        "--mode", multiple=True, default=MODES[:1],
        help="serial: transfer, then compute; overlap: load ahead; bound: the slower of the two."
    ),
    click.option("--hit-ratio", multiple=True, type=float, metavar="RATIO",
                 help="Share of the bytes that is on chip; may be repeated."),
    click.option("--cache", multiple=True, metavar="SIZE|on-chip",
                 help="A cache of this size ('1 GiB'), or of the machine's on-chip memory."),
    click.option("--policy", multiple=True, metavar="NAME|FILE.py",
                 help="Replacement: lru (default), belady, optimal, …, or a file of your own; an unknown name "
                 "lists all."),
    click.option("--classes", default="keys",
                 help=f"Data that is not resident: {', '.join(CLASSES)}, separated by commas."),
    key_form_option,
    click.option("--decode", metavar="RATE", help="Loaded bytes are decoded at this rate ('0.27 GB/s')."),
    click.option("--prefetch-depth", type=click.IntRange(min=0), default=1, metavar="K",
                 help="Operations that --mode overlap loads ahead."),
    click.option("--hosts", default="1", metavar="N[,N…]", help="Hosts: '8' or '1,2,4,8,16,32'."),
    click.option(
        "--network", multiple=True,
        help="Network between hosts: a name ('ethernet-400'), a .toml file or a bandwidth ('100 Gb/s'); repeatable."
    ),
    click.option(
        "--topology", default="star",
        help=f"{', '.join(TOPOLOGIES)}, with parameters ('fat-tree:k=8', 'torus:rows=4'), or a .toml file."
    ),
    click.option("--partition", multiple=True, default=("rplp",),
                 help=f"What goes to which host: {', '.join(PARTITIONS)}; may be repeated."),
    click.option("--all-gather", default="direct", help=f"Algorithm: {', '.join(ALL_GATHERS)}."),
    click.option("--broadcast", default="scatter", help=f"Algorithm: {', '.join(BROADCASTS)}."),
    click.option("--sharing", type=click.Choice(["equal", "by-latency"]), default="equal", metavar="RULE",
                 help="Messages share a link: equal, or by-latency (less over long routes, as TCP does)."),
    click.option("--simgrid", is_flag=True, help="Let SimGrid play the messages, as a check."),
    click.option(
        "--levels", multiple=True, metavar="FILE|NAME:SIZE,…",
        help="Memory levels, fastest first, instead of --tier and --cache: 'on-chip,hbm2:40 GB,nvme-gen4' "
        "(NAME[:SIZE[:POLICY]] or NAME:hit=RATIO; the last holds everything) or a .toml file; may be repeated."
    ),
    click.option("--inclusion", type=click.Choice(INCLUSIONS), metavar="RULE",
                 help=f"What a level holds of those above: {', '.join(INCLUSIONS)}."),
    click.option("--pin", multiple=True, metavar="CLASS=LEVEL",
                 help="A class lives in this level from the start: 'ciphertexts=hbm2'."),
    click.option("--share", multiple=True, metavar="CLASS=LEVEL:SIZE",
                 help="A class has this much of a level for itself: 'keys=on-chip:40 MB'."),
    click.option(
        "--reserve", multiple=True, metavar="LEVEL=WHAT",
        help="Others take this of a level: a size, or a resident with its requests ('hbm2=opt-13b:4'); "
        "'@ 30 %' adds a share of the bandwidth."
    ),
    click.option("--prefetch", multiple=True, metavar="none|next-K|perfect|FILE.py",
                 help="How far --mode overlap loads ahead; perfect needs --prefetch-buffer."),
    click.option("--prefetch-buffer", metavar="SIZE", help="Bytes that loads ahead may hold at once ('64 MB')."),
    click.option("--with", multiple=True, metavar="TRACE|WORKLOAD",
                 help="Another program at the same time, with its own keys."),
    click.option("--tenants", metavar="N|N..M|N,…",
                 help="Users of the program at once, each with its own keys: '1..8'."),
    click.option("--limit", metavar="X|TIME",
                 help="Of --tenants: stop where they wait X times as long as one alone, or a time ('450 ms')."),
    click.option("--interleave", default=ORDERS[0], metavar="ORDER|FILE.py",
                 help=f"Turns of programs: {' (by operation) or '.join(ORDERS)} (by their own compute time)."),
    click.option("--write-back", is_flag=True,
                 help="Ciphertexts that are read again from further down are written there first."),
    click.option("--inside", type=click.Choice([each.value for each in Inside]), default=Inside.UNITS.value,
                 metavar="MODEL", help="Time of an operation: units (the slowest one binds), or schedule (its kernels "
                 "on the units, limb by limb)."),
    click.option("--compare-policies", is_flag=True,
                 help="The gain of a runtime that knows the program, on each tier."),
)  # fmt: skip

QUESTION_GROUPS = {
    "Machine and memory": ("machine", "tier", "mode", "hit_ratio", "classes", "key_form", "decode",
                           "inside"),
    "Cache and policy": ("cache", "policy", "prefetch_depth", "prefetch", "prefetch_buffer", "write_back",
                         "compare_policies"),
    "Levels of memory": ("levels", "inclusion", "pin", "share", "reserve"),
    "Several programs": ("with", "tenants", "limit", "interleave"),
    "Several hosts": ("hosts", "network", "topology", "partition", "all_gather", "broadcast", "sharing", "simgrid"),
}  # fmt: skip
"""Heading in the help of a verb -> its options, by the names of their parameters."""


def _asked(values: Mapping[str, Any]) -> Asked:
    given = {_word(name) for name in values if is_given(name)}
    return asked_in(Words(**{_word(name): value for name, value in values.items()}), given, OPTIONS)


def _word(parameter: str) -> str:
    """`with` is a keyword of Python."""
    return "beside" if parameter == "with" else parameter


question_options = together("asked", *_OPTIONS, make=_asked)
"""Adds every option of a question; the command gets one argument `asked`, an `Asked`."""
