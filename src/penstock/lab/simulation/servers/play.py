"""Plays a stream of runs on a fleet: every arrival, start and end in their order.

A run is claimed by a server, which brings in its user's keys where they are missing, and then computes. At one time all
ends come first, then starts and arrivals, then runs are claimed. A server without a run claims before one that computes
and loads ahead; of several, one that has the keys (the lowest number), else the one that is free first, or has been
free for longest.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from penstock.base.arrays import Floats, Ints
from penstock.lab.simulation.servers.fleet import Arrangement, Fleet, Loading
from penstock.lab.simulation.servers.stream import Stream

_END, _START = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedStream:
    """What became of the runs (simulated)."""

    server: Ints
    """(runs,) the server of each."""
    start_s: Floats
    """(runs,) when it began to compute."""
    end_s: Floats
    """(runs,)"""
    loaded_bytes: Ints
    """(runs,) keys that were brought in for it."""
    stalled_s: Floats
    """(runs,) in which its server computed nothing and waited for keys, or switched."""
    switches: int
    """Runs whose user differs from the run before on their server."""
    installed_bytes: int
    """Keys in memory before the first run."""
    most_overtaken: int

    @property
    def span_s(self) -> float:
        """From time 0 to the last end."""
        return float(self.end_s.max())


class _Server:
    """One server: its memory, the run that computes, and the one that it has claimed."""

    __slots__ = ("claimed", "ends_s", "number", "resident", "running", "used_bytes", "user")

    def __init__(self, number: int) -> None:
        self.number = number
        self.resident: OrderedDict[int, int] = OrderedDict()
        self.used_bytes = 0
        self.running: int | None = None
        self.claimed: int | None = None
        self.ends_s = 0.0
        """Of the run that computes, or of the last one."""
        self.user: int | None = None
        """Of the last claimed run."""

    def bring(self, user: int, size: int, memory_bytes: int, in_use: int | None) -> int:
        """Put a user's keys into memory; the bytes that were missing. Keys that are in use stay."""
        if user in self.resident:
            self.resident.move_to_end(user)
            return 0
        for other in list(self.resident):
            if self.used_bytes + size <= memory_bytes:
                break
            if other != in_use:
                self.used_bytes -= self.resident.pop(other)
        self.resident[user] = size
        self.used_bytes += size
        return size


def play(stream: Stream, fleet: Fleet) -> ServedStream:
    """Every run of the stream, on servers whose memories begin full of keys.

    Server number s of S begins with the keys of users s, s + S, s + 2S, … as far as they fit.
    Raises: UsageError: as `Fleet.check`.
    """
    fleet.check(stream)
    return _Play(stream, fleet).run()


class _Play:
    def __init__(self, stream: Stream, fleet: Fleet) -> None:
        self.fleet = fleet
        self.at_s, self.user = stream.at_s.tolist(), stream.user.tolist()
        self.run_s, self.sizes = stream.run_s.tolist(), stream.key_bytes
        self.servers = [_Server(number) for number in range(fleet.servers)]
        self.dedicated = fleet.arrangement is Arrangement.DEDICATED
        self.local = fleet.arrangement is Arrangement.LOCAL
        self.ahead = fleet.loading is Loading.AHEAD
        self.queues: list[list[int]] = [[] for _ in range(fleet.servers if self.dedicated else 1)]
        self.events: list[tuple[float, int, int]] = []
        self.overtaken = [0] * len(stream)
        self.switches = self.most_overtaken = 0
        runs = len(stream)
        self.server, self.loaded = [0] * runs, [0] * runs
        self.start_s, self.end_s, self.stalled_s = [0.0] * runs, [0.0] * runs, [0.0] * runs
        self.installed_bytes = sum(self._install(server) for server in self.servers)

    def _install(self, server: _Server) -> int:
        for user in range(server.number, len(self.sizes), len(self.servers)):
            if server.used_bytes + self.sizes[user] > self.fleet.memory_bytes:
                break
            server.bring(user, self.sizes[user], self.fleet.memory_bytes, None)
            server.user = server.number
        return server.used_bytes

    def run(self) -> ServedStream:
        arrived, runs, at_s, events = 0, len(self.at_s), [*self.at_s, float("inf")], self.events
        while arrived < runs or events:
            now = min(at_s[arrived], events[0][0]) if events else at_s[arrived]
            touched = [0] if not self.dedicated else []
            while events and events[0][0] <= now:
                _, kind, number = heapq.heappop(events)
                server = self.servers[number]
                if kind == _END:
                    server.running = None
                else:
                    server.running, server.claimed = server.claimed, None
                if self.dedicated:
                    touched.append(number)
            while at_s[arrived] <= now:
                queue = self.user[arrived] if self.dedicated else 0
                self.queues[queue].append(arrived)
                if self.dedicated:
                    touched.append(queue)
                arrived += 1
            for number in touched:
                if self.queues[number]:
                    eligible = self.servers[number : number + 1] if self.dedicated else self.servers
                    self._claims(now, self.queues[number], eligible)
        return ServedStream(
            server=np.array(self.server),
            start_s=np.array(self.start_s),
            end_s=np.array(self.end_s),
            loaded_bytes=np.array(self.loaded),
            stalled_s=np.array(self.stalled_s),
            switches=self.switches,
            installed_bytes=self.installed_bytes,
            most_overtaken=self.most_overtaken,
        )

    def _claims(self, now: float, queue: list[int], servers: list[_Server]) -> None:
        """Give waiting runs to servers as long as one is free for them."""
        while queue:
            free = [server for server in servers if server.running is None and server.claimed is None]
            if not free and self.ahead:
                free = [server for server in servers if server.claimed is None]
            if not free:
                return
            self._claim(now, *self._chosen(queue, free))

    def _chosen(self, queue: list[int], free: list[_Server]) -> tuple[int, _Server]:
        """The run and the server that takes it; the run leaves the queue."""
        if self.local and self.overtaken[queue[0]] < self.fleet.max_overtaken:
            for place, run in enumerate(queue):
                for server in free:
                    if self.user[run] in server.resident:
                        for other in queue[:place]:
                            self.overtaken[other] += 1
                            self.most_overtaken = max(self.most_overtaken, self.overtaken[other])
                        return queue.pop(place), server
        run = queue.pop(0)
        for server in free:
            if self.user[run] in server.resident:
                return run, server
        return run, min(free, key=lambda server: (server.ends_s, server.number))

    def _claim(self, now: float, run: int, server: _Server) -> None:
        user = self.user[run]
        in_use = None if server.running is None else self.user[server.running]
        loaded = server.bring(user, self.sizes[user], self.fleet.memory_bytes, in_use)
        begins = max(now, server.ends_s)
        start = max(now + self.fleet.load_s(loaded), begins) if loaded else begins
        if server.user != user:
            self.switches += 1
            start += self.fleet.switch_s
        self.server[run], self.loaded[run] = server.number, loaded
        self.start_s[run], self.end_s[run] = start, start + self.run_s[run]
        self.stalled_s[run] = start - begins
        server.user, server.ends_s = user, self.end_s[run]
        if start <= now:
            server.running = run
        else:
            server.claimed = run
            heapq.heappush(self.events, (start, _START, server.number))
        heapq.heappush(self.events, (self.end_s[run], _END, server.number))
