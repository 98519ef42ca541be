"""`penstock.run` and `analyze`: a program in the clear, or encrypted for real and checked against the clear result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow.compute as pc

from penstock.base.types import Row, Rows, RowView
from penstock.base.units import parse_bytes
from penstock.errors import CheckFailed, ParamsError, PenstockError, UsageError
from penstock.front.hall.advising import Advised, advised_as
from penstock.front.hall.arguments import names_arguments
from penstock.front.hall.programs import AskedSet, Spelled, name_of, set_of
from penstock.front.hall.result import Result
from penstock.lab.advice.measured import Measured, advise
from penstock.lab.simulation.names import one_of
from penstock.program.running.clear import run_clear
from penstock.program.running.reading import Reading, Run, resolve
from penstock.program.running.readings import DEFAULT_READING, READINGS
from penstock.program.workloads import Check
from penstock.runtime.keystore import check_tenant, local_folder
from penstock.runtime.native.memory import peak_resident_bytes
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import Trace

if TYPE_CHECKING:
    from penstock.service.near.remote import NodeEngine

NODE = "node:"
"""Before the address of a key node, in the place of a key store."""
_OPTIONS = {
    "key_budget_bytes": "key_budget", "input_budget_bytes": "input_budget", "memory_bytes": "memory", "store": "keys",
    "tenant": "tenant", "client": "client", "client_library": "client_library",
}  # fmt: skip
"""Option of a reading -> the argument of `run` that gives it."""
_WORDS = {"store": ("keys", "tenant"), "tenant": ("keys", "tenant")}
"""Option of a reading -> the words of the front ends that give it, where they are not its own."""
_Inputs = RowView | str | Path | Sequence[str] | None
"""Inputs of a package: vectors by name, or files."""
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
    options = options_of(chosen, stated, spelled)
    own_data = data is not None or inputs is not None
    clear = _in_the_clear(name, params, size, reading, seed, data, inputs, spelled)
    if chosen.keys:
        options |= {"threads": threads} | ({} if on_operation is None else {"on_operation": on_operation})
    if reading == "clear":
        return _ran_without_keys(clear, clear.common["clear"])
    done = chosen.read(name, clear.common["params"], clear.common["size"], seed, clear.data, **options)
    if not chosen.keys:
        return _ran_without_keys(clear, done)
    words = {"reading": reading, "params": params, "size": size, "seed": seed, "threads": threads, **stated}
    return _ran_encrypted(clear, done, words, own_data=own_data)


@dataclass(frozen=True, slots=True)
class _Clear:
    """A program with its data, run in the clear."""

    name: str
    workload: ModuleType
    data: Any
    numbers: Row
    """What is measured so far."""
    common: Row
    """Fields of `Ran` that every reading shares."""

    def check(self, returned: object) -> Check:
        """The comparison of what a reading returned with the clear result."""
        check: Check = self.workload.check(
            self.common["clear"], returned, self.data, self.workload.SIZES[self.common["size"]]
        )
        return check


def _in_the_clear(
    name: str,
    params: AskedSet,
    size: str | None,
    reading: str,
    seed: int,
    data: object,
    inputs: _Inputs,
    spelled: Spelled,
) -> _Clear:
    """The program in the clear, before another reading. Raises: as `run`."""
    workload, size_name, checked = resolve(name, set_of(params), size)
    drawn = partial(workload.data, workload.SIZES[size_name], checked.slots, seed)
    given = _data_of(name, workload, drawn, data, inputs, spelled)
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
    return _Clear(name, workload, given, numbers, common)


def _ran_without_keys(clear: _Clear, returned: Any) -> Ran:
    """A run in the clear, or of a reading that has noise and no keys. Raises: RunDiffers."""
    if isinstance(returned, Mapping):  # a reading's own numbers
        return Ran(rows=(), values=returned, numbers=clear.numbers | dict(returned), **clear.common)
    check, is_clear = clear.check(returned), clear.common["reading"] == "clear"
    numbers = clear.numbers | {"result_norm": float(np.linalg.norm(returned))}
    numbers |= check.numbers if is_clear else checked_numbers(check)
    ran = Ran(
        rows=(), values=returned, numbers=numbers, check=None if is_clear else check,
        outputs=outputs_of(clear.workload, returned), **clear.common,
    )  # fmt: skip
    return _held(ran, clear)


def _ran_encrypted(clear: _Clear, done: Run, words: RowView, *, own_data: bool) -> Ran:
    """A run of an encrypted reading, with its options in the words of a command. Raises: RunDiffers."""
    check = clear.check(done.result)
    ran = Ran(
        rows=tuple(_by_kind(done.trace)), values=done.result, outputs=outputs_of(clear.workload, done.result),
        numbers=clear.numbers | measured_numbers(done, check), check=check, trace=done.trace, **clear.common,
    )  # fmt: skip
    return _held(replace(ran, asked=_asked(clear.name, ran, done, words, own_data=own_data)), clear)


def _asked(name: str, ran: Ran, done: Run, words: RowView, *, own_data: bool) -> Measured:
    """A run and its options, in the words of a command."""
    texts = {
        option: value.name if isinstance(value, CkksParameters) else value
        for option, value in words.items()
        if isinstance(value, str | int | Path | CkksParameters)
    }
    return Measured(program=name, size=ran.size, params=ran.params, done=done, words=texts, named=not own_data)


def _held(ran: Ran, clear: _Clear) -> Ran:
    """The run. Raises: RunDiffers."""
    if ran.check is not None and not ran.passed:
        keys = READINGS[ran.reading].keys
        how = "encrypted" if keys else "with noise"
        message = f"{clear.name} {how} differs from clear: {'; '.join(ran.check.rules)}"
        raise RunDiffers(message + (_outgrown(ran, clear) if keys else ""), ran)
    return ran


def _outgrown(ran: Ran, clear: _Clear) -> str:
    """The cause of a difference, where the noisy reading knows it: values that outgrew the modulus, or drowned."""
    try:
        READINGS["noisy"].read(clear.name, ran.params, ran.size, 0, clear.data)
    except PenstockError as error:
        return f". The values do not fit: {error}" if isinstance(error, ParamsError) else ""
    return ""


def _data_of(
    name: str, workload: ModuleType, drawn: Callable[..., Any], data: object, inputs: _Inputs, spelled: Spelled
) -> Any:
    """The given data of a run, else the workload's own. Args: drawn: makes these, of a path."""
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
        return drawn(None if data is None else Path(data))
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


