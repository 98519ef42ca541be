"""Rows of simulated points: their columns, and the one function that makes them.

`penstock simulate` prints the columns `ROW_NAMES`, and the columns that its question adds. A sweep stores all of them,
and the explorer shows them under their labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.simulation.caches import ForcedHitRatio, NoCache
from penstock.simulation.cluster.spec import Cluster
from penstock.simulation.memory.levels import Hierarchy
from penstock.simulation.points import Point, tier_name
from penstock.simulation.price import PricedTrace
from penstock.unpriced import AT_LEAST, UNPRICED, bounded, opaque

Row = dict[str, Any]
TEXT, REAL, WHOLE, LIST = "text", "real", "whole", "list"


class Column(NamedTuple):
    """One column of simulated rows."""

    name: str
    kind: str
    """`text`, `real`, `whole` or `list` (JSON in a file of flat columns)."""
    unit: str | None = None
    """`s`, `B`, `B/s`, `J`, `1` (a number), `x` (a ratio), `share`; `None`: text."""
    label: str = ""
    nullable: bool = False


COLUMNS = (
    Column("workload", TEXT),
    Column("params", TEXT),
    Column("machine", TEXT, None, "machine"),
    Column("tier", TEXT, None, "tier"),
    Column("mode", TEXT, None, "time mode"),
    Column("cache_bytes", WHOLE, "B", "cache", nullable=True),
    Column("policy", TEXT, None, "policy"),
    Column("hit_ratio", REAL, "share", "hit ratio", nullable=True),
    Column("hosts", WHOLE, "1", "hosts"),
    Column("network", TEXT, nullable=True),
    Column("compute_s", REAL, "s", "compute", nullable=True),
    Column("io_s", REAL, "s", "I/O", nullable=True),
    Column("decode_s", REAL, "s", "decode", nullable=True),
    Column("communication_s", REAL, "s", "communication", nullable=True),
    Column("total_s", REAL, "s", "total", nullable=True),
    Column("slowdown", REAL, "x", "slowdown", nullable=True),
    Column("energy_j", REAL, "J", "energy", nullable=True),
    Column("key_bytes", WHOLE, "B", "key bytes read", nullable=True),
    Column("stored_key_bytes", WHOLE, "B", "keys stored", nullable=True),
    Column("io_bytes", REAL, "B", "loaded", nullable=True),
    Column("prefetch", TEXT, nullable=True),
    Column("provenance", TEXT),
)
"""Of every row."""
CLUSTER_COLUMNS = (
    Column("topology", TEXT),
    Column("partition", TEXT),
    Column("all_gather", TEXT),
    Column("broadcast", TEXT),
    Column("programs", WHOLE, "1"),
    Column("speedup", REAL, "x", "speed-up", nullable=True),
    Column("sent_bytes", REAL, "B", "sent", nullable=True),
    Column("loaded_bytes", REAL, "B", "loaded, all hosts", nullable=True),
)
"""Of rows of a cluster."""
BOUND_COLUMNS = (
    Column(UNPRICED, LIST, nullable=True),  # kind -> operations without a price: totals are null; null: there are none
    Column(AT_LEAST, LIST, nullable=True),  # total -> its lower bound
)
"""Of rows that leave operations out, as `penstock.unpriced.bounded` makes them."""
MORE_COLUMNS = (
    Column("written_bytes", WHOLE, "B", nullable=True),  # results over the channel downwards; null: not written back
    Column("levels", LIST, nullable=True),  # `LEVEL_NAMES` of each level; null: one cache and one tier
    Column("tenants", LIST, nullable=True),  # when each of several programs ends; null: one program
    Column("tenant_slowdown", REAL, "x", "worst tenant's slowdown", nullable=True),  # as `Result.tenant_slowdown`
    *BOUND_COLUMNS,
)
"""Columns of rows with write-back, with levels, and with programs that run together."""
CROWD_COLUMNS = (
    Column("num_tenants", WHOLE, "1", "tenants"),
    # The end of the tenant that waits longest over the total time of one alone, in the same memory.
    Column("times_alone", REAL, "x", "times one alone", nullable=True),
)
"""Of rows for growing numbers of users of one program."""

ROW_NAMES = tuple(column.name for column in COLUMNS)
CLUSTER_NAMES = tuple(column.name for column in CLUSTER_COLUMNS)
LEVEL_NAMES = (
    "level", "capacity_bytes", "policy", "reserved_bytes", "pinned_bytes", "hits", "misses", "evictions", "streamed",
    "served_bytes", "channel_bytes", "transfers", "busy_s", "decode_s", "energy_j", "invalidated", "demoted_bytes",
    "written_bytes",
)  # fmt: skip
"""Names of an entry of a row's `levels`, in their order."""
FORCED_POLICY = "forced"
"""`policy` of a row whose hit ratio was stated, not the outcome of a cache."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """What one point came to (simulated). Times belong to the host that ends last."""

    programs: int = 1
    """Programs that have ended after `total_s`: more than one where every tenant has a host."""
    compute_s: float
    io_s: float
    """Busy time of the channels to the tiers."""
    decode_s: float
    communication_s: float = 0.0
    """In which messages are under way and this host waits for them."""
    total_s: float
    io_bytes: float
    """Loaded by this host."""
    loaded_bytes: float
    """Loaded by all hosts; with a cache, as if the others' hit ratios were this one's."""
    sent_bytes: float = 0.0
    """Of all hosts."""
    hit_ratio: float | None
    """Share of the bytes that this host's cache serves; `None` where nothing is asked for."""
    energy_j: float | None
    """Of computing, loads and messages on all hosts; `None` where one of them is not known."""
    warnings: tuple[str, ...] = ()
    written_bytes: int | None = None
    """Downward time of results on the fastest channel that takes time; `None`: they are not written back."""
    levels: tuple[Row, ...] | None = None
    """What each level did, fastest first; `None`: one cache and one tier."""
    tenants: tuple[Row, ...] | None = None
    """When each of several programs ends; `None`: one program."""

    @property
    def tenant_slowdown(self) -> float | None:
        """The end of the program that is worst off over its own compute time, alone and with every key at hand.

        `None`: one program, or a time mode that puts no end to each.
        """
        known = [each["slowdown"] for each in self.tenants or () if each["slowdown"] is not None]
        return max(known, default=None)

    @property
    def wait_s(self) -> float:
        """Time that is none of the four: dependencies that keep a host idle. Negative where work overlaps."""
        return self.total_s - self.compute_s - self.io_s - self.decode_s - self.communication_s

    def speedup(self, single: Result) -> float:
        """Programs a second relative to one host; without operations, the number of programs."""
        if not self.total_s:
            return self.programs / single.programs
        return self.programs * single.total_s / (single.programs * self.total_s)


