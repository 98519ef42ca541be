"""The point of the what-if page, on several hosts, and over every tier and hit ratio."""

from __future__ import annotations

from dataclasses import replace

from penstock.base.units import format_bytes
from penstock.front.explorer.asked import Asked
from penstock.front.explorer.columns import played, short
from penstock.front.explorer.engine import COUNTS, Engine
from penstock.front.explorer.state import State
from penstock.front.explorer.view import View
from penstock.lab.simulation.memory.serial_law import IDEAL_SHARE, required_hit_ratio
from penstock.scheme.machines import tier_names
from penstock.scheme.unpriced import opaque

HIT_RATIOS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
"""Denser where it matters: the ratios that slow tiers need are close to 1."""


def whatif(engine: Engine, state: State) -> View:
    """One simulated point: the row that `penstock simulate` prints for it."""
    asked = Asked.of(state, tier=engine.tier_text(state))
    view = played(engine, asked)
    machine, tier = engine.machine(state.machine), engine.library.tier(asked.tiers[0])
    priced = engine.priced(state, state.machine)
    needed = None
    if not priced.unpriced and not state.text("decode"):
        needed = required_hit_ratio(
            priced.demand_bytes_per_s,
            tier.bandwidth_bytes_per_s,
            reads_per_ideal_s=priced.demand_reads_per_s,
            latency_s=tier.latency_s,
        )
    notes = [
        f"{len(priced):,} operations, {engine.num_keys(state)} evaluation keys, "
        f"{format_bytes(priced.stored_key_bytes)} as stored"
        f"{', besides those of operations whose inside is not known' * opaque(priced.unpriced)}.",
    ]
    if needed is not None:
        notes.append(
            f"With transfers and compute in turn, {100 * IDEAL_SHARE:.0f} % of the ideal speed needs "
            f"{100 * needed:.2f} % of the bytes on chip (one host)."
        )
    if state.drive:
        notes.append(
            f"The tier is the bandwidth that a {state.pattern} scan of drive {state.drive} reaches at queue depth "
            f"{state.queue_depth}."
        )
    return replace(
        view,
        title=f"{view.rows[0]['workload']} at {view.rows[0]['params']} on {short(machine)}",
        notes=notes,
        drawing={"needed_hit_ratio": needed, "on_chip_bytes": machine.on_chip_bytes or None},
    )


def hosts(engine: Engine, state: State) -> View:
    """The state's point on 1 to 64 hosts, its own number among them."""
    asked = Asked.of(state, tier=engine.tier_text(state), hosts=sorted({*COUNTS, state.hosts}))
    view, machine = played(engine, asked), engine.machine(state.machine)
    return replace(
        view,
        title=f"{view.rows[0]['workload']} on 1 to {asked.hosts[-1]} hosts of {short(machine)}",
        notes=[
            f"Network {state.network}, partition {state.partition}. Times are those of the host that ends last; where "
            "loads and compute overlap, the parts add up to more than the total."
        ],
        drawing={"own": state.hosts},
    )


def slowdown(engine: Engine, state: State) -> View:
    """Tier x hit ratio at the state's machine, time mode and hosts; the state's own tier is among the rows."""
    library = engine.library
    own = engine.tier_text(state)
    # One of several tiers with the same bandwidth and latency, the state's own first.
    rates: dict[tuple[float, float], str] = {}
    for name in (own, *tier_names()):
        tier = library.tier(name)
        rates.setdefault((tier.bandwidth_bytes_per_s, tier.latency_s), name)
    tiers = [name for _, name in sorted(rates.items(), key=lambda item: (-item[0][0], item[1]))]
    asked = Asked.of(state, tiers=tiers, hit_ratios=HIT_RATIOS)
    known = [library.tier(name) for name in tiers]
    return replace(
        played(engine, asked),
        title=f"Slowdown by tier and hit ratio on {short(engine.machine(state.machine))}",
        notes=["Total time over compute time; 1 is the ideal, and 1.25 is 80 % of the ideal speed."],
        drawing={
            "tiers": [{"name": tier.name, "bytes_per_s": tier.bandwidth_bytes_per_s} for tier in known],
            "hit_ratios": HIT_RATIOS,
            "own": library.tier(own).name,
        },
    )
