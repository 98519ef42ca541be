"""The memory of a query of a database before it runs, and how one byte budget is shared.

Keys, constants, values and entries that lie ready share it. Entries are read past the page cache into separate buffers,
and so never take a key's place.
"""

from __future__ import annotations

from penstock import _engine
from penstock.base.units import WORD_BYTES
from penstock.program.database.description import RECORDS
from penstock.program.database.matching import MatchPlan
from penstock.program.database.pir import PirPlan
from penstock.program.database.ssc import LEVELS
from penstock.runtime.native.compiled import CompilingEvaluator
from penstock.runtime.native.engine import KEPT_CIPHERTEXTS
from penstock.runtime.native.memory import rounded_bytes
from penstock.runtime.native.metered import KEPT, VALUES, Metered, MeteredEngine, meter, plan_kept
from penstock.runtime.native.room import INPUT_BYTES_PER_S, wanted_keys
from penstock.runtime.native.sharing import Wanted, parts_of
from penstock.runtime.scanning.query import Plan, first_objects, scan_all, stored_entry
from penstock.runtime.scanning.scanners import ScanPlan
from penstock.runtime.scanning.store import Database
from penstock.runtime.scanning.stream import READ_BYTES

MOST_OBJECTS = 512
"""A scan repeats itself: so many objects are noted, and the keys of the others follow in the same order."""
MOST_AHEAD = 4
"""Entries that lie ready, at most."""
_KEPT = (KEPT_CIPHERTEXTS, 1)
_PROCESS_STEP_BYTES = 16 << 20
"""The process is rounded up to it: the same process differs a little from start to start."""


def plan_scan(
    database: Database, plan: Plan, queries: int, memory_bytes: int, context: _engine.CkksContext
) -> ScanPlan:
    """Plan the memory of a query. `context`: the tables of its parameters.

    Raises: BudgetTooSmall: naming the class that does not fit, and the least that does.
    """
    stored, few = database.description.stored, first_objects(plan, MOST_OBJECTS)
    metered = _metered(few, queries, stored, context)
    process = Wanted.always(rounded_bytes(-context.kept_bytes, _PROCESS_STEP_BYTES))
    layout, entry = database.layout, _entry_bytes(database, plan)
    keys = wanted_keys(metered.compiled, metered.key_sizes, -(-plan.num_objects // MOST_OBJECTS))
    buffer = max(layout.header_bytes, max(1, READ_BYTES // layout.stride) * layout.stride)
    wanted = {
        "process": process,
        "keys": keys,
        # The buffer, the bytes of one entry, and the entry that is decoded or waits for a place.
        "reading": Wanted.always(buffer + layout.entry_bytes + entry),
        "entries that lie ready": Wanted(
            all_bytes=MOST_AHEAD * entry,
            least_bytes=entry,
            saved_s=layout.total_bytes / INPUT_BYTES_PER_S,
            step_bytes=entry,
        ),
        VALUES: Wanted.always(_standing_bytes(plan, queries) - _standing_bytes(few, queries)),
        KEPT: Wanted.always(0),
        "constants": Wanted.always(_constant_bytes(database, plan, metered)),
        "tables": Wanted.always(metered.compiled.table_bytes),
    }
    memory, keep = plan_kept(metered, _KEPT, parts_of(wanted, "scan"), memory_bytes, "--memory")
    return ScanPlan(
        memory=memory,
        key_bytes=memory.given("keys"),
        key_uses=tuple(metered.compiled.key_uses * -(-plan.num_objects // few.num_objects)),
        keep_bytes=keep,
        prefetch=memory.given("entries that lie ready") // entry,
    )


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


def _entry_bytes(database: Database, plan: Plan) -> int:
    """Of a decoded entry: a ciphertext, or a block of records in slots, with its bytes."""
    description, params = database.description, plan.params
    if description.stored != RECORDS:
        return params.ciphertext_bytes(params.num_q)
    assert isinstance(plan, PirPlan)
    return description.entry_bytes + plan.packing.columns * params.slots * WORD_BYTES


def _constant_bytes(database: Database, plan: Plan, metered: Metered) -> int:
    """Encoded vectors: of a block of records where they are encoded at their use, and all others."""
    if database.description.stored == RECORDS:
        assert isinstance(plan, PirPlan)
        return plan.packing.columns * plan.params.polynomial_bytes(plan.object_limbs)
    return sum(map(metered.compiled.encoded_bytes, metered.compiled.encoded))
