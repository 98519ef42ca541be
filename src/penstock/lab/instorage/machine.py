"""Accelerators inside a drive: their units, the operations that they may execute, and their capacity.

Three kinds, told apart by type: `UnitAccelerator` (functional units that the kernel algebra prices, one accelerator for
each group of channels and one for the drive), `PublishedScan` (known by one published rate) and `ArrayAdders`
(additions in the flash array). One TOML file under `data/instorage/` is one of them;
`penstock.lab.instorage.machine_spec` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from penstock.base.types import Row
from penstock.base.units import format_bytes
from penstock.errors import UsageError
from penstock.scheme.machines.figure import Evidence, Figure, Stated, stated
from penstock.scheme.machines.schema import Cost, Machine, Overlap, UnitRate
from penstock.scheme.operations import OpKind, Word
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.work.kernel_work import KernelWork
from penstock.scheme.work.kernels import Hoisting


class Automorphism(Word):
    """How an accelerator permutes the slots of a rotation."""

    TRANSFORMS = "transforms"
    """To coefficients and back by other roots: one inverse transform and one transform a limb (FHEIns, III-C)."""
    PERMUTATION = "permutation"
    """By a network that moves one coefficient a lane and cycle."""


class LaneWork(Word):
    """Work of one lane of a transform engine in a cycle and stage."""

    WORD = "word"
    """One word: a butterfly takes two lanes, N points take N / lanes cycles a stage."""
    BUTTERFLY = "butterfly"
    """One butterfly, two words."""


class LogicScaling(Word):
    """How a row of areas and powers follows the design."""

    FIXED = "fixed"
    LANES = "lanes"
    """In proportion to the lanes of the engines."""
    SCRATCHPAD = "scratchpad"
    """By the power law through the two published scratchpads, or in proportion to the bytes where there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logic:
    """One row: area and power of a unit."""

    area_mm2: float
    watts: float
    engine: str | None = None
    """The engines whose number multiplies it where a row is one engine."""
    only: str | None = None
    """`channel` or `drive`: the accelerators that have it; `None`: all."""
    scales: LogicScaling = LogicScaling.FIXED


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """Functional units of one kind in one accelerator."""

    count: int
    lanes: int
    source: str
    kind: Evidence

    @property
    def words(self) -> int:
        """Lanes of all of them."""
        return self.count * self.lanes


