"""The cost of a program on a machine before it runs: seconds, joules, memory and keys, each with its uncertainty.

A prediction is the price of the program's tally. On a machine that was fitted to measurements of the client's tasks too
it covers all that the program does: the server's operations, encryption and decryption, and encoding. On any other
machine, the server's part. A program's operations find nothing in the caches (`penstock.scheme.machines.cold`); single
operations in timing loops find everything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from penstock.base.arrays import Floats
from penstock.errors import UsageError
from penstock.lab.fit.measurements import NATIVE
from penstock.lab.prediction.batch import batch_seconds
from penstock.lab.prediction.counted import Counted
from penstock.lab.prediction.energy import Energy, energy_of
from penstock.lab.prediction.memory import Memory, memory_of
from penstock.lab.prediction.uncertainty import interval, log_sd
from penstock.program.evaluator.tally import Tally, tally_of
from penstock.scheme.machines.calibration import KEY_SWITCHING, operation_class
from penstock.scheme.machines.client import ENCODE
from penstock.scheme.machines.report import KEY_PROGRAM, PROGRAM
from penstock.scheme.machines.schema import Machine
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.traces.schema import Trace
from penstock.scheme.unpriced import added, bounded, opaque, refuse, warned
from penstock.scheme.work.shapes import Shape


@dataclass(frozen=True, slots=True)
class Contribution:
    """What the operations of one kind at one number of limbs take."""

    kind: str
    """Of an operation; `encode`; a composite, of whose call the caches know nothing; or `recording`."""
    limbs: int
    """0 for the calls of composites and the record."""
    count: int
    seconds: float
    share: float | None = 0.0
    """Of the predicted seconds; `None`: they are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A prediction with its 90 % intervals. `None`: not known; `at_least` has what is known of a total."""

    predicted_s: float | None
    low_s: float | None
    high_s: float | None
    predicted_j: float | None
    low_j: float | None
    high_j: float | None
    energy: Energy
    """The source of `predicted_j`, and its idle share."""
    memory: Memory | None
    """`None` where only counts are known."""
    key_bytes: int | None
    """All evaluation keys that are used, each once; exact."""
    key_bytes_touched: int | None
    """Bytes of keys that all operations together read; exact."""
    num_keys: int | None
    num_operations: int | None
    server_s: float | None
    """Of `predicted_s`: the server's operations."""
    client_s: float | None
    """Of `predicted_s`: encryption and decryption. `None`: the machine does not know them, and they are not in it."""
    encode_s: float | None
    """Of `predicted_s`: encoding of plaintexts and of encrypted vectors. `None`: as for `client_s`."""
    recording_s: float | None
    """Of `predicted_s`: the record of the calls. `None`: as for `client_s`."""
    threads: int | None
    contributions: tuple[Contribution, ...]
    """The largest first; they add up to `predicted_s`. Operations without a price are not among them."""
    unpriced: Mapping[str, int] | None = None
    """Kind -> operations that have no price, or not a whole one; `None`: there are none."""
    at_least: Mapping[str, float | None] | None = None
    """Total, as the fields are named -> its lower bound, where operations have no price."""
    warnings: tuple[str, ...] = ()

    @property
    def peak_bytes(self) -> int | None:
        """Peak memory."""
        return self.memory.peak_bytes if self.memory is not None and not opaque(self.unpriced or {}) else None

    @property
    def known_s(self) -> float:
        """`predicted_s`. Raises: UsageError: it is not known."""
        refuse(self.unpriced or {}, "a prediction that is compared")
        assert self.predicted_s is not None
        return self.predicted_s


