"""The engine: simulation (crates/penstock-sim), the key store (penstock-store), the native evaluator (penstock-ckks),
packages (penstock-package).

Use it through `hierarchy`, `penstock.runtime.keystore` and the native reading, which check and convert.
Arrays are one-dimensional, contiguous, of the stated dtype, and must not be written to during a call. The interpreter's
lock is released; Ctrl-C ends a long call.
Raises: classes of `penstock.errors`, and TypeError for a wrong dtype or shape. Functions of simulations:
SimulationInputError: an input breaks a rule, which the message names; ClockOverflow: past the end of the clock (106
days); ConservationError: a broken account, which is a defect of the engine.
"""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, final

import numpy as np
import numpy.typing as npt

__all__ = [
    "CkksCiphertext",
    "CkksCoefficients",
    "CkksContext",
    "CkksDigits",
    "CkksExtended",
    "CkksKey",
    "CkksPlaintext",
    "CkksProgram",
    "CkksWriter",
    "Dispatched",
    "DriveLatency",
    "DriveRun",
    "ForcedReplay",
    "KeyCache",
    "KeyPlan",
    "KeySession",
    "KeyStore",
    "ManyTimes",
    "PackageColumns",
    "PackageReader",
    "PackageWriter",
    "Policy",
    "Replay",
    "Schedule",
    "ScheduledKernels",
    "StageTimes",
    "Times",
    "Uses",
    "__version__",
    "check_tenant",
    "ckks_ciphertext",
    "ckks_ciphertext_tag",
    "ckks_describe_keys",
    "ckks_inner_products",
    "ckks_key_rows",
    "ckks_key_words",
    "ckks_pack_small",
    "ckks_paths",
    "ckks_row_checksum",
    "ckks_seeded_polynomial",
    "dispatch",
    "export_openfhe_keys",
    "key_digest",
    "key_kinds",
    "operations",
    "package_limits",
    "play_drive",
    "play_rounds",
    "play_stages",
    "play_time",
    "play_time_many",
    "policies",
    "replay",
    "replay_asked",
    "replay_forced",
    "replay_priorities",
    "replay_uncached",
    "sandbox_become_user",
    "sandbox_confine_to",
    "sandbox_filter",
    "sandbox_has_landlock",
    "sandbox_no_new_privileges",
    "schedule_kernels",
    "uses",
]

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

@final
class Policy:
    """A replacement policy of the engine."""

    @property
    def name(self) -> str: ...
    @property
    def summary(self) -> str:
        """One sentence."""
    @property
    def optimal(self) -> bool:
        """Whether no other has more hits where all objects are of one size."""
    @property
    def knows_future(self) -> bool:
        """Whether it must know the accesses to come."""

def policies() -> list[Policy]:
    """Every replacement policy, by the names of their files in `crates/penstock-sim/src/policy`."""

def replay(
    access_start: npt.NDArray[np.int64],
    access_object: npt.NDArray[np.int32] | npt.NDArray[np.int64] | npt.NDArray[Any],
    access_bytes: npt.NDArray[np.int64],
    policy: str,
    capacity_bytes: int,
    detail: bool = False,
) -> Replay:
    """Plays accesses, (n + 1,), (m,), (m,), through an empty cache; `detail` asks for what each access loads."""

@final
class Uses:
    """(m,) each: the uses of every access's object before and after it."""

    @property
    def next(self) -> npt.NDArray[np.int64]:
        """Position of the next access to the same object; m where there is none."""
    @property
    def last(self) -> npt.NDArray[np.int64]:
        """Position of the one before; -1 where there is none."""
    @property
    def count(self) -> npt.NDArray[np.int64]:
        """Uses so far, this one included."""

def uses(
    access_start: npt.NDArray[np.int64],
    access_object: npt.NDArray[np.int32] | npt.NDArray[np.int64] | npt.NDArray[Any],
    access_bytes: npt.NDArray[np.int64],
) -> Uses:
    """The uses of every object, in one pass."""

def replay_priorities(
    access_start: npt.NDArray[np.int64],
    access_object: npt.NDArray[np.int32] | npt.NDArray[np.int64] | npt.NDArray[Any],
    access_bytes: npt.NDArray[np.int64],
    priorities: npt.NDArray[np.float64],
    capacity_bytes: int,
    on_hit: bool = True,
    bypass: bool = False,
    aging: bool = False,
    detail: bool = False,
) -> Replay:
    """As `replay`, by (m,) priorities: the least leaves first, and what has none (not a number) is not kept."""

