"""Machines and tiers as a person writes them: TOML, strings with units; checked in one function each."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock.errors import MachineError, UnitError
from penstock.machines.schema import (
    ALL_KINDS,
    UNIT_MEASURES,
    Evidence,
    Figure,
    FitError,
    FitReport,
    Machine,
    Overlap,
    Tier,
    UnitRate,
)
from penstock.units import (
    BYTE_UNITS,
    HERTZ_UNITS,
    JOULE_PER_BYTE_UNITS,
    RATE_UNITS,
    SECOND_UNITS,
    WATT_UNITS,
    parse_quantity,
)

_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

Model = TypeVar("Model", bound=BaseModel)


class FigureSpec(BaseModel):
    """One value of a machine file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    value: str
    source: str
    kind: str


class UnitsSpec(BaseModel):
    """Rates of the functional units. A unit that is left out never binds."""

    model_config = ConfigDict(extra="forbid", strict=True)

    transforms: FigureSpec
    base_conversion: FigureSpec | None = None
    multiplications: FigureSpec | None = None
    additions: FigureSpec | None = None
    automorphisms: FigureSpec | None = None
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


class FitSpec(BaseModel):
    """How well a fitted machine meets the timings that it was fitted to."""

    model_config = ConfigDict(extra="forbid", strict=True)

    fitted_to: str
    shapes: int
    total_error: float
    spread: float | None = None
    merged: list[str] = Field(default_factory=list)
    errors: list[FitErrorSpec]


class MachineSpec(BaseModel):
    """A machine as a TOML file has it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    title: str
    description: str = ""
    native_params: str | None = None
    overlap: str
    overlap_source: str
    units: UnitsSpec
    clock: FigureSpec | None = None
    utilisation: FigureSpec | None = None
    plaintext_transforms: FigureSpec | None = None
    overhead: FigureSpec | None = None
    power: FigureSpec | None = None
    on_chip: dict[str, FigureSpec] = Field(default_factory=dict)
    fit: FitSpec | None = None


class TierSpec(BaseModel):
    """A storage or memory tier as a TOML file has it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    title: str
    bandwidth: FigureSpec
    latency: FigureSpec | None = None
    energy: FigureSpec | None = None


def machine_from_spec(spec: MachineSpec, where: str) -> Machine:
    """The checked machine. All rules are here; `where` names the file in messages.

    Raises: MachineError: a unit is missing or unknown, a value is negative or zero where it must not be, a rate per
            cycle without a clock, an empty source, an unknown kind.
    """
    if not spec.name.strip():
        raise MachineError(f"{where}: name is empty; give the machine a name")
    overlap = _choice(Overlap, spec.overlap, where, "overlap")
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
        on_chip={
            name: _figure(written, where, f"on_chip.{name}", BYTE_UNITS, positive=True)
            for name, written in spec.on_chip.items()
        },
        fit=None if spec.fit is None else _fit_report(spec.fit, where),
    )


def _fit_report(spec: FitSpec, where: str) -> FitReport:
    if not any(error.kind == ALL_KINDS for error in spec.errors):
        raise MachineError(f"{where}: fit.errors has no entry of kind '{ALL_KINDS}'; fit the machine again")
    return FitReport(
        fitted_to=spec.fitted_to,
        shapes=spec.shapes,
        total_error=spec.total_error,
        spread=spec.spread,
        merged=tuple(spec.merged),
        errors=tuple(FitError(**error.model_dump()) for error in spec.errors),
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
        overlap=machine.overlap.value,
        overlap_source=machine.overlap_source,
        units=UnitsSpec(**{unit: _written(rate.figure) for unit, rate in machine.units.items()}),
        clock=written(machine.clock),
        utilisation=written(machine.utilisation),
        plaintext_transforms=written(machine.plaintext_transforms),
        overhead=written(machine.overhead),
        power=written(machine.power),
        on_chip={name: _written(figure) for name, figure in machine.on_chip.items()},
        fit=None
        if fit is None
        else FitSpec(
            fitted_to=fit.fitted_to,
            shapes=fit.shapes,
            total_error=fit.total_error,
            spread=fit.spread,
            merged=list(fit.merged),
            errors=[FitErrorSpec(**asdict(error)) for error in fit.errors],
        ),
    )


def _written(figure: Figure) -> FigureSpec:
    return FigureSpec(value=figure.text, source=figure.source, kind=figure.kind.value)


def tier_from_spec(spec: TierSpec, where: str) -> Tier:
    """The checked tier.

    Raises: MachineError: as for machines; a bandwidth of zero.
    """
    if not spec.name.strip():
        raise MachineError(f"{where}: name is empty; give the tier a name")
    bandwidth = _figure(spec.bandwidth, where, "bandwidth", RATE_UNITS, positive=True)
    latency = _optional(spec.latency, where, "latency", SECOND_UNITS)
    energy = _optional(spec.energy, where, "energy", JOULE_PER_BYTE_UNITS)
    return Tier(
        name=spec.name,
        title=spec.title,
        bandwidth_bytes_per_s=bandwidth.value,
        latency_s=latency.value if latency else 0.0,
        energy_j_per_byte=energy.value if energy else None,
        source=bandwidth.source,
        kind=bandwidth.kind,
    )


