"""What computes on a database during a query: the native evaluator, or OpenFHE.

A scanner takes entries in two steps. `read` runs in the thread that reads, and does the work on bytes; `adopt` makes an
operand of the result, in the computation's order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._engine import CkksCiphertext, CkksContext
from penstock.base.system.temporary import temporary_folder
from penstock.errors import PenstockError, UsageError
from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.protocol import Ciphertext, Values
from penstock.program.evaluator.scaling import ScaleState
from penstock.runtime.keystore import KeyStore
from penstock.runtime.native.client import chosen_library
from penstock.runtime.native.client_process import ClientProcess
from penstock.runtime.native.engine import EngineHere, make_context
from penstock.runtime.native.evaluator import NativeEvaluator
from penstock.runtime.native.keys import KeysHeld, KeysInMemory, KeysOnDisk, KeyTraffic
from penstock.runtime.native.sharing import MemoryPlan
from penstock.runtime.native.store import DEFAULT_TENANT, add_missing_keys, keys_in_memory
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import Trace

if TYPE_CHECKING:
    from penstock.program.openfhe.evaluator import OpenFheEvaluator


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """The bytes of each class of data in a query under a byte budget (`penstock.runtime.scanning.memory`)."""

    memory: MemoryPlan
    key_bytes: int
    """Rows of keys in memory."""
    key_uses: tuple[tuple[str, int], ...]
    """(key, limbs) of each key switch, in order."""
    keep_bytes: int
    """Memory of dropped ciphertexts that is kept for new ones."""
    prefetch: int
    """Entries that lie ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanner:
    """An evaluator with its keys made, and its way to ciphertexts of a database."""

    ev: NativeEvaluator | OpenFheEvaluator
    read: Callable[[bytes], Ciphertext]
    """The evaluator's ciphertext in an entry's bytes. Raises: PenstockError: there is none."""
    adopt: Callable[[Ciphertext, str], Cipher]
    """An operand of what `read` gave; the trace shows an object of this name without an encryption.

    Raises: PenstockError: it belongs to another parameter set.
    """
    fresh: Callable[[Values], bytes]
    """An entry of the database with these values, as its client makes it."""
    write: Callable[[Cipher], bytes]
    """The bytes of a ciphertext, of which `read` makes it again."""
    encode_s: Callable[[], float]
    """Seconds spent on encoding so far."""
    setup_s: float
    plan: ScanPlan | None = None
    """Of the memory, where a budget was stated."""
    traffic: Callable[[], KeyTraffic | None] = lambda: None
    """Of keys under that budget, so far."""


@contextmanager
def native_scanner(
    params: CkksParameters,
    trace: Trace,
    folder: Path | None,
    threads: int,
    library: str | None,
    *,
    planner: Callable[[CkksContext], ScanPlan] | None = None,
) -> Iterator[Scanner]:
    """The native evaluator; the client has a separate process.

    Args:   trace: uses each key as high as the scan does. folder: holds the key pair; `None`: a new one for this scan.
            planner: shares a byte budget; keys then lie on disk, and in memory as far as it gives them room.
    """
    began = time.perf_counter()
    with ExitStack() as stack:
        context = make_context(params, threads)
        plan = None if planner is None else planner(context)
        place = stack.enter_context(temporary_folder("penstock-scan-"))
        fleeting = place if folder is None else None
        client = ClientProcess(params, folder or place / "pair", library=library, threads=threads, fleeting=fleeting)
        stack.callback(client.release)
        keys: KeysInMemory | KeysHeld | KeysOnDisk
        if plan is None or not plan.key_uses:
            keys = keys_in_memory(client, context, DEFAULT_TENANT, trace.view().key_limbs(), place)
        else:
            keys = _keys_on_disk(client, plan, trace.view().key_limbs(), place)
            stack.callback(keys.close)
        if plan is not None:
            context.set_keep_bytes(plan.keep_bytes)
        engine = EngineHere(params, context, keys)
        ev = NativeEvaluator(engine, client)

        def read(content: bytes) -> CkksCiphertext:
            try:
                return context.import_ciphertext(content)
            except ValueError as error:
                raise PenstockError(f"{len(content)} bytes are not a ciphertext of this set: {error}") from error

        def adopt(ciphertext: CkksCiphertext, name: str) -> Cipher:
            if ciphertext.slots != params.slots:
                raise _other_set(name, params)
            state = ScaleState(ciphertext.limbs, ciphertext.degree)
            return Cipher(ev.builder.ciphertext(ciphertext.limbs, name=name), state, value=ciphertext)

        setup_s = time.perf_counter() - began
        yield Scanner(
            ev=ev,
            read=read,
            adopt=adopt,
            fresh=lambda values: client.encrypt(values).content,
            write=engine.give,
            encode_s=lambda: engine.encode_s,
            setup_s=setup_s,
            plan=plan,
            traffic=lambda: None if plan is None else keys.traffic(),
        )


def _keys_on_disk(client: ClientProcess, plan: ScanPlan, limbs: Mapping[str, int], place: Path) -> KeysOnDisk:
    """Keys made into a store of this scan, read ahead along its uses of them."""
    store = KeyStore(place / "keys")
    add_missing_keys(client, store, DEFAULT_TENANT, limbs)
    tag = client.key_tag
    return KeysOnDisk(client.params, store, DEFAULT_TENANT, plan.key_bytes, plan.key_uses, secret_tag=tag)


@contextmanager
def openfhe_scanner(
    params: CkksParameters, trace: Trace, folder: Path | None, threads: int, library: str | None
) -> Iterator[Scanner]:
    """OpenFHE in this process. Arguments as `native_scanner`; it has no other client library."""
    from penstock.program.openfhe.evaluator import OpenFheContext, OpenFheEvaluator, needed_keys, set_threads
    from penstock.program.openfhe.key_pair import client_keys
    from penstock.program.openfhe.stored import adopt, ciphertext_bytes, ciphertext_reader
    from penstock.program.openfhe.turn import TURN

    if chosen_library(library or "openfhe", folder).name != "openfhe":
        raise UsageError(f"the openfhe reading has its own client: leave the client library '{library}' out")
    with TURN.taken():
        set_threads(threads)
        context = OpenFheContext.create(
            params,
            **needed_keys(trace),
            client_keys=None if folder is None else partial(client_keys, folder, params),
        )
    try:
        ev = OpenFheEvaluator(context)
        yield Scanner(
            ev=ev,
            read=ciphertext_reader(ev),
            adopt=partial(adopt, ev),
            fresh=lambda values: ciphertext_bytes(ev.encrypt(values)),
            write=ciphertext_bytes,
            encode_s=lambda: ev.encode_s,
            setup_s=sum(context.setup_s.values()),
        )
    finally:
        context.release()


SCANNERS: dict[str, Callable[..., AbstractContextManager[Scanner]]] = {
    "native": native_scanner,
    "openfhe": openfhe_scanner,
}
"""Reading -> what opens its scanner."""


def _other_set(name: str, params: CkksParameters) -> PenstockError:
    return PenstockError(f"{name}: a ciphertext of another parameter set than '{params.name}'")
