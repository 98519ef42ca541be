"""An imagined machine that is measured like a real one: known costs, times that scatter, a virtual clock."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.lab.fit.cpu import NOMINAL_COST, UNDIVIDED
from penstock.lab.fit.measurements import Measurement, primitive_shape
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.measure.bench.spec import BenchPoint
from penstock.lab.prediction.composites import expanded
from penstock.lab.prediction.counted import Counted
from penstock.lab.prediction.experiments.candidates import CLIENT_TASKS, point_seconds
from penstock.lab.prediction.experiments.prior import PLACE, SECONDS
from penstock.lab.prediction.experiments.programs import ThreadedProgram
from penstock.lab.prediction.prediction import predict, priced
from penstock.scheme.machines.calibration import ELEMENT_WISE, KEY_SWITCHING, Calibration, Factor
from penstock.scheme.machines.client import TERMS, ClientModel, task_work
from penstock.scheme.machines.cold import ColdModel, operand_bytes
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.parallel import CacheModel, ThreadModel
from penstock.scheme.machines.record_cost import EXPANDED, VALUES, RecordingModel
from penstock.scheme.machines.schema import Machine, Overlap, UnitRate
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.work.shapes import shape_work
from support.fake_bench import Killed

KINDS = (
    OpKind.ADD, OpKind.ADD_PLAIN, OpKind.SUB, OpKind.SUB_SCALAR, OpKind.MULT_SCALAR, OpKind.MULT_PLAIN,
    OpKind.MULT_NO_RELIN, OpKind.RESCALE, OpKind.DECOMPOSE, OpKind.ROTATE_HOISTED, OpKind.ROTATE, OpKind.MULT,
    OpKind.SQUARE, OpKind.RELINEARIZE,
)  # fmt: skip


def figure(value: float) -> Figure:
    return Figure(value=value, text=f"{value:g}", source="imagined", kind=Evidence.CALIBRATED)


def machine_of(seed: int, scale: float = 1.0) -> Machine:
    """Costs around the nominal ones, factors of kinds, and a cache: another machine for each seed."""
    rng = np.random.default_rng(seed)

    def cost(name: str, sd: float = 0.25) -> float:
        return scale * float(SECONDS[PLACE[name]]) * math.exp(sd * float(np.clip(rng.standard_normal(), -2, 2)))

    units = {unit: cost(unit) for unit in NOMINAL_COST}
    factors = {
        kind.value: {
            count: Factor(
                figure=figure(math.exp(0.06 * rng.standard_normal())),
                ring_slope=0.01 * float(rng.standard_normal()),
                limbs_slope=0.02 * float(rng.standard_normal()),
                timings=1,
            )
            for count in (1, 2)
        }
        for kind in KINDS
    }
    return Machine(
        name=f"imagined-{seed}",
        title="",
        description="",
        overlap=Overlap.IN_TURN,
        overlap_source="a test",
        units={
            unit: UnitRate(
                figure=figure(1 / each), measure="butterflies" if unit == "transforms" else "", per_cycle=False
            )
            for unit, each in units.items()
        },
        overhead=figure(cost("overhead")),
        threads=ThreadModel(
            count=1,
            shared={unit: figure(cost(f"shared {unit}")) for unit in units if unit not in UNDIVIDED},
            loop=figure(cost("loops")),
        ),
        cache=CacheModel(size=figure(8 * 2**20), beyond=figure(30e9 / scale)),
        cold=ColdModel(call=figure(cost("cold call")), operands=figure(1 / cost("cold byte"))),
        client=ClientModel(
            costs={
                task: {term: figure(cost(f"{task} {term}")) for term in terms} for task, terms in TERMS.items()
            }
        ),
        recording=RecordingModel(
            costs={
                term: figure(cost(f"recording {term}")) for term in (ELEMENT_WISE, KEY_SWITCHING, EXPANDED, VALUES)
            }
        ),
        calibrated=Calibration(
            factors=factors, middles=dict.fromkeys(factors, (2.0 ** 13, 8.0)), ring_dim=(2.0**10, 2.0**17),
            limbs=(1.0, 64.0),
        ),
    )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class ImaginedLab:
    """Measures an imagined machine.

    Args:   noise: standard deviation of a point in one visit, on one thread; twice that on several. Half of it is
            common to a visit. kill_at: the number of the visit in whose middle the process ends.
    """

    truth: Machine
    noise: float = 0.02
    seed: int = 0
    kill_at: int | None = None
    before: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    """Visits of an interrupted measurement."""
    now: float = 0.0
    made: list[list[BenchPoint]] = field(default_factory=list)
    seconds: dict[int, dict[str, float]] = field(default_factory=dict)
    measured: list[Measurement] = field(default_factory=list)

    def stored(self) -> dict[int, Mapping[str, float]]:
        return dict(self.before)

    def clock(self) -> float:
        return self.now

    def visit(self, points: Sequence[BenchPoint]) -> dict[str, float]:
        if self.kill_at == len(self.made):
            raise Killed
        rng = np.random.default_rng([self.seed, len(self.made), len(self.before)])
        shared = {count: self.noise / 2 * (1 + (count > 1)) * rng.standard_normal() for count in (1, 2)}
        found = {}
        for point in points:
            own = self.noise * (1 + (point.threads > 1)) * rng.standard_normal()
            seconds = true_seconds(point, self.truth) * math.exp(shared[point.threads] + own)
            found[point.key] = seconds
            self.now += point_seconds(point, seconds)
            self.measured.append(measurement(point, seconds))
        self.now += 1.0
        self.made.append(list(points))
        self.seconds[len(self.made)] = found
        return found

    def program(self, point: BenchPoint) -> dict[str, float]:
        self.now += 2.0
        return {point.key: 1.0}


def measurement(point: BenchPoint, seconds: float) -> Measurement:
    """The time of a point as a file of results has it."""
    primitive, limbs = PRIMITIVES[point.item], point.limbs or point.params.num_q
    kind = primitive.kind
    shape = None if kind is None or TRAITS[kind].composite else primitive_shape(kind, point.params, limbs)
    return Measurement(
        item=point.item, group="primitives", params=point.params, shape=shape, degree=point.degree, limbs=limbs,
        condition=point.condition, threads=point.threads, seconds=seconds, spread=0.05, runs=3, source="imagined",
    )  # fmt: skip


def true_seconds(point: BenchPoint, truth: Machine) -> float:
    """Seconds of a call on a machine, without noise."""
    machine, params, limbs = truth.at(point.threads), point.params, point.limbs or point.params.num_q
    primitive = PRIMITIVES[point.item]
    if primitive.records is not None:
        return _recorded(point, truth)
    if point.item in CLIENT_TASKS:
        assert truth.client is not None
        kernels = machine.price(task_work(point.item, params, limbs)).seconds
        return kernels + truth.client.besides(point.item, params, limbs, point.threads)
    assert primitive.kind is not None
    shape = primitive_shape(primitive.kind, params, limbs)
    warm = priced(Counted.of({shape: 1}, params), machine).seconds
    if point.condition == "warm":
        return warm
    assert truth.cold is not None
    return warm + truth.cold.seconds(1, operand_bytes(shape_work(shape, params)))


def _recorded(point: BenchPoint, truth: Machine) -> float:
    item, costs = PRIMITIVES[point.item].records, truth.recording
    assert item is not None
    assert costs is not None
    kind = PRIMITIVES[item].kind
    assert kind is not None
    found = costs.call(kind.value)
    if kind is OpKind.DECRYPT:
        found += costs.values(point.params.slots)
    elif TRAITS[kind].composite:
        called = replace(measurement(point, 1.0), item=item)
        found += costs.expanded(sum(expanded(called).values()))
    return found if point.condition == "cold" else 0.6 * found


def of_program(program: ThreadedProgram, machine: Machine) -> float:
    """Seconds of a whole run of a program."""
    return predict(program.tally, machine, threads=program.threads).predicted_s


def errors(machine: Machine, truth: Machine, programs: Sequence[ThreadedProgram]) -> dict[int, float]:
    """Threads -> mean |error| of predicted programs."""
    found: dict[int, list[float]] = {}
    for program in programs:
        error = of_program(program, machine) / of_program(program, truth) - 1
        found.setdefault(program.threads, []).append(abs(error))
    return {count: sum(each) / len(each) for count, each in found.items()}


def mean(found: Mapping[int, float]) -> float:
    return sum(found.values()) / len(found)


__all__ = ["ImaginedLab", "Killed", "errors", "machine_of", "mean", "measurement", "of_program"]