_FIGURES = (
    "clock", "slot", "plaintext_transforms", "scratchpad", "drive_scratchpad", "input_buffer", "budget",
)  # fmt: skip
"""Values of an accelerator of functional units."""
MOST_COSTS = 1024
"""Costs that an accelerator keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitAccelerator:
    """Accelerators of functional units: one for each `channels_per_accelerator` channels, and one for the drive."""

    name: str
    title: str
    description: str
    clock: Figure
    channels_per_accelerator: int
    slot: Figure
    """Bits of a record in one slot."""
    plaintext_transforms: Figure
    """Transforms to encode one limb of a plaintext, each time that it is multiplied."""
    ntt: Engines
    bconv: Engines
    modu: Engines
    lane: LaneWork
    lane_source: str
    automorphism: Automorphism
    automorphism_source: str
    hoisting: Hoisting
    """What the automorphism of a hoisted rotation permutes."""
    hoisting_source: str
    scratchpad: Figure
    """Bytes of each channel-level accelerator."""
    drive_scratchpad: Figure
    """Bytes of the drive-level accelerator."""
    input_buffer: Figure
    """Bytes for pages that wait, of each accelerator."""
    budget: Figure
    """Watts that a drive has for it."""
    logic: Mapping[str, Logic]
    """Area and power of each unit."""
    logic_source: str
    scaling_source: str = ""
    """Basis of the laws by which rows follow lanes and scratchpads."""
    _machine: Machine = field(init=False, repr=False, compare=False)
    _costs: dict[KernelWork, Cost] = field(init=False, repr=False, compare=False, default_factory=dict)
    """Of the works priced last: a study asks for the same ones under every policy and batch."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_machine", _machine_of(self))

    @property
    def machine(self) -> Machine:
        """One accelerator as a machine of the kernel algebra."""
        return self._machine

    def on(self, channels: int) -> int:
        """Channel-level accelerators of a drive with so many channels.

        Raises: UsageError: the channels do not divide into groups.
        """
        if channels % self.channels_per_accelerator:
            raise UsageError(
                f"'{self.name}' has one accelerator for {self.channels_per_accelerator} channels, and {channels} "
                "channels do not divide into such groups; choose another drive or channels_per_accelerator"
            )
        return channels // self.channels_per_accelerator

    def work(self, work: KernelWork) -> KernelWork:
        """Kernel work as these units do it: automorphisms become transforms where they are done so."""
        if self.automorphism is Automorphism.PERMUTATION or not work.automorphism_coefficients:
            return work
        extra = 2 * work.automorphism_coefficients // work.ring_dim
        return replace(work, limb_transforms=work.limb_transforms + extra, automorphism_coefficients=0)

    def price(self, work: KernelWork) -> Cost:
        """Seconds and the binding unit of an operation on one accelerator."""
        cost = self._costs.get(work)
        if cost is None:
            cost = self.machine.price(self.work(work))
            if len(self._costs) >= MOST_COSTS:
                self._costs.clear()
            self._costs[work] = cost
        return cost

    def check_holds(self, params: CkksParameters) -> None:
        """An accelerator works on limbs: the operand, the result and a factor of one have to fit.

        Raises: UsageError: the scratchpad does not hold one limb of a polynomial; the message has both sizes.
        """
        limb = params.polynomial_bytes(1)
        if self.scratchpad.value < limb:
            raise UsageError(
                f"'{self.name}': a scratchpad of {format_bytes(self.scratchpad.value)} has no room for one polynomial "
                f"of parameters '{params.name}', of which a single limb takes {format_bytes(limb)} ({limb} bytes); "
                "give it a larger scratchpad or choose a smaller ring"
            )

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Every value with its path in the file."""
        yield from stated(self, _FIGURES)
        for name, option, source in (
            ("lane", self.lane, self.lane_source),
            ("hoisting", self.hoisting, self.hoisting_source),
        ):
            yield name, Figure(value=0.0, text=option.value, source=source, kind=Evidence.ASSUMED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedScan(Stated):
    """An accelerator known by one published rate of one kind of query, scaled with the channels of the drive."""

    name: str
    title: str
    description: str
    workloads: tuple[str, ...]
    scan: Figure
    """Bytes of database a second and query."""
    scan_channels: Figure
    """Channels of the drive that the rate is of."""

    def bytes_per_s(self, channels: int) -> float:
        """Rate on a drive with so many channels."""
        return self.scan.value * channels / self.scan_channels.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayAdders(Stated):
    """Additions of ciphertexts in the flash array, as fast as it senses."""

    name: str
    title: str
    description: str
    operations: frozenset[OpKind]
    array_share: Figure
    """Share of the sensing rate that additions reach."""

    def check_executes(self, kinds: frozenset[OpKind] | set[OpKind], what: str) -> None:
        """Raises: UsageError: `what` has operations that the array cannot do; the message names them."""
        beyond = sorted(kind.value for kind in kinds - self.operations)
        if beyond:
            raise UsageError(
                f"'{self.name}' only adds, and {what} has {', '.join(beyond)}: use 'fheins', or a program of "
                "additions alone such as 'string-match'"
            )


InStorage: TypeAlias = UnitAccelerator | PublishedScan | ArrayAdders


def with_options(
    accelerator: UnitAccelerator,
    *,
    automorphism: Automorphism | None = None,
    hoisting: Hoisting | None = None,
    lane: LaneWork | None = None,
    scratchpad_bytes: int | None = None,
    slot_bits: int | None = None,
) -> UnitAccelerator:
    """The same accelerator with other options; `None` leaves an option unchanged. Changed values are `assumed`."""

    def given(figure: Figure, value: float, unit: str) -> Figure:
        return replace(figure, value=value, text=f"{value:g} {unit}", source="given", kind=Evidence.ASSUMED)

    changes: Row = {
        "automorphism": automorphism,
        "hoisting": hoisting,
        "lane": lane,
        "scratchpad": None if scratchpad_bytes is None else given(accelerator.scratchpad, scratchpad_bytes, "B"),
        "slot": None if slot_bits is None else given(accelerator.slot, slot_bits, "bit"),
    }
    return replace(accelerator, **{name: value for name, value in changes.items() if value is not None})


def _machine_of(a: UnitAccelerator) -> Machine:
    def rate(engines: Engines, value: float, measure: str) -> UnitRate:
        text = f"{value:g} {measure}/cycle"
        return UnitRate(
            figure=Figure(value=value, text=text, source=engines.source, kind=engines.kind),
            measure=measure,
            per_cycle=True,
        )

    butterflies = a.ntt.words if a.lane is LaneWork.BUTTERFLY else a.ntt.words / 2
    return Machine(
        name=a.name,
        title=a.title,
        description=a.description,
        overlap=Overlap.PIPELINED,
        overlap_source="FHEIns, section III-C: key switching 'in a fully-pipelined fashion' with CG-NTT and BCONV",
        clock=a.clock,
        plaintext_transforms=a.plaintext_transforms,
        units={
            "transforms": rate(a.ntt, butterflies, "butterflies"),
            "base_conversion": rate(a.bconv, a.bconv.words, "MAC"),
            "multiplications": rate(a.modu, a.modu.words, "mult"),
            "additions": rate(a.modu, a.modu.words, "add"),
            "automorphisms": rate(a.modu, a.modu.words, "coeff"),
        },
    )
