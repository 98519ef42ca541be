"""The fields of machine and tier files, as types that refuse what is missing, unknown or of another type."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict, Field


class FigureSpec(BaseModel):
    """One value of a machine file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    value: str = Field(examples=['"… unit"'])
    source: str = Field(examples=['"…"'])
    kind: str = Field(examples=['"datasheet | measured | calibrated | assumed"'])


class UnitsSpec(BaseModel):
    """Rates of the functional units. A unit that is left out never binds."""

    model_config = ConfigDict(extra="forbid", strict=True)

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


class FitErrorSpec(BaseModel):
    """Residuals of one kind of operation, or of all."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: str
    samples: int
    mean_abs: float
    median_abs: float
    p90_abs: float
    worst_abs: float
    bias: float


class CoefficientSpec(BaseModel):
    """One fitted number."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    value: float
    standard_error: float


class FitSpec(BaseModel):
    """How well a fitted machine meets the timings that it was fitted to, and what it covers."""

    model_config = ConfigDict(extra="forbid", strict=True)

    fitted_to: str
    shapes: int
    total_error: float
    spread: float | None = None
    merged: list[str] = Field(default_factory=list)
    common_sd: float | None = None
    kinds: dict[str, float] = Field(default_factory=dict)
    interval_scale: float = 1.0
    scales: dict[str, float] = Field(default_factory=dict)
    unknown_kinds: dict[str, float] = Field(default_factory=dict)
    degrees_of_freedom: float = math.inf
    ranges: dict[str, list[int]] = Field(default_factory=dict)
    errors: list[FitErrorSpec]
    coefficients: list[CoefficientSpec] = Field(default_factory=list)


class ThreadsSpec(BaseModel):
    """How the times of a CPU depend on threads."""

    model_config = ConfigDict(extra="forbid", strict=True)

    count: int
    shared: dict[str, FigureSpec] = Field(default_factory=dict)
    loop: FigureSpec | None = None


class CacheSpec(BaseModel):
    """What data beyond the cache costs."""

    model_config = ConfigDict(extra="forbid", strict=True)

    size: FigureSpec
    beyond: FigureSpec


class ColdSpec(BaseModel):
    """What a program's operations cost more than in a loop over one of them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    log_sd: float = 0.0
    call: FigureSpec | None = None
    operands: FigureSpec | None = None


class ClientSpec(BaseModel):
    """What the client's tasks cost besides their kernel work."""

    model_config = ConfigDict(extra="forbid", strict=True)

    log_sd: float = 0.0
    encode: dict[str, FigureSpec] = Field(default_factory=dict)
    encrypt: dict[str, FigureSpec] = Field(default_factory=dict)
    decrypt: dict[str, FigureSpec] = Field(default_factory=dict)


class RecordingSpec(BaseModel):
    """What the record of a program's calls costs, by term."""

    model_config = ConfigDict(extra="forbid", strict=True)

    log_sd: float = 0.0
    costs: dict[str, FigureSpec] = Field(default_factory=dict)


class CalibratedFactorSpec(BaseModel):
    """What one kind of operation is off its kernel work by, on one number of threads."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: str
    threads: int
    factor: FigureSpec
    ring_dim: float
    limbs: float
    ring_slope: float = 0.0
    limbs_slope: float = 0.0
    timings: int = 0


class CalibratedSpec(BaseModel):
    """Those factors, and the sizes that they are known for."""

    model_config = ConfigDict(extra="forbid", strict=True)

    ring_dim: list[float]
    limbs: list[float]
    factors: list[CalibratedFactorSpec] = Field(default_factory=list)


class PowerSpec(BaseModel):
    """Power while it computes, by threads."""

    model_config = ConfigDict(extra="forbid", strict=True)

    log_sd: float = 0.0
    watts: dict[str, FigureSpec]


class ArchitectureSpec(BaseModel):
    """What an accelerator is made of."""

    model_config = ConfigDict(extra="forbid", strict=True)

    word: FigureSpec | None = None
    ring_dim: FigureSpec | None = None
    clusters: FigureSpec | None = None
    lanes: FigureSpec | None = None
    off_chip: FigureSpec | None = None
    area: FigureSpec | None = None
    technology: FigureSpec | None = None


class MachineSpec(BaseModel):
    """A machine as a TOML file has it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    title: str
    description: str = ""
    native_params: str | None = None
    disputed: list[str] = Field(default_factory=list)
    overlap: str
    overlap_source: str
    units: UnitsSpec
    clock: FigureSpec | None = None
    utilisation: FigureSpec | None = None
    plaintext_transforms: FigureSpec | None = None
    overhead: FigureSpec | None = None
    power: FigureSpec | None = None
    thread_power: PowerSpec | None = None
    idle_power: FigureSpec | None = None
    on_chip: dict[str, FigureSpec] = Field(default_factory=dict)
    architecture: ArchitectureSpec | None = None
    threads: ThreadsSpec | None = None
    cache: CacheSpec | None = None
    cold: ColdSpec | None = None
    client: ClientSpec | None = None
    recording: RecordingSpec | None = None
    calibrated: CalibratedSpec | None = None
    fit: FitSpec | None = None


class TierSpec(BaseModel):
    """A storage or memory tier as a TOML file has it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    title: str
    bandwidth: FigureSpec
    write_bandwidth: FigureSpec | None = None
    latency: FigureSpec | None = None
    energy: FigureSpec | None = None
