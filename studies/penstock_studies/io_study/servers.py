"""Dedicated against shared servers, which the study names and does not compute: a stream of ResNet-20 on SHARP.

"It would be ideal to have dedicated servers for users … this undoubtedly leads to low resource efficiency. A possible
solution is to … pipeline the access to hide the context switch overhead." Users ask at random. A server's memory reads
keys as the tier 'hbm' does and holds those of few users; the others' come from a slower tier.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from penstock.base.types import Row
from penstock.lab.simulation.servers.fleet import Arrangement, Fleet, Loading
from penstock.lab.simulation.servers.play import ServedStream, play
from penstock.lab.simulation.servers.rows import application_of, row_of
from penstock.lab.simulation.servers.stream import Stream, poisson
from penstock.scheme.machines import Tier, load_tier
from penstock.scheme.machines.prices import PriceList
from penstock_studies.io_study.model import Study, StudyProgram
from penstock_studies.io_study.rows import row

GROUP = "servers"
USERS = 16
LOAD = 0.1
"""Share of its time that a dedicated server computes."""
RUNS = 1000
MEMORY_TIER = "hbm"
MEMORY_BYTES = 80 * 10**9
"""Of each server: an H100's. It holds the keys of four users."""
TIERS = ("pcie5", "rdma")
SERVERS = (2, 4, 8)
WAYS = ((Arrangement.POOLED, Loading.WAIT), (Arrangement.POOLED, Loading.AHEAD), (Arrangement.LOCAL, Loading.AHEAD))
ASSUMED = (("load", f"{LOAD:.0%} of a dedicated server a user"), ("memory", f"{MEMORY_BYTES / 1e9:g} GB a server"))
"""Of the stream and the servers."""
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


def server_rows(study: Study, prices: PriceList) -> Iterator[Row]:
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
                played = _played(program, stream, prices, fleet(arrangement, servers, loading, tier))
                note = (
                    f"{asked}; {servers} servers, {where}, others' from '{name}'; stalled "
                    f"{played['stalled_share']:.1%}, {played['loads_share']:.1%} of the runs load"
                )
                yield from _rows(f"{name}.{way}.servers{servers}", played, note)
            yield _fewest_row(stream, tier, arrangement, loading)


def assumed_server_rows(study: Study) -> Iterator[Row]:
    """The fewest servers, keys ahead and locality first, with half and twice of each assumed value of the stream."""
    program = study.program("sharp", "resnet20")
    for name in TIERS:
        tier = load_tier(name)
        for what, value in ASSUMED:
            for factor in (0.5, 2.0):
                stream = users_of(program, factor if what == "load" else 1.0)
                memory = round(MEMORY_BYTES * (factor if what == "memory" else 1.0))
                few, _ = fewest(stream, Arrangement.LOCAL, Loading.AHEAD, tier, memory)
                note = f"assumed {value}; {factor:g} times: fewest servers over '{name}', keys ahead, locality first"
                row_id = f"assumed.servers.{name}.{what}.times-{factor:g}"
                yield row(row_id, "assumed", "servers", float(few), note, policy="assumed")


@lru_cache(maxsize=8)
def users_of(program: StudyProgram, factor: float = 1.0) -> Stream:
    """The stream: every user keeps a dedicated server busy for `LOAD` of its time, or `factor` times that."""
    application = application_of(program.priced, load_tier(MEMORY_TIER))
    rate = factor * LOAD * USERS / application.run_s
    return poisson([application], users=USERS, rate_per_s=rate, runs=RUNS)


def fleet(
    arrangement: Arrangement, servers: int, loading: Loading, tier: Tier, memory_bytes: int = MEMORY_BYTES
) -> Fleet:
    """Servers of the study's memory over one tier."""
    return Fleet(
        arrangement=arrangement,
        servers=servers,
        loading=loading,
        memory_bytes=memory_bytes,
        tier=tier.name,
        tier_bytes_per_s=tier.bandwidth_bytes_per_s,
        tier_latency_s=tier.latency_s,
        tier_j_per_byte=tier.energy_j_per_byte,
    )


def _played(program: StudyProgram, stream: Stream, prices: PriceList, made: Fleet) -> Row:
    return row_of(stream, made, _play(stream, made), prices, machine=program.machine, is_gpu=False, zipf=0.0)


def _rows(name: str, played: Row, note: str) -> Iterator[Row]:
    for quantity, (column, unit) in SHOWN.items():
        row_id = f"servers.sharp.resnet20.{name}.{quantity}"
        yield row(row_id, GROUP, quantity, played[column], note, unit=unit, policy=GROUP)


def fewest(
    stream: Stream, arrangement: Arrangement, loading: Loading, tier: Tier, memory_bytes: int = MEMORY_BYTES
) -> tuple[int, float]:
    """The fewest servers on which 95 % of the runs end nearly as soon as on dedicated ones, and that time of those.

    They are found by halving, since more servers are quicker.
    """
    own = _own_latency_95_s(stream)
    few, enough = 0, USERS
    while enough - few > 1:
        middle = (few + enough) // 2
        soon = latency_95_s(stream, fleet(arrangement, middle, loading, tier, memory_bytes)) <= ALLOWED * own
        few, enough = (few, middle) if soon else (middle, enough)
    return enough, own


@lru_cache(maxsize=64)
def _play(stream: Stream, made: Fleet) -> ServedStream:
    """Rows and the search for the fewest servers ask for some of the same fleets."""
    return play(stream, made)


@lru_cache(maxsize=4)
def _own_latency_95_s(stream: Stream) -> float:
    """Of dedicated servers, which load nothing."""
    return latency_95_s(stream, fleet(Arrangement.DEDICATED, USERS, Loading.WAIT, load_tier(TIERS[0])))


def latency_95_s(stream: Stream, made: Fleet) -> float:
    """95 % of the runs end within this time of their arrival."""
    return float(np.percentile(_play(stream, made).end_s - stream.at_s, 95))


def _fewest_row(stream: Stream, tier: Tier, arrangement: Arrangement, loading: Loading) -> Row:
    few, own = fewest(stream, arrangement, loading, tier)
    note = f"of {USERS} at most: 95 % of the runs end within {ALLOWED:g} times the {own:.3g} s of dedicated servers"
    row_id = f"servers.sharp.resnet20.{tier.name}.{arrangement}-{loading}.fewest"
    return row(row_id, GROUP, "servers", float(few), note, policy=GROUP)