def row_of(priced: PricedTrace, point: Point, result: Result, single: Result | None = None) -> Row:
    """The row of a point, with every column.

    Args:   single: the result on one host, which the speedup is against (default: the result itself).
    Returns: `hit_ratio` is stated, or the share of the bytes that the cache served. `slowdown` is `total_s /
            compute_s`; for programs that run together, of both sums: the load of the machine, not the wait of a tenant,
            which is `tenant_slowdown`. `key_bytes` counts every read of an evaluation key; `stored_key_bytes` each key
            once, as its form stores it, whatever is read of it. `compute_s`, `io_s` and
            `io_bytes` belong to the host that ends last; `loaded_bytes`, `sent_bytes` and `energy_j` to all hosts.
    """
    row = _row(priced, point, result, single or result)
    if not opaque(priced.unpriced):
        return bounded(row, priced.unpriced, _TIMES, _RATIOS)
    loads = list(_LOADS)
    if result.decode_s or result.levels is not None or point.pace.decode_bytes_per_s is not None:
        loads.append("decode_s")
    if row["hosts"] > 1:
        loads += ["communication_s", "sent_bytes"]
    if row["cache_bytes"] is None and row["levels"] is None:
        return bounded(row, priced.unpriced, (*_TIMES, *_KEYS, *loads), _RATIOS)
    # More operations in between make a cache of a size load more, or less: computing alone bounds the rest.
    row |= {"total_s": result.compute_s, "energy_j": None if priced.joules is None else float(priced.joules.sum())}
    found = bounded(row, priced.unpriced, (*_TIMES, *_KEYS), (*_RATIOS, *loads, "hit_ratio"))
    if result.levels is not None:
        known = [{name: each[name] for name in LEVEL_NAMES[:_LEVEL_FACTS]} for each in result.levels]
        found["levels"] = [dict.fromkeys(LEVEL_NAMES) | each for each in known]
    return found


