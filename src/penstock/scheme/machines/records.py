"""The fields of machine and tier files, as types that refuse missing and unknown values and wrong types."""

from __future__ import annotations

from pydantic import Field

from penstock.base.system.toml import Strict
from penstock.scheme.machines.report import FitReport


class FigureSpec(Strict):
    """One value of a machine file."""

    value: str = Field(examples=['"… unit"'])
    source: str = Field(examples=['"…"'])
    kind: str = Field(examples=['"datasheet | measured | calibrated | assumed"'])


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
    loop: FigureSpec | None = None


class CacheSpec(Strict):
    """The cost of data beyond the cache."""

    size: FigureSpec
    beyond: FigureSpec


class ColdSpec(Strict):
    """What a program's operations cost more than in a loop over one of them."""

    log_sd: float = 0.0
    call: FigureSpec | None = None
    operands: FigureSpec | None = None


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

    word: FigureSpec | None = None
    ring_dim: FigureSpec | None = None
    clusters: FigureSpec | None = None
    lanes: FigureSpec | None = None
    off_chip: FigureSpec | None = None
    area: FigureSpec | None = None
    technology: FigureSpec | None = None


class DatapathSpec(Strict):
    """The inside of an accelerator, for schedules of kernels."""

    ports: dict[str, FigureSpec] = Field(default_factory=dict)
    latency: dict[str, FigureSpec] = Field(default_factory=dict)
    chaining: FigureSpec | None = None
    scratchpad: FigureSpec | None = None
    scratchpad_bandwidth: FigureSpec | None = None
    register_file: FigureSpec | None = None
    register_bandwidth: FigureSpec | None = None
    network: FigureSpec | None = None
    efficiency: FigureSpec | None = None


class RooflineSpec(Strict):
    """The hardware of a GPU, and the instructions of a library's kernels on it."""

    multiprocessors: FigureSpec
    integers: FigureSpec
    tensor: FigureSpec | None = None
    butterfly: FigureSpec
    product: FigureSpec
    multiply_add: FigureSpec
    sum: FigureSpec
    passes: FigureSpec
    memory: FigureSpec
    latency: FigureSpec
    threads: FigureSpec
    points: FigureSpec
    launch: FigureSpec


class KernelRateSpec(Strict):
    """A measured kernel of a GPU."""

    rate: FigureSpec
    start: FigureSpec | None = None


class GpuSpec(Strict):
    """A library on a GPU."""

    batch: FigureSpec | None = None
    inputs: FigureSpec | None = None
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
    clock: FigureSpec | None = None
    utilisation: FigureSpec | None = None
    plaintext_transforms: FigureSpec | None = None
    overhead: FigureSpec | None = None
    power: FigureSpec | None = None
    thread_power: PowerSpec | None = None
    idle_power: FigureSpec | None = None
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

    bandwidth: FigureSpec
    write_bandwidth: FigureSpec | None = None
    latency: FigureSpec | None = None
    energy: FigureSpec | None = None
