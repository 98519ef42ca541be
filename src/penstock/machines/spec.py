"""Machines and tiers as a person writes them: TOML, strings with units; checked in one function each."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict

from penstock.errors import MachineError, UnitError, UnknownName
from penstock.machines.architecture import Architecture, architecture_from_spec, architecture_spec
from penstock.machines.calibration_file import UNIT, calibration_from_spec, calibration_spec
from penstock.machines.client import TERMS, ClientModel
from penstock.machines.cold import ColdModel
from penstock.machines.figure import Figure
from penstock.machines.files import check_name, choice, figure
from penstock.machines.parallel import CacheModel, ThreadModel
from penstock.machines.power import PowerModel
from penstock.machines.record_cost_file import recording_from_spec, recording_spec
from penstock.machines.records import (
    CacheSpec,
    ClientSpec,
    CoefficientSpec,
    ColdSpec,
    FigureSpec,
    FitErrorSpec,
    FitSpec,
    MachineSpec,
    PowerSpec,
    ThreadsSpec,
    TierSpec,
    UnitsSpec,
)
from penstock.machines.schema import (
    ALL_KINDS,
    UNIT_MEASURES,
    Coefficient,
    FitError,
    FitReport,
    Machine,
    Overlap,
    Tier,
    UnitRate,
)
from penstock.params import catalogue
from penstock.units import (
    BYTE_UNITS,
    HERTZ_UNITS,
    JOULE_PER_BYTE_UNITS,
    RATE_UNITS,
    SECOND_UNITS,
    WATT_UNITS,
    parse_bytes,
)

_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


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
    clock = _optional(spec.clock, where, "clock", HERTZ_UNITS, positive=True)
    units = {}
    for unit in UNIT_MEASURES:
        written: FigureSpec | None = getattr(spec.units, unit)
        if written is not None:
            units[unit] = _unit_rate(unit, written, where, clock)
    utilisation = _optional(spec.utilisation, where, "utilisation", {"%": 0.01}, positive=True)
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
        clock=clock,
        utilisation=utilisation,
        plaintext_transforms=_optional(
            spec.plaintext_transforms, where, "plaintext_transforms", {"transforms/limb": 1.0, "transform/limb": 1.0}
        ),
        overhead=_optional(spec.overhead, where, "overhead", SECOND_UNITS),
        power=_optional(spec.power, where, "power", WATT_UNITS, positive=True),
        thread_power=None if spec.thread_power is None else _thread_power(spec.thread_power, where),
        idle_power=_optional(spec.idle_power, where, "idle_power", WATT_UNITS),
        on_chip={
            name: _whole_bytes(figure(written, where, f"on_chip.{name}", BYTE_UNITS, positive=True), where, name)
            for name, written in spec.on_chip.items()
        },
        architecture=Architecture()
        if spec.architecture is None
        else architecture_from_spec(
            spec.architecture, where, lambda written, path, units: figure(written, where, path, units, positive=True)
        ),
        threads=None if spec.threads is None else _threads(spec.threads, units, where),
        cache=None
        if spec.cache is None
        else CacheModel(
            size=figure(spec.cache.size, where, "cache.size", BYTE_UNITS),
            beyond=figure(spec.cache.beyond, where, "cache.beyond", RATE_UNITS, positive=True),
        ),
        cold=None if spec.cold is None else _cold(spec.cold, where),
        client=None if spec.client is None else _client(spec.client, where),
        recording=None
        if spec.recording is None
        else recording_from_spec(
            spec.recording, where, lambda written, path, units: figure(written, where, path, units)
        ),
        calibrated=None
        if spec.calibrated is None
        else calibration_from_spec(
            spec.calibrated, where, lambda written, path: figure(written, where, path, UNIT, positive=True)
        ),
        fit=None if spec.fit is None else _fit_report(spec.fit, where),
    )


def _cold(spec: ColdSpec, where: str) -> ColdModel:
    return ColdModel(
        call=_optional(spec.call, where, "cold.call", SECOND_UNITS),
        operands=_optional(spec.operands, where, "cold.operands", RATE_UNITS, positive=True),
        log_sd=_deviation(spec.log_sd, where, "cold.log_sd"),
    )


def _client(spec: ClientSpec, where: str) -> ClientModel:
    costs: dict[str, dict[str, Figure]] = {}
    for task, terms in TERMS.items():
        costs[task] = {}
        for term, written in getattr(spec, task).items():
            if term not in terms:
                raise MachineError(f"{where}: client.{task} has '{term}'; its terms are {', '.join(terms)}")
            each = {f"{prefix}/{terms[term].measure}": factor for prefix, factor in SECOND_UNITS.items()}
            costs[task][term] = figure(written, where, f"client.{task}.{term}", each)
    return ClientModel(costs=costs, log_sd=_deviation(spec.log_sd, where, "client.log_sd"))


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
        each = {f"{prefix}/{units[unit].measure}": factor for prefix, factor in SECOND_UNITS.items()}
        shared[unit] = figure(written, where, f"threads.shared.{unit}", each)
    return ThreadModel(
        count=spec.count,
        shared=shared,
        loop=_optional(spec.loop, where, "threads.loop", SECOND_UNITS),
    )


def _thread_power(spec: PowerSpec, where: str) -> PowerModel:
    watts = {}
    for text, written in spec.watts.items():
        if not text.isdecimal() or int(text) < 1:
            raise MachineError(f"{where}: thread_power.watts.{text}: '{text}' is no number of threads, 1 or more")
        watts[int(text)] = figure(written, where, f"thread_power.watts.{text}", WATT_UNITS, positive=True)
    if not watts:
        raise MachineError(f"{where}: thread_power.watts is empty; give the watts of one number of threads or more")
    return PowerModel(watts=watts, log_sd=_deviation(spec.log_sd, where, "thread_power.log_sd"))


def _fit_report(spec: FitSpec, where: str) -> FitReport:
    if not any(error.kind == ALL_KINDS for error in spec.errors):
        raise MachineError(f"{where}: fit.errors has no entry of kind '{ALL_KINDS}'; fit the machine again")
    for name, bounds in spec.ranges.items():
        if len(bounds) != 2 or bounds[0] > bounds[1]:
            raise MachineError(f"{where}: fit.ranges.{name} is {bounds}; write the smallest and the largest number")
    for name, deviation in (
        ("common_sd", spec.common_sd or 0.0), ("spread", spec.spread or 0.0), ("interval_scale", spec.interval_scale),
        *((f"{table}.{key}", each) for table in ("kinds", "scales", "unknown_kinds")
          for key, each in getattr(spec, table).items()),
    ):  # fmt: skip
        _deviation(deviation, where, f"fit.{name}")
    if not spec.degrees_of_freedom > 0:
        raise MachineError(
            f"{where}: fit.degrees_of_freedom is {spec.degrees_of_freedom}; it is more than zero: fit the machine again"
        )
    if not math.isfinite(spec.total_error):
        raise MachineError(f"{where}: fit.total_error is {spec.total_error}; it is a finite number")
    return FitReport(
        fitted_to=spec.fitted_to,
        shapes=spec.shapes,
        total_error=spec.total_error,
        spread=spec.spread,
        merged=tuple(spec.merged),
        errors=tuple(FitError(**error.model_dump()) for error in spec.errors),
        common_sd=spec.common_sd,
        kinds=dict(spec.kinds),
        interval_scale=spec.interval_scale,
        scales=dict(spec.scales),
        unknown_kinds=dict(spec.unknown_kinds),
        degrees_of_freedom=spec.degrees_of_freedom,
        ranges={name: (bounds[0], bounds[1]) for name, bounds in spec.ranges.items()},
        coefficients=tuple(Coefficient(**each.model_dump()) for each in spec.coefficients),
    )


def spec_of(machine: Machine) -> MachineSpec:
    """What a person would write; `machine_from_spec` makes the machine again."""

    def written(figure: Figure | None) -> FigureSpec | None:
        return _written(figure) if figure is not None else None

    fit = machine.fit
    return MachineSpec(
        name=machine.name,
        title=machine.title,
        description=machine.description,
        native_params=machine.native_params,
        disputed=list(machine.disputed),
        overlap=machine.overlap.value,
        overlap_source=machine.overlap_source,
        units=UnitsSpec(**{unit: _written(rate.figure) for unit, rate in machine.units.items()}),
        clock=written(machine.clock),
        utilisation=written(machine.utilisation),
        plaintext_transforms=written(machine.plaintext_transforms),
        overhead=written(machine.overhead),
        power=written(machine.power),
        thread_power=None
        if machine.thread_power is None
        else PowerSpec(
            log_sd=machine.thread_power.log_sd,
            watts={str(n): _written(figure) for n, figure in machine.thread_power.watts.items()},
        ),
        idle_power=written(machine.idle_power),
        on_chip={name: _written(figure) for name, figure in machine.on_chip.items()},
        architecture=None
        if machine.architecture == Architecture()
        else architecture_spec(machine.architecture, _written),
        threads=None
        if machine.threads is None
        else ThreadsSpec(
            count=machine.threads.count,
            shared={unit: _written(figure) for unit, figure in machine.threads.shared.items()},
            loop=written(machine.threads.loop),
        ),
        cache=None
        if machine.cache is None
        else CacheSpec(size=_written(machine.cache.size), beyond=_written(machine.cache.beyond)),
        cold=None
        if machine.cold is None
        else ColdSpec(
            log_sd=machine.cold.log_sd, call=written(machine.cold.call), operands=written(machine.cold.operands)
        ),
        client=None
        if machine.client is None
        else ClientSpec(
            log_sd=machine.client.log_sd,
            **{
                task: {term: _written(figure) for term, figure in costs.items()}
                for task, costs in machine.client.costs.items()
            },
        ),
        recording=None if machine.recording is None else recording_spec(machine.recording, _written),
        calibrated=None if machine.calibrated is None else calibration_spec(machine.calibrated, _written),
        fit=None if fit is None else _fit_spec(fit),
    )


def _fit_spec(fit: FitReport) -> FitSpec:
    return FitSpec(
        fitted_to=fit.fitted_to,
        shapes=fit.shapes,
        total_error=fit.total_error,
        spread=fit.spread,
        merged=list(fit.merged),
        common_sd=fit.common_sd,
        kinds=dict(fit.kinds),
        interval_scale=fit.interval_scale,
        scales=dict(fit.scales),
        unknown_kinds=dict(fit.unknown_kinds),
        degrees_of_freedom=fit.degrees_of_freedom,
        ranges={name: list(bounds) for name, bounds in fit.ranges.items()},
        errors=[FitErrorSpec(**asdict(error)) for error in fit.errors],
        coefficients=[CoefficientSpec(**asdict(each)) for each in fit.coefficients],
    )


def _written(figure: Figure) -> FigureSpec:
    return FigureSpec(value=figure.text, source=figure.source, kind=figure.kind.value)


def tier_from_spec(spec: TierSpec, where: str) -> Tier:
    """The checked tier.

    Raises: MachineError: as for machines; a bandwidth of zero.
    """
    check_name(spec.name, where, "tier")
    bandwidth = figure(spec.bandwidth, where, "bandwidth", RATE_UNITS, positive=True)
    latency = _optional(spec.latency, where, "latency", SECOND_UNITS)
    energy = _optional(spec.energy, where, "energy", JOULE_PER_BYTE_UNITS)
    writing = _optional(spec.write_bandwidth, where, "write_bandwidth", RATE_UNITS, positive=True)
    return Tier(
        name=spec.name,
        title=spec.title,
        bandwidth_bytes_per_s=bandwidth.value,
        latency_s=latency.value if latency else 0.0,
        energy_j_per_byte=energy.value if energy else None,
        source=bandwidth.source,
        kind=bandwidth.kind,
        write_bandwidth_bytes_per_s=writing.value if writing else None,
        figures=tuple(
            (name, figure)
            for name, figure in (
                ("bandwidth", bandwidth),
                ("write_bandwidth", writing),
                ("latency", latency),
                ("energy", energy),
            )
            if figure is not None
        ),
    )


def _whole_bytes(found: Figure, where: str, name: str) -> Figure:
    try:
        parse_bytes(found.text, f"on_chip.{name}")
    except UnitError as error:
        raise MachineError(f"{where}: {error}") from error
    return found


def _optional(
    spec: FigureSpec | None, where: str, what: str, units: Mapping[str, float], *, positive: bool = False
) -> Figure | None:
    return None if spec is None else figure(spec, where, what, units, positive=positive)


def _unit_rate(unit: str, spec: FigureSpec, where: str, clock: Figure | None) -> UnitRate:
    what = f"units.{unit}"
    measures = UNIT_MEASURES[unit]
    units: dict[str, float] = {}
    for measure in measures:
        per_second = RATE_UNITS if measure == "B" else {f"{p}{measure}/s": f for p, f in _PREFIXES.items()}
        units |= {f"{measure}/cycle": 1.0} | per_second
    found = figure(spec, where, what, units, positive=True)
    unit_text = re.sub(r"^\s*[+-]?[\d.]+(?:[eE][+-]?\d+)?\s*", "", spec.value).strip()
    per_cycle = unit_text.endswith("/cycle")
    if per_cycle and clock is None:
        raise MachineError(f"{where}: {what} '{spec.value}' is per cycle, and there is no clock; add a [clock] table")
    measure = next(m for m in measures if unit_text.split("/")[0].endswith(m) or m == "B")
    return UnitRate(figure=found, measure=measure, per_cycle=per_cycle)
