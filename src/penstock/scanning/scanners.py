"""What computes on a database during a query: the native evaluator, or OpenFHE.

A scanner takes entries in two steps. `read` runs in the thread that reads, and does the work on bytes; `adopt` makes an
operand of the result, in the computation's order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError, UsageError
from penstock.native.client import chosen_library
from penstock.native.client_process import ClientProcess
from penstock.native.engine import EngineHere, make_context
from penstock.native.evaluator import NativeEvaluator
from penstock.native.prepared import highest_limbs
from penstock.native.store import DEFAULT_TENANT, keys_in_memory
from penstock.params.ckks import CkksParameters
from penstock.program.call import Cipher
from penstock.program.evaluator import Values
from penstock.program.scaling import ScaleState
from penstock.system.temporary import temporary_folder
from penstock.traces.schema import Trace

if TYPE_CHECKING:
    from penstock.openfhe.evaluator import OpenFheEvaluator


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanner:
    """An evaluator with its keys made, and its way to ciphertexts of a database."""

    ev: NativeEvaluator | OpenFheEvaluator
    read: Callable[[bytes], Any]
    """The evaluator's ciphertext in an entry's bytes. Raises: PenstockError: there is none."""
    adopt: Callable[[Any, str], Cipher]
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


@contextmanager
def native_scanner(
    params: CkksParameters, trace: Trace, folder: Path | None, threads: int, library: str | None
) -> Iterator[Scanner]:
    """The native evaluator; the client has a separate process.

    Args:   trace: uses each key as high as the scan does. folder: holds the key pair; `None`: a new one for this scan.
    """
    began = time.perf_counter()
    with ExitStack() as stack:
        context = make_context(params, threads)
        place = stack.enter_context(temporary_folder("penstock-scan-"))
        fleeting = place if folder is None else None
        client = ClientProcess(params, folder or place / "pair", library=library, threads=threads, fleeting=fleeting)
        stack.callback(client.release)
        keys = keys_in_memory(client, context, DEFAULT_TENANT, highest_limbs(trace), place)
        engine = EngineHere(params, context, keys)
        ev = NativeEvaluator(engine, client)

        def read(content: bytes) -> Any:
            try:
                return context.import_ciphertext(content)
            except ValueError as error:
                raise PenstockError(f"{len(content)} bytes are not a ciphertext of this set: {error}") from error

        def adopt(found: Any, name: str) -> Cipher:
            if found.slots != params.slots:
                raise _other_set(name, params)
            state = ScaleState(found.limbs, found.degree)
            return Cipher(ev.builder.ciphertext(found.limbs, name=name), state, value=found)

        setup_s = time.perf_counter() - began
        yield Scanner(
            ev=ev,
            read=read,
            adopt=adopt,
            fresh=lambda values: client.encrypt(values).content,
            write=engine.give,
            encode_s=lambda: engine.encode_s,
            setup_s=setup_s,
        )


@contextmanager
def openfhe_scanner(
    params: CkksParameters, trace: Trace, folder: Path | None, threads: int, library: str | None
) -> Iterator[Scanner]:
    """OpenFHE in this process. Arguments as `native_scanner`; it has no other client library."""
    from penstock.openfhe.evaluator import OpenFheContext, OpenFheEvaluator, needed_keys, set_threads
    from penstock.openfhe.key_pair import client_keys
    from penstock.openfhe.stored import adopt, ciphertext_bytes, ciphertext_reader

    if chosen_library(library or "openfhe", folder).name != "openfhe":
        raise UsageError(f"the openfhe reading has its own client: leave the client library '{library}' out")
    set_threads(threads)
    steps, relinearize, conjugate = needed_keys(trace.key_ids(), trace.operations["step"].to_pylist())
    context = OpenFheContext.create(
        params,
        rotation_steps=steps,
        relinearize=relinearize,
        conjugate=conjugate,
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