def replay_asked(
    access_start: npt.NDArray[np.int64],
    access_object: npt.NDArray[np.int32] | npt.NDArray[np.int64] | npt.NDArray[Any],
    access_bytes: npt.NDArray[np.int64],
    policy: Any,
    capacity_bytes: int,
    detail: bool = False,
) -> Replay:
    """As `replay`, under an object with `touch`, `admits`, `make_room`, `insert` and `grow`; its errors are raised."""

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
    prefetch_depths: npt.NDArray[np.int64] | None = None,
) -> StageTimes:
    """Plays operations, (n,) seconds in each of s stages, in program order; `None` is no limit.

    Args:   prefetch_depths: (n,) of each operation, next to `prefetch_depth`.
    """

@final
class ScheduledKernels:
    """Kernels of n operations on units; times in seconds from the start."""

    total_s: float
    start_s: npt.NDArray[np.float64]
    """(n,) the first kernel of each operation."""
    end_s: npt.NDArray[np.float64]
    busy_s: npt.NDArray[np.float64]
    """(units,) of all ports of each unit together."""
    memory_s: float
    """In which data pass the scratchpad."""
    registers_s: float
    """The same of the register file."""
    critical_s: float
    """The end if kernels waited for results only."""
    placed_operation: npt.NDArray[np.int64]
    """(m,) of the limbs of kernels that were asked for, in the order of their starts."""
    placed_kernel: npt.NDArray[np.int64]
    placed_limb: npt.NDArray[np.int64]
    placed_start_s: npt.NDArray[np.float64]
    placed_end_s: npt.NDArray[np.float64]

def schedule_kernels(
    kernel_start: npt.NDArray[np.int64],
    unit: npt.NDArray[np.int64],
    limb_s: npt.NDArray[np.float64],
    memory_s: npt.NDArray[np.float64],
    registers_s: npt.NDArray[np.float64],
    flags: npt.NDArray[np.int64],
    limb_start: npt.NDArray[np.int64],
    limb: npt.NDArray[np.int64],
    each_start: npt.NDArray[np.int64],
    each: npt.NDArray[np.int64],
    whole_start: npt.NDArray[np.int64],
    whole: npt.NDArray[np.int64],
    held_bytes: npt.NDArray[np.float64],
    shape: npt.NDArray[np.int64],
    source_start: npt.NDArray[np.int64],
    source: npt.NDArray[np.int64],
    ports: npt.NDArray[np.int64],
    latency_s: npt.NDArray[np.float64],
    chaining: float,
    capacity_bytes: float,
    window: int,
    listed: int = 0,
) -> ScheduledKernels:
    """List scheduling of operations, each a graph of kernels over limbs; the rules are in `penstock_sim::schedule`.

    Args:   the kernels of each shape, with what they need limb by limb (`each`) and whole; `flags`: 1 reads operands,
            2 makes the result; the operations, with the earlier ones whose results they read; listed: the kernels of
            so many first operations are given.
    """

@final
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

@final
class DriveLatency:
    """Latencies of one kind of request of a simulated drive, in picoseconds; `None` where there was none."""

    count: int
    mean_ps: float | None
    p50_ps: int | None
    p99_ps: int | None
    max_ps: int | None

@final
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
    bus_busy_ps: list[int]
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
    intervals: list[tuple[str, int, str, int, int, int | None]] | None
    """When units were busy until the scan's end, in the order in which that was planned, if asked for: lane (channel,
    die or drive), its number over the whole drive, work, start and end in picoseconds, and the page that is sent."""
    intervals_left_out: int

def play_drive(given: Any, max_intervals: int | None = None) -> DriveRun:
    """Plays a drive; `given` has the attributes of `penstock.lab.instorage.flash.input.EngineInput`.

    Args:   max_intervals: record the first so many intervals in which units are busy; nothing is jumped then.
    """

# The key store. Raises KeyMissing, KeyDamaged, KeyRefused, BudgetTooSmall, StoreUnusable.

_KeyName = tuple[str, str, str, int]
_KeyShape = tuple[int, list[int], list[int], int]
"""(tenant, digest of the parameters, key id)"""

