"""Closed forms of queues, where there are any: each dedicated server, and one server that holds one user's keys."""

from __future__ import annotations

from penstock.lab.simulation.servers.fleet import Arrangement, Fleet, Loading
from penstock.lab.simulation.servers.stream import Stream, shares


def queue_wait_s(rate_per_s: float, mean_s: float, second_moment_s2: float) -> float:
    """Mean wait before service of Poisson arrivals at one server, infinite where it is overloaded.

    Args:   mean_s, second_moment_s2: of the time of service.
    Source: Pollaczek and Khinchine: rate E[S^2] / (2 (1 - rate E[S])).
    >>> queue_wait_s(0.5, 1.0, 1.0)
    0.5
    """
    load = rate_per_s * mean_s
    return rate_per_s * second_moment_s2 / (2 * (1 - load)) if load < 1 else float("inf")


def wait_s(stream: Stream, fleet: Fleet, zipf: float) -> float | None:
    """Mean seconds of a run between its arrival and its computing, of Poisson arrivals; `None` without a closed form.

    Dedicated servers are queues of one constant time each. One pooled server that keeps one of several equal users'
    keys has a miss with the same chance for every run, whatever came before.
    """
    if fleet.arrangement is Arrangement.DEDICATED:
        wait = 0.0
        for user, share in zip(stream.users, shares(len(stream.users), zipf).tolist(), strict=True):
            wait += share * queue_wait_s(share * stream.rate_per_s, user.run_s, user.run_s**2)
        return wait
    sizes, runs = set(stream.key_bytes), {user.run_s for user in stream.users}
    alone = fleet.servers == 1 and fleet.loading is Loading.WAIT and fleet.arrangement is Arrangement.POOLED
    if not alone or zipf or len(sizes) > 1 or len(runs) > 1 or fleet.memory_bytes // max(1, *sizes, 1) != 1:
        return None
    run_s, miss = runs.pop(), 1 - 1 / len(stream.users)
    load_s = fleet.load_s(sizes.pop()) + fleet.switch_s
    mean_s = run_s + miss * load_s
    second = (1 - miss) * run_s**2 + miss * (run_s + load_s) ** 2
    return queue_wait_s(stream.rate_per_s, mean_s, second) + miss * load_s
