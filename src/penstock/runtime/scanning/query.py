"""A query answered from disk: the database streams by once, and only a scan that saw all of it is answered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock._engine import CkksContext
from penstock.base.types import Row
from penstock.program.database.description import CIPHERTEXTS, RECORDS
from penstock.program.database.matching import MatchPlan, MatchScan, matches_in
from penstock.program.database.packing import Floats
from penstock.program.database.pir import PirPlan, PirScan
from penstock.program.database.ssc import SscPlan, SscScan, top_k
from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Operand, Plain
from penstock.program.evaluator.rows import RowWriter
from penstock.program.evaluator.scaling import ScaleState
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.running.readings import DEFAULT_READING
from penstock.runtime.native.keys import KeyTraffic
from penstock.runtime.scanning.scanners import SCANNERS, Scanner, ScanPlan
from penstock.runtime.scanning.store import Database, DatabaseError
from penstock.runtime.scanning.stream import EntryStream, StreamTimes
from penstock.scheme.operations import OpKind
from penstock.scheme.traces.schema import Trace, TraceMeta

Plan = PirPlan | SscPlan | MatchPlan
Question = Sequence[int] | Floats | bytes
"""Indices of records, a vector of features, or a pattern of text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a query and its cost."""

    records: tuple[bytes, ...] = ()
    """Private retrieval: a record for each index."""
    chunk_error: float | None = None
    """Private retrieval: the largest distance of a chunk from a whole number; 0.5 would be a wrong byte."""
    scores: Floats | None = None
    """Similarity scores: (vectors,)."""
    matches: tuple[tuple[int, int], ...] = ()
    """String matching: record, and the byte at which the pattern begins."""
    stream: StreamTimes
    seconds: dict[str, float]
    """Stage -> seconds: setup, query, compute, decrypt, wall (from the first read to the last decryption). `cpu_s` is
    the processor time of the process in that span, `own_cpu_s` that of the computing thread."""
    trace: Trace
    num_entries: int
    scan_plan: ScanPlan | None = None
    """Of the memory, where a budget was stated."""
    traffic: KeyTraffic | None = None
    """Of keys under that budget."""


def answer(
    database: Database,
    question: Question,
    *,
    plan: Plan,
    prefetch: int = 4,
    direct: bool = True,
    threads: int = 1,
    reading: str = DEFAULT_READING,
    library: str | None = None,
    planner: Callable[[CkksContext], ScanPlan] | None = None,
    on_entry: Callable[[int, int], None] | None = None,
) -> Answer:
    """Encrypt the question, stream the database past it, decrypt the answer.

    Args:   reading: who computes: a name of `SCANNERS`. library: the client library of the native reading; the one
            that encrypted the database if omitted. planner: shares a byte budget of this process, and with it
            decides `prefetch` (`penstock.runtime.scanning.memory`).
    Raises: DatabaseError: the database is unfinished or damaged: nothing is answered. UsageError: an index that it does
            not hold. ParamsError: a query so long that its scores do not fit; the plan is deeper than the parameters.
            CapabilityMissing: the library of the reading, or of the client.
    """
    database.require_complete()
    database.check_keys()
    description = database.description
    if isinstance(plan, PirPlan):
        assert not isinstance(question, bytes)
        for index in question:
            plan.check_index(int(index))
    if isinstance(plan, SscPlan):
        plan.check_length(float(np.linalg.norm(np.asarray(question, dtype=np.float64))), "the query")
    # Few objects use every key that all of them do.
    keys = trace_scan(first_objects(plan, 2 if isinstance(plan, SscPlan) else 1), stored=description.stored)
    folder = None if description.stored == RECORDS else database.keys_path
    planned = {} if planner is None else {"planner": planner}
    with SCANNERS[reading](description.params, keys, folder, threads, library, **planned) as scanner:
        ahead = prefetch if scanner.plan is None else scanner.plan.prefetch
        answered = _answered(database, question, plan, scanner, reading, ahead, direct, on_entry)
        return replace(answered, scan_plan=scanner.plan, traffic=scanner.traffic())


def _answered(
    database: Database,
    question: Question,
    plan: Plan,
    scanner: Scanner,
    reading: str,
    prefetch: int,
    direct: bool,
    on_entry: Callable[[int, int], None] | None,
) -> Answer:
    ev, began = scanner.ev, time.perf_counter()
    scan = start(ev, plan, question)
    asked, cpu, own_cpu = time.perf_counter(), time.process_time(), time.thread_time()
    query_encode_s = scanner.encode_s()
    stream = EntryStream(database, _decoder(database, plan, scanner), prefetch=prefetch, direct=direct)
    total, matches = database.layout.num_entries, list[tuple[int, int]]()
    for number, operands in enumerate(stream):
        for operand in operands:
            sums = scan.absorb(_operand(scanner, operand, number))
            if isinstance(plan, MatchPlan):
                matches += _matched(ev, plan, sums or (), number)
        if on_entry is not None:
            on_entry(number + 1, total)
    shown = _finish(ev, plan, scan, question)
    wall_s, cpu_s, own_cpu_s = time.perf_counter() - asked, time.process_time() - cpu, time.thread_time() - own_cpu
    trace = ev.builder.finish(
        TraceMeta(workload=database.description.kind, params=plan.params.to_dict(), reading=reading)
    )
    by_kind = seconds_by_kind(trace)
    client = (OpKind.ENCRYPT.value, OpKind.DECRYPT.value)
    return Answer(
        **shown,
        matches=tuple(matches),
        stream=stream.times,
        trace=trace,
        num_entries=total,
        seconds={
            "setup_s": scanner.setup_s,
            "query_s": asked - began,
            "wall_s": wall_s,
            "cpu_s": cpu_s,
            "own_cpu_s": own_cpu_s,
            "compute_s": sum(s for kind, s in by_kind.items() if kind not in client),
            "encode_s": scanner.encode_s() - query_encode_s,
            "decrypt_s": by_kind.get(OpKind.DECRYPT.value, 0.0),
        },
    )


def start(ev: Evaluator, plan: Plan, question: Question) -> PirScan | SscScan | MatchScan:
    """The scan of a plan, with its question encrypted."""
    if isinstance(plan, PirPlan):
        assert not isinstance(question, bytes)
        return PirScan(ev, plan, [int(index) for index in question])
    if isinstance(plan, SscPlan):
        return SscScan(ev, plan, np.asarray(question, dtype=np.float64))
    assert isinstance(question, bytes)
    return MatchScan(ev, plan, question)


def trace_scan(plan: Plan, queries: int = 1, stored: str = CIPHERTEXTS) -> Trace:
    """The trace of a scan of a whole database, without cryptography."""
    ev = SymbolicEvaluator(plan.params)
    scan_all(ev, plan, queries, stored, lambda number: stored_entry(ev, number))
    return ev.builder.finish(TraceMeta(workload="scan", params=plan.params.to_dict(), reading="trace"))


def scan_all(ev: Evaluator, plan: Plan, queries: int, stored: str, entry: Callable[[int], Ciphertext]) -> None:
    """A scan of a whole database by some questions, with `entry(number)` for its ciphertexts."""
    question: Question = list(range(queries))
    if isinstance(plan, SscPlan):
        question = np.zeros(plan.features)
    elif isinstance(plan, MatchPlan):
        question = bytes(plan.pattern_bytes)
    scan = start(ev, plan, question)
    for number in range(plan.num_objects):
        if stored == RECORDS:
            assert isinstance(plan, PirPlan)
            block, column = divmod(number, plan.packing.columns)
            scan.absorb(ev.encode(lambda: np.zeros(1), name=f"database[{block},{column}]"))
        else:
            for answer in scan.absorb(entry(number)) or ():
                ev.decrypt(answer)
    if not isinstance(scan, MatchScan):
        for answer in scan.finish():
            ev.decrypt(answer)


def stored_entry(ev: RowWriter, number: int, value: object = None) -> Cipher:
    """A ciphertext of the database, which appears without an encryption."""
    limbs = ev.params.num_q
    name = ev.builder.ciphertext(limbs, name=f"database[{number}]")
    return Cipher(name, ScaleState.encrypted(ev.params, limbs), value=value)


def first_objects(plan: Plan, objects: int) -> Plan:
    """The first objects of a plan: whole blocks, and one at least, where it has columns."""
    if isinstance(plan, PirPlan):
        blocks = max(1, objects // plan.packing.columns)
        return replace(plan, records=min(plan.records, blocks * plan.params.slots))
    if isinstance(plan, SscPlan):
        return replace(plan, vectors=min(plan.vectors, objects * plan.per_object))
    return replace(plan, records=min(plan.records, objects * plan.per_object))


def _decoder(database: Database, plan: Plan, scanner: Scanner) -> Callable[[int, bytes], list[Operand]]:
    """What turns an entry into operands, in the thread that reads: columns of chunks, or a ciphertext."""
    description = database.description
    if description.stored != RECORDS:
        return lambda number, content: [scanner.read(content)]
    assert isinstance(plan, PirPlan)
    packing, slots = plan.packing, plan.params.slots

    def columns(number: int, content: bytes) -> list[Operand]:
        # They are encoded where they are used: a vector becomes a list first, which holds the interpreter's lock, so
        # that encoding in this thread only makes the other wait.
        if len(content) != description.entry_bytes:
            raise DatabaseError(
                f"{database.path}: entry {number} has {len(content)} bytes, and a block of records "
                f"{description.entry_bytes}: make the database again; nothing is answered from it"
            )
        rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, packing.record_bytes)
        return [Plain.of(chunk, slots, f"database[{number},{c}]") for c, chunk in enumerate(packing.chunks(rows))]

    return columns


def _operand(scanner: Scanner, operand: Operand, number: int) -> Operand:
    return operand if isinstance(operand, Plain) else scanner.adopt(operand, f"database[{number}]")


def _matched(ev: Evaluator, plan: MatchPlan, sums: Iterable[Ciphertext], number: int) -> list[tuple[int, int]]:
    """The matches in object `number`, from its sums: record, and the byte at which the pattern begins."""
    distances = np.stack([plan.distances(ev.decrypt(total), s) for s, total in enumerate(sums)], axis=1)
    first = number * plan.per_object
    return [
        (first + int(record), int(begin) * plan.packing.chunk_bytes)
        for record, begin in matches_in(distances)
        if first + record < plan.records
    ]


def _finish(ev: Evaluator, plan: Plan, scan: PirScan | SscScan | MatchScan, question: Question) -> Row:
    if isinstance(plan, MatchPlan) or isinstance(scan, MatchScan):
        return {}
    shown = [ev.decrypt(answer) for answer in scan.finish()]
    if isinstance(plan, SscPlan):
        return {"scores": plan.scores(shown)}
    chunks = np.stack([plan.decoded(answer, int(i)) for answer, i in zip(shown, question, strict=True)], axis=1)
    rows, distance = plan.packing.rounded(chunks)
    return {"records": tuple(row.tobytes() for row in rows), "chunk_error": float(distance.max())}


def seconds_by_kind(trace: Trace) -> dict[str, float]:
    """Kind -> seconds in which a recorded trace's operations ran."""
    table = trace.view(composites=True).operations
    total: dict[str, float] = {}
    for kind, begin, end in zip(*(table[name].to_pylist() for name in ("kind", "start_s", "end_s")), strict=True):
        if begin is not None:
            total[kind] = total.get(kind, 0.0) + end - begin
    return total


def best(scores: Floats, k: int) -> list[tuple[int, float]]:
    """(vector, score) of the highest scores."""
    return [(i, float(scores[i])) for i in top_k(scores, k)]
