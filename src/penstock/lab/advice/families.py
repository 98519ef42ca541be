"""Other words for one simulated point, by kind of change, from the smallest change to the largest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.base.types import Row
from penstock.base.units import format_bytes
from penstock.errors import PenstockError
from penstock.lab.simulation.memory.levels import Hierarchy
from penstock.lab.simulation.memory.levels_spec import is_file_of_levels
from penstock.lab.simulation.names import ON_CHIP
from penstock.lab.simulation.question import Point
from penstock.scheme.machines import Machine, load_tier, tier_names
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.play.caches import POLICIES, SizedCache
from penstock.scheme.play.hierarchy import tier_name
from penstock.scheme.play.price import PricedTrace

DEPTHS = (1, 4, 16)
"""Operations that are loaded ahead, to be tried."""
MOST_GROWTH = 64
"""Times as much cache as there is, at most."""
ON_CHIP_TIERS = ("scratchpad",)
"""Tiers that keys do not come from: memory of the machine itself."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Candidate:
    """One change."""

    kind: str
    says: str
    words: Row
    """Word -> its other value; `None`: the word is taken away."""
    note: str = ""


def faster_tiers(words: Row, point: Point) -> list[Candidate]:
    """Tiers with more bandwidth, the slowest first; of levels, below all of them."""
    now, seen = point.tier, set[tuple[float, float]]()
    candidates = []
    for name in reversed(tier_names()):
        tier = load_tier(name)
        rates = tier.bandwidth_bytes_per_s, tier.latency_s
        if name in ON_CHIP_TIERS or rates[0] <= now.bandwidth_bytes_per_s or rates in seen:
            continue
        seen.add(rates)
        says = f"{tier.name} instead of {tier_name(now)}"
        if "levels" not in words:
            candidates.append(Candidate("tier", says, {"tier": (name,)}))
        elif (line := _line(words)) is not None and ":" not in line[-1]:
            candidates.append(Candidate("tier", says, {"levels": (",".join([*line[:-1], name]),)}))
    return candidates