def parse_spec(model: type[Model], record: Mapping[str, Any], where: str) -> Model:
    """`record` as a spec; the first thing that is wrong is named with its field.

    Raises: MachineError: a key that is missing, unknown (with the nearest known one) or of another type.
    """
    try:
        return model.model_validate(dict(record))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = _known_fields(model, first["loc"][:-1])
            close = difflib.get_close_matches(str(first["loc"][-1]), known, n=1, cutoff=0.5)
            hint = f"did you mean '{close[0]}'? " if close else ""
            raise MachineError(f"{where}: unknown key '{path}': {hint}known: {', '.join(sorted(known))}") from error
        if first["type"] == "missing":
            raise MachineError(
                f"{where}: '{path}' is missing; every value is a table with value (with its unit), source and kind"
            ) from error
        if first["type"] == "model_type":
            raise MachineError(
                f"{where}: '{path}' is {first['input']!r}; write a table: "
                '{ value = "… unit", source = "…", kind = "datasheet | measured | calibrated | assumed" }'
            ) from error
        found = first["input"]
        unit = "; write it as a string with its unit" if path.endswith("value") else ""
        raise MachineError(f"{where}: '{path}' is {found!r}: {first['msg'].lower()}{unit}") from error


def _known_fields(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Field names of the model at `path` inside `model`."""
    known: Any = model
    for part in path:
        annotation = known.model_fields[part].annotation if part in getattr(known, "model_fields", {}) else FigureSpec
        options = [annotation, *getattr(annotation, "__args__", ())]
        models = [a for a in options if isinstance(a, type) and issubclass(a, BaseModel)]
        known = models[0] if models else FigureSpec
    return list(known.model_fields)


def _choice(kind: type[Any], text: str, where: str, what: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        known = [member.value for member in kind]
        close = difflib.get_close_matches(text, known, n=1, cutoff=0.5)
        hint = f"did you mean '{close[0]}'? " if close else ""
        raise MachineError(f"{where}: {what} '{text}' is unknown: {hint}known: {', '.join(known)}") from None


def _figure(spec: FigureSpec, where: str, what: str, units: Mapping[str, float], *, positive: bool = False) -> Figure:
    try:
        value = parse_quantity(spec.value, dict(units), what)
    except UnitError as error:
        raise MachineError(f"{where}: {error}") from error
    if positive and value == 0:
        raise MachineError(f"{where}: {what} '{spec.value}' is zero; it must be more than zero")
    if not spec.source.strip():
        raise MachineError(f"{where}: {what} has no source; name the document, page or measurement that it comes from")
    kind = _choice(Evidence, spec.kind, where, f"{what}: kind")
    return Figure(value=value, text=spec.value, source=spec.source, kind=kind)


def _optional(
    spec: FigureSpec | None, where: str, what: str, units: Mapping[str, float], *, positive: bool = False
) -> Figure | None:
    return None if spec is None else _figure(spec, where, what, units, positive=positive)


def _unit_rate(unit: str, spec: FigureSpec, where: str, clock: Figure | None) -> UnitRate:
    what = f"units.{unit}"
    measures = UNIT_MEASURES[unit]
    units: dict[str, float] = {}
    for measure in measures:
        per_second = RATE_UNITS if measure == "B" else {f"{p}{measure}/s": f for p, f in _PREFIXES.items()}
        units |= {f"{measure}/cycle": 1.0} | per_second
    figure = _figure(spec, where, what, units, positive=True)
    unit_text = re.sub(r"^\s*[+-]?[\d.]+(?:[eE][+-]?\d+)?\s*", "", spec.value).strip()
    per_cycle = unit_text.endswith("/cycle")
    if per_cycle and clock is None:
        raise MachineError(f"{where}: {what} '{spec.value}' is per cycle, and there is no clock; add a [clock] table")
    measure = next(m for m in measures if unit_text.split("/")[0].endswith(m) or m == "B")
    return UnitRate(figure=figure, measure=measure, per_cycle=per_cycle)


# TOML out -----------------------------------------------------------------------------------------------------------
def to_toml(spec: MachineSpec) -> str:
    """The machine file. A table inside a table is written inline; a list of tables has a heading for each."""
    record = spec.model_dump(exclude_none=True, exclude_defaults=True)
    lines = _plain(record)
    for name, table in record.items():
        if not isinstance(table, Mapping):
            continue
        lines += ["", f"[{_key(name)}]", *_plain(table), *(f"{_key(k)} = {_value(v)}" for k, v in _tables(table))]
        for key, rows in table.items():
            if _is_rows(rows):
                for row in rows:
                    lines += ["", f"[[{_key(name)}.{_key(key)}]]", *_plain(row)]
    return "\n".join(lines) + "\n"


def _plain(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(k)} = {_value(v)}" for k, v in table.items() if not isinstance(v, Mapping) and not _is_rows(v)]


def _tables(table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(k, v) for k, v in table.items() if isinstance(v, Mapping)]


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)
