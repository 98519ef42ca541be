"""`penstock ssd pir|ssc|match|filter|join|hdc`: queries over encrypted databases, inside a drive and on a host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import click
from rich.console import Console

from penstock.cli.options import all_of
from penstock.cli.output import emit, folding_table, format_option, progress_console
from penstock.errors import UnknownName, UsageError

HOST = "host"
ENGINES = ("closed-form", "jump", "events")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of both kinds of query."""

    drives: tuple[str, ...]
    architectures: tuple[str, ...]
    machine: str
    batches: tuple[int, ...]
    policies: tuple[str, ...]
    cache: str | None
    contention: str
    encode: str
    power: str
    automorphism: str | None
    hoisting: str | None
    lane: str | None
    scratchpad: str | None
    twiddles: bool
    dram_keys: bool
    keys_read: str
    seeded_keys: bool
    key_stationary: int
    broadcast: bool
    ordinary_reads: str | None
    modes: str
    engine: str
    output_format: str


_switch = partial(click.option, default=True, show_default=False)
_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--drive",
        "drives",
        multiple=True,
        default=("ssd-s", "ssd-l"),
        help="A drive of 'penstock ssd scan', or a TOML file; may be repeated.",
    ),
    click.option(
        "--architecture",
        "architectures",
        multiple=True,
        default=("fheins", HOST),
        help="fheins, inspire, ciphermatch, a TOML file, or 'host': --machine behind PCIe. May be repeated.",
    ),
    click.option("--machine", default="sharp", help="The accelerator behind PCIe."),
    click.option(
        "--policy",
        "policies",
        multiple=True,
        default=("restream-overlap",),
        help="What the host does: restream|batch, overlap|serial, joined by '-'; may be repeated.",
    ),
    click.option("--cache", help="Bytes of the database that a host that re-streams keeps between passes ('64 GB')."),
    click.option(
        "--contention",
        type=click.Choice(["free", "dram", "spill"]),
        default="free",
        help="What the drive's DRAM carries: nothing; queries and keys; also what scratchpads do not hold.",
    ),
    click.option(
        "--encode",
        type=click.Choice(["query", "batch"]),
        default="query",
        help="Raw records are encoded for each query, or once a batch.",
    ),
    click.option(
        "--power",
        type=click.Choice(["per-engine", "per-accelerator", "per-drive"]),
        default="per-engine",
        help="Number of instances of a row of the table of powers.",
    ),
    click.option("--automorphism", type=click.Choice(["transforms", "permutation"]), help="Default: the machine's."),
    click.option(
        "--hoisting",
        type=click.Choice(["digits", "results"]),
        help="What a hoisted rotation permutes. Default: the machine's.",
    ),
    click.option("--lane", type=click.Choice(["word", "butterfly"]), help="Work of a transform lane in a cycle."),
    click.option("--scratchpad", help="With --contention spill: of each accelerator ('7 MB'). Default: its own."),
    _switch("--twiddles/--no-twiddles", help="Twiddle factors on the fly, or from flash."),
    _switch("--dram-keys/--flash-keys", help="Keys resident in the drive's DRAM, or from flash."),
    click.option("--keys-read", default="1", help="With --flash-keys: keys read again for each object, or 'all'."),
    _switch("--seeded-keys/--whole-keys", help="The uniform half of a key from a seed (PRNG)."),
    click.option(
        "--key-stationary", type=click.IntRange(min=1), default=1, help="Ciphertexts that pass one key before the next."
    ),
    _switch("--broadcast/--no-broadcast", help="Operands come over the DRAM once for all, or each."),
    click.option("--ordinary-reads", help="Other data that the host reads from the drive meanwhile ('1 GB/s')."),
    click.option(
        "--modes",
        type=click.Choice(["shared", "alternate"]),
        default="shared",
        help="With --ordinary-reads: conventional I/O and FHE acceleration at once, or in turns.",
    ),
    click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default="closed-form",
        help="A formula, or the event engine: with jumps of whole periods, or every event.",
    ),
    format_option,
)


with_options = all_of(*_OPTIONS)
"""The options of every query; they make `Options`."""


