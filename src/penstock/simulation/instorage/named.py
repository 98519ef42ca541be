"""Queries of the database workloads by name, each over the database that FHEIns states or one of the same size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.errors import UnknownName
from penstock.params import catalogue
from penstock.params.ckks import CkksParameters
from penstock.simulation.instorage.query import (
    Query,
    filter_query,
    hdc_query,
    match_query,
    pir_query,
    rank_query,
    ssc_query,
)
from penstock.units import BYTE_UNITS

GB, GIB = int(BYTE_UNITS["GB"]), int(BYTE_UNITS["GiB"])
RECORD_BYTES = 288
SCORES = 512
"""Vectors in one ciphertext."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One workload as a scan: its question, parameters and database."""

    says: str
    params: str
    database_bytes: int
    query: Callable[[CkksParameters, int, int], Query]
    """(parameters, bytes of the database, bits of a raw record in a slot) -> the query."""


QUERIES: Mapping[str, Named] = {
    "pir": Named(
        says="private retrieval of records of 288 bytes",
        params="fheins-pir",
        database_bytes=288 * GIB,
        query=lambda params, size, bits: pir_query(
            params, database_bytes=size, record_bytes=RECORD_BYTES, slot_bits=bits
        ),
    ),
    "ssc": Named(
        says="similarity scores, 512 vectors in a ciphertext",
        params="fheins-ssc",
        database_bytes=128 * GB,
        query=lambda params, size, bits: ssc_query(params, database_bytes=size, batch=SCORES),
    ),
    "hdc-classify": Named(
        says="cosine scores of hypervectors of 4096 dimensions, summed by doubling",
        params="fheins-ssc",
        database_bytes=128 * GB,
        query=lambda params, size, bits: hdc_query(params, database_bytes=size),
    ),
    "filter-aggregate": Named(
        says="sum and count of the rows of one of 8 categories",
        params="fheins-ssc",
        database_bytes=128 * GB,
        query=lambda params, size, bits: filter_query(params, database_bytes=size),
    ),
    "equi-join": Named(
        says="sum and count of a join with a table of 8 rows",
        params="fheins-ssc",
        database_bytes=128 * GB,
        query=lambda params, size, bits: filter_query(params, database_bytes=size, small_rows=8),
    ),
    "argmax": Named(
        says="largest of the 64 scores of each record, and its index",
        params="fheins-ssc",
        database_bytes=128 * GB,
        query=lambda params, size, bits: rank_query(params, database_bytes=size),
    ),
    "top-k": Named(
        says="ten largest of the 64 scores of each record, and their indices",
        params="fheins-ssc",
        database_bytes=128 * GB,
        query=lambda params, size, bits: rank_query(params, database_bytes=size, top=10),
    ),
    "string-match": Named(
        says="exact matching at one start, ciphertexts of one limb",
        params="fheins-pir",
        database_bytes=128 * GB,
        query=lambda params, size, bits: match_query(params, database_bytes=size),
    ),
}
"""Workload -> its query."""


def named_query(
    workload: str, *, slot_bits: int, params: CkksParameters | None = None, database_bytes: int | None = None
) -> Query:
    """Return the query of this workload, over its own database and parameters unless others are given.

    Args:   slot_bits: of a raw record in one slot, of private retrieval.
    Raises: UnknownName: no such workload; as the query's own function.
    """
    if workload not in QUERIES:
        raise UnknownName("database workload", workload, QUERIES)
    named = QUERIES[workload]
    size = named.database_bytes if database_bytes is None else database_bytes
    return named.query(params or catalogue.get(named.params), size, slot_bits)
