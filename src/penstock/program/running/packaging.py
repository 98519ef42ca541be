"""Programs of ours as packages: captured, checked for constants that depend on inputs, and described."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from penstock.base.system.files import os_errors
from penstock.base.system.progress import Progress
from penstock.base.types import Row
from penstock.base.version import __version__
from penstock.errors import CheckFailed, UsageError
from penstock.program import workloads
from penstock.program.package.capture import CaptureEvaluator, Course, DigestSink, ReadableSink, capture, run_captured
from penstock.program.package.content import ConstantsInMemory, Package
from penstock.program.package.file import ConstantsInFile, PackageFile, open_package
from penstock.program.package.heracles import package_of_heracles
from penstock.program.running.reading import resolve
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters

SHOWN_CONSTANTS = 5
"""Constants that a failed verification names."""


def package_workload(
    name: str,
    params: str | CkksParameters | None = None,
    size: str | None = None,
    seed: int = 0,
    data: object = None,
    *,
    sink: ReadableSink | None = None,
    on_call: Callable[[int], None] | None = None,
) -> Package:
    """The package of a workload, of a Python file, or of a package at another set.

    Args:   data: default: the workload's own, by the seed; sink: takes and has the constants (default: memory);
            on_call(count): called after each call.
    Raises: NotOblivious: its calls, constants or inputs depend on decrypted values; ParamsError: it is deeper than the
            set; as the program.
    """
    workload, size_name, checked = resolve(name, params, size)
    if hasattr(workload, "PACKAGE"):
        package: Package = workload.at(checked)
        return package if sink is None else _copied(package, sink)
    taken = ConstantsInMemory() if sink is None else sink
    chosen = workload.SIZES[size_name]
    given = workload.data(chosen, checked.slots, seed) if data is None else data
    return capture(
        lambda ev: workload.program(ev, given, chosen),
        checked,
        taken,
        str(workload.NAME).removesuffix(workloads.own.SUFFIX),
        source=_file_of(workload),
        description=str(workload.DESCRIPTION),
        provenance={"penstock": __version__, "size": size_name, "seed": str(seed)},
        on_call=on_call,
    )


def _copied(package: Package, sink: ReadableSink) -> Package:
    """A package whose constants are given to a sink, in their order."""
    numbers = [sink.add(package.constants.values(number)) for number in range(len(package.constants))]
    renumbered = [
        call._replace(constants=tuple(numbers[number] for number in call.constants)) for call in package.instructions
    ]
    return replace(package, instructions=renumbered, constants=sink)


def _file_of(workload: Any) -> str:
    return str(getattr(workload, "__file__", None) or workload.SOURCE)


@dataclass(frozen=True, slots=True)
class Swapped:
    """The inputs and calls of a package that change with one part of the program's data."""

    part: str
    inputs: tuple[str, ...]
    changed: tuple[str, ...]
    """The calls whose constants or other parts differ, each with its line."""


def verify_inputs(
    name: str, params: str | CkksParameters | None = None, size: str | None = None, seed: int = 0, data: object = None
) -> list[Swapped]:
    """Capture a program with the data of another seed, part by part, and compare calls and constants.

    Parts are the fields of a dataclass and the entries of a dictionary or a list.

    Returns: the parts that reach the package's constants: a model's weights, where no input depends on them.
    Raises: CheckFailed: a part changes inputs and constants, so that constants may hold encrypted values.
    """
    workload, size_name, checked = resolve(name, params, size)
    if hasattr(workload, "PACKAGE"):
        return []
    chosen = workload.SIZES[size_name]
    given = workload.data(chosen, checked.slots, seed) if data is None else data
    other = workload.data(chosen, checked.slots, seed + 1)
    first = Course(DigestSink(), _file_of(workload))
    encrypted = run_captured(lambda ev: workload.program(ev, given, chosen), checked, first)[0].input_digests

    def swapped(part: str, values: object) -> Swapped:
        changed: dict[str, None] = {}
        inputs: list[str] = []

        def differing(at: int, what: str) -> None:
            if what == "constant":
                changed[course.where(at)] = None
            else:
                raise _Other(f"{course.where(at)}: its {what}")

        course = Course(DigestSink(), _file_of(workload), first, differing=differing)
        ev = CaptureEvaluator(checked, course)
        try:
            workload.program(ev, values, chosen)
        except _Other as error:
            changed[str(error)] = None
        for one, two, named in zip(encrypted, ev.input_digests, first.inputs, strict=False):
            if one != two:
                inputs.append(named.name)
        return Swapped(part, tuple(inputs), tuple(changed))

    everything = swapped("all data", other)
    if not everything.changed:
        return []
    swaps = [swapped(part, values) for part, values in _with_parts(given, other)] or [everything]
    swaps = [swap for swap in swaps if swap.changed]
    for swap in swaps:
        if swap.inputs:
            shown = "; ".join(swap.changed[:SHOWN_CONSTANTS])
            more = f" and {len(swap.changed) - SHOWN_CONSTANTS} more" if len(swap.changed) > SHOWN_CONSTANTS else ""
            raise CheckFailed(
                f"{name}: {swap.part} is encrypted as input '{swap.inputs[0]}' and changes constants of the package "
                f"too: {shown}{more}. The package would hold what depends on an input. Encrypt these vectors. If they "
                "are a model's, let data() return inputs and model as separate fields of a dataclass or entries of a "
                "dictionary"
            )
    return swaps


