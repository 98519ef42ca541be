"""What else lives in a memory level: a language model in the HBM of the accelerator, say. It takes room and bandwidth.

A resident is a TOML file under `scheme/machines/data/residents/`; a reservation is one of them in a level, or a stated
size.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from penstock.base.types import RowView
from penstock.base.units import BYTE_UNITS, parse_bytes
from penstock.errors import UsageError, check_known
from penstock.scheme.machines.files import Shelf, figure, parse_spec
from penstock.scheme.machines.records import FigureSpec, RecordSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """A resident of a memory level next to the data of encrypted programs."""

    name: str
    fixed_bytes: int
    per_request_bytes: int

    def bytes_for(self, requests: int) -> int:
        """Its bytes while it serves this many requests."""
        if requests < 0:
            raise UsageError(f"{requests} requests of '{self.name}': a number of requests is not negative")
        return self.fixed_bytes + requests * self.per_request_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Room and bandwidth of a level that others use."""

    name: str
    capacity_bytes: int
    bandwidth_share: float = 0.0
    """Share of the level's bandwidth that they take."""

    def __post_init__(self) -> None:
        if self.capacity_bytes < 0:
            raise UsageError(f"reservation '{self.name}' of {self.capacity_bytes} bytes: it is not negative")
        if not 0 <= self.bandwidth_share < 1:
            raise UsageError(
                f"reservation '{self.name}' takes {self.bandwidth_share} of the bandwidth: a share is 0 or more and "
                "less than 1"
            )


def load_resident(name: str) -> Resident:
    """The resident of that name.

    Raises: UnknownName: no such resident, with the nearest name.
    >>> load_resident("opt-13b").bytes_for(1)
    29635274343
    """
    known = _RESIDENTS()
    check_known("resident", name, known)
    return known[name]


def parse_reservation(text: str, what: str = "reservation") -> Reservation:
    """A reservation as a person writes it: a size, or a resident's name with its requests, and a share of bandwidth.

    >>> parse_reservation("10 GiB").capacity_bytes == 10 * 2**30
    True
    >>> parse_reservation("opt-13b:4 @ 30 %").bandwidth_share
    0.3
    """
    room, at, share_text = (part.strip() for part in text.partition("@"))
    share = 0.0
    if at:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", share_text)
        if match is None or not float(match.group(1)) < 100:
            raise UsageError(
                f"{what} '{text}': '{share_text}' is not a share of the bandwidth; write for example '30 %'"
            )
        share = float(match.group(1)) / 100
    if re.match(r"[+-]?\.?\d", room):
        return Reservation(name=room, capacity_bytes=parse_bytes(room, what), bandwidth_share=share)
    name, colon, requests = room.partition(":")
    if colon and not requests.strip().isdecimal():
        raise UsageError(f"{what} '{text}': '{requests}' is not a number of requests; write for example '{name}:4'")
    return Reservation(
        name=room,
        capacity_bytes=load_resident(name.strip()).bytes_for(int(requests) if colon else 1),
        bandwidth_share=share,
    )


class ResidentSpec(RecordSpec):
    """The file."""

    fixed: FigureSpec
    per_request: FigureSpec


def _resident(record: RowView, where: str) -> Resident:
    spec = parse_spec(ResidentSpec, record, where)
    # 1.6 GiB are not whole bytes; a fraction takes one byte.
    fixed, per_request = (
        math.ceil(figure(getattr(spec, field), where, field, BYTE_UNITS).value) for field in ("fixed", "per_request")
    )
    return Resident(name=spec.name, fixed_bytes=fixed, per_request_bytes=per_request)


_RESIDENTS = Shelf("residents", "resident", _resident)
