"""`penstock.predict`, `precision` and `suggest`: time, error and parameters of a program before it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from penstock.base.system.files import check_target, write_atomic
from penstock.base.types import Row, Rows
from penstock.errors import PenstockError, UsageError
from penstock.front.hall.advising import Advised, advised_as
from penstock.front.hall.arguments import names_arguments
from penstock.front.hall.programs import Program, at_home, name_of, set_of, trace_of
from penstock.front.hall.result import Result, Table, listed, varying
from penstock.lab.advice.predicted import Predicts, advise
from penstock.lab.prediction.precision import DRAWS, Precision, ProgramAtSet, measure_precision, predict_precision
from penstock.lab.prediction.prediction import Prediction
from penstock.lab.prediction.prediction import predict as predicted_by
from penstock.lab.prediction.shared import Shared, predict_shared
from penstock.lab.prediction.suggest import MOST_DIGITS, ORDERS, RING_DIMS, Suggestions
from penstock.lab.prediction.suggest import suggest as suggested
from penstock.lab.prediction.whatif import Carried, Recorded, WhatIfAxes, Workload
from penstock.lab.prediction.whatif import Program as Counted
from penstock.lab.prediction.whatif import what_if as rows_of
from penstock.lab.simulation.names import one_of
from penstock.program.evaluator.flooding import STATISTICAL_BITS
from penstock.program.evaluator.tally import tally_of
from penstock.program.running.native_set import family_for, other_word
from penstock.scheme.machines import Machine, assumptions, load_machine, load_machines
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm, form_of
from penstock.scheme.params.spec import spec_of
from penstock.scheme.params.variation import varied
from penstock.scheme.traces import is_trace_file
from penstock.scheme.unpriced import UNPRICED, refuse

MOST_BITS = 60
"""Of a precision that is asked for."""
_SHOWN_ROWS = (
    "ring_dim", "depth", "dnum", "security_bits", "key_form", "machine", "threads", "predicted_s", "low_s", "high_s",
    "predicted_j", "peak_bytes", "key_bytes", "bootstraps", "reason",
)  # fmt: skip
_SHOWN_PRECISION = (
    "provenance", "scale_bits", "security_bits", "precision_bits", "low_bits", "high_bits", "rms_error",
    "high_max_error", "checks_passed", "draws",
)  # fmt: skip
_SHOWN_SHARED = ("shared_bits", "lost_bits", "error_bound", "flooding_std", "verdict")
_SHOWN_SETS = (
    "ring_dim", "depth", "dnum", "security_bits", "slots", "predicted_s", "low_s", "high_s", "num_keys", "key_bytes",
    "peak_bytes", "precision_bits",
)  # fmt: skip
_AXES = ("ring_dim", "depth", "dnum", "threads", "security_asked", "key_form", "machine")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Predicted(Result):
    """One prediction. Its rows are the contributions of operations, the largest first; they add up to `seconds`."""

    prediction: Prediction
    params: CkksParameters
    machine: Machine
    asked: Predicts | None = None
    """The question, for `advice`."""
    note: str | None = None
    """Name the parameter set that was taken by default, and why."""
    DRAWN: ClassVar = ("operation", "predicted_s")

    @property
    def program(self) -> tuple[str, str | None]:
        """The program's title and the name of its size, as far as it has them."""
        return ("", None) if self.asked is None else (self.asked.program.title, self.asked.program.size)

    def advice(self) -> Advised:
        """What would help most: a ranked list of changes, each predicted as this result was.

        Raises: UsageError: counts of operations, which have no program to vary.
        """
        if self.asked is None:
            raise UsageError("counts of operations have no program to vary: predict a workload or a trace")
        return advised_as(advise(self.asked))

    @property
    def seconds(self) -> float | None:
        """Predicted seconds; `None`: operations without a price are among them (`unpriced`, `at_least`)."""
        return self.prediction.predicted_s

    @property
    def seconds_range(self) -> tuple[float, float] | None:
        """The 90 % interval; `None`: not known."""
        low, high = self.prediction.low_s, self.prediction.high_s
        return None if low is None or high is None else (low, high)

    @property
    def joules(self) -> float | None:
        """Predicted joules; `None`: no power is known."""
        return self.prediction.predicted_j

    @property
    def peak_bytes(self) -> int | None:
        """Peak memory; `None`: not known."""
        return self.prediction.peak_bytes

    @property
    def key_bytes(self) -> int | None:
        """All evaluation keys that are used, each once."""
        return self.prediction.key_bytes

    @property
    def num_operations(self) -> int | None:
        """Of the server, composites expanded; `None`: the inside of one is not known."""
        return self.prediction.num_operations

    @property
    def unpriced(self) -> dict[str, int]:
        """Kind -> operations without a price; empty: every one has its price."""
        return dict(self.prediction.unpriced or {})

    @property
    def at_least(self) -> dict[str, float | None]:
        """Total -> its lower bound, `None` where nothing is known of it; empty: the totals are known."""
        return dict(self.prediction.at_least or {})


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
def predict(
    program: Program | object,
    machine: str | Path | Machine,
    *,
    params: str | Path | CkksParameters | None = None,
    size: str | None = None,
    threads: int | None = None,
    key_form: str | KeyForm | None = None,
    spelled: Callable[[str], str] = str,
) -> Predicted:
    """Time, energy, memory and keys of a program on a machine before it runs. Nothing is executed.

    Args:   program: as of `penstock.trace`; machine: a name, a .toml file (`penstock.fit_machine` writes one), or a
            machine; params, size: of a workload; threads: inside one operation (default: the machine's own);
            key_form: "full", "seeded", "truncated" or "seeded+truncated" (default: as the set says); spelled: a front
            end's spelling of a word.
    Returns: `.seconds`, `.seconds_range` (90 %), `.joules`, `.peak_bytes`, `.key_bytes`; rows are contributions.
    Raises: UnknownName; MachineError: no times at so many threads; ParamsError: the program is deeper than the set.
    """
    chosen = load_machine(machine) if not isinstance(machine, Machine) else machine
    taken, note = at_home(program, params, size, [chosen])
    counted = counted_of(program, taken, size, spelled)
    form = form_of(key_form)
    prediction = predicted_by(counted.count([counted.params])[0], chosen, threads=threads, key_form=form)
    own = isinstance(program, str | Path)
    asked = Predicts(
        program=counted, prediction=prediction, machine=chosen, target=str(program) if own else None,
        machine_text=str(machine) if isinstance(machine, str | Path) else None,
        params=taken.name if isinstance(taken, CkksParameters) else None if taken is None else str(taken), size=size,
        threads=threads, key_form=form,
        trace=None if isinstance(counted, Workload) else lambda: trace_of(program, None, None),
    )  # fmt: skip
    result = replace(predicted_as(prediction, counted.title, counted.params, chosen), asked=asked)
    return result if note is None else replace(result, note=note, warnings=(note, *result.warnings))


