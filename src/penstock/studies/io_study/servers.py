"""Dedicated against shared servers, which the study names and does not compute: a stream of ResNet-20 on SHARP.

"It would be ideal to have dedicated servers for users … this undoubtedly leads to low resource efficiency. A possible
solution is to … pipeline the access to hide the context switch overhead." Users ask at random. A server's memory reads
keys as the tier 'hbm' does and holds those of few users; the others' come from a slower tier.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.machines import Tier, load_tier
from penstock.machines.prices import PriceList
from penstock.simulation.servers.fleet import Arrangement, Fleet, Loading
from penstock.simulation.servers.play import play
from penstock.simulation.servers.rows import application_of, row_of
from penstock.simulation.servers.stream import Stream, poisson
from penstock.studies.io_study.model import FULL, Study, StudyProgram
from penstock.studies.io_study.rows import row

GROUP = "servers"
USERS = 16
LOAD = 0.1
"""Share of its time that a dedicated server computes."""
RUNS = 1000
MEMORY_TIER = "hbm"
MEMORY_BYTES = 64 * 10**9
"""Of each server, as much as FHEIns' host has of HBM."""
TIERS = ("ddr5", "pcie5", "rdma")
SERVERS = (2, 4, 8)
WAYS = ((Arrangement.POOLED, Loading.WAIT), (Arrangement.POOLED, Loading.AHEAD), (Arrangement.LOCAL, Loading.AHEAD))
ALLOWED = 2.0
"""Times the latency of dedicated servers that 95 % of the runs may take, for the fewest servers."""
SHOWN = {
    "utilisation": ("utilisation", "1"),
    "latency_median": ("latency_p50_s", "s"),
    "latency_95": ("latency_p95_s", "s"),
    "loaded_bytes": ("loaded_bytes", "B"),
    "energy": ("energy_j", "J"),
    "cost": ("cost_usd", "USD/1000 runs"),
}
"""Quantity -> its column, and its unit."""


def server_rows(study: Study, prices: PriceList) -> Iterator[dict[str, Any]]:
    """Each arrangement's utilisation, latencies, loads and costs; and the fewest servers that are nearly as quick."""
    program = study.program("sharp", "resnet20")
    stream = users_of(program)
    one = _played(program, stream, prices, fleet(Arrangement.DEDICATED, USERS, Loading.WAIT, load_tier(TIERS[0])))
    asked = f"{RUNS} runs of {USERS} users at random, {stream.rate_per_s:.3g} a second"
    where = f"{MEMORY_BYTES / 1e9:g} GB for keys a server"
    yield from _rows("dedicated", one, f"{asked}; a server for each user, {where}")
    for name in TIERS:
        tier = load_tier(name)
        for arrangement, loading in WAYS:
            way = f"{arrangement}-{loading}"
            for servers in SERVERS:
                found = _played(program, stream, prices, fleet(arrangement, servers, loading, tier))
                note = (
                    f"{asked}; {servers} servers, {where}, others' from '{name}'; stalled {found['stalled_share']:.1%}, "
                    f"{found['loads_share']:.1%} of the runs load"
                )
                yield from _rows(f"{name}.{way}.servers{servers}", found, note)
            yield _fewest_row(program, stream, prices, tier, arrangement, loading, one)


def users_of(program: StudyProgram) -> Stream:
    """The stream: every user keeps a dedicated server busy for `LOAD` of its time."""
    application = application_of(program.priced, load_tier(MEMORY_TIER), program.priced.stored_key_bytes)
    rate = LOAD * USERS / application.run_s
    return poisson([application], users=USERS, rate_per_s=rate, runs=RUNS)


def fleet(arrangement: Arrangement, servers: int, loading: Loading, tier: Tier) -> Fleet:
    """Servers of the study's memory over one tier."""
    return Fleet(
        arrangement=arrangement,
        servers=servers,
        loading=loading,
        memory_bytes=MEMORY_BYTES,
        tier=tier.name,
        tier_bytes_per_s=tier.bandwidth_bytes_per_s,
        tier_latency_s=tier.latency_s,
        tier_j_per_byte=tier.energy_j_per_byte,
    )


def _played(program: StudyProgram, stream: Stream, prices: PriceList, made: Fleet) -> dict[str, Any]:
    return row_of(stream, made, play(stream, made), prices, machine=program.machine, is_gpu=False, zipf=0.0)


def _rows(name: str, found: dict[str, Any], note: str) -> Iterator[dict[str, Any]]:
    for quantity, (column, unit) in SHOWN.items():
        row_id = f"servers.sharp.resnet20.{name}.{quantity}"
        yield row(row_id, GROUP, quantity, found[column], note, unit=unit, policy=GROUP)


def _fewest_row(
    program: StudyProgram,
    stream: Stream,
    prices: PriceList,
    tier: Tier,
    arrangement: Arrangement,
    loading: Loading,
    dedicated: dict[str, Any],
) -> dict[str, Any]:
    """The fewest servers, by halving; more servers are taken to be quicker."""
    most = ALLOWED * dedicated["latency_p95_s"]
    few, enough = 0, USERS
    found: dict[int, dict[str, Any]] = {}
    while enough - few > 1:
        middle = (few + enough) // 2
        found[middle] = _played(program, stream, prices, fleet(arrangement, middle, loading, tier))
        few, enough = (few, middle) if found[middle]["latency_p95_s"] <= most else (middle, enough)
    note = (
        f"of {USERS} at most: 95 % of the runs end within {ALLOWED:g} times the {dedicated['latency_p95_s']:.3g} s of "
        "dedicated servers"
    )
    if enough in found:
        note += f"; they compute {found[enough]['utilisation']:.1%} of the time"
    row_id = f"servers.sharp.resnet20.{tier.name}.{arrangement}-{loading}.fewest"
    return row(row_id, GROUP, "servers", float(enough), note, policy=GROUP)
