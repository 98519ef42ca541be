"""A workload on the native evaluator at several key budgets, and the simulation of the same trace at each.

The simulator's inputs are measured separately from the runs that it is compared with: the time of computing, the
store's rate of reading keys on this disk while nothing computes, and the slow-down when both overlap. Hits, evictions
and overlap are its own (`penstock.runtime.native.play`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import TracebackType

import numpy as np
import numpy.typing as npt

from penstock.base.types import Row, Rows
from penstock.errors import PenstockError, UsageError
from penstock.program import workloads
from penstock.program.running.reading import resolve
from penstock.runtime.keystore import KeyCache, KeySession, KeyStore, StoredKey, parameter_digest
from penstock.runtime.native.cache import KeyUses
from penstock.runtime.native.play import PlayedReads, ReadRates, play_reads
from penstock.runtime.native.prepared import KeyPlace, NativeRun
from penstock.runtime.native.reading import prepared_native
from penstock.scheme.machines.schema import Machine
from penstock.scheme.operations import TO_SPARSE_KEY
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import Belady
from penstock.scheme.play.hierarchy import Pace, PlayedPoint, Prefetch, Rates, play_many, replay
from penstock.scheme.play.price import price_trace
from penstock.scheme.traces.schema import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReads:
    """Loading whole keys one after the other, while nothing computes: rows are read past the page cache or expanded
    from a seed, and checked."""

    key_s: tuple[float, ...]
    """Seconds of each."""
    key_bytes: tuple[int, ...]
    """Bytes of its rows in memory."""
    cpu_s: float
    """Processor time of all."""


def timed_reads(store: KeyStore, tenant: str, params: CkksParameters, keys: Sequence[str]) -> KeyReads:
    """Read every key once."""
    session, known = _session(store, tenant, params), _known(store, tenant, params)
    ends, used = [time.perf_counter()], time.process_time()
    for key in keys:
        session.get(key, known[key].limbs).release()
        ends.append(time.perf_counter())
    spent_s = time.process_time() - used
    sizes = tuple(known[key].bytes_needed[-1] for key in keys)
    return KeyReads(key_s=tuple(np.diff(ends).tolist()), key_bytes=sizes, cpu_s=spent_s)


def bytes_per_s(around: Sequence[KeyReads]) -> float:
    """The rate of the median key of those read before and after a run: a disk sometimes stalls for longer than many
    keys take."""
    return median(size / took for reads in around for size, took in zip(reads.key_bytes, reads.key_s, strict=True))


def cpu_s_per_byte(around: Sequence[KeyReads]) -> float:
    """Processor time of loading and checking."""
    return sum(reads.cpu_s for reads in around) / sum(sum(reads.key_bytes) for reads in around)


class ReaderBeside:
    """A context in which a thread reads keys, one after the other and without end, as the store reads ahead: whole keys
    past the page cache, every row checked."""

    def __init__(self, store: KeyStore, tenant: str, params: CkksParameters, keys: Sequence[str]) -> None:
        self._session, self._known, self._keys = _session(store, tenant, params), _known(store, tenant, params), keys
        self._thread = threading.Thread(target=self._run, name="penstock-beside")
        self._stop = threading.Event()
        self._error: PenstockError | None = None
        self._rates: list[float] = []

    @property
    def bytes_per_s(self) -> float:
        """The rate of the middle key so far.

        Raises: PenstockError: no key was read yet.
        """
        if not self._rates:
            raise PenstockError("no key was read while the program computed: take a longer program")
        return median(self._rates)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                for key in self._keys:
                    started, stored = time.perf_counter(), self._known[key]
                    self._session.get(key, stored.limbs).release()
                    self._rates.append(stored.bytes_needed[-1] / (time.perf_counter() - started))
                    if self._stop.is_set():
                        break
        except PenstockError as error:
            self._error = error

    def __enter__(self) -> ReaderBeside:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error


def _session(store: KeyStore, tenant: str, params: CkksParameters) -> KeySession:
    """Keys that are never found in memory, as long as more than two are asked for in turn."""
    cache = KeyCache(store, 2 * params.key_bytes(), policy="lru", prefetch_uses=0)
    return cache.session(tenant, parameter_digest(params))


def _known(store: KeyStore, tenant: str, params: CkksParameters) -> dict[str, StoredKey]:
    """The keys of the tenant's oldest pair, which a session without a tag reads."""
    known: dict[str, StoredKey] = {}
    for key in sorted(store.list_keys(tenant=tenant, digest=parameter_digest(params)), key=lambda key: key.name.pair):
        known.setdefault(key.name.key, key)
    return known


Floats = npt.NDArray[np.float64]

BUDGET_SHARES = (1.0, 0.5, 0.25, 0.1)
"""Of the bytes of all keys of the program."""


