"""The parts of the time on one host, and on several."""

from __future__ import annotations

from penstock.explorer.asked import Asked
from penstock.explorer.columns import short, simulated_columns
from penstock.explorer.engine import COUNTS, Engine
from penstock.explorer.state import State
from penstock.explorer.view import View


def hosts(engine: Engine, state: State) -> View:
    """The state's point on 1 to 64 hosts, its own number among them."""
    library = engine.library
    asked = Asked.of(state, tier=engine.tier_text(state), hosts=sorted({*COUNTS, state.hosts}))
    rows, warnings = engine.play(asked)
    machine, tier = engine.machine(state.machine), library.tier(asked.tiers[0])
    network = library.network(state.network)
    return View(
        name="hosts",
        title=f"{rows[0]['workload']} on 1 to {asked.hosts[-1]} hosts of {short(machine)}",
        columns=simulated_columns([machine], [tier], network, stated=asked.hit_ratios is not None),
        rows=rows,
        command=asked.command(library),
        warnings=warnings,
        notes=[
            f"Network {state.network}, partition {state.partition}. Times are those of the host that ends last; where "
            "loads and compute overlap, the parts add up to more than the total."
        ],
        drawing={"own": state.hosts},
    )
