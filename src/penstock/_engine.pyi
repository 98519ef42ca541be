"""The engine (Rust, crates/penstock-sim). Use it through `penstock.simulate.hierarchy`, which checks and converts.

Arrays are one-dimensional, contiguous, of the stated dtype, and must not be written to during a call. The
interpreter's lock is released; Ctrl-C ends a long call.
Raises, all functions: ValueError: an input breaks a rule (the message names it); TypeError: a dtype or shape is wrong;
OverflowError: past the end of the clock (106 days); RuntimeError: a broken account, which is a defect of the engine.
"""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

__version__: str

@final
class Replay:
    """What a cache leaves to load."""

    @property
    def miss_bytes(self) -> npt.NDArray[np.int64]:
        """(n,) bytes that each operation loads."""
    @property
    def transfers(self) -> npt.NDArray[np.int64]:
        """(n,) misses of each operation."""
    @property
    def access_miss_bytes(self) -> npt.NDArray[np.int64] | None:
        """(m,) bytes that each access loads, 0 for a hit, if asked for."""
    @property
    def hits(self) -> int: ...
    @property
    def misses(self) -> int: ...
    @property
    def hit_bytes(self) -> int: ...
    @property
    def total_miss_bytes(self) -> int: ...
    @property
    def evictions(self) -> int: ...
    @property
    def streamed(self) -> int:
        """Misses that asked for more than the whole cache holds."""
    @property
    def peak_resident_bytes(self) -> int: ...

@final
class ForcedReplay:
    """What a forced hit ratio leaves to load, as expected values."""

    @property
    def miss_bytes(self) -> npt.NDArray[np.float64]: ...
    @property
    def transfers(self) -> npt.NDArray[np.float64]: ...
    @property
    def accesses(self) -> int: ...
    @property
    def requested_bytes(self) -> int: ...

@final
class Schedule:
    """(n,) start and end of each operation on each resource, in seconds."""

    @property
    def io_start_s(self) -> npt.NDArray[np.float64]: ...
    @property
    def io_end_s(self) -> npt.NDArray[np.float64]: ...
    @property
    def decode_start_s(self) -> npt.NDArray[np.float64]: ...
    @property
    def decode_end_s(self) -> npt.NDArray[np.float64]: ...
    @property
    def compute_start_s(self) -> npt.NDArray[np.float64]: ...
    @property
    def compute_end_s(self) -> npt.NDArray[np.float64]: ...

@final
class Times:
    """The sums of one play."""

    @property
    def compute_s(self) -> float: ...
    @property
    def io_s(self) -> float: ...
    @property
    def decode_s(self) -> float: ...
    @property
    def total_s(self) -> float: ...
    @property
    def stall_s(self) -> float: ...
    @property
    def schedule(self) -> Schedule | None: ...

@final
class ManyTimes:
    """The sums of k plays, (k,) each."""

    @property
    def compute_s(self) -> npt.NDArray[np.float64]: ...
    @property
    def io_s(self) -> npt.NDArray[np.float64]: ...
    @property
    def decode_s(self) -> npt.NDArray[np.float64]: ...
    @property
    def total_s(self) -> npt.NDArray[np.float64]: ...
    @property
    def stall_s(self) -> npt.NDArray[np.float64]: ...

def policies() -> list[tuple[str, str, bool]]:
    """Name, one sentence, and whether it is optimal for objects of one size, of each replacement policy."""

def replay(
    access_start: npt.NDArray[np.int64],
    access_object: npt.NDArray[np.int32] | npt.NDArray[np.int64] | npt.NDArray[Any],
    access_bytes: npt.NDArray[np.int64],
    policy: str,
    capacity_bytes: int,
    detail: bool = False,
) -> Replay:
    """Plays accesses, (n + 1,), (m,), (m,), through an empty cache; `detail` asks for what each access loads."""

def replay_uncached(
    access_start: npt.NDArray[np.int64],
    access_object: npt.NDArray[np.int32] | npt.NDArray[np.int64] | npt.NDArray[Any],
    access_bytes: npt.NDArray[np.int64],
    detail: bool = False,
) -> Replay:
    """Loads every access whole."""

def replay_forced(
    access_start: npt.NDArray[np.int64], access_bytes: npt.NDArray[np.int64], hit_ratio: float
) -> ForcedReplay:
    """Serves `hit_ratio` of every access."""