def more_cache(words: Row, point: Point, machine: Machine, priced: PricedTrace) -> list[Candidate]:
    """Larger caches, up to room for all that the program reads; on a machine without a cache, its own memory first."""
    if "hit_ratio" in words and words["hit_ratio"] != (0.0,):
        return []  # a stated ratio says nothing of the contents of a cache
    if isinstance(point.hold, Hierarchy):
        return _more_in_levels(words, point.hold, priced)
    most = -(-priced.distinct_bytes // MIB) * MIB
    if isinstance(point.hold, SizedCache):
        sizes = [(text, text) for text in _larger(point.hold.capacity_bytes, most)]
    else:
        own = machine.on_chip_bytes
        named = f"the machine's own {format_bytes(own).split(' (')[0]}"
        sizes = [(ON_CHIP, named)] if own else []
        sizes += [] if own and own >= most else [(text, text) for text in _larger(max(own, most // 4), most)]
    candidates = []
    for text, size_text in sizes:
        all_of_it = text != ON_CHIP and int(text.split()[0]) * MIB >= most
        says = f"a cache of {size_text}" + (", all that is read" if all_of_it else "")
        candidates.append(Candidate("cache", says, {"cache": (text,), "hit_ratio": None}))
    return candidates


def other_policies(words: Row, point: Point) -> list[Candidate]:
    """Every other replacement policy."""
    if isinstance(point.hold, SizedCache):
        now = point.hold.policy
    elif isinstance(point.hold, Hierarchy):
        line = _line(words)
        if line is None or any(len(part.split(":")) > 2 for part in line):
            return []  # levels that name their own
        now = words.get("policy", ("lru",))[0]
    else:
        return []
    return [
        Candidate(
            "policy",
            f"{name} instead of {now}",
            {"policy": (name,)},
            "knows the program's future accesses" if entry.knows_future else "",
        )
        for name, entry in POLICIES.items()
        if name != now
    ]


def loads_ahead(words: Row, point: Point) -> list[Candidate]:
    """Loads ahead of compute, or further ahead."""
    if point.mode == "bound":
        return []
    ahead = point.prefetch
    if ahead is not None and ahead.depth is None:
        return []
    now = 0 if ahead is None or ahead.depth is None else ahead.depth
    candidates = []
    for depth in DEPTHS:
        if depth <= now and not (ahead is None and depth == 1):
            continue
        changes: Row = {"mode": ("overlap",), "prefetch": (f"next-{depth}",)}
        operations = "the next operation is" if depth == 1 else f"the next {depth} operations are"
        candidates.append(Candidate("prefetch", f"{operations} loaded while one computes", changes))
    return candidates


def other_forms(params: CkksParameters, form: KeyForm | None, classes: Sequence[str]) -> list[Candidate]:
    """Other forms of keys with fewer bytes."""
    now = form or params.key_form
    if "key" not in classes:
        return []
    smaller = [
        other
        for other in (KeyForm.TRUNCATED, KeyForm.SEEDED, KeyForm.SEEDED_TRUNCATED)
        if other.is_seeded >= now.is_seeded and other.is_truncated >= now.is_truncated and other is not now
    ]
    return [
        Candidate("key-form", f"{other.value} keys instead of {now.value} ones", {"key_form": other.value})
        for other in smaller
    ]


def fewer_tenants(words: Row) -> Iterator[Candidate]:
    """Without one of the other programs."""
    beside = tuple(words.get("beside", ()))
    for i in dict.fromkeys(beside.index(name) for name in beside):
        rest = beside[:i] + beside[i + 1 :]
        changes: Row = {"beside": rest} if rest else {"beside": None, "interleave": None}
        yield Candidate("tenants", f"without {beside[i]}", changes)


def is_named(params: CkksParameters) -> bool:
    """Whether a command finds this set by its name."""
    try:
        return catalogue.get(params.name) == params
    except PenstockError:
        return False


def as_secure(params: CkksParameters, base: CkksParameters) -> bool:
    """Whether a set is at least as secure as another; of sets without a stated level, by ring and modulus."""
    if base.security_bits:
        return params.security_bits >= base.security_bits
    return params.ring_dim >= base.ring_dim and _modulus_bits(params) <= _modulus_bits(base)


def _modulus_bits(params: CkksParameters) -> int:
    return sum(params.q_bits) + sum(params.p_bits)


def _more_in_levels(words: Row, levels: Hierarchy, priced: PricedTrace) -> list[Candidate]:
    """A larger level, one at a time."""
    line, candidates = _line(words), []
    if line is None:
        return []
    most = -(-priced.distinct_bytes // MIB) * MIB
    for i, (part, level) in enumerate(zip(line, levels.levels, strict=True)):
        if not isinstance(level.cache, SizedCache):
            continue
        name, _, rest = part.partition(":")
        _, colon, policy = rest.partition(":")
        for text in _larger(level.cache.capacity_bytes, most):
            changed = ",".join([*line[:i], f"{name}:{text}{colon}{policy}", *line[i + 1 :]])
            candidates.append(Candidate("cache", f"level {name} of {text}", {"levels": (changed,)}))
    return candidates


def _line(words: Row) -> list[str] | None:
    """Levels that are written in a line, each by itself; `None`: they are in a file."""
    (text,) = words.get("levels", ("",))
    return None if not text or is_file_of_levels(text) else [part.strip() for part in text.split(",")]


def _larger(now: int, most: int) -> list[str]:
    """Twice as many bytes, again and again, up to all; in whole MiB."""
    sizes, factor = list[str](), 2
    while factor <= MOST_GROWTH and now * factor < most:
        sizes.append(f"{-(-now * factor // MIB)} MiB")
        factor *= 2
    if now < most and now * MOST_GROWTH >= most:
        sizes.append(f"{most // MIB} MiB")
    return list(dict.fromkeys(sizes))
