"""Encrypted databases on disk, queried and held against the answer in the clear."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

import numpy as np

from penstock.base.types import Row, RowView
from penstock.base.units import format_seconds
from penstock.errors import UsageError
from penstock.lab.prediction.database import Simulated, simulate
from penstock.program.database.content import Generated
from penstock.program.database.description import MATCH, PIR, SSC
from penstock.program.database.matching import MatchPlan
from penstock.program.database.ssc import top_k
from penstock.runtime.native.memory import peak_resident_bytes
from penstock.runtime.scanning.asked import refuse_of_other_kinds
from penstock.runtime.scanning.disk import read_disk
from penstock.runtime.scanning.memory import plan_scan
from penstock.runtime.scanning.query import Answer, Question, answer, best
from penstock.runtime.scanning.store import Database
from penstock.scheme.machines import load_machine

ASKS = {"folds": (PIR,), "summation": (SSC,), "top": (SSC,)}
"""Options of `query` that some kinds alone have."""
SCORE_TOLERANCE = 1e-6
_UNDISTURBED = 0.9
"""Share of its time in which a thread runs on a quiet machine, at least."""
_MISSED = (
    "a pattern is looked for at every {} bytes of a record, where a word begins; a database made with --bits-per-slot "
    "8 is looked at everywhere"
)


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
        query = np.load(vector, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"{vector}: no .npy file of a vector ({error})") from error
    if query.ndim != 1:
        raise UsageError(f"{vector}: an array of shape {query.shape}; a query is one vector (features,)")
    if query.dtype.kind not in "fiu" or not np.isfinite(query).all():
        raise UsageError(f"{vector}: a query is finite real numbers; this has others, of type {query.dtype}")
    return np.asarray(query, dtype=np.float64)


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
) -> tuple[Row, list[str], bool | None]:
    """Answer a query by reading a database once; with a machine and a disk also simulate it.

    Args:   given: names of the options that somebody stated; others as of `penstock database query`.
    Returns: the answer and its times in one row, notes, and whether the answer is that in the clear (`None`: not
            checked).
    Raises: UsageError: an option of another kind of database, or without another; DatabaseError: it is damaged.
    """
    database = Database.open(folder)
    database.require_complete()
    of = database.description
    refuse_of_other_kinds(of.kind, ASKS, given)
    if memory is not None:
        _check_memory(given, reading)
    if (machine is None) != (disk is None):
        raise UsageError("a simulation needs both: --compare MACHINE.toml and --disk DISK.toml")
    question = question_of(database, indices, vector, pattern, seed)
    pattern_bytes = len(question) if isinstance(question, bytes) else None
    plan = of.plan(folds=folds, summation=summation, pattern_bytes=pattern_bytes)
    queries = len(question) if of.kind == PIR else 1
    simulated = None
    if machine is not None and disk is not None:
        how = {"queries": queries, "prefetch": prefetch, "threads": threads}
        simulated = simulate(database, plan, load_machine(machine), read_disk(disk), **how)
    content = _generated(database)
    if check and content is None:
        raise UsageError("--check is for generated databases: the records of a file are not kept with the database")
    planner = None if memory is None else partial(plan_scan, database, plan, queries, memory)
    reply = answer(
        database, question, plan=plan, prefetch=prefetch, direct=not cached, threads=threads, reading=reading,
        library=client_library, planner=planner, on_entry=on_entry,
    )  # fmt: skip
    right = _is_right(database, content, question, reply) if check and content is not None else None
    result = _row(database, reply, _shown(of.kind, question, reply, top), right, reading, threads)
    notes = _missed(plan)
    if simulated is not None:
        result |= _beside(simulated, result)
        notes += [*simulated.warnings, *disturbed(result)]
    return result, notes, right


def _check_memory(given: Collection[str], reading: str) -> None:
    """Raises: UsageError: another option that does not go with a budget of memory."""
    if "prefetch" in given:
        raise UsageError("--memory decides --prefetch: leave one of them out")
    if reading != "native":
        raise UsageError(f"--memory is of penstock's own evaluator: leave --reading {reading} out, or --memory")


def _missed(plan: object) -> list[str]:
    """A note where a search may miss matches."""
    words = plan.packing.chunk_bytes if isinstance(plan, MatchPlan) else 1
    return [_MISSED.format(words)] if words > 1 else []


def _row(database: Database, reply: Answer, shown: RowView, right: bool | None, reading: str, threads: int) -> Row:
    """A database, the answer of a query as it is shown, and its measured times."""
    of, stream = database.description, reply.stream
    return {
        "folder": str(database.path), "kind": of.kind, "params": of.params.name, "records": of.records,
        "database_bytes": database.layout.total_bytes, "reading": reading, "provenance": "measured", **shown,
        "checked": right, "num_threads": threads,
        "total_s": reply.seconds["query_s"] + reply.seconds["wall_s"], **reply.seconds,
        "read_s": stream.read_s, "checksum_s": stream.checksum_s, "deserialize_s": stream.decode_s,
        "wait_s": stream.wait_s, "read_bytes": stream.read_bytes, "direct": stream.direct,
        "scan_bytes_per_s": stream.read_bytes / reply.seconds["wall_s"],
        "num_operations": len(reply.trace.view().server_operations()), **_of_memory(reply),
    }  # fmt: skip


def _of_memory(reply: Answer) -> Row:
    """The plan of a budget, and the measured bytes."""
    if reply.scan_plan is None or reply.traffic is None:
        return {}
    plan, keys = reply.scan_plan, reply.traffic
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


def disturbed(result: Row) -> list[str]:
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


def _shown(kind: str, question: Question, reply: Answer, top: int) -> Row:
    if kind == PIR:
        return {
            "indices": [int(i) for i in question],
            "records_hex": [record.hex() for record in reply.records],
            "chunk_error": reply.chunk_error,
        }
    if kind == SSC:
        assert reply.scores is not None
        return {"top": [{"vector": i, "score": score} for i, score in best(reply.scores, top)]}
    return {"matches": [{"record": record, "byte": byte} for record, byte in reply.matches]}


def _is_right(database: Database, content: Generated, question: Question, reply: Answer) -> bool:
    """Records byte for byte; scores within 1e-6 and the ten best the same; the matches of a search."""
    of = database.description
    if of.kind == PIR:
        wanted = [content.rows(int(i), 1)[0].tobytes() for i in question]
        return wanted == list(reply.records)
    if of.kind == SSC:
        assert reply.scores is not None
        assert not isinstance(question, bytes)
        query = np.zeros(of.features)
        query[: len(question)] = question
        scores = np.concatenate([content.rows(i, _PART) @ query for i in range(0, of.records, _PART)])
        clear, seen = top_k(scores, 10), top_k(reply.scores, 10)
        same = np.all(np.abs(scores[clear] - scores[seen]) <= 2 * SCORE_TOLERANCE)
        return bool(np.max(np.abs(scores - reply.scores)) <= SCORE_TOLERANCE and same)
    assert isinstance(question, bytes)
    word = of.packing.chunk_bytes
    starts = range(0, of.record_bytes - len(question) + 1, word)
    texts = (row.tobytes() for i in range(0, of.records, _PART) for row in content.rows(i, _PART))
    matches = tuple((i, at) for i, text in enumerate(texts) for at in starts if text.startswith(question, at))
    return matches == reply.matches


_PART = 1 << 14


def _beside(simulated: Simulated, result: RowView) -> Row:
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
