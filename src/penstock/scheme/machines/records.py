"""The fields of machine and tier files, as types that refuse missing and unknown values and wrong types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from penstock.base.system.toml import Strict
from penstock.base.units import (
    BYTE_UNITS,
    HERTZ_UNITS,
    JOULE_PER_BYTE_UNITS,
    MM2_UNITS,
    RATE_UNITS,
    SECOND_UNITS,
    WATT_UNITS,
)
from penstock.scheme.machines.report import FitReport


class FigureSpec(Strict):
    """One value of a machine file."""

    value: str = Field(examples=['"… unit"'])
    source: str = Field(examples=['"…"'])
    kind: str = Field(examples=['"datasheet | measured | calibrated | assumed"'])


@dataclass(frozen=True, slots=True)
class Units:
    """How a field's value is written."""

    factors: Mapping[str, float] = field(default_factory=dict)
    """Unit -> factor; units that depend on other values of the file come on top."""
    positive: bool = False
    """Whether it must not be zero."""


def counted(*names: str) -> Units:
    """A number of things, above zero."""
    return Units(dict.fromkeys(names, 1.0), positive=True)


SHARE = {"%": 0.01}


class RecordSpec(Strict):
    """What every file states."""

    name: str
    title: str


class UnitsSpec(Strict):
    """Rates of the functional units. A unit that is left out never binds."""

    transforms: FigureSpec
    base_conversion: FigureSpec | None = None
    conversions: FigureSpec | None = None
    multiplications: FigureSpec | None = None
    key_products: FigureSpec | None = None
    constant_products: FigureSpec | None = None
    additions: FigureSpec | None = None
    automorphisms: FigureSpec | None = None
    index_maps: FigureSpec | None = None
    results: FigureSpec | None = None
    memory: FigureSpec | None = None


class ThreadsSpec(Strict):
    """How the times of a CPU depend on threads."""

    count: int
    shared: dict[str, FigureSpec] = Field(default_factory=dict)
    loop: Annotated[FigureSpec | None, Units(SECOND_UNITS)] = None


class CacheSpec(Strict):
    """The cost of data beyond the cache."""

    size: Annotated[FigureSpec, Units(BYTE_UNITS)]
    beyond: Annotated[FigureSpec, Units(RATE_UNITS, positive=True)]


class ColdSpec(Strict):
    """What a program's operations cost more than in a loop over one of them."""

    log_sd: float = 0.0
    call: Annotated[FigureSpec | None, Units(SECOND_UNITS)] = None
    operands: Annotated[FigureSpec | None, Units(RATE_UNITS, positive=True)] = None


class ClientSpec(Strict):
    """What the client's tasks cost besides their kernel work."""

    log_sd: float = 0.0
    encode: dict[str, FigureSpec] = Field(default_factory=dict)
    encrypt: dict[str, FigureSpec] = Field(default_factory=dict)
    decrypt: dict[str, FigureSpec] = Field(default_factory=dict)


class RecordingSpec(Strict):
    """The cost of recording a program's calls, by term."""

    log_sd: float = 0.0
    costs: dict[str, FigureSpec] = Field(default_factory=dict)


class CalibratedFactorSpec(Strict):
    """The factor between the time of one kind of operation and its kernel work, on one number of threads."""

    kind: str
    threads: int
    factor: FigureSpec
    ring_dim: float
    limbs: float
    ring_slope: float = 0.0
    limbs_slope: float = 0.0
    limbs_curve: float = 0.0
    timings: int = 0


class CalibratedSpec(Strict):
    """Those factors, and the sizes that they are known for."""

    ring_dim: list[float]
    limbs: list[float]
    factors: list[CalibratedFactorSpec] = Field(default_factory=list)


class PowerSpec(Strict):
    """Power while it computes, by threads."""

    log_sd: float = 0.0
    watts: dict[str, FigureSpec]


class ArchitectureSpec(Strict):
    """The parts of an accelerator."""

    word: Annotated[FigureSpec | None, counted("bit", "bits")] = None
    ring_dim: Annotated[FigureSpec | None, counted("points")] = None
    clusters: Annotated[FigureSpec | None, counted("clusters", "cluster")] = None
    lanes: Annotated[FigureSpec | None, counted("lanes", "lane")] = None
    off_chip: Annotated[FigureSpec | None, Units(RATE_UNITS, positive=True)] = None
    area: Annotated[FigureSpec | None, Units(MM2_UNITS, positive=True)] = None
    technology: Annotated[FigureSpec | None, counted("nm")] = None


