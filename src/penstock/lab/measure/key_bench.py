"""Times native kernels: sets of `penstock bench run`, and for `penstock keys bench` one rotation three ways.

The three ways, paired in one run, are OpenFHE, the native evaluator with its key in memory, and from disk.

Every rotation of a stream uses another key, and a stream from disk reads each of them once, past the page cache. The
first read without any computation is part of the time: short streams are slower. Memory for rows is taken from the
system before, as a run does, and that time is told apart. All threads, including those that read keys, share as many
processors as threads were asked for.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from penstock import _engine
from penstock.base.system.files import os_errors
from penstock.base.system.temporary import temporary_folder
from penstock.errors import PenstockError, UsageError
from penstock.lab.fit.measurements import NATIVE
from penstock.lab.measure.bench.estimate import bootstrap_trace
from penstock.lab.measure.bench.store import ROTATION_STEP, BenchSet
from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.protocol import Values
from penstock.program.openfhe.evaluator import OpenFheContext, load_openfhe, set_threads
from penstock.program.openfhe.turn import TURN
from penstock.runtime.keystore import KeyStore
from penstock.runtime.keystore.export import ROTATIONS, export_openfhe
from penstock.runtime.native.client import open_client
from penstock.runtime.native.client_process import ClientProcess
from penstock.runtime.native.engine import EngineHere, make_context
from penstock.runtime.native.evaluator import NativeEvaluator
from penstock.runtime.native.keys import KeysHeld, KeysInMemory, KeysOnDisk
from penstock.runtime.native.openfhe_client import make_keys
from penstock.runtime.native.store import add_missing_keys, kept_folder
from penstock.scheme.operations import RELIN_KEY, rotation_key
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm

_TENANT = "bench"
_READ_BYTES = 4 << 20
_READERS = 2
"""Reads in flight of the measured bandwidth."""
_RESIDENT_KEYS = 4
"""Keys in memory while a stream runs from disk: the one in use, and the ones read ahead."""


class NativeSet(BenchSet):
    """A set on the native evaluator: a context and a client for each number of threads, and the keys in memory.

    Evaluation keys lie in a key store in the set's folder, and the key pair next to it. They protect nothing. Each
    client has a separate process, as in a run.
    """

    reading = NATIVE

    def __enter__(self) -> NativeSet:
        self._stack = ExitStack()
        self._sides: dict[int, tuple[_engine.CkksContext, ClientProcess]] = {}
        self._keys: dict[bool, KeysHeld] = {}
        with self._timed():
            self._make_folder()
            self._store = KeyStore(self.folder / "keys")
        return self

    def __exit__(self, *_: object) -> None:
        self._sides.clear()
        self._keys.clear()
        self._stack.close()

    def _side(self, threads: int) -> tuple[_engine.CkksContext, ClientProcess]:
        if threads not in self._sides:
            with self._alone():
                pair = kept_folder(self.params, self._store, _TENANT)
                client = ClientProcess(self.params, pair, threads=threads)
            self._stack.callback(client.release)
            self._sides[threads] = make_context(self.params, threads), client
        return self._sides[threads]

    def encoding(self, values: Values, limbs: int, threads: int) -> tuple[Callable[[], object], None]:
        with self._timed():
            context, _ = self._side(threads)
        vector = np.ascontiguousarray(values, dtype=np.complex128)
        return lambda: context.encode_many([vector], limbs, 1, len(vector)), None

    def evaluator(self, threads: int, *, bootstraps: bool = False) -> NativeEvaluator:
        with self._timed():
            context, client = self._side(threads)
            if bootstraps not in self._keys:
                self._keys[bootstraps] = self._held(client, bootstraps)
        return NativeEvaluator(EngineHere(self.params, context, self._keys[bootstraps]), client)

    def cipher(self, ev: NativeEvaluator, name: str, limbs: int) -> Cipher:
        with self._timed():
            return ev.mod_drop(ev.encrypt(self.values(name)), limbs)

    def _held(self, client: ClientProcess, bootstraps: bool) -> KeysHeld:
        params = self.params
        needed = dict.fromkeys((RELIN_KEY, rotation_key(ROTATION_STEP, params.ring_dim)), params.num_q)
        if bootstraps:
            needed = bootstrap_trace(params).view().key_limbs() | needed
        with self._alone():
            add_missing_keys(client, self._store, _TENANT, needed)
        return KeysHeld(params, self._store, _TENANT, needed, secret_tag=client.key_tag)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBench:
    """Seconds of one rotation, each the median over rounds of a stream's mean."""

    openfhe_ram_s: float
    native_ram_s: float
    native_disk_s: float
    disk_bytes_per_s: float
    """Bandwidth of the key files in the same rounds, without computing and past the page cache: of plain large reads or
    of the store's own, whichever is faster."""
    least_s: float
    """The larger of the time in memory and the bytes over the bandwidth: no stream from disk can be faster."""
    ratio: float
    """Median over rounds of the time from disk over that bound in the same round."""
    reserve_s: float
    """Taking the memory for rows from the system, once, before a stream."""
    form: str
    """Of the keys on disk."""
    key_bytes: int
    """That one rotation uses."""
    stored_bytes: int
    """That it reads from disk: half of them where part A is a seed."""
    bit_identical: bool
    """Whether every word of every result, from memory and from disk, is OpenFHE's."""


