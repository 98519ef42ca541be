"""The columns of simulated rows, each with where its numbers come from."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.base.version import __version__
from penstock.front.explorer.asked import Asked
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.view import View, ViewColumn
from penstock.scheme.machines import Machine, Network, Tier
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.missing import missing
from penstock.scheme.play.rows import CLUSTER_COLUMNS, COLUMNS

SCHEMA = {column.name: column for column in (*COLUMNS, *CLUSTER_COLUMNS)}
MOST_SOURCES = 3
"""Sources that are named of a machine; the comparison of machines has every value."""


def played(engine: Engine, asked: Asked) -> View:
    """The rows that are asked for, for a view that has yet to get its title."""
    library, (rows, warnings) = engine.library, engine.play(asked)
    columns = simulated_columns(
        [engine.machine(name) for name in asked.machines],
        [library.tier(text) for text in asked.tiers],
        library.network(asked.state.network) if asked.networked else None,
        stated=asked.hit_ratios is not None,
        decode=asked.state.text("decode"),
    )
    return View(title="", columns=columns, rows=rows, command=asked.command(library), warnings=warnings)


def simulated_columns(
    machines: Iterable[Machine], tiers: Iterable[Tier], network: Network | None, *, stated: bool, decode: str
) -> list[ViewColumn]:
    """The columns of rows of `penstock simulate`: inputs first, then results with their sources.

    Args:   stated: whether the hit ratio is an input instead of a result of a cache; decode: the rate of the stage
            behind the tier; empty: there is none.
    """
    known, behind = list(machines), list(tiers)
    priced = "; ".join(f"{machine.title}: {_figures(machine)}" for machine in known)
    loaded = "; ".join(f"{tier.title} ({tier.kind}, {tier.source})" for tier in behind[:MOST_SOURCES])
    loaded += f"; and {len(behind) - MOST_SOURCES} more tiers" if len(behind) > MOST_SOURCES else ""
    sent = "one host: nothing is sent" if network is None else _of_network(network)
    engine = f"penstock {__version__}"

    def column(name: str, provenance: str | None = None, source: str = "") -> ViewColumn:
        schema = SCHEMA[name]
        return ViewColumn(name=name, label=schema.label, unit=schema.unit, provenance=provenance, source=source)

    def result(name: str, source: str) -> ViewColumn:
        return column(name, "simulated", f"{engine}: {source}")

    columns = [
        *(column(name) for name in ("machine", "tier", "mode", "hosts", "cache_bytes", "policy")),
        column("hit_ratio", source="stated")
        if stated
        else result("hit_ratio", "share of the bytes that the played cache served"),
        result("compute_s", f"each operation priced by its kernels. {priced}"),
        result("io_s", f"busy time of the channel to the tier. {loaded}"),
        result("decode_s", f"a decode stage behind the tier; {decode or 'none'} is asked for here"),
        result("communication_s", sent),
        result("total_s", "start of the first operation to end of the last"),
        result("slowdown", "total over compute"),
        result("energy_j", f"computing and transfers; blank where one is not known. {_power(known)}"),
        result("key_bytes", "every read of an evaluation key at the limbs in use"),
        result("stored_key_bytes", "every evaluation key once, in the form that it is stored in"),
        result("io_bytes", "bytes that the cache left to load from the tier"),
    ]
    if network is not None:
        columns += [
            result("sent_bytes", "messages of all hosts"),
            result("loaded_bytes", "bytes that all hosts loaded"),
            result("speedup", "programs a second against one host on the same tier"),
        ]
    return columns


def short(machine: Machine) -> str:
    """The title of a machine without its origin."""
    return machine.title.split(" (")[0].split(",")[0]


def _figures(machine: Machine) -> str:
    """Clock, utilisation and the first units of a machine, with their sources."""
    chosen = [(name, figure) for name, figure in machine.figures() if name in ("clock", "utilisation")]
    chosen += [(name, figure) for name, figure in machine.figures() if name.startswith("units.")]
    shown = ", ".join(_figure(name, figure) for name, figure in chosen[:MOST_SOURCES])
    assumed = sum(figure.kind is Evidence.ASSUMED for _, figure in machine.figures())
    absent = ", ".join(f"{gap.field} ({gap.taken})" for gap in missing(machine) if gap.in_results)
    shown += f"; {assumed} of its values are assumed" if assumed else ""
    return shown + (f"; its file does not state {absent}" if absent else "")


def _figure(name: str, figure: Figure) -> str:
    return f"{name.removeprefix('units.')} {figure.text} ({figure.kind}: {figure.source})"


def _power(machines: Iterable[Machine]) -> str:
    return "; ".join(_figure("power", power) for machine in machines if (power := machine.stated_power) is not None)


def _of_network(network: Network) -> str:
    figure = network.bandwidth
    return f"time in which hosts wait for messages. {network.title} ({figure.kind}: {figure.source})"