def predict(
    counts: Tally | Trace | Mapping[Shape, int],
    machine: Machine,
    *,
    params: CkksParameters | None = None,
    calls: Mapping[str, int] | None = None,
    threads: int | None = None,
    key_form: KeyForm | None = None,
) -> Prediction:
    """Time, energy, memory and keys of a program on a machine.

    Args:   counts: the program's tally or trace, or shapes with their counts, which need `params` and say nothing of
            memory. calls: kind -> calls of the library, of a program given as shapes; without it they are single
            operations, priced as timed: with all their data in the caches. threads: inside one operation (default: the
            machine's own). key_form: the form of stored and moved keys (default: the set's).
    Raises: MachineError: the machine is not known at that many threads; UsageError: counts without parameters, or limbs
            that the set does not have.
    """
    tally = tally_of(counts) if isinstance(counts, Trace) else counts if isinstance(counts, Tally) else None
    if tally is not None:
        counted = Counted.of_tally(tally, key_form)
    elif params is None:
        raise UsageError("counts of operations say nothing without a parameter set: name it")
    else:
        assert not isinstance(counts, Tally | Trace)
        counted = Counted.of(counts, params, key_form, calls=calls)
    total = priced(counted, machine if threads is None else machine.at(threads))
    memory = None
    if tally is not None:
        memory = memory_of(tally, key_form=key_form)
    totals = {
        **total.totals,
        "peak_bytes": None if memory is None else memory.peak_bytes,
        "key_bytes": tally.key_bytes(key_form) if tally is not None else None,
        "key_bytes_touched": round(float(total.counts @ counted.key_bytes)),
        "num_keys": len(tally.keys) if tally is not None else None,
        "num_operations": round(float(total.counts[~counted.client].sum())),
    }
    known = bounded(totals, total.unpriced, sums_of(total.unpriced), RANGES)
    del known["peak_bytes"]
    energy = replace(total.energy, joules=known["predicted_j"], idle_j=known.pop("idle_j"))
    return Prediction(
        **known,
        energy=energy,
        memory=memory,
        threads=threads if threads is not None else machine.thread_count,
        contributions=_contributions(counted, total),
        warnings=(*total.warnings, *threads_without_effect(machine, threads)),
    )


RANGES = ("low_s", "high_s", "low_j", "high_j")
"""Of a prediction: none is known where a part has no price."""
_TIMES = ("predicted_s", "predicted_j", "idle_j", "server_s")
_INSIDE = (
    "encode_s", "recording_s", "peak_bytes", "key_bytes", "key_bytes_touched", "num_keys", "num_operations",
)  # fmt: skip
"""Of a prediction: what the inside of an operation adds to besides."""


def sums_of(unpriced: Mapping[str, int]) -> tuple[str, ...]:
    """The totals of a prediction that these operations add to."""
    return (*_TIMES, *_INSIDE) if opaque(unpriced) else _TIMES


def threads_without_effect(machine: Machine, threads: int | None) -> list[str]:
    """Note that a machine without data on threads takes the same time on any number of them."""
    if threads is None or machine.thread_count is not None:
        return []
    return [f"machine '{machine.name}' says nothing of threads: {threads} of them change nothing in what is predicted"]


