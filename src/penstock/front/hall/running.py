"""`penstock.run` and `analyze`: a program in the clear, or encrypted for real and checked against the clear result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pyarrow.compute as pc

from penstock.base.types import Row, Rows, RowView
from penstock.base.units import parse_bytes
from penstock.errors import CheckFailed, ParamsError, PenstockError, UsageError
from penstock.front.hall.advising import Advised, advised_as
from penstock.front.hall.arguments import names_arguments
from penstock.front.hall.programs import name_of, set_of
from penstock.front.hall.result import Result
from penstock.lab.advice.measured import Measured
from penstock.lab.simulation.names import one_of
from penstock.program.running.clear import run_clear
from penstock.program.running.reading import Reading, Run, resolve
from penstock.program.running.readings import DEFAULT_READING, READINGS
from penstock.program.workloads import Check
from penstock.runtime.keystore import check_tenant, local_folder
from penstock.runtime.native.memory import peak_resident_bytes
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import Trace

NODE = "node:"
"""Before the address of a key node, in the place of a key store."""
RUN_READINGS = tuple(name for name, reading in READINGS.items() if reading.verb == "run")
"""The readings that give a program's values."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Ran(Result):
    """One run of a program. Rows: seconds and calls by kind of operation; none in the clear."""

    workload: str
    size: str
    params: CkksParameters
    reading: str
    values: object
    """What the program returned."""
    clear: object
    """What it returned in the clear."""
    numbers: RowView
    """All that was measured, as `penstock run --format json` prints it."""
    check: Check | None = None
    """The comparison of both; `None` in the clear."""
    outputs: RowView = field(default_factory=dict)
    """The vectors that a package decrypts, by name; `output` is the result of another program."""
    trace: Trace | None = None
    """The recorded operations; `None` where the reading records none."""
    asked: Measured | None = None
    """The run and its options, for `advice`; `None`: nothing was encrypted."""
    DRAWN: ClassVar = ("operation", "measured_s")

    def advice(self) -> Advised:
        """What would help most: a ranked list of changes, predicted from the times of this run.

        Raises: UsageError: nothing was encrypted.
        """
        from penstock.lab.advice.measured import advise

        if self.asked is None:
            raise UsageError(f"the {self.reading} reading encrypts nothing, and its time says nothing: run native")
        return advised_as(advise(self.asked))

    @property
    def passed(self) -> bool:
        """Whether the result is as near to the clear one as the program asks for."""
        return self.check is None or self.check.passed

    @property
    def seconds(self) -> float:
        """Measured seconds from the first encryption to the last decryption; in the clear, of the program."""
        return float(self.numbers.get("wall_s", self.numbers["clear_s"]))


class RunDiffers(CheckFailed):
    """An encrypted result that differs from the clear one by more than the program allows. `run` has both."""

    def __init__(self, message: str, run: Ran) -> None:
        self.run = run
        super().__init__(message)