def study_budgets(
    name: str,
    size: str | None = None,
    *,
    threads: int,
    shares: Sequence[float] = BUDGET_SHARES,
    folder: Path,
    machine: Machine | None = None,
    on_run: Callable[[int, int], None] | None = None,
    on_trace: Callable[[Trace], None] | None = None,
) -> Rows:
    """Run a workload at each share of its key bytes; keys lie in `folder`, which is empty or a store of such keys.

    A row has a budget, measured and simulated. `machine`: the machine that priced the operations; `None`: their times
    come from separate runs. `budget_share`: of `key_bytes`, the bytes of all keys, whole. `error`: simulated over
    measured, less one. `belady_s`: simulated as `penstock simulate` does: Belady's rule, reads overlap as far as the
    budget has room. `measured_read_bytes`: bytes of rows that came into memory, read from storage or expanded from
    seeds. `read_bytes_per_s`: of the store on this disk: reading or expanding rows, and checking them, while nothing
    computes. `computing_share`: speed of computing next to a thread that reads without end, relative to its speed
    alone. `reading_share`: how fast that thread reads, of how fast it reads while nothing computes.
    `read_cpu_s_per_byte`: processor time of reading and checking, while nothing computes; the simulation does not ask
    for it.

    Args:   machine: prices the operations; the time between them is measured, and without a machine the whole time is.
            on_trace: gets the trace of the first run.
    Raises: as `run_native`; UsageError: a share so small that one key does not fit.
    """
    _, size_name, params = resolve(name, None, size)
    place = KeyPlace(store=folder)
    with prepared_native(name, params, size_name, threads=threads, keys=place) as run:
        measured = _measure(run, shares, KeyStore(folder), place.tenant, params, on_run, on_trace)
    first, last = measured.first, measured.last
    # Before and after: both contain the changes of the machine meanwhile.
    compute_s = (computing(first) + computing(last)) / 2
    beside = measured.beside(compute_s)
    if machine is not None:
        compute_s = priced(first.trace, machine, compute_s, (durations(first) + durations(last)) / 2)
    known: Row = {
        "workload": str(workloads.get(name).NAME),
        "params": params.name,
        "machine": None if machine is None else machine.name,
        "threads": threads,
    }
    uses, accesses = key_uses_of(first, params), key_accesses(first, params)

    def row(share: float, of_run: NativeRun, around: Sequence[KeyReads]) -> Row:
        assert of_run.budget_bytes is not None
        rates = replace(beside, bytes_per_s=bytes_per_s(around))
        played = play_reads(uses, compute_s, of_run.budget_bytes, rates)
        belady = play_budget(compute_s, accesses, of_run.budget_bytes, rates.bytes_per_s)
        return known | _row(share, of_run, played, belady, rates, cpu_s_per_byte(around))

    return [row(*of_budget) for of_budget in zip(shares, measured.runs, pairwise(measured.reads[1:-1]), strict=True)]