class DatapathSpec(Strict):
    """The inside of an accelerator, for schedules of kernels."""

    ports: dict[str, FigureSpec] = Field(default_factory=dict)
    latency: dict[str, FigureSpec] = Field(default_factory=dict)
    chaining: Annotated[FigureSpec | None, Units({"point": 1.0, "points": 1.0})] = None
    scratchpad: Annotated[FigureSpec | None, Units(BYTE_UNITS)] = None
    scratchpad_bandwidth: Annotated[FigureSpec | None, Units(RATE_UNITS)] = None
    register_file: Annotated[FigureSpec | None, Units(BYTE_UNITS)] = None
    register_bandwidth: Annotated[FigureSpec | None, Units(RATE_UNITS)] = None
    network: Annotated[FigureSpec | None, Units(RATE_UNITS)] = None
    efficiency: Annotated[FigureSpec | None, Units(SHARE)] = None


class RooflineSpec(Strict):
    """The hardware of a GPU, and the instructions of a library's kernels on it."""

    multiprocessors: Annotated[FigureSpec, counted("multiprocessors", "multiprocessor")]
    integers: Annotated[FigureSpec, Units(positive=True)]
    tensor: Annotated[FigureSpec | None, Units(positive=True)] = None
    butterfly: Annotated[FigureSpec, counted("instructions", "instruction")]
    product: Annotated[FigureSpec, counted("instructions", "instruction")]
    multiply_add: Annotated[FigureSpec, counted("instructions", "instruction")]
    sum: Annotated[FigureSpec, counted("instructions", "instruction")]
    passes: Annotated[FigureSpec, counted("passes", "pass")]
    memory: Annotated[FigureSpec, Units(RATE_UNITS, positive=True)]
    latency: Annotated[FigureSpec, Units(SECOND_UNITS, positive=True)]
    threads: Annotated[FigureSpec, counted("threads", "thread")]
    points: Annotated[FigureSpec, counted("points", "point")]
    launch: Annotated[FigureSpec, Units(SECOND_UNITS, positive=True)]


class KernelRateSpec(Strict):
    """A measured kernel of a GPU."""

    rate: FigureSpec
    start: Annotated[FigureSpec | None, Units(SECOND_UNITS, positive=True)] = None


class GpuSpec(Strict):
    """A library on a GPU."""

    batch: Annotated[FigureSpec | None, counted("ciphertexts", "ciphertext")] = None
    inputs: Annotated[FigureSpec | None, counted("inputs", "input")] = None
    fused: list[str] = Field(default_factory=list)
    fused_source: str = ""
    joined: bool = False
    roofline: RooflineSpec | None = None
    kernels: dict[str, KernelRateSpec] = Field(default_factory=dict)


class MachineSpec(RecordSpec):
    """A machine as a TOML file has it."""

    description: str = ""
    native_params: str | None = None
    disputed: list[str] = Field(default_factory=list)
    overlap: str
    overlap_source: str
    units: UnitsSpec | None = None
    gpu: GpuSpec | None = None
    clock: Annotated[FigureSpec | None, Units(HERTZ_UNITS, positive=True)] = None
    utilisation: Annotated[FigureSpec | None, Units(SHARE, positive=True)] = None
    plaintext_transforms: Annotated[FigureSpec | None, Units({"transforms/limb": 1.0, "transform/limb": 1.0})] = None
    overhead: Annotated[FigureSpec | None, Units(SECOND_UNITS)] = None
    power: Annotated[FigureSpec | None, Units(WATT_UNITS, positive=True)] = None
    thread_power: PowerSpec | None = None
    idle_power: Annotated[FigureSpec | None, Units(WATT_UNITS)] = None
    on_chip: dict[str, FigureSpec] = Field(default_factory=dict)
    architecture: ArchitectureSpec | None = None
    datapath: DatapathSpec | None = None
    threads: ThreadsSpec | None = None
    cache: CacheSpec | None = None
    cold: ColdSpec | None = None
    client: ClientSpec | None = None
    recording: RecordingSpec | None = None
    calibrated: CalibratedSpec | None = None
    fit: FitReport | None = None


class TierSpec(RecordSpec):
    """A storage or memory tier as a TOML file has it."""

    bandwidth: Annotated[FigureSpec, Units(RATE_UNITS, positive=True)]
    write_bandwidth: Annotated[FigureSpec | None, Units(RATE_UNITS, positive=True)] = None
    latency: Annotated[FigureSpec | None, Units(SECOND_UNITS)] = None
    energy: Annotated[FigureSpec | None, Units(JOULE_PER_BYTE_UNITS)] = None
