"""Making a database: records are encoded, encrypted and written, segment by segment, and a killed load goes on."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from penstock.base.system.files import TEMPORARY_PREFIX, WouldOverwrite, os_errors, remove_leftovers, write_atomic
from penstock.base.system.replacing import REPLACED, place_beside, remove_replaced, replace_folder, restore_folder
from penstock.base.units import format_bytes
from penstock.errors import CapabilityMissing, PenstockError, UsageError
from penstock.program.database.content import PART, Content
from penstock.program.database.description import RECORDS, Description
from penstock.program.database.pir import PirPlan
from penstock.program.database.ssc import SscPlan
from penstock.program.evaluator.protocol import Values
from penstock.runtime.keystore.pairs import PAIRS
from penstock.runtime.native.client import chosen_library, open_client, require_library
from penstock.runtime.native.memory import rounded_bytes
from penstock.runtime.native.sharing import MemoryPlan, Wanted, parts_of, plan_memory
from penstock.runtime.scanning.store import (
    COMPLETE,
    HEADER,
    KEYS,
    SEGMENTS,
    Database,
    DatabaseError,
    DatabaseLayout,
    digest_of_keys,
    new_identity,
)
from penstock.runtime.scanning.stream import verify_segment

SEGMENT_BYTES = 64 << 20
"""A segment is the unit that a killed load repeats, and the data held in memory while it is made."""
LOCK = ".lock"
_FILES = (HEADER, COMPLETE, SEGMENTS, KEYS, LOCK, REPLACED)
"""Files in a database's folder."""
_KEY_FILES = tuple(name for pair in PAIRS.values() for name in pair.names)
"""And in that of its keys."""
_MARKS = (HEADER, COMPLETE)
"""A folder without them is not a database."""
_PROCESS_STEP_BYTES = 4 << 20
_IMPORTED_BYTES = 11 << 20
"""That a load adds to the process: modules, and the pipe to the client. Measured with CPython 3.10."""
CIPHERTEXT_SLACK_BYTES = 1024
"""By which ciphertexts of one set differ: OpenFHE writes the modulus chain of keys that were loaded once more."""


@dataclass(slots=True, kw_only=True)
class LoadTimes:
    """Seconds of each stage of a load, and its output. Segments that an earlier load had made cost their check."""

    generate_s: float = 0.0
    """Drawing or reading the records, and cutting them into slots."""
    encode_s: float = 0.0
    encrypt_s: float = 0.0
    serialize_s: float = 0.0
    write_s: float = 0.0
    """Checksums included."""
    check_s: float = 0.0
    """Checking existing data."""
    keys_s: float = 0.0
    wall_s: float = 0.0
    segments_made: int = 0
    segments_kept: int = 0
    written_bytes: int = 0


def make(
    path: Path,
    description: Description,
    content: Content,
    *,
    segment_bytes: int = SEGMENT_BYTES,
    force: bool = False,
    library: str | None = None,
    on_segment: Callable[[int, int], None] | None = None,
) -> tuple[Database, LoadTimes]:
    """Make the database in a folder, or go on with one of the same description that was not finished.

    A foreseeable refusal leaves the old database and its keys in place. A finished database is replaced only when the
    new one is whole. Until then the new part lies in a folder next to it.

    Args:   force: replace a database that is there; library: the client library, as `chosen_library`; on_segment:
            called with segments done and in all.
    Raises: WouldOverwrite: there is a finished one. UsageError: the folder holds another one, or other files, or is
            a file. PenstockError: the disk is too small or refuses, another process makes it. CapabilityMissing:
            no client library. ParamsError: a vector is so long that its scores do not fit.
    """
    started = time.perf_counter()
    check_vectors(description, content)
    times = LoadTimes()
    restore_folder(Path(os.path.realpath(path)), COMPLETE)
    if os.path.lexists(path) and not path.is_dir():
        raise UsageError(
            f"{path} is not a folder: name a folder for the database, which --force does not make of a file"
        )
    with os_errors(path, "create"):
        path.mkdir(parents=True, exist_ok=True)
    load = partial(_load, _Given(description, content, segment_bytes, library), times, on_segment)
    with _locked(path):
        remove_replaced(Path(os.path.realpath(path)), _MARKS)
        whole = (path / COMPLETE).exists()
        database = _replace(path, description, load) if force and whole else load(path, force)
    times.wall_s = time.perf_counter() - started
    return database, times


@dataclass(frozen=True, slots=True)
class _Given:
    """What a load was asked for."""

    description: Description
    content: Content
    segment_bytes: int
    library: str | None