def _row(
    share: float, run: NativeRun, played: PlayedReads, belady: PlayedPoint, rates: ReadRates, cpu_s_per_byte: float
) -> Row:
    """A run under a budget beside its simulations."""
    traffic = run.traffic
    return {
        "budget_share": share,
        "budget_bytes": run.budget_bytes,
        "key_bytes": traffic.key_bytes,
        "measured_s": run.wall_s,
        "simulated_s": played.total_s,
        "error": played.total_s / run.wall_s - 1,
        "belady_s": belady.total_s,
        "measured_wait_s": traffic.wait_s,
        "simulated_wait_s": played.wait_s,
        "measured_read_bytes": traffic.read_bytes + traffic.expanded_bytes,
        "simulated_read_bytes": played.read_bytes,
        "belady_read_bytes": int(belady.io_bytes),
        "read_bytes_per_s": rates.bytes_per_s,
        "computing_share": rates.computing_share,
        "reading_share": rates.reading_share,
        "read_cpu_s_per_byte": cpu_s_per_byte,
        "peak_resident_bytes": traffic.peak_resident_bytes,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """The runs of one study, and the disk of these minutes."""

    first: NativeRun
    """With all keys in memory, as the last."""
    runs: list[NativeRun]
    """One a budget."""
    last: NativeRun
    besides: list[tuple[NativeRun, float]]
    """Runs with all keys in memory next to a thread that reads, and its rate."""
    reads: list[KeyReads]
    """Before the first run, and after each."""

    def beside(self, compute_s: Floats) -> ReadRates:
        """What computing and reading take from each other."""
        return ReadRates.of(
            alone_s=float(compute_s.sum()),
            beside_s=float(np.mean([computing(times).sum() for times, _ in self.besides])),
            alone_bytes_per_s=bytes_per_s([*self.reads[:2], *self.reads[-2:]]),
            beside_bytes_per_s=float(np.mean([rate for _, rate in self.besides])),
        )


def _measure(
    run: Callable[..., NativeRun],
    shares: Sequence[float],
    store: KeyStore,
    tenant: str,
    params: CkksParameters,
    on_run: Callable[[int, int], None] | None,
    on_trace: Callable[[Trace], None] | None,
) -> _Measured:
    """All runs of a study, in their order.

    Raises: UsageError: a share so small that one key does not fit.
    """
    done, total = 0, len(shares) + 4

    def report() -> None:
        nonlocal done
        done += 1
        if on_run is not None:
            on_run(done, total)

    first = run()
    report()
    if on_trace is not None:
        on_trace(first.trace)
    budgets = [int(share * first.traffic.key_bytes) for share in shares]
    for share, budget in zip(shares, budgets, strict=True):
        if budget < params.key_bytes():
            raise UsageError(f"{share:.0%} of the keys are {budget} bytes, less than one key: take a larger share")
    keys = first.trace.key_ids()

    def beside() -> tuple[NativeRun, float]:
        with ReaderBeside(store, tenant, params, keys) as reader:
            return run(), reader.bytes_per_s

    reads = [timed_reads(store, tenant, params, keys)]
    besides = [beside()]
    report()
    reads.append(timed_reads(store, tenant, params, keys))
    runs = []
    for budget in budgets:
        runs.append(run(budget_bytes=budget))
        reads.append(timed_reads(store, tenant, params, keys))
        report()
    besides.append(beside())
    report()
    reads.append(timed_reads(store, tenant, params, keys))
    last = run()
    report()
    return _Measured(first=first, runs=runs, last=last, besides=besides, reads=reads)


def computing(run: NativeRun) -> Floats:
    """(n,) seconds from the end of one operation to the end of the next, waits for keys taken out."""
    table = run.trace.operations
    ends = np.asarray(table["end_s"].to_pylist(), dtype=np.float64)
    waits = iter(run.key_waits_s)
    waited = np.array([next(waits) if key is not None else 0.0 for key in table["key"].to_pylist()])
    return np.maximum(np.diff(ends, prepend=0.0) - waited, 0.0)


def durations(run: NativeRun) -> Floats:
    """(n,) seconds of the operations themselves."""
    table = run.trace.operations
    starts, ends = (np.asarray(table[name].to_pylist(), dtype=np.float64) for name in ("start_s", "end_s"))
    return ends - starts


def priced(trace: Trace, machine: Machine, compute_s: Floats, duration_s: Floats) -> Floats:
    """(n,) as `compute_s`, with the server's operations priced by a machine instead of measured.

    The measured time between operations, and of encryptions and decryptions, stays.
    """
    cost = price_trace(trace, machine)
    rows = {op: row for row, op in enumerate(trace.operations["id"].to_pylist())}
    at = np.asarray([rows[op] for op in cost.op_ids.tolist()], dtype=np.int64)
    prices = compute_s.copy()
    prices[at] = np.maximum(compute_s[at] - duration_s[at], 0.0) + cost.compute_s
    return prices


def key_uses_of(run: NativeRun, params: CkksParameters) -> KeyUses:
    """The store's requests, and the operations before them."""
    table = run.trace.operations
    pairs = list(zip(table["key"].to_pylist(), table["limbs_in"].to_pylist(), strict=True))
    sizes = [0, *(params.key_bytes(limbs) for limbs in range(1, params.num_q + 1))]
    return KeyUses(
        operations=tuple(i for i, (key, _) in enumerate(pairs) if key is not None),
        uses=tuple((key, limbs) for key, limbs in pairs if key is not None),
        bytes_at=tuple(sizes),
        own_bytes={TO_SPARSE_KEY: params.key_bytes(1, key=TO_SPARSE_KEY)},
    )


def key_accesses(run: NativeRun, params: CkksParameters) -> Accesses:
    """What each operation reads of its key."""
    table, numbers = run.trace.operations, {key: i for i, key in enumerate(run.trace.key_ids())}
    pairs = zip(table["key"].to_pylist(), table["limbs_in"].to_pylist(), strict=True)
    return Accesses.of(
        [[] if key is None else [(numbers[key], params.key_bytes(limbs, key=key))] for key, limbs in pairs]
    )


def play_budget(compute_s: Floats, accesses: Accesses, budget_bytes: int, read_bytes_per_s: float) -> PlayedPoint:
    """The run in `penstock simulate`: Belady's rule decides which rows stay, and reads overlap as far as room allows.

    Rows read ahead count in the budget, next to the rows in use: their mean, since they differ from use to use.
    """
    in_use = int(np.mean(accesses.access_bytes)) if len(accesses) else 0
    ahead = Prefetch(None, max(budget_bytes - in_use, 1))
    pace = Pace(tier=Rates(bandwidth_bytes_per_s=read_bytes_per_s), mode="overlap", prefetch=ahead)
    return play_many(compute_s, replay(accesses, Belady(budget_bytes)), [pace])[0]
