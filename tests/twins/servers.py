"""A slow twin of `penstock.lab.simulation.servers.play`: state as plain tables, everything looked for at every moment.

Times are exact where the stream's are. A moment is a time at which a run arrives, ends, or begins to compute.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.lab.simulation.servers.fleet import Arrangement, Fleet, Loading
from penstock.lab.simulation.servers.stream import Stream


@dataclass
class Run:
    """One run, from its arrival on."""

    at_s: float
    user: int
    run_s: float
    server: int = -1
    start_s: float = float("inf")
    end_s: float = float("inf")
    loaded_bytes: int = 0
    stalled_s: float = 0.0
    overtaken: int = 0


@dataclass
class Memory:
    """Keys of users, with the number of the claim that used each last."""

    uses: dict[int, int] = field(default_factory=dict)


def play(stream: Stream, fleet: Fleet) -> list[Run]:
    """Every run of the stream."""
    sizes = stream.key_bytes
    runs = [
        Run(at, user, seconds)
        for at, user, seconds in zip(stream.at_s.tolist(), stream.user.tolist(), stream.run_s.tolist(), strict=True)
    ]
    memories = [Memory() for _ in range(fleet.servers)]
    last_user: list[int | None] = [None] * fleet.servers
    claims = -len(sizes)
    for number, memory in enumerate(memories):
        users = range(number, len(sizes), fleet.servers)
        for user in users:
            if sum(sizes[each] for each in (*memory.uses, user)) > fleet.memory_bytes:
                break
            memory.uses[user] = claims = claims + 1
            last_user[number] = number
    claims = max(claims, 0)
    now = 0.0
    while True:
        while (found := _pair(runs, fleet, memories, now)) is not None:
            run, number = found
            claims += 1
            _take(runs, run, number, fleet, memories[number], last_user, sizes, now, claims)
        moments = [
            moment for run in runs for moment in (run.at_s, run.start_s, run.end_s) if now < moment < float("inf")
        ]
        if not moments:
            return runs
        now = min(moments)


def _pair(runs: list[Run], fleet: Fleet, memories: list[Memory], now: float) -> tuple[Run, int] | None:
    """The next run that is claimed now, and its server."""
    waiting = [run for run in runs if run.at_s <= now and run.server < 0]
    if fleet.arrangement is Arrangement.DEDICATED:
        for number in range(fleet.servers):
            mine = [run for run in waiting if run.user == number]
            if mine and number in _free(runs, fleet, [number], now):
                return mine[0], number
        return None
    free = _free(runs, fleet, range(fleet.servers), now)
    if not waiting or not free:
        return None
    if fleet.arrangement is Arrangement.LOCAL and waiting[0].overtaken < fleet.max_overtaken:
        for run in waiting:
            having = [number for number in free if run.user in memories[number].uses]
            if having:
                for other in waiting[: waiting.index(run)]:
                    other.overtaken += 1
                return run, having[0]
    first = waiting[0]
    having = [number for number in free if first.user in memories[number].uses]
    return first, having[0] if having else min(free, key=lambda number: (_ends(runs, number), number))


def _free(runs: list[Run], fleet: Fleet, numbers: range | list[int], now: float) -> list[int]:
    """Servers that have nothing to do; where there is none and loading is ahead, those without a next run."""
    idle = [number for number in numbers if not any(run.server == number and run.end_s > now for run in runs)]
    if idle or fleet.loading is Loading.WAIT:
        return idle
    return [number for number in numbers if not any(run.server == number and run.start_s > now for run in runs)]


def _ends(runs: list[Run], number: int) -> float:
    return max((run.end_s for run in runs if run.server == number), default=0.0)


def _take(
    runs: list[Run],
    run: Run,
    number: int,
    fleet: Fleet,
    memory: Memory,
    last_user: list[int | None],
    sizes: tuple[int, ...],
    now: float,
    claim: int,
) -> None:
    computing = [each.user for each in runs if each.server == number and each.start_s <= now < each.end_s]
    begins = max(now, _ends(runs, number))
    ready = begins
    if run.user not in memory.uses:
        run.loaded_bytes = sizes[run.user]
        for user in sorted(memory.uses, key=lambda each: memory.uses[each]):
            if sum(sizes[each] for each in (*memory.uses, run.user)) <= fleet.memory_bytes:
                break
            if user not in computing:
                del memory.uses[user]
        ready = max(begins, now + fleet.tier_latency_s + run.loaded_bytes / fleet.tier_bytes_per_s)
    memory.uses[run.user] = claim
    if last_user[number] != run.user:
        ready += fleet.switch_s
    last_user[number] = run.user
    run.server, run.start_s, run.end_s, run.stalled_s = number, ready, ready + run.run_s, ready - begins
