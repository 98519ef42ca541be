"""Graphs of kernels on a machine: the unit of each kernel, the time of a limb, and the kernels that a machine adds.

A machine adds exchanges between clusters around base conversions, transforms that make limbs of plaintexts on chip, and
loads of keys and plaintexts where its own memory is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from penstock.base.units import format_bytes
from penstock.errors import MachineError, UsageError
from penstock.scheme.machines.schema import TRANSFORM_MEASURES, Machine, Overlap
from penstock.scheme.machines.transferred import donor_efficiency
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.secrets import AUXILIARY_PRIMES
from penstock.scheme.work.graph import UNIT_OF, Kernel, KernelName, OperationGraph
from penstock.scheme.work.graphs import kernel_graph
from penstock.scheme.work.shapes import Shape

NETWORK, OFF_CHIP, SCRATCHPAD, REGISTERS = "network", "off_chip", "scratchpad", "registers"
OPERAND, RESULT = 1, 2
"""Bits of `LimbKernel.flags`, as the engine has them."""
OF_CPUS = ("conversions", "index_maps", "results")
"""Units of machines whose kernels run in turn."""
_INSTEAD = {
    "base_conversion": ("multiplications", "MAC"),
    "multiplications": ("additions", "mult"),
    "additions": ("multiplications", "add"),
    "automorphisms": ("additions", "coeff"),
}
"""Unit -> the one whose rate it would have if it did that work too, and its measure."""
_SPECIAL = {KernelName.KEY_PRODUCT: "key_products", KernelName.SCALING: "constant_products"}


@dataclass(frozen=True, slots=True)
class Resources:
    """The units of a machine that kernels run on, and their shared rates."""

    names: tuple[str, ...]
    ports: tuple[int, ...]
    latency_s: tuple[float, ...]
    each_s: dict[str, float]
    """Unit -> seconds of one of its measure, all ports together."""
    hosts: dict[str, str]
    """Unit -> the unit whose ports its work takes."""
    bytes_s: float
    """Seconds of a byte through the scratchpad; 0 where nothing waits for it."""
    register_bytes: float | None
    """Room for the limbs between the kernels of an operation; `None`: they pass the scratchpad."""
    register_s: float
    """Seconds of a byte through the register file; 0 where nothing waits for it."""
    operand_s: float
    """Seconds of a byte of an operand, result, key or plaintext, where the machine has a unit `memory`."""
    chaining: float
    """Share of the shorter of two durations by which the second may start ahead of the first one's result."""
    capacity_bytes: float
    exchanged: float
    """Share of a limb that goes to other clusters around base conversions."""

    def index(self, unit: str) -> int:
        """The number of the unit on which the work of a unit runs."""
        return self.names.index(self.hosts[unit])


class LimbKernel(NamedTuple):
    """One kernel of a shape on a machine."""

    name: str
    unit: int
    limbs: tuple[int, ...]
    limb_s: float
    """Seconds of each limb on its unit; likewise in the scratchpad and the register file."""
    memory_s: float = 0.0
    registers_s: float = 0.0
    limbwise: Sequence[int] = ()
    """Kernels whose limbs of the same number it reads."""
    whole: Sequence[int] = ()
    """Kernels that it reads as a whole."""
    flags: int = 0
    """`OPERAND` and `RESULT`."""


@dataclass
class ShapeKernels:
    """The kernels of one shape on a machine."""

    kernels: list[LimbKernel] = field(default_factory=list)
    held_bytes: float = 0.0

    def add(self, kernel: LimbKernel) -> int:
        """A kernel; its number."""
        self.kernels.append(kernel)
        return len(self.kernels) - 1


def special_limbs(params: CkksParameters) -> int:
    """Added to the numbers of limbs for the engine, whose numbers begin at 0."""
    return max(params.num_p, AUXILIARY_PRIMES)


