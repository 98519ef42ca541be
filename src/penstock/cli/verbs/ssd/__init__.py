"""`penstock ssd`: simulated drives, scanned by the host or by accelerators inside them."""

from __future__ import annotations

import click

from penstock.cli.lazy import LazyGroup

VERBS: dict[str, str] = {
    "drives": "Drives by name, with the source of every value.",
    "scan": "Read a part of a drive, page by page: rate, latency, what binds.",
    "pir": "Private retrieval of records, inside a drive and on a host.",
    "ssc": "Similarity scores over an encrypted database, inside a drive and on a host.",
    "match": "Exact string matching by additions, inside a drive and on a host.",
    "near-data": "Keys that stay at the drive, for any workload.",
}
"""Verb -> one-line help."""

PLACES: dict[str, str] = {
    "drives": "penstock.cli.verbs.ssd_drives:command",
    "scan": "penstock.cli.verbs.ssd_scan:command",
    "pir": "penstock.cli.verbs.ssd_queries:pir",
    "ssc": "penstock.cli.verbs.ssd_queries:ssc",
    "match": "penstock.cli.verbs.ssd_queries:match",
    "near-data": "penstock.cli.verbs.ssd_near_data:command",
}
"""Verb -> `module:attribute` of its click command."""


@click.group("ssd", cls=LazyGroup, verbs=VERBS, places=PLACES, package=__name__, what="command of ssd")
def command() -> None:
    """Simulated solid-state drives, at page granularity ('docs/ssd.md').

    \b
    Examples:
      penstock ssd scan --drive ssd-s --size "4 GB" --host pcie
      penstock ssd drives ssd-s
    """
