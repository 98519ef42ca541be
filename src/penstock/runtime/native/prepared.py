"""A program's keys and its client, made for its runs on the native evaluator."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock import _engine
from penstock.base.system.host import available_cores
from penstock.base.system.temporary import temporary_folder
from penstock.base.types import Row
from penstock.errors import PenstockError
from penstock.program.running.reading import Run, report_to
from penstock.runtime.keystore import KeyStore
from penstock.runtime.keystore.pairs import pair_in
from penstock.runtime.native.client import Client, open_client
from penstock.runtime.native.client_process import ClientProcess
from penstock.runtime.native.engine import KEPT_CIPHERTEXTS, EngineHere, check_kernels, make_context
from penstock.runtime.native.evaluator import NativeEvaluator
from penstock.runtime.native.inputs import InputShelf, InputTraffic
from penstock.runtime.native.keys import KeysHeld, KeysInMemory, KeysOnDisk, KeyTraffic
from penstock.runtime.native.memory import MemoryWatch
from penstock.runtime.native.store import DEFAULT_TENANT, add_missing_keys, client_folder, kept_folder, keys_in_memory
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import Trace, TraceMeta

_KEPT_UNDER_BUDGET = 1
"""As `KEPT_CIPHERTEXTS`, for runs that save memory: not even their inputs stay."""
_WAKING_SHARE = 0.05
"""Of all operations: so many before the first decryption a client that rests is woken."""


_OF_KEYS = (
    "read_bytes", "requested_bytes", "hits", "late_hits", "misses", "evictions", "peak_resident_bytes", "read_s",
)  # fmt: skip
_LINK = ("link_sent_bytes", "link_received_bytes")


class ClientPlace(str, Enum):
    """The place of the client, with the secret key, in a run."""

    PROCESS = "process"
    """In a separate process, which ends while the evaluator computes."""
    INSIDE = "inside"
    """In the evaluating process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeRun(Run):
    """One run on the native evaluator."""

    transfer_s: float = 0.0
    """Seconds spent on ciphertexts in bytes at both ends, and on inputs that are read again."""
    traffic: KeyTraffic = field(default_factory=lambda: KeyTraffic(key_bytes=0))
    inputs: InputTraffic = field(default_factory=InputTraffic)
    key_waits_s: tuple[float, ...] = ()
    """Seconds that each operation with a key waited for it."""
    budget_bytes: int | None = None
    """Keys in memory at most; `None`: all of them, whole."""
    kernels: str = ""
    """The path that the processor takes: `avx512`, `avx2` or `portable`."""
    made_keys: int = 0
    """Keys that were generated; the others lay in the store."""
    client_library: str = ""
    """The library that made keys, encrypted and decrypted."""
    plan_why: str = ""
    """The plan of the refreshes, and why it was taken; empty if only one was possible."""
    memory_why: str = ""
    """The predicted peak of this process and its parts, where the program ran as a whole."""
    predicted_peak_bytes: int | None = None
    peak_bytes: int | None = None
    """Of this process while the program ran as a whole."""
    lanes: int = 1
    """Operations that ran side by side at most."""
    lanes_why: str = ""
    client_peak_rss_bytes: int | None = None
    """Most memory of the client's process; `None`: it is in the evaluating one."""
    standing_rss_bytes: int | None = None
    """The most that both processes had at one time, from the making of keys to the end of this run."""
    link_bytes: tuple[int, int] | None = None
    """Sent to the node that has the keys, and received from it; `None`: the keys are here."""

    def own_numbers(self) -> Row:
        traffic = self.traffic
        link = {} if self.link_bytes is None else dict(zip(_LINK, self.link_bytes, strict=True))
        return {
            "kernels": self.kernels,
            "client_library": self.client_library,
            "transfer_s": self.transfer_s,
            "key_budget_bytes": self.budget_bytes,
            "key_bytes": traffic.key_bytes,
            **{f"key_{name}": getattr(traffic, name) for name in _OF_KEYS},
            "num_keys_made": self.made_keys,
            "refresh_plan": self.plan_why,
            "memory_plan": self.memory_why,
            "predicted_peak_bytes": self.predicted_peak_bytes,
            "evaluator_peak_bytes": self.peak_bytes,
            "operations_abreast": self.lanes,
            "abreast_why": self.lanes_why,
            "input_bytes": self.inputs.input_bytes,
            "input_read_bytes": self.inputs.read_bytes,
            "input_peak_resident_bytes": self.inputs.peak_resident_bytes,
            "client_peak_rss_bytes": self.client_peak_rss_bytes,
            "standing_rss_bytes": self.standing_rss_bytes,
            **link,
        }