def bench_keys(
    params: CkksParameters,
    threads: int,
    *,
    num_keys: int = 24,
    rounds: int = 5,
    folder: Path | None = None,
    form: KeyForm = KeyForm.FULL,
    on_round: Callable[[int, int], None] | None = None,
) -> KeyBench:
    """Measure rotations at the full chain.

    Args:   folder: the place of the temporary keys; the system's folder for temporary files if omitted. form: of the
            keys on disk; penstock's client makes seeded ones, and OpenFHE gets them from an export.
    Raises: CapabilityMissing: OpenFHE or the client cannot be imported; UsageError: more threads than processors, too
            few or too many keys, no round, or a truncated form.
            PenstockError: the file system cannot read past the page cache.
    """
    if num_keys < _RESIDENT_KEYS + 1:
        raise UsageError(
            f"{num_keys} keys: ask for {_RESIDENT_KEYS + 1} at least, since {_RESIDENT_KEYS} stay in memory"
        )
    if num_keys >= params.ring_dim // 2:
        raise UsageError(
            f"{num_keys} keys: at N = {params.ring_dim} there are {params.ring_dim // 2 - 1} rotations, each with a "
            "key; ask for fewer"
        )
    if rounds < 1:
        raise UsageError(f"{rounds} rounds: ask for one at least")
    if form.is_truncated:
        raise UsageError(f"form '{form.value}': rotations at the full chain need every row; ask for full or seeded")
    load_openfhe()
    with TURN.taken(), confined(threads), temporary_folder("penstock-keys-", folder) as place:
        set_threads(threads)
        bench = _Bench(params, threads, range(1, num_keys + 1), place / "keys", form)
        try:
            return bench.run(rounds, on_round)
        finally:
            bench.client.release()