def batches_option(default: int, what: str) -> Callable[[Any], Any]:
    """`--batch`, for queries of one kind."""
    return click.option(
        "--batch",
        "batches",
        type=click.IntRange(min=1),
        multiple=True,
        default=(default,),
        help=f"{what}; may be repeated.",
    )


@click.command("pir")
@click.option("--params", default="fheins-pir", help="Parameter set.")
@click.option("--database", default="288 GiB", help="Raw records together.")
@click.option("--record-bytes", type=click.IntRange(min=1), default=288)
@click.option("--slot-bits", type=click.IntRange(min=1), help="Of a record in one slot. Default: the machine's.")
@click.option("--stages", type=click.IntRange(min=1), default=2, help="Stages of filtering.")
@batches_option(1, "Queries together")
@with_options
def pir(
    params: str,
    database: str,
    record_bytes: int,
    slot_bits: int | None,
    stages: int,
    batches: tuple[int, ...],
    **options: Any,
) -> None:
    """Private retrieval of records by selection vectors, inside a drive and on an accelerator behind PCIe.

    \b
    Examples:
      penstock ssd pir --batch 1 --batch 16
      penstock ssd pir --drive ssd-l --batch 64 --policy restream-overlap --policy batch-overlap --contention dram
      penstock ssd pir --architecture inspire --architecture host --policy restream-serial
      penstock ssd pir --database "96 GB" --record-bytes 96 --architecture fheins --engine jump
    """
    from penstock.simulation.instorage.query import pir_query

    bits = _slot_bits(options["architectures"]) if slot_bits is None else slot_bits
    query = sized_query(pir_query, params, database, record_bytes=record_bytes, slot_bits=bits, stages=stages)
    if query.exact_bits is not None and bits > 2 * query.exact_bits:
        progress_console.print(
            f"warning: {bits} bits a slot, and '{params}' returns {query.exact_bits:.1f} bits exactly in each half of "
            "one: records would come back with errors; ask for fewer with --slot-bits",
            highlight=False,
        )
    answer(query, Options(batches=batches, **options))


@click.command("ssc")
@click.option("--params", default="fheins-ssc", help="Parameter set.")
@click.option("--database", default="128 GB", help="Ciphertexts together.")
@batches_option(512, "Vectors in one ciphertext, which share its slots")
@click.option(
    "--summation",
    type=click.Choice(["bsgs", "fold"]),
    default="bsgs",
    help="Sum over a vector by hoisted baby and giant steps, or by doubling.",
)
@click.option("--limbs", type=click.IntRange(min=0), help="Of a stored ciphertext. Default: the whole chain.")
@with_options
def ssc(
    params: str, database: str, batches: tuple[int, ...], summation: str, limbs: int | None, **options: Any
) -> None:
    """Similarity scores of one encrypted query against an encrypted database.

    \b
    Examples:
      penstock ssd ssc --batch 512 --batch 64 --summation fold
      penstock ssd ssc --architecture fheins --no-twiddles --flash-keys --whole-keys
      penstock ssd ssc --drive ssd-s --contention spill --format json
    """
    from penstock.simulation.instorage.query import ssc_query

    given = Options(batches=(1,), **options)
    rows: list[dict[str, Any]] = []
    for batch in dict.fromkeys(batches):
        query = sized_query(ssc_query, params, database, batch=batch, summation=summation, limbs=limbs or 0)
        rows += [{**row, "batch": batch} for row in _rows(query, given)]
    emit(rows, given.output_format, table=lambda console: _draw(console, rows))


@click.command("match")
@click.option("--params", default="fheins-pir", help="Parameter set.")
@click.option("--database", default="128 GB", help="Ciphertexts together, one limb each.")
@click.option(
    "--starts",
    type=click.IntRange(min=1),
    default=1,
    help="Places of a record at which the pattern may start: an addition each.",
)
@batches_option(1, "Patterns together")
@with_options
def match(params: str, database: str, starts: int, batches: tuple[int, ...], **options: Any) -> None:
    """Exact string matching by additions alone, which 'ciphermatch' does in the flash array.

    \b
    Example:
      penstock ssd match --architecture ciphermatch --architecture fheins --architecture host
    """
    from penstock.simulation.instorage.query import match_query

    query = sized_query(match_query, params, database, starts=starts)
    answer(query, Options(batches=batches, **options))


