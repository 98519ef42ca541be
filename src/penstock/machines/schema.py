"""Machines and tiers, checked and frozen: what prices kernel work. `penstock.machines.spec` is their written form.

Every value says where it comes from (`source`) and how far to trust it (`kind`). Reports repeat every `assumed` and
`calibrated` one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from penstock.files import write_atomic
from penstock.kernels import KernelWork


class Evidence(str, Enum):
    """How far a value can be trusted."""

    DATASHEET = "datasheet"
    """Stated by a datasheet or a paper."""
    MEASURED = "measured"
    CALIBRATED = "calibrated"
    """Chosen so that the model meets a stated measurement; `source` says which."""
    ASSUMED = "assumed"

    def __str__(self) -> str:
        return self.value


class Overlap(str, Enum):
    """How the units of a machine share the work of one operation."""

    PIPELINED = "pipelined"
    """All units run at once: the slowest binds."""
    IN_TURN = "in-turn"
    """One kernel after another: times add up."""

    def __str__(self) -> str:
        return self.value


# What one limb transform of N points is, in the measure of a machine's rate.
TRANSFORM_MEASURES: dict[str, Callable[[int], float]] = {
    "points": lambda n: float(n),  # a pipelined transform unit: N points stream through
    "butterflies": lambda n: n / 2 * math.log2(n),  # radix-2 steps, one after another
    "products": lambda n: 2 * n * math.sqrt(n),  # two matrix products of the four-step transform
}
UNIT_MEASURES: dict[str, tuple[str, ...]] = {
    "transforms": tuple(TRANSFORM_MEASURES),
    "base_conversion": ("MAC",),
    "multiplications": ("mult",),
    "additions": ("add",),
    "automorphisms": ("coeff",),
    "memory": ("B",),
}
"""Unit -> measures in which its rate may be given, each per second or per cycle."""

OVERHEAD = "overhead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One checked value: in base units, as it was written, and where it comes from."""

    value: float
    text: str
    source: str
    kind: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRate:
    """Rate of one functional unit. `figure.value` is in measures a second, or a cycle where `per_cycle`."""

    figure: Figure
    measure: str
    per_cycle: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one piece of work costs on a machine."""

    seconds: float
    joules: float | None
    """`None` where the machine's power is not known."""
    bound_by: str
    """The unit that binds (pipelined) or takes longest (in turn), or `overhead`."""
    per_unit: dict[str, float]
    """Seconds of each unit, utilisation included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitError:
    """Relative errors (predicted / measured - 1) of one kind of operation, or of all (`kind` is `all`)."""

    kind: str
    samples: int
    mean_abs: float
    median_abs: float
    p90_abs: float
    worst_abs: float
    bias: float
    """Signed mean."""


ALL_KINDS = "all"
DISTURBED = 0.2
"""Spread of repeated timings, and error of their sum, from which a fit carries a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitReport:
    """How well a fitted machine meets the timings that it was fitted to."""

    fitted_to: str
    shapes: int
    """Distinct (kind, limbs, …) among the samples."""
    total_error: float
    """Relative error of the summed time of all samples."""
    spread: float | None
    """Interquartile range over median of the times of one shape, median over the shapes timed 4 times or more."""
    merged: tuple[str, ...]
    """Kernels that the timings could not tell apart, and what was done."""
    errors: tuple[FitError, ...]
    """Of all samples first, then of each kind."""

    @property
    def overall(self) -> FitError:
        """Of all samples."""
        return next(error for error in self.errors if error.kind == ALL_KINDS)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the fit less than it seems, with the remedy."""
        found = []
        if self.spread is not None and self.spread > DISTURBED:
            found.append(
                f"the times of one and the same operation spread by {self.spread:.0%}: other processes disturbed them; "
                "repeat the run on a quiet machine"
            )
        if abs(self.total_error) > DISTURBED:
            found.append(
                f"the fitted machine is {self.total_error:+.0%} off the time of the operations that it was fitted to; "
                "do not trust its predictions to less than that"
            )
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine that prices kernel work. Built by `penstock.machines.spec.machine_from_spec`."""

    name: str
    title: str
    description: str
    native_params: str | None = None
    """The parameter set that the machine was built for; programs traced for it take this set."""
    overlap: Overlap
    overlap_source: str
    units: Mapping[str, UnitRate]
    clock: Figure | None = None
    """Hertz."""
    utilisation: Figure | None = None
    """Share of the peak rates that is reached; 1 where it is not given."""
    plaintext_transforms: Figure | None = None
    """Transforms to make one limb of a plaintext operand on chip; 0 where it is not given."""
    overhead: Figure | None = None
    """Seconds that every operation costs besides its kernels."""
    power: Figure | None = None
    """Watts while it computes."""
    on_chip: Mapping[str, Figure] = field(default_factory=dict)
    """Bytes of each on-chip memory."""
    fit: FitReport | None = None
    _seconds: Mapping[str, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        clock = self.clock.value if self.clock else math.nan
        share = self.utilisation.value if self.utilisation else 1.0
        seconds = {
            unit: 1.0 / (rate.figure.value * (clock if rate.per_cycle else 1.0) * share)
            for unit, rate in self.units.items()
        }
        object.__setattr__(self, "_seconds", seconds)

    @property
    def on_chip_bytes(self) -> int:
        """Capacity of all on-chip memories together, 0 where none is known."""
        return round(sum(figure.value for figure in self.on_chip.values()))

    def price(self, work: KernelWork) -> Cost:
        """Seconds, joules and the binding unit of one operation's work.

        Pure and deterministic; a unit without a rate takes no time.
        """
        transforms = float(work.limb_transforms)
        if self.plaintext_transforms is not None:
            transforms += self.plaintext_transforms.value * work.plaintext_limbs
        if transforms:
            transforms *= TRANSFORM_MEASURES[self.units["transforms"].measure](work.ring_dim)
        amounts = {
            "transforms": transforms,
            "base_conversion": work.bconv_macs,
            "multiplications": work.elementwise_mults,
            "additions": work.elementwise_adds,
            "automorphisms": work.automorphism_coefficients,
            "memory": work.key_bytes
            + work.plaintext_bytes
            + work.ciphertext_read_bytes
            + work.ciphertext_write_bytes,
        }  # fmt: skip
        per_unit = {unit: amounts[unit] * each for unit, each in self._seconds.items()}
        slowest = max(per_unit, key=lambda unit: per_unit[unit])
        overhead = self.overhead.value if self.overhead else 0.0
        kernels = per_unit[slowest] if self.overlap is Overlap.PIPELINED else sum(per_unit.values())
        seconds = kernels + overhead
        return Cost(
            seconds=seconds,
            joules=seconds * self.power.value if self.power else None,
            bound_by=slowest if per_unit[slowest] > overhead else OVERHEAD,
            per_unit=per_unit,
        )

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Every value with its path in the file."""
        for unit, rate in self.units.items():
            yield f"units.{unit}", rate.figure
        for name in ("clock", "utilisation", "plaintext_transforms", "overhead", "power"):
            figure = getattr(self, name)
            if figure is not None:
                yield name, figure
        for name, figure in self.on_chip.items():
            yield f"on_chip.{name}", figure

    def to_toml(self) -> str:
        """The machine file; `load_machine` reads it back."""
        from penstock.machines.spec import spec_of, to_toml

        return to_toml(spec_of(self))

    def write_toml(self, path: Path, *, force: bool = False) -> None:
        """Write the machine file; it appears when it is whole.

        Raises: WouldOverwrite: `path` exists and not `force`. FileError: the file system refused.
        """
        write_atomic(path, self.to_toml().encode(), force=force)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Where data that is not resident comes from."""

    name: str
    title: str
    bandwidth_bytes_per_s: float
    latency_s: float
    energy_j_per_byte: float | None
    """`None` where it is not known: missing is not zero."""
    source: str
    kind: Evidence


def assumptions(machine: Machine) -> list[dict[str, str]]:
    """Every value of a machine that is assumed or calibrated, for reports to repeat.

    Each has `machine`, `field` (its path in the file), `value` (as written, with its unit), `kind` and `source`.
    """
    return [
        {"machine": machine.name, "field": path, "value": each.text, "kind": each.kind.value, "source": each.source}
        for path, each in machine.figures()
        if each.kind in (Evidence.ASSUMED, Evidence.CALIBRATED)
    ]