def prediction_row(
    prediction: Prediction, params: CkksParameters, machine: Machine, shown: int, program: tuple[str, str | None]
) -> Row:
    """A prediction as the one row of `penstock predict run`, in SI units.

    Args:   shown: number of contributions; program: its title, and the name of its size.
    """
    totals = ("predicted_s", "low_s", "high_s", "predicted_j", "low_j", "high_j")
    memory = prediction.memory if prediction.peak_bytes is not None else None
    names = (
        "key_bytes", "key_bytes_touched", "num_keys", "num_operations", "server_s", "client_s", "encode_s",
        "recording_s", "unpriced", "at_least",
    )  # fmt: skip
    return {
        **{name: getattr(prediction, name) for name in totals},
        "idle_j": prediction.energy.idle_j,
        "energy_kind": None if prediction.energy.kind is None else prediction.energy.kind.value,
        "peak_bytes": prediction.peak_bytes,
        "low_peak_bytes": None if memory is None else memory.low_bytes,
        "high_peak_bytes": None if memory is None else memory.high_bytes,
        **{name: getattr(prediction, name) for name in names},
        "warnings": list(prediction.warnings),
        "contributions": [
            {"kind": c.kind, "limbs": c.limbs, "count": c.count, "seconds": c.seconds, "share": c.share,
             "factor": _factor(machine, c.kind, params.ring_dim, c.limbs, prediction.threads)}
            for c in prediction.contributions[:shown]
        ],
        "provenance": "predicted", "workload": program[0], "params": params.name, "size": program[1],
        "machine": machine.name, "reading": None if machine.fit is None else machine.fit.reading,
        "threads": prediction.threads, "assumptions": assumptions(machine),
    }  # fmt: skip


