"""What passes change: operations, keys, and time on a machine over tiers, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.base.types import Rows
from penstock.scheme.traces.inspect import summary
from penstock.scheme.traces.schema import Trace
from penstock.scheme.unpriced import AT_LEAST, UNPRICED, refuse

if TYPE_CHECKING:
    from penstock.scheme.machines.schema import Machine, Tier

BEFORE = "before"
"""`passes` of the rows of the original trace."""
_COUNTS = ("num_operations", "num_keys", "key_bytes_unique", "key_bytes_touched")


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A trace, and the passes that made it."""

    passes: tuple[str, ...]
    trace: Trace

    @property
    def name(self) -> str:
        return ",".join(self.passes) or BEFORE


def counted(versions: Sequence[Version]) -> Rows:
    """One row a version: operations, keys, and their bytes.

    `key_bytes_unique` counts every used key once, as stored; `key_bytes_touched` every read, at the limbs in use;
    `expanded_bytes` the output of a generator for the seeds of all reads.
    """
    rows = []
    for version in versions:
        facts = summary(version.trace)
        seeded = version.trace.parameters().key_form.is_seeded
        rows.append(
            {
                **{name: facts[name] for name in ("workload", "params")},
                "passes": version.name,
                **{name: facts[name] for name in _COUNTS},
                "expanded_bytes": facts["key_bytes_touched"] if seeded else 0,
                **{name: facts[name] for name in (UNPRICED, AT_LEAST)},
            }
        )
    return rows


def compare(
    versions: Sequence[Version],
    machine: Machine,
    tiers: Sequence[Tier],
    *,
    cache_bytes: int | None = None,
    expand_bytes_per_s: float | None = None,
) -> Rows:
    """A row for each tier and version, by the time mode `serial`; the first version is what others are held to.

    Args:   cache_bytes: of an LRU cache for keys, `None` for none; expand_bytes_per_s: rate at which a generator
            makes the other half of seeded keys, after the transfer and before the operation (default: it keeps up).
    Returns: the columns of `counted`, then `machine`, `tier`, `cache_bytes`, `key_bytes_loaded`, `compute_s`, `io_s`,
            `expand_s`, `total_s` and `speedup`: total of the first version over this one's.
    Raises: as `price_trace` and `simulate`.
    """
    from penstock.lab.simulation.play import simulate
    from penstock.scheme.play.caches import Cache, Lru, NoCache
    from penstock.scheme.play.price import price_trace

    cache: Cache = NoCache() if cache_bytes is None else Lru(cache_bytes)
    played = []
    for version, counts in zip(versions, counted(versions), strict=True):
        priced = price_trace(version.trace, machine)
        refuse(priced.unpriced, f"{priced.workload} on '{machine.name}': versions are compared by their times")
        expand_s = 0.0 if expand_bytes_per_s is None else counts["expanded_bytes"] / expand_bytes_per_s
        played.append([(counts, expand_s, row) for row in simulate(priced, tiers, caches=[cache])])
    rows = []
    for together in zip(*played, strict=True):
        first = together[0][2]["total_s"] + together[0][1]
        for counts, expand_s, row in together:
            total_s = row["total_s"] + expand_s
            rows.append(
                {
                    **counts,
                    **{name: row[name] for name in ("machine", "tier", "cache_bytes")},
                    "key_bytes_loaded": row["io_bytes"],
                    **{name: row[name] for name in ("compute_s", "io_s")},
                    "expand_s": expand_s,
                    "total_s": total_s,
                    "speedup": first / total_s if total_s else None,
                    "provenance": row["provenance"],
                }
            )
    return rows
