"""Runs a compiled program in the engine: all its tasks in one call, side by side where they can be."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock import _engine
from penstock.base.units import format_seconds
from penstock.errors import PenstockError
from penstock.program.evaluator.protocol import Values
from penstock.runtime.native.client import Ends
from penstock.runtime.native.compiled import Compiled, CompilingEvaluator, compile_program
from penstock.runtime.native.compute import WaitingInputs, WholeOptions, compute_compiled
from penstock.runtime.native.inputs import InputTraffic
from penstock.runtime.native.keys import KeysHeld, KeysInMemory, KeysOnDisk, ProgramKeys
from penstock.runtime.native.lanes import Lanes, choose_lanes
from penstock.runtime.native.memory import MemoryWatch, resident_bytes
from penstock.runtime.native.prepared import KeyPlace, NativeRun, Prepared
from penstock.runtime.native.room import shared_room, wanted_inputs, wanted_keys, wanted_vectors, why
from penstock.runtime.native.sharing import MemoryPlan, Wanted, short
from penstock.scheme.traces.schema import Trace, TraceMeta

_AHEAD_VECTORS = 8
"""So many vectors are encoded ahead of their use at most."""


@dataclass(slots=True, kw_only=True)
class WholeRun:
    """What the run of a program took."""

    times: npt.NDArray[np.float64]
    """(tasks, 4) seconds: start, end, waiting for the key, encoding."""
    transfer_s: float
    encryptions: list[tuple[float, float]]
    """Start and end of each."""
    decryptions: list[tuple[float, float]]
    client_encode_s: float
    inputs: InputTraffic


def run_compiled(
    compiled: Compiled,
    context: _engine.CkksContext,
    keys: ProgramKeys,
    ends: Ends,
    options: WholeOptions,
    *,
    encrypted: Callable[[], object] = lambda: None,
    computed: Callable[[], object] = lambda: None,
    complex_outputs: Callable[[], Container[int]] = lambda: (),
    progress: Callable[[int], object] | None = None,
) -> WholeRun:
    """Encrypt the inputs, run the tasks, decrypt the outputs into their places.

    Args:   encrypted, computed: called when all is encrypted, and before the first decryption. complex_outputs: asked
            then for the outputs whose imaginary parts are kept.
    Raises: PenstockError: the engine refuses a task; as the keys and the ends.
    """
    origin = time.perf_counter()
    waiting = WaitingInputs(options.inputs, options.input_bytes)
    writer = None
    encryptions: list[tuple[float, float]] = []
    decryptions: list[tuple[float, float]] = []
    encode_s = transfer_s = 0.0
    for values in compiled.inputs:
        made = ends.encrypt(values)
        waiting.put(made.content)
        writer = writer or _engine.CkksWriter(made.content)
        encryptions.append((made.encoded_s - origin, made.ended_s - origin))
        encode_s += made.encoded_s - made.begun_s
        transfer_s += time.perf_counter() - made.ended_s
    encrypted()

    started = time.perf_counter() - origin
    done = compute_compiled(compiled, context, keys, waiting.take, options, progress)
    done.times[:, :2] += started
    computed()
    kept = complex_outputs()
    for number, (place, result) in enumerate(zip(compiled.outputs, done.outputs, strict=True)):
        if writer is None:
            raise PenstockError("decrypt: nothing was encrypted in this run")
        start = time.perf_counter()
        decryption = ends.decrypt(context.export_ciphertext(result, writer), is_complex=number in kept)
        transfer_s += decryption.begun_s - start
        decryptions.append((decryption.begun_s - origin, decryption.ended_s - origin))
        place[:] = decryption.values
    return WholeRun(
        times=done.times,
        transfer_s=transfer_s,
        encryptions=encryptions,
        decryptions=decryptions,
        client_encode_s=encode_s,
        inputs=waiting.traffic,
    )


def timed_trace(trace: Trace, compiled: Compiled, run: WholeRun) -> Trace:
    """The trace of a program with the times of its run: rows of one task share its time in equal parts."""
    rows = np.asarray(compiled.row_tasks, dtype=np.int64)
    times = run.times[rows, :2].copy()
    _, inverse, counts = np.unique(rows, return_inverse=True, return_counts=True)
    order = np.argsort(rows, kind="stable")
    place = np.empty(len(rows), dtype=np.int64)
    place[order] = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    share = (times[:, 1] - times[:, 0]) / counts[inverse]
    start = times[:, 0] + place * share
    end = start + share
    for own_rows, own in ((compiled.input_rows, run.encryptions), (compiled.output_rows, run.decryptions)):
        if own:
            start[own_rows], end[own_rows] = np.transpose(own)
    operations = trace.operations
    for name, values in (("start_s", start), ("end_s", end)):
        place_of = operations.schema.get_field_index(name)
        operations = operations.set_column(place_of, operations.schema.field(name), pa.array(values, pa.float64()))
    return replace(trace, operations=operations)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeProgram:
    """A program compiled for one set of keys: it runs again and again, on inputs of the same shapes."""

    compiled: Compiled
    result: object
    """What the program returned: views of its outputs, which each run replaces."""
    trace: Trace
    """Without times."""
    lanes: Lanes
    encode_s_per_byte: float
    """Measured, to encode a vector again."""
    compile_s: float


def compile_whole(
    prepared: Prepared, program: Callable[[CompilingEvaluator], object], meta: TraceMeta, lanes: int | None = None
) -> WholeProgram:
    """Compile a program that does not depend on its decrypted values.

    Args:   lanes: operations side by side; `None`: by cost.
    """
    begun = time.perf_counter()
    compiled, result, builder = compile_program(program, prepared.params, prepared.context)
    trace = builder.finish(meta)
    if lanes is None:
        chosen = choose_lanes(compiled, trace, prepared.threads, keys_in_order=prepared.memory is None)
    else:
        chosen = Lanes(lanes, "")
    return WholeProgram(
        compiled=compiled,
        result=result,
        trace=trace,
        lanes=chosen,
        encode_s_per_byte=_encode_s_per_byte(prepared.context, compiled),
        compile_s=time.perf_counter() - begun,
    )


def run_whole(
    prepared: Prepared,
    whole: WholeProgram,
    budget: KeyPlace | None = None,
    inputs: Sequence[Values] | None = None,
    on_operation: Callable[[int, int], None] | None = None,
    device: str = "cpu",
) -> NativeRun:
    """Run a compiled program. The next run replaces the values of its result.

    Args:   budget: of this process, keys and waiting inputs; what has no limit gets the rest of the first. inputs:
            (slots,) each, in the order of encryption; default: the compiled ones. device: as `WholeOptions`.
    Raises: BudgetTooSmall: it does not fit in the memory; as the keys, the client and the engine.
    """
    compiled, budget = whole.compiled, budget or KeyPlace()
    if inputs is not None:
        compiled.inputs = list(inputs)
    room = _room(prepared, whole, budget)
    key_bytes, ahead_bytes = room.given("keys") or None, _ahead_bytes(prepared, whole)
    keys = prepared.source(key_bytes)
    options = WholeOptions(
        lanes=whole.lanes.count,
        keep_bytes=max(0, room.given("constants") - ahead_bytes - compiled.most_vector_bytes),
        ahead_bytes=ahead_bytes,
        inputs=prepared.temporary("inputs") if budget.inputs_on_disk else None,
        input_bytes=room.given("inputs"),
        device=device,
    )
    frees = budget.memory_bytes is not None
    peak = f"peak memory {short(room.total_bytes)}: {room.shares_at_peak()}"
    run, wall_s, peak_bytes = _watched(prepared, whole, keys, options, on_operation, frees=frees)
    keys.close()
    if prepared.beside is not None:
        prepared.beside.rest()
    return prepared.result(
        result=whole.result,
        trace=timed_trace(whole.trace, compiled, run),
        wall_s=wall_s,
        setup_s={**prepared.setup_s, "compile_s": whole.compile_s},
        encode_s=run.client_encode_s + float(run.times[:, 3].sum()),
        transfer_s=run.transfer_s,
        keys=keys,
        budget_bytes=key_bytes,
        inputs=run.inputs,
        memory_why="; ".join(filter(None, (peak, why(room), _constants(whole, ahead_bytes)))),
        predicted_peak_bytes=room.total_bytes,
        peak_bytes=peak_bytes,
        lanes=whole.lanes.count,
        lanes_why=whole.lanes.why,
    )


def _watched(
    prepared: Prepared,
    whole: WholeProgram,
    keys: KeysInMemory | KeysHeld | KeysOnDisk,
    options: WholeOptions,
    on_operation: Callable[[int, int], None] | None,
    *,
    frees: bool,
) -> tuple[WholeRun, float, int]:
    """The run, its seconds, and the most memory of this process meanwhile. `frees`: memory, before decryption."""
    compiled, beside, total = whole.compiled, prepared.beside, len(whole.compiled.tasks)

    def encrypted() -> None:
        if beside is not None:
            beside.rest()
        if isinstance(keys, KeysOnDisk):
            keys.begin()

    def computed() -> None:
        keys.close()
        if frees:
            prepared.context.release_memory()

    begun = time.perf_counter()
    with MemoryWatch(lambda: None) as watch:
        run = run_compiled(
            compiled,
            prepared.context,
            keys,
            prepared.client,
            options,
            encrypted=encrypted,
            computed=computed,
            complex_outputs=lambda: compiled.complex_values.outputs(whole.trace, compiled.output_rows),
            progress=None if on_operation is None else lambda done: on_operation(done, total),
        )
        wall_s = time.perf_counter() - begun
        watch.look()
    return run, wall_s, watch.standing_bytes


def _room(prepared: Prepared, whole: WholeProgram, budget: KeyPlace) -> MemoryPlan:
    """The memory that the run takes, and how a budget is shared."""
    compiled, context = whole.compiled, prepared.context
    params = compiled.params
    if budget.memory_bytes is not None:
        context.release_memory()
    values, held, with_inputs = compiled.held_bytes(context.keep_bytes)
    keys = Wanted.always(0)
    if prepared.memory is None:
        keys = wanted_keys(compiled, {use: params.key_bytes(use[1], key=use[0]) for use in compiled.key_uses})
        if budget.budget_bytes is not None:
            keys = replace(keys, all_bytes=budget.budget_bytes, least_bytes=min(keys.least_bytes, budget.budget_bytes))
    at_peak = Wanted.always(with_inputs - held)
    wanted = {
        # Measured before the run: the interpreter, tables, keys that are in memory already.
        "process": Wanted.always(resident_bytes(os.getpid()) - context.kept_bytes),
        "tables": Wanted.always(compiled.table_bytes),
        "values": Wanted.always(values),
        # Scratch of operations, and memory of dropped values for new ones.
        "kept for new values": Wanted.always(held - values),
        "keys": keys,
        "constants": wanted_vectors(compiled, whole.encode_s_per_byte, _ahead_bytes(prepared, whole)),
        "inputs": wanted_inputs(compiled, budget.input_budget_bytes) if budget.inputs_on_disk else at_peak,
    }
    least = sum(own.least_bytes for own in wanted.values())
    if budget.memory_bytes is not None and least > budget.memory_bytes:
        # Kept memory only saves time.
        context.set_keep_bytes(params.ciphertext_bytes(params.num_q + params.num_p))
        wanted["kept for new values"] = Wanted.always(compiled.held_bytes(context.keep_bytes)[1] - values)
    return shared_room(wanted, budget.memory_bytes)


def _constants(whole: WholeProgram, ahead_bytes: int) -> str:
    """How constants come into memory, in words."""
    compiled = whole.compiled
    if not compiled.encoded:
        return ""
    uses = sum(compiled.encoded.values())
    one_s = whole.encode_s_per_byte * compiled.params.plaintext_bytes(compiled.params.num_q)
    when = "ahead, by a thread that would be idle" if ahead_bytes else "at their use"
    return f"{uses:,} uses of constants, encoded {when} ({format_seconds(one_s)} for one at all limbs)"


def _ahead_bytes(prepared: Prepared, whole: WholeProgram) -> int:
    """Of vectors that a thread makes ahead. The first half of an encoding takes one thread, and one operation leaves
    another thread idle meanwhile. Operations side by side leave none."""
    idles = bool(whole.compiled.vectors) and prepared.threads > 1 and whole.lanes.count == 1
    return _AHEAD_VECTORS * 8 * whole.compiled.params.ring_dim if idles else 0


def _encode_s_per_byte(context: _engine.CkksContext, compiled: Compiled) -> float:
    """Seconds to encode a vector, for each byte of it at all limbs: measured on this machine, once."""
    if not compiled.vectors:
        return 0.0
    params = compiled.params
    values = np.full(params.slots, 0.5, dtype=np.complex128)
    context.encode(values, params.num_q, 1, params.slots)
    begun = time.perf_counter()
    context.encode(values, params.num_q, 1, params.slots)
    return (time.perf_counter() - begun) / params.plaintext_bytes(params.num_q)
