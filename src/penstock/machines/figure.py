"""One value of a machine, a tier, a network or a drive, and how far it can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One checked value: in base units, as it was written, and where it comes from."""

    value: float
    text: str
    source: str
    kind: Evidence
