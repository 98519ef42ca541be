"""The memory of a search before it runs, and how one byte budget is shared.

Two phases hold most: the products with the records, and the comparison. Evaluation keys are read ahead in both, and get
the bytes that are free in both. Records are read into separate buffers, and so never take a key's place.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock import _engine
from penstock.program.database.similarity.scheme import PAYLOAD_LIMBS, Layout
from penstock.program.database.similarity.search import search
from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.scaling import ScaleState
from penstock.runtime.native.compiled import CompilingEvaluator
from penstock.runtime.native.memory import rounded_bytes
from penstock.runtime.native.metered import KEPT, VALUES, Metered, MeteredEngine, meter, plan_kept
from penstock.runtime.native.room import INPUT_BYTES_PER_S, wanted_keys
from penstock.runtime.native.sharing import MemoryPlan, Part, Wanted
from penstock.runtime.similarity.files import block_bytes, payload_count, record_bytes
from penstock.scheme.params.ckks import CkksParameters

PRODUCTS, COMPARISON = "products", "comparison"
"""The phases."""
READ_AHEAD = 2
"""Groups of blocks in memory besides the one that is computed on, at most."""
KEPT_CIPHERTEXTS = (32, 8, 1)
"""Ciphertexts of which the engine keeps the memory for new ones: fewer where the budget is small."""
SCANNED_BYTES_PER_S = 0.25e9
"""Records that one thread computes on. Nominal: it only ranks what gets bytes."""
OPTION = "memory_bytes"
"""What states the budget, in messages."""
PROCESS_STEP_BYTES = 16 << 20
"""The process is rounded up to it: the same process differs a little from start to start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """The bytes of each class of data in a search, and what follows from them."""

    memory: MemoryPlan
    key_uses: tuple[tuple[str, int], ...]
    """(key, limbs) of each key switch in the large ring, in order."""
    key_bytes: int
    """Rows of keys in memory."""
    vector_bytes: int | None
    """Encoded constants that stay; `None`: all."""
    keep_bytes: int
    """Memory of dropped ciphertexts that is kept for new ones."""
    group: int
    """Blocks of records that are computed on at a time."""
    buffers: int
    """Groups in memory: one is computed on, the others are read."""
    payload_order: tuple[tuple[int, int, int], ...]
    """(variant, score ciphertext, column) of each payload, in the order of their uses."""
    payloads_ahead: int
    """Payloads that are read ahead of their use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSearch:
    """What a plan depends on."""

    params: CkksParameters
    layout: Layout
    payload_bytes: int
    threads: int
    count_only: bool
    memory_bytes: int | None
    key_budget_bytes: int | None
    option: str = OPTION
    """What states the budget, in messages."""


def plan_search(asked: AskedSearch, context: _engine.CkksContext, kept_now_bytes: int) -> SearchPlan:
    """Plan a search's memory.

    Args:   kept_now_bytes: of the process, free for new values.
    Raises: BudgetTooSmall: the least that the search needs is more than the budget.
    """
    metered, order = _metered(asked, context)
    sizes = _vector_bytes(metered)
    constants = _constants(metered, sizes, _encode_s_per_byte(context, asked.params))
    process = Wanted.always(rounded_bytes(-kept_now_bytes, PROCESS_STEP_BYTES))
    parts = _parts(asked, metered, process, constants)
    plan, keep = plan_kept(metered, KEPT_CIPHERTEXTS, parts, asked.memory_bytes, asked.option)
    blocks = plan.given("records") // block_bytes(asked.layout)
    group = max(1, min(asked.threads, blocks // 2))
    return SearchPlan(
        memory=plan,
        key_uses=tuple(metered.compiled.key_uses),
        key_bytes=plan.given("keys"),
        vector_bytes=None if asked.memory_bytes is None else plan.given("constants") - _most_at_once(metered, sizes),
        keep_bytes=keep,
        group=group,
        buffers=max(2, min(READ_AHEAD + 1, blocks // group)),
        payload_order=tuple(order),
        payloads_ahead=plan.given("payloads") // max(1, asked.payload_bytes) - 1 if order else 0,
    )


def _metered(asked: AskedSearch, context: _engine.CkksContext) -> tuple[Metered, list[tuple[int, int, int]]]:
    layout, order = asked.layout, list[tuple[int, int, int]]()

    def program(ev: CompilingEvaluator, engine: MeteredEngine) -> None:
        waiting: list[int | None] = [engine.given(1) for _ in range(layout.packed)]

        def packed(number: int) -> Cipher:
            value, waiting[number] = waiting[number], None
            return Cipher(ev.builder.ciphertext(1), ScaleState(1, 1), 2, value)

        def payload(variant: int, score: int, column: int) -> Cipher:
            order.append((variant, score, column))
            state = ScaleState(PAYLOAD_LIMBS, 1)
            return Cipher(ev.builder.ciphertext(PAYLOAD_LIMBS), state, 2, engine.given(PAYLOAD_LIMBS))

        search(ev, layout, packed, payload, count_only=asked.count_only)

    return meter(program, asked.params, context), order


def _parts(asked: AskedSearch, metered: Metered, process: Wanted, constants: Wanted) -> list[Part]:
    """All classes of data."""
    params, layout, both = asked.params, asked.layout, (PRODUCTS, COMPARISON)
    block, one = block_bytes(layout), params.polynomial_bytes(1)
    # A query ciphertext and its sum or difference with its image, while the last half of the coordinates is made.
    query = 2 * layout.dim * 2 * 8 * layout.small_dim
    # Three polynomials that are packed, and the switch of one of them over all primes.
    packing = 3 * one + 4 * params.polynomial_bytes(1 + params.num_p)
    scan_s = record_bytes(layout) / SCANNED_BYTES_PER_S
    groups = min(layout.blocks, asked.threads * (READ_AHEAD + 1))
    parts = {
        "process": (process, both),
        "keys": (_keys(asked, metered), both),
        "query": (Wanted.always(query), (PRODUCTS,)),
        "packing": (Wanted.always(2 * params.key_bytes(1) + packing), (PRODUCTS,)),
        "scores": (Wanted.always(2 * one * layout.packed), (PRODUCTS,)),
        "records": (
            Wanted(
                all_bytes=max(2, groups) * block,
                least_bytes=2 * block,
                saved_s=scan_s * (1 - 1 / asked.threads) + record_bytes(layout) / INPUT_BYTES_PER_S,
                step_bytes=block,
            ),
            (PRODUCTS,),
        ),
        VALUES: (Wanted.always(0), (COMPARISON,)),
        KEPT: (Wanted.always(0), (COMPARISON,)),
        "tables": (Wanted.always(metered.compiled.table_bytes), (COMPARISON,)),
        "constants": (constants, (COMPARISON,)),
    }
    if not asked.count_only:
        payloads = asked.payload_bytes
        parts["payloads"] = (
            Wanted(
                all_bytes=(1 + 2 * READ_AHEAD) * payloads,
                least_bytes=payloads,
                saved_s=payload_count(layout) * payloads / INPUT_BYTES_PER_S,
                step_bytes=max(1, payloads),
            ),
            (COMPARISON,),
        )
    return [Part(name=name, wanted=wanted, phases=phases) for name, (wanted, phases) in parts.items()]


def _keys(asked: AskedSearch, metered: Metered) -> Wanted:
    wanted = wanted_keys(metered.compiled, metered.key_sizes)
    limit = wanted.all_bytes if asked.key_budget_bytes is None else min(wanted.all_bytes, asked.key_budget_bytes)
    return replace(wanted, all_bytes=max(limit, 1), least_bytes=max(min(limit, wanted.least_bytes), 1))


def _vector_bytes(metered: Metered) -> list[tuple[int, int]]:
    """(bytes, uses) of each encoded constant."""
    compiled, sizes = metered.compiled, []
    for name, uses in compiled.encoded.items():
        size = compiled.encoded_bytes(name)
        if name[3]:
            # Coefficients: as many as the vector's period has slots, twice. The diagonals stay for the encoding.
            source = compiled.vectors[name[0]].source
            size = 16 * len(source() if callable(source) else source)
        sizes.append((size, uses))
    return sizes


def _most_at_once(metered: Metered, sizes: Sequence[tuple[int, int]]) -> int:
    """Bytes of the constants of one operation."""
    return min(metered.compiled.most_vector_bytes, sum(size for size, _ in sizes))


def _constants(metered: Metered, sizes: Sequence[tuple[int, int]], encode_s_per_byte: float) -> Wanted:
    least = _most_at_once(metered, sizes)
    again = sum((uses - 1) * size for size, uses in sizes)
    return Wanted(
        # Those of one use stay, too.
        all_bytes=least + sum(size for size, _ in sizes),
        least_bytes=least,
        saved_s=again * encode_s_per_byte,
    )


def _encode_s_per_byte(context: _engine.CkksContext, params: CkksParameters) -> float:
    """Seconds to encode a vector again, for each byte of its coefficients: measured on this machine."""
    values = np.full(params.slots, 0.5, dtype=np.complex128)
    begun = time.perf_counter()
    context.encode_coefficients(values, params.num_q, 1, params.slots)
    return (time.perf_counter() - begun) / values.nbytes
