"""The options of a question to the simulator, and the question that they make."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from penstock.cli.options import is_given
from penstock.errors import UsageError
from penstock.machines import STUDY_TIERS, Machine, Network, load_machines, load_tiers, machine_names
from penstock.machines.networks import load_networks, network_names
from penstock.simulation.cluster.collectives import ALL_GATHERS, BROADCASTS
from penstock.simulation.cluster.partitions import PARTITIONS, ByTenant
from penstock.simulation.cluster.spec import Cluster
from penstock.simulation.cluster.topology import TOPOLOGIES
from penstock.simulation.memory.levels import INCLUSIONS
from penstock.simulation.memory.residents import Reservation, parse_reservation
from penstock.simulation.memory.tenants import ORDERS
from penstock.simulation.names import CLASSES, ON_CHIP, cache_bytes, class_named, classes_named
from penstock.simulation.points import OWN_ENGINE, SIMGRID
from penstock.simulation.question import Question, Refused, asked, clusters_of
from penstock.simulation.spelling import OF_HOSTS, OPTIONS, check_together, check_used
from penstock.simulation.timing import MODES
from penstock.units import parse_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line asks the simulator."""

    question: Question
    networks: tuple[Network, ...]
    beside: tuple[str, ...]
    """Programs that run at the same time: workloads, or traces."""
    comparison: Comparison | None
    """`--compare-policies`: what runtimes save, instead of the points of the question."""
    several: Mapping[str, Sequence[Any]]
    """Word -> its values, of those that may have several."""

    @property
    def simgrid(self) -> bool:
        return SIMGRID in self.question.engines


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What runtimes have that are compared."""

    memories: tuple[str, ...]
    buffer_bytes: int | None

    def memory_bytes(self, machine: Machine) -> list[int]:
        """Raises: MachineError: the machine states no memory of its own."""
        return [cache_bytes(text, machine, "--cache") for text in self.memories]


_OPTIONS = (
    click.option("--machine", multiple=True, help="A machine's name or .toml file; may be repeated."),
    click.option(
        "--tier", multiple=True, default=STUDY_TIERS,
        help="Where data comes from: a name, a .toml file or a bandwidth ('3.5 GB/s'); may be repeated."
    ),
    click.option(
        "--mode", multiple=True, default=MODES[:1],
        help="serial: transfer, then compute; overlap: load ahead; bound: the slower of the two."
    ),
    click.option("--hit-ratio", multiple=True, type=float, metavar="RATIO",
                 help="Share of the bytes that is on chip; may be repeated."),
    click.option("--cache", multiple=True, metavar="SIZE|on-chip",
                 help="A cache of this size ('1 GiB'), or of the machine's on-chip memory."),
    click.option("--policy", multiple=True,
                 help="Replacement: lru (default), belady, optimal, …; an unknown name lists all."),
    click.option("--classes", default="keys",
                 help=f"What is not resident: {', '.join(CLASSES)}, separated by commas."),
    click.option("--key-form", metavar="FORM",
                 help="Keys are stored and moved full or seeded. Default: the parameter set's."),
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
    click.option("--prefetch", multiple=True, metavar="none|next-K|perfect",
                 help="How far --mode overlap loads ahead; perfect needs --prefetch-buffer."),
    click.option("--prefetch-buffer", metavar="SIZE", help="Bytes that loads ahead may hold at once ('64 MB')."),
    click.option("--with", multiple=True, metavar="TRACE|WORKLOAD",
                 help="Another program at the same time, with its own keys."),
    click.option("--interleave", type=click.Choice(ORDERS), default=ORDERS[0], metavar="ORDER",
                 help=f"Turns of programs: {' (by operation) or '.join(ORDERS)} (by their own compute time)."),
    click.option("--write-back", is_flag=True,
                 help="Ciphertexts that are read again from further down are written there first."),
    click.option("--compare-policies", is_flag=True,
                 help="The gain of a runtime that knows the program, on each tier."),
)  # fmt: skip

QUESTION_GROUPS = {
    "Machine and memory": ("machine", "tier", "mode", "hit_ratio", "classes", "key_form", "decode"),
    "Cache and policy": ("cache", "policy", "prefetch_depth", "prefetch", "prefetch_buffer", "write_back",
                         "compare_policies"),
    "Levels of memory": ("levels", "inclusion", "pin", "share", "reserve"),
    "Several programs": ("with", "interleave"),
    "Several hosts": ("hosts", "network", "topology", "partition", "all_gather", "broadcast", "sharing", "simgrid"),
}  # fmt: skip
"""Heading in the help of a verb -> its options, by the names of their parameters."""


_SEVERAL = (
    "machine", "tier", "mode", "cache", "policy", "hit_ratio", "levels", "prefetch", "hosts", "network", "partition",
)  # fmt: skip
"""Words that may have several values."""


def question_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds every option of a question; the command gets one argument `asked`, an `Asked`."""
    own = {parameter.name for parameter in getattr(command, "__click_params__", ())}

    @functools.wraps(command)
    def with_question(*arguments: Any, **values: Any) -> Any:
        words = {name: values.pop(name) for name in names}
        return command(*arguments, asked=_asked(words), **values)

    for option in reversed(_OPTIONS):
        with_question = option(with_question)
    parameters = getattr(with_question, "__click_params__", ())
    names = [parameter.name for parameter in parameters if parameter.name not in own]
    return with_question


