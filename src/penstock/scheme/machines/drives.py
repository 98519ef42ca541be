"""Solid-state drives: geometry, timing, interfaces, by name or path.

One TOML file under `data/drives/` is one drive. Every value is a table with value (with its unit), source and kind, as
in machine files, and any of them may be overridden for one run (`load_drive(name, {"sense": "45 us"})`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.base.types import Row, RowView
from penstock.base.units import (
    BITS_PER_BYTE,
    BYTE_UNITS,
    PICOSECONDS_PER_SECOND,
    RATE_UNITS,
    SECOND_UNITS,
    format_bytes,
    parse_bytes,
)
from penstock.errors import MachineError, check_known
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.files import Shelf, check_name, figure, parse_spec, sourced
from penstock.scheme.machines.records import FigureSpec, RecordSpec

ORDERS = "cwdp"
"""Letters of a stripe's order: channel, way (chip), die, plane."""


class DriveSpec(RecordSpec):
    """A drive as a TOML file has it."""

    description: str = ""
    channels: FigureSpec
    chips_per_channel: FigureSpec
    dies_per_chip: FigureSpec
    planes_per_die: FigureSpec
    blocks: FigureSpec
    pages_per_block: FigureSpec
    page: FigureSpec
    spare_blocks: FigureSpec
    stripe: FigureSpec
    stated_capacity: FigureSpec | None = None
    transfers: FigureSpec
    bus_width: FigureSpec
    read_command: FigureSpec
    further_plane: FigureSpec
    program_command: FigureSpec
    erase_command: FigureSpec
    sense: FigureSpec
    program: FigureSpec
    erase: FigureSpec
    multi_plane: FigureSpec
    cache_read: FigureSpec
    correction: FigureSpec
    retry: FigureSpec
    max_retries: FigureSpec
    dram: FigureSpec
    dram_capacity: FigureSpec
    dram_passes: FigureSpec
    edram: FigureSpec
    host_link: FigureSpec
    host_link_efficiency: FigureSpec
    host_buffer: FigureSpec
    table_entry: FigureSpec
    collect_below: FigureSpec
    wear_gap: FigureSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """A checked drive. `figures` has every value with its source, in the units of the fields here."""

    name: str
    title: str
    description: str
    figures: Mapping[str, Figure]
    channels: int
    chips_per_channel: int
    dies_per_chip: int
    planes_per_die: int
    blocks_per_plane: int
    pages_per_block: int
    page_bytes: int
    spare_blocks: int
    """Of each plane, for writes; the rest holds data."""
    stripe: str
    """Order in which consecutive pages go over c(hannels), w(ays), d(ies) and p(lanes), the fastest first."""
    channel_bytes_per_s: float
    read_command_s: float
    """The bus is taken by the command and address of a read of one plane."""
    further_plane_s: float
    """And the command time of each further plane."""
    program_command_s: float
    erase_command_s: float
    sense_s: float
    program_s: float
    erase_s: float
    multi_plane: bool
    cache_read: bool
    correction_s: float
    retry_probability: float
    max_retries: int
    dram_bytes_per_s: float
    dram_capacity_bytes: int
    dram_passes: int
    """How often a page for the host crosses DRAM: 2, in and out."""
    edram_bytes_per_s: float
    host_link_bytes_per_s: float
    """Payload, in each direction: the raw rate times its efficiency."""
    host_buffer_bytes: int
    table_entry_bytes: int
    collect_below: int
    wear_gap: int

    @property
    def dies(self) -> int:
        return self.channels * self.chips_per_channel * self.dies_per_chip

    @property
    def planes(self) -> int:
        return self.dies * self.planes_per_die

    @property
    def raw_bytes(self) -> int:
        """What the geometry holds."""
        return self.planes * self.blocks_per_plane * self.pages_per_block * self.page_bytes

    @property
    def capacity_bytes(self) -> int:
        """Without spare blocks: what data may fill."""
        return self.planes * (self.blocks_per_plane - self.spare_blocks) * self.pages_per_block * self.page_bytes

    @property
    def stated_bytes(self) -> int | None:
        """The capacity that the source states, which need not be the geometry's."""
        stated = self.figures.get("stated_capacity")
        return None if stated is None else int(stated.value)

    def notes(self) -> list[str]:
        """What a reader of results must know about this drive's numbers."""
        notes = []
        stated = self.stated_bytes
        if stated and abs(self.capacity_bytes / stated - 1) > 0.1:
            notes.append(
                f"{self.name}: the geometry holds {format_bytes(self.raw_bytes)}, {format_bytes(self.capacity_bytes)} "
                f"without spare blocks, and its source states {format_bytes(stated)}; the geometry is what is simulated"
            )
        return notes