@names_arguments
def run(
    program: str | Path,
    *,
    reading: str = DEFAULT_READING,
    params: str | Path | CkksParameters | None = None,
    size: str | None = None,
    data: object = None,
    inputs: RowView | str | Path | Sequence[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    key_budget: str | int | None = None,
    keys: str | Path | None = None,
    tenant: str | None = None,
    input_budget: str | int | None = None,
    memory: str | int | None = None,
    client: str | None = None,
    client_library: str | None = None,
    on_operation: Callable[[int, int], None] | None = None,
    spelled: Callable[[str], str] = str,
) -> Ran:
    """Run a program in the clear, or encrypted and checked against the clear result.

    Args:   program: a workload's name, a .py file or a package; reading: "native", "openfhe", "noisy" or "clear"; data:
            the user's own (default: the workload's; a path names a folder or file of them); inputs: of a package,
            vectors by name, or files ("x.npy", "name=x.npy"; default: drawn by the seed); key_budget: bytes of
            evaluation keys in memory ("1 GiB"), the others lie on disk; keys, tenant: a key store that is kept, or
            "node:ADDRESS" of a key node (`docs/guides/near-data.md`); input_budget: bytes of encrypted inputs in
            memory; memory: bytes of the evaluating process, for a package: keys, constants, inputs, values; client:
            "process" or "inside"; client_library: makes keys, encrypts and decrypts (default: that of the kept keys,
            else the first that is installed); on_operation(done, total): called after each operation; spelled: a front
            end's spelling of a word.
    Returns: the values, the check, the trace, and the measurements.
    Raises: RunDiffers: the check fails (`error.run` has the run); UsageError: inputs that are missing, unknown or of
            another shape, or an option that is not of this reading; CapabilityMissing: the reading's library is absent.
    """
    chosen = READINGS[one_of("reading", reading, RUN_READINGS)]
    name = name_of(program, "run")
    stated: Row = {
        "key_budget": key_budget, "keys": keys, "tenant": tenant, "input_budget": input_budget, "memory": memory,
        "client": client, "client_library": client_library,
    }  # fmt: skip
    options = options_of(chosen, **stated, spelled=spelled)
    workload, size_name, checked = resolve(name, set_of(params), size)
    sized = workload.SIZES[size_name]
    own_data = data is not None or inputs is not None
    given = _data_of(name, workload, sized, checked, seed, data, inputs, spelled)
    started = time.perf_counter()
    clear = run_clear(name, checked, size_name, seed, given)
    numbers: Row = {
        "workload": workload.NAME, "size": size_name, "params": checked.name, "security_bits": checked.security_bits,
        "reading": reading, "provenance": "measured", "clear_s": time.perf_counter() - started,
    }  # fmt: skip
    if hasattr(workload, "PACKAGE"):
        numbers["inputs"] = given.description
    common = {
        "title": f"{workload.NAME} ({size_name}) at {checked.name}, {reading}", "provenance": "measured",
        "workload": workload.NAME, "size": size_name, "params": checked, "reading": reading, "clear": clear,
    }  # fmt: skip
    if not chosen.keys:
        returned = clear if reading == "clear" else chosen.read(name, checked, size_name, seed, given, **options)
        if isinstance(returned, Mapping):  # a reading's own numbers
            numbers |= returned
            return Ran(rows=(), values=returned, numbers=numbers, **common)
        check: Check = workload.check(clear, returned, given, sized)
        numbers |= {"result_norm": float(np.linalg.norm(returned))}
        numbers |= check.numbers if reading == "clear" else checked_numbers(check)
        ran = Ran(
            rows=(), values=returned, numbers=numbers, check=None if reading == "clear" else check,
            outputs=outputs_of(workload, returned), **common,
        )  # fmt: skip
        return _held(ran, name, given)
    options |= {"threads": threads} | ({} if on_operation is None else {"on_operation": on_operation})
    done: Run = chosen.read(name, checked, size_name, seed, given, **options)
    check = workload.check(clear, done.result, given, sized)
    ran = Ran(
        rows=tuple(_by_kind(done.trace)), values=done.result, outputs=outputs_of(workload, done.result),
        numbers=numbers | measured_numbers(done, check), check=check, trace=done.trace, **common,
    )  # fmt: skip
    words = {"reading": reading, "params": params, "size": size, "seed": seed, "threads": threads, **stated}
    return _held(replace(ran, asked=_asked(name, size_name, checked, done, words, own_data=own_data)), name, given)


def _asked(name: str, size: str, params: CkksParameters, done: Run, words: RowView, *, own_data: bool) -> Measured:
    """A run and its options, in the words of a command."""
    texts = {
        option: value.name if isinstance(value, CkksParameters) else value
        for option, value in words.items()
        if isinstance(value, str | int | Path | CkksParameters)
    }
    return Measured(program=name, size=size, params=params, done=done, words=texts, named=not own_data)


def _held(ran: Ran, name: str, data: object) -> Ran:
    """The run. Raises: RunDiffers."""
    if ran.check is not None and not ran.passed:
        keys = READINGS[ran.reading].keys
        message = f"{name} {'encrypted' if keys else 'with noise'} differs from clear: {'; '.join(ran.check.rules)}"
        raise RunDiffers(message + (_outgrown(ran, name, data) if keys else ""), ran)
    return ran


def _outgrown(ran: Ran, name: str, data: object) -> str:
    """The cause of a difference, where the noisy reading knows it: values that outgrew the modulus, or drowned."""
    try:
        READINGS["noisy"].read(name, ran.params, ran.size, 0, data)
    except PenstockError as error:
        return f". The values do not fit: {error}" if isinstance(error, ParamsError) else ""
    return ""


def _data_of(
    name: str,
    workload: ModuleType,
    size: object,
    params: CkksParameters,
    seed: int,
    data: object,
    inputs: RowView | str | Path | Sequence[str] | None,
    spelled: Callable[[str], str],
) -> Any:
    """The given data of a run, else the workload's own."""
    if inputs is not None:
        if not hasattr(workload, "PACKAGE"):
            raise UsageError(
                f"{name} has no inputs by name: a package has ('penstock package {name} -o model.pkg' makes one). This "
                f"program takes {spelled('data')}"
            )
        if data is not None:
            raise UsageError(f"inputs are given and {spelled('data')} too, which says the same of a package: give one")
        if isinstance(inputs, Mapping):
            return workload.given(inputs)
        return workload.read([str(inputs)] if isinstance(inputs, str | Path) else [str(path) for path in inputs])
    if data is None or isinstance(data, str | Path):
        return workload.data(size, params.slots, seed, None if data is None else Path(data))
    return data


def outputs_of(workload: ModuleType, values: object) -> Row:
    """What a program returned as vectors by name."""
    if hasattr(workload, "PACKAGE"):
        named: Row = workload.outputs(values)
        return named
    return {"output": np.asarray(values)}


def checked_numbers(check: Check) -> Row:
    """The outcome of a check, as columns."""
    return {
        "passed": check.passed,
        "max_abs_error": check.max_abs_error,
        "tolerance": check.tolerance,
        **check.numbers,
    }


def measured_numbers(done: Run, check: Check) -> Row:
    """The times of a run, and the check of its result."""
    return {
        "wall_s": done.wall_s,
        "server_s": done.server_s,
        "setup_s": sum(done.setup_s.values()),
        "encode_s": done.encode_s,
        "key_load_s": done.key_load_s,
        "num_key_loads": done.num_key_loads,
        "peak_rss_bytes": peak_resident_bytes(),
        "num_operations": len(done.trace.view().server_operations()),
        **done.own_numbers(),
        **checked_numbers(check),
    }


def options_of(
    reading: Reading,
    *,
    key_budget: str | int | None,
    keys: str | Path | None,
    tenant: str | None,
    input_budget: str | int | None,
    client: str | None,
    client_library: str | None = None,
    memory: str | int | None = None,
    spelled: Callable[[str], str] = str,
) -> Row:
    """The options of a reading.

    Args:   spelled: how the front end writes a word.
    Raises: UsageError: an option that is not of this reading; a tenant without a store; UnitError.
    """
    both = f"{spelled('keys')} and {spelled('tenant')} are"
    given = {
        "input_budget_bytes": (input_budget, f"{spelled('input_budget')} is"),
        "memory_bytes": (memory, f"{spelled('memory')} is"),
        "store": (keys, both),
        "tenant": (tenant, both),
        "client": (client, f"{spelled('client')} is"),
        "client_library": (client_library, f"{spelled('client_library')} is"),
    }
    for option, (value, words) in given.items():
        if value is not None and option not in reading.options:
            of = " or ".join(READINGS.with_option(option))
            raise UsageError(f"{words} for {spelled('reading')} {of}, not for {reading.name}")
    if tenant is not None and keys is None:
        raise UsageError(f"{spelled('tenant')} names keys of a store: name the store with {spelled('keys')}")
    if tenant is not None:
        check_tenant(tenant, spelled("tenant"))
    node = None
    if keys is not None and str(keys).startswith(NODE):
        from penstock.service.near.link import parse_address
        from penstock.service.near.remote import engine_at

        if key_budget is not None or memory is not None:
            raise UsageError(
                f"{spelled('keys')} {keys}: keys at a node take no memory here; leave out {spelled('key_budget')} and "
                f"{spelled('memory')}"
            )
        node, keys = str(keys).removeprefix(NODE), os.environ.get("PENSTOCK_KEYS", "keys")
        parse_address(node)
    if key_budget is not None and not reading.keys:
        raise UsageError(
            f"the {reading.name} reading has no keys: leave out {spelled('key_budget')}, or run native or openfhe"
        )
    read = {
        "key_budget_bytes": _bytes(key_budget, spelled("key_budget")),
        "input_budget_bytes": _bytes(input_budget, spelled("input_budget")),
        "memory_bytes": _bytes(memory, spelled("memory")),
        "store": None if keys is None else local_folder(str(keys), spelled("keys")),
        "tenant": tenant,
        "client": client,
        "client_library": client_library,
        "node": None if node is None else partial(engine_at, node),
    }
    return {option: value for option, value in read.items() if value is not None}


def _bytes(value: str | int | None, what: str) -> int | None:
    return parse_bytes(value, what) if isinstance(value, str) else value


def _by_kind(trace: Trace) -> Rows:
    """Calls and seconds of each kind, the longest first."""
    table = trace.server_operations()
    timed = table.append_column("measured_s", pc.subtract(table["end_s"], table["start_s"]))
    kinds = timed["kind"].cast("string")
    grouped = timed.append_column("operation", kinds).group_by("operation", use_threads=False)
    kinds_found = grouped.aggregate([("measured_s", "sum"), ("measured_s", "count"), ("id", "count")]).to_pylist()
    rows = [
        {"operation": row["operation"], "count": row["id_count"],
         "measured_s": row["measured_s_sum"] if row["measured_s_count"] else None}
        for row in kinds_found
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -(row["measured_s"] or 0.0))