def options_of(reading: Reading, stated: RowView, spelled: Spelled) -> Row:
    """The options of a reading.

    Args:   stated: arguments of `run` that some readings have alone.
    Raises: UsageError: an option that is not of this reading; a tenant without a store; UnitError.
    """
    given: Row = {option: stated[word] for option, word in _OPTIONS.items() if stated[word] is not None}
    key_budget, keys, tenant = stated["key_budget"], stated["keys"], stated["tenant"]
    for option in given:
        if option not in reading.options and option != "key_budget_bytes":
            words = [spelled(word) for word in _WORDS.get(option, (option.removesuffix("_bytes"),))]
            verb = "is" if len(words) == 1 else "are"
            of = " or ".join(READINGS.with_option(option))
            raise UsageError(f"{' and '.join(words)} {verb} for {spelled('reading')} {of}, not for {reading.name}")
    if tenant is not None and keys is None:
        raise UsageError(f"{spelled('tenant')} names keys of a store: name the store with {spelled('keys')}")
    if tenant is not None:
        check_tenant(tenant, spelled("tenant"))
    if keys is not None and str(keys).startswith(NODE):
        given["node"] = _node_of(str(keys), key_budget, stated["memory"], spelled)
        keys = os.environ.get("PENSTOCK_KEYS", "keys")
    if key_budget is not None and not reading.keys:
        raise UsageError(
            f"the {reading.name} reading has no keys: leave out {spelled('key_budget')}, or run native or openfhe"
        )
    for option in given:
        if option.endswith("_bytes") and isinstance(given[option], str):
            given[option] = parse_bytes(given[option], spelled(option.removesuffix("_bytes")))
    if keys is not None:
        given["store"] = local_folder(str(keys), spelled("keys"))
    return given


def _node_of(
    keys: str, key_budget: str | int | None, memory: str | int | None, spelled: Spelled
) -> partial[NodeEngine]:
    """What makes the engine at a key node. Raises: UsageError: a budget of memory here, or no address."""
    from penstock.service.near.link import parse_address
    from penstock.service.near.remote import engine_at

    if key_budget is not None or memory is not None:
        raise UsageError(
            f"{spelled('keys')} {keys}: keys at a node take no memory here; leave out {spelled('key_budget')} and "
            f"{spelled('memory')}"
        )
    node = keys.removeprefix(NODE)
    parse_address(node)
    return partial(engine_at, node)


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
