"""Queries of the database workloads by name, each over the database that FHEIns states or one of the same size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from penstock.base.units import BYTE_UNITS
from penstock.errors import check_known
from penstock.lab.instorage.query import Query, filter_query, hdc_query, match_query, pir_query, rank_query, ssc_query
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters

GB, GIB = int(BYTE_UNITS["GB"]), int(BYTE_UNITS["GiB"])
RECORD_BYTES = 288
SCORES = 512
"""Vectors in one ciphertext."""


@dataclass(frozen=True, slots=True)
class Named:
    """One workload as a scan: its question, and the function that makes its query."""

    says: str
    make: Callable[..., Query]
    params: str = "fheins-ssc"
    database_bytes: int = 128 * GB


QUERIES: Mapping[str, Named] = {
    "pir": Named("private retrieval of records of 288 bytes", pir_query, "fheins-pir", RECORD_BYTES * GIB),
    "ssc": Named("similarity scores, 512 vectors in a ciphertext", partial(ssc_query, batch=SCORES)),
    "hdc-classify": Named("cosine scores of hypervectors of 4096 dimensions, summed by doubling", hdc_query),
    "filter-aggregate": Named("sum and count of the rows of one of 8 categories", filter_query),
    "equi-join": Named("sum and count of a join with a table of 8 rows", partial(filter_query, small_rows=8)),
    "argmax": Named("largest of the 64 scores of each record, and its index", rank_query),
    "top-k": Named("ten largest of the 64 scores of each record, and their indices", partial(rank_query, top=10)),
    "string-match": Named("exact matching at one start, ciphertexts of one limb", match_query, "fheins-pir"),
}
"""Workload -> its query."""


def named_query(
    workload: str, *, slot_bits: int, params: CkksParameters | None = None, database_bytes: int | None = None
) -> Query:
    """Return the query of this workload, over its own database and parameters unless others are given.

    Args:   slot_bits: of a raw record in one slot, of private retrieval.
    Raises: UnknownName: no such workload; as the query's own function.
    """
    check_known("database workload", workload, QUERIES)
    named = QUERIES[workload]
    size = named.database_bytes if database_bytes is None else database_bytes
    raw = {"record_bytes": RECORD_BYTES, "slot_bits": slot_bits} if named.make is pir_query else {}
    return named.make(params or catalogue.get(named.params), database_bytes=size, **raw)
