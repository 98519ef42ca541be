"""What a simulation rests on that nobody has measured or stated, below its table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console

from penstock.machines import Machine, Network, Tier, assumed, assumptions
from penstock.machines.missing import MISSING

KINDS = ("calibrated", "assumed", MISSING)
"""In the order of their lines; of each machine, tier and network."""


def draw_assumed(
    console: Console, machines: Sequence[Machine], tiers: Sequence[Tier], networks: Sequence[Network]
) -> None:
    """A line for each machine, tier and network that has such values, of each kind."""
    stated = [(machine.name, assumptions(machine)) for machine in machines]
    stated += [(tier.name, assumed("tier", tier.name, tier.figures)) for tier in tiers]
    stated += [(network.name, assumed("network", network.name, network.figures())) for network in networks]
    for name, values in stated:
        for kind in KINDS:
            _line(console, f"{name}, {kind}", (f"{a['field']} {a['value']}" for a in values if a["kind"] == kind))


def _line(console: Console, what: str, values: Iterable[str]) -> None:
    if said := "; ".join(values):
        console.print(f"{what}: {said}", highlight=False, markup=False)
