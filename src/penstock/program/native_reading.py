"""Reads a workload natively: keys in memory, or on disk under a byte budget."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.keystore import KeyStore
from penstock.params.ckks import CkksParameters
from penstock.program.native import NativeEvaluator, make_engine
from penstock.program.native_keys import KeysInMemory, KeysOnDisk, KeySource, KeyTraffic, make_keys
from penstock.program.native_store import DEFAULT_TENANT, add_missing_keys, open_client
from penstock.program.openfhe import OpenFheContext, load_openfhe, set_threads
from penstock.program.reading import Run, describe, report_to, resolve, trace_workload
from penstock.trace.schema import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeRun(Run):
    """One run on the native evaluator."""

    transfer_s: float = 0.0
    """Seconds spent on OpenFHE's bytes at both ends."""
    traffic: KeyTraffic = field(default_factory=lambda: KeyTraffic(key_bytes=0))
    key_waits_s: tuple[float, ...] = ()
    """Seconds that each operation with a key waited for it."""
    budget_bytes: int | None = None
    """Keys in memory at most; `None`: all of them, whole."""
    kernels: str = ""
    """The path that the processor takes: `avx512`, `avx2` or `portable`."""
    made_keys: int = 0
    """Keys that were generated; the others lay in the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPlace:
    """Where evaluation keys are while a program runs."""

    budget_bytes: int | None = None
    """Bytes of rows in memory; `None`: all keys whole, none on disk (without a store)."""
    store: Path | None = None
    """A key store to use and to keep; without it keys on disk lie in a folder for temporary files."""
    tenant: str = DEFAULT_TENANT

    @property
    def on_disk(self) -> bool:
        return self.store is not None or self.budget_bytes is not None


def key_uses(trace: Trace) -> list[tuple[str, int]]:
    """(key, limbs) of each key switch of a program, in order, those inside composites too."""
    view = trace.view().operations
    pairs = zip(view["key"].to_pylist(), view["limbs_in"].to_pylist(), strict=True)
    return [(key, limbs) for key, limbs in pairs if key is not None]


def record_native(
    name: str,
    params: str | CkksParameters | None = None,
    size: str | None = None,
    seed: int = 0,
    data: Any = None,
    *,
    threads: int | None = None,
    keys: KeyPlace | None = None,
    on_operation: Callable[[int, int], None] | None = None,
) -> NativeRun:
    """Run a workload on the native evaluator and record it. `on_operation(done, total)` reports progress.

    Raises: CapabilityMissing: OpenFHE cannot be imported; ParamsError: the program does not
            fit the parameters; BudgetTooSmall: the budget does not hold the one key in use.
    """
    with prepared_native(name, params, size, seed, data, threads=threads, keys=keys) as run:
        return run(on_operation=on_operation)


@contextmanager
def prepared_native(
    name: str,
    params: str | CkksParameters | None = None,
    size: str | None = None,
    seed: int = 0,
    data: Any = None,
    *,
    threads: int | None = None,
    keys: KeyPlace | None = None,
) -> Iterator[Callable[..., NativeRun]]:
    """A workload with its keys made: `run(budget_bytes=…, on_operation=None)` runs it, again and again.

    `budget_bytes` is that of `keys` where it is left out; keys in memory have none.
    """
    workload, size_name, checked = resolve(name, params, size)
    chosen, place = workload.SIZES[size_name], keys or KeyPlace()
    load_openfhe()
    expected = trace_workload(name, checked, size_name, seed, data)
    uses = key_uses(expected)
    needed = expected.view().key_ids()
    if threads is not None:
        set_threads(threads)
    engine = make_engine(checked, threads or len(os.sched_getaffinity(0)))
    data = workload.data(chosen, checked.slots, seed) if data is None else data

    with ExitStack() as stack:
        folder = place.store
        if folder is None and place.on_disk:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-keys-")))
        started = time.perf_counter()
        client = _client(checked, place)
        stack.callback(client.release)
        setup = dict(client.setup_s)
        made, memory, store = len(needed), None, None
        if folder is None:
            memory = KeysInMemory(checked, engine)
            make_keys(client, needed, memory.put)
        else:
            store = KeyStore(folder)
            made = add_missing_keys(client, store, place.tenant, needed)
        setup["keys_s"] = time.perf_counter() - started - setup["context_s"]

        def source(budget_bytes: int | None) -> KeySource:
            if memory is not None:
                return memory
            assert store is not None
            whole = max(1, len(needed)) * checked.key_bytes()
            budget = next(each for each in (budget_bytes, place.budget_bytes, whole) if each is not None)
            return KeysOnDisk(checked, store, place.tenant, budget, uses)

        def run(budget_bytes: int | None = None, on_operation: Callable[[int, int], None] | None = None) -> NativeRun:
            of_run = source(budget_bytes)
            ev = NativeEvaluator(client, engine, of_run)
            if on_operation is not None:
                ev.builder.on_add = report_to(on_operation, len(expected.view()))
            begun = time.perf_counter()
            result = workload.program(ev, data, chosen)
            wall_s = time.perf_counter() - begun
            of_run.close()
            return NativeRun(
                result=result,
                trace=ev.builder.finish(describe(name, checked, "native", size_name, seed)),
                wall_s=wall_s,
                setup_s=setup,
                encode_s=ev.encode_s,
                key_load_s=sum(of_run.waits_s),
                num_key_loads=of_run.traffic().misses,
                transfer_s=ev.transfer_s,
                traffic=of_run.traffic(),
                key_waits_s=tuple(of_run.waits_s),
                budget_bytes=budget_bytes if budget_bytes is not None else place.budget_bytes,
                kernels=engine.path,
                made_keys=made,
            )

        yield run


def _client(params: CkksParameters, place: KeyPlace) -> OpenFheContext:
    if place.store is None:
        return OpenFheContext.create(params, relinearize=False)
    return open_client(params, place.store, place.tenant)