class AtNode(EngineHere):
    """An engine whose operations with keys run at a node."""

    def __init__(self, params: CkksParameters, context: _engine.CkksContext) -> None:
        super().__init__(params, context, None)
        self.waits_s: list[float] = []
        """Empty: no key is waited for."""

    def traffic(self) -> KeyTraffic:
        """No key comes here."""
        return KeyTraffic(key_bytes=0)

    @abstractmethod
    def link_bytes(self) -> tuple[int, int]:
        """Sent to the node, and received."""

    @abstractmethod
    def close(self) -> None:
        """Hang up."""


NodeOf = Callable[[CkksParameters, _engine.CkksContext, str, str], AtNode]
"""Of a set, its context, a tenant and the tag of its key pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPlace:
    """The place of evaluation keys and encrypted inputs during a run."""

    budget_bytes: int | None = None
    """Bytes of rows in memory; `None`: all keys whole, none on disk (without a store)."""
    store: Path | None = None
    """A key store to use and to keep; without it keys on disk lie in a folder for temporary files."""
    tenant: str = DEFAULT_TENANT
    input_budget_bytes: int | None = None
    """Bytes of encrypted inputs in memory besides the used ones; the others lie in files. `None`: all in memory."""
    memory_bytes: int | None = None
    """Of the evaluating process, for keys, constants, inputs and values together: of a package, which runs whole."""
    node: NodeOf | None = None
    """Connects to a node that has the evaluation keys; the key pair lies next to `store`, which is not opened."""

    @property
    def inputs_on_disk(self) -> bool:
        """Whether inputs may wait in files."""
        return self.memory_bytes is not None or self.input_budget_bytes is not None

    @property
    def on_disk(self) -> bool:
        return any(choice is not None for choice in (self.store, self.budget_bytes, self.memory_bytes))


def key_uses(trace: Trace) -> list[tuple[str, int]]:
    """(key, limbs) of each key switch of a program, in order, those inside composites too."""
    view = trace.view().operations
    pairs = zip(view["key"].to_pylist(), view["limbs_in"].to_pylist(), strict=True)
    return [(key, limbs) for key, limbs in pairs if key is not None]


class Prepared:
    """A program's keys, and the holder of the secret key, for as long as `stack` is open."""

    def __init__(
        self,
        params: CkksParameters,
        expected: Trace,
        place: KeyPlace,
        client: tuple[ClientPlace, str | None],
        threads: int | None,
        stack: ExitStack,
        plan_why: str = "",
    ) -> None:
        self.params, self.expected, self.place, self._stack = params, expected, place, stack
        self.plan_why = plan_why
        self.threads = threads or available_cores()
        check_kernels()  # ahead of the client, which takes its own from the same variable
        started = time.perf_counter()
        store, kept = None, None
        if place.node is not None and place.store is not None:
            kept = client_folder(place.store, place.tenant, params)
            if pair_in(kept) is None:
                raise PenstockError(
                    f"there is no key pair of tenant '{place.tenant}' in {kept}: make it and its keys with 'penstock "
                    f"run … --keys {place.store}', or name another store with PENSTOCK_KEYS"
                )
        elif place.store is not None:
            client_folder(place.store, place.tenant, params)  # a wrong name is refused before a store is made
            store = KeyStore(place.store)
            kept = kept_folder(params, store, place.tenant)
        elif place.on_disk:
            store = KeyStore(self.temporary("keys"))
        self.store = store
        self.client = _open_client(params, kept, client, threads, self.temporary)
        stack.callback(self.client.release)
        self.beside = self.client if isinstance(self.client, ClientProcess) else None
        """The client, if it is a separate process."""
        self.watch = None
        if self.beside is not None:
            process = self.beside
            self.watch = stack.enter_context(MemoryWatch(lambda: process.pid))
        self.setup_s = dict(self.client.setup_s)
        self._make_keys(threads)
        if self.beside is not None:
            # Frees the memory of key generation, so that it does not count in the run.
            self.beside.rest()
            self.beside.ready()
        self.setup_s["keys_s"] = time.perf_counter() - started - self.setup_s["context_s"]

    @property
    def saving(self) -> bool:
        """Whether the runs save memory."""
        return self.place.input_budget_bytes is not None

    def run(
        self,
        program: Callable[[NativeEvaluator], object],
        meta: TraceMeta,
        budget_bytes: int | None = None,
        on_operation: Callable[[int, int], None] | None = None,
    ) -> NativeRun:
        """One run of the program."""
        shelf, beside = None, self.beside
        if self.place.input_budget_bytes is not None:
            folder = self.temporary("inputs")
            shelf = InputShelf(folder, self.place.input_budget_bytes, self.context.import_ciphertext)
        keys: KeysInMemory | KeysHeld | KeysOnDisk | AtNode
        engine: EngineHere
        at_node: AtNode | None = None
        if self.place.node is None:
            keys = self.source(budget_bytes)
            engine = EngineHere(self.params, self.context, keys, inputs=shelf)
        else:
            keys = engine = at_node = self.place.node(self.params, self.context, self.place.tenant, self.client.key_tag)
            self._stack.callback(engine.close)
        ev = NativeEvaluator(engine, self.client)
        report = None if on_operation is None else report_to(on_operation, len(self.expected.view()))
        course = _Course(self.expected, keys, self.context, beside, saving=self.saving)

        def on_add(op_id: int) -> None:
            course.after(op_id)
            if report is not None:
                report(op_id)

        ev.builder.on_add = on_add
        begun = time.perf_counter()
        result = program(ev)
        wall_s = time.perf_counter() - begun
        keys.close()
        if beside is not None:
            beside.rest()
        return self.result(
            result=result,
            trace=ev.builder.finish(meta),
            wall_s=wall_s,
            setup_s=self.setup_s,
            encode_s=engine.encode_s,
            transfer_s=engine.transfer_s,
            inputs=shelf.traffic if shelf is not None else InputTraffic(),
            link_bytes=None if at_node is None else at_node.link_bytes(),
            keys=keys,
            budget_bytes=budget_bytes,
        )

    def result(
        self, *, keys: KeysInMemory | KeysHeld | KeysOnDisk | AtNode, budget_bytes: int | None, **measured: Any
    ) -> NativeRun:
        """A run with what its keys and its client did."""
        traffic, beside = keys.traffic(), self.beside
        return NativeRun(
            key_load_s=sum(keys.waits_s),
            num_key_loads=traffic.misses,
            traffic=traffic,
            key_waits_s=tuple(keys.waits_s),
            budget_bytes=budget_bytes if budget_bytes is not None else self.place.budget_bytes,
            kernels=self.context.path,
            made_keys=self.made_keys,
            client_library=self.client.library,
            plan_why=self.plan_why,
            client_peak_rss_bytes=None if beside is None else beside.peak_rss_bytes,
            standing_rss_bytes=None if self.watch is None else self.watch.standing_bytes,
            **measured,
        )

    def _make_keys(self, threads: int | None) -> None:
        """Make the missing keys, and the context, which takes memory too, after or before them."""
        needed = self.expected.view().key_limbs()
        self.memory: KeysInMemory | KeysHeld | None = None
        self.made_keys = 0 if self.place.node is not None else len(needed)
        if self.store is not None:
            self.made_keys = add_missing_keys(self.client, self.store, self.place.tenant, needed)
        kept = _KEPT_UNDER_BUDGET if self.saving else KEPT_CIPHERTEXTS + _kept_by_refreshes(self.expected)
        self.context = make_context(self.params, threads or available_cores(), kept_ciphertexts=kept)
        if self.store is None and self.place.node is None:
            folder = self.temporary("making")
            self.memory = keys_in_memory(self.client, self.context, self.place.tenant, needed, folder)

    def source(self, budget_bytes: int | None) -> KeysInMemory | KeysHeld | KeysOnDisk:
        """The keys of one run."""
        if self.memory is not None:
            self.memory.begin()
            return self.memory
        assert self.store is not None
        uses, place = key_uses(self.expected), self.place
        whole = max(1, sum(self.params.key_bytes(key=key) for key in {key for key, _ in uses}))
        budget = next(stated for stated in (budget_bytes, place.budget_bytes, whole) if stated is not None)
        stored = KeysOnDisk(
            self.params, self.store, place.tenant, budget, uses, ahead=False, secret_tag=self.client.key_tag
        )
        if self.beside is None:
            stored.reserve()
            stored.begin()
        return stored

    def temporary(self, what: str) -> Path:
        """A folder of this process's user alone, until the end."""
        return self._stack.enter_context(temporary_folder(f"penstock-{what}-"))


