"""Formulas that tests hold drives, clusters and caches against, and one program or one cluster played by itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy.typing as npt

from penstock.errors import UnknownName, UsageError
from penstock.lab.instorage.flash.closed_form import command_s, page_on_bus_s
from penstock.lab.simulation.cluster.cluster import play_clusters
from penstock.lab.simulation.cluster.dealing import MOD_DOWNS, MOD_UPS
from penstock.lab.simulation.cluster.program import ClusterProgram, prepare
from penstock.lab.simulation.cluster.simgrid import SimGrid
from penstock.lab.simulation.cluster.spec import Cluster
from penstock.scheme.machines.drives import Drive
from penstock.scheme.machines.networks import Network
from penstock.scheme.machines.schema import Machine
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import Cache
from penstock.scheme.play.hierarchy import BackingTier, Mode, Pace, PlayedPoint, Prefetch, Replay, play_many, replay
from penstock.scheme.play.price import price_trace
from penstock.scheme.traces.schema import Trace
from penstock.scheme.work.shapes import Shape

LOCALITY_NAMES = (
    "workload", "params", "machine", "tier", "runtime", "policy", "memory_bytes", "cache_bytes",
    "prefetch_buffer_bytes", "hit_ratio", "io_bytes", "compute_s", "io_s", "total_s", "slowdown", "saved_bytes",
    "saved_bytes_share", "saved_s", "saved_s_share", "provenance",
)  # fmt: skip
"""Names of a row of `penstock.lab.simulation.memory.locality.locality_table`, in their order."""


def sense_rate(drive: Drive, planes: int) -> float:
    """Where buses take no time: all dies sense p pages again and again: dies x p pages / tR."""
    return drive.dies * planes * drive.page_bytes / drive.sense_s


def single_read_s(drive: Drive) -> float:
    """One page at a time (queue depth 1), up to the end of error correction: command + tR + x + correction."""
    return command_s(drive, 1) + drive.sense_s + page_on_bus_s(drive) + drive.correction_s


def single_read_to_host_s(drive: Drive) -> float:
    """And then through DRAM, in and out, and over the link."""
    passes = drive.dram_passes * drive.page_bytes / drive.dram_bytes_per_s
    return single_read_s(drive) + passes + drive.page_bytes / drive.host_link_bytes_per_s


def served_rate(consumers: int, chunk_bytes: int, service_s: float) -> float:
    """Accelerators bind: consumers x chunk / service."""
    return consumers * chunk_bytes / service_s


def metadata_rate(chunk_bytes: int, metadata_bytes: int, memory_bytes_per_s: float) -> float:
    """The shared memory binds that all consumers fetch their metadata from: chunk / (metadata / rate)."""
    return chunk_bytes * memory_bytes_per_s / metadata_bytes


def lru_write_amplification(used_share: float) -> float:
    """Pages programmed per page written, uniform over the drive, where blocks are collected in the order of writing.

    u = used_share of the blocks hold valid data. With A the amplification, a block has lost all but the share
    v = 1 - 1/A of its pages when its turn comes, and v solves v = exp(-(1 - v) / u): Desnoyers, SYSTOR 2012.
    Collecting the block with the most invalid pages does better.
    """
    valid = 0.5
    for _ in range(10_000):
        valid = math.exp(-(1 - valid) / used_share)
    return 1 / (1 - valid)


def rplp_star_seconds(
    shapes: Iterable[tuple[Shape, int]], params: CkksParameters, hosts: int, network: Network
) -> float:
    """Seconds in which operations exchange limbs, by formula: rPLP, a star, direct all-gathers, scattered broadcasts.

    An all-gather of n limbs takes (h-1) ceil(n/h) limb times, for n of ModUp and for 2k of ModDown (2 (h-1) ceil(k/h));
    a broadcast of p limbs takes 2 (h-1)/h p of them. To each round the latency of two links is added.

    Args:   shapes: operations with how often each occurs.
    """
    if hosts == 1:
        return 0.0
    limb = params.polynomial_bytes(1)

    def gather(limbs: int, polynomials: int) -> float:
        return polynomials * (hosts - 1) * -(-limbs // hosts) * limb / network.bandwidth_bytes_per_s + 2 * latency

    def broadcast(polynomials: int) -> float:
        # Parts are whole bytes: the largest one is rounded up. The root's way out and, in the second round, every
        # other host's carry all parts but one, or that host's part to all others but the root and itself.
        num_bytes = polynomials * limb
        largest = -(-num_bytes // hosts)
        scatter = num_bytes - largest
        return (scatter + (hosts - 1) * largest) / network.bandwidth_bytes_per_s + 4 * latency

    latency, total = network.latency_s, 0.0
    for shape, count in shapes:
        kind, seconds = OpKind(shape.kind), shape.implied_rescales * broadcast(2)
        if kind is OpKind.DECOMPOSE_EXTENDED:
            seconds += gather(params.num_p, 1)
        if kind in MOD_UPS:
            seconds += gather(shape.limbs_in, 1)
        if kind in MOD_DOWNS:
            seconds += gather(params.num_p, 2)
        if kind is OpKind.RESCALE:
            seconds += (shape.limbs_in - shape.limbs_out) * broadcast(shape.polynomials)
        if kind is OpKind.MOD_RAISE:
            seconds += gather(shape.limbs_in, shape.polynomials)
        total += count * seconds
    return total


def play_cluster(
    trace: Trace | ClusterProgram,
    machine: Machine,
    tier: BackingTier,
    cluster: Cluster,
    *,
    mode: Mode = "serial",
    cache: Cache | None = None,
    key_form: KeyForm | None = None,
    classes: Sequence[str] = ("key",),
    decode_bytes_per_s: float | None = None,
    prefetch_depth: int = 1,
    simgrid: SimGrid | None = None,
) -> PlayedPoint:
    """Play a trace on one cluster over one tier.

    Args:   trace: or what `prepare` made of it, with this machine; cache: of each host; simgrid: lets SimGrid play the
            messages instead of the flow engine.
    Raises: as `play_clusters` and `prepare`.
    """
    program = trace
    if isinstance(program, Trace):
        program = prepare(
            program, machine, price_trace(program, machine, key_form=key_form, classes=classes), key_form=key_form
        )
    elif program.machine != machine:
        raise UsageError(f"the program was prepared for machine '{program.machine.name}', not for '{machine.name}'")
    pace = Pace(tier=tier, mode=mode, decode_bytes_per_s=decode_bytes_per_s, prefetch=Prefetch(prefetch_depth))
    return play_clusters(program, [cluster], [pace], cache=cache, simgrid=simgrid)[0]


def balance_bytes_per_s(bytes_per_ideal_s: float, mode: str, *, target: float = 1.0) -> float:
    """The bandwidth at which a program reaches `target` of its ideal speed: where I/O stops to bind.

    In `serial`, D / (1 / target - 1), never reached at a target of 1; in `bound` (and `overlap` with enough under way),
    D * target.
    Raises: UnknownName: no such mode; UsageError: a negative demand, a target outside 0 to 1.
    >>> balance_bytes_per_s(1633e9, "bound") == 1633e9
    True
    """
    if not bytes_per_ideal_s >= 0:
        raise UsageError(f"a demand of {bytes_per_ideal_s} bytes a second: it is not negative")
    if not 0 < target <= 1:
        raise UsageError(f"target {target}: it is a share of the ideal speed, more than 0 and at most 1")
    if mode == "serial":
        spare = 1 / target - 1
        return bytes_per_ideal_s / spare if spare else (math.inf if bytes_per_ideal_s else 0.0)
    if mode in ("bound", "overlap"):
        return bytes_per_ideal_s * target
    raise UnknownName("time mode", mode, ("serial", "overlap", "bound"))


def cycle_hits(num_objects: int, room: int, rounds: int, policy: str) -> int:
    """Hits of a program that reads the same equal objects in the same order, round after round.

    Args:   room: objects that the cache holds.
    LRU and FIFO lose everything to a cycle that is one object too long; Belady's policy keeps as many as it has room
    for, and from the second round on hits each of them once a round.
    Raises: UnknownName: a policy without such a form.
    """
    if policy not in ("lru", "fifo", "belady"):
        raise UnknownName("policy with a closed form on cycles", policy, ("lru", "fifo", "belady"))
    if num_objects == 0 or rounds == 0:
        return 0
    kept = num_objects if room >= num_objects else (room if policy == "belady" else 0)
    return kept * (rounds - 1)


def play(
    compute_s: npt.ArrayLike,
    accesses: Accesses,
    cache: Cache,
    tier: BackingTier,
    *,
    mode: Mode = "serial",
    decode_bytes_per_s: float | None = None,
    prefetch_depth: int | None = 1,
    prefetch_buffer_bytes: int | None = None,
    timeline: bool = False,
) -> PlayedPoint:
    """Plays a program through a cache and a tier.

    Args:   compute_s: (n,) seconds that each operation computes; timeline: also give the stages of all operations.
    Raises: SimulationInputError: an input breaks a rule; ClockOverflow.
    """
    return play_one(
        compute_s,
        replay(accesses, cache),
        tier,
        mode=mode,
        decode_bytes_per_s=decode_bytes_per_s,
        prefetch_depth=prefetch_depth,
        prefetch_buffer_bytes=prefetch_buffer_bytes,
        timeline=timeline,
    )


def play_one(
    compute_s: npt.ArrayLike,
    loaded: Replay,
    tier: BackingTier,
    *,
    mode: Mode = "serial",
    decode_bytes_per_s: float | None = None,
    prefetch_depth: int | None = 1,
    prefetch_buffer_bytes: int | None = None,
    timeline: bool = False,
) -> PlayedPoint:
    """Plays loads at one pace; arguments as of `play`."""
    ahead = Prefetch(prefetch_depth, prefetch_buffer_bytes)
    pace = Pace(tier=tier, mode=mode, decode_bytes_per_s=decode_bytes_per_s, prefetch=ahead)
    return play_many(compute_s, loaded, [pace], timeline=timeline)[0]
