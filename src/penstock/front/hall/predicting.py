"""`penstock.predict`, `what_if` and `precision`: time and error of a program before it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from penstock.base.types import Row, Rows
from penstock.errors import PenstockError, UsageError
from penstock.front.hall.advising import Advised, advised_as
from penstock.front.hall.arguments import names_arguments
from penstock.front.hall.programs import AskedSet, Program, Spelled, at_home, name_of, set_of, trace_of
from penstock.front.hall.result import Result, Table, listed, varying
from penstock.lab.advice.predicted import Predicts, advise
from penstock.lab.prediction.precision import DRAWS, Precision, ProgramAtSet, measure_precision, predict_precision
from penstock.lab.prediction.prediction import Prediction
from penstock.lab.prediction.prediction import predict as predicted_by
from penstock.lab.prediction.shared import Shared, predict_shared
from penstock.lab.prediction.whatif import Program as Counted
from penstock.lab.prediction.whatif import Recorded, WhatIfAxes, Workload
from penstock.lab.prediction.whatif import what_if as rows_of
from penstock.program.evaluator.flooding import STATISTICAL_BITS
from penstock.program.evaluator.tally import tally_of
from penstock.program.running.reading import resolve
from penstock.scheme.machines import Machine, assumptions, load_machine, load_machines
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm, form_of
from penstock.scheme.params.variation import varied
from penstock.scheme.traces import is_trace_file

_SHOWN_ROWS = (
    "ring_dim", "depth", "dnum", "security_bits", "key_form", "machine", "threads", "predicted_s", "low_s", "high_s",
    "predicted_j", "peak_bytes", "key_bytes", "bootstraps", "reason",
)  # fmt: skip
_SHOWN_PRECISION = (
    "provenance", "scale_bits", "security_bits", "precision_bits", "low_bits", "high_bits", "rms_error",
    "high_max_error", "checks_passed", "draws",
)  # fmt: skip
_SHOWN_SHARED = ("shared_bits", "lost_bits", "error_bound", "flooding_std", "verdict")
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
    name = name_of(program, "precision")
    workload, size_name, checked = resolve(name, set_of(params), size)
    tried = [varied(checked, scale_bits=bits) for bits in listed(scale_bits)] or [checked]
    noise = {"queries": queries, "statistical_bits": statistical_bits} if shared else {}
    rows: Rows = []
    refused: dict[int, PenstockError] = {}
    for index, params in enumerate(tried):
        own = workload.data(workload.SIZES[size_name], params.slots, seed, None if data is None else Path(data))

        def on_step(done: int, before: int = index * (draws + measure)) -> None:
            on_draw(before + done, len(tried) * (draws + measure))

        try:
            given = ProgramAtSet.of(name, params, size_name, seed, own)
            # The prediction stays where the measurement fails.
            rows.extend(_precision_rows(given, reading, draws, measure, noise, on_step))
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


def _precision_rows(
    given: ProgramAtSet,
    reading: str,
    draws: int,
    measure: int,
    noise: Mapping[str, int],
    on_step: Callable[[int], None],
) -> Iterator[Row]:
    """The precision that is predicted at one scale, and the measured one. Args: noise: of a shared result."""
    predicted: Callable[..., Precision | Shared] = predict_shared if noise else predict_precision
    yield predicted(given, reading=reading, draws=draws, on_draw=lambda done, _: on_step(done), **noise).to_row()
    if measure:
        on_run: Callable[[int, int], None] = lambda done, _: on_step(draws + done)  # noqa: E731
        yield measure_precision(given, reading=reading, runs=measure, on_run=on_run).to_row()


def counted_of(program: object, params: AskedSet, size: str | None, spelled: Spelled = str) -> Counted:
    """Return the program as a predictor counts it: a workload anew at each set, a trace unchanged.

    Raises: as `penstock.trace`.
    """
    if isinstance(program, str | Path) and not is_trace_file(str(program)):
        _, size_name, checked = resolve(str(program), set_of(params), size)
        return Workload(name=str(program), size=size_name, params=checked)
    return Recorded(tally=tally_of(trace_of(program, params, size, spelled=spelled)))