def key_digest(ring_dim: int, moduli_q: Sequence[int], moduli_p: Sequence[int], dnum: int) -> str:
    """The digest of parameters that keys are bound to, 32 hexadecimal digits."""

def check_tenant(name: str) -> None:
    """Refuses what is no tenant's name."""

def export_openfhe_keys(
    store: KeyStore, names: Sequence[_KeyName], path: str, *, registry: bool, scaling: str, scale_bits: int, slots: int,
    depth: int, secret: str, security: int | None = None,
) -> None:  # fmt: skip
    """Write stored keys as OpenFHE does: the relinearization key, or a map of automorphism keys.

    `registry`: for the calls that load into the registry of all contexts; else as an object that a call returns.
    """

@final
class KeyStore:
    """Keys of many tenants."""

    OBJECT_STORES: bool
    """This build speaks to object stores."""

    def __new__(
        cls, folder: str, reader: str = "auto", direct: bool = True, objects: str | None = None,
        settings: dict[str, str] = ..., reading: bool = False,
    ) -> KeyStore: ...  # fmt: skip
    @property
    def opening(self) -> dict[str, Any]: ...
    @property
    def notes(self) -> list[str]: ...
    def entries(self, tenant: str | None = None, digest: str | None = None) -> list[dict[str, Any]]:
        """The fields of `penstock.runtime.keystore.StoredKey` of each whole key."""
    def entry(self, name: _KeyName) -> dict[str, Any]: ...
    def import_openfhe(
        self,
        tenant: str,
        source: bytes | PathLike[str],
        num_q: int,
        key: str | None = None,
        params: _KeyShape | None = None,
        only: Sequence[str] | None = None,
    ) -> Sequence[tuple[_KeyName, int, bool]]:
        """(name, bytes of the file, replaced) of each key. A file is read row by row; `only`: of many keys, these."""
    def import_segment(
        self, path: str, tenant: str | None = None, digest: str | None = None, is_given: bool = False
    ) -> tuple[_KeyName, int, bool]:
        """A segment file that was made elsewhere; one that is given becomes the store's own, without a copy."""
    def replace(self, tenant: str, digest: str) -> int:
        """Begin a new key pair; its number."""
    def retire(self, tenant: str, digest: str) -> Sequence[tuple[str, int, str, bool]]:
        """Remove all pairs but the newest; as `gc`."""
    def takes(self, tenant: str, digest: str, secret_tag: str) -> bool:
        """Whether keys of this secret key may be imported."""
    def name_for(self, tenant: str, digest: str, key: str, secret_tag: str | None = None) -> _KeyName:
        """The name of a key for sessions of this secret key."""
    def verify(self, name: _KeyName) -> tuple[str | None, int]:
        """(what is wrong, damaged rows)"""
    def gc(self, tenant: str | None = None, dry_run: bool = False) -> Sequence[tuple[str, int, str, bool]]:
        """(path, bytes, reason, kept) of each file."""

@final
class KeyCache:
    """Rows of keys in memory under a budget."""

    def __new__(
        cls, store: KeyStore, budget_bytes: int, policy: str, prefetch_uses: int, floor_bytes: int | None = None
    ) -> KeyCache: ...
    def reserve(self, ring_dim: int, bytes: int) -> None: ...
    def plan(self, uses: Sequence[tuple[_KeyName, int]], lead: int | None = None) -> KeyPlan: ...
    def residents(self) -> list[tuple[tuple[str, str, str, int], int, int]]:
        """Keys with rows in memory: name, limbs, bytes."""
    def take_reads(self) -> list[tuple[tuple[str, str, str, int], int, int, bool, float, float]]:
        """Reads that ended since the last call, at most the latest 4096: name, bytes read, bytes expanded from seeds,
        whether ahead of their use, and seconds ago of beginning and end."""
    def forget_tenant(self, tenant: str) -> None:
        """Let go of a tenant's keys; those in use go after their use."""
    def session(
        self, tenant: str, digest: str, plan: KeyPlan | None = None, secret_tag: str | None = None
    ) -> KeySession: ...
    def stats(self) -> dict[str, Any]: ...

