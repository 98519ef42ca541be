"""The point of the what-if page: one row, where its time goes, and what hit ratio would do."""

from __future__ import annotations

from dataclasses import replace

from penstock.base.units import format_bytes
from penstock.front.explorer.asked import Asked
from penstock.front.explorer.columns import played, short
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.state import State
from penstock.front.explorer.view import View
from penstock.lab.simulation.memory.serial_law import IDEAL_SHARE, required_hit_ratio
from penstock.scheme.unpriced import opaque


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
        name="whatif",
        title=f"{view.rows[0]['workload']} at {view.rows[0]['params']} on {short(machine)}",
        notes=notes,
        drawing={"needed_hit_ratio": needed, "on_chip_bytes": machine.on_chip_bytes or None},
    )
