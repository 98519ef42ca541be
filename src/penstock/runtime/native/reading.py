"""Reads a workload natively: keys in memory, or on disk under a byte budget; the client in a separate process or
inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.base.system.host import available_cores, installed_memory_bytes
from penstock.base.system.own_file import is_own, one_at_a_time
from penstock.base.types import Row
from penstock.errors import UsageError
from penstock.program.evaluator.protocol import padded
from penstock.program.package.content import Verb
from penstock.program.package.replay import run_package
from penstock.program.running.reading import Reading, describe, resolve
from penstock.program.running.trace import trace_workload
from penstock.runtime.native.engine import EngineHere
from penstock.runtime.native.evaluator import NativeEvaluator
from penstock.runtime.native.plans import choose_plan, refreshes_real_values
from penstock.runtime.native.prepared import ClientPlace, KeyPlace, NativeRun, NodeOf, Prepared
from penstock.runtime.native.store import DEFAULT_TENANT
from penstock.runtime.native.whole import compile_whole, run_whole
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import Trace, TraceMeta

_KEYS_OF_MEMORY = 0.5
"""Of a budget for all memory: so much is assumed for keys where a plan of refreshes is chosen."""
_MEMORY_OF_KEYS = 0.4
"""Of the machine's memory: whole keys may take so much before a plan of fewer keys is preferred."""


def run_native(
    name: str,
    params: str | CkksParameters | None = None,
    size: str | None = None,
    seed: int = 0,
    data: object = None,
    *,
    threads: int | None = None,
    key_budget_bytes: int | None = None,
    store: Path | None = None,
    tenant: str = DEFAULT_TENANT,
    input_budget_bytes: int | None = None,
    memory_bytes: int | None = None,
    node: NodeOf | None = None,
    client: str = ClientPlace.PROCESS.value,
    client_library: str | None = None,
    on_operation: Callable[[int, int], None] | None = None,
) -> NativeRun:
    """Run a workload on the native evaluator and record it. `on_operation(done, total)` reports progress.

    Args:   from `key_budget_bytes` to `node`: as the fields of `KeyPlace`. client: the name of a `ClientPlace`.
            client_library: as `penstock.runtime.native.client.chosen_library`.
    Raises: CapabilityMissing: no client library can be imported; ParamsError: the program does not
            fit the parameters; BudgetTooSmall: the budget does not hold the one key in use.
    """
    place = KeyPlace(
        budget_bytes=key_budget_bytes,
        store=store,
        tenant=tenant,
        input_budget_bytes=input_budget_bytes,
        memory_bytes=memory_bytes,
        node=node,
    )
    where = ClientPlace(client)
    chosen: Row = {"threads": threads, "keys": place, "client": where, "library": client_library}
    with prepared_native(name, params, size, seed, data, **chosen) as run:
        return run(on_operation=on_operation)


@contextmanager
def prepared_native(
    name: str,
    params: str | CkksParameters | None = None,
    size: str | None = None,
    seed: int = 0,
    data: object = None,
    *,
    threads: int | None = None,
    keys: KeyPlace | None = None,
    client: ClientPlace = ClientPlace.INSIDE,
    library: str | None = None,
) -> Iterator[Callable[..., NativeRun]]:
    """A workload with its keys made: `run(other=None, budget_bytes=…, on_operation=None)` runs it, again and again, on
    its data or on `other` of the same shape.

    `budget_bytes` defaults to the budget of `keys`; keys in memory have none. A client's process that ends in the
    course of each run makes the first and the last operation of the next one wait; so it is inside unless asked for.
    """
    workload, size_name, checked = resolve(name, params, size)
    chosen = workload.SIZES[size_name]
    place = KeyPlace() if keys is None else keys
    is_package = hasattr(workload, "PACKAGE")
    if place.memory_bytes is not None and not is_package:
        raise UsageError(
            f"a budget for all memory needs a program that is known as a whole, a package: 'penstock package {name} -o "
            "model.pkg' makes one"
        )
    if not place.on_disk:
        # A size whose keys outgrow common memory says so.
        place = replace(place, budget_bytes=getattr(chosen, "key_budget_bytes", None))
    given = workload.data(chosen, checked.slots, seed) if data is None else data
    memory = installed_memory_bytes()
    choice = choose_plan(
        checked,
        lambda params: trace_workload(name, params, size_name, seed, data),
        budget_bytes=place.budget_bytes if place.memory_bytes is None else int(_KEYS_OF_MEMORY * place.memory_bytes),
        memory_bytes=None if memory is None else int(_MEMORY_OF_KEYS * memory),
        threads=threads or available_cores(),
        is_real=lambda: refreshes_real_values(lambda ev: workload.program(ev, given, chosen), checked),
    )
    checked = choice.plan.params
    meta = describe(workload.NAME, checked, "native", size_name, seed)
    with ExitStack() as stack:
        if is_own(name) and client is ClientPlace.INSIDE:
            stack.enter_context(one_at_a_time())  # before OpenFHE's turn, as its reading does, if the client is its
        prepared = Prepared(checked, choice.plan.trace, place, (client, library), threads, stack, choice.why)
        packaged = _Packaged(prepared, workload, given, meta) if is_package and place.node is None else None

        def run(other: object = None, **options: Any) -> NativeRun:
            taken = given if other is None else other
            if packaged is not None:
                return packaged.run(taken, **options)
            return prepared.run(lambda ev: workload.program(ev, taken, chosen), meta, **options)

        yield run


class _Packaged:
    """A package on its keys: compiled once, for all its runs."""

    def __init__(self, prepared: Prepared, workload: Any, data: Any, meta: TraceMeta) -> None:
        self._prepared, self._workload = prepared, workload
        self._package = workload.at(prepared.params)
        self._whole = compile_whole(prepared, lambda ev: run_package(ev, self._package, data.inputs), meta)

    def run(
        self,
        data: Any,
        budget_bytes: int | None = None,
        on_operation: Callable[[int, int], None] | None = None,
    ) -> NativeRun:
        place, package = self._prepared.place, self._package
        budget = place if budget_bytes is None else replace(place, budget_bytes=budget_bytes)
        encrypted = [instruction for instruction in package.instructions if instruction.verb is Verb.ENCRYPT]
        slots = self._prepared.params.slots
        inputs = [padded(data.inputs[package.inputs[instruction.argument].name], slots) for instruction in encrypted]
        done = run_whole(self._prepared, self._whole, budget, inputs, on_operation)
        return replace(done, result=self._workload.joined(done.result))


@contextmanager
def _evaluator(params: CkksParameters, expected: Trace) -> Iterator[NativeEvaluator]:
    with ExitStack() as stack:
        prepared = Prepared(params, expected, KeyPlace(), (ClientPlace.INSIDE, None), None, stack)
        yield NativeEvaluator(EngineHere(params, prepared.context, prepared.source(None)), prepared.client)


READING = Reading(
    name="native",
    meaning="encrypted, by penstock's own evaluator; every word equals OpenFHE's",
    returns="a `NativeRun`: the result, the trace, and what it cost",
    keys=True,
    expands=True,
    verb="run",
    read=run_native,
    prepared=prepared_native,
    evaluator=_evaluator,
)
