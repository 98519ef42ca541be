"""The parameter set of a program on machines, where nobody names one: the set that the machines were built for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import UnknownName, UsageError
from penstock.program.running.counting import count_workload
from penstock.program.running.reading import resolve
from penstock.scheme.machines.schema import Machine
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces import is_trace_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A parameter set for a program, and the reason for it."""

    params: str | None
    """Name or .toml file; `None`: the program's own."""
    note: str | None = None
    """One line about the choice; `None` where it was asked for, or where no machine says a set."""
    native: bool = False
    """Whether it is the set that the machines were built for, and nobody asked for it."""


def set_for(
    program: str,
    params: str | None,
    size: str | None,
    machines: Sequence[Machine],
    *,
    beside: Sequence[str] = (),
) -> Chosen:
    """The set that is asked for, else the one that all machines were built for, else the program's own.

    The machines' set is taken if it has the slots and levels for the program and its companions.

    Args:   program: a workload, a Python file, or a trace, which has its own set; beside: programs that run with it.
    Raises: UnknownName: no such workload or size.
    """
    if params is not None or is_trace_file(program):
        return Chosen(params=params)
    built_for = {machine.name: machine.native_params for machine in machines}
    natives = set(built_for.values())
    if natives <= {None}:
        return Chosen(params=None)
    reason = " and ".join(f"machine '{name}' was built for '{native}'" for name, native in built_for.items() if native)
    own = _described(resolve(program, None, size)[2])
    native = next(iter(natives))
    if len(natives) > 1 or native is None:
        return Chosen(params=None, note=f"parameter set {own} is the program's own; {reason}: name one of them")
    try:
        for source in (program, *(text for text in beside if not is_trace_file(text))):
            count_workload(source, native, size)
    except UnknownName:
        raise
    except UsageError as error:
        note = f"parameter set {own} is the program's own; {reason}, and the program does not run on that: {error}"
        return Chosen(params=None, note=note)
    _, size_name, _ = resolve(program, native, size)
    return Chosen(
        params=native,
        note=f"parameter set '{native}' (size {size_name}) is taken: {reason}",
        native=True,
    )


def _described(params: CkksParameters) -> str:
    """Note for a set that was chosen by default, so that a small or an insecure one is not a surprise."""
    security = f"{params.security_bits} bit" if params.security_bits else "insecure"
    return f"'{params.name}' ({security}, N = 2^{params.ring_dim.bit_length() - 1})"


def family_for(program: str, params: str | None, size: str | None, machine: Machine, precision: float | None) -> Chosen:
    """The set that suggested sets are like: as `set_for`, unless a precision is asked for.

    The primes of an accelerator's set fit its words; a precision needs other scales.
    Raises: as `set_for`.
    """
    native = machine.native_params
    if precision is None or native is None or params is not None or catalogue.get(native).library != "accelerator":
        return set_for(program, params, size, [machine])
    own = resolve(program, None, size)[2].name
    return Chosen(
        params=None,
        note=f"sets like '{own}', the program's own, are tried: the primes of an accelerator's set are those of its "
        f"words, and a precision needs other scales; machine '{machine.name}' was built for '{native}'",
    )


def other_word(params: CkksParameters, machine: Machine) -> str | None:
    """A warning about a set whose words differ from those that the machine was built for."""
    if machine.native_params is None:
        return None
    native = catalogue.get(machine.native_params)
    if native.word_bits == params.word_bits:
        return None
    return (
        f"machine '{machine.name}' was built for the {native.word_bits}-bit words of '{native.name}', and sets like "
        f"'{params.name}' have {params.word_bits}-bit words: one is counted as one of its own, so times are too short"
    )