class _Course:
    """The events of a run other than its operations, from the known trace.

    After the last encryption the client's process ends, and keys are read ahead; after the last use of a key keys are
    let go of. The process starts again shortly before the next decryption, or at the decryption if memory is to be
    saved.
    """

    def __init__(
        self,
        expected: Trace,
        keys: KeysInMemory | KeysHeld | KeysOnDisk | AtNode,
        engine: _engine.CkksContext,
        client: ClientProcess | None,
        *,
        saving: bool,
    ) -> None:
        table = expected.view().operations
        kinds, used = table["kind"].to_pylist(), table["key"].to_pylist()
        encrypted = max((i for i, kind in enumerate(kinds) if kind == OpKind.ENCRYPT), default=-1)
        decrypted = [i for i, kind in enumerate(kinds) if kind == OpKind.DECRYPT and i > encrypted]
        self._events: dict[int, list[Callable[[], object]]] = {}
        if client is not None:
            self._events.setdefault(encrypted, []).append(client.rest)
            if isinstance(keys, KeysOnDisk):
                self._events[encrypted].append(keys.begin)
            if decrypted and not saving:
                ahead = round(_WAKING_SHARE * len(kinds))
                self._events.setdefault(max(encrypted + 1, decrypted[0] - ahead), []).append(client.wake)
        if saving:
            last = max((i for i, key in enumerate(used) if key is not None), default=-1)
            self._events.setdefault(last, []).extend([keys.close, engine.release_memory])

    def after(self, op_id: int) -> None:
        """An operation was recorded."""
        for event in self._events.get(op_id, ()):
            event()