_TIMES = ("compute_s", "total_s", "energy_j")
_KEYS = ("key_bytes", "stored_key_bytes")
_LOADS = ("io_s", "io_bytes", "loaded_bytes", "written_bytes")
_RATIOS = ("slowdown", "speedup", "tenant_slowdown")
_LEVEL_FACTS = 4
"""Of `LEVEL_NAMES`: the description of a level, whatever passes through it."""


def _row(priced: PricedTrace, point: Point, result: Result, single: Result) -> Row:
    tier, capacity, policy, stated = _held(point)
    cluster = point.cluster or _ONE_HOST
    ahead = point.prefetch
    return {
        "workload": priced.workload,
        "params": priced.params,
        "machine": priced.machine,
        "tier": tier,
        "mode": point.mode,
        "cache_bytes": capacity,
        "policy": policy,
        "hit_ratio": result.hit_ratio if stated is None else stated,
        "hosts": cluster.hosts,
        "network": cluster.network.name if cluster.network else None,
        "compute_s": result.compute_s,
        "io_s": result.io_s,
        "decode_s": result.decode_s,
        "communication_s": result.communication_s,
        "total_s": result.total_s,
        "slowdown": result.total_s / result.compute_s if result.compute_s else None,
        "energy_j": result.energy_j,
        "key_bytes": priced.bytes_by_class["key"],
        "stored_key_bytes": priced.stored_key_bytes,
        "io_bytes": result.io_bytes,
        "prefetch": None if ahead is None else str(ahead),
        "provenance": "simulated",
        "topology": cluster.layout.name,
        "partition": cluster.partition,
        "all_gather": cluster.algorithm,
        "broadcast": cluster.broadcast,
        "programs": result.programs,
        "speedup": result.speedup(single),
        "sent_bytes": result.sent_bytes,
        "loaded_bytes": result.loaded_bytes,
        "written_bytes": result.written_bytes,
        "levels": None if result.levels is None else list(result.levels),
        "tenants": None if result.tenants is None else list(result.tenants),
        "tenant_slowdown": result.tenant_slowdown,
    }


def each_once(workload: str) -> str:
    """Programs that run together, each with how often it does.

    >>> each_once("a+b+a"), each_once("a+a+a"), each_once("a")
    ('2 x a + b', '3 x a', 'a')
    """
    names = workload.split("+")
    counts = {name: names.count(name) for name in names}
    return " + ".join(name if count == 1 else f"{count} x {name}" for name, count in counts.items())


def felt_slowdown(row: Mapping[str, Any]) -> float | None:
    """The slowdown that a program's user sees: the worst tenant's if several programs run together."""
    found = row["slowdown"] if row.get("tenants") is None else row.get("tenant_slowdown")
    return None if found is None else float(found)


def columns(rows: Iterable[Mapping[str, Any]], *, of_clusters: bool) -> list[Row]:
    """Rows with the columns that say something: of one question, so that the first row speaks for all."""
    found = list(rows)
    with_it = {"tenant_slowdown": "tenants"}  # stated with the tenants, also where it is not known
    more = [c.name for c in MORE_COLUMNS if found and found[0][with_it.get(c.name, c.name)] is not None]
    more += [c.name for c in BOUND_COLUMNS if c.name not in more and any(row[c.name] is not None for row in found)]
    names = (*ROW_NAMES, *(CLUSTER_NAMES if of_clusters else ()), *more)
    return [{name: row[name] for name in names} for row in found]


_ONE_HOST = Cluster(hosts=1)


def _held(point: Point) -> tuple[str, int | None, str, float | None]:
    """Tier, capacity, policy, and stated hit ratio of what holds the data of a point."""
    hold = point.hold
    if isinstance(hold, Hierarchy):
        above = hold.levels[: hold.fastest_timed]
        sizes = [level.capacity_bytes for level in above if level.capacity_bytes is not None]
        policies = dict.fromkeys(getattr(level.cache, "policy", FORCED_POLICY) for level in above)
        return hold.name, sum(sizes) if sizes else None, "+".join(policies) or FORCED_POLICY, None
    tier = tier_name(point.tier)
    if isinstance(hold, NoCache | ForcedHitRatio):
        return tier, None, FORCED_POLICY, float(hold.hit_ratio) if isinstance(hold, ForcedHitRatio) else 0.0
    return tier, int(hold.capacity_bytes), hold.policy, None