@click.command("filter")
@click.option("--params", default="fheins-ssc", help="Parameter set.")
@click.option("--database", default="128 GB", help="Ciphertexts of codes and values together.")
@click.option("--categories", type=click.IntRange(min=2), default=8, help="Values of a code.")
@click.option(
    "--limbs", type=click.IntRange(min=0), default=0, help="Of a stored ciphertext. Default: the whole chain."
)
@batches_option(1, "Queries together")
@with_options
def filter_rows(
    params: str, database: str, categories: int, limbs: int, batches: tuple[int, ...], **options: Any
) -> None:
    """Sum and count of the rows of one encrypted category, as the workload 'filter-aggregate' computes them.

    \b
    Examples:
      penstock ssd filter --contention spill
      penstock ssd filter --drive ssd-l --limbs 8 --ordinary-reads "2 GB/s" --modes alternate
    """
    from penstock.simulation.instorage.query import filter_query

    query = sized_query(filter_query, params, database, categories=categories, limbs=limbs)
    answer(query, Options(batches=batches, **options))


@click.command("join")
@click.option("--params", default="fheins-ssc", help="Parameter set.")
@click.option("--database", default="128 GB", help="Ciphertexts of the large table's codes and values together.")
@click.option("--categories", type=click.IntRange(min=2), default=8, help="Values of a code.")
@click.option("--rows", type=click.IntRange(min=1), default=8, help="Rows of the small table, with codes that differ.")
@click.option(
    "--limbs", type=click.IntRange(min=0), default=0, help="Of a stored ciphertext. Default: the whole chain."
)
@batches_option(1, "Queries together")
@with_options
def join(
    params: str, database: str, categories: int, rows: int, limbs: int, batches: tuple[int, ...], **options: Any
) -> None:
    """Equi-join of an encrypted table with a small one: the sum of value times attribute, and the number of pairs.

    \b
    Examples:
      penstock ssd join --rows 2
      penstock ssd join --contention dram --batch 1 --batch 16 --policy batch-overlap
    """
    from penstock.simulation.instorage.query import filter_query

    query = sized_query(filter_query, params, database, categories=categories, small_rows=rows, limbs=limbs)
    answer(query, Options(batches=batches, **options))


@click.command("hdc")
@click.option("--params", default="fheins-ssc", help="Parameter set.")
@click.option("--database", default="128 GB", help="Ciphertexts together.")
@click.option("--dimensions", type=click.IntRange(min=1), default=4096, help="Of a hypervector: a power of two.")
@click.option(
    "--summation",
    type=click.Choice(["bsgs", "fold"]),
    default="fold",
    help="By doubling, or by hoisted baby and giant steps, whose keys need a larger DRAM.",
)
@batches_option(1, "Queries together")
@with_options
def hdc(params: str, database: str, dimensions: int, summation: str, batches: tuple[int, ...], **options: Any) -> None:
    """Cosine scores of an encrypted hypervector, as the workload 'hdc-classify' computes them.

    \b
    Example:
      penstock ssd hdc --dimensions 2048 --contention dram
    """
    from penstock.simulation.instorage.query import hdc_query

    query = sized_query(hdc_query, params, database, dimensions=dimensions, summation=summation)
    answer(query, Options(batches=batches, **options))


def sized_query(make: Callable[..., Any], params: str, database: str, **of_query: Any) -> Any:
    """The query that `make` makes of a named parameter set and a database of this size."""
    from penstock.params import catalogue
    from penstock.units import parse_bytes

    return make(catalogue.get(params), database_bytes=parse_bytes(database, "--database"), **of_query)


def answer(query: Any, options: Options) -> None:
    from penstock.cli.assumed import draw_assumed
    from penstock.machines import load_machine

    rows = _rows(query, options)
    hosts = [load_machine(options.machine)] if HOST in options.architectures else []

    def drawn(console: Console) -> None:
        _draw(console, rows)
        draw_assumed(console, hosts, [], [])

    emit(rows, options.output_format, table=drawn)


