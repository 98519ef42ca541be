"""`penstock ssd top-k`: the largest scores of every record, inside a drive and on a host."""

from __future__ import annotations

import click

from penstock.front.cli.verbs.ssd.queries import answer, batches_option, sized_query, with_options


@click.command("top-k")
@click.option("--params", default="fheins-ssc", help="Parameter set.")
@click.option("--database", default="128 GB", help="Ciphertexts of scores together.")
@click.option("--scores", type=click.IntRange(min=1), default=64, help="Of a record: a power of two.")
@click.option("--top", type=click.IntRange(min=1), default=10, help="Largest scores that are returned; 1 is an argmax.")
@click.option(
    "--lower-bits", type=click.IntRange(min=1, max=40), default=8, help="Scores 2^-BITS apart are told apart."
)
@click.option("--degrees", default="15-15-15", help="Of the polynomials that compare two scores.")
@click.option("--rank-degrees", default="15-15-15", help="Of those that compare a rank with a place.")
@click.option(
    "--limbs", type=click.IntRange(min=0), default=0, help="Of a stored ciphertext. Default: as many as needed."
)
@batches_option(1, "Queries together")
@with_options
def top_k(**options: object) -> None:
    """The largest encrypted scores of every record with their indices, as the workload 'top-k' computes them.

    \b
    Examples:
      penstock ssd top-k --top 1
      penstock ssd top-k --scores 16 --lower-bits 6 --degrees 15-27 --rank-degrees 15-27 --contention dram
    """
    from penstock.lab.instorage.query import rank_query

    own = ("scores", "top", "limbs", "lower_bits", "degrees", "rank_degrees")
    answer(sized_query(rank_query, options, *own), options)
