"""The unmeasured and unstated values behind a simulation, below its table and in its JSON rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Console

from penstock.base.types import Rows, RowView
from penstock.scheme.machines import Machine, Network, Tier, assumptions
from penstock.scheme.machines.missing import MISSING, of_link

KINDS = ("calibrated", "assumed", MISSING)
"""In the order of their lines; of each machine, tier and network."""


def draw_assumed(
    console: Console, machines: Sequence[Machine], tiers: Sequence[Tier], networks: Sequence[Network]
) -> None:
    """A line for each machine, tier and network that has such values, of each kind."""
    stated = [(machine.name, assumptions(machine)) for machine in machines]
    stated += [(tier.name, of_link("tier", tier)) for tier in tiers]
    stated += [(network.name, of_link("network", network)) for network in networks]
    for line in (line for name, values in stated for line in stated_lines(name, values)):
        console.print(line, highlight=False, markup=False)


def stated_lines(name: str, values: Iterable[RowView]) -> Iterator[str]:
    """A line for each kind of the values of one machine, tier or network."""
    for kind in KINDS:
        if text := "; ".join(f"{a['field']} {a['value']}" for a in values if a["kind"] == kind):
            yield f"{name}, {kind}: {text}"


def with_assumptions(rows: Iterable[RowView], values: Sequence[Mapping[str, str]]) -> Rows:
    """Return the rows, each with the assumed values of its machine, tiers and network."""
    return [{**row, "assumptions": [assumption for assumption in values if _is_of(row, assumption)]} for row in rows]


def _is_of(row: RowView, value: Mapping[str, str]) -> bool:
    if "tier" in value:  # a row of several levels has the names of all
        return value["tier"] == row["tier"] or value["tier"] in row["tier"].split("+")
    what = "network" if "network" in value else "machine"
    return value[what] == row.get(what)
