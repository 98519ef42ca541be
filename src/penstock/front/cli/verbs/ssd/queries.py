"""`penstock ssd pir|ssc|match|filter|join|hdc|top-k|similarity`: queries over a database, in a drive and on a host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click
from rich.console import Console

from penstock.base.types import Row, Rows
from penstock.front.cli.options import Decorator, Values, all_of, choice_option, count_option, several_option
from penstock.front.cli.output import draw_rows, emit, format_option, say

if TYPE_CHECKING:
    from penstock.lab.instorage.query import Query

HOST = "host"
ENGINES = ("closed-form", "jump", "events")


_switch = partial(click.option, default=True, show_default=False)
_OPTIONS: tuple[Decorator, ...] = (
    several_option("--drive", "drives", "A drive of 'penstock ssd scan', or a TOML file", default=("ssd-s", "ssd-l")),
    click.option(
        "--architecture",
        "architectures",
        multiple=True,
        default=("fheins", HOST),
        help="fheins, inspire, ciphermatch, a TOML file, or 'host': --machine behind PCIe. May be repeated.",
    ),
    click.option("--machine", default="sharp", help="The accelerator behind PCIe."),
    several_option(
        "--policy",
        "policies",
        "What the host does: restream|batch, overlap|serial, joined by '-'",
        default=("restream-overlap",),
    ),
    click.option("--cache", help="Bytes of the database that a host that re-streams keeps between passes ('64 GB')."),
    choice_option(
        "--contention",
        ("free", "dram", "spill"),
        "What the drive's DRAM carries: nothing; queries and keys; also what scratchpads do not hold.",
    ),
    choice_option("--encode", ("query", "batch"), "Raw records are encoded for each query, or once a batch."),
    choice_option(
        "--power",
        ("per-engine", "per-accelerator", "per-drive"),
        "Number of instances of a row of the table of powers.",
    ),
    choice_option("--automorphism", ("transforms", "permutation"), "Default: the machine's.", default=None),
    choice_option(
        "--hoisting", ("digits", "results"), "What a hoisted rotation permutes. Default: the machine's.", default=None
    ),
    choice_option("--lane", ("word", "butterfly"), "Work of a transform lane in a cycle.", default=None),
    click.option("--scratchpad", help="With --contention spill: of each accelerator ('7 MB'). Default: its own."),
    _switch("--twiddles/--no-twiddles", help="Twiddle factors on the fly, or from flash."),
    _switch("--dram-keys/--flash-keys", help="Keys resident in the drive's DRAM, or from flash."),
    click.option("--keys-read", default="1", help="With --flash-keys: keys read again for each object, or 'all'."),
    _switch("--seeded-keys/--whole-keys", help="The uniform half of a key from a seed (PRNG)."),
    count_option("--key-stationary", 1, "Ciphertexts that pass one key before the next."),
    _switch("--broadcast/--no-broadcast", help="Operands come over the DRAM once for all, or each."),
    click.option("--ordinary-reads", help="Other data that the host reads from the drive meanwhile ('1 GB/s')."),
    choice_option(
        "--modes",
        ("shared", "alternate"),
        "With --ordinary-reads: conventional I/O and FHE acceleration at once, or in turns.",
    ),
    choice_option(
        "--engine",
        ENGINES,
        "A formula, or the event engine: with jumps of whole periods, or every event.",
        default="closed-form",
    ),
    format_option,
)


with_options = all_of(*_OPTIONS)
"""The options of every query."""
limbs_option = click.option(
    "--limbs", type=click.IntRange(min=0), default=0, help="Of a stored ciphertext. Default: the whole chain."
)


def batches_option(default: int, what: str) -> Decorator:
    """`--batch`, for queries of one kind."""
    return several_option("--batch", "batches", what, type=click.IntRange(min=1), default=(default,))


@click.command("pir")
@click.option("--params", default="fheins-pir", help="Parameter set.")
@click.option("--database", default="288 GiB", help="Raw records together.")
@click.option("--record-bytes", type=click.IntRange(min=1), default=288)
@click.option("--slot-bits", type=click.IntRange(min=1), help="Of a record in one slot. Default: the machine's.")
@count_option("--stages", 2, "Stages of filtering.")
@batches_option(1, "Queries together")
@with_options
def pir(slot_bits: int | None, **options: object) -> None:
    """Private retrieval of records by selection vectors, inside a drive and on an accelerator behind PCIe.

    \b
    Examples:
      penstock ssd pir --batch 1 --batch 16
      penstock ssd pir --drive ssd-l --batch 64 --policy restream-overlap --policy batch-overlap --contention dram
      penstock ssd pir --architecture inspire --architecture host --policy restream-serial
      penstock ssd pir --database "96 GB" --record-bytes 96 --architecture fheins --engine jump
    """
    from penstock.lab.instorage.query import pir_query
    from penstock.lab.instorage.query_options import slot_bits as bits_of

    values: Values = options
    bits = bits_of(values["architectures"]) if slot_bits is None else slot_bits
    query = _sized(pir_query, options | {"slot_bits": bits}, "record_bytes", "slot_bits", "stages")
    if query.exact_bits is not None and bits > 2 * query.exact_bits:
        say(
            f"warning: {bits} bits a slot, and '{options['params']}' returns {query.exact_bits:.1f} bits exactly in "
            "each half of one: records would come back with errors; ask for fewer with --slot-bits"
        )
    _answer(query, options)


@click.command("ssc")
@click.option("--params", default="fheins-ssc", help="Parameter set.")
@click.option("--database", default="128 GB", help="Ciphertexts together.")
@batches_option(512, "Vectors in one ciphertext, which share its slots")
@choice_option("--summation", ("bsgs", "fold"), "Sum over a vector by hoisted baby and giant steps, or by doubling.")
@click.option("--limbs", type=click.IntRange(min=0), help="Of a stored ciphertext. Default: the whole chain.")
@with_options
def ssc(batches: tuple[int, ...], limbs: int | None, output_format: str, **options: object) -> None:
    """Similarity scores of one encrypted query against an encrypted database.

    \b
    Examples:
      penstock ssd ssc --batch 512 --batch 64 --summation fold
      penstock ssd ssc --architecture fheins --no-twiddles --flash-keys --whole-keys
      penstock ssd ssc --drive ssd-s --contention spill --format json
    """
    from penstock.lab.instorage.query import ssc_query
    from penstock.lab.instorage.query_options import query_rows

    rows: Rows = []
    for batch in dict.fromkeys(batches):
        query = _sized(ssc_query, options | {"batch": batch, "limbs": limbs or 0}, "batch", "summation", "limbs")
        rows += [{**row, "batch": batch} for row in query_rows(query, options | {"batches": (1,)}, say)]
    emit(rows, output_format, table=lambda console: _draw(console, rows))


@click.command("match")
@click.option("--params", default="fheins-pir", help="Parameter set.")
@click.option("--database", default="128 GB", help="Ciphertexts together, one limb each.")
@count_option("--starts", 1, "Places of a record at which the pattern may start: an addition each.")
@batches_option(1, "Patterns together")
@with_options
def match(**options: object) -> None:
    """Exact string matching by additions alone, which 'ciphermatch' does in the flash array.

    \b
    Example:
      penstock ssd match --architecture ciphermatch --architecture fheins --architecture host
    """
    from penstock.lab.instorage.query import match_query

    _answer(_sized(match_query, options, "starts"), options)


@click.command("filter")
@click.option("--params", default="fheins-ssc", help="Parameter set.")
@click.option("--database", default="128 GB", help="Ciphertexts of codes and values together.")
@click.option("--categories", type=click.IntRange(min=2), default=8, help="Values of a code.")
@limbs_option
@batches_option(1, "Queries together")
@with_options
def filter_rows(**options: object) -> None:
    """Sum and count of the rows of one encrypted category, as the workload 'filter-aggregate' computes them.

    \b
    Examples:
      penstock ssd filter --contention spill
      penstock ssd filter --drive ssd-l --limbs 8 --ordinary-reads "2 GB/s" --modes alternate
    """
    from penstock.lab.instorage.query import filter_query

    _answer(_sized(filter_query, options, "categories", "limbs"), options)


@click.command("join")
@click.option("--params", default="fheins-ssc", help="Parameter set.")
@click.option("--database", default="128 GB", help="Ciphertexts of the large table's codes and values together.")
@click.option("--categories", type=click.IntRange(min=2), default=8, help="Values of a code.")
@click.option(
    "--rows",
    "small_rows",
    type=click.IntRange(min=1),
    default=8,
    help="Rows of the small table, with codes that differ.",
)
@limbs_option
@batches_option(1, "Queries together")
@with_options
def join(**options: object) -> None:
    """Equi-join of an encrypted table with a small one: the sum of value times attribute, and the number of pairs.

    \b
    Examples:
      penstock ssd join --rows 2
      penstock ssd join --contention dram --batch 1 --batch 16 --policy batch-overlap
    """
    from penstock.lab.instorage.query import filter_query

    _answer(_sized(filter_query, options, "categories", "small_rows", "limbs"), options)


@click.command("hdc")
@click.option("--params", default="fheins-ssc", help="Parameter set.")
@click.option("--database", default="128 GB", help="Ciphertexts together.")
@count_option("--dimensions", 4096, "Of a hypervector: a power of two.")
@choice_option(
    "--summation",
    ("bsgs", "fold"),
    "By doubling, or by hoisted baby and giant steps, whose keys need a larger DRAM.",
    default="fold",
)
@batches_option(1, "Queries together")
@with_options
def hdc(**options: object) -> None:
    """Cosine scores of an encrypted hypervector, as the workload 'hdc-classify' computes them.

    \b
    Example:
      penstock ssd hdc --dimensions 2048 --contention dram
    """
    from penstock.lab.instorage.query import hdc_query

    _answer(_sized(hdc_query, options, "dimensions", "summation"), options)


@click.command("top-k")
@click.option("--params", default="fheins-ssc", help="Parameter set.")
@click.option("--database", default="128 GB", help="Ciphertexts of scores together.")
@count_option("--scores", 64, "Of a record: a power of two.")
@count_option("--top", 10, "Largest scores that are returned; 1 is an argmax.")
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
    _answer(_sized(rank_query, options, *own), options)


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
    _answer(query, options)


def _sized(make: Callable[..., Query], options: Values, *names: str) -> Query:
    """The query that `make` makes of a parameter set, a database of this size, and the options of these names."""
    from penstock.base.units import parse_bytes
    from penstock.scheme.params import catalogue

    own = {name: options[name] for name in names}
    database_bytes = parse_bytes(options["database"], "--database")
    return make(catalogue.get(options["params"]), database_bytes=database_bytes, **own)


def _answer(query: Query, options: Values) -> None:
    """Print the rows of a query."""
    from penstock.front.cli.assumed import draw_assumed
    from penstock.lab.instorage.query_options import query_rows
    from penstock.scheme.machines import load_machine

    rows = query_rows(query, options, say)
    hosts = [load_machine(options["machine"])] if HOST in options["architectures"] else []

    def drawn(console: Console) -> None:
        _draw(console, rows)
        draw_assumed(console, hosts, [], [])

    emit(rows, options["output_format"], table=drawn)


def _draw(console: Console, rows: Sequence[Row]) -> None:
    from penstock.base.units import format_rate, format_seconds

    columns = "drive | architecture | policy | >batch | >a query=query_s | >database=database_bytes_per_s:GB/s "
    columns += "| >energy a query=energy_j_per_query:{:.4g} J | bottleneck"
    draw_rows(console, rows, columns, title="Queries over an encrypted database (simulated)", fold=True)
    for row in rows:
        if row["ordinary_latency_s"] is not None:
            console.print(
                f"ordinary reads next to {row['architecture']} in {row['drive']}: "
                f"{format_seconds(row['ordinary_latency_s'])} each, "
                f"{format_rate(row['ordinary_served_bytes_per_s'])} served of "
                f"{format_rate(row['ordinary_bytes_per_s'])} asked for",
                highlight=False,
            )
    console.print("'database' is bytes of database a second and query; energy counts the accelerators' logic alone.")