def _asked(words: dict[str, Any]) -> Asked:
    """The question, with what goes together checked before anything is traced."""
    if not words["machine"]:
        raise UsageError(f"name a machine: --machine {'|'.join(machine_names())}, or a .toml file of your own")
    counts, networks = _counts(words["hosts"]), tuple(load_networks(words["network"]))
    if max(counts) > 1 and not networks and set(words["partition"]) != {ByTenant.name}:
        known = ", ".join(network_names())
        raise UsageError(f"--hosts {words['hosts']}: hosts talk to each other; name a --network: {known}")
    algorithms = {name: words[name] for name in ("all_gather", "broadcast", "sharing")}
    clusters = clusters_of(
        counts, networks, topologies=[words["topology"]], partitions=words["partition"], **algorithms
    )
    for cluster in clusters:
        if isinstance(cluster, Refused):
            raise cluster.error
    single = counts == (1,) and not networks
    given = {name for name in words if is_given(name)} - {"classes", "hosts", *OF_HOSTS}
    _check(words, given if single else given | {"hosts"})
    comparison = None
    if words["compare_policies"]:
        buffer, words["prefetch_buffer"] = words["prefetch_buffer"], None
        buffer_bytes = None if buffer is None else parse_bytes(buffer, "--prefetch-buffer")
        comparison = Comparison(memories=words["cache"] or (ON_CHIP,), buffer_bytes=buffer_bytes)
    several = {name: words[name] for name in _SEVERAL} | {"hosts": counts}
    if words["levels"]:
        del several["tier"]
    return Asked(
        question=_question(words, [] if single else clusters),
        networks=networks,
        beside=words["with"],
        comparison=comparison,
        several=several,
    )


def _question(words: dict[str, Any], clusters: Sequence[Cluster | Refused]) -> Question:
    machines, depth = load_machines(words["machine"]), words["prefetch_depth"]
    question = asked(
        machines,
        load_tiers(words["tier"]),
        hit_ratios=words["hit_ratio"],
        caches=words["cache"],
        policies=words["policy"],
        levels=words["levels"],
        inclusions=[words["inclusion"]] if words["inclusion"] else [],
        pins=_pins(words["pin"]),
        shares=_shares(words["share"]),
        reserves=[_reserve(text) for text in words["reserve"]],
        modes=words["mode"],
        prefetches=words["prefetch"] or [f"next-{depth}" if depth else "none"],
        prefetch_buffer=words["prefetch_buffer"],
        decode=words["decode"],
        clusters=clusters,
        engines=[SIMGRID if words["simgrid"] else OWN_ENGINE],
        classes=[words["classes"]],
        key_forms=[words["key_form"]] if words["key_form"] else [],
        interleave=words["interleave"],
        write_back=words["write_back"],
        spelling=OPTIONS,
    )
    # What the levels of one machine pin is played on all of them.
    return replace(question, classes=question.classes_on(*machines))