def play_time(
    compute_s: npt.NDArray[np.float64],
    io_bytes: npt.NDArray[np.float64],
    transfers: npt.NDArray[np.float64],
    bandwidth_bytes_per_s: float,
    latency_s: float,
    decode_bytes_per_s: float,
    mode: str,
    prefetch_depth: int,
    timeline: bool = False,
) -> Times:
    """Plays compute and loads, (n,) each, over one tier; an infinite decode rate means no decode stage."""

def play_time_many(
    compute_s: npt.NDArray[np.float64],
    io_bytes: npt.NDArray[np.float64],
    transfers: npt.NDArray[np.float64],
    bandwidth_bytes_per_s: Sequence[float],
    latency_s: Sequence[float],
    decode_bytes_per_s: Sequence[float],
    mode: Sequence[str],
    prefetch_depth: Sequence[int],
) -> ManyTimes:
    """Plays the same work at k points, all sequences of length k."""

@final
class StageTimes:
    """The sums of one play through s stages."""

    @property
    def busy_s(self) -> list[float]: ...
    @property
    def idle_s(self) -> list[float]: ...
    @property
    def total_s(self) -> float: ...
    @property
    def oversized(self) -> int:
        """Operations that hold more than the whole buffer."""
    @property
    def start_s(self) -> list[npt.NDArray[np.float64]] | None:
        """(s,) of (n,) starts of each operation in each stage, if asked for."""
    @property
    def end_s(self) -> list[npt.NDArray[np.float64]] | None: ...

def play_stages(
    stages_s: Sequence[npt.NDArray[np.float64]],
    held_bytes: npt.NDArray[np.float64],
    mode: str,
    prefetch_depth: int | None = None,
    prefetch_buffer_bytes: float | None = None,
    timeline: bool = False,
) -> StageTimes:
    """Plays operations, (n,) seconds in each of s stages, in program order; `None` is no limit."""

class Dispatched:
    total_s: float
    host: npt.NDArray[np.int64]
    start_s: npt.NDArray[np.float64]
    receiving_s: npt.NDArray[np.float64]
    sent_bytes: float

def play_rounds(
    hosts: int,
    link_bytes_per_s: npt.NDArray[np.float64],
    link_latency_s: npt.NDArray[np.float64],
    route_start: npt.NDArray[np.int64],
    route_link: npt.NDArray[np.int64],
    round_start: npt.NDArray[np.int64],
    source: npt.NDArray[np.int64],
    target: npt.NDArray[np.int64],
    bytes: npt.NDArray[np.float64],
    sharing: str = "equal",
) -> npt.NDArray[np.float64]:
    """Seconds of each round of messages over shared links; routes are rows of `source * hosts + target`."""

def dispatch(
    duration_s: npt.NDArray[np.float64],
    operand_start: npt.NDArray[np.int64],
    operand: npt.NDArray[np.int64],
    output: npt.NDArray[np.int64],
    object_bytes: npt.NDArray[np.float64],
    hosts: int,
    bytes_per_s: float,
    latency_s: float,
) -> Dispatched:
    """Puts whole operations, (n,), on hosts, each where it ends first."""

class DriveLatency:
    """Latencies of one kind of request of a simulated drive, in picoseconds; `None` where there was none."""

    count: int
    mean_ps: float | None
    p50_ps: int | None
    p99_ps: int | None
    max_ps: int | None

class DriveRun:
    """What a run of a simulated drive took. Busy times are sums over all units of a kind."""

    pages: int
    scan_end_ps: int
    end_ps: int
    latency: DriveLatency
    read_latency: DriveLatency
    write_latency: DriveLatency
    events: int
    jumped_events: int
    period_pages: int | None
    bus_busy_ps: int
    array_busy_ps: int
    dram_busy_ps: int
    edram_busy_ps: int
    upload_busy_ps: int
    download_busy_ps: int
    aggregator_busy_ps: int
    chunks: list[int]
    consumer_busy_ps: list[int]
    consumer_wait_ps: list[int]
    outputs: int
    final_outputs: int
    retries: int
    table_reads: int
    written_pages: int
    moved_pages: int
    erases: int
    max_erases: int

def play_drive(given: Any) -> DriveRun:
    """Plays a drive; `given` has the attributes of `penstock.simulate.ssd_input.EngineInput`."""