class _Other(BaseException):
    """Another call than in the first run: what follows cannot be compared."""


def _with_parts(given: Any, other: Any) -> Iterator[tuple[str, object]]:
    """The data with one part each from the other data; none where it has no parts."""
    if is_dataclass(given) and not isinstance(given, type):
        for part in fields(given):
            if part.init:
                yield f"data.{part.name}", replace(given, **{part.name: getattr(other, part.name)})
    elif isinstance(given, Mapping) and isinstance(other, Mapping):
        for key in given:
            if key in other:
                yield f"data[{key!r}]", {**given, key: other[key]}
    elif isinstance(given, list | tuple) and len(given) == len(other) and type(given) in (list, tuple):
        for at in range(len(given)):
            yield f"data[{at}]", type(given)([*given[:at], other[at], *given[at + 1 :]])


def describe_package(package: Package) -> Row:
    """What `penstock package` prints of a package."""
    params, constants = package.params, package.constants
    counts = Counter(call.verb.value for call in package.instructions)
    if isinstance(constants, ConstantsInFile):
        constant_bytes = sum(stored for stored, *_ in constants.reader.entries())
    else:
        constant_bytes = sum(constants.values(number).nbytes for number in range(len(constants)))
    return {
        "name": package.name,
        "description": package.description,
        "params": params.name,
        "ring_dim": params.ring_dim,
        "slots": params.slots,
        "num_q": params.num_q,
        "scaling": params.scaling.value,
        "security_bits": params.security_bits,
        "num_instructions": len(package.instructions),
        "instructions": dict(counts.most_common()),
        "inputs": [
            {
                "name": vector.name,
                "length": vector.length,
                "limbs": vector.limbs or params.num_q,
                "complex": vector.is_complex,
            }
            for vector in package.inputs
        ],
        "outputs": [{"name": output.name, "length": output.length} for output in package.outputs],
        "num_constants": len(constants),
        "constant_bytes": constant_bytes,
        "num_series": len(package.series),
        "num_keys": len(package.keys),
        "key_bytes": params.total_key_bytes(package.keys),
        "key_limbs": dict(package.keys),
        "noise": None if package.noise is None else package.noise._asdict(),
        "provenance": dict(package.provenance),
    }


def make_package(
    workload: str,
    output: Path | None,
    *,
    params: str | None,
    size: str | None,
    data: Path | None,
    seed: int,
    values: Path | None,
    verify: bool,
    force: bool,
    progress: Progress,
) -> Row:
    """Write a program's package, and describe it as `penstock package --format json` does.

    Args:   workload: as of `package_workload`, or a HERACLES program trace with its file of `values`; output: the file
            (default: none, it is only described); data: a folder or file of the user's own; verify: capture again with
            other inputs.
    Raises: UsageError: values without an output; WouldOverwrite; as `package_workload` and `verify_inputs`.
    """
    if values is not None:
        return _from_heracles(Path(workload), values, params, output, force=force)
    module, size_name, checked = resolve(workload, params, size)
    own = None
    if data is not None and not hasattr(module, "PACKAGE"):
        own = module.data(module.SIZES[size_name], checked.slots, seed, data)
    swapped: list[Swapped] | None = None
    if verify:
        with progress.stage("compare with other inputs"):
            swapped = verify_inputs(workload, params, size, seed, own)
    with progress.stage(f"calls of {workload}") as stage:

        def on_call(count: int) -> None:
            if not count % 256:
                stage.update(count)

        if output is None:
            row = describe_package(package_workload(workload, params, size, seed, own, on_call=on_call))
        else:
            with PackageFile(output, force=force) as file:
                file.finish(package_workload(workload, params, size, seed, own, sink=file, on_call=on_call))
            row = _described(output)
    if swapped is not None:
        row["verified"] = True
        row["from_data"] = [{"part": swap.part, "calls": list(swap.changed)} for swap in swapped]
    return row


def _from_heracles(trace: Path, values: Path, params: str | None, output: Path | None, *, force: bool) -> Row:
    """The package of another tool's trace and values, written and described."""
    if output is None:
        raise UsageError("--values: name the package with -o; constants are not kept in memory")
    with os_errors(trace, "read"):
        content = trace.read_bytes()
    with os_errors(values, "read"):
        given = values.read_bytes()
    chosen = None if params is None else catalogue.get(params)
    with PackageFile(output, force=force) as file:
        file.finish(package_of_heracles(content, given, file, chosen, name=trace.stem))
    return _described(output)


def _described(path: Path) -> Row:
    return {"file": str(path), "file_bytes": path.stat().st_size, **describe_package(open_package(path))}
