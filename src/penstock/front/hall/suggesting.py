"""`penstock.suggest`: parameter sets for a program on a machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.base.system.files import check_target, write_atomic
from penstock.errors import UsageError
from penstock.front.hall.arguments import names_arguments
from penstock.front.hall.programs import AskedSet, Program, Spelled, set_of, trace_of
from penstock.front.hall.result import Table
from penstock.lab.prediction.suggest import MOST_DIGITS, ORDERS, RING_DIMS, Suggestions
from penstock.lab.prediction.suggest import suggest as suggested
from penstock.lab.prediction.whatif import Carried, Workload
from penstock.lab.simulation.names import one_of
from penstock.program.running.native_set import family_for, other_word
from penstock.program.running.reading import resolve
from penstock.scheme.machines import Machine, assumptions, load_machine
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm, form_of
from penstock.scheme.params.spec import spec_of
from penstock.scheme.traces import is_trace_file
from penstock.scheme.unpriced import UNPRICED, refuse

MOST_BITS = 60
"""Of a precision that is asked for."""
_SHOWN_SETS = (
    "ring_dim", "depth", "dnum", "security_bits", "slots", "predicted_s", "low_s", "high_s", "num_keys", "key_bytes",
    "peak_bytes", "precision_bits",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Suggested(Table):
    """Parameter sets that carry a program, the best first."""

    suggestions: Suggestions
    base: CkksParameters
    notes: tuple[str, ...] = ()
    """The model set of the suggestions, and why it was taken."""

    def params(self, index: int = 0) -> CkksParameters:
        """The set of a row; `params=` of every function takes it."""
        return self.suggestions.params(self.rows[index], self.base)

    def save(self, path: str | Path, index: int = 0, *, force: bool = False) -> Path:
        """Write the set of a row to a .toml file, for `params=` and `--params`.

        Raises: UsageError: another suffix, or no set is the best as their times are unknown; WouldOverwrite: the file
                exists, and not `force`.
        """
        refuse(self.rows[index][UNPRICED] or {}, f"{path}: sets of {self.rows[index]['workload']} are in no order")
        target = Path(path)
        if target.suffix != ".toml":
            raise UsageError(f"{target}: a parameter set is written as .toml; name the file so")
        check_target(target, force=force)
        row = self.rows[index]
        source = f"penstock predict suggest {row['workload']} ({row['size']}), sets like {self.base.name}"
        named = spec_of(self.params(index)).model_copy(update={"name": target.stem, "source": source})
        write_atomic(target, named.to_toml().encode(), force=force)
        return target


@names_arguments
def suggest(
    program: Program,
    machine: str | Path | Machine,
    *,
    params: str | Path | CkksParameters | None = None,
    size: str | None = None,
    security: int = 128,
    ring_dims: Sequence[int] | None = None,
    digits: Sequence[int] | None = None,
    precision: float | None = None,
    by: str = "time",
    threads: int | None = None,
    key_form: str | KeyForm | None = None,
    workers: int = 1,
    on_ring: Callable[[int, int], None] | None = None,
    spelled: Callable[[str], str] = str,
) -> Suggested:
    """Parameter sets for a program on a machine, the best first. Nothing is encrypted.

    Args:   program: as of `penstock.trace`; params: the model set for the others (default: the one that the
            machine was built for); security: required bits, 0 for none; ring_dims, digits: the values to try (default:
            all); precision: required bits behind the binary point of the result; by: time, time-per-slot, keys or
            memory; workers: processes, as of `sweep`; on_ring(done, total): called after each ring dimension; spelled:
            a front end's spelling of a word.
    Returns: rows; `.params()` is the first set.
    Raises: UsageError: no set carries the program, with the reason at each ring dimension.
    """
    chosen = load_machine(machine) if not isinstance(machine, Machine) else machine
    one_of("order", by, ORDERS)
    _check_wanted(precision, ring_dims, digits, spelled)
    asked, note = _to_suggest(program, params, size, chosen, precision, spelled)
    word = other_word(asked.params, chosen)
    notes = [*([] if note is None else [note]), *([] if word is None else [f"warning: {word}"])]
    suggestions = suggested(
        asked,
        chosen,
        security=security,
        ring_dims=tuple(ring_dims or RING_DIMS),
        digits=tuple(digits or range(1, MOST_DIGITS + 1)),
        by=by,
        threads=threads,
        key_form=form_of(key_form),
        workers=workers,
        precision=precision,
        on_ring=on_ring,
    )
    return Suggested(
        rows=tuple(suggestions.rows),
        title=f"{suggestions.rows[0]['workload']} ({asked.size}) on {chosen.name}, sets like {asked.params.name}",
        provenance="predicted",
        warnings=tuple(dict.fromkeys([*notes, *(text for row in suggestions.rows for text in row["warnings"])])),
        assumed=tuple(assumptions(chosen)),
        shown=_SHOWN_SETS,
        x="key_bytes",
        y="predicted_s",
        by=("ring_dim",),
        suggestions=suggestions,
        base=asked.params,
        notes=tuple(notes),
    )


def _check_wanted(
    precision: float | None, ring_dims: Sequence[int] | None, digits: Sequence[int] | None, spelled: Spelled
) -> None:
    """Raises: UsageError: a value that no parameter set has."""
    if precision is not None and not 1 <= precision <= MOST_BITS:
        raise UsageError(f"{spelled('precision')} {precision}: bits are a number from 1 to {MOST_BITS}")
    for ring_dim in ring_dims or ():
        if ring_dim not in RING_DIMS:
            rule = f"{ring_dim} is not a power of two from {RING_DIMS[0]} to {RING_DIMS[-1]}"
            raise UsageError(f"{spelled('ring_dim')}: {rule}")
    if digits is not None and min(digits, default=0) < 1:
        raise UsageError(f"{spelled('dnum')}: {min(digits, default=0)}; key switching has one digit or more")


def _to_suggest(
    program: object, params: AskedSet, size: str | None, machine: Machine, precision: float | None, spelled: Spelled
) -> tuple[Workload | Carried, str | None]:
    """A program at the set that suggested ones are like, and a line about the set where nobody named it."""
    if isinstance(program, str | Path) and not is_trace_file(str(program)):
        name = str(program)
        family, note = params, None
        if params is None:
            taken = family_for(name, None, size, machine, precision)
            family, note = taken.params, taken.note
        _, size_name, checked = resolve(name, set_of(family), size)
        return Workload(name=name, size=size_name, params=checked), note
    if size is not None:
        raise UsageError(f"a trace has its size: leave {spelled('size')} out")
    own = Carried.of(trace_of(program, None, None), set_of(params))
    if params is not None or machine.native_params is None:
        return own, None
    native = catalogue.get(machine.native_params)
    built = f"machine '{machine.name}' was built for '{native.name}'"
    try:
        own.count([native])
    except UsageError as error:
        tried = f"sets like '{own.params.name}', the trace's own, are tried"
        return own, f"{tried}: {built}, and the trace does not fit that: {error}"
    return replace(own, params=native), f"sets like '{native.name}' are tried: {built}"