def check_machine(machine: Machine, params: CkksParameters) -> None:
    """Whether kernels can be scheduled on a machine at all.

    Raises: UsageError: its kernels run in turn, or its units are too narrow or too small for the parameter set.
    """
    if machine.overlap is not Overlap.PIPELINED or machine.fit is not None or machine.threads is not None:
        raise UsageError(
            f"machine '{machine.name}' runs one kernel after another, so there is nothing to schedule: its times are "
            "the sums of its kernels; leave the inside of operations at 'units', or take a machine whose units are "
            "pipelined, such as 'sharp'"
        )
    cpu = [unit for unit in OF_CPUS if unit in machine.units]
    if cpu:
        raise MachineError(
            f"machine '{machine.name}' has the unit '{cpu[0]}', which no kernel runs on: it is of CPUs; leave "
            f"units.{cpu[0]} out of its file to have kernels scheduled"
        )
    made, widest = machine.architecture, max(*params.q_bits, *params.p_bits)
    if made.ring_dim is not None and params.ring_dim > made.ring_dim.value:
        raise UsageError(
            f"machine '{machine.name}' cannot run transforms of N = {params.ring_dim}, which parameter set "
            f"'{params.name}' needs: its units take N = {made.ring_dim.value:g} at most; take a set of that N"
        )
    if made.word is not None and widest > made.word.value:
        raise UsageError(
            f"machine '{machine.name}' cannot run operations of parameter set '{params.name}': it has primes of "
            f"{widest} bits, and its units take {made.word.value:g} at most; take a set with primes of that width"
        )


def resources_of(machine: Machine, params: CkksParameters, *, loads: bool = False) -> Resources:
    """The units of a machine for schedules; `loads`: its own off-chip memory too."""
    inside, made = machine.datapath, machine.architecture
    share = (inside.efficiency or donor_efficiency()).value  # SHARP's as an assumption
    peak = replace(machine, utilisation=None).unit_seconds
    units = [unit for unit in machine.units if unit != "memory"]
    each_s = {unit: peak[unit] / share for unit in units}
    clusters = made.clusters.value if made.clusters is not None else 1.0
    exchanged = 0.0
    if inside.network is not None and clusters > 1 and inside.ports_of("transforms") > 1:
        exchanged = (clusters - 1) / clusters
        each_s[NETWORK] = 1.0 / inside.network.value
        units.append(NETWORK)
    if loads and made.off_chip is not None:
        each_s[OFF_CHIP] = 1.0 / made.off_chip.value
        units.append(OFF_CHIP)
    rate, hosts = inside.scratchpad_bandwidth, {unit: inside.runs_on(unit) for unit in units}
    own = tuple(unit for unit in units if hosts[unit] == unit)
    return Resources(
        names=own,
        ports=tuple(inside.ports_of(unit) for unit in own),
        latency_s=tuple(inside.latency_of(unit) for unit in own),
        each_s=each_s,
        hosts=hosts,
        bytes_s=0.0 if rate is None else 1.0 / rate.value,
        register_bytes=None if inside.register_file is None else inside.register_file.value,
        register_s=0.0 if inside.register_bandwidth is None else 1.0 / inside.register_bandwidth.value,
        operand_s=peak.get("memory", 0.0),
        chaining=0.0 if inside.chaining is None else max(0.0, 1.0 - inside.chaining.value / params.ring_dim),
        capacity_bytes=float("inf") if inside.room_bytes is None else inside.room_bytes,
        exchanged=exchanged,
    )


