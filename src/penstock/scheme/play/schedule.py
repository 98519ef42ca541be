"""Operations and programs scheduled on a machine, with the lower bounds of each schedule.

The engine plays kernels limb by limb (`penstock_sim::schedule` has the rules). Kernels are worked out once for each
shape on a machine, and a schedule is kept for the same program on the same machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from penstock.base.arrays import Floats, Ints
from penstock.base.system.kept import Kept
from penstock.base.types import Row
from penstock.scheme.machines.schema import Machine
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.play.engine import _engine
from penstock.scheme.play.kernels import (
    REGISTERS,
    SCRATCHPAD,
    Resources,
    ShapeKernels,
    check_machine,
    kernels_of,
    resources_of,
    special_limbs,
)
from penstock.scheme.work.graph import OperationGraph
from penstock.scheme.work.graphs import kernel_graph
from penstock.scheme.work.shapes import Shape

WINDOW = 64
"""Operations that are inside a machine at once at most, where its scratchpad has room for more."""
CRITICAL_PATH = "critical path"
MOST_KEPT_BYTES = 256 * 2**20
"""Of schedules that a process keeps, and of kernels of shapes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Kernels of a program on the units of a machine, in seconds."""

    total_s: float
    start_s: Floats
    """(n,) of each operation."""
    end_s: Floats
    units: tuple[str, ...]
    ports: tuple[int, ...]
    busy_s: dict[str, float]
    """Unit -> time in which it works, with all its ports."""
    bounds_s: dict[str, float]
    """What the schedule cannot be shorter than: each unit's work, the memories', and the critical path."""
    binding: tuple[str, ...]
    """Per shape: the unit with the most work, or a memory."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The units and the memories on chip, one of which binds an operation."""
        return (*self.units, SCRATCHPAD, REGISTERS)

    @property
    def added_s(self) -> Floats:
        """(n,) by how much each operation puts off the end of all up to it; their sum is `total_s`."""
        return np.diff(np.maximum.accumulate(self.end_s), prepend=0.0)

    @property
    def busy_shares(self) -> dict[str, float]:
        """Unit -> share of the time in which it works."""
        return {unit: busy / self.total_s if self.total_s else 0.0 for unit, busy in self.busy_s.items()}

    @property
    def bound(self) -> str:
        """The largest of the bounds."""
        return max(self.bounds_s, key=lambda name: self.bounds_s[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Limbs of kernels in time."""

    operation: Ints
    name: list[str]
    """Of the kernel of each."""
    unit: list[str]
    limb: Ints
    """As in a graph: special limbs are negative."""
    start_s: Floats
    end_s: Floats


class ProgramShapes:
    """Operations of a program by their shapes, with the earlier ones whose results each reads."""

    def __init__(self, distinct: Sequence[Shape], of_row: Ints, sources: tuple[Ints, Ints]) -> None:
        self.distinct = tuple(distinct)
        self.of_row = np.ascontiguousarray(of_row, dtype=np.int64)
        self.source_start, self.source = sources

    def digest(self) -> str:
        """The same for programs with the same operations."""
        hashed = hashlib.blake2b(repr(self.distinct).encode(), digest_size=16)
        for array in (self.of_row, self.source_start, self.source):
            hashed.update(array.tobytes())
        return hashed.hexdigest()


def sources_of(outputs: tuple[Ints, Ints], operands: tuple[Ints, Ints], rows: int, objects: int) -> tuple[Ints, Ints]:
    """(n + 1,) and (m,): the earlier operations whose results each operation reads.

    Args:   outputs, operands: rows of operations, and the object that each makes or reads; rows: operations.
    """
    maker = np.full(objects, -1, dtype=np.int64)
    maker[outputs[1]] = outputs[0]
    row, source = operands[0], maker[operands[1]]
    known = (source >= 0) & (source < row)
    # A pair is one number: row, then source.
    reader, read = np.divmod(np.unique(row[known] * rows + source[known]), max(rows, 1))
    start = np.zeros(rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(reader, minlength=rows), out=start[1:])
    return start, read


_schedules, _shapes = Kept[Schedule](MOST_KEPT_BYTES, most=16), Kept[ShapeKernels](MOST_KEPT_BYTES, most=16_384)


def schedule_program(
    program: ProgramShapes, params: CkksParameters, machine: Machine, key_form: KeyForm | None = None
) -> Schedule:
    """A program on a machine, every byte resident; kept for the next call.

    Raises: UsageError, MachineError: the machine cannot run an operation; as `kernel_graph`.
    """

    def made() -> Schedule:
        check_machine(machine, params)
        return _play(*_shapes_on(program, params, machine, key_form), program)[0]

    return _schedules.get((machine_key(machine), params, key_form, program.digest()), made)


def schedule_listed(
    program: ProgramShapes, params: CkksParameters, machine: Machine, key_form: KeyForm | None = None, *, listed: int
) -> tuple[Schedule, Placed]:
    """As `schedule_program`, with the kernels of so many first operations in time."""
    check_machine(machine, params)
    made = _shapes_on(program, params, machine, key_form)
    return _play(*made, program, listed=listed, special=special_limbs(params))


def held_bytes(
    program: ProgramShapes, params: CkksParameters, machine: Machine, key_form: KeyForm | None = None
) -> Floats:
    """(n,) bytes that each operation of a program holds on chip while it is inside."""
    shapes, _ = _shapes_on(program, params, machine, key_form)
    return _real([*(shape.held_bytes for shape in shapes), 0.0])[program.of_row]


def schedule_operation(
    kind: OpKind,
    params: CkksParameters,
    limbs: int,
    machine: Machine,
    *,
    loads: bool = False,
) -> tuple[Schedule, Placed]:
    """One operation alone on a machine, with its kernels in time.

    Args:   loads: keys and plaintexts come from the machine's own memory during the operation.
    Raises: as `schedule_program`.
    """
    check_machine(machine, params)
    resources = resources_of(machine, params, loads=loads)
    shape = Shape(kind.value, limbs, limbs, 0, 0, 2)
    kernels = kernels_of(shape, kernel_graph(kind, params, limbs), params, machine, resources)
    none = np.zeros(0, dtype=np.int64)
    program = ProgramShapes([shape], np.zeros(1, dtype=np.int64), (np.zeros(2, dtype=np.int64), none))
    return _play([kernels], resources, program, listed=1, special=special_limbs(params))


def machine_key(machine: Machine) -> tuple[object, ...]:
    """All of a machine that its schedules depend on."""
    return machine.name, tuple((path, figure.value, figure.text) for path, figure in machine.figures())


def _shapes_on(
    program: ProgramShapes, params: CkksParameters, machine: Machine, key_form: KeyForm | None
) -> tuple[list[ShapeKernels], Resources]:
    """The kernels of each distinct shape, and the machine's units."""
    resources, key = resources_of(machine, params), machine_key(machine)
    return [
        _shapes.get((shape, params, key_form, key), partial(_made, shape, params, machine, resources, key_form))
        for shape in program.distinct
    ], resources


def _made(
    shape: Shape, params: CkksParameters, machine: Machine, resources: Resources, key_form: KeyForm | None
) -> ShapeKernels:
    if TRAITS[OpKind(shape.kind)].composite:
        return ShapeKernels()
    return kernels_of(shape, shape_graph(shape, params, key_form), params, machine, resources)


def shape_graph(shape: Shape, params: CkksParameters, key_form: KeyForm | None = None) -> OperationGraph:
    """The kernels of one operation of a shape."""
    return kernel_graph(
        OpKind(shape.kind),
        params,
        shape.limbs_in,
        limbs_out=shape.limbs_out,
        implied_rescales=shape.implied_rescales,
        implied_scalar_mults=shape.implied_scalar_mults,
        key_form=key_form,
        polynomials=shape.polynomials,
    )


def engine_kernels(shapes: Sequence[ShapeKernels]) -> Row:
    """The kernels of shapes in the arrays of the engine, by the names of its arguments."""
    every = [kernel for shape in shapes for kernel in shape.kernels]
    arrays: Row = {
        "kernel_start": np.cumsum([0, *(len(shape.kernels) for shape in shapes)], dtype=np.int64),
        "unit": _whole(kernel.unit for kernel in every),
        "flags": _whole(kernel.flags for kernel in every),
        "held_bytes": _real(shape.held_bytes for shape in shapes),
    }
    for name in ("limb_s", "memory_s", "registers_s"):
        arrays[name] = _real(getattr(kernel, name) for kernel in every)
    for name, lists in (
        ("limb", [kernel.limbs for kernel in every]),
        ("each", [kernel.limbwise for kernel in every]),
        ("whole", [kernel.whole for kernel in every]),
    ):
        arrays[f"{name}_start"] = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        arrays[name] = _whole(chain.from_iterable(lists))
    return arrays


def engine_units(resources: Resources) -> Row:
    """The units of a machine in the arrays of the engine."""
    return {
        "ports": _whole(resources.ports),
        "latency_s": _real(resources.latency_s),
        "chaining": resources.chaining,
        "capacity_bytes": resources.capacity_bytes,
        "window": WINDOW,
    }


def _play(
    shapes: Sequence[ShapeKernels], resources: Resources, program: ProgramShapes, *, listed: int = 0, special: int = 0
) -> tuple[Schedule, Placed]:
    got = _engine.schedule_kernels(
        **engine_kernels(shapes),
        shape=program.of_row,
        source_start=program.source_start,
        source=program.source,
        **engine_units(resources),
        listed=listed,
    )
    busy = {
        unit: float(time) / ports
        for unit, ports, time in zip(resources.names, resources.ports, got.busy_s, strict=True)
    }
    bounds = {**busy, CRITICAL_PATH: float(got.critical_s)}
    if resources.bytes_s or resources.operand_s:
        bounds[SCRATCHPAD] = got.memory_s
    if resources.register_s:
        bounds[REGISTERS] = got.registers_s
    schedule = Schedule(
        total_s=got.total_s,
        start_s=got.start_s,
        end_s=got.end_s,
        units=resources.names,
        ports=resources.ports,
        busy_s=busy,
        bounds_s=bounds,
        binding=tuple(_binding(shape, resources) for shape in shapes),
    )
    placed = zip(program.of_row[got.placed_operation].tolist(), got.placed_kernel.tolist(), strict=True)
    kernels = [shapes[shape].kernels[kernel] for shape, kernel in placed]
    return schedule, Placed(
        operation=got.placed_operation,
        name=[kernel.name for kernel in kernels],
        unit=[resources.names[kernel.unit] for kernel in kernels],
        limb=got.placed_limb - special,
        start_s=got.placed_start_s,
        end_s=got.placed_end_s,
    )


def _binding(shape: ShapeKernels, resources: Resources) -> str:
    """The unit with the most work."""
    work: dict[str, float] = dict.fromkeys((*resources.names, SCRATCHPAD, REGISTERS), 0.0)
    for kernel in shape.kernels:
        limbs = len(kernel.limbs)
        work[resources.names[kernel.unit]] += kernel.limb_s * limbs / resources.ports[kernel.unit]
        work[SCRATCHPAD] += kernel.memory_s * limbs
        work[REGISTERS] += kernel.registers_s * limbs
    return max(work, key=lambda name: work[name])


def _whole(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


def _real(values: Iterable[float]) -> Floats:
    return np.fromiter(values, dtype=np.float64)