@contextmanager
def confined(processors: int) -> Iterator[None]:
    """All threads of this process on so many processors, those to come too.

    Raises: UsageError: the process has not so many.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if processors > len(allowed):
        raise UsageError(f"{processors} threads: this process may run on {len(allowed)} processors; ask for fewer")
    _set_affinity(allowed[:processors])
    try:
        yield
    finally:
        _set_affinity(allowed)


def _set_affinity(processors: Sequence[int]) -> None:
    for task in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # a thread that ended meanwhile
            os.sched_setaffinity(int(task.name), processors)


class _Bench:
    """A context, its keys in three places, and one fresh ciphertext on both sides.

    Keys of any pair serve: a rotation computes the same words whether or not they can be decrypted.
    """

    def __init__(
        self, params: CkksParameters, threads: int, steps: Sequence[int], folder: Path, form: KeyForm = KeyForm.FULL
    ) -> None:
        fhe = load_openfhe()
        self.params, self.steps, self.fhe = params, steps, fhe
        self.keys = [rotation_key(step, params.ring_dim) for step in steps]
        self.client = OpenFheContext.create(params, relinearize=False)
        self.engine = make_context(params, threads)
        self.elements = [self.engine.rotation_galois_element(step) for step in steps]
        self.memory = KeysInMemory(params, self.engine)
        self.store = KeyStore(folder)
        refused = [note for note in self.store.notes if "O_DIRECT" in note]
        if refused:
            raise PenstockError(
                f"keys in {folder} are read through the page cache ({refused[0]}): take another --folder"
            )
        self.form, self.stored_bytes = form, params.key_bytes(None, form)
        maps: list[object] = []

        def take(key: str, content: bytes) -> None:
            self.memory.put(key, content)
            if not form.is_seeded:
                self.store.import_openfhe(_TENANT, content, params=params, key=key)
            maps.append(fhe.DeserializeEvalKeyMapString(content, fhe.BINARY))

        if form.is_seeded:
            self._make_seeded(take)
        else:
            make_keys(self.client, self.keys, take)
        self.maps = maps
        if not form.is_seeded:
            for keys in maps:
                self.client.context.InsertEvalAutomorphismKey(keys, "")
        cc = self.client.context
        plain = cc.MakeCKKSPackedPlaintext(np.linspace(-1, 1, params.slots).tolist(), 1, 0, None, params.slots)
        self.openfhe_input = cc.Encrypt(self.client.public_key, plain)
        self.native_input = self.engine.import_ciphertext(fhe.Serialize(self.openfhe_input, fhe.BINARY))
        self.files = sorted(folder.rglob("*.pkey"))

    def _make_seeded(self, take: Callable[[str, bytes], None]) -> None:
        """Keys of penstock's client, in the store; `take` gets each as OpenFHE has it."""

        def imported(key: str, made: Path) -> None:
            name = self.store.import_segment(made, tenant=_TENANT, params=self.params).name
            export_openfhe(self.store, [name], self.params, made.parent, layout="objects", force=True)
            take(key, (made.parent / ROTATIONS).read_bytes())

        maker = open_client(self.params, library="penstock")
        with temporary_folder("penstock-making-", self.store.folder.parent) as place:
            maker.make_keys(dict.fromkeys(self.keys, self.params.num_q), place, _TENANT, imported)
        maker.release()

    def run(self, rounds: int, on_round: Callable[[int, int], None] | None) -> KeyBench:
        identical = self.identical()
        measured: list[dict[str, float]] = []
        for done in range(rounds):
            times = {
                "openfhe_ram_s": _mean(self.openfhe_stream, len(self.steps)),
                "native_ram_s": _mean(self.memory_stream, len(self.steps)),
                "reserve_s": self.reserve(),
                "native_disk_s": _mean(self.disk_stream, len(self.steps)),
                "disk_bytes_per_s": max(read_bandwidth(self.files), self.store_bandwidth()),
            }
            times["least_s"] = max(times["native_ram_s"], self.stored_bytes / times["disk_bytes_per_s"])
            times["ratio"] = times["native_disk_s"] / times["least_s"]
            measured.append(times)
            if on_round is not None:
                on_round(done + 1, rounds)
        return KeyBench(
            **{name: median(times[name] for times in measured) for name in measured[0]},
            form=self.form.value,
            key_bytes=self.params.key_bytes(),
            stored_bytes=self.stored_bytes,
            bit_identical=identical,
        )

    def openfhe_stream(self) -> list[object]:
        cc = self.client.context
        if self.form.is_seeded:
            # Keys of another pair than the input's are not found by its tag.
            pairs = zip(self.elements, self.maps, strict=True)
            return [cc.EvalAutomorphism(self.openfhe_input, element, keys) for element, keys in pairs]
        return [cc.EvalRotate(self.openfhe_input, step) for step in self.steps]

    def memory_stream(self) -> list[_engine.CkksCiphertext]:
        return self._rotated(self.memory)

    def reserve(self) -> float:
        """Get the next stream's source and its memory ready; the seconds that the memory took."""
        uses = [(key, self.params.num_q) for key in self.keys]
        size = _RESIDENT_KEYS * self.params.key_bytes()
        ahead = _RESIDENT_KEYS - 2
        self.source = KeysOnDisk(self.params, self.store, _TENANT, size, uses, prefetch_uses=ahead, ahead=False)
        started = time.perf_counter()
        self.source.reserve()
        return time.perf_counter() - started

    def disk_stream(self) -> list[_engine.CkksCiphertext]:
        """Each key once, read ahead. Raises: PenstockError: the reader did not read exactly these bytes."""
        made = self._rotated(self.source)
        self._end()
        return made

    def store_bandwidth(self) -> float:
        """Bytes/s of reading and checking the same keys with nothing else to do."""
        self.reserve()
        started = time.perf_counter()
        for key in self.keys:
            with self.source.get(key, self.params.num_q):
                pass
        elapsed_s = time.perf_counter() - started
        return self._end() / elapsed_s

    def _end(self) -> int:
        """Bytes that the stream read. Raises: PenstockError: not exactly those that it used."""
        self.source.close()
        read_bytes, size = self.source.traffic().read_bytes, len(self.keys) * self.stored_bytes
        if read_bytes != size:
            raise PenstockError(f"{read_bytes} bytes of keys were read where {size} are used")
        return read_bytes

    def _rotated(self, source: KeysInMemory | KeysOnDisk) -> list[_engine.CkksCiphertext]:
        made = []
        for element, key in zip(self.elements, self.keys, strict=True):
            with source.get(key, self.params.num_q) as rows:
                made += self.engine.perform("rotate", [self.native_input], argument=element, key=rows)
        return made

    def identical(self) -> bool:
        """Also the warm-up of all three."""
        self.reserve()
        for expected, *rotated in zip(self.openfhe_stream(), self.memory_stream(), self.disk_stream(), strict=True):
            words = self.engine.import_ciphertext(self.fhe.Serialize(expected, self.fhe.BINARY))
            for ciphertext in rotated:
                if not all(np.array_equal(ciphertext.words(part), words.words(part)) for part in (0, 1)):
                    return False
        return True


def _mean(stream: Callable[[], Sequence[object]], count: int) -> float:
    """Seconds of one of `count` operations, results kept until the last."""
    started = time.perf_counter()
    made = stream()
    elapsed_s = time.perf_counter() - started
    del made
    return elapsed_s / count


def read_bandwidth(files: Sequence[Path]) -> float:
    """Bytes/s of reading whole files past the page cache, a few large reads at a time.

    Raises: FileError: a file cannot be read so.
    """
    started = time.perf_counter()
    with ThreadPoolExecutor(_READERS) as pool:
        total = sum(pool.map(_read_past_cache, files))
    return total / (time.perf_counter() - started)


def _read_past_cache(path: Path) -> int:
    """Bytes of a file, read in aligned blocks."""
    total = 0
    with os_errors(path, "read"), mmap.mmap(-1, _READ_BYTES) as block:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
        try:
            while count := os.preadv(descriptor, [block], total):
                total += count
                if count % mmap.PAGESIZE:  # the end of a file that is not a multiple of pages
                    break
        finally:
            os.close(descriptor)
    return total
