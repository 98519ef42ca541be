"""What a query over an encrypted database asks of whoever scans it: objects, their bytes, their operations.

`penstock.program.database.scan_work` counts the operations from traces of the workloads' own programs. A `Query` adds
how the database lies on the drive: raw records that are encoded on the way (private retrieval), or ciphertexts
(scores).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from penstock.base.units import BITS_PER_BYTE, format_bytes
from penstock.errors import UsageError
from penstock.program.database.filtering import FilterPlan, JoinPlan
from penstock.program.database.packing import RecordPacking, precision_bits
from penstock.program.database.pir import PirPlan
from penstock.program.database.ranking import RankPlan
from penstock.program.database.scan_work import ScanWork, scan_work
from penstock.program.database.similarity.comparison import Selection
from penstock.program.database.similarity.scheme import Layout
from penstock.program.database.similarity.search import WORKLOAD, search_tally
from penstock.program.database.ssc import SscPlan
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.work.kernel_work import KernelWork
from penstock.scheme.work.kernels import Hoisting
from penstock.scheme.work.shapes import Shape, shape_work
from penstock.scheme.work.small import small_parameters

FINER_BITS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One query over a database that is read from end to end."""

    work: ScanWork
    object_bytes: int
    """Of one object on the drive."""
    columns: int
    """Objects that are multiplied by the same ciphertext of the query."""
    stored: str
    """`raw` records or `ciphertext`s."""
    exact_bits: float | None = None
    """Bits of a real slot that come back exactly, of raw records."""

    @property
    def workload(self) -> str:
        return self.work.workload

    @property
    def params(self) -> CkksParameters:
        return self.work.params

    @property
    def num_objects(self) -> int:
        return self.work.num_objects

    @property
    def database_bytes(self) -> int:
        """What one pass reads of the drive."""
        return self.num_objects * self.object_bytes

    @property
    def one_for_all(self) -> bool:
        """Whether every object meets the same ciphertexts of the query; otherwise each block of columns has its own."""
        return self.stored != "raw"

    @property
    def kinds(self) -> set[OpKind]:
        """Of every operation."""
        return {OpKind(shape.kind) for shape in (*self.work.per_object, *self.work.per_query)}

    def key_switches(self) -> dict[int, int]:
        """Limbs -> operations with a key for each object."""
        switches: dict[int, int] = {}
        for shape, count in self.work.per_object.items():
            if TRAITS[OpKind(shape.kind)].key is not None:
                switches[shape.limbs_in] = switches.get(shape.limbs_in, 0) + count
        return switches

    @property
    def num_operations(self) -> int:
        """For each object."""
        return sum(self.work.per_object.values())

    def check_fits(self, capacity_bytes: int, drive: str) -> None:
        """Raises: UsageError: the database is larger than the drive."""
        if self.database_bytes > capacity_bytes:
            raise UsageError(
                f"a database of {format_bytes(self.database_bytes)} is larger than drive '{drive}' "
                f"({format_bytes(capacity_bytes)}): take a larger drive or fewer records"
            )


def works(
    shapes: Mapping[Shape, int], params: CkksParameters, hoisting: Hoisting = Hoisting.RESULTS
) -> list[tuple[KernelWork, int]]:
    """Kernel work of each shape, and how often it is done."""
    return [(_work(shape, params, hoisting), count) for shape, count in shapes.items()]


@lru_cache(maxsize=1024)
def _work(shape: Shape, params: CkksParameters, hoisting: Hoisting) -> KernelWork:
    """Studies ask for the same operations under every policy, drive and batch."""
    return shape_work(shape, params, hoisting=hoisting)