def _rows(query: Any, options: Options) -> list[dict[str, Any]]:
    """One row for each drive, batch and architecture; hosts for each policy."""
    from penstock.machines import load_machine
    from penstock.machines.drives import load_drive
    from penstock.machines.instorage import UnitAccelerator
    from penstock.machines.instorage_spec import load_instorage
    from penstock.simulation.drive.spec import Engine
    from penstock.simulation.instorage.drive import drive_rates
    from penstock.simulation.instorage.engine import played_in_storage, played_on_host
    from penstock.simulation.instorage.ordinary import in_storage_under, left_by, on_host_under

    inside, reads = _inside(options), _reads(options)
    _refuse_idle(query, options)
    by_engine = options.engine != ENGINES[0]
    how: dict[str, Any] = {"ordinary_bytes_per_s": reads.bytes_per_s}
    if by_engine:
        how["engine"] = Engine(options.engine)
    found = []
    for drive_name in dict.fromkeys(options.drives):
        drive = load_drive(drive_name)
        rates = drive_rates(drive)
        left_by(rates, reads)  # more reads than the drive serves are refused, by the engine too
        for batch in dict.fromkeys(options.batches):
            for name in dict.fromkeys(options.architectures):
                if name == HOST:
                    machine = load_machine(options.machine)
                    for policy in _policies(options):
                        if by_engine:
                            each = played_on_host(query, drive, machine, policy, batch=batch, **how)
                        else:
                            each = on_host_under(query, rates, machine, policy, reads, batch=batch)
                        found.append(each.row())
                    continue
                accelerator = load_instorage(name)
                if isinstance(accelerator, UnitAccelerator):
                    accelerator = _changed(accelerator, options)
                    if by_engine:
                        each = played_in_storage(query, drive, accelerator, batch=batch, inside=inside, **how)
                        found.append(each.row())
                        continue
                elif by_engine:
                    progress_console.print(
                        f"'{name}' is known by a rate: its rows are of the closed form", highlight=False
                    )
                under = in_storage_under(query, rates, accelerator, reads, batch=batch, inside=inside)
                found.append(under.row())
    return found


def _refuse_idle(query: Any, options: Options) -> None:
    """Raises: UsageError: an option that changes nothing of these queries; rows would be named after it."""
    from penstock.machines.instorage import UnitAccelerator
    from penstock.machines.instorage_spec import load_instorage

    given = {
        "--contention": options.contention != "free", "--power": options.power != "per-engine",
        "--automorphism": options.automorphism is not None, "--hoisting": options.hoisting is not None,
        "--lane": options.lane is not None, "--scratchpad": options.scratchpad is not None,
        "--no-twiddles": not options.twiddles, "--flash-keys": not options.dram_keys,
        "--keys-read": options.keys_read != "1", "--whole-keys": not options.seeded_keys,
        "--key-stationary": options.key_stationary != 1, "--no-broadcast": not options.broadcast,
        "--policy": options.policies != ("restream-overlap",), "--machine": options.machine != "sharp",
        "--cache": options.cache is not None, "--encode": options.encode != "query",
        "--modes": options.modes != "shared",
    }  # fmt: skip
    on_host = HOST in options.architectures
    of_host = ("--policy", "--machine", "--cache")
    units = any(isinstance(load_instorage(name), UnitAccelerator) for name in options.architectures if name != HOST)
    held = options.contention != "free"
    switched = bool(query.key_switches())
    rules = [
        ([each for each in given if each not in (*of_host, "--encode", "--modes")],
         "--architecture fheins, or its like", units),
        (of_host, f"--architecture {HOST}", on_host),
        (("--cache",), "a policy that re-streams", any(name.startswith("restream") for name in options.policies)),
        (("--encode",), "raw records, of 'penstock ssd pir'", query.stored == "raw"),
        (("--no-twiddles", "--keys-read", "--key-stationary"), "operations with a key for each object", switched),
        (("--flash-keys", "--whole-keys"), "keys in use, here with --contention dram or spill",
         switched or (held and bool(query.work.keys))),
        (("--keys-read",), "--flash-keys", not options.dram_keys),
        (("--key-stationary", "--whole-keys"), "--flash-keys, or --contention dram or spill",
         held or not options.dram_keys),
        (("--no-broadcast",), "--contention dram or spill", held),
        (("--scratchpad",), "--contention spill", options.contention == "spill"),
        (("--modes",), "--ordinary-reads", options.ordinary_reads is not None),
    ]  # fmt: skip
    for names, needs, holds in rules:
        for name in names:
            if given[name] and not holds:
                raise UsageError(f"{name} changes nothing here: it goes with {needs}; leave it out")


