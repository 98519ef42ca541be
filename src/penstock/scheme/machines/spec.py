"""Machines and tiers as a person writes them: TOML, strings with units; checked in one function each."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING

from penstock.base.types import Row, RowView
from penstock.base.units import (
    BYTE_UNITS,
    RATE_UNITS,
    SECOND_UNITS,
    WATT_UNITS,
    parse_bytes,
)
from penstock.errors import MachineError, UnitError, UnknownName
from penstock.scheme.machines.architecture import Architecture, architecture_from_spec
from penstock.scheme.machines.calibration_file import calibration_from_spec, calibration_spec
from penstock.scheme.machines.client import TERMS, ClientModel
from penstock.scheme.machines.cold import ColdModel
from penstock.scheme.machines.datapath import Datapath, datapath_from_spec
from penstock.scheme.machines.figure import Figure
from penstock.scheme.machines.files import check_name, choice, figure, figures
from penstock.scheme.machines.gpu.file import PREFIXES, gpu_from_spec
from penstock.scheme.machines.gpu.model import Gpu
from penstock.scheme.machines.parallel import CacheModel, ThreadModel
from penstock.scheme.machines.power import PowerModel
from penstock.scheme.machines.record_cost import MEASURES, RecordingModel
from penstock.scheme.machines.records import (
    ClientSpec,
    ColdSpec,
    FigureSpec,
    MachineSpec,
    PowerSpec,
    RecordingSpec,
    ThreadsSpec,
    TierSpec,
)
from penstock.scheme.machines.schema import (
    ALL_KINDS,
    UNIT_MEASURES,
    FitReport,
    Machine,
    Overlap,
    Tier,
    UnitRate,
)
from penstock.scheme.machines.transferred import donor_utilisation, taken_utilisation
from penstock.scheme.params import catalogue

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def machine_from_spec(spec: MachineSpec, where: str) -> Machine:
    """The checked machine. All rules are here; `where` names the file in messages.

    Raises: MachineError: a unit is missing or unknown, a value is negative or zero where it must not be, a rate per
            cycle without a clock, an empty source, an unknown kind, a parameter set that does not exist.
    """
    check_name(spec.name, where, "machine")
    native = spec.native_params
    if native is not None and not native.endswith(".toml") and native not in catalogue.names():
        raise MachineError(f"{where}: native_params: {UnknownName('parameter set', native, catalogue.names())}")
    overlap = choice(Overlap, spec.overlap, where, "overlap")
    if not spec.overlap_source.strip():
        raise MachineError(f"{where}: overlap_source is empty; say why the units overlap or do not")
    stated: Row = figures(spec, where)
    clock = stated.get("clock")
    units = _units(spec, clock, where)
    gpu = _gpu(spec, clock, overlap, where)
    utilisation = stated.pop("utilisation", None)
    if utilisation is not None and utilisation.value > 1:
        raise MachineError(f"{where}: utilisation {utilisation.text} is over 100 %; it is the share of the peak rates")
    return Machine(
        name=spec.name,
        title=spec.title,
        description=spec.description,
        native_params=spec.native_params,
        disputed=tuple(spec.disputed),
        overlap=overlap,
        overlap_source=spec.overlap_source,
        units=units,
        gpu=gpu,
        **stated,
        utilisation=taken_utilisation(
            utilisation,
            [*(rate.figure for rate in units.values()), *(gpu.rates() if gpu else ())],
            fitted=spec.fit is not None,
        ),
        thread_power=None if spec.thread_power is None else _thread_power(spec.thread_power, where),
        on_chip={
            name: _whole_bytes(figure(written, where, f"on_chip.{name}", BYTE_UNITS, positive=True), where, name)
            for name, written in spec.on_chip.items()
        },
        architecture=Architecture() if spec.architecture is None else architecture_from_spec(spec.architecture, where),
        datapath=Datapath() if spec.datapath is None else datapath_from_spec(spec.datapath, units, clock, where),
        threads=None if spec.threads is None else _threads(spec.threads, units, where),
        cache=None if spec.cache is None else CacheModel(**figures(spec.cache, where, "cache.")),
        cold=None if spec.cold is None else _cold(spec.cold, where),
        client=None if spec.client is None else _client(spec.client, where),
        recording=None if spec.recording is None else _recording(spec.recording, where),
        calibrated=None if spec.calibrated is None else calibration_from_spec(spec.calibrated, where),
        fit=None if spec.fit is None else _checked_fit(spec.fit, where),
    )


def _units(spec: MachineSpec, clock: Figure | None, where: str) -> dict[str, UnitRate]:
    """Rates of units; none of a GPU."""
    written: dict[str, FigureSpec | None] = {unit: getattr(spec.units, unit, None) for unit in UNIT_MEASURES}
    return {unit: _unit_rate(unit, rate, where, clock) for unit, rate in written.items() if rate is not None}


def _gpu(spec: MachineSpec, clock: Figure | None, overlap: Overlap, where: str) -> Gpu | None:
    """Raises: MachineError: besides a wrong table, one next to [units], or neither."""
    if spec.gpu is None and spec.units is None:
        raise MachineError(f"{where}: 'units' is missing: write a [units] table, or [gpu] for a GPU")
    if spec.gpu is None:
        return None
    if spec.units is not None:
        raise MachineError(f"{where}: both [units] and [gpu] are there: kernels take one price, so remove one of them")
    if overlap is not Overlap.IN_TURN:
        raise MachineError(f"{where}: overlap '{overlap}' with [gpu]: kernels of a GPU run 'in-turn'")
    if spec.gpu.roofline is not None and (spec.architecture is None or spec.architecture.word is None):
        raise MachineError(f'{where}: gpu.roofline without architecture.word: state the library\'s words, "32 bit"')
    return gpu_from_spec(spec.gpu, clock, where)


def _cold(spec: ColdSpec, where: str) -> ColdModel:
    return ColdModel(**figures(spec, where, "cold."), log_sd=_deviation(spec.log_sd, where, "cold.log_sd"))


def _client(spec: ClientSpec, where: str) -> ClientModel:
    costs: dict[str, dict[str, Figure]] = {}
    for task, terms in TERMS.items():
        costs[task] = {}
        for term, written in getattr(spec, task).items():
            if term not in terms:
                raise MachineError(f"{where}: client.{task} has '{term}'; its terms are {', '.join(terms)}")
            units = {f"{prefix}/{terms[term].measure}": factor for prefix, factor in SECOND_UNITS.items()}
            costs[task][term] = figure(written, where, f"client.{task}.{term}", units)
    return ClientModel(costs=costs, log_sd=_deviation(spec.log_sd, where, "client.log_sd"))


def _recording(spec: RecordingSpec, where: str) -> RecordingModel:
    """The checked costs.

    Raises: MachineError: an unknown term, a value or deviation that cannot be.
    """
    costs = {}
    for term, written in spec.costs.items():
        if term not in MEASURES:
            raise MachineError(f"{where}: recording has '{term}'; its terms are {', '.join(MEASURES)}")
        of = f"/{MEASURES[term]}" if MEASURES[term] else ""
        units = {f"{name}{of}": factor for name, factor in SECOND_UNITS.items()}
        costs[term] = figure(written, where, f"recording.{term}", units)
    if not (math.isfinite(spec.log_sd) and spec.log_sd >= 0):
        raise MachineError(f"{where}: recording.log_sd is {spec.log_sd}; a deviation is not negative")
    return RecordingModel(costs=costs, log_sd=spec.log_sd)


def _deviation(value: float, where: str, what: str) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise MachineError(f"{where}: {what} is {value}; it is a finite number, and not negative")
    return value


def _threads(spec: ThreadsSpec, units: Mapping[str, UnitRate], where: str) -> ThreadModel:
    if spec.count < 1:
        raise MachineError(f"{where}: threads.count is {spec.count}; at least one thread works")
    shared = {}
    for unit, written in spec.shared.items():
        if unit not in units:
            known = ", ".join(units)
            raise MachineError(f"{where}: threads.shared '{unit}' is none of the machine's units: {known}")
        words = {f"{prefix}/{units[unit].measure}": factor for prefix, factor in SECOND_UNITS.items()}
        shared[unit] = figure(written, where, f"threads.shared.{unit}", words)
    return ThreadModel(count=spec.count, shared=shared, **figures(spec, where, "threads."))


def _thread_power(spec: PowerSpec, where: str) -> PowerModel:
    watts = {}
    for text, written in spec.watts.items():
        if not text.isdecimal() or int(text) < 1:
            raise MachineError(f"{where}: thread_power.watts.{text}: '{text}' is not a number of threads, 1 or more")
        watts[int(text)] = figure(written, where, f"thread_power.watts.{text}", WATT_UNITS, positive=True)
    if not watts:
        raise MachineError(f"{where}: thread_power.watts is empty; give the watts of one number of threads or more")
    return PowerModel(watts=watts, log_sd=_deviation(spec.log_sd, where, "thread_power.log_sd"))


def _checked_fit(spec: FitReport, where: str) -> FitReport:
    if not any(error.kind == ALL_KINDS for error in spec.errors):
        raise MachineError(f"{where}: fit.errors has no entry of kind '{ALL_KINDS}'; fit the machine again")
    for name, bounds in spec.ranges.items():
        if len(bounds) != 2 or bounds[0] > bounds[1]:
            raise MachineError(f"{where}: fit.ranges.{name} is {bounds}; write the smallest and the largest number")
    for name, deviation in (
        ("common_sd", spec.common_sd or 0.0),
        ("spread", spec.spread or 0.0),
        ("interval_scale", spec.interval_scale),
        *(
            (f"{table}.{key}", number)
            for table in ("kinds", "scales", "unknown_kinds")
            for key, number in getattr(spec, table).items()
        ),
    ):
        _deviation(deviation, where, f"fit.{name}")
    if not spec.degrees_of_freedom > 0:
        raise MachineError(
            f"{where}: fit.degrees_of_freedom is {spec.degrees_of_freedom}; it is more than zero: fit the machine again"
        )
    if not math.isfinite(spec.total_error):
        raise MachineError(f"{where}: fit.total_error is {spec.total_error}; it is a finite number")
    return spec


def spec_of(machine: Machine) -> MachineSpec:
    """What a person would write; `machine_from_spec` makes the machine again."""
    record: Row = {name: _record(part) for name, part in _parts(machine).items() if part is not None}
    del record["inside"]
    if not machine.units:
        del record["units"]
    if machine.utilisation == donor_utilisation():  # taken because the file states none: not written into it either
        record.pop("utilisation")
    if machine.architecture == Architecture():
        del record["architecture"]
    if machine.datapath.is_empty:
        del record["datapath"]
    if machine.client is not None:
        record["client"] |= record["client"].pop("costs")
    if machine.calibrated is not None:
        record["calibrated"] = calibration_spec(machine.calibrated, _written).model_dump()
    return MachineSpec.model_validate(record)


def _record(value: object) -> object:
    """A description in the form of its file: figures and rates as tables, and nothing for unknown values."""
    if isinstance(value, UnitRate):
        value = value.figure
    if isinstance(value, Figure):
        return _written(value).model_dump()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, FitReport):
        value = value.model_dump()
    elif is_dataclass(value) and not isinstance(value, type):
        value = _parts(value)
    if isinstance(value, Mapping):
        return {str(name): _record(part) for name, part in value.items() if part is not None}
    return [_record(part) for part in value] if isinstance(value, tuple) else value


def _parts(record: DataclassInstance) -> RowView:
    return {field.name: getattr(record, field.name) for field in fields(record) if field.init}


def _written(figure: Figure) -> FigureSpec:
    return FigureSpec(value=figure.text, source=figure.source, kind=figure.kind.value)


def tier_from_spec(spec: TierSpec, where: str) -> Tier:
    """The checked tier.

    Raises: MachineError: as for machines; a bandwidth of zero.
    """
    check_name(spec.name, where, "tier")
    stated = figures(spec, where)
    bandwidth, values = stated["bandwidth"], {name: one.value for name, one in stated.items()}
    return Tier(
        name=spec.name,
        title=spec.title,
        bandwidth_bytes_per_s=bandwidth.value,
        latency_s=values.get("latency", 0.0),
        energy_j_per_byte=values.get("energy"),
        source=bandwidth.source,
        kind=bandwidth.kind,
        write_bandwidth_bytes_per_s=values.get("write_bandwidth"),
        figures=tuple(stated.items()),
    )


def _whole_bytes(capacity: Figure, where: str, name: str) -> Figure:
    try:
        parse_bytes(capacity.text, f"on_chip.{name}")
    except UnitError as error:
        raise MachineError(f"{where}: {error}") from error
    return capacity


def _unit_rate(unit: str, spec: FigureSpec, where: str, clock: Figure | None) -> UnitRate:
    what = f"units.{unit}"
    measures = UNIT_MEASURES[unit]
    units: dict[str, float] = {}
    for measure in measures:
        per_second = RATE_UNITS if measure == "B" else {f"{p}{measure}/s": f for p, f in PREFIXES.items()}
        units |= {f"{measure}/cycle": 1.0} | per_second
    rate = figure(spec, where, what, units, positive=True)
    unit_text = re.sub(r"^\s*[+-]?[\d.]+(?:[eE][+-]?\d+)?\s*", "", spec.value).strip()
    per_cycle = unit_text.endswith("/cycle")
    if per_cycle and clock is None:
        raise MachineError(f"{where}: {what} '{spec.value}' is per cycle, and there is no clock; add a [clock] table")
    measure = next(m for m in measures if unit_text.split("/")[0].endswith(m) or m == "B")
    return UnitRate(figure=rate, measure=measure, per_cycle=per_cycle)