def _check(words: dict[str, Any], given: set[str]) -> None:
    """What does not go together."""
    if "simgrid" in given and "hosts" not in given:
        raise UsageError("--simgrid plays messages between hosts: name --hosts and a --network")
    if {"hit_ratio", "cache"} <= given and "levels" not in given:
        raise UsageError("--hit-ratio states what a cache achieves: give either --hit-ratio or --cache")
    if {"prefetch", "prefetch_depth"} <= given:
        raise UsageError("--prefetch next-K is --prefetch-depth K: give one of them")
    if "prefetch_buffer" in given and not given & {"prefetch", "compare_policies"}:
        raise UsageError("--prefetch-buffer bounds what --prefetch loads ahead: add --prefetch perfect, or next-K")
    loading = given
    if "compare_policies" in given:
        if "write_back" in given:
            raise UsageError("--write-back changes what caches load: leave --write-back or --compare-policies out")
        if given & {"levels", "prefetch", "prefetch_depth", "hit_ratio", "policy", "mode"}:
            raise UsageError(
                "--compare-policies sets policies, mode and prefetching: give --tier, --cache and --prefetch-buffer "
                "only"
            )
        loading = given - {"prefetch_buffer"}
    check_used(loading, OPTIONS, modes=words["mode"], prefetches=words["prefetch"], beside=bool(words["with"]))
    ciphertexts = "ciphertext" in classes_named([words["classes"]], "--classes")
    check_together(given, OPTIONS, hit_ratio=any(words["hit_ratio"]), ciphertexts=ciphertexts)


def _counts(text: str) -> tuple[int, ...]:
    counts = []
    for item in text.split(","):
        word = item.strip()
        if not word.isdecimal() or int(word) < 1:
            raise UsageError(f"--hosts '{text}': '{word}' is no number of hosts; write '8' or '1,2,4,8'")
        counts.append(int(word))
    return tuple(dict.fromkeys(counts))


def _pins(texts: Sequence[str]) -> dict[str, str]:
    pins: dict[str, str] = {}
    for text in texts:
        name, level = _pair(text, "--pin", "CLASS=LEVEL", "ciphertexts=hbm2")
        pinned = class_named(name)
        if pinned in pins:
            raise UsageError(f"--pin '{text}': {name} live in '{pins[pinned]}' already; pin a class once")
        pins[pinned] = level
    return pins


def _shares(texts: Sequence[str]) -> list[tuple[str, str, int]]:
    shares: list[tuple[str, str, int]] = []
    for text in texts:
        name, where = _pair(text, "--share", "CLASS=LEVEL:SIZE", "keys=on-chip:40 MB")
        level, _, size = where.partition(":")
        shared = level.strip(), class_named(name)
        if shared in {each[:2] for each in shares}:
            raise UsageError(f"--share '{text}': {name} have a share of '{level.strip()}' already; state it once")
        shares.append((*shared, parse_bytes(size, "--share")))
    return shares


def _reserve(text: str) -> tuple[str, Reservation]:
    level, what = _pair(text, "--reserve", "LEVEL=WHAT", "hbm2=opt-13b:4")
    return level, parse_reservation(what, "--reserve")


def _pair(text: str, option: str, form: str, example: str) -> tuple[str, str]:
    left, equals, right = (part.strip() for part in text.partition("="))
    if not (left and equals and right):
        raise UsageError(f"{option} '{text}': write {form}, for example '{example}'")
    return left, right
