"""`penstock ssd similarity`: the official similarity benchmark inside a drive and on a host."""

from __future__ import annotations

import click

from penstock.front.cli.verbs.ssd.queries import answer, batches_option, with_options


@click.command("similarity")
@click.option("--params", default="openfhe-similarity", help="Parameter set, with a small ring.")
@click.option(
    "--size",
    default="medium",
    help="Of the benchmark: toy, small, medium, large. --records and --dim state another.",
)
@click.option("--records", type=click.IntRange(min=1), help="Records of the database.")
@click.option("--dim", type=click.IntRange(min=2), help="Coordinates of a record, a power of two.")
@batches_option(1, "Queries together")
@with_options
def similarity(params: str, size: str, records: int | None, dim: int | None, **options: object) -> None:
    """Payloads of the records near an encrypted query: inner products where the records lie, the rest at the end.

    The machines in drives are of narrower words than the set's primes: their times are those of units as wide.

    \b
    Examples:
      penstock ssd similarity --size large --drive ssd-l
      penstock ssd similarity --records 4000000 --dim 256 --drive ssd-s --architecture host
    """
    from penstock.lab.instorage.query import similarity_query
    from penstock.program.database.similarity.scheme import instance
    from penstock.scheme.params import catalogue

    task = instance(size)
    query = similarity_query(catalogue.get(params), records=records or task.records, dim=dim or task.dim)
    answer(query, options)
