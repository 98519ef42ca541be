"""From the words of a person who asks the simulator to the question that they make.

Every front end fills `Words`. All rules on words that do not go together are here, so that all refuse the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import cast

from penstock.base.units import parse_bytes, parse_rate
from penstock.errors import UnknownName, UsageError
from penstock.lab.simulation.cluster.flows import Sharing
from penstock.lab.simulation.cluster.partitions import ByTenant
from penstock.lab.simulation.cluster.spec import Cluster
from penstock.lab.simulation.crowd import Crowd, counts_in, limited
from penstock.lab.simulation.memory.residents import Reservation, parse_reservation
from penstock.lab.simulation.memory.tenants import order_named
from penstock.lab.simulation.names import ON_CHIP, cache_bytes, class_named, classes_named, modes_named, one_of
from penstock.lab.simulation.question import (
    ENGINES,
    OWN_ENGINE,
    SIMGRID,
    Caches,
    Levels,
    Question,
    RefusedPoints,
    parse_prefetch,
)
from penstock.lab.simulation.words import OF_HOSTS, WORDS, Spelling, Words, check_together, check_used
from penstock.scheme.machines import InsideModel, Machine, Network, load_machines, load_tiers, machine_names
from penstock.scheme.machines.networks import load_networks, network_names
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.play.caches import ForcedHitRatio, SizedCache
from penstock.scheme.play.own import OwnFile, placed


@dataclass(frozen=True, slots=True, kw_only=True)
class WordedQuestion:
    """What a person asks the simulator."""

    question: Question
    networks: tuple[Network, ...]
    beside: tuple[str, ...]
    """Programs that run at the same time: workloads, or traces."""
    crowd: Crowd | None
    """Numbers of users of the program; `beside` is empty then."""
    comparison: RuntimeComparison | None
    """`compare_policies`: what runtimes save, instead of the points of the question."""
    several: Mapping[str, Sequence[object]]
    """Word -> its values, for words that take several."""
    words: Words
    """All words, in the state that the person gave them."""
    given: frozenset[str]
    """The words that were said, also where the value is the usual one."""

    @property
    def simgrid(self) -> bool:
        return SIMGRID in self.question.engines


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeComparison:
    """The properties of the compared runtimes."""

    memories: tuple[str, ...]
    buffer_bytes: int | None
    spelling: Spelling

    def memory_bytes(self, machine: Machine) -> list[int]:
        """Raises: MachineError: the machine states no local memory."""
        return [cache_bytes(text, machine, self.spelling("cache")) for text in self.memories]


def worded_question(words: Words, given: Collection[str], spelling: Spelling) -> WordedQuestion:
    """The question in these words, with what goes together checked before anything is traced.

    Args:   given: the words that the person said, also where the value is the usual one.
    Raises: UnknownName: a name that does not exist; UsageError, UnitError: a value that breaks a rule, or words that
            do not go together.
    """
    if not words.machine:
        names = "|".join(machine_names())
        raise UsageError(f"name a machine: {spelling.give('machine', names)}, or a .toml file of your own")
    one_of(spelling("sharing"), words.sharing, WORDS["sharing"].known())
    counts, networks = _counts(words.hosts, spelling), tuple(load_networks(words.network))
    if max(counts) > 1 and not networks and set(words.partition) != {ByTenant.name}:
        known = ", ".join(network_names())
        raise UsageError(
            f"{spelling('hosts')} {words.hosts}: hosts talk to each other; name a {spelling('network')}: {known}"
        )
    clusters = clusters_of(words, counts, networks)
    for cluster in clusters:
        if isinstance(cluster, RefusedPoints):
            raise cluster.error
    words, given = _placed(words, given)
    single = counts == (1,) and not networks
    words_given = set(given) - {"classes", "hosts", *OF_HOSTS}
    _check(words, words_given if single else words_given | {"hosts"}, spelling)
    comparison, original = None, words
    if words.compare_policies:
        buffer, words = words.prefetch_buffer, replace(words, prefetch_buffer=None)
        buffer_bytes = None if buffer is None else parse_bytes(buffer, spelling("prefetch_buffer"))
        memories = tuple(words.cache) or (ON_CHIP,)
        comparison = RuntimeComparison(memories=memories, buffer_bytes=buffer_bytes, spelling=spelling)
    several = {name: getattr(words, name) for name, word in WORDS.items() if word.axis} | {"hosts": counts}
    if words.levels:
        del several["tier"]
    crowd = _crowd(words, words_given, spelling)
    if crowd is not None:
        several["tenants"] = crowd.counts
    question = question_in(words, [] if single else clusters, spelling)
    return WordedQuestion(
        # Classes that the levels of one machine pin are played on all of them.
        question=replace(question, classes=question.classes_on(*question.machines)),
        networks=networks,
        beside=tuple(words.beside),
        crowd=crowd,
        comparison=comparison,
        several=several,
        words=original,
        given=frozenset(given),
    )


def _placed(words: Words, given: Collection[str]) -> tuple[Words, set[str]]:
    """The words with each file that is named as a policy where its part belongs; and the words that are said."""
    parts = placed(words.policy)
    names = set(given)
    if parts["prefetch"]:
        words, names = replace(words, prefetch=[*words.prefetch, *parts["prefetch"]]), names | {"prefetch"}
    if parts["interleave"]:
        words, names = replace(words, interleave=parts["interleave"][0]), names | {"interleave"}
    if len(parts["policy"]) < len(words.policy):
        names -= set() if parts["policy"] else {"policy"}
        words = replace(words, policy=tuple(parts["policy"]))
    return words, names


def question_in(words: Words, clusters: Sequence[Cluster | RefusedPoints], spelling: Spelling) -> Question:
    """The question in these words on these clusters, whatever goes together.

    Raises: as `worded_question`.
    """
    inside = InsideModel(one_of("inside of operations", words.inside, [choice.value for choice in InsideModel]))
    if inside is InsideModel.SCHEDULE and clusters:
        raise UsageError(
            f"{spelling.give('inside', inside.value)} schedules the operations of one host: leave "
            f"{spelling('hosts')} and {spelling('network')} out, or {spelling('inside')}"
        )
    machines = tuple(replace(machine, inside=inside) for machine in load_machines(words.machine))
    tiers, policies = tuple(load_tiers(words.tier)), _distinct(words.policy or ("lru",))
    levels = Levels(
        texts=_distinct(words.levels),
        policies=policies,
        inclusions=_distinct(_texts(words.inclusion)) or (None,),
        pins=_pins(words.pin, spelling),
        shares=tuple(_shares(words.share, spelling)),
        reserves=tuple(_reserve(text, spelling) for text in words.reserve),
    )
    rate = None if words.decode is None else parse_rate(words.decode, spelling("decode"))
    buffer = None if words.prefetch_buffer is None else parse_bytes(words.prefetch_buffer, spelling("prefetch_buffer"))
    depth = words.prefetch_depth
    return Question(
        machines=machines,
        tiers=tiers,
        holds=levels if words.levels else _caches(words, policies, spelling),
        modes=modes_named(words.mode),
        prefetches=tuple(
            parse_prefetch(text, None if text == "none" else buffer, spelling("prefetch"))
            for text in _distinct(words.prefetch or [f"next-{depth}" if depth else "none"])
        ),
        decode_bytes_per_s=rate,
        clusters=tuple(clusters),
        engines=tuple(
            one_of("engine", engine, ENGINES)
            for engine in _distinct(words.engine or [SIMGRID if words.simgrid else OWN_ENGINE])
        ),
        classes=classes_named(_texts(words.classes), spelling("classes")),
        key_forms=tuple(KeyForm.named(text) for text in _distinct(_texts(words.key_form))) or (None,),
        order=order_named(words.interleave),
        write_back=words.write_back,
        spelling=spelling,
    )


def _caches(words: Words, policies: tuple[str, ...], spelling: Spelling) -> Caches:
    for text in words.cache:
        if text != ON_CHIP:
            parse_bytes(text, spelling("cache"))
    _check_policies(policies)
    ratios = words.hit_ratio or (() if words.cache else (0.0,))
    hit_ratios = tuple(dict.fromkeys(float(ratio) for ratio in ratios))
    for ratio in hit_ratios:
        ForcedHitRatio(ratio)
    return Caches(hit_ratios=hit_ratios, sizes=_distinct(words.cache), policies=policies)


def _check_policies(policies: Sequence[str]) -> None:
    """Raises: UnknownName, UsageError: no such policy, or two files of one name, which no row could tell apart."""
    files: dict[str, OwnFile] = {}
    for text in policies:
        own = SizedCache(text, 0).own
        if own is not None and files.setdefault(own.name, own) != own:
            raise UsageError(
                f"two policies are named '{own.name}': results could not be told apart; rename one of the files"
            )


def clusters_of(words: Words, hosts: Sequence[int], networks: Sequence[Network]) -> list[Cluster | RefusedPoints]:
    """Every number of hosts in every network with every topology and partition of these words.

    Raises: UnknownName: a partition, topology or algorithm that does not exist.
    """
    clusters: list[Cluster | RefusedPoints] = []
    topologies, partitions = _distinct(_texts(words.topology)), _distinct(words.partition)
    for partition, topology, network, count in product(
        partitions, topologies, networks or (None,), dict.fromkeys(hosts)
    ):
        try:
            clusters.append(
                Cluster(
                    hosts=count,
                    network=network,
                    topology=topology,
                    partition=partition,
                    algorithm=words.all_gather,
                    broadcast=words.broadcast,
                    sharing=cast(Sharing, words.sharing),
                )
            )
        except UnknownName:
            raise
        except UsageError as error:
            name = network.name if network else "no network"
            what = f"{count} hosts, {name}, {topology}, {partition}"
            clusters.append(RefusedPoints(what, str(error), cause=error))
    return clusters


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _check(words: Words, given: set[str], spelling: Spelling) -> None:
    """What does not go together."""
    word = spelling
    if "simgrid" in given and "hosts" not in given:
        raise UsageError(
            f"{word('simgrid')} plays messages between hosts: name {word('hosts')} and a {word('network')}"
        )
    if {"hit_ratio", "cache"} <= given and "levels" not in given:
        either = f"give either {word('hit_ratio')} or {word('cache')}"
        raise UsageError(f"{word('hit_ratio')} states what a cache achieves: {either}")
    if {"prefetch", "prefetch_depth"} <= given:
        raise UsageError(f"{word('prefetch')} next-K is {word('prefetch_depth')} K: give one of them")
    if "prefetch_buffer" in given and not given & {"prefetch", "compare_policies"}:
        raise UsageError(
            f"{word('prefetch_buffer')} bounds what {word('prefetch')} loads ahead: add "
            f"{word.give('prefetch', 'perfect')}, or next-K"
        )
    loading = given
    if "compare_policies" in given:
        if "write_back" in given:
            raise UsageError(
                f"{word('write_back')} changes what caches load: leave {word('write_back')} or "
                f"{word('compare_policies')} out"
            )
        if given & {"levels", "prefetch", "prefetch_depth", "hit_ratio", "policy", "mode"}:
            raise UsageError(
                f"{word('compare_policies')} sets policies, mode and prefetching: give {word('tier')}, "
                f"{word('cache')} and {word('prefetch_buffer')} only"
            )
        loading = given - {"prefetch_buffer"}
    together = bool(words.beside) or words.tenants is not None
    check_used(loading, spelling, modes=words.mode, prefetches=words.prefetch, beside=together)
    ciphertexts = "ciphertext" in classes_named(_texts(words.classes), spelling("classes"))
    check_together(given, spelling, hit_ratio=any(words.hit_ratio), ciphertexts=ciphertexts)


def _texts(value: str | Sequence[str] | None) -> Sequence[str]:
    return (value,) if isinstance(value, str) else value or ()


def _crowd(words: Words, given: Collection[str], spelling: Spelling) -> Crowd | None:
    if words.tenants is None:
        if words.limit is not None:
            raise UsageError(
                f"{spelling('limit')} bounds the wait of tenants: say how many to try, "
                f"{spelling.give('tenants', '1..64')}"
            )
        return None
    for word in ("beside", "compare_policies"):
        if word in given:
            raise UsageError(
                f"{spelling('tenants')} are users of one program: leave {spelling(word)} or {spelling('tenants')} out"
            )
    return limited(counts_in(words.tenants, spelling), words.limit, spelling)


def _counts(text: str, spelling: Spelling) -> tuple[int, ...]:
    counts = []
    for item in text.split(","):
        word = item.strip()
        if not word.isdecimal() or int(word) < 1:
            raise UsageError(f"{spelling('hosts')} '{text}': '{word}' is not a number of hosts; write '8' or '1,2,4,8'")
        counts.append(int(word))
    return tuple(dict.fromkeys(counts))


def _pins(texts: Sequence[str], spelling: Spelling) -> dict[str, str]:
    pins: dict[str, str] = {}
    for text in texts:
        name, level = _pair(text, spelling("pin"), "CLASS=LEVEL", "ciphertexts=hbm2")
        pinned = class_named(name)
        if pinned in pins:
            raise UsageError(f"{spelling('pin')} '{text}': {name} live in '{pins[pinned]}' already; pin a class once")
        pins[pinned] = level
    return pins


def _shares(texts: Sequence[str], spelling: Spelling) -> list[tuple[str, str, int]]:
    shares: list[tuple[str, str, int]] = []
    for text in texts:
        name, where = _pair(text, spelling("share"), "CLASS=LEVEL:SIZE", "keys=on-chip:40 MB")
        level, _, size = where.partition(":")
        shared = level.strip(), class_named(name)
        if shared in {share[:2] for share in shares}:
            raise UsageError(
                f"{spelling('share')} '{text}': {name} have a share of '{level.strip()}' already; state it once"
            )
        shares.append((*shared, parse_bytes(size, spelling("share"))))
    return shares


def _reserve(text: str, spelling: Spelling) -> tuple[str, Reservation]:
    level, what = _pair(text, spelling("reserve"), "LEVEL=WHAT", "hbm2=opt-13b:4")
    return level, parse_reservation(what, spelling("reserve"))


def _pair(text: str, option: str, form: str, example: str) -> tuple[str, str]:
    left, equals, right = (part.strip() for part in text.partition("="))
    if not (left and equals and right):
        raise UsageError(f"{option} '{text}': write {form}, for example '{example}'")
    return left, right
