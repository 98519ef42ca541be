"""Encrypted databases on disk: made of options, queried, and held against the answer in the clear."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from penstock.database.content import Content, FromFile, Generated
from penstock.database.description import CIPHERTEXTS, MATCH, PIR, RECORDS, SSC, Description
from penstock.database.disk import read_disk
from penstock.database.matching import MatchPlan
from penstock.database.ssc import top_k
from penstock.database.store import Database, Layout
from penstock.errors import UsageError
from penstock.machines import load_machine
from penstock.native.memory import peak_resident_bytes
from penstock.native.sharing import MemoryPlan
from penstock.params import catalogue
from penstock.prediction.database import Simulated, simulate
from penstock.scanning.load import check_vectors, make, planned_entry_bytes, planned_memory
from penstock.scanning.memory import scan_planner
from penstock.scanning.query import Answer, Question, answer, best
from penstock.units import format_seconds

DEFAULT_PARAMS = {PIR: "openfhe-pir", SSC: "openfhe-ssc", MATCH: "openfhe-pir"}
MAKES = {
    "record_bytes": (PIR, MATCH), "bits_per_slot": (PIR, MATCH), "features": (SSC,), "batch": (SSC,),
    "encrypted": (PIR,),
}  # fmt: skip
"""Options of `make` that some kinds alone have."""
ASKS = {"folds": (PIR,), "summation": (SSC,), "top": (SSC,)}
"""And of `query`."""
SCORE_TOLERANCE = 1e-6
_UNDISTURBED = 0.9
"""Share of its time in which a thread runs on a quiet machine, at least."""
_MISSED = (
    "a pattern is looked for at every {} bytes of a record, where a word begins; a database made with --bits-per-slot "
    "8 is looked at everywhere"
)


def made(
    folder: Path,
    given: Collection[str],
    *,
    kind: str,
    params: str | None,
    records: int | None,
    size: int | None,
    record_bytes: int,
    bits_per_slot: int,
    features: int,
    batch: int | None,
    encrypted: bool,
    data: Path | None,
    segment: int,
    memory: int | None,
    client_library: str | None,
    dry_run: bool,
    force: bool,
    seed: int,
    on_segment: Callable[[int, int], None],
) -> dict[str, Any]:
    """Make a database in a folder, or go on with a load; with `dry_run` only say how large it would be.

    Args:   given: names of the options that somebody stated; others as of `penstock database make`, sizes in bytes.
    Returns: its description and times as one row.
    Raises: UsageError: options of another kind, or none or several that say how large; as
            `penstock.scanning.load.make`.
    """
    _refuse_of_other_kinds(kind, MAKES, given)
    checked = catalogue.get(params or DEFAULT_PARAMS[kind])
    if sum(each is not None for each in (records, size, data)) != 1:
        raise UsageError("say how large: one of --records, --size or --data")
    scored = kind == SSC
    width = features if scored else record_bytes
    file = FromFile(data, kind, width) if data is not None else None
    one = Description(
        kind=kind,
        params=checked,
        stored=CIPHERTEXTS if kind != PIR or encrypted else RECORDS,
        records=file.records if file else records or 1,
        record_bytes=0 if scored else record_bytes,
        bits_per_slot=0 if scored else bits_per_slot,
        features=features if scored else 0,
        batch=(batch or 0) if scored else 0,
    )
    count = one.records if size is None else _records_in(one, size, planned_entry_bytes(one, client_library))
    content: Content = file if file is not None else Generated(kind, count, width, seed)
    description = replace(one, records=count, source=content.identity)
    segment, planned = _segment_of(description, client_library, segment, memory, given)
    layout = Layout.of(description, segment, planned_entry_bytes(description, client_library))
    result: dict[str, Any] = {
        "folder": str(folder), "kind": kind, "params": checked.name, "security_bits": checked.security_bits,
        "stored": description.stored, "records": count, "entries": layout.num_entries,
        "entry_bytes": layout.entry_bytes, "segments": layout.num_segments, "database_bytes": layout.total_bytes,
        "raw_bytes": count * (width * 4 if scored else width),
    }  # fmt: skip
    if dry_run:
        check_vectors(description, content)
    else:
        how: dict[str, Any] = {"force": force, "library": client_library, "on_segment": on_segment}
        database, times = make(folder, description, content, segment_bytes=segment, **how)
        # Of the folder: a ciphertext's size is the library's, and a load that goes on keeps its segments.
        result |= {name: value for name, value in described(database).items() if name in result}
        result |= {"provenance": "measured", **asdict(times)}
    return result | _of_load(planned, dry_run)


def _segment_of(
    description: Description, library: str | None, segment: int, memory: int | None, given: Collection[str]
) -> tuple[int, MemoryPlan | None]:
    """The bytes of a segment, and the plan of a budget that decides them. Raises: UsageError: both are stated."""
    if memory is None:
        return segment, None
    if "segment" in given:
        raise UsageError("--memory decides --segment: leave one of them out")
    planned = planned_memory(description, library, memory)
    return planned.given("segment"), planned


def _of_load(planned: MemoryPlan | None, dry_run: bool) -> dict[str, Any]:
    """The columns of a budget of memory."""
    if planned is None:
        return {}
    return {
        "memory_bytes": planned.memory_bytes,
        "predicted_peak_bytes": planned.total_bytes,
        "memory_plan": planned.words(),
        **({} if dry_run else {"peak_bytes": peak_resident_bytes()}),
    }


def _refuse_of_other_kinds(kind: str, options: Mapping[str, tuple[str, ...]], given: Collection[str]) -> None:
    """Raises: UsageError: an option stands on the command line that this kind of database does not have."""
    for name, kinds in options.items():
        if name in given and kind not in kinds:
            raise UsageError(
                f"--{name.replace('_', '-')} is for {' and '.join(kinds)} databases, and this is for {kind}: leave it "
                "out"
            )


def _records_in(one: Description, size: int, entry_bytes: int) -> int:
    """Records of a database of about `size` bytes: whole entries."""
    plan = one.plan()
    stride = Layout.of(one, size, entry_bytes).stride
    if one.kind == PIR:
        of_block = 1 if one.stored == RECORDS else one.packing.columns
        return max(1, size // (stride * of_block)) * one.params.slots
    assert not hasattr(plan, "blocks")
    return max(1, size // stride) * int(plan.per_object)


def described(database: Database) -> dict[str, Any]:
    """Kind, parameters, packing and size of a database, as one row; bytes on disk."""
    of, layout = database.description, database.layout
    return {
        "folder": str(database.path), "kind": of.kind, "params": of.params.name,
        "security_bits": of.params.security_bits, "stored": of.stored, "records": of.records,
        "record_bytes": of.record_bytes or None, "bits_per_slot": of.bits_per_slot or None,
        "features": of.features or None, "entries": layout.num_entries, "entry_bytes": layout.entry_bytes,
        "segments": layout.num_segments, "database_bytes": layout.total_bytes,
    }  # fmt: skip


def question_of(
    database: Database, indices: tuple[int, ...], vector: Path | None, pattern: str | None, seed: int
) -> Question:
    """The question that the options ask of this kind of database.

    Raises: UsageError: options of another kind, none, or a file without a vector.
    """
    kind = database.description.kind
    given = {PIR: bool(indices), SSC: vector is not None, MATCH: pattern is not None}
    options = {PIR: "--index", SSC: "--vector", MATCH: "--pattern"}
    for other, is_given in given.items():
        if is_given and other != kind:
            raise UsageError(f"{options[other]} is for {other} databases, and {database.path} is for {kind}")
    if kind == PIR:
        if not indices:
            raise UsageError("name the record: --index N, once or several times")
        return list(indices)
    if kind == MATCH:
        if pattern is None:
            raise UsageError("name the text that is looked for: --pattern TEXT")
        return pattern.encode()
    if vector is None:
        content = _generated(database)
        if content is None:
            raise UsageError("name the query: --vector FILE.npy; this database was made from a file")
        return content.query(seed)
    try:
        found = np.load(vector, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"{vector}: no .npy file of a vector ({error})") from error
    if found.ndim != 1:
        raise UsageError(f"{vector}: an array of shape {found.shape}; a query is one vector (features,)")
    if found.dtype.kind not in "fiu" or not np.isfinite(found).all():
        raise UsageError(f"{vector}: a query is finite real numbers; this has others, of type {found.dtype}")
    return np.asarray(found, dtype=np.float64)


def queried(
    folder: Path,
    given: Collection[str],
    *,
    indices: tuple[int, ...],
    vector: Path | None,
    pattern: str | None,
    seed: int,
    folds: tuple[int, ...],
    summation: str,
    memory: int | None,
    prefetch: int,
    threads: int,
    reading: str,
    machine: str | None,
    disk: Path | None,
    top: int,
    check: bool,
    cached: bool,
    client_library: str | None,
    on_entry: Callable[[int, int], None],
) -> tuple[dict[str, Any], list[str], bool | None]:
    """Answer a query by reading a database once; with a machine and a disk also simulate it.

    Args:   given: names of the options that somebody stated; others as of `penstock database query`.
    Returns: the answer and its times in one row, notes, and whether the answer is that in the clear (`None`: not
            checked).
    Raises: UsageError: an option of another kind of database, or without another; DatabaseError: it is damaged.
    """
    database = Database.open(folder)
    database.require_complete()
    of = database.description
    _refuse_of_other_kinds(of.kind, ASKS, given)
    if memory is not None and "prefetch" in given:
        raise UsageError("--memory decides --prefetch: leave one of them out")
    if memory is not None and reading != "native":
        raise UsageError(f"--memory is of penstock's own evaluator: leave --reading {reading} out, or --memory")
    if (machine is None) != (disk is None):
        raise UsageError("a simulation needs both: --compare MACHINE.toml and --disk DISK.toml")
    question = question_of(database, indices, vector, pattern, seed)
    length = len(question) if isinstance(question, bytes) else None
    plan = of.plan(folds=folds, summation=summation, pattern_bytes=length)
    queries = len(question) if of.kind == PIR else 1
    simulated = None
    if machine is not None and disk is not None:
        how = {"queries": queries, "prefetch": prefetch, "threads": threads}
        simulated = simulate(database, plan, load_machine(machine), read_disk(disk), **how)
    content = _generated(database)
    if check and content is None:
        raise UsageError("--check is for generated databases: the records of a file are not kept with the database")
    found = answer(
        database,
        question,
        plan=plan,
        prefetch=prefetch,
        direct=not cached,
        threads=threads,
        reading=reading,
        library=client_library,
        planner=None if memory is None else scan_planner(database, plan, queries, memory),
        on_entry=on_entry,
    )
    right = _is_right(database, content, question, found) if check and content is not None else None
    result = _row(database, found, _shown(of.kind, question, found, top), right, reading, threads)
    words = plan.packing.chunk_bytes if isinstance(plan, MatchPlan) else 1
    notes = [_MISSED.format(words)] if words > 1 else []
    if simulated is not None:
        result |= _beside(simulated, result)
        notes += [*simulated.warnings, *disturbed(result)]
    return result, notes, right


def _row(
    database: Database, found: Answer, shown: Mapping[str, Any], right: bool | None, reading: str, threads: int
) -> dict[str, Any]:
    """A database, the answer of a query as it is shown, and its measured times."""
    of, stream = database.description, found.stream
    return {
        "folder": str(database.path), "kind": of.kind, "params": of.params.name, "records": of.records,
        "database_bytes": database.layout.total_bytes, "reading": reading, "provenance": "measured", **shown,
        "checked": right, "num_threads": threads,
        "total_s": found.seconds["query_s"] + found.seconds["wall_s"], **found.seconds,
        "read_s": stream.read_s, "checksum_s": stream.checksum_s, "deserialize_s": stream.decode_s,
        "wait_s": stream.wait_s, "read_bytes": stream.read_bytes, "direct": stream.direct,
        "scan_bytes_per_s": stream.read_bytes / found.seconds["wall_s"],
        "num_operations": len(found.trace.view().server_operations()), **_of_memory(found),
    }  # fmt: skip


def _of_memory(found: Answer) -> dict[str, Any]:
    """The plan of a budget, and the measured bytes."""
    if found.scan_plan is None or found.traffic is None:
        return {}
    plan, keys = found.scan_plan, found.traffic
    return {
        "memory_bytes": plan.memory.memory_bytes,
        "predicted_peak_bytes": plan.memory.total_bytes,
        "peak_bytes": peak_resident_bytes(),
        "memory_plan": plan.memory.words(),
        "prefetch": plan.prefetch,
        "key_budget_bytes": plan.key_bytes,
        "key_read_bytes": keys.read_bytes,
        "key_expanded_bytes": keys.expanded_bytes,
        "key_peak_resident_bytes": keys.peak_resident_bytes,
    }


def disturbed(result: dict[str, Any]) -> list[str]:
    """A note where the computing thread was kept from the processor: wall times then say little."""
    busy = result["wall_s"] - result["wait_s"]
    if result["own_cpu_s"] >= _UNDISTURBED * busy:
        return []
    return [
        f"the computing thread had the processor for {format_seconds(result['own_cpu_s'])} of the "
        f"{format_seconds(busy)} in which it could run: other processes took the rest; compare simulated_cpu_s with "
        "cpu_s, or repeat the query on a quiet machine"
    ]


def _generated(database: Database) -> Generated | None:
    of = database.description
    if not of.source.get("generated"):
        return None
    return Generated(of.kind, of.records, of.features if of.kind == SSC else of.record_bytes, int(of.source["seed"]))


def _shown(kind: str, question: Question, found: Answer, top: int) -> dict[str, Any]:
    if kind == PIR:
        return {
            "indices": [int(i) for i in question],
            "records_hex": [record.hex() for record in found.records],
            "chunk_error": found.chunk_error,
        }
    if kind == SSC:
        assert found.scores is not None
        return {"top": [{"vector": i, "score": score} for i, score in best(found.scores, top)]}
    return {"matches": [{"record": record, "byte": byte} for record, byte in found.matches]}


def _is_right(database: Database, content: Generated, question: Question, found: Answer) -> bool:
    """Records byte for byte; scores within 1e-6 and the ten best the same; the matches of a search."""
    of = database.description
    if of.kind == PIR:
        wanted = [content.rows(int(i), 1)[0].tobytes() for i in question]
        return wanted == list(found.records)
    if of.kind == SSC:
        assert found.scores is not None
        assert not isinstance(question, bytes)
        query = np.zeros(of.features)
        query[: len(question)] = question
        scores = np.concatenate([content.rows(i, _PART) @ query for i in range(0, of.records, _PART)])
        clear, seen = top_k(scores, 10), top_k(found.scores, 10)
        same = np.all(np.abs(scores[clear] - scores[seen]) <= 2 * SCORE_TOLERANCE)
        return bool(np.max(np.abs(scores - found.scores)) <= SCORE_TOLERANCE and same)
    assert isinstance(question, bytes)
    word = of.packing.chunk_bytes
    starts = range(0, of.record_bytes - len(question) + 1, word)
    texts = (row.tobytes() for i in range(0, of.records, _PART) for row in content.rows(i, _PART))
    matches = tuple((i, at) for i, text in enumerate(texts) for at in starts if text.startswith(question, at))
    return matches == found.matches


_PART = 1 << 14


def _beside(simulated: Simulated, result: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the simulation of a query that was measured."""
    return {
        "simulated_s": simulated.total_s,
        "simulated_error": simulated.total_s / result["total_s"] - 1,
        "simulated_cpu_s": simulated.cpu_s,
        "simulated_cpu_error": simulated.cpu_s / result["cpu_s"] - 1,
        **{
            f"simulated_{stage}_s": getattr(simulated, f"{stage}_s")
            for stage in ("read", "checksum", "decode", "encode", "compute", "client")
        },
        "simulated_bottleneck": simulated.bottleneck,
    }
