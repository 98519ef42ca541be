"""The memory of a query of a database before it runs, and how one byte budget is shared.

Keys, constants, values and entries that lie ready share it. Entries are read past the page cache into separate buffers,
and so never take a key's place.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial

from penstock import _engine
from penstock.base.units import WORD_BYTES
from penstock.program.database.description import RECORDS
from penstock.program.database.matching import MatchPlan
from penstock.program.database.pir import PirPlan
from penstock.program.database.ssc import LEVELS, SscPlan
from penstock.runtime.native.compiled import CompilingEvaluator
from penstock.runtime.native.engine import KEPT_CIPHERTEXTS
from penstock.runtime.native.memory import resident_bytes
from penstock.runtime.native.metered import Metered, MeteredEngine, meter
from penstock.runtime.native.room import INPUT_BYTES_PER_S, wanted_keys
from penstock.runtime.native.sharing import Part, Wanted, least_of, plan_memory
from penstock.runtime.scanning.query import Plan, scan_all, stored_entry
from penstock.runtime.scanning.scanners import ScanPlan
from penstock.runtime.scanning.store import Database
from penstock.runtime.scanning.stream import READ_BYTES

MOST_OBJECTS = 512
"""A scan repeats itself: so many objects are noted, and the keys of the others follow in the same order."""
MOST_AHEAD = 4
"""Entries that lie ready, at most."""
OPTION = "--memory"
PHASE = ("scan",)
_KEPT = (KEPT_CIPHERTEXTS, 1)
_PROCESS_STEP_BYTES = 16 << 20
"""The process is rounded up to it: the same process differs a little from start to start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedScan:
    """What a plan depends on."""

    database: Database
    plan: Plan
    queries: int
    memory_bytes: int


def plan_scan(asked: AskedScan, context: _engine.CkksContext) -> ScanPlan:
    """Plan the memory of a query.

    Raises: BudgetTooSmall: naming the class that does not fit, and the least that does.
    """
    plan, stored = asked.plan, asked.database.description.stored
    few = _fewer(plan)
    metered = _metered(few, asked.queries, stored, context)
    process = resident_bytes(os.getpid()) - context.kept_bytes
    process += -process % _PROCESS_STEP_BYTES
    standing = _standing_bytes(plan, asked.queries) - _standing_bytes(few, asked.queries)
    parts: list[Part] = []
    keep = 0
    for kept in _KEPT:
        keep = kept * plan.params.ciphertext_bytes(plan.params.num_q + plan.params.num_p)
        values, held = metered.held_bytes(keep)
        parts = _parts(asked, metered, process, (values + standing, held - values))
        if least_of(parts) <= asked.memory_bytes:
            break
    memory = plan_memory(parts, asked.memory_bytes, OPTION)
    ready = memory.given("entries that lie ready") // _entry_bytes(asked)
    uses = metered.compiled.key_uses
    return ScanPlan(
        memory=memory,
        key_bytes=memory.given("keys"),
        key_uses=tuple(uses * -(-plan.num_objects // few.num_objects)),
        keep_bytes=keep,
        prefetch=ready,
    )


def _fewer(plan: Plan) -> Plan:
    """The first objects of a plan."""
    if plan.num_objects <= MOST_OBJECTS:
        return plan
    if isinstance(plan, PirPlan):
        return replace(plan, records=plan.params.slots * max(1, MOST_OBJECTS // plan.packing.columns))
    if isinstance(plan, SscPlan):
        return replace(plan, vectors=plan.per_object * MOST_OBJECTS)
    return replace(plan, records=plan.per_object * MOST_OBJECTS)


def _standing_bytes(plan: Plan, queries: int) -> int:
    """Ciphertexts that stay through the whole scan, where they are more in a longer one."""
    params = plan.params
    if isinstance(plan, PirPlan):
        limbs = enumerate(plan.dimensions)
        return queries * sum(length * params.ciphertext_bytes(plan.object_limbs - at) for at, length in limbs)
    if isinstance(plan, MatchPlan):
        return 0
    return plan.num_answers * params.ciphertext_bytes(plan.object_limbs - LEVELS)


def _metered(plan: Plan, queries: int, stored: str, context: _engine.CkksContext) -> Metered:
    def program(ev: CompilingEvaluator, engine: MeteredEngine) -> None:
        def entry(number: int) -> object:
            return stored_entry(ev, number, engine.given(plan.params.num_q))

        scan_all(ev, plan, queries, stored, entry)

    return meter(program, plan.params, context)


def _entry_bytes(asked: AskedScan) -> int:
    """Of a decoded entry: a ciphertext, or a block of records in slots, with its bytes."""
    description, params = asked.database.description, asked.plan.params
    if description.stored != RECORDS:
        return params.ciphertext_bytes(params.num_q)
    assert isinstance(asked.plan, PirPlan)
    return description.entry_bytes + asked.plan.packing.columns * params.slots * WORD_BYTES


def _parts(asked: AskedScan, metered: Metered, process_bytes: int, of_values: tuple[int, int]) -> list[Part]:
    """All classes of data. `of_values`: in use, and kept for new ones."""
    layout = asked.database.layout
    entry = _entry_bytes(asked)
    buffer = max(layout.header_bytes, max(1, READ_BYTES // layout.stride) * layout.stride)
    repeats = -(-asked.plan.num_objects // MOST_OBJECTS)
    wanted = {
        "process": Wanted.always(process_bytes),
        "keys": wanted_keys(metered.compiled, metered.key_sizes, repeats),
        # The buffer, the bytes of one entry, and the entry that is decoded or waits for a place.
        "reading": Wanted.always(buffer + layout.entry_bytes + entry),
        "entries that lie ready": Wanted(
            all_bytes=MOST_AHEAD * entry,
            least_bytes=entry,
            saved_s=layout.total_bytes / INPUT_BYTES_PER_S,
            step_bytes=entry,
        ),
        "values": Wanted.always(of_values[0]),
        "memory kept for new values": Wanted.always(of_values[1]),
        "constants": Wanted.always(_constant_bytes(asked, metered)),
        "tables": Wanted.always(metered.compiled.table_bytes),
    }
    return [Part(name=name, wanted=part, phases=PHASE) for name, part in wanted.items()]


def _constant_bytes(asked: AskedScan, metered: Metered) -> int:
    """Encoded vectors: of a block of records where they are encoded at their use, and all others."""
    if asked.database.description.stored == RECORDS:
        assert isinstance(asked.plan, PirPlan)
        return asked.plan.packing.columns * asked.plan.params.polynomial_bytes(asked.plan.object_limbs)
    return sum(map(metered.compiled.encoded_bytes, metered.compiled.encoded))


def scan_planner(database: Database, plan: Plan, queries: int, memory_bytes: int) -> partial[ScanPlan]:
    """Plans the memory of a query, once the tables of its parameters are there."""
    return partial(plan_scan, AskedScan(database=database, plan=plan, queries=queries, memory_bytes=memory_bytes))