def _factor(machine: Machine, kind: str, ring_dim: int, limbs: int, threads: int | None) -> float | None:
    """The calibrated factor on the kernel work of an operation; `None` without a calibration for its kind."""
    known = machine.calibrated
    if known is None or kind not in known.factors:
        return None
    return known.factor(kind, ring_dim, limbs, threads or 1)


def predicted_as(prediction: Prediction, title: str, params: CkksParameters, machine: Machine) -> Predicted:
    """A prediction as a result."""
    rows = [
        {"operation": part.kind, "limbs": part.limbs, "count": part.count, "predicted_s": part.seconds,
         "share": part.share}
        for part in prediction.contributions
    ]  # fmt: skip
    return Predicted(
        rows=tuple(rows),
        title=f"{title} at {params.name} on {machine.name}",
        provenance="predicted",
        warnings=prediction.warnings,
        assumed=tuple(assumptions(machine)),
        prediction=prediction,
        params=params,
        machine=machine,
    )


@names_arguments
def what_if(
    program: Program | object,
    machine: str | Path | Machine | Sequence[str | Path | Machine],
    *,
    params: str | Path | CkksParameters | None = None,
    size: str | None = None,
    ring_dim: int | Sequence[int] = (),
    depth: int | Sequence[int] = (),
    dnum: int | Sequence[int] = (),
    security: int | Sequence[int] = (),
    key_form: str | KeyForm | Sequence[str | KeyForm] = (),
    threads: int | Sequence[int] = (),
    workers: int = 1,
    on_row: Callable[[int, int], None] = lambda done, total: None,
    spelled: Callable[[str], str] = str,
) -> Table:
    """Predictions at every combination of the values that are given, one a row. Nothing is executed.

    Args:   as of `predict`; security: bits that must hold, 0 for none; workers: processes, as of `sweep`;
            on_row(done, total): called after each row. Omitted values stay unchanged.
    Returns: a row for each combination; an impossible one has a `reason` and no numbers.
    Raises: UsageError: other ring dimensions or depths of a trace.
    """
    machines = load_machines(listed(machine))
    taken, note = at_home(program, params, size, machines)
    counted = counted_of(program, taken, size, spelled)
    values = {"ring_dim": ring_dim, "depth": depth, "dnum": dnum, "security": security, "threads": threads}
    axes = WhatIfAxes(
        **{name: tuple(listed(value)) or (None,) for name, value in values.items()},
        key_form=tuple(form_of(form) for form in listed(key_form)) or (None,),
    )
    rows = rows_of(counted, axes, machines, workers=workers, on_row=on_row)
    names = ", ".join(machine.name for machine in machines)
    return Table(
        rows=tuple(rows),
        title=f"{counted.title} on {names}",
        provenance="predicted",
        warnings=() if note is None else (note,),
        assumed=tuple(text for machine in machines for text in assumptions(machine)),
        shown=_SHOWN_ROWS,
        x=next(iter(varying(rows, _AXES)), "machine"),
        y="predicted_s",
        by=_AXES,
    )