def _inside(options: Options) -> Any:
    from penstock.machines.instorage_power import Multiplicity
    from penstock.simulation.instorage.policies import Contention, Encoding, Switches
    from penstock.simulation.instorage.queries import Inside

    if options.keys_read != "all" and not options.keys_read.isdecimal():
        raise UsageError(f"--keys-read '{options.keys_read}': a number of keys, or 'all'")
    return Inside(
        switches=Switches(
            twiddles_on_the_fly=options.twiddles,
            keys_in_dram=options.dram_keys,
            keys_read=None if options.keys_read == "all" else int(options.keys_read),
            seeded_keys=options.seeded_keys,
            key_stationary=options.key_stationary,
            broadcast=options.broadcast,
            encoding=Encoding(options.encode),
        ),
        contention=Contention(options.contention),
        multiplicity=Multiplicity(options.power),
    )


def _reads(options: Options) -> Any:
    from penstock.simulation.instorage.ordinary import Modes, Ordinary
    from penstock.units import parse_rate

    modes = Modes(options.modes)
    if modes is Modes.ALTERNATE and options.engine != ENGINES[0]:
        raise UsageError(
            f"--modes alternate is the closed form's: --engine {options.engine} plays reads and query at once; leave "
            "one of the two out"
        )
    rate = 0.0 if options.ordinary_reads is None else parse_rate(options.ordinary_reads, "--ordinary-reads")
    return Ordinary(bytes_per_s=rate, modes=modes)


def _changed(accelerator: Any, options: Options) -> Any:
    from penstock.machines.instorage import Automorphism, Lane, with_options
    from penstock.units import parse_bytes
    from penstock.work.kernels import Hoisting

    return with_options(
        accelerator,
        automorphism=None if options.automorphism is None else Automorphism(options.automorphism),
        hoisting=None if options.hoisting is None else Hoisting(options.hoisting),
        lane=None if options.lane is None else Lane(options.lane),
        scratchpad_bytes=None if options.scratchpad is None else parse_bytes(options.scratchpad, "--scratchpad"),
    )


def _policies(options: Options) -> list[Any]:
    from dataclasses import replace

    from penstock.simulation.instorage.policies import HOST_POLICIES, Encoding, Passes
    from penstock.units import parse_bytes

    cached = 0 if options.cache is None else parse_bytes(options.cache, "--cache")
    found = []
    for name in dict.fromkeys(options.policies):
        if name not in HOST_POLICIES:
            raise UnknownName("host policy", name, HOST_POLICIES)
        policy = replace(HOST_POLICIES[name], encoding=Encoding(options.encode))
        # A policy that reads the database once has nothing to keep.
        found.append(replace(policy, cached_bytes=cached) if policy.passes is Passes.RESTREAM else policy)
    return found


def _slot_bits(architectures: Sequence[str]) -> int:
    """Of the first architecture that says; of 'fheins' otherwise, so that all read the same database."""
    from penstock.machines.instorage import UnitAccelerator
    from penstock.machines.instorage_spec import load_instorage

    for name in (*(each for each in architectures if each != HOST), "fheins"):
        found = load_instorage(name)
        if isinstance(found, UnitAccelerator):
            return int(found.slot.value)
    raise AssertionError("'fheins' says")


def _draw(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    from penstock.units import format_rate, format_seconds

    headings = "drive | architecture | policy | >batch | >a query | >database | >energy a query | bottleneck"
    drawn = folding_table("Queries over an encrypted database (simulated)", headings)
    for row in rows:
        joules = row["energy_j_per_query"]
        drawn.add_row(
            row["drive"],
            row["architecture"],
            row["policy"],
            str(row["batch"]),
            format_seconds(row["query_s"]),
            f"{row['database_bytes_per_s'] / 1e9:.4g} GB/s",
            "-" if joules is None else f"{joules:.4g} J",
            row["bottleneck"],
        )
    console.print(drawn)
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