RECORDING = "recording"
"""Of a contribution: the record of the calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedProgram:
    """Counted operations on a machine."""

    counts: Floats
    """(n,) how often each shape runs there."""
    each_s: Floats
    """(n,) seconds of all operations of each shape."""
    besides: tuple[Contribution, ...]
    """Encodings, calls of composites, and the record."""
    totals: Mapping[str, float | None]
    """Seconds, joules and their ranges, as if every operation had a price; `None` where the machine does not know what
    the program does there. For `bounded`."""
    unpriced: Mapping[str, int]
    """Kind -> operations that have no price, or not a whole one."""
    energy: Energy
    warnings: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """The sum of all that has a price."""
        seconds = self.totals["predicted_s"]
        assert seconds is not None
        return seconds


def priced(counted: Counted, machine: Machine) -> PricedProgram:
    """What counted operations take on a machine, with the threads that it stands at."""
    fit, client = machine.fit, machine.client
    counts = counted.counts if client is not None else counted.served
    each_s: Floats = counts * batch_seconds(machine, counted.batch) * _factors(counted, machine)
    kind_s = np.bincount(counted.kind, np.where(counted.client, 0.0, each_s), minlength=len(counted.kind_names))
    cold_s: Floats = np.zeros(len(each_s))
    besides: list[Contribution] = []
    if machine.cold is not None and counted.calls is not None:
        calls, read = counted.own_calls(), counted.served * counted.operand_bytes
        cold_s = np.asarray([machine.cold.seconds(*call) for call in zip(calls.tolist(), read.tolist(), strict=True)])
        each_s = each_s + cold_s
        calls_of = counted.composite_calls()
        besides = [Contribution(kind, 0, n, machine.cold.seconds(n, 0)) for kind, n in calls_of.items()]
    cold_total = float(cold_s.sum()) + math.fsum(part.seconds for part in besides)
    server_s = float(each_s[~counted.client].sum()) + math.fsum(part.seconds for part in besides)
    encodings: list[Contribution] = []
    if client is not None:
        each_s = each_s + counted.counts * _besides_kernels(counted, machine)
        encodings = _encodings(counted, machine)
    client_s, encode_s = float(each_s[counted.client].sum()), math.fsum(encoding.seconds for encoding in encodings)
    recording = _recording(counted, machine)
    recording_s = math.fsum(entry.seconds for entry in recording)
    seconds = server_s + client_s + encode_s + recording_s
    unpriced = added([counted.unpriced, _lacking(counted, machine)])
    energy = energy_of(seconds, None if unpriced else float(counts @ counted.parts_j), machine)
    warnings = [*machine.warnings(counted.params), *warned(unpriced), *_unknown(counted, machine)]
    outside = machine.extrapolations(counted.params, counted.limbs)
    warnings += outside
    low_s = high_s = low_j = high_j = None
    parts = [(cold_total, machine.cold.log_sd)] if machine.cold is not None else []
    parts += [(client_s + encode_s, client.log_sd)] if client is not None else []
    parts += [(recording_s, machine.recording.log_sd)] if machine.recording is not None else []
    by_kind = {name: own_s for name, own_s in zip(counted.kind_names, kind_s.tolist(), strict=True) if own_s}
    scale = 1.0 if fit is None else fit.scale(_group(counted, by_kind), machine.thread_count, bool(outside))
    sd = None if fit is None else log_sd(fit, by_kind, parts, scale)
    if fit is not None and sd is not None and not unpriced:
        low_s, high_s = interval(fit, seconds, sd, scale=scale)
        if energy.joules is not None:
            low_j, high_j = interval(fit, energy.joules, math.hypot(sd, energy.log_sd), scale=scale)
    elif not unpriced:
        warnings.append(_no_interval(machine))
    warnings += _of_energy(energy)
    return PricedProgram(
        counts=counts,
        each_s=each_s,
        besides=(*besides, *encodings, *recording),
        totals={
            "predicted_s": seconds, "low_s": low_s, "high_s": high_s,
            "predicted_j": energy.joules, "low_j": low_j, "high_j": high_j, "idle_j": energy.idle_j,
            "server_s": server_s,
            "client_s": client_s if client is not None or not counted.counts[counted.client].any() else None,
            "encode_s": encode_s if client is not None or not counted.encodings else None,
            "recording_s": recording_s if machine.recording is not None or counted.calls is None else None,
        },
        unpriced=unpriced,
        energy=energy,
        warnings=tuple(warnings),
    )  # fmt: skip


def _of_energy(energy: Energy) -> list[str]:
    """Warnings about the energy."""
    if energy.joules is None:
        return [energy.note]
    if energy.idle_j is None or energy.idle_j <= energy.joules:
        return []
    return [
        f"idle_j ({energy.idle_j:.4g} J) is more than predicted_j ({energy.joules:.4g} J), all that the machine "
        "takes while it computes: the idle power is that of other hardware, or one of the two is wrong"
    ]


def _group(counted: Counted, by_kind: Mapping[str, float]) -> str:
    """The group of an interval, by the seconds in each kind of operation."""
    if counted.calls is None and len(by_kind) == 1:
        return operation_class(next(iter(by_kind)))
    switching = math.fsum(seconds for kind, seconds in by_kind.items() if operation_class(kind) == KEY_SWITCHING)
    return KEY_PROGRAM if 2 * switching > math.fsum(by_kind.values()) else PROGRAM


def _factors(counted: Counted, machine: Machine) -> Floats:
    """(n,) factors on the prices of kernel work; 1 for the client's operations, whose costs were fitted without."""
    known = machine.calibrated
    if known is None or not len(counted.shapes):
        return np.ones(len(counted.shapes))
    threads = machine.thread_count or 1
    lines = np.asarray([known.line(kind, counted.params.ring_dim, threads) for kind in counted.kind_names])
    start, slope, curve = lines[counted.kind].T
    x = np.log2(np.clip(counted.limbs_in, *known.limbs))
    factors = np.exp(start + slope * x + curve * x * x)
    return np.where(counted.client, 1.0, factors)


def _besides_kernels(counted: Counted, machine: Machine) -> Floats:
    """(n,) cost of one of each of the client's operations beyond its kernel work; zero for the server's."""
    assert machine.client is not None
    threads, besides_s = machine.thread_count or 1, np.zeros(len(counted.shapes))
    call = _cold_call(counted, machine)
    for i in np.nonzero(counted.client)[0].tolist():
        shape = counted.shapes[i]
        besides_s[i] = machine.client.besides(shape.kind, counted.params, shape.limbs_in, threads) + call
    return besides_s