def _kept_by_refreshes(expected: Trace) -> int:
    """Ciphertexts by which more memory of dropped results is kept where a program bootstraps.

    New memory takes longer than a step of a refresh on it. A refresh drops up to 16 ciphertexts at a time, and more
    with more baby steps. Each further one at its side drops its rotations and their sum.
    """
    table = expected.view(composites=True).operations
    calls = table.filter(pc.equal(pc.cast(table["kind"], pa.string()), OpKind.BOOTSTRAP.value))
    most = max(Counter(calls["scope"].to_pylist()).values(), default=0)
    plan = expected.parameters().bootstrap
    rotated = max(4, 0 if plan is None else plan.baby_steps)
    return 12 + rotated + (rotated + 1) * (most - 1) if most else 0


def _open_client(
    params: CkksParameters,
    kept: Path | None,
    client: tuple[ClientPlace, str | None],
    threads: int | None,
    temporary: Callable[[str], Path],
) -> Client:
    """The holder of the secret key, which lies in the folder `kept`, or nowhere longer than this run."""
    where, library = client
    if where is ClientPlace.INSIDE:
        return open_client(params, kept, library=library, threads=threads)
    if kept is not None:
        return ClientProcess(params, kept, library=library, threads=threads)
    # Below the temporary folder: unfinished files of a killed process go with it.
    fleeting = temporary("client")
    return ClientProcess(params, fleeting / "keys", library=library, threads=threads, fleeting=fleeting)