_TIMES = ("read_command", "further_plane", "program_command", "erase_command", "sense", "program", "erase",
          "correction")  # fmt: skip
_NUMBERS = ("channels", "chips_per_channel", "dies_per_chip", "pages_per_block", "max_retries", "dram_passes",
            "collect_below", "wear_gap")  # fmt: skip
_SIZES = ("page", "dram_capacity", "host_buffer", "table_entry")
"""Values that the drive has under their own names: times in seconds (`sense_s`), whole numbers, sizes in bytes."""
_UNITS: dict[str, Mapping[str, float]] = {
    "channels": {"channels": 1, "channel": 1},
    "chips_per_channel": {"chips/channel": 1, "chip/channel": 1},
    "dies_per_chip": {"dies/chip": 1, "die/chip": 1},
    "planes_per_die": {"planes/die": 1, "plane/die": 1},
    "blocks": {"blocks/plane": 1, "blocks/die": 1, "block/plane": 1},
    "pages_per_block": {"pages/block": 1, "page/block": 1},
    "page": BYTE_UNITS,
    "spare_blocks": {"blocks/plane": 1, "block/plane": 1},
    "stated_capacity": BYTE_UNITS,
    "transfers": {"MT/s": 1e6, "GT/s": 1e9},
    "bus_width": {"bit": 1, "bits": 1},
    "retry": {"%": 0.01, "ppm": 1e-6},
    "max_retries": {"retries": 1, "retry": 1},
    "dram_capacity": BYTE_UNITS,
    "dram_passes": {"passes": 1, "pass": 1},
    "host_link_efficiency": {"%": 0.01},
    "host_buffer": BYTE_UNITS,
    "table_entry": BYTE_UNITS,
    "collect_below": {"blocks": 1},
    "wear_gap": {"erases": 1},
    **dict.fromkeys(("dram", "edram", "host_link"), RATE_UNITS),
    **dict.fromkeys(_TIMES, SECOND_UNITS),
}
"""Value -> the units that it may be written in."""
_WORDS = {"stripe": (), "multi_plane": ("yes", "no"), "cache_read": ("yes", "no")}
_COUNTS = ("channels", "chips_per_channel", "dies_per_chip", "planes_per_die", "blocks", "pages_per_block", "page",
           "dram_passes", "bus_width", "transfers", "dram", "edram", "host_link", "host_link_efficiency", "host_buffer",
           "table_entry")  # fmt: skip
"""Values that must not be zero."""


def drive_names() -> list[str]:
    """Names of the drives that come with penstock."""
    return sorted(_specs())


def load_drive(name_or_path: str | Path, overrides: Mapping[str, str] | None = None) -> Drive:
    """The drive of that name, or in that TOML file, with some values replaced.

    Args:   overrides: value -> what it is for this run, with its unit, as `{"transfers": "1000 MT/s"}`.
    Raises: UnknownName: no such drive, or no such value; MachineError: the file or a value breaks a rule;
            FileError: the file cannot be read.
    """
    text = str(name_or_path)
    spec = _specs.load(name_or_path)
    where = f"drives/{text}.toml" if text in _specs() else text
    for value, written in (overrides or {}).items():
        check_known("value of a drive", value, (*_UNITS, *_WORDS))
        given = FigureSpec(value=written, source="given by the user", kind=Evidence.ASSUMED.value)
        spec = spec.model_copy(update={value: given})
    return drive_from_spec(spec, where)


