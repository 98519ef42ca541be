"""Rows of fleets: load of servers, time of runs, loaded bytes, and the cost of a thousand runs."""

from __future__ import annotations

import numpy as np

from penstock.base.types import Row
from penstock.lab.simulation.servers.fleet import Fleet
from penstock.lab.simulation.servers.law import wait_s
from penstock.lab.simulation.servers.play import ServedStream
from penstock.lab.simulation.servers.stream import Application, Stream
from penstock.scheme.machines.prices import PriceList
from penstock.scheme.machines.schema import Machine, Tier
from penstock.scheme.play.caches import NoCache
from penstock.scheme.play.hierarchy import Pace, play_many, replay
from penstock.scheme.play.price import PricedTrace
from penstock.scheme.unpriced import refuse

THOUSAND = 1000
PERCENTILES = (50, 95, 99)


def application_of(priced: PricedTrace, memory: Tier | None) -> Application:
    """A priced program whose keys are in a server's memory.

    Args:   memory: the tier that they are read from at each use; `None`: every byte is at hand.
    """
    refuse(priced.unpriced, f"{priced.workload} on '{priced.machine}': servers are simulated with the time of a run")
    run_s, joules = priced.ideal_s, priced.compute_j
    if memory is not None:
        loaded = replay(priced.accesses, NoCache())
        (result,) = play_many(priced.compute_s, loaded, [Pace(tier=memory)], compute_j=joules)
        run_s, joules = result.total_s, result.energy_j
    return Application(name=priced.workload, run_s=run_s, key_bytes=priced.stored_key_bytes, joules=joules)


def row_of(
    stream: Stream,
    fleet: Fleet,
    played: ServedStream,
    prices: PriceList,
    *,
    machine: Machine,
    is_gpu: bool,
    zipf: float,
) -> Row:
    """A flat row.

    Returns: shares are of all servers' time from 0 to the last end; `latency_*_s` from the arrival of a run to its end;
            `loaded_bytes` a run; `energy_j` a run, of computing and loads; `cost_usd` of a thousand runs, the rent of
            all servers for the whole time; `closed_form_wait_s` as `penstock.lab.simulation.servers.law.wait_s`.
    """
    runs, span = len(stream), played.span_s
    whole = fleet.servers * span
    latency, run_s = played.end_s - stream.at_s, stream.run_s
    busy, stalled = float(run_s.sum()) / whole, float(played.stalled_s.sum()) / whole
    percentiles = np.percentile(latency, PERCENTILES).tolist()
    law = wait_s(stream, fleet, zipf)
    return {
        "applications": "+".join(dict.fromkeys(user.name for user in stream.users)),
        "machine": machine.name,
        "arrangement": fleet.arrangement.value,
        "loading": fleet.loading.value,
        "servers": fleet.servers,
        "users": len(stream.users),
        "runs": runs,
        "rate_per_s": stream.rate_per_s,
        "tier": fleet.tier,
        "memory_bytes": fleet.memory_bytes,
        "offered_load": stream.rate_per_s * float(run_s.mean()) / fleet.servers,
        "utilisation": busy,
        "stalled_share": stalled,
        "idle_share": 1 - busy - stalled,
        "latency_mean_s": float(latency.mean()),
        **{f"latency_p{p}_s": value for p, value in zip(PERCENTILES, percentiles, strict=True)},
        "wait_mean_s": float((played.start_s - stream.at_s).mean()),
        "closed_form_wait_s": law if law is None or law < float("inf") else None,
        "loads_share": float((played.loaded_bytes > 0).mean()),
        "loaded_bytes": float(played.loaded_bytes.mean()),
        "installed_bytes": played.installed_bytes,
        "switches": played.switches,
        "most_overtaken": played.most_overtaken,
        "energy_j": _joules(stream, fleet, played),
        "cost_usd": THOUSAND * prices.run_usd(span, 0.0, is_gpu=is_gpu, hosts=fleet.servers) / runs,
        "provenance": "simulated",
    }


def _joules(stream: Stream, fleet: Fleet, played: ServedStream) -> float | None:
    """Of one run; `None` where a part is not known."""
    known = [user.joules for user in stream.users]
    loaded = float(played.loaded_bytes.mean())
    if any(energy is None for energy in known) or (loaded and fleet.tier_j_per_byte is None):
        return None
    computing = np.array(known, dtype=np.float64)[stream.user].mean()
    return float(computing) + loaded * (fleet.tier_j_per_byte or 0.0)