@final
class KeyPlan:
    """A known future. A context manager; closed, it no longer counts."""

    @property
    def remaining(self) -> int:
        """Uses that are still to come."""
    def close(self) -> None: ...
    def __enter__(self) -> KeyPlan: ...
    def __exit__(self, *_args: object) -> None: ...

@final
class KeySession:
    """One tenant's access. Thread safe."""

    def get(self, key: str, limbs: int) -> CkksKey:
        """The rows that a key switch at `limbs` limbs reads, of the key that the index names now; they stay in memory
        until the result is released.

        Raises: KeyMissing, KeyRefused, KeyDamaged, BudgetTooSmall, StoreUnusable: an error of this get alone.
        """
    def counts(self) -> tuple[int, int, int]:
        """Of this session's gets: hits, misses, and bytes that misses read or expanded."""

def operations() -> list[dict[str, Any]]:
    """The table of operations: the fields of `penstock.scheme.operations.Operation` of each; -1: many."""

def key_kinds() -> list[tuple[str, bool, bool]]:
    """Name, whether there is one for each Galois element, whether it leads to the ephemeral secret."""

def ckks_paths() -> list[str]:
    """Kernel paths of the native evaluator that this machine has, the fastest first: `avx512`, `avx2`, `portable`."""

def ckks_ciphertext_tag(bytes: bytes) -> str | None:
    """The key pair that a ciphertext states, OpenFHE's or a seeded one: 32 hexadecimal digits; `None`: none."""

def ckks_describe_keys(bytes: bytes) -> tuple[int, list[int], int, list[tuple[int | None, str | None]]]:
    """Of OpenFHE's serialized evaluation keys: N, the moduli (of Q, then of P), dnum, and of each key the Galois
    element (`None`: a single key) and the tag of its secret key."""

@final
class CkksCiphertext:
    """An encrypted vector as RNS limbs. Immutable."""

    @property
    def limbs(self) -> int: ...
    @property
    def degree(self) -> int: ...
    @property
    def scale(self) -> float: ...
    @property
    def slots(self) -> int: ...
    @property
    def polynomials(self) -> int:
        """2, or 3 between a product and its relinearization."""
    def words(self, polynomial: int) -> npt.NDArray[np.uint64]:
        """(limbs, N) a copy of a polynomial's words, in OpenFHE's evaluation order."""
    def with_scale(self, scale: float) -> CkksCiphertext:
        """The same words, read at another scale."""

@final
class CkksPlaintext:
    """An encoded vector."""

@final
class CkksKey:
    """The rows of one evaluation key: all of them, or those in use. A context manager.

    Raises: KeyRefused: it was released.
    """

    def row(self, part: int, digit: int, limb: int) -> npt.NDArray[np.uint64] | None:
        """(N,) a copy of one row: part 0 is A, 1 is B; limbs are Q's, then P's. `None`: it is not there."""
    def release(self) -> None:
        """Let go of the rows; others may take their place."""
    def __enter__(self) -> CkksKey: ...
    def __exit__(self, *_args: object) -> None: ...

@final
class CkksProgram:
    """The tasks of a whole program, in an order in which they can run.

    A task is work of the table of operations.
    """

    def __new__(cls) -> CkksProgram: ...
    def __len__(self) -> int: ...
    def add(
        self,
        work: str,
        operands: Sequence[int],
        result_bytes: Sequence[int],
        *,
        argument: int = 0,
        numbers: Sequence[float] = ...,
        key: tuple[int, int] | None = None,
        vectors: Sequence[tuple[int, int, int, bool]] = ...,
    ) -> int:
        """Append a task; the number of its first result.

        Args:   operands: values that earlier tasks make; result_bytes: of each result; argument: a Galois element,
                limbs, a power, a factor, or the number of an input or output; numbers: real ones; key: its number
                and the limbs of its use; vectors: number, limbs, degree, and whether as coefficients.
        Raises: EvaluationRefused: no such work.
        """
        ...

    def peak_value_bytes(self) -> int:
        """The most bytes of values at one time, if tasks run one after another."""
        ...

    def run(
        self,
        context: CkksContext,
        keys: tuple[KeySession, Sequence[str]] | Sequence[CkksKey],
        vector: Callable[[int], npt.NDArray[np.complex128]],
        input: Callable[[int], bytes],
        progress: Callable[[int], object] | None,
        *,
        slots: int,
        lanes: int,
        keys_in_order: bool,
        value_bytes: int,
        keep_bytes: int,
        ahead_bytes: int,
        window: int,
        device: str = "cpu",
    ) -> tuple[list[CkksCiphertext | None], npt.NDArray[np.float64], dict[str, int]]:
        """Run all tasks; other Python threads run meanwhile.

        Args:   vector: (slots,) values by number; input: bytes of an encrypted input by number; progress: called with
                the number of tasks done. slots: of a fresh input; lanes: tasks side by side; keys_in_order: one key at
                a time, in order; value_bytes: at which no task begins out of order; keep_bytes, ahead_bytes: of encoded
                vectors, kept for their next use and made ahead; window: how many tasks a lane may be ahead; device:
                `cpu`, or `recording`, which checks the life of every buffer.
        Returns: the outputs; (tasks, 4) seconds of start, end, waiting for the key, and encoding; counts.
        Raises: EvaluationRefused; as the keys and the two functions.
        """
        ...

