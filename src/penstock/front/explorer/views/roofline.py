"""The roofline of a system: its speed as a share of the ideal, over the compute time that a loaded byte is worth.

A program that computes t seconds and loads B bytes has the intensity t / B. Compute bounds the share at 1; a tier of
bandwidth W at W t / B, a slope; communication at t over its own time, a level. The program itself lies at
(t / B, t / total), and each kind of operation at its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from penstock.base.types import Row, Rows, RowView
from penstock.front.explorer.asked import Asked
from penstock.front.explorer.columns import played, short
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.state import State
from penstock.front.explorer.view import View
from penstock.scheme.machines import tier_names
from penstock.scheme.play.caches import Cache
from penstock.scheme.play.hierarchy import MODES, BackingTier, channel_seconds, replay


def roofline(engine: Engine, state: State) -> View:
    """The state's point in every time mode, under the roofs of compute, tier and network."""
    library = engine.library
    own = engine.tier_text(state)
    asked = Asked.of(state, tier=own, modes=MODES)
    view = played(engine, asked)
    machine, tier = engine.machine(state.machine), library.tier(own)
    first = view.rows[0]
    roofs = [{"name": name, "bytes_per_s": library.tier(name).bandwidth_bytes_per_s} for name in tier_names()]
    priced = engine.priced(state, state.machine)
    computes = first["compute_s"] is not None
    communication = first["compute_s"] / first["communication_s"] if computes and first["communication_s"] else None
    notes = [
        "Across: ideal compute time for each byte loaded. Up: share of the ideal speed. A point below the roofs waits "
        "for more than its slowest resource."
    ]
    decoded = bool(state.text("decode"))
    if asked.networked or decoded:
        notes.append("Kinds of operations are drawn for one host, without decoding.")
    return replace(
        view,
        title=f"Roofline of compute, I/O and communication, {short(machine)} over {tier.name}",
        notes=notes,
        drawing={
            "tier": tier.name,
            "bytes_per_s": tier.bandwidth_bytes_per_s,
            "tiers": roofs,
            "communication": communication,
            "points": [_point(row) for row in view.rows],
            "kinds": [] if asked.networked or decoded or priced.unpriced else _kinds(engine, state, asked, tier),
            "own": state.mode,
        },
    )


def _point(row: RowView) -> Row:
    """(intensity, share) of a row; no intensity where nothing is loaded, none of both where the time is unknown."""
    compute_s = row["compute_s"]
    return {
        "mode": row["mode"],
        "s_per_byte": compute_s / row["io_bytes"] if compute_s is not None and row["io_bytes"] else None,
        "share": compute_s / row["total_s"] if compute_s is not None and row["total_s"] else None,
    }


def _kinds(engine: Engine, state: State, asked: Asked, tier: BackingTier) -> Rows:
    """The same of each kind of operation that loads something, with transfers and compute in turn."""
    priced = engine.priced(state, state.machine)
    code, names = engine.kinds(state)
    accesses = priced.accesses
    machine = engine.machine(state.machine)
    loaded = replay(accesses, cast(Cache, asked.question(engine.library, [machine]).points_on(machine)[0].hold))
    size = np.asarray(loaded.operation_bytes, dtype=np.float64)
    channel = channel_seconds(size, np.asarray(loaded.operation_transfers, dtype=np.float64), tier)
    count = np.bincount(code, minlength=len(names))
    compute, io, loads = (np.bincount(code, weights=w, minlength=len(names)) for w in (priced.compute_s, channel, size))
    return [
        {
            "kind": name,
            "count": int(count[i]),
            "compute_s": float(compute[i]),
            "io_bytes": float(loads[i]),
            "s_per_byte": float(compute[i] / loads[i]),
            "share": float(compute[i] / (compute[i] + io[i])),
        }
        for i, name in enumerate(names)
        if loads[i] > 0 and compute[i] > 0
    ]