def drive_from_spec(spec: DriveSpec, where: str) -> Drive:
    """The checked drive; `where` names the file in messages.

    Raises: MachineError: a value without a unit, in another unit, negative, zero or a fraction where it must not be.
            Blocks of a die that its planes do not divide. As many spare blocks as blocks. A probability over 100 %. An
            empty source, an unknown kind.
    """
    check_name(spec.name, where, "drive")
    figures = {
        field: _figure(field, written, where)
        for field in (*_UNITS, *_WORDS)
        if (written := getattr(spec, field)) is not None
    }

    def value(field: str) -> float:
        return figures[field].value

    def whole(field: str) -> int:
        if value(field) != int(value(field)):
            raise MachineError(f"{where}: {field} '{figures[field].text}' is not a whole number")
        return int(value(field))

    planes, blocks = whole("planes_per_die"), whole("blocks")
    if figures["blocks"].text.strip().endswith("/die"):
        if blocks % planes:
            raise MachineError(
                f"{where}: planes_per_die {planes} is not a divisor of {blocks} blocks/die; "
                "each plane of a die has the same number of blocks"
            )
        blocks //= planes
    spare = whole("spare_blocks")
    if spare >= blocks:
        raise MachineError(f"{where}: spare_blocks {spare} of {blocks} blocks a plane leave none for data")
    _check_words(figures, where)
    own: Row = {field: whole(field) for field in _NUMBERS}
    own |= {f"{field}_s": value(field) for field in _TIMES}
    own |= {f"{field}_bytes": parse_bytes(figures[field].text, field) for field in _SIZES}
    return Drive(
        **own,
        name=spec.name,
        title=spec.title,
        description=spec.description,
        figures=figures,
        planes_per_die=planes,
        blocks_per_plane=blocks,
        spare_blocks=spare,
        stripe=figures["stripe"].text,
        channel_bytes_per_s=value("transfers") * value("bus_width") / BITS_PER_BYTE,
        multi_plane=figures["multi_plane"].text == "yes",
        cache_read=figures["cache_read"].text == "yes",
        retry_probability=value("retry"),
        dram_bytes_per_s=value("dram"),
        edram_bytes_per_s=value("edram"),
        host_link_bytes_per_s=value("host_link") * value("host_link_efficiency"),
    )


def _check_words(figures: Mapping[str, Figure], where: str) -> None:
    """Raises: MachineError: an order of a stripe that is none; a share over 100 %."""
    stripe = figures["stripe"].text
    if sorted(stripe) != sorted(ORDERS):
        raise MachineError(
            f"{where}: stripe '{stripe}' is not an order of the letters {', '.join(ORDERS)} (channel, way, die, "
            "plane), the fastest first; write for example 'pcwd'"
        )
    for field in ("retry", "host_link_efficiency"):
        if figures[field].value > 1:
            raise MachineError(f"{where}: {field} '{figures[field].text}' is over 100 %")


def picoseconds(seconds: float) -> int:
    """A duration in whole picoseconds, rounded."""
    return round(seconds * PICOSECONDS_PER_SECOND)


def _figure(field: str, spec: FigureSpec, where: str) -> Figure:
    if field not in _WORDS:
        return figure(spec, where, field, _UNITS[field], positive=field in _COUNTS)
    words = _WORDS[field]
    if words and spec.value not in words:
        raise MachineError(f"{where}: {field} '{spec.value}' is unknown; write {' or '.join(words)}")
    return sourced(spec, 0.0, where, field)


def _spec(written: RowView | Path, where: str) -> DriveSpec:
    return parse_spec(DriveSpec, written, where, "a drive file")


_specs = Shelf("drives", "drive", _spec)