@final
class CkksDigits:
    """A digit decomposition that several rotations share."""

@final
class CkksExtended:
    """A ciphertext times P, over the limbs of Q and P."""

    def words(self, polynomial: int, ring_dim: int) -> npt.NDArray[np.uint64]:
        """(limbs + limbs of P, N)"""

@final
class CkksCoefficients:
    """A vector as rounded coefficients, for ciphertexts of some limbs."""

@final
class CkksWriter:
    """OpenFHE's context and key tag, taken from any ciphertext that it serialized."""

    def __new__(cls, ciphertext: bytes) -> CkksWriter: ...

@final
class CkksContext:
    """The native evaluator (Rust, crates/penstock-ckks): the words that OpenFHE 1.6.1 gives. It holds no secret.

    Operands stay unchanged; calls may run in several Python threads at once.
    Raises, all methods: EvaluationRefused: an operand or bytes that do not fit, a program deeper than the parameters, a
    row of a key that is missing, no memory. Its making: ParamsError, UsageError.
    """

    def __new__(
        cls,
        *,
        ring_dim: int,
        moduli_q: Sequence[int],
        moduli_p: Sequence[int],
        dnum: int,
        scaling: str,
        scale_bits: int,
        threads: int = 1,
        path: str | None = None,
        keep_bytes: int = ...,
    ) -> CkksContext:
        """`scaling`: `fixed-manual`, `fixed-auto`, `flexible-auto`, `flexible-auto-ext`; `path`: kernels, by default
        `PENSTOCK_CPU` or the fastest; `keep_bytes`: memory of dropped results that is kept for new ones."""
    @property
    def path(self) -> str: ...
    @property
    def keep_bytes(self) -> int:
        """Memory of dropped results that is kept for new ones, at most."""
        ...

    @property
    def kept_bytes(self) -> int:
        """Memory of dropped results that is kept now."""
        ...

    def set_keep_bytes(self, bytes: int) -> None:
        """Keep so much from now on."""
        ...

    def release_memory(self) -> None: ...
    def import_ciphertext(self, bytes: bytes) -> CkksCiphertext: ...
    def export_ciphertext(self, a: CkksCiphertext, writer: CkksWriter) -> bytes: ...
    def import_key(self, bytes: bytes) -> CkksKey: ...
    def import_automorphism_keys(self, bytes: bytes) -> dict[int, CkksKey]:
        """By Galois element."""
    def encode(self, values: npt.NDArray[np.complex128], limbs: int, degree: int, slots: int) -> CkksPlaintext: ...
    def encode_many(
        self, vectors: Sequence[npt.NDArray[np.complex128]], limbs: int, degree: int, slots: int
    ) -> list[CkksPlaintext]:
        """Several vectors, each thread whole ones."""
    def scale_at(self, limbs: int) -> float:
        """The scale of a plaintext of degree 1."""
    def rotation_galois_element(self, step: int) -> int:
        """The Galois element of a rotation to the left."""
    def switch_small(
        self,
        a: CkksCiphertext,
        key: CkksKey,
        squared: CkksKey | None = None,
    ) -> CkksCiphertext:
        """Packed ciphertexts of a smaller ring under the ephemeral sparse secret, by `from-small` and, for a third
        polynomial, `from-small-squared`."""
    def to_sparse_moduli(self) -> list[int]:
        """The moduli of a key `to-sparse`: q_0 and the auxiliary primes, which are none of Q and P."""
    def encode_coefficients(
        self, values: npt.NDArray[np.complex128], limbs: int, degree: int, slots: int
    ) -> CkksCoefficients:
        """What a vector is encoded from, limb by limb."""
    def perform(
        self,
        work: str,
        operands: Sequence[CkksCiphertext | CkksDigits | CkksExtended],
        *,
        argument: int | None = None,
        numbers: Sequence[float] = ...,
        key: CkksKey | None = None,
        vectors: Sequence[CkksPlaintext | CkksCoefficients] = ...,
    ) -> list[Any]:
        """One piece of work of the table of operations on operands that are at hand; its results.

        Args:   argument: a Galois element, limbs, a power of X, a factor, or how many sums.
        """