@names_arguments
def precision(
    program: Program,
    *,
    params: str | Path | CkksParameters | None = None,
    size: str | None = None,
    seed: int = 0,
    data: str | Path | None = None,
    scale_bits: int | Sequence[int] | None = None,
    reading: str = "openfhe",
    draws: int = DRAWS,
    measure: int = 0,
    shared: bool = False,
    queries: int = 1,
    statistical_bits: int = STATISTICAL_BITS,
    on_draw: Callable[[int, int], None] = lambda done, total: None,
) -> Table:
    """How precise a program's result will be: bits behind the binary point, against the clear result.

    Args:   program: a workload's name, a .py file or a package; data: a folder or file of the user's own (default: the
            workload's); scale_bits: sizes of the scale to try (default: the set's own); reading: "openfhe" or
            "native"; draws: how often noise is drawn; measure: also run it encrypted, so many times; shared: also for
            others than the owner of the key, after noise that hides the key; queries: runs under one key pair whose
            results they learn; statistical_bits: security of that noise; on_draw(done, total): called after each draw
            and run.
    Returns: a row for each scale, `predicted` or `measured`; `warnings` has the reason of a scale that cannot be.
    Raises: UsageError: a trace, which has no values; ParamsError: no scale can be: the set is not for OpenFHE, or
            values drown in noise.
    """
    from penstock.program.running.reading import resolve

    name = name_of(program, "precision")
    workload, size_name, checked = resolve(name, set_of(params), size)
    tried = [varied(checked, scale_bits=bits) for bits in listed(scale_bits)] or [checked]
    noise = {"queries": queries, "statistical_bits": statistical_bits} if shared else {}
    predicted: Callable[..., Precision | Shared] = predict_shared if shared else predict_precision
    rows: Rows = []
    refused: dict[int, PenstockError] = {}
    total = len(tried) * (draws + measure)
    for index, params in enumerate(tried):

        def drawn(done: int, _: int, before: int = index * (draws + measure)) -> None:
            on_draw(before + done, total)

        def ran(done: int, _: int, before: int = index * (draws + measure) + draws) -> None:
            on_draw(before + done, total)

        own = workload.data(workload.SIZES[size_name], params.slots, seed, None if data is None else Path(data))
        given = ProgramAtSet.of(name, params, size_name, seed, own)
        try:
            rows.append(predicted(given, reading=reading, draws=draws, on_draw=drawn, **noise).to_row())
            if measure:
                rows.append(measure_precision(given, reading=reading, runs=measure, on_run=ran).to_row())
        except PenstockError as error:
            refused[params.scale_bits] = error
    if not rows:
        raise next(iter(refused.values()))
    left_out = [f"none at a scale of {scale} bits: {why}" for scale, why in refused.items()]
    return Table(
        rows=tuple(rows),
        title=f"{workload.NAME} ({size_name}) at {checked.name}",
        provenance="predicted and measured" if measure else "predicted",
        warnings=tuple(dict.fromkeys([*left_out, *(text for row in rows for text in row["warnings"])])),
        shown=_SHOWN_PRECISION + (_SHOWN_SHARED if shared else ()),
        x="scale_bits",
        y="precision_bits",
        by=("provenance",),
    )


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
    if precision is not None and not 1 <= precision <= MOST_BITS:
        raise UsageError(f"{spelled('precision')} {precision}: bits are a number from 1 to {MOST_BITS}")
    for ring_dim in ring_dims or ():
        if ring_dim not in RING_DIMS:
            rule = f"{ring_dim} is not a power of two from {RING_DIMS[0]} to {RING_DIMS[-1]}"
            raise UsageError(f"{spelled('ring_dim')}: {rule}")
    if digits is not None and min(digits, default=0) < 1:
        raise UsageError(f"{spelled('dnum')}: {min(digits, default=0)}; key switching has one digit or more")
    asked, note = _to_suggest(program, params, size, chosen, precision, spelled)
    notes = [] if note is None else [note]
    word = other_word(asked.params, chosen)
    notes += [f"warning: {word}"] if word is not None else []
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


def _to_suggest(
    program: object,
    params: str | Path | CkksParameters | None,
    size: str | None,
    machine: Machine,
    precision: float | None,
    spelled: Callable[[str], str],
) -> tuple[Workload | Carried, str | None]:
    """A program at the set that suggested ones are like, and a line about the set where nobody named it."""
    from penstock.program.running.reading import resolve

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


def counted_of(
    program: object,
    params: str | Path | CkksParameters | None,
    size: str | None,
    spelled: Callable[[str], str] = str,
) -> Counted:
    """Return the program as a predictor counts it: a workload anew at each set, a trace unchanged.

    Raises: as `penstock.trace`.
    """
    if isinstance(program, str | Path) and not is_trace_file(str(program)):
        from penstock.program.running.reading import resolve

        _, size_name, checked = resolve(str(program), set_of(params), size)
        return Workload(name=str(program), size=size_name, params=checked)
    return Recorded(tally=tally_of(trace_of(program, params, size, spelled=spelled)))
