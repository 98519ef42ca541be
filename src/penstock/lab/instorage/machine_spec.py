"""In-storage accelerators as a person writes them: TOML with units and sources; all checks are here."""

from __future__ import annotations

from pathlib import Path

from penstock.base.system import toml
from penstock.base.system.toml import Strict
from penstock.base.types import Row, RowView
from penstock.base.units import BYTE_UNITS, HERTZ_UNITS, MM2_UNITS, RATE_UNITS, WATT_UNITS, parse_quantity
from penstock.errors import MachineError, UnitError, UnknownName, UsageError
from penstock.lab.instorage.machine import (
    ArrayAdders,
    Automorphism,
    Engines,
    InStorage,
    LaneWork,
    Logic,
    LogicScaling,
    PublishedScan,
    UnitAccelerator,
)
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.files import Shelf, choice, figure, parse_spec
from penstock.scheme.machines.records import FigureSpec, RecordSpec
from penstock.scheme.operations import KINDS, OpKind
from penstock.scheme.work.kernels import Hoisting

KINDS_OF_FILE = ("units", "published-scan", "array-adders")
_CHANNELS = {"channels": 1.0, "channel": 1.0}
_BITS = {"bit": 1.0, "bits": 1.0}
_TRANSFORMS = {"transform/limb": 1.0, "transforms/limb": 1.0}
_UNITS = {"clock": HERTZ_UNITS, "slot": _BITS, "input_buffer": BYTE_UNITS, "budget": WATT_UNITS}
_SOURCES = ("lane_source", "automorphism_source", "hoisting_source", "logic_source", "scaling_source")
ENGINES = ("ntt", "bconv", "modu")


class EnginesSpec(Strict):
    count: int
    lanes: int
    source: str
    kind: str


class LogicSpec(Strict):
    area: str
    power: str
    engine: str | None = None
    only: str | None = None
    scales: str | None = None


class AllEnginesSpec(Strict):
    ntt: EnginesSpec
    bconv: EnginesSpec
    modu: EnginesSpec


class ScratchpadSpec(Strict):
    channel: FigureSpec
    drive: FigureSpec


class AcceleratorSpec(RecordSpec):
    """What every accelerator states."""

    description: str = ""
    kind: str


class UnitSpec(AcceleratorSpec):
    """Functional units."""

    lane: str
    lane_source: str
    automorphism: str
    automorphism_source: str
    hoisting: str = Hoisting.RESULTS.value
    hoisting_source: str = "not in the file: the two results are permuted, as everywhere in penstock"
    logic_source: str
    scaling_source: str = "not in the file: engines follow their lanes, other rows are fixed"
    clock: FigureSpec
    channels_per_accelerator: FigureSpec
    slot: FigureSpec
    plaintext_transforms: FigureSpec
    engines: AllEnginesSpec
    scratchpad: ScratchpadSpec
    input_buffer: FigureSpec
    budget: FigureSpec
    logic: dict[str, LogicSpec]


class ScanSpec(AcceleratorSpec):
    """One published rate."""

    workloads: list[str]
    scan: FigureSpec
    scan_channels: FigureSpec


class AddersSpec(AcceleratorSpec):
    """Additions in the array."""

    operations: list[str]
    array_share: FigureSpec


def load_instorage(name: str) -> InStorage:
    """By name or by the path of a TOML file."""
    return accelerators.load(name)


def from_toml(written: Path | bytes, where: str) -> InStorage:
    """The checked accelerator of a file, or of its content.

    Raises: MachineError: no TOML, a missing or unknown key, a value without a unit or a source, a zero, a lane, an
            automorphism, a kind or an operation that is not known. FileError: the file cannot be read.
    """
    return _from_table(toml.table(written, where, "an in-storage accelerator file", MachineError), where)


def _read(written: RowView | Path, where: str) -> InStorage:
    return from_toml(written, where) if isinstance(written, Path) else _from_table(written, where)


def _from_table(record: RowView, where: str) -> InStorage:
    kind = record.get("kind")
    if kind == "units":
        return _units(parse_spec(UnitSpec, record, where), where)
    if kind == "published-scan":
        return _scan(parse_spec(ScanSpec, record, where), where)
    if kind == "array-adders":
        return _adders(parse_spec(AddersSpec, record, where), where)
    raise MachineError(f"{where}: kind: {UnknownName('kind', str(kind), KINDS_OF_FILE)}")