def kernels_of(
    shape: Shape, graph: OperationGraph, params: CkksParameters, machine: Machine, resources: Resources
) -> ShapeKernels:
    """The kernels of an operation on a machine.

    Raises: MachineError: a kernel has no unit; UsageError: the scratchpad is smaller than the least working set.
    """
    _check_room(shape, graph, params, machine)
    kernels = ShapeKernels(held_bytes=float(graph.held_bytes))
    at: list[int] = []
    special, kept = special_limbs(params), _kept(graph, resources)
    plain = _plaintext_transforms(kernels, graph, machine, resources, special)
    for kernel in graph.kernels:
        limbs = tuple(limb + special for limb in kernel.limbs)
        limb_sources, whole = [at[i] for i in kernel.each], [at[i] for i in kernel.whole]
        if plain is not None and kernel.operand:
            limb_sources.append(plain)
        if OFF_CHIP in resources.names:
            loaded = _loads(kernels, kernel, limbs, machine, graph, resources)
            limb_sources += [] if loaded is None else [loaded]
        if kernel.name is KernelName.CONVERSION and resources.exchanged:
            sources = tuple(limb + special for i in kernel.whole for limb in graph.kernels[i].limbs)
            whole = [_exchange(kernels, sources, graph, resources, limbwise=whole)]
        unit = _unit(kernel, shape, machine)
        seconds = memory = registers = 0.0
        if limbs:
            seconds = _amount(kernel, machine) * resources.each_s[unit] * resources.ports[resources.index(unit)]
            seconds /= len(limbs)
            touched, between = kernel.reads + len(limbs), 0.0
            if resources.register_bytes is not None:
                between = kept * _between(kernel, graph)
                registers = touched * graph.limb_bytes * resources.register_s / len(limbs)
            passed = (touched - between) * graph.limb_bytes * resources.bytes_s
            memory = (passed + _operand_bytes(kernel) * resources.operand_s) / len(limbs)
        flags = (OPERAND if kernel.operand else 0) | (RESULT if kernel.result else 0)
        name = f"{kernel.name.value} {kernel.stage}".strip()
        made = kernels.add(
            LimbKernel(name, resources.index(unit), limbs, seconds, memory, registers, limb_sources, whole, flags)
        )
        # A conversion from one prime in the loop of a transform is done where its limb lies.
        if kernel.work.base_conversions and resources.exchanged:
            made = _exchange(kernels, limbs, graph, resources, limbwise=[made])
        at.append(made)
    return kernels


def _kept(graph: OperationGraph, resources: Resources) -> float:
    """Share of the limbs between kernels that the register file has room for."""
    if resources.register_bytes is None or not graph.least_bytes:
        return 1.0
    return min(1.0, resources.register_bytes / graph.least_bytes)


def _between(kernel: Kernel, graph: OperationGraph) -> int:
    """Limbs that a kernel reads from other kernels of its operation, and writes for them."""
    limbs = set(kernel.limbs)
    read = sum(len(limbs.intersection(graph.kernels[i].limbs)) for i in kernel.each)
    read += sum(len(graph.kernels[i].limbs) for i in kernel.whole)
    # Of two kernels that make a limb of one number, a product with a key reads one. The row of the key is none of them.
    rows = len(kernel.limbs) if kernel.name is KernelName.KEY_PRODUCT else 0
    return min(read, kernel.reads - rows) + (0 if kernel.result else len(kernel.limbs))


def _unit(kernel: Kernel, shape: Shape, machine: Machine) -> str:
    apart = _SPECIAL.get(kernel.name)
    if apart is not None and apart in machine.units:
        return apart
    unit = UNIT_OF[kernel.name]
    if unit not in machine.units:
        instead, measure = _INSTEAD[unit]
        rate = machine.units.get(instead)
        nearest = ""
        if rate is not None:
            per = "cycle" if rate.per_cycle else "s"
            nearest = f"; nearest value: {rate.figure.value:g} {measure}/{per}, if its '{instead}' do that work too"
        raise MachineError(
            f"machine '{machine.name}' cannot run '{shape.kind}' at {shape.limbs_in} limbs: it has no unit for "
            f"'{kernel.name}'; add units.{unit} to its file{nearest}"
        )
    return unit


def _amount(kernel: Kernel, machine: Machine) -> float:
    """Of all limbs of a kernel, in the measure of its unit."""
    work = kernel.work
    if work.limb_transforms:
        measure = TRANSFORM_MEASURES[machine.units["transforms"].measure]
        return work.limb_transforms * measure(work.ring_dim)
    return float(work.bconv_macs + work.elementwise_mults + work.elementwise_adds + work.automorphism_coefficients)


