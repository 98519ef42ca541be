"""The parts of an accelerator: word, clusters and lanes, memory, silicon. Cited next to its rates, and not priced.

Rates of units price work (`penstock.scheme.machines.schema`). These values tell which parameter sets a machine can
hold, its area, and the rate of its local memory. Any may be missing: missing is not zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.errors import MachineError
from penstock.scheme.machines import files
from penstock.scheme.machines.figure import Figure, Stated
from penstock.scheme.machines.records import ArchitectureSpec
from penstock.scheme.params.ckks import CkksParameters

WHOLE = ("word", "ring_dim", "clusters", "lanes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture(Stated):
    """The make-up of an accelerator, as its paper or datasheet has it."""

    _PATH: ClassVar[str] = "architecture"

    word: Figure | None = None
    """Bits of the widest prime that a unit takes."""
    ring_dim: Figure | None = None
    """The largest N that a transform unit takes."""
    clusters: Figure | None = None
    lanes: Figure | None = None
    """Of one cluster."""
    off_chip: Figure | None = None
    """Bytes a second of the local memory (HBM); a simulation takes its given tiers instead."""
    area: Figure | None = None
    """mm2."""
    technology: Figure | None = None
    """nm, as the process is named."""

    def misfit(self, machine: str, params: CkksParameters) -> str | None:
        """Why machine `machine` could not hold a parameter set, with the remedy; `None` where nothing speaks against.

        The widest prime counts, not `word_bits`: 54-bit primes in words of 64 fit a unit of 54 bits.
        """
        widest = max(*params.q_bits, *params.p_bits)
        if self.word is not None and widest > self.word.value:
            what = f"primes of up to {widest} bits, and its units take {self.word.value:g}"
        elif self.ring_dim is not None and params.ring_dim > self.ring_dim.value:
            what = f"N = {params.ring_dim}, and its transform units take {self.ring_dim.value:g}"
        else:
            return None
        return (
            f"parameter set '{params.name}' does not fit machine '{machine}': it has {what}; its times are those of "
            "units as wide as the set needs; take the machine's own set ('penstock machines show'), of a trace "
            "with 'penstock trace FILE --params SET -o OTHER'"
        )


def architecture_from_spec(spec: ArchitectureSpec, where: str) -> Architecture:
    """The checked make-up.

    Raises: MachineError: as `figure` does; a count that is not a whole number.
    """
    figures = files.figures(spec, where, "architecture.")
    for name in WHOLE:
        if name in figures and figures[name].value != int(figures[name].value):
            raise MachineError(f"{where}: architecture.{name} '{figures[name].text}' is not a whole number")
    return Architecture(**figures)
