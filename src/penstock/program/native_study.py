"""A workload on the native evaluator at several key budgets, each beside the simulation of the same trace.

The simulator is told what the evaluator computes in (a run of its own, waits for keys taken out) and how fast the store
reads keys on this disk while nothing computes; hits, evictions and overlap are its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import UsageError
from penstock.keystore import KeyCache, KeyStore, parameter_digest
from penstock.keystore.cache import DEFAULT_PREFETCH_USES
from penstock.params.ckks import CkksParameters
from penstock.program.native_reading import KeyPlace, NativeRun, prepared_native
from penstock.program.reading import resolve
from penstock.simulate.hierarchy import Accesses, Belady, Rates, Timeline, play

BUDGET_SHARES = (1.0, 0.5, 0.25, 0.1)
"""Of the bytes of all keys of the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRow:
    """One budget, measured and simulated."""

    workload: str
    params: str
    budget_share: float
    budget_bytes: int
    key_bytes: int
    """Of all keys, whole."""
    measured_s: float
    simulated_s: float
    error: float
    """Simulated over measured, less one."""
    measured_wait_s: float
    simulated_wait_s: float
    measured_read_bytes: int
    simulated_read_bytes: int
    read_bytes_per_s: float
    """Of the store on this disk: reading and checking, while nothing computes."""
    peak_resident_bytes: int


def study_budgets(
    name: str,
    size: str | None = None,
    *,
    threads: int,
    shares: Sequence[float] = BUDGET_SHARES,
    folder: Path,
    on_run: Callable[[int, int], None] | None = None,
) -> list[BudgetRow]:
    """Run a workload at each share of its key bytes; keys lie in `folder`, which is empty or a store of such keys.

    Raises: as `record_native`; UsageError: a share so small that one key does not fit.
    """
    _, size_name, params = resolve(name, None, size)
    place = KeyPlace(store=folder)
    with prepared_native(name, params, size_name, threads=threads, keys=place) as run:
        first: NativeRun = run()
        whole = first.traffic.key_bytes
        budgets = [int(share * whole) for share in shares]
        for share, budget in zip(shares, budgets, strict=True):
            if budget < params.key_bytes():
                raise UsageError(f"{share:.0%} of the keys are {budget} bytes, less than one key: take a larger share")
        compute_s, accesses = computing(first), key_accesses(first, params)
        rows = []
        for done, (share, budget) in enumerate(zip(shares, budgets, strict=True)):
            # The disk of this minute.
            rate = reading_rate(KeyStore(folder), place.tenant, params, first.trace.key_ids())
            measured: NativeRun = run(budget_bytes=budget)
            simulated = play_budget(compute_s, accesses, budget, rate)
            traffic = measured.traffic
            rows.append(
                BudgetRow(
                    workload=name,
                    params=params.name,
                    budget_share=share,
                    budget_bytes=budget,
                    key_bytes=whole,
                    measured_s=measured.wall_s,
                    simulated_s=simulated.total_s,
                    error=simulated.total_s / measured.wall_s - 1,
                    measured_wait_s=traffic.wait_s,
                    simulated_wait_s=simulated.stall_s,
                    measured_read_bytes=traffic.read_bytes,
                    simulated_read_bytes=int(simulated.io_bytes),
                    read_bytes_per_s=rate,
                    peak_resident_bytes=traffic.peak_resident_bytes,
                )
            )
            if on_run is not None:
                on_run(done + 1, len(shares))
    return rows


def computing(run: NativeRun) -> npt.NDArray[np.float64]:
    """(n,) seconds from the end of one operation to the end of the next, waits for keys taken out."""
    table = run.trace.operations
    ends = np.asarray(table["end_s"].to_pylist(), dtype=np.float64)
    waits = iter(run.key_waits_s)
    waited = np.array([next(waits) if key is not None else 0.0 for key in table["key"].to_pylist()])
    return np.maximum(np.diff(ends, prepend=0.0) - waited, 0.0)


def key_accesses(run: NativeRun, params: CkksParameters) -> Accesses:
    """What each operation reads of its key."""
    table, numbers = run.trace.operations, {key: i for i, key in enumerate(run.trace.key_ids())}
    pairs = zip(table["key"].to_pylist(), table["limbs_in"].to_pylist(), strict=True)
    return Accesses.of([[] if key is None else [(numbers[key], params.key_bytes(limbs))] for key, limbs in pairs])


def play_budget(
    compute_s: npt.NDArray[np.float64], accesses: Accesses, budget_bytes: int, read_bytes_per_s: float
) -> Timeline:
    """The simulated run: the known future decides what stays, reads run ahead as far as the store's do.

    What is read ahead lies in the budget, beside the rows in use: their mean, since they differ from use to use.
    """
    depth = _operations_ahead(accesses)
    in_use = int(np.mean(accesses.access_bytes)) if len(accesses) else 0
    return play(
        compute_s, accesses, Belady(budget_bytes), Rates(bandwidth_bytes_per_s=read_bytes_per_s), mode="overlap",
        prefetch_depth=depth, prefetch_buffer_bytes=max(budget_bytes - in_use, 1),
    )  # fmt: skip


def _operations_ahead(accesses: Accesses) -> int:
    """The store reads some uses ahead, the simulator some operations: the same distance on the average."""
    per_use = accesses.num_operations / max(1, len(accesses))
    return max(1, round(DEFAULT_PREFETCH_USES * per_use))


def reading_rate(store: KeyStore, tenant: str, params: CkksParameters, keys: Sequence[str]) -> float:
    """Bytes/s of reading and checking whole keys past the page cache, while nothing computes."""
    cache = KeyCache(store, 2 * params.key_bytes(), policy="lru", prefetch_uses=0)
    session = cache.session(tenant, parameter_digest(params))
    started = time.perf_counter()
    for key in keys:
        session.get(key, params.num_q).release()
    return len(keys) * params.key_bytes() / (time.perf_counter() - started)


def as_rows(rows: Sequence[BudgetRow]) -> list[dict[str, Any]]:
    return [asdict(row) for row in rows]