def _replace(path: Path, description: Description, load: Callable[[Path, bool], Database]) -> Database:
    """Load into a folder next to the database in `path`, and exchange them when the new one is whole."""
    there = Path(os.path.realpath(path))
    _refuse_others(path)
    place = place_beside(there, _refuse_others)
    try:
        with _locked(place):
            goes_on = _goes_on(place, description)
            # An earlier part is checked as in any load that continues.
            (place / COMPLETE).unlink(missing_ok=True)
            made = load(place, not goes_on)
            replace_folder(there, _MARKS)
    except DiskTooSmall as error:
        raise PenstockError(
            f"{path}: the new database takes {format_bytes(error.needed)} more beside the old one, which goes when the "
            f"new one is whole, and the disk has {format_bytes(error.free)} free: remove {path} first, take fewer "
            "records, or another disk"
        ) from error
    finally:
        if place.is_dir() and not (place / HEADER).exists():
            shutil.rmtree(place, ignore_errors=True)
    return replace(made, path=path)


def _goes_on(place: Path, description: Description) -> bool:
    """Whether a load of the same description was begun in a folder, and can go on."""
    try:
        database = Database.open(place)
        database.check_keys()
    except PenstockError:
        return False
    return database.description == description


def _load(
    given: _Given,
    times: LoadTimes,
    on_segment: Callable[[int, int], None] | None,
    path: Path,
    force: bool,
) -> Database:
    with ExitStack() as stack:
        database, entries = _begun(path, given, force, times, stack)
        layout = database.layout
        have = sum(1 for _ in (path / SEGMENTS).glob("[0-9]*.seg"))
        _check_room(path, layout.total_bytes * (layout.num_segments - have) // layout.num_segments)
        missing = [segment for segment in range(layout.num_segments) if not _is_whole(database, segment, times)]
        times.segments_kept = layout.num_segments - len(missing)
        for segment in missing:
            made = [entries(number) for number in layout.entries(segment)]
            began = time.perf_counter()
            times.written_bytes += database.write_segment(segment, made)
            del made  # before the next segment's entries
            times.write_s += time.perf_counter() - began
            times.segments_made += 1
            if on_segment is not None:
                on_segment(times.segments_kept + times.segments_made, layout.num_segments)
        write_atomic(path / COMPLETE, b"", force=True)
    return database


def planned_entry_bytes(description: Description, library: str | None) -> int:
    """About so many bytes takes an entry that the client library makes; the first one shows the exact number."""
    whole = description.entry_bytes
    if description.stored == RECORDS:
        return whole
    with suppress(CapabilityMissing):
        if chosen_library(library).seeds_inputs:
            return whole - description.params.ciphertext_bytes(description.object_limbs) // 2
    return whole


def planned_memory(description: Description, library: str | None, memory_bytes: int) -> MemoryPlan:
    """The memory of a load before it runs: a segment takes what the process and the records of an entry leave.

    Raises: BudgetTooSmall: not one entry fits.
    """
    slots, entry = description.params.slots, planned_entry_bytes(description, library) + CIPHERTEXT_SLACK_BYTES
    plan = description.plan()
    columns = plan.packing.columns if isinstance(plan, PirPlan) else 1
    most = DatabaseLayout.of(description, SEGMENT_BYTES, entry).total_bytes
    wanted = {
        "process": Wanted.always(rounded_bytes(_IMPORTED_BYTES, _PROCESS_STEP_BYTES)),
        # Cut into slots, as numbers of 8 bytes that the client gets as a copy.
        "records of an entry": Wanted.always((columns + 1) * slots * 8 + entry),
        "segment": Wanted(
            all_bytes=max(entry, min(SEGMENT_BYTES, most) // entry * entry),
            least_bytes=entry,
            saved_s=1.0,
            step_bytes=entry,
        ),
    }
    return plan_memory(parts_of(wanted, "making"), memory_bytes, "--memory")


def check_vectors(description: Description, content: Content) -> None:
    """Check every vector of a file first; generated vectors have length 1.

    Raises: ParamsError: the scores of a vector do not fit. UsageError: a value is not finite.
    """
    plan = description.plan()
    if not isinstance(plan, SscPlan) or content.identity["generated"]:
        return
    for first in range(0, plan.vectors, PART):
        with np.errstate(over="ignore"):  # infinite, and so too long
            lengths = np.linalg.norm(content.rows(first, PART).astype(np.float64), axis=1)
        longest = int(np.argmax(lengths))
        plan.check_length(float(lengths[longest]), f"{content.identity['file']}: vector {first + longest}")


Entries = Callable[[int], bytes]
"""What makes an entry by its number."""


def _begun(path: Path, given: _Given, force: bool, times: LoadTimes, stack: ExitStack) -> tuple[Database, Entries]:
    """The header of a new database, or of the one that is to go on; and what makes its entries, until `stack` ends."""
    description, segment_bytes = given.description, given.segment_bytes
    if (path / HEADER).exists() and not force:
        begun = Database.open(path)
        if begun.complete:
            raise WouldOverwrite(path)
        if begun.description != description:
            raise UsageError(
                f"{path} holds an unfinished database of another description: name another folder, or use --force to "
                "replace it"
            )
        begun.check_keys()
        remove_leftovers(path)
        remove_leftovers(path / SEGMENTS)
        return begun, _entries(path, given, times, stack)
    _refuse_others(path)
    slack = 0 if description.stored == RECORDS else CIPHERTEXT_SLACK_BYTES
    planned = DatabaseLayout.of(description, segment_bytes, planned_entry_bytes(description, given.library) + slack)
    goes = sum(file.stat().st_size for file in (path / SEGMENTS).glob("*.seg"))
    _check_room(path, planned.total_bytes - goes)
    if description.stored != RECORDS:
        require_library("native", given.library)
    remove_leftovers(path)
    with os_errors(path, "clear"):
        for file in (COMPLETE, HEADER):
            (path / file).unlink(missing_ok=True)
        for folder in (SEGMENTS, KEYS):
            shutil.rmtree(path / folder, ignore_errors=True)
            (path / folder).mkdir()
    entries = _entries(path, given, times, stack)
    # The size of a ciphertext is the library's: the first entry shows it.
    layout = DatabaseLayout.of(description, segment_bytes, len(entries(0)) + slack)
    keys = "" if description.stored == RECORDS else digest_of_keys(path / KEYS)
    database = Database(path=path, description=description, layout=layout, identity=new_identity(), keys_digest=keys)
    database.write_header()
    return database, entries


def _refuse_others(path: Path) -> None:
    """Raises: UsageError: the folder holds files that do not belong to a database."""
    others = [
        other.relative_to(path)
        for folder, own in ((path, _FILES), (path / KEYS, _KEY_FILES), (path / SEGMENTS, ("*.seg",)))
        for other in folder.glob("*")
        if not any(other.match(name) for name in (*own, f"{TEMPORARY_PREFIX}*"))
    ]
    if others:
        raise UsageError(f"{path} holds other files ({others[0]}): name a separate folder for the database")


class DiskTooSmall(PenstockError):
    """A database is larger than the disk has room."""

    def __init__(self, path: Path, needed: int, free: int) -> None:
        self.needed, self.free = needed, free
        super().__init__(
            f"{path}: the database takes {format_bytes(needed)} more and the disk has {format_bytes(free)} free: take "
            "fewer records, or another disk"
        )


def _check_room(path: Path, needed: int) -> None:
    free = shutil.disk_usage(path).free
    if needed > free:
        raise DiskTooSmall(path, needed, free)


def _is_whole(database: Database, segment: int, times: LoadTimes) -> bool:
    """Whether an earlier load has written this segment, as it should be."""
    if not database.segment_path(segment).is_file():
        return False
    began = time.perf_counter()
    try:
        verify_segment(database, segment)
    except DatabaseError:
        return False
    finally:
        times.check_s += time.perf_counter() - began
    return True


def _entries(path: Path, given: _Given, times: LoadTimes, stack: ExitStack) -> Entries:
    description, content = given.description, given.content
    slots = description.params.slots
    if description.stored != RECORDS:
        return _encrypted(path / KEYS, description, content, given.library, times, stack)

    def raw(number: int) -> bytes:
        began = time.perf_counter()
        rows = content.rows(number * slots, slots)
        times.generate_s += time.perf_counter() - began
        return bytes(rows.tobytes().ljust(description.entry_bytes, b"\0"))

    return raw


def _encrypted(
    folder: Path, description: Description, content: Content, library: str | None, times: LoadTimes, stack: ExitStack
) -> Entries:
    began = time.perf_counter()
    client = open_client(description.params, folder, library=library, threads=1)
    stack.callback(client.release)
    times.keys_s += time.perf_counter() - began
    vector = _vectors(description, content)

    def make_entry(number: int) -> bytes:
        began = time.perf_counter()
        values = vector(number)
        generated = time.perf_counter()
        made = client.encrypt(values)
        times.generate_s += generated - began
        times.encode_s += made.encoded_s - made.begun_s
        times.encrypt_s += made.ended_s - made.encoded_s
        times.serialize_s += time.perf_counter() - made.ended_s
        return made.content

    return make_entry


def _vectors(description: Description, content: Content) -> Callable[[int], Values]:
    """What makes the slots of an entry of ciphertexts by its number."""
    plan = description.plan()
    if not isinstance(plan, PirPlan):

        def packed(number: int) -> Values:
            # Plans pack from an array; here it begins at the entry's first record.
            return plan.packed(content.rows(number * plan.per_object, plan.per_object), 0)

        return packed
    slots, columns = description.params.slots, plan.packing.columns
    block: dict[int, Values] = {}

    def column(number: int) -> Values:
        at, c = divmod(number, columns)
        if at not in block:
            block.clear()
            block[at] = plan.packing.chunks(content.rows(at * slots, slots))
        values: Values = block[at][c]
        return values

    return column


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process makes a database; the system frees the lock when the process ends, however it ends."""
    with os_errors(path / LOCK):
        descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PenstockError(
                f"{path} is being made by another process: wait for it, or name another folder"
            ) from None
        yield
    finally:
        os.close(descriptor)