def _units(spec: UnitSpec, where: str) -> UnitAccelerator:
    channels = figure(spec.channels_per_accelerator, where, "channels_per_accelerator", _CHANNELS, positive=True)
    parts: Row = {
        name: figure(getattr(spec, name), where, name, units, positive=True) for name, units in _UNITS.items()
    }
    parts |= {name: _engines(getattr(spec.engines, name), where, f"engines.{name}") for name in ENGINES}
    parts |= {name: _said(getattr(spec, name), where, name) for name in _SOURCES}
    return UnitAccelerator(
        name=spec.name,
        title=spec.title,
        description=spec.description,
        channels_per_accelerator=_whole(channels, where, "channels_per_accelerator"),
        plaintext_transforms=figure(spec.plaintext_transforms, where, "plaintext_transforms", _TRANSFORMS),
        lane=choice(LaneWork, spec.lane, where, "lane"),
        automorphism=choice(Automorphism, spec.automorphism, where, "automorphism"),
        hoisting=choice(Hoisting, spec.hoisting, where, "hoisting"),
        **parts,
        scratchpad=figure(spec.scratchpad.channel, where, "scratchpad.channel", BYTE_UNITS, positive=True),
        drive_scratchpad=figure(spec.scratchpad.drive, where, "scratchpad.drive", BYTE_UNITS, positive=True),
        logic={name: _logic(row, where, f"logic.{name}") for name, row in spec.logic.items()},
    )


def _scan(spec: ScanSpec, where: str) -> PublishedScan:
    return PublishedScan(
        name=spec.name,
        title=spec.title,
        description=spec.description,
        workloads=tuple(spec.workloads),
        scan=figure(spec.scan, where, "scan", RATE_UNITS, positive=True),
        scan_channels=figure(spec.scan_channels, where, "scan_channels", _CHANNELS, positive=True),
    )


def _adders(spec: AddersSpec, where: str) -> ArrayAdders:
    for name in spec.operations:
        if name not in KINDS:
            raise MachineError(f"{where}: operations: {UnknownName('operation', name, KINDS)}")
    share = figure(spec.array_share, where, "array_share", {"%": 0.01}, positive=True)
    if share.value > 1:
        raise MachineError(f"{where}: array_share {share.text} is over 100 %; it is a share of the sensing rate")
    return ArrayAdders(
        name=spec.name,
        title=spec.title,
        description=spec.description,
        operations=frozenset(OpKind(name) for name in spec.operations),
        array_share=share,
    )


def _engines(spec: EnginesSpec, where: str, what: str) -> Engines:
    if spec.count < 1 or spec.lanes < 1:
        raise MachineError(f"{where}: {what} has {spec.count} engines of {spec.lanes} lanes; at least one of each")
    if not spec.source.strip():
        raise MachineError(f"{where}: {what} has no source; name the document that it comes from")
    return Engines(
        count=spec.count, lanes=spec.lanes, source=spec.source, kind=choice(Evidence, spec.kind, where, f"{what}.kind")
    )


def _logic(spec: LogicSpec, where: str, what: str) -> Logic:
    if spec.engine not in (None, *ENGINES):
        raise MachineError(f"{where}: {what}.engine: {UnknownName('engine', str(spec.engine), ENGINES)}")
    if spec.only not in (None, "channel", "drive"):
        raise MachineError(f"{where}: {what}.only: {UnknownName('place', str(spec.only), ('channel', 'drive'))}")
    try:
        return Logic(
            area_mm2=parse_quantity(spec.area, MM2_UNITS, f"{what}.area"),
            watts=parse_quantity(spec.power, WATT_UNITS, f"{what}.power"),
            engine=spec.engine,
            only=spec.only,
            scales=choice(LogicScaling, spec.scales or _scales(spec), where, f"{what}.scales"),
        )
    except UnitError as error:
        raise MachineError(f"{where}: {error}") from error


def _scales(spec: LogicSpec) -> str:
    """Of a row that does not say: an engine follows its lanes."""
    return (LogicScaling.FIXED if spec.engine is None else LogicScaling.LANES).value


def _said(text: str, where: str, what: str) -> str:
    if not text.strip():
        raise MachineError(f"{where}: {what} is empty; name the document that it comes from, or why it is assumed")
    return text


def _whole(figure: Figure, where: str, what: str) -> int:
    if figure.value != int(figure.value):
        raise MachineError(f"{where}: {what} '{figure.text}' is not a whole number")
    return int(figure.value)


def load_units(text: str) -> UnitAccelerator:
    """An accelerator with functional units, by name or from a .toml file.

    Raises: UsageError: it is known by one rate; as `load_instorage`.
    """
    accelerator = load_instorage(text)
    if not isinstance(accelerator, UnitAccelerator):
        raise UsageError(
            f"'{text}' is known by one rate, and this needs functional units: use 'fheins', or a file of kind 'units'"
        )
    return accelerator


accelerators = Shelf("instorage", "in-storage accelerator", _read)
"""Those under `data/instorage/`."""
