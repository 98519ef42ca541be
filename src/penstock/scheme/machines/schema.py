"""Machines and tiers, checked and frozen: what prices kernel work. `penstock.scheme.machines.spec` is their written
form.

Every value says where it comes from (`source`) and how far to trust it (`kind`). Reports repeat every `assumed` and
`calibrated` one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from penstock.errors import MachineError
from penstock.scheme.machines.architecture import Architecture
from penstock.scheme.machines.calibration import Calibration
from penstock.scheme.machines.client import ClientModel
from penstock.scheme.machines.cold import ColdModel
from penstock.scheme.machines.datapath import Datapath
from penstock.scheme.machines.figure import Evidence, Figure, figures_in
from penstock.scheme.machines.gpu.model import PARTS, Gpu, word_bytes_of
from penstock.scheme.machines.parallel import (
    CACHE,
    LOOPS,
    CacheModel,
    ThreadModel,
    beyond_cache,
    loop_starts,
    unit_shares,
)
from penstock.scheme.machines.power import PowerModel
from penstock.scheme.machines.record_cost import RecordingModel
from penstock.scheme.machines.report import ALL_KINDS as ALL_KINDS
from penstock.scheme.machines.report import DISTURBED as DISTURBED
from penstock.scheme.machines.report import Coefficient as Coefficient
from penstock.scheme.machines.report import FitError as FitError
from penstock.scheme.machines.report import FitReport as FitReport
from penstock.scheme.machines.transferred import EFFECTIVE
from penstock.scheme.operations import Word
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.work.kernel_work import KernelWork
from penstock.scheme.work.units import ARITHMETIC, MULTIPLICATIONS, apart, unit_amounts
from penstock.scheme.work.units import UNIT_MEASURES as UNIT_MEASURES


class Overlap(Word):
    """How the units of a machine share the work of one operation."""

    PIPELINED = "pipelined"
    """All units run at once: the slowest binds."""
    IN_TURN = "in-turn"
    """One kernel after another: times add up."""


class InsideModel(Word):
    """The model of the time of one operation on a machine."""

    UNITS = "units"
    """The work of its units at one utilisation: the slowest binds, or all add up."""
    SCHEDULE = "schedule"
    """A schedule of its kernels, limb by limb, on the ports of the units."""


# The work of one limb transform of N points, in the unit of a machine's rate.
TRANSFORM_MEASURES: dict[str, Callable[[int], float]] = {
    "points": lambda n: float(n),  # a pipelined transform unit: N points stream through
    "butterflies": lambda n: n / 2 * math.log2(n),  # radix-2 steps, one after another
    "products": lambda n: 2 * n * math.sqrt(n),  # two matrix products of the four-step transform
}
OVERHEAD = "overhead"
_FITTED = ("thread_power.", "threads.", "cache.", "cold.", "client.", "recording.", "calibrated.")
"""Paths of the values that `penstock predict fit` writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRate:
    """Rate of one functional unit. `figure.value` is in measures a second, or a cycle where `per_cycle`."""

    figure: Figure
    measure: str
    per_cycle: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The price of one piece of work on a machine."""

    seconds: float
    joules: float | None
    """`None` where the machine's power is not known."""
    bound_by: str
    """The part that binds (pipelined) or takes longest (in turn): one of the machine's `parts`."""
    per_unit: dict[str, float]
    """Seconds of each unit, utilisation included, and of what threads and the cache add."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine that prices kernel work. Built by `penstock.scheme.machines.spec.machine_from_spec`."""

    name: str
    title: str
    description: str
    native_params: str | None = None
    """The parameter set that the machine was built for; programs traced for it take this set."""
    disputed: tuple[str, ...] = ()
    """Contradictions between published values of the machine, and the value in the file."""
    overlap: Overlap
    overlap_source: str
    units: Mapping[str, UnitRate]
    """Empty where `gpu` prices kernels."""
    gpu: Gpu | None = None
    """A GPU's kernels as launches, in place of rates of units."""
    clock: Figure | None = None
    """Hertz."""
    utilisation: Figure | None = None
    """Share of the peak rates that is reached. `None`: the rates are effective, and 1 is taken."""
    plaintext_transforms: Figure | None = None
    """Transforms to make one limb of a plaintext operand on chip from the one that is loaded; 0 where it is not given,
    and all limbs are loaded."""
    overhead: Figure | None = None
    """Seconds that every operation costs besides its kernels."""
    power: Figure | None = None
    """Watts while it computes."""
    thread_power: PowerModel | None = None
    """Watts while it computes, by threads; goes before `power`."""
    idle_power: Figure | None = None
    """Watts without work: part of the above."""
    on_chip: Mapping[str, Figure] = field(default_factory=dict)
    """Bytes of each on-chip memory."""
    architecture: Architecture = field(default_factory=Architecture)
    """Its parts; not in `price`."""
    datapath: Datapath = field(default_factory=Datapath)
    """Its inside, for schedules of kernels; not in `price`."""
    threads: ThreadModel | None = None
    """The dependence of times on threads; `None`: the rates are those of all threads of the machine."""
    cache: CacheModel | None = None
    cold: ColdModel | None = None
    """The extra cost of operations in a program over a loop; not in `price`."""
    client: ClientModel | None = None
    """What encoding, encryption and decryption cost besides their kernel work; not in `price`."""
    recording: RecordingModel | None = None
    """The cost of recording a program's calls; not in `price`."""
    calibrated: Calibration | None = None
    """The factors of kinds of operations on their kernel work; not in `price`, which sees the work only: `factor`."""
    fit: FitReport | None = None
    inside: InsideModel = InsideModel.UNITS
    """What a program's operations take; not in its file, and not in `price`."""
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

    def warnings(self, params: CkksParameters) -> tuple[str, ...]:
        """What makes its times at a parameter set less than they seem, with the remedy."""
        remarks = []
        share = self.utilisation
        if self.inside is InsideModel.SCHEDULE:
            return tuple(self._warnings_of_schedules())
        if share is not None and self.is_uncalibrated:
            # Launches and latencies of a GPU do not scale with it.
            scales = share.value < 1 and self.gpu is None
            peak = f" With all units at their peak its times would be {share.value:.3g} of these." if scales else ""
            remarks.append(
                f"machine '{self.name}' is calibrated to nothing: its utilisation of {share.text} is assumed."
                f"{peak} No measurement bounds its times from above; give a machine file "
                "with the utilisation of a published bootstrapping to do better"
            )
        if self.peaks_as_stated:
            peaks = ", ".join(unit for unit, rate in self.units.items() if rate.figure.kind not in EFFECTIVE)
            remarks.append(
                f"machine '{self.name}' states no utilisation: 100 % of its rates are taken, which nobody measured for "
                f"{peaks}; its times are a lower bound: add a [utilisation] table to its file"
            )
        misfit = self.architecture.misfit(self.name, params)
        return (*remarks, *([misfit] if misfit else []))

    def _warnings_of_schedules(self) -> Iterator[str]:
        if self.is_uncalibrated:
            yield (
                f"machine '{self.name}' is calibrated to nothing: the efficiency of its schedules is assumed. Give "
                "its file a datapath.efficiency that meets a published bootstrapping to do better"
            )
        gaps = [f"{path}: {meaning}" for path, meaning in self.datapath.gaps()]
        if gaps:
            yield f"machine '{self.name}' does not state {'; '.join(gaps)}"

    @property
    def is_uncalibrated(self) -> bool:
        """Whether the share of its rates that it reaches is assumed: no published run of it was used."""
        if self.inside is InsideModel.SCHEDULE:
            return self.datapath.efficiency is None or self.datapath.efficiency.kind is Evidence.ASSUMED
        return self.utilisation is not None and self.utilisation.kind is Evidence.ASSUMED

    @property
    def peaks_as_stated(self) -> bool:
        """Whether peak rates are taken at 100 % because there is neither a utilisation nor a fit."""
        rates = (rate.figure.kind for rate in self.units.values())
        return self.utilisation is None and self.fit is None and any(kind not in EFFECTIVE for kind in rates)

    @property
    def unit_seconds(self) -> Mapping[str, float]:
        """Unit -> seconds that one of its measure takes on one thread, utilisation included."""
        return self._seconds

    @property
    def parts(self) -> tuple[str, ...]:
        """All that the time of an operation is made of: the units, what threads and the cache add, and `overhead`."""
        threads = (LOOPS,) if self.threads else ()
        return (*(self.units if self.gpu is None else PARTS), *threads, *((CACHE,) if self.cache else ()), OVERHEAD)

    @property
    def watts(self) -> float | None:
        """Power while it computes with the threads that it stands at; `None` where it is not known."""
        if self.thread_power is not None and self.thread_count is not None:
            return self.thread_power.at(self.thread_count)
        return self.power.value if self.power is not None else None

    @property
    def stated_power(self) -> Figure | None:
        """The figure that `watts` rests on: the one for the nearest number of threads that was measured."""
        if self.thread_power is not None and self.thread_count is not None:
            return self.thread_power.nearest(self.thread_count)
        return self.power

    @property
    def thread_count(self) -> int | None:
        """Threads inside one operation that the times are of; `None` where the machine does not say."""
        if self.threads is not None:
            return self.threads.count
        measured = self.fit.ranges.get("threads") if self.fit else None
        return measured[0] if measured else None

    def at(self, threads: int) -> Machine:
        """The same machine with so many threads inside one operation.

        Raises: MachineError: fewer than one; another number than the only one that the machine was measured at.
        """
        if threads < 1:
            raise MachineError(f"machine '{self.name}' at {threads} threads: at least one thread works")
        if self.threads is not None:
            if threads == self.threads.count:
                return self
            return replace(self, threads=replace(self.threads, count=threads))
        known = self.thread_count
        if known is not None and known != threads:
            raise MachineError(
                f"machine '{self.name}' was fitted at {known} thread{'s' if known > 1 else ''} only, so its time at "
                f"{threads} is not known: measure primitives at two numbers of threads or more "
                f"('penstock bench run --threads 1,{max(threads, 2)}') and fit again"
            )
        return self

    def extrapolations(
        self, params: CkksParameters, limbs: tuple[int, int] | None = None, threads: int | None = None
    ) -> list[str]:
        """The parts of a prediction outside of the machine's measurements, with the remedy.

        Args:   limbs: fewest and most limbs of its operations; threads: default the machine's own.
        """
        if self.fit is None:
            return []
        asked = {"ring_dim": params.ring_dim, "dnum": params.dnum, "depth": params.depth}
        beyond = [self.fit.beyond(name, value, value) for name, value in asked.items()]
        if limbs is not None:
            beyond.append(self.fit.beyond("limbs", *limbs))
        count = self.thread_count if threads is None else threads
        if count is not None:
            beyond.append(self.fit.beyond("threads", count, count))
        return [text for text in beyond if text is not None]

    @property
    def extends_plaintexts(self) -> bool:
        """Whether a plaintext is stored as one limb and the others are made on chip (on-the-fly limb extension)."""
        return self.plaintext_transforms is not None and self.plaintext_transforms.value > 0

    def factor(self, kind: str, ring_dim: int, limbs: int) -> float:
        """The factor on the price of an operation of this kind; 1 without a calibration."""
        if self.calibrated is None:
            return 1.0
        return self.calibrated.factor(kind, ring_dim, limbs, self.thread_count or 1)

    def price(self, work: KernelWork, together: float = 1.0) -> Cost:
        """Seconds, joules and the binding unit of one operation's work.

        Pure and deterministic; a unit without a rate takes no time.

        Args:   together: operations like it that are ready at once, this one among them. They share the launches of
                a GPU, as far as its batch goes; other machines take each for itself.
        """
        if self.gpu is not None:
            per_unit = self.gpu.seconds(
                work,
                word_bytes=word_bytes_of(self.architecture.word),
                share=self.utilisation.value if self.utilisation else 1.0,
                together=together,
                plaintexts=self.plaintext_transforms.value if self.plaintext_transforms else 0.0,
            )
        else:
            per_unit = self._unit_seconds(work)
        slowest = max(per_unit, key=lambda unit: per_unit[unit])
        overhead = self.overhead.value if self.overhead else 0.0
        kernels = per_unit[slowest] if self.overlap is Overlap.PIPELINED else sum(per_unit.values())
        seconds = kernels + overhead
        return Cost(
            seconds=seconds,
            joules=None if (watts := self.watts) is None else seconds * watts,
            bound_by=slowest if per_unit[slowest] > overhead else OVERHEAD,
            per_unit=per_unit,
        )

    def lacks(self, work: KernelWork) -> bool:
        """Whether a kernel of the work has no rate, so that a price is at most a lower bound.

        Memory aside: an accelerator states none, and its transfers are simulated. A fit finds what costs nothing.
        """
        if self.gpu is not None:
            return self.gpu.lacks(work)
        amounts = unit_amounts(work)
        if self.fit is None and any(amounts[unit] for unit in ARITHMETIC if unit not in self.units):
            return True
        return bool(work.limb_transforms or any(amounts.values())) and self.price(work).seconds == 0

    def _unit_seconds(self, work: KernelWork) -> dict[str, float]:
        """Seconds of each unit, and of what threads and the cache add."""
        transforms = float(work.limb_transforms)
        if self.plaintext_transforms is not None:
            transforms += self.plaintext_transforms.value * work.plaintext_limbs
        if transforms:
            transforms *= TRANSFORM_MEASURES[self.units["transforms"].measure](work.ring_dim)
        amounts = unit_amounts(work)
        amounts["transforms"] = transforms
        for unit in apart(self.units):
            amounts[MULTIPLICATIONS] -= amounts[unit]
        per_unit = {unit: amounts[unit] * seconds for unit, seconds in self._seconds.items()}
        if self.threads is not None:
            for unit, share in unit_shares(work, self.threads.count).items():
                if unit in per_unit:
                    shared = self.threads.shared[unit].value if unit in self.threads.shared else 0.0
                    per_unit[unit] = share * per_unit[unit] + (1.0 - share) * shared * amounts[unit]
            starts = loop_starts(work, self.threads.count)
            per_unit[LOOPS] = starts * self.threads.loop.value if self.threads.loop else 0.0
        if self.cache is not None:
            per_unit[CACHE] = beyond_cache(work, self.cache.size.value) / self.cache.beyond.value
        return per_unit

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Every value with its path in the file, those of measurements last."""
        return iter(sorted(figures_in(self, ""), key=lambda stated: stated[0].startswith(_FITTED)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """The source of data that is not resident."""

    name: str
    title: str
    bandwidth_bytes_per_s: float
    latency_s: float
    energy_j_per_byte: float | None
    """`None` where it is not known: missing is not zero."""
    source: str
    kind: Evidence
    write_bandwidth_bytes_per_s: float | None = None
    """`None` where it is not stated."""
    figures: tuple[tuple[str, Figure], ...] = ()
    """Field -> value, of its file."""


def assumed(what: str, name: str, figures: Iterable[tuple[str, Figure]]) -> list[dict[str, str]]:
    """The assumed and calibrated ones of these values, for reports to repeat.

    Each has `what` (a machine, say) with its `name`, `field` (its path in the file), `value` (as written, with its
    unit), `kind` and `source`.
    """
    return [
        {what: name, "field": path, "value": figure.text, "kind": figure.kind.value, "source": figure.source}
        for path, figure in figures
        if figure.kind in (Evidence.ASSUMED, Evidence.CALIBRATED)
    ]
