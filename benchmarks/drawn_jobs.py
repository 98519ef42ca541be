"""Jobs of Zipf-distributed tenants, drawn, and the least time of a backlog of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.service.work.order import OrderRule
from penstock.service.work.simulated import JobArrival, ProgramCost


def clairvoyant_s(arrivals: Sequence[JobArrival], kinds: Mapping[str, ProgramCost], rule: OrderRule) -> float:
    """A bound on any order of a backlog: all computing, or each key read once, whichever takes longer."""
    compute_s = sum(kinds[each.kind].compute_s for each in arrivals)
    keys = {(each.tenant, key): size for each in arrivals for key, size in kinds[each.kind].key_bytes.items()}
    return max(compute_s, sum(keys.values()) / rule.read_bytes_per_s)


def draw(
    rng: np.random.Generator, count: int, tenants: int, zipf: float, kinds: Sequence[str], per_s: float | None
) -> list[JobArrival]:
    """Jobs of Zipf-distributed tenants, of kinds with equal chances: Poisson arrivals, or (`None`) all at once."""
    weights = 1.0 / np.arange(1, tenants + 1) ** zipf
    who = rng.choice(tenants, size=count, p=weights / weights.sum())
    what = rng.integers(len(kinds), size=count)
    times = np.zeros(count) if per_s is None else np.cumsum(rng.exponential(1.0 / per_s, size=count))
    return [
        JobArrival(at_s=at, tenant=f"tenant-{one}", kind=kinds[kind])
        for at, one, kind in zip(times.tolist(), who.tolist(), what.tolist(), strict=True)
    ]