def ckks_ciphertext(
    context: CkksContext,
    words: npt.NDArray[np.uint64],
    *,
    polynomials: int,
    limbs: int,
    degree: int,
    scale: float,
    slots: int,
) -> CkksCiphertext:
    """A ciphertext of `words`, (polynomials * limbs * N,), each checked against its modulus."""

def ckks_key_words(context: CkksContext, key: CkksKey, limbs: int, into: npt.NDArray[np.uint64]) -> int:
    """Write the rows of a key that operations at `limbs` limbs read at the start of `into`, one after another: parts A
    and B; of each its digits; of each the limbs of Q, then of P. Returns the number of words."""

def ckks_key_rows(context: CkksContext, words: npt.NDArray[np.uint64], limbs: int) -> CkksKey:
    """A key of what `ckks_key_words` gives, each word checked against its modulus."""

def ckks_seeded_polynomial(
    context: CkksContext, words: npt.NDArray[np.uint64], seed: bytes, *, scale: float, slots: int
) -> CkksCiphertext:
    """A ciphertext of one limb: its first polynomial is `words`, (N,), its second row (0, 0) of the seed."""

def ckks_inner_products(
    context: CkksContext,
    blocks: Sequence[tuple[npt.NDArray[np.uint64], bytes]],
    vector: Sequence[CkksCiphertext],
) -> list[CkksCiphertext]:
    """For each block the sum of the products of its row k with ciphertext k: three polynomials of one limb.

    Args:   blocks: (words, (len(vector) * N,); seed of their uniform halves, row k at digit k) each.
    """

def ckks_pack_small(context: CkksContext, small: CkksContext, parts: Sequence[CkksCiphertext]) -> CkksCiphertext:
    """Ciphertexts of one limb of a smaller ring side by side: coefficient i of part t is coefficient i N/n + t."""

def ckks_row_checksum(words: npt.NDArray[np.uint64]) -> int:
    """XXH3-64 of words in little-endian bytes."""

@final
class PackageColumns:
    """The instructions of a package; one element each, but where it says otherwise."""

    def __new__(
        cls,
        *,
        verbs: npt.NDArray[np.uint8],
        arguments: npt.NDArray[np.int32],
        limbs: npt.NDArray[np.uint16],
        degrees: npt.NDArray[np.uint8],
        scopes: npt.NDArray[np.uint32],
        many: npt.NDArray[np.uint32],
        operands: npt.NDArray[np.uint32],
        constants: npt.NDArray[np.uint32],
        numbers: npt.NDArray[np.complex128],
    ) -> PackageColumns: ...
    @property
    def verbs(self) -> npt.NDArray[np.uint8]:
        """Codes: those of `operations`."""
    @property
    def arguments(self) -> npt.NDArray[np.int32]: ...
    @property
    def limbs(self) -> npt.NDArray[np.uint16]:
        """Of the (first) result; 0: not stated."""
    @property
    def degrees(self) -> npt.NDArray[np.uint8]:
        """Of its scale; 0: not stated."""
    @property
    def scopes(self) -> npt.NDArray[np.uint32]: ...
    @property
    def many(self) -> npt.NDArray[np.uint32]:
        """How many operands, for each instruction whose verb takes many."""
    @property
    def operands(self) -> npt.NDArray[np.uint32]:
        """Numbers of values, of all instructions in order."""
    @property
    def constants(self) -> npt.NDArray[np.uint32]:
        """Numbers of constants, of all instructions in order."""
    @property
    def numbers(self) -> npt.NDArray[np.complex128]:
        """One for each instruction whose verb takes a number."""