def pir_query(
    params: CkksParameters, *, database_bytes: int, record_bytes: int, slot_bits: int, stages: int = 2
) -> Query:
    """Private retrieval from raw records by selection vectors, in so many stages of filtering of like length.

    Args:   slot_bits: of a record in one slot, both halves of a complex slot together.
    Raises: UsageError: no whole record fits in the database, or no whole byte in a slot; ParamsError: the parameters do
            not carry a multiplication for each stage.
    """
    if record_bytes < 1 or database_bytes < record_bytes:
        raise UsageError(
            f"a database of {database_bytes} bytes holds no record of {record_bytes} bytes: ask for a larger one"
        )
    if slot_bits < BITS_PER_BYTE or slot_bits % BITS_PER_BYTE:
        raise UsageError(f"{slot_bits} bits a slot: chunks of records are whole bytes; ask for 8, 16, 24 or 32 bits")
    if stages < 1:
        raise UsageError(f"{stages} stages of filtering: at least 1")
    records = -(-database_bytes // record_bytes)
    columns = -(-record_bytes // (slot_bits // BITS_PER_BYTE))
    blocks = -(-records // params.slots)
    # Counts depend on columns alone; a plan refuses what its scale cannot return, which papers do not ask.
    fine = replace(params, scale_bits=params.scale_bits + FINER_BITS)
    plan = PirPlan(
        params=fine,
        records=records,
        packing=RecordPacking(record_bytes=columns, bits_per_slot=BITS_PER_BYTE),
        folds=(_side(blocks, stages),) * (stages - 1),
    )
    return Query(
        work=replace(scan_work(plan), params=params),
        exact_bits=precision_bits(params, plan.additions),
        object_bytes=params.slots * slot_bits // BITS_PER_BYTE,
        columns=columns,
        stored="raw",
    )


def ssc_query(
    params: CkksParameters, *, database_bytes: int, batch: int, summation: str = "bsgs", limbs: int = 0
) -> Query:
    """Similarity scores of an encrypted query against encrypted vectors, `batch` of them in a ciphertext.

    The slots are shared evenly: a vector has slots / batch features. `database_bytes` counts the ciphertexts.
    Raises: UsageError: the batch is not a power of two that divides the slots, or no ciphertext fits in the database;
            ParamsError: the parameters do not carry two multiplications.
    """
    if batch < 1 or batch & (batch - 1) or batch > params.slots:
        raise UsageError(
            f"{batch} vectors in a ciphertext of {params.slots} slots: a power of two up to {params.slots} shares "
            "the slots evenly"
        )
    plan = SscPlan(
        params=params, vectors=1, features=params.slots // batch, batch=batch, summation=summation, limbs=limbs
    )
    size = params.ciphertext_bytes(plan.object_limbs)
    return _stored(replace(plan, vectors=_objects(database_bytes, size) * batch), size)


def filter_query(
    params: CkksParameters, *, database_bytes: int, categories: int = 8, small_rows: int = 0, limbs: int = 0
) -> Query:
    """A filter with sum and count over a table of ciphertexts; with `small_rows` a join with so small a table.

    Args:   categories: values of a code; limbs: of a stored ciphertext, 0 is the whole chain.
    Raises: UsageError: no pair of ciphertexts in the database, or a small table without a code for each row;
            ParamsError: the parameters do not carry the products.
    """
    plan = (
        JoinPlan(params=params, rows=1, categories=categories, limbs=limbs, small_rows=small_rows)
        if small_rows
        else FilterPlan(params=params, rows=1, categories=categories, limbs=limbs)
    )
    size = 2 * params.ciphertext_bytes(plan.object_limbs)
    return _stored(replace(plan, rows=_objects(database_bytes, size) * params.slots), size)


def rank_query(
    params: CkksParameters,
    *,
    database_bytes: int,
    scores: int = 64,
    top: int = 1,
    lower_bits: int = 8,
    degrees: str = "15-15-15",
    rank_degrees: str = "15-15-15",
    limbs: int = 0,
) -> Query:
    """The `top` largest of so many scores of every record, and their indices; both go back for each ciphertext.

    Args:   lower_bits, degrees, rank_degrees: of `RankPlan`; limbs: of a stored ciphertext, 0 is as many as the
            products take.
    Raises: UsageError: no ciphertext in the database, no power of two of scores, or signs that are too coarse for them;
            ParamsError: the parameters do not carry the products.
    """
    plan = RankPlan(
        params=params,
        records=1,
        scores=scores,
        top=top,
        lower_bits=lower_bits,
        degrees=degrees,
        rank_degrees=rank_degrees,
        limbs=limbs,
    )
    size = params.ciphertext_bytes(plan.object_limbs)
    return _stored(replace(plan, records=_objects(database_bytes, size) * plan.per_object), size)


def _objects(database_bytes: int, size: int) -> int:
    """Ciphertexts of a database."""
    if database_bytes < 1:
        raise UsageError(f"a database of {database_bytes} bytes holds no ciphertext: ask for a larger one")
    return -(-database_bytes // size)


def _stored(plan: SscPlan | FilterPlan | JoinPlan | RankPlan, size: int) -> Query:
    """The query of a plan over ciphertexts of `size` bytes."""
    return Query(work=scan_work(plan), object_bytes=size, columns=1, stored="ciphertext")


def hdc_query(
    params: CkksParameters, *, database_bytes: int, dimensions: int = 4096, summation: str = "fold", limbs: int = 0
) -> Query:
    """Cosine scores of an encrypted hypervector against encrypted ones of so many dimensions.

    Args:   summation: by doubling, since the keys of baby and giant steps grow with the root of the dimensions.
    Raises: as `ssc_query`.
    """
    if dimensions < 1 or dimensions > params.slots:
        raise UsageError(f"hypervectors of {dimensions} dimensions: from 1 to the {params.slots} slots")
    query = ssc_query(
        params, database_bytes=database_bytes, batch=params.slots // dimensions, summation=summation, limbs=limbs
    )
    return replace(query, work=replace(query.work, workload="hdc-classify"))


def match_query(params: CkksParameters, *, database_bytes: int, starts: int = 1, limbs: int = 1) -> Query:
    """Exact matching by additions: the query is added to each ciphertext once for each place where it may start.

    Every sum goes back to the client, who looks for zeros.
    Raises: UsageError: no place to start, or no ciphertext in the database.
    """
    if starts < 1 or database_bytes < 1:
        raise UsageError(f"{starts} starts over {database_bytes} bytes match nothing: at least 1 of each")
    size = params.ciphertext_bytes(limbs)
    objects = -(-database_bytes // size)
    add = Shape(OpKind.ADD.value, limbs, limbs, 0, 0, 2)
    work = ScanWork(
        workload="string-match",
        params=params,
        num_objects=objects,
        object_limbs=limbs,
        object_bytes=size,
        raw_bytes=float(size),
        per_object={add: starts},
        per_query={},
        query_ciphertexts={limbs: starts},
        answer_ciphertexts={limbs: objects * starts},
    )
    return Query(work=work, object_bytes=size, columns=1, stored="ciphertext")


def similarity_query(params: CkksParameters, *, records: int, dim: int) -> Query:
    """The official benchmark's search: inner products with every stored block, the rest of the search at the end.

    An object is a block of the small ring's n records; half of it is made of a seed.
    Raises: UsageError: the set has no small ring, or a dimension that it does not take.
    """
    n = small_parameters(params).ring_dim
    if records < 1 or dim < 2 or dim & (dim - 1) or dim > n:
        raise UsageError(f"{records} records of {dim} coordinates: a power of two of coordinates from 2 to {n}")
    layout = Layout(records, dim, params.ring_dim, n)
    tally = search_tally(params, layout)
    rest = Counter(tally.counts)
    for step in range(dim.bit_length() - 1):
        rest[Shape(OpKind.EXPAND_SMALL.value, 1, 1, 0, 0, 2 << step)] += 1
    parts = [min(layout.ratio, layout.blocks - group * layout.ratio) for group in range(layout.packed)]
    for count in parts:
        rest[Shape(OpKind.PACK_SMALL.value, 1, 1, 0, 0, 3 * count)] += 1
    rest[Shape(OpKind.SWITCH_SMALL_SQUARED.value, 1, 1, 0, 0, 3)] += layout.packed
    rest[Shape(OpKind.SWITCH_SMALL.value, 1, 1, 0, 0, 3)] += layout.packed
    size = params.small_bytes(dim)
    work = ScanWork(
        workload=WORKLOAD,
        params=params,
        num_objects=layout.blocks,
        object_limbs=1,
        object_bytes=size,
        raw_bytes=float(size),
        per_object={Shape(OpKind.INNER_PRODUCTS.value, 1, 1, 0, 0, 2 * dim): 1},
        per_query=dict(rest),
        keys=dict(tally.keys),
        answer_ciphertexts={1: Selection(params.ring_dim // 2, layout.scores).variants},
    )
    return Query(work=work, object_bytes=size, columns=1, stored="ciphertext")


def _side(blocks: int, stages: int) -> int:
    """Places of each further dimension, a power of two near the root."""
    side = 1
    while (2 * side) ** stages <= blocks:
        side *= 2
    return side
