"""Solid-state drives: geometry, timing, interfaces, by name or path.

One TOML file under `data/drives/` is one drive. Every value is a table with value (with its unit), source and kind, as
in machine files, and any of them may be overridden for one run (`load_drive(name, {"sense": "45 us"})`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

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
from penstock.scheme.machines import files
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.files import Shelf, check_name, parse_spec, sourced
from penstock.scheme.machines.records import SHARE, FigureSpec, RecordSpec, Units, counted

ORDERS = "cwdp"
"""Letters of a stripe's order: channel, way (chip), die, plane."""


class DriveSpec(RecordSpec):
    """A drive as a TOML file has it."""

    description: str = ""
    channels: Annotated[FigureSpec, counted("channels", "channel")]
    chips_per_channel: Annotated[FigureSpec, counted("chips/channel", "chip/channel")]
    dies_per_chip: Annotated[FigureSpec, counted("dies/chip", "die/chip")]
    planes_per_die: Annotated[FigureSpec, counted("planes/die", "plane/die")]
    blocks: Annotated[FigureSpec, counted("blocks/plane", "blocks/die", "block/plane")]
    pages_per_block: Annotated[FigureSpec, counted("pages/block", "page/block")]
    page: Annotated[FigureSpec, Units(BYTE_UNITS, positive=True)]
    spare_blocks: Annotated[FigureSpec, Units({"blocks/plane": 1, "block/plane": 1})]
    stated_capacity: Annotated[FigureSpec | None, Units(BYTE_UNITS)] = None
    transfers: Annotated[FigureSpec, Units({"MT/s": 1e6, "GT/s": 1e9}, positive=True)]
    bus_width: Annotated[FigureSpec, counted("bit", "bits")]
    retry: Annotated[FigureSpec, Units({"%": 0.01, "ppm": 1e-6})]
    max_retries: Annotated[FigureSpec, Units({"retries": 1, "retry": 1})]
    dram_capacity: Annotated[FigureSpec, Units(BYTE_UNITS)]
    dram_passes: Annotated[FigureSpec, counted("passes", "pass")]
    host_link_efficiency: Annotated[FigureSpec, Units(SHARE, positive=True)]
    host_buffer: Annotated[FigureSpec, Units(BYTE_UNITS, positive=True)]
    table_entry: Annotated[FigureSpec, Units(BYTE_UNITS, positive=True)]
    collect_below: Annotated[FigureSpec, Units({"blocks": 1})]
    wear_gap: Annotated[FigureSpec, Units({"erases": 1})]
    dram: Annotated[FigureSpec, Units(RATE_UNITS, positive=True)]
    edram: Annotated[FigureSpec, Units(RATE_UNITS, positive=True)]
    host_link: Annotated[FigureSpec, Units(RATE_UNITS, positive=True)]
    read_command: Annotated[FigureSpec, Units(SECOND_UNITS)]
    further_plane: Annotated[FigureSpec, Units(SECOND_UNITS)]
    program_command: Annotated[FigureSpec, Units(SECOND_UNITS)]
    erase_command: Annotated[FigureSpec, Units(SECOND_UNITS)]
    sense: Annotated[FigureSpec, Units(SECOND_UNITS)]
    program: Annotated[FigureSpec, Units(SECOND_UNITS)]
    erase: Annotated[FigureSpec, Units(SECOND_UNITS)]
    correction: Annotated[FigureSpec, Units(SECOND_UNITS)]
    stripe: FigureSpec
    multi_plane: FigureSpec
    cache_read: FigureSpec


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
_WORDS = {"stripe": (), "multi_plane": ("yes", "no"), "cache_read": ("yes", "no")}
_VALUES = [name for name in DriveSpec.model_fields if name not in ("name", "title", "description")]


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
        check_known("value of a drive", value, _VALUES)
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
    figures = files.figures(spec, where) | {word: _word(word, getattr(spec, word), where) for word in _WORDS}

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


def _word(field: str, spec: FigureSpec, where: str) -> Figure:
    words = _WORDS[field]
    if words and spec.value not in words:
        raise MachineError(f"{where}: {field} '{spec.value}' is unknown; write {' or '.join(words)}")
    return sourced(spec, 0.0, where, field)


def _spec(written: RowView | Path, where: str) -> DriveSpec:
    return parse_spec(DriveSpec, written, where, "a drive file")


_specs = Shelf("drives", "drive", _spec)
