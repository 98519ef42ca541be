"""The slowdown map: every tier at many hit ratios."""

from __future__ import annotations

from dataclasses import replace

from penstock.front.explorer.asked import Asked
from penstock.front.explorer.columns import played, short
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.state import State
from penstock.front.explorer.view import View
from penstock.scheme.machines import tier_names

HIT_RATIOS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
"""Denser where it matters: the ratios that slow tiers need are close to 1."""


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
        name="slowdown",
        title=f"Slowdown by tier and hit ratio on {short(engine.machine(state.machine))}",
        notes=["Total time over compute time; 1 is the ideal, and 1.25 is 80 % of the ideal speed."],
        drawing={
            "tiers": [{"name": tier.name, "bytes_per_s": tier.bandwidth_bytes_per_s} for tier in known],
            "hit_ratios": HIT_RATIOS,
            "own": library.tier(own).name,
        },
    )