def _encodings(counted: Counted, machine: Machine) -> list[Contribution]:
    """Encodings by limbs. A native client encodes inside an encryption, whose measured time has it."""
    assert machine.client is not None
    inside = counted.encrypted if machine.fit is not None and machine.fit.reading == NATIVE else {}
    kernels, threads = batch_seconds(machine, counted.encoding_batch), machine.thread_count or 1
    encodings, call = [], _cold_call(counted, machine)
    for (limbs, of_all), kernel_s in zip(counted.encodings.items(), kernels.tolist(), strict=True):
        n = of_all - inside.get(limbs, 0)
        if not n:
            continue
        one = kernel_s + machine.client.besides(ENCODE, counted.params, limbs, threads) + call
        encodings.append(Contribution(ENCODE, limbs, n, n * one))
    return encodings


def _recording(counted: Counted, machine: Machine) -> list[Contribution]:
    """The cost of recording a program's calls; the client's calls have rows too."""
    known = machine.recording
    if known is None or counted.calls is None:
        return []
    clients = counted.client_calls()
    calls = {**counted.calls, **clients}
    rows = max(float(counted.served.sum()) - float(counted.own_calls().sum()), 0.0)
    seconds = math.fsum(n * known.call(kind) for kind, n in calls.items())
    seconds += known.expanded(rows) + known.values(clients[OpKind.DECRYPT.value] * counted.params.slots)
    return [Contribution(RECORDING, 0, sum(calls.values()), seconds)] if seconds else []


def _cold_call(counted: Counted, machine: Machine) -> float:
    """The extra cost of a call of the library in a program."""
    return 0.0 if machine.cold is None or counted.calls is None else machine.cold.seconds(1, 0)


def _unknown(counted: Counted, machine: Machine) -> list[str]:
    """What of a program a fitted machine does not know."""
    if machine.fit is None or counted.calls is None:
        return []
    warnings = []
    if machine.cold is None:
        warnings.append(
            f"machine '{machine.name}' was fitted to warm calls only: operands and keys are taken as cached, so that "
            'the prediction is low; measure primitives with conditions = ["warm", "cold"] too '
            "('penstock predict fit --measure') and fit again"
        )
    if machine.client is None and (counted.encodings or counted.client.any()):
        warnings.append(
            f"machine '{machine.name}' does not know the client: the prediction is of the server's operations only; "
            "measure encode, encrypt and decrypt at several limbs ('penstock predict fit --measure') and fit again"
        )
    if machine.recording is None and machine.client is not None:
        warnings.append(
            f"machine '{machine.name}' does not know what the record of a call costs: the prediction is of a program "
            "that is not recorded; measure recorded calls ('penstock predict fit --measure') and fit again"
        )
    return warnings


def _no_interval(machine: Machine) -> str:
    if machine.fit is not None:
        return (
            f"the fit of machine '{machine.name}' states no uncertainty, so there is no interval: fit it again "
            "('penstock predict fit') to measurements at several parameter sets"
        )
    return (
        f"machine '{machine.name}' was not fitted to measurements and states no uncertainty: there is no interval; "
        "fit a machine to primitives measured on it ('penstock predict fit') to have one"
    )


def _contributions(counted: Counted, total: PricedProgram) -> tuple[Contribution, ...]:
    parts: dict[tuple[str, int], tuple[float, float]] = {}
    for shape, count, shape_s in zip(counted.shapes, total.counts.tolist(), total.each_s.tolist(), strict=True):
        before = parts.get((shape.kind, shape.limbs_in), (0.0, 0.0))
        parts[shape.kind, shape.limbs_in] = (before[0] + count, before[1] + shape_s)
    for part in total.besides:
        parts[part.kind, part.limbs] = (part.count, part.seconds)
    made = (
        Contribution(
            kind, limbs, round(count), seconds, None if total.unpriced else seconds / total.seconds if seconds else 0.0
        )
        for (kind, limbs), (count, seconds) in parts.items()
        if count
    )
    return tuple(sorted(made, key=lambda part: (-part.seconds, part.kind, part.limbs)))


def _lacking(counted: Counted, machine: Machine) -> dict[str, int]:
    """Kind -> operations of the server for which the machine lacks a rate."""
    lacking: dict[str, int] = {}
    for shape, count, work in zip(counted.shapes, counted.served.tolist(), counted.batch.works, strict=True):
        if count and machine.lacks(work):
            lacking[shape.kind] = lacking.get(shape.kind, 0) + round(count)
    return lacking
