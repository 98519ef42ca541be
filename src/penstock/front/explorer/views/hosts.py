"""The parts of the time on one host, and on several."""

from __future__ import annotations

from dataclasses import replace

from penstock.front.explorer.asked import Asked
from penstock.front.explorer.columns import played, short
from penstock.front.explorer.engine import COUNTS, Engine
from penstock.front.explorer.state import State
from penstock.front.explorer.view import View


def hosts(engine: Engine, state: State) -> View:
    """The state's point on 1 to 64 hosts, its own number among them."""
    asked = Asked.of(state, tier=engine.tier_text(state), hosts=sorted({*COUNTS, state.hosts}))
    view, machine = played(engine, asked), engine.machine(state.machine)
    return replace(
        view,
        name="hosts",
        title=f"{view.rows[0]['workload']} on 1 to {asked.hosts[-1]} hosts of {short(machine)}",
        notes=[
            f"Network {state.network}, partition {state.partition}. Times are those of the host that ends last; where "
            "loads and compute overlap, the parts add up to more than the total."
        ],
        drawing={"own": state.hosts},
    )