def _operand_bytes(kernel: Kernel) -> int:
    work = kernel.work
    return work.key_bytes + work.plaintext_bytes + work.ciphertext_read_bytes + work.ciphertext_write_bytes


def _plaintext_transforms(
    kernels: ShapeKernels, graph: OperationGraph, machine: Machine, resources: Resources, special: int
) -> int | None:
    """The kernel that makes the limbs of a plaintext on chip; `None`: they are loaded, or there are none."""
    if machine.plaintext_transforms is None or not machine.plaintext_transforms.value:
        return None
    for kernel in graph.kernels:
        if kernel.work.plaintext_limbs:
            limbs = tuple(limb + special for limb in kernel.limbs)
            points = TRANSFORM_MEASURES[machine.units["transforms"].measure](graph.ring_dim)
            unit = resources.index("transforms")
            seconds = machine.plaintext_transforms.value * points * resources.each_s["transforms"]
            # Between this kernel and the one that reads it.
            kept = resources.register_bytes is not None
            memory = 0.0 if kept else graph.limb_bytes * resources.bytes_s
            registers = graph.limb_bytes * resources.register_s if kept else 0.0
            seconds *= resources.ports[unit]
            return kernels.add(LimbKernel("transform plaintext", unit, limbs, seconds, memory, registers))
    return None


def _loads(
    kernels: ShapeKernels,
    kernel: Kernel,
    limbs: tuple[int, ...],
    machine: Machine,
    graph: OperationGraph,
    resources: Resources,
) -> int | None:
    """The kernel that loads rows of a key or limbs of a plaintext from the machine's own memory."""
    loaded = kernel.work.key_bytes or kernel.work.plaintext_bytes
    if not loaded or not limbs:
        return None
    if kernel.work.plaintext_bytes and machine.extends_plaintexts:
        loaded = graph.limb_bytes
    what = "key" if kernel.work.key_bytes else "plaintext"
    seconds = loaded / len(limbs) * resources.each_s[OFF_CHIP]
    name = f"load {what} {kernel.stage}".strip()
    return kernels.add(LimbKernel(name, resources.index(OFF_CHIP), limbs, seconds))


def _exchange(
    kernels: ShapeKernels, limbs: Sequence[int], graph: OperationGraph, resources: Resources, *, limbwise: Sequence[int]
) -> int:
    seconds = graph.limb_bytes * resources.exchanged * resources.each_s[NETWORK]
    return kernels.add(LimbKernel("exchange", resources.index(NETWORK), tuple(limbs), seconds, limbwise=limbwise))


def _check_room(shape: Shape, graph: OperationGraph, params: CkksParameters, machine: Machine) -> None:
    room, inside = machine.datapath.room_bytes, machine.datapath
    if room is None or inside.scratchpad is None or graph.least_bytes <= room:
        return
    kind, fits = OpKind(shape.kind), 0
    if kind is not OpKind.MOD_RAISE:
        fits = next(
            (n for n in range(shape.limbs_in - 1, 1, -1) if kernel_graph(kind, params, n).least_bytes <= room), 0
        )
    fewer = f"; it fits at {fits} limbs" if fits else ""
    beside = "" if inside.register_file is None else f" beside {inside.register_file.text} of registers"
    needed = graph.least_bytes - math.floor(room - inside.scratchpad.value)
    raise UsageError(
        f"'{shape.kind}' at {shape.limbs_in} limbs with parameters '{params.name}' keeps {graph.least_limbs} limbs on "
        f"chip at once, {format_bytes(graph.least_bytes)}, and the scratchpad of machine '{machine.name}' has "
        f"{inside.scratchpad.text}{beside}{fewer}; give datapath.scratchpad {needed} B or more, or take a smaller "
        "parameter set"
    )
