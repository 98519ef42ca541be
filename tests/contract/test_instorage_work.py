"""The work that in-storage queries are priced with is that of the workloads' traces."""

from __future__ import annotations

from penstock.lab.instorage.query import Query, pir_query, ssc_query
from penstock.program.evaluator.tally import tally_of
from penstock.program.running import trace_workload
from penstock.scheme.params import catalogue

CLIENT = ("encrypt", "decrypt", "mod_drop")


def traced(workload: str, params: str, size: str) -> dict[object, int]:
    """Shape -> how often, of the server's operations."""
    counts = tally_of(trace_workload(workload, params, size, 0)).counts
    return {shape: n for shape, n in counts.items() if shape.kind not in CLIENT}


def whole(query: Query) -> dict[object, int]:
    return dict(query.work.operations().items())


def test_private_retrieval_is_the_trace_of_its_workload() -> None:
    """Size `vcall`: 2^16 records of 96 bytes, a byte a slot, four places in the second dimension."""
    query = pir_query(catalogue.get("fheins-pir"), database_bytes=96 * 2**16, record_bytes=96, slot_bits=8)
    assert query.work.query_ciphertexts == {3: 8, 2: 4}
    assert whole(query) == traced("pir", "fheins-pir", "vcall")


def test_scores_are_the_trace_of_their_workload() -> None:
    """Size `published`: 2^14 vectors of 256 features, 128 in a ciphertext, summed by baby and giant steps."""
    params = catalogue.get("fheins-ssc")
    query = ssc_query(params, database_bytes=128 * params.ciphertext_bytes(39), batch=128, summation="bsgs")
    assert query.num_objects == 128
    assert whole(query) == traced("ssc", "fheins-ssc", "published")
