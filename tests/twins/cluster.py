"""Slow, obvious twins of what the engine plays on several hosts. Only tests and benchmarks use them.

`round_seconds` is `penstock_sim::flows` in exact fractions, `dispatch` is `penstock_sim::dispatch` in plain floats. The
rules are in the documentation of the crate; input is checked by the engine alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def round_seconds(
    messages: Sequence[tuple[Sequence[int], int]],
    link_bytes_per_s: Sequence[float],
    link_latency_s: Sequence[float],
    *,
    by_latency: bool = False,
) -> Fraction:
    """When the last message of a round has ended.

    Args:   messages: (route, bytes) of each; by_latency: rates as one over the latency of the route, else equal.
    """
    rate = [Fraction(value) for value in link_bytes_per_s]
    starts = [sum((Fraction(link_latency_s[link]) for link in route), Fraction()) for route, _ in messages]
    weights = [1 / start if by_latency and start else Fraction(1) for start in starts]
    remaining = [Fraction(size) for _, size in messages]
    now = Fraction()
    while any(remaining):
        flowing = [i for i, left in enumerate(remaining) if left and starts[i] <= now]
        waiting = [starts[i] for i, left in enumerate(remaining) if left and starts[i] > now]
        if not flowing:
            now = min(waiting)
            continue
        rates = _fair([messages[i][0] for i in flowing], [weights[i] for i in flowing], rate)
        step = min(remaining[i] / each for i, each in zip(flowing, rates, strict=True))
        if waiting:
            step = min(step, min(waiting) - now)
        for i, each in zip(flowing, rates, strict=True):
            remaining[i] -= each * step
        now += step
    return now


def _fair(routes: Sequence[Sequence[int]], weights: Sequence[Fraction], rate: Sequence[Fraction]) -> list[Fraction]:
    """Weighted max-min rates: raise all levels together; who meets a full link stops there."""
    fixed: dict[int, Fraction] = {}
    while len(fixed) < len(routes):
        levels = {}
        for link in {link for i, route in enumerate(routes) if i not in fixed for link in route}:
            taken = sum((fixed[i] for i, route in enumerate(routes) if i in fixed and link in route), Fraction())
            sharing = sum(
                (weights[i] for i, route in enumerate(routes) if i not in fixed and link in route), Fraction()
            )
            levels[link] = (rate[link] - taken) / sharing
        level = min(levels.values())
        full = {link for link, each in levels.items() if each == level}
        fixed |= {
            i: level * weights[i] for i, route in enumerate(routes) if i not in fixed and full.intersection(route)
        }
    return [fixed[i] for i in range(len(routes))]


def dispatch(
    duration_s: Sequence[float],
    operands: Sequence[Sequence[int]],
    output: Sequence[int],
    object_bytes: Sequence[float],
    hosts: int,
    bytes_per_s: float,
    latency_s: float,
) -> tuple[float, list[int], list[float], float]:
    """Total seconds, host and start of each operation, bytes sent."""
    free, way_out, way_in = [0.0] * hosts, [0.0] * hosts, [0.0] * hosts
    home: dict[int, int] = {}
    there: dict[tuple[int, int], float] = {}
    chosen, started, total, sent = list[int](), list[float](), 0.0, 0.0
    for i, needs in enumerate(operands):
        plans = []
        for host in range(hosts):
            start, outs, into, fetched = free[host], dict[int, float](), way_in[host], dict[int, float]()
            for obj in needs:
                if obj not in home:
                    continue  # an input: at every host from the start
                if (obj, host) in there:
                    start = max(start, there[obj, host])
                    continue
                if obj not in fetched:
                    source = home[obj]
                    leaves = max(there[obj, source], outs.get(source, way_out[source]), into)
                    fetched[obj] = outs[source] = into = leaves + (latency_s + object_bytes[obj] / bytes_per_s)
                start = max(start, fetched[obj])
            plans.append((start, host, fetched))
        start, host, fetched = min(plans, key=lambda plan: plan[:2])
        for obj, end in fetched.items():
            way_out[home[obj]] = way_in[host] = there[obj, host] = end
            sent += object_bytes[obj]
        free[host] = start + duration_s[i]
        total = max(total, free[host])
        if output[i] >= 0:
            there = {key: time for key, time in there.items() if key[0] != output[i]}
            home[output[i]] = host
            there[output[i], host] = free[host]
        chosen.append(host)
        started.append(start)
    return total, chosen, started, sent
