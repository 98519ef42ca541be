"""Several hosts on the command line: plays them, and draws their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from rich.console import Console
from rich.table import Table

from penstock.cli.cluster_options import Hosts
from penstock.cli.memory_play import mode_of, on_chip_of
from penstock.cli.output import progress_console
from penstock.machines import Machine, Tier
from penstock.params.ckks import KeyForm
from penstock.simulation.memory.prefetch import Prefetch
from penstock.simulation.price import PricedTrace
from penstock.units import format_seconds

if TYPE_CHECKING:
    from penstock.simulation.caches import Cache
    from penstock.traces.schema import Trace

WIDTH = 150


def play_hosts(
    trace: Trace,
    machine: Machine,
    priced: PricedTrace,
    hosts: Hosts,
    tiers: Sequence[Tier],
    caches: Sequence[Cache],
    modes: Sequence[str],
    key_form: KeyForm | None,
    classes: Sequence[str],
    decode_bytes_per_s: float | None,
    prefetches: Sequence[Prefetch],
) -> list[dict[str, Any]]:
    """Rows of one machine on all clusters that are asked for; warnings go to stderr.

    Raises: CapabilityMissing: SimGrid is asked for and not there; as `play_clusters`.
    """
    from penstock.simulation.cluster.program import prepare
    from penstock.simulation.cluster.rows import cluster_rows
    from penstock.simulation.cluster.simgrid import SimGrid, find_python

    simgrid = SimGrid(python=find_python()) if hosts.simgrid else None
    program = prepare(trace, machine, key_form=key_form, classes=classes, priced=priced)
    rows, warnings = cluster_rows(
        program,
        hosts.clusters(),
        tiers,
        modes=[cast(Literal["serial", "overlap", "bound"], mode) for mode in dict.fromkeys(modes)],
        caches=caches,
        decode_bytes_per_s=decode_bytes_per_s,
        prefetches=prefetches,
        simgrid=simgrid,
    )
    for warning in warnings:
        progress_console.print(f"warning: {warning}", highlight=False)
    return rows


def draw_hosts(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    """A table of cluster rows."""
    first = rows[0]
    console.print(f"{first['workload']} at {first['params']}, simulated, {first['topology'].split(':')[0]}")
    table = Table(box=None, pad_edge=False)
    # Only where it tells rows apart.
    kept = len({on_chip_of(row) for row in rows}) > 1
    for column in ("machine", "tier", "mode", *(("on chip",) if kept else ()), "network", "partition"):
        table.add_column(column, no_wrap=True)
    for column in ("hosts", "compute", "I/O", "communication", "total", "speedup"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row["machine"], row["tier"], mode_of(row), *((on_chip_of(row),) if kept else ()), row["network"] or "-",
            row["partition"], str(row["hosts"]),
            *(format_seconds(row[name]) for name in ("compute_s", "io_s", "communication_s", "total_s")),
            f"{row['speedup']:.3g}x",
        )  # fmt: skip
    Console(file=console.file, width=max(console.width, WIDTH)).print(table)
    if any(row["programs"] > 1 for row in rows):
        console.print("by-tenant: a program on every host; 'speedup' is programs a second")
