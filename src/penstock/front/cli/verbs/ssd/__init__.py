"""`penstock ssd`: simulated drives, scanned by the host or by accelerators inside them."""

from __future__ import annotations

import click

from penstock.front.cli.lazy import LazyGroup

VERBS: dict[str, str] = {
    "drives": "Drives by name, with the source of every value.",
    "scan": "Read a part of a drive, page by page: rate, latency, what binds.",
    "pir": "Private retrieval of records, inside a drive and on a host.",
    "ssc": "Similarity scores over an encrypted database, inside a drive and on a host.",
    "match": "Exact string matching by additions, inside a drive and on a host.",
    "filter": "Sum and count of an encrypted category, inside a drive and on a host.",
    "join": "Join of an encrypted table with a small one, inside a drive and on a host.",
    "hdc": "Cosine scores of hypervectors, inside a drive and on a host.",
    "top-k": "Largest encrypted scores of every record, inside a drive and on a host.",
    "similarity": "Records near an encrypted query, inside a drive and on a host.",
    "near-data": "Keys that stay at the drive, for any workload.",
    "space": "Thousands of designs of accelerators in a drive: time, area, power, and the Pareto front.",
}
"""Verb -> one-line help."""

_QUERIES = ("pir", "ssc", "match", "join", "hdc", "top-k", "similarity")
PLACES: dict[str, str] = {verb: f"{__name__}.queries:{verb.replace('-', '_')}" for verb in _QUERIES}
PLACES |= {"filter": f"{__name__}.queries:filter_rows", "near-data": f"{__name__}.near_data:command"}
"""Verb -> `module:attribute` of its click command, where that is not `<verb>:command`."""


@click.group("ssd", cls=LazyGroup, verbs=VERBS, places=PLACES, package=__name__, what="command of ssd")
def command() -> None:
    """Simulated solid-state drives, at page granularity ('docs/guides/ssd.md').

    \b
    Examples:
      penstock ssd scan --drive ssd-s --size "4 GB" --host pcie
      penstock ssd drives ssd-s
      penstock ssd pir --batch 1 --batch 16
      penstock ssd space ssc
    """
