"""`reorder`: operations that need the same key follow each other, as far as their data allows.

List scheduling over a window of the program. Of the operations whose operands are there, one whose key lies in a cache
(LRU, as the simulator's) runs first, then one that needs no key, then the key that most of the window waits for. The
window bounds how many ciphertexts are alive at once; narrower ones are tried too. An order is kept only if it loads
fewer bytes than the old one, by the simulator.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict, defaultdict

import numpy as np

from penstock.lab.rewriting.options import RewriteOptions
from penstock.lab.rewriting.program import Op, Program


def reorder(program: Program, options: RewriteOptions) -> str:
    """Put the operations in an order that loads fewer bytes of keys into the cache of `options`."""
    params = program.params
    capacity = 2 * params.key_bytes() if options.cache_bytes is None else options.cache_bytes
    before = best = loaded_key_bytes(program, program.ops, capacity)
    alive, ops = most_alive(program.ops), program.ops
    for window in sorted({max(1, options.window >> shift) for shift in (6, 4, 2, 0)}):
        order = [program.ops[index] for index in _schedule(program, window, capacity)]
        loaded = loaded_key_bytes(program, order, capacity)
        if loaded < best:
            best, ops = loaded, order
    program.ops = ops
    if best == before:
        return f"no order was found that loads fewer bytes of keys than {before} into a cache of {capacity}"
    return (
        f"keys load {best} instead of {before} bytes into a cache of {capacity}; "
        f"at most {most_alive(ops)} instead of {alive} results are alive"
    )


def most_alive(ops: list[Op]) -> int:
    """Results that are made already and read again, at their most."""
    last = {operand: index for index, op in enumerate(ops) for operand in op.operands}
    alive = most = 0
    for index, op in enumerate(ops):
        if op.output is not None and op.output in last:
            alive += 1
        most = max(most, alive)
        alive -= sum(last[operand] == index for operand in set(op.operands))
    return most


def loaded_key_bytes(program: Program, ops: list[Op], capacity: int) -> int:
    """Bytes of keys that these operations load into an LRU cache, by the simulator."""
    from penstock.scheme.play.accesses import Accesses
    from penstock.scheme.play.caches import Lru
    from penstock.scheme.play.hierarchy import replay

    keys = {key: index for index, key in enumerate(dict.fromkeys(op.key for op in ops if op.key is not None))}
    keyed = [op for op in ops if op.key is not None]
    start = np.arange(len(keyed) + 1, dtype=np.int64)
    which = np.asarray([keys[op.key or ""] for op in keyed], dtype=np.int32)
    size = np.asarray([program.params.key_bytes(op.limbs_in, key=op.key) for op in keyed], dtype=np.int64)
    return int(replay(Accesses(start, which, size), Lru(capacity)).miss_bytes)


def _schedule(program: Program, window: int, capacity: int) -> list[int]:
    """Places of the operations in their new order."""
    ops, key_bytes = program.ops, program.params.key_bytes
    waits, readers = _dependences(ops)
    ready: dict[str | None, list[int]] = defaultdict(list)  # by key, heaps of places
    wanted: Counter[str] = Counter()  # operations of each key in the window that have not run
    cache = _KeyCache(capacity)
    done = [False] * len(ops)
    first = entered = 0
    order: list[int] = []
    while len(order) < len(ops):
        while entered < min(len(ops), first + window):
            key = ops[entered].key
            if key is not None:
                wanted[key] += 1
            if not waits[entered]:
                heapq.heappush(ready[key], entered)
            entered += 1
        key = _choice(ready, wanted, cache)
        index = heapq.heappop(ready[key])
        if not ready[key]:
            del ready[key]
        if key is not None:
            wanted[key] -= 1
            cache.read(key, key_bytes(ops[index].limbs_in, key=key))
        done[index] = True
        order.append(index)
        for reader in readers[index]:
            waits[reader] -= 1
            if not waits[reader] and reader < entered:
                heapq.heappush(ready[ops[reader].key], reader)
        while first < len(ops) and done[first]:
            first += 1
    return order


def _choice(ready: dict[str | None, list[int]], wanted: Counter[str], cache: _KeyCache) -> str | None:
    """The key of the operation that runs next; `None` for one that needs no key."""
    for key in reversed(cache.held):
        if key in ready:
            return key
    if None in ready:
        return None
    return min((key for key in ready if key is not None), key=lambda key: (-wanted[key], ready[key][0]))


def _dependences(ops: list[Op]) -> tuple[list[int], list[list[int]]]:
    """How many operations each one waits for, and which ones wait for each."""
    makers = {op.output: index for index, op in enumerate(ops) if op.output is not None}
    waits = [0] * len(ops)
    readers: list[list[int]] = [[] for _ in ops]
    for index, op in enumerate(ops):
        for maker in {makers[o] for o in op.operands if o in makers}:
            readers[maker].append(index)
            waits[index] += 1
    return waits, readers


class _KeyCache:
    """Keys in the order of their last use, whole at the most bytes that were read of each."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.used = capacity, 0
        self.held: OrderedDict[str, int] = OrderedDict()

    def read(self, key: str, size: int) -> None:
        """Load the key, or make it the latest."""
        size = max(size, self.held.pop(key, 0)) if size <= self.capacity else 0
        self.held[key] = size
        self.used = sum(self.held.values())
        while self.used > self.capacity:
            self.used -= self.held.popitem(last=False)[1]
        if not size:
            del self.held[key]
