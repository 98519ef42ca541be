"""`penstock servers`: dedicated or shared servers under a stream of applications."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from penstock.base.types import Row
from penstock.base.units import format_seconds, parse_bytes, parse_quantity, parse_seconds
from penstock.errors import UsageError
from penstock.front.cli.assumed import draw_assumed
from penstock.front.cli.grouped import GroupedCommand
from penstock.front.cli.options import (
    Values,
    is_given,
    key_form_option,
    params_on_machine_option,
    seed_option,
    size_option,
)
from penstock.front.cli.output import draw_rows, emit, format_option, say_choice, short_bytes
from penstock.scheme.machines import load_machine, load_tier, load_tiers

if TYPE_CHECKING:
    from penstock.lab.simulation.servers.fleet import Fleet
    from penstock.lab.simulation.servers.stream import Application, Stream
    from penstock.scheme.machines import Machine, Tier

PER_SECOND_UNITS = {"/s": 1.0, "/min": 1 / 60, "/h": 1 / 3600}
ARRANGEMENTS = ("dedicated", "pooled", "local")
LOADINGS = ("wait", "ahead")
AT_HAND = "none"


@click.command(
    "servers",
    cls=GroupedCommand,
    groups={
        "Programs": ("beside", "params", "size", "key_form"),
        "Stream": ("users", "rates", "runs", "zipf", "seed"),
        "Servers": ("machine", "arrangements", "servers", "loadings", "memory", "memory_tier", "tiers", "switch",
                    "max_overtaken"),
        "Output": ("prices", "gpu", "output_format"),
    },
)  # fmt: skip
@click.argument("target", metavar="TRACE|WORKLOAD")
@click.option("--with", "beside", multiple=True, metavar="TRACE|WORKLOAD", help="Another program; users take turns.")
@params_on_machine_option
@size_option
@key_form_option
@click.option("--users", type=click.IntRange(1, 10_000), default=16, help="Each has evaluation keys of its own.")
@click.option("--rate", "rates", multiple=True, default=("1/s",), help="Runs of all users ('90/min'); repeatable.")
@click.option("--runs", type=click.IntRange(min=1), default=2000, help="Length of the stream.")
@click.option("--zipf", type=click.FloatRange(min=0), default=0.0, help="Exponent of the users' shares. 0: equal.")
@seed_option
@click.option("--machine", default="sharp", help="Of each server: a name or a .toml file.")
@click.option(
    "--arrangement",
    "arrangements",
    type=click.Choice(ARRANGEMENTS),
    multiple=True,
    default=ARRANGEMENTS,
    help="A server for each user; any server; any, and first the runs whose keys a free one has. Repeatable.",
)
@click.option(
    "--servers", type=click.IntRange(1, 1000), multiple=True, default=(4,), help="That are shared; repeatable."
)
@click.option(
    "--loading",
    "loadings",
    type=click.Choice(LOADINGS),
    multiple=True,
    default=LOADINGS,
    help="Keys are loaded before a run, or while the run before computes. Repeatable.",
)
@click.option("--memory", default="80 GB", help="Of each server, for keys.")
@click.option(
    "--memory-tier", default="hbm", help=f"Where a run reads its keys from, each time; '{AT_HAND}': they are at hand."
)
@click.option("--tier", "tiers", multiple=True, default=("pcie5",), help="Where keys are loaded from; repeatable.")
@click.option("--switch", default="0 s", help="Of a run of another user than the last one's, besides its keys.")
@click.option(
    "--max-overtaken", type=click.IntRange(min=0), default=16, help="Later runs that may go before a run (local)."
)
@click.option("--prices", default="cloud-2024", help="Price list: a name, or a TOML file.")
@click.option("--gpu", is_flag=True, help="Servers cost the hour of a GPU in the price list.")
@format_option
def command(target: str, **options: Any) -> None:
    """Dedicated or shared servers under a stream of applications: utilisation, latency, loaded keys, cost.

    Users ask for runs at random. A dedicated server has one user, whose keys stay in its memory. Shared servers keep as
    many users' keys as fit, and load the others again from the tier. Utilisation is the share of all servers' time in
    which they compute; a latency lasts from the arrival of a run to its end. Everything is simulated.

    \b
    Examples (more in 'docs/guides/memory.md'):
      penstock servers resnet20-multiplexed --params sharp --users 16 --rate 4/s --servers 2 --servers 4
      penstock servers logistic-regression --with resnet20-multiplexed --params sharp --zipf 1 --tier rdma
      penstock servers logistic-regression --params sharp --memory "4 GB" --rate 8/s --arrangement local
    """
    from penstock.front.hall.programs import homes
    from penstock.lab.simulation.servers.play import play
    from penstock.lab.simulation.servers.rows import application_of, row_of
    from penstock.lab.simulation.servers.stream import poisson
    from penstock.lab.simulation.words import OPTIONS
    from penstock.scheme.machines.prices import load_prices
    from penstock.scheme.params.rlwe import KeyForm
    from penstock.scheme.play.price import price_trace

    machine, prices = load_machine(options["machine"]), load_prices(options["prices"])
    memory = None if options["memory_tier"] == AT_HAND else load_tier(options["memory_tier"])
    rates = dict.fromkeys(parse_quantity(text, PER_SECOND_UNITS, "--rate") for text in options["rates"])
    tiers = load_tiers(tuple(dict.fromkeys(options["tiers"])))
    fleets = list(_fleets(options, tiers))
    form = None if options["key_form"] is None else KeyForm.named(options["key_form"])
    named = (target, options["params"], options["size"], options["seed"], [machine], options["beside"], OPTIONS)
    home = next(homes(*named))
    say_choice(home.note)
    applications = [
        application_of(price_trace(trace, machine, key_form=form), memory) for trace in (home.trace, *home.beside)
    ]
    streamed = {name: options[name] for name in ("users", "runs", "zipf", "seed")}
    rows = []
    for rate in rates:
        stream = poisson(applications, rate_per_s=rate, **streamed)
        for fleet in sorted(fleets, key=lambda candidate: -candidate.least_bytes(stream)):
            fleet.check(stream)
        for fleet in fleets:
            played = play(stream, fleet)
            how = {"machine": machine, "is_gpu": options["gpu"], "zipf": options["zipf"]}
            rows.append(row_of(stream, fleet, played, prices, **how))
    kept = [*tiers, *([memory] if memory is not None else [])]
    emit(
        rows, options["output_format"], table=lambda console: _draw(console, rows, applications, machine, kept, stream)
    )


def _fleets(options: Values, tiers: Sequence[Tier]) -> Iterator[Fleet]:
    """Every arrangement with every number of servers, loading and tier; dedicated ones once for each tier.

    Raises: UsageError, UnitError: a quantity that cannot be read; options that change nothing.
    """
    from penstock.lab.simulation.servers.fleet import Arrangement, Fleet, Loading

    memory, switch = parse_bytes(options["memory"], "--memory"), parse_seconds(options["switch"], "--switch")
    arrangements = [Arrangement(name) for name in dict.fromkeys(options["arrangements"])]
    if is_given("max_overtaken") and Arrangement.LOCAL not in arrangements:
        raise UsageError("--max-overtaken is of --arrangement local, which lets later runs go first: leave it out")
    common = {"memory_bytes": memory, "switch_s": switch, "max_overtaken": options["max_overtaken"]}
    for tier, arrangement in product(tiers, arrangements):
        alone = arrangement is Arrangement.DEDICATED
        counts = (options["users"],) if alone else dict.fromkeys(options["servers"])
        loadings = LOADINGS[:1] if alone else dict.fromkeys(options["loadings"])
        for servers, loading in product(counts, loadings):
            yield Fleet(
                arrangement=arrangement,
                servers=servers,
                loading=Loading(loading),
                tier=tier.name,
                tier_bytes_per_s=tier.bandwidth_bytes_per_s,
                tier_latency_s=tier.latency_s,
                tier_j_per_byte=tier.energy_j_per_byte,
                **common,
            )


def _draw(
    console: Console,
    rows: Sequence[Row],
    applications: Sequence[Application],
    machine: Machine,
    tiers: Sequence[Tier],
    stream: Stream,
) -> None:
    for application in applications:
        keys = short_bytes(application.key_bytes)
        console.print(
            f"{application.name}: a run of {format_seconds(application.run_s)}, {keys} of keys a user", highlight=False
        )
    console.print(f"{len(stream)} runs of {len(stream.users)} users on {machine.name}, simulated", highlight=False)
    draw_rows(
        console,
        rows,
        "tier | arrangement | loading | >servers | >rate=rate_per_s:{:.4g}/s | >computing=utilisation:{:.1%} "
        "| >stalled=stalled_share:{:.1%} | >median=latency_p50_s | >95 %=latency_p95_s | >99 %=latency_p99_s "
        "| >loaded=loaded_bytes | >runs that load=loads_share:{:.1%} | >energy=energy_j:{:.4g} J "
        "| >$ of 1000 runs=cost_usd:{:.3g}",
        {"loading": lambda row: "-" if row["arrangement"] == ARRANGEMENTS[0] else row["loading"]},
        no_wrap=True,
    )
    over = sorted({row["servers"] for row in rows if row["offered_load"] >= 1})
    if over:
        counts = ", ".join(map(str, over))
        console.print(
            f"{counts} servers: more computing is asked for than there is, and the queue grows with the stream"
        )
    console.print("'computing', 'stalled': of all servers' time; 'loaded', 'energy': of a run; latencies to its end")
    draw_assumed(console, [machine], tiers, [])