@final
class PackageReader:
    """A package whose tables were read and checked. Several threads may read constants at the same time.

    Raises: PackageError of `penstock.program.package.content`: damaged, or a rule of the format is broken. OSError.
    """

    VERSION: int
    """The number of the format."""

    def __new__(cls, path: str | PathLike[str]) -> PackageReader: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def ring_dim(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def num_q(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def params(self) -> str:
        """JSON."""
    @property
    def provenance(self) -> str:
        """JSON."""
    @property
    def num_instructions(self) -> int: ...
    def columns(self) -> PackageColumns: ...
    def scopes(self) -> list[tuple[str, int]]:
        """Name and parent."""
    def series(self) -> list[tuple[list[float], float, float]]:
        """Coefficients, and the interval."""
    def inputs(self) -> list[tuple[str, int, int, bool]]:
        """Name, length, limbs (0: the full chain), whether complex."""
    def outputs(self) -> list[tuple[str, int]]:
        """Name and length."""
    def keys(self) -> list[tuple[str, int]]:
        """Name and limbs."""
    def entries(self) -> list[tuple[int, int, str, str]]:
        """Of each constant: stored bytes, values, kind (real, complex, coefficients), outermost form."""
    def __len__(self) -> int:
        """Constants."""
    def constant(self, number: int) -> npt.NDArray[Any]:
        """(n,) float64 or complex128, without zeros at the end; of coefficients: the values in all slots."""
    def coefficients(self, number: int) -> tuple[npt.NDArray[np.int64], int] | None:
        """The integers of a constant that is coefficients, and its exponent; `None`: it is a vector."""
    def constant_bytes(self, number: int) -> bytes:
        """As stored, checked against their digest."""
    def check(self) -> None:
        """Read all constants."""

@final
class PackageWriter:
    """A package that is being written to `path`, which nobody reads before `finish`.

    Raises: PackageError: a rule of the format is broken. OSError.
    """

    def __new__(cls, path: str | PathLike[str]) -> PackageWriter: ...
    def __len__(self) -> int:
        """Constants so far."""
    def add(self, values: npt.NDArray[Any]) -> int:
        """The number of a vector, (n,) float64 or complex128; equal vectors have one."""
    def add_coefficients(self, integers: npt.NDArray[np.int64], exponent: int) -> int:
        """The number of a constant that comes as coefficients."""
    def constant(self, number: int) -> npt.NDArray[Any]:
        """A vector that was added."""
    def finish(
        self,
        *,
        ring_dim: int,
        slots: int,
        num_q: int,
        name: str,
        description: str,
        params: str,
        provenance: str,
        columns: PackageColumns,
        scopes: Sequence[tuple[str, int]],
        series: Sequence[tuple[Sequence[float], float, float]],
        inputs: Sequence[tuple[str, int, int, bool]],
        outputs: Sequence[tuple[str, int]],
        keys: Sequence[tuple[str, int]],
    ) -> int:
        """Write the tables and wait for the disk; the bytes of the file. Then the writer is closed."""
    def close(self) -> None:
        """Close the file without its tables."""

def package_limits() -> list[tuple[str, int]]:
    """The limits of the format: what of, how many."""

# Linux only: measures that bind this process for good, as `penstock.service.work.isolation` takes them.
def sandbox_has_landlock() -> bool:
    """Whether the kernel has Landlock."""

def sandbox_no_new_privileges() -> None:
    """No program that this process starts gains rights. Raises: OSError."""

def sandbox_confine_to(
    *,
    readable: Sequence[str | PathLike[str]],
    listed: Sequence[str | PathLike[str]],
    writable: Sequence[str | PathLike[str]],
) -> int:
    """Files and folders that this process reaches from now on; the version of Landlock.

    Raises: OSError: there is none, or the kernel refuses.
    """

def sandbox_become_user(user: int, group: int) -> None:
    """From root to another user, with no capability but that to read all files. Raises: OSError."""

def sandbox_filter(*, is_examining: bool) -> int:
    """Allow the system calls that a worker needs, or an examination, and refuse all others; how many are allowed.

    Raises: OSError.
    """
