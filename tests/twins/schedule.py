"""The twin of the engine's list scheduling: the same rules with plain lists, one scan for each decision.

Times are whole attoseconds. Input is checked by the engine alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


def attoseconds(seconds: float) -> int:
    return round(seconds * 1e18)


@dataclass
class Node:
    """One limb of one kernel."""

    kernel: int
    unit: int
    limb: int
    seconds: int
    memories: tuple[int, int]
    """Time of its data on the scratchpad, and in the register file."""
    latency: int
    operand: bool
    result: bool
    needs: dict[int, int] = field(default_factory=dict)
    """The nodes that it reads, and how far it may start ahead of the result of each."""
    rank: int = 0

    @property
    def busy(self) -> int:
        return max(self.seconds, *self.memories) if self.unit >= 0 else 0

    @property
    def whole(self) -> int:
        return self.busy + self.latency


def nodes_of(kernels: dict[str, Any], shape: int, latency: Sequence[int], chaining: float) -> list[Node]:
    """The limbs of the kernels of a shape, each with the limbs that it needs and its longest way to the end."""
    first, last = kernels["kernel_start"][shape : shape + 2]
    nodes: list[Node] = []
    of: dict[int, list[int]] = {}
    for k in range(first, last):
        limbs = kernels["limb"][kernels["limb_start"][k] : kernels["limb_start"][k + 1]]
        each = kernels["each"][kernels["each_start"][k] : kernels["each_start"][k + 1]]
        whole = kernels["whole"][kernels["whole_start"][k] : kernels["whole_start"][k + 1]]
        unit = int(kernels["unit"][k])
        of[k - first] = []
        for limb in limbs:
            node = Node(
                kernel=k - first,
                unit=unit,
                limb=int(limb),
                seconds=attoseconds(kernels["limb_s"][k]),
                memories=(attoseconds(kernels["memory_s"][k]), attoseconds(kernels["registers_s"][k])),
                latency=latency[unit] if unit >= 0 else 0,
                operand=bool(kernels["flags"][k] & 1),
                result=bool(kernels["flags"][k] & 2),
            )
            needed = {i for j in each for i in of[int(j)] if nodes[i].limb == node.limb}
            for i in needed | {i for j in whole for i in of[int(j)]}:
                node.needs[i] = int(min(nodes[i].busy, node.busy) * chaining)
            of[k - first].append(len(nodes))
            nodes.append(node)
    for i in reversed(range(len(nodes))):
        behind = [nodes[j].rank - nodes[j].needs[i] for j in range(len(nodes)) if i in nodes[j].needs]
        nodes[i].rank = nodes[i].whole + max(behind, default=0)
    return nodes


@dataclass
class Scheduled:
    total: int = 0
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    busy: list[int] = field(default_factory=list)
    memories: list[int] = field(default_factory=lambda: [0, 0])
    critical: int = 0
    placed: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """(operation, kernel, limb, start, end on the unit), in the order in which they start."""


class Play:
    """One run over the operations of a program."""

    def __init__(self, kernels: dict[str, Any], program: dict[str, Any], units: dict[str, Any]) -> None:
        latency = [attoseconds(each) for each in units["latency_s"]]
        shapes = {
            int(shape): nodes_of(kernels, int(shape), latency, units["chaining"])
            for shape in program["shape"]
            if shape >= 0
        }
        self.ops = [shapes[int(shape)] if shape >= 0 else [] for shape in program["shape"]]
        self.held = [float(kernels["held_bytes"][shape]) if shape >= 0 else 0.0 for shape in program["shape"]]
        starts = program["source_start"]
        self.sources = [
            [int(each) for each in program["source"][starts[i] : starts[i + 1]]] for i in range(len(self.ops))
        ]
        self.ports = [int(each) for each in units["ports"]]
        self.capacity, self.window = units["capacity_bytes"], units["window"]
        self.waiting = [list(range(len(nodes))) for nodes in self.ops]
        """Per operation: nodes that have not started."""
        self.done: list[set[int]] = [set() for _ in self.ops]
        self.there: list[dict[int, int]] = [{} for _ in self.ops]
        """Per operation: when the result of each node that has started is there."""
        self.fresh: set[tuple[int, int]] = set()
        """(operation, node) that have just started: nobody has been told yet."""
        self.running: list[tuple[int, int, int]] = []
        """(when the result is there, operation, node)."""
        self.taken: list[tuple[int, int]] = []
        """(when it is free again, unit); unit -1 is the scratchpad, -2 the register file."""
        self.found = Scheduled(start=[-1] * len(self.ops), end=[-1] * len(self.ops), busy=[0] * len(self.ports))
        self.in_flight: list[int] = []
        self.now = 0

    def limb_there(self, operation: int, limb: int) -> bool:
        """Whether a limb of the result of an operation can be read."""
        if self.found.end[operation] >= 0:
            return True
        makers = [i for i, node in enumerate(self.ops[operation]) if node.result and node.limb == limb]
        return bool(makers) and all(i in self.done[operation] for i in makers)

    def is_ready(self, operation: int, i: int) -> bool:
        node = self.ops[operation][i]
        there = self.there[operation]
        if any((operation, j) in self.fresh for j in node.needs):
            return False
        if not all(j in there and there[j] - lead <= self.now for j, lead in node.needs.items()):
            return False
        return not node.operand or all(self.limb_there(each, node.limb) for each in self.sources[operation])

    def looked_at(self) -> range:
        """The operations from the oldest that has not left, as many as the window allows."""
        oldest = next((i for i, end in enumerate(self.found.end) if end < 0), len(self.ops))
        return range(oldest, min(len(self.ops), oldest + self.window))

    def settle(self) -> None:
        """All that takes no time: results, the end of operations, kernels without a unit; then one operation enters,
        and all that once more."""
        while self.results() or self.admit():
            pass

    def results(self) -> bool:
        changed = False
        for time, operation, i in [each for each in self.running if each[0] <= self.now]:
            self.running.remove((time, operation, i))
            self.done[operation].add(i)
            changed = True
        self.taken = [each for each in self.taken if each[0] > self.now]
        for operation in self.looked_at():
            nodes, sources = self.ops[operation], self.sources[operation]
            if (
                self.found.end[operation] < 0
                and len(self.done[operation]) == len(nodes)
                and (nodes or all(self.found.end[each] >= 0 for each in sources))
            ):
                self.in_flight = [each for each in self.in_flight if each != operation]
                self.found.end[operation] = self.now
                self.note(operation, self.now)
                changed = True
        for operation in self.in_flight:
            for i in list(self.waiting[operation]):
                if self.ops[operation][i].unit < 0 and self.is_ready(operation, i):
                    self.waiting[operation].remove(i)
                    self.there[operation][i] = self.now
                    self.done[operation].add(i)
                    self.note(operation, self.now)
                    changed = True
        return changed

    def admit(self) -> bool:
        """Lets the oldest operation in that could start, if it has room."""
        for operation in self.looked_at():
            if operation in self.in_flight or self.found.end[operation] >= 0:
                continue
            if not all(each in self.in_flight or self.found.end[each] >= 0 for each in self.sources[operation]):
                continue
            if any(self.is_ready(operation, i) for i in self.waiting[operation]):
                held = sum(self.held[each] for each in sorted(self.in_flight)) + self.held[operation]
                if self.in_flight and held > self.capacity:
                    return False
                self.in_flight.append(operation)
                return True
        return False

    def note(self, operation: int, start: int) -> None:
        if self.found.start[operation] < 0:
            self.found.start[operation] = start

    def first_ready(self) -> dict[int, tuple[int, int, int]]:
        """The kernel that each unit runs next: of the oldest operation, that with the longest way to the end."""
        first: dict[int, tuple[int, int, int]] = {}
        for operation in self.in_flight:
            for i in self.waiting[operation]:
                node = self.ops[operation][i]
                wanted = operation, -node.rank, i
                before = wanted < first.get(node.unit, (len(self.ops), 0, 0))
                if node.unit >= 0 and before and self.is_ready(operation, i):
                    first[node.unit] = wanted
        return first

    def dispatch(self) -> None:
        while True:
            ready = []
            for unit, (operation, rank, i) in self.first_ready().items():
                node, taken = self.ops[operation][i], [each[1] for each in self.taken if each[0] > self.now]
                wanted = [-1 - memory for memory, time in enumerate(node.memories) if time]
                if taken.count(unit) < self.ports[unit] and not any(memory in taken for memory in wanted):
                    ready.append((operation, rank, i))
            if not ready:
                return
            operation, _, i = min(ready)
            node = self.ops[operation][i]
            self.note(operation, self.now)
            self.waiting[operation].remove(i)
            free = self.now + node.busy
            self.there[operation][i] = free + node.latency
            self.fresh.add((operation, i))
            self.taken.append((free, node.unit))
            for memory, time in enumerate(node.memories):
                if time:
                    self.taken.append((self.now + time, -1 - memory))
                    self.found.memories[memory] += time
            self.running.append((free + node.latency, operation, i))
            self.found.busy[node.unit] += node.busy
            self.found.placed.append((operation, node.kernel, node.limb, self.now, free))

    def run(self) -> Scheduled:
        self.settle()
        while True:
            self.dispatch()
            if self.fresh:
                self.fresh.clear()
                self.settle()
                continue
            times = [each[0] for each in (*self.running, *self.taken)]
            for time, operation, i in self.running:
                leads = {node.needs[i] for node in self.ops[operation] if i in node.needs}
                times += [time - lead for lead in leads if time - lead > self.now]
            if not times:
                break
            self.now = min(times)
            self.settle()
        self.found.total = max(self.found.end, default=0)
        self.found.critical = self.critical()
        return self.found

    def critical(self) -> int:
        """The end of the program if nothing but results were waited for."""
        ends: list[int] = []
        there: list[dict[int, int]] = []
        for operation, nodes in enumerate(self.ops):
            sources, times = self.sources[operation], list[int]()
            for node in nodes:
                ready = [times[j] - lead for j, lead in node.needs.items()]
                if node.operand:
                    ready += [there[each].get(node.limb, ends[each]) for each in sources]
                times.append(max(ready, default=0) + node.whole)
            made: dict[int, int] = {}
            for node, time in zip(nodes, times, strict=True):
                if node.result:
                    made[node.limb] = max(made.get(node.limb, 0), time)
            there.append(made)
            ends.append(max(times) if times else max((ends[each] for each in sources), default=0))
        return max(ends, default=0)


def schedule(kernels: dict[str, Any], program: dict[str, Any], units: dict[str, Any]) -> Scheduled:
    """As `_engine.schedule_kernels`."""
    return Play(kernels, program, units).run()
