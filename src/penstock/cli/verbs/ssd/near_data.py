"""`penstock ssd near-data`: keys that stay at the drive, for any workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from penstock.cli.assumed import draw_assumed
from penstock.cli.options import key_form_option
from penstock.cli.output import emit, format_option, say_choice, table_of
from penstock.errors import UsageError
from penstock.machines import Machine
from penstock.simulation.words import OPTIONS
from penstock.traces.schema import Trace
from penstock.units import format_bytes

if TYPE_CHECKING:
    from penstock.params.rlwe import KeyForm
    from penstock.simulation.instorage.drive import DriveRates


@click.command("near-data")
@click.argument("workload")
@click.option("--params", help="Parameter set of the workload. Default: that of the machine, or of the trace.")
@click.option("--size", help="Named size of the workload. Default: the one that the parameters imply.")
@click.option("--machine", default="sharp", help="The accelerator on the host.")
@click.option("--architecture", default="fheins", help="The accelerators in the drive.")
@click.option("--drive", default="ssd-l")
@click.option(
    "--link",
    "links",
    multiple=True,
    default=("pcie5", "rdma"),
    help="Tier or bandwidth between host and drive ('7.9 GB/s'); may be repeated.",
)
@click.option("--keys-in", type=click.Choice(["dram", "flash"]), default="dram", help="Place of the keys in the drive.")
@click.option(
    "--hit-ratio",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Share of the key bytes that the host's own cache serves when it pulls.",
)
@key_form_option
@click.option(
    "--partition",
    "partitions",
    type=click.Choice(["keyed", "all"]),
    multiple=True,
    default=("keyed", "all"),
    help="Operations that run at the drive.",
)
@format_option
def command(
    workload: str,
    params: str | None,
    size: str | None,
    machine: str,
    architecture: str,
    drive: str,
    links: tuple[str, ...],
    keys_in: str,
    hit_ratio: float,
    key_form: str | None,
    partitions: tuple[str, ...],
    output_format: str,
) -> None:
    """Any workload, or trace, whose keys are in storage: pull keys through the link, or run operations at the drive.

    'keyed' runs HMult and HRot at the drive, so that ciphertexts travel instead of keys; 'all' runs everything there.
    'pull above' is the link's bandwidth from which pulling keys is sooner. A pull is not faster than the drive reads
    keys from --keys-in.

    \b
    Examples:
      penstock ssd near-data logistic-regression
      penstock ssd near-data resnet20 --link "7.9 GB/s" --link "64 GB/s" --key-form full
      penstock ssd near-data logistic-regression --hit-ratio 0.9 --keys-in flash
    """
    from penstock.machines import load_machine, load_tier
    from penstock.params.rlwe import form_of
    from penstock.simulation.instorage.drive import drive_rates
    from penstock.simulation.instorage.near_data import Partition, near_data
    from penstock.units import format_seconds

    rates, units = drive_rates(drive), _units(architecture)
    tiers = [load_tier(text) for text in links]
    host = load_machine(machine)
    trace, form = _trace(workload, params, size, host), form_of(key_form)
    if keys_in == "dram":
        _check_room(trace, workload, form, rates)
    rows = []
    for name in dict.fromkeys(partitions):
        found = near_data(
            trace,
            host,
            units,
            accelerators=units.on(rates.channels),
            partition=Partition(name),
            hit_ratio=hit_ratio,
            key_bytes_per_s=rates.dram_bytes_per_s if keys_in == "dram" else rates.flash_bytes_per_s,
            key_form=form,
        )
        rows += [{**found.row(tier.name, tier.bandwidth_bytes_per_s), "drive": rates.name} for tier in tiers]

    def table(console: Console) -> None:
        at = rows[0]["params"]
        drawn = table_of("at the drive | link | >pull | >near | >speedup | >keys | >cross | >pull above", pad_edge=True)
        drawn.title = f"{workload} at '{at}': keys pulled to {machine}, or work at {architecture}"
        for row in rows:
            above = row["crossover_bytes_per_s"]
            drawn.add_row(
                row["partition"],
                row["link"],
                format_seconds(row["pull_s"]),
                format_seconds(row["near_s"]),
                "-" if row["speedup"] is None else f"{row['speedup']:.3g}",
                _gb(row["key_bytes"]),
                _gb(row["crossing_bytes"]),
                "never" if above is None else "always" if above == 0 else f"{_gb(above)}/s",
            )
        console.print(drawn)
        console.print("'pull above': the link at which pulling is as soon; 'cross': bytes that travel where keys stay")
        console.print(f"the drive stores {format_bytes(rows[0]['stored_key_bytes'])} of keys", highlight=False)
        console.print(f"no pull is faster than the drive reads keys, {_gb(rows[0]['key_bytes_per_s'])}/s")
        console.print("simulated; one operation after another, an operation's limbs dealt to all accelerators")
        draw_assumed(console, [host], tiers, [])

    emit(rows, output_format, table=table)


def _trace(target: str, params: str | None, size: str | None, machine: Machine) -> Trace:
    """The trace in a file, or of a workload."""
    from penstock.hall.programs import at_home, trace_of

    taken, note = at_home(target, params, size, [machine])
    say_choice(note)
    return trace_of(target, taken, size, spelled=OPTIONS)


def _check_room(trace: Trace, workload: str, form: KeyForm | None, rates: DriveRates) -> None:
    keys = trace.parameters().total_key_bytes(trace.view().key_limbs(), form)
    if keys > rates.dram_capacity_bytes:
        raise UsageError(
            f"the DRAM of drive '{rates.name}' ({format_bytes(rates.dram_capacity_bytes)}) does not hold the keys of "
            f"'{workload}' ({format_bytes(keys)}): take --keys-in flash, --key-form seeded+truncated, or a larger drive"
        )


def _units(name: str) -> Any:
    from penstock.machines.instorage import UnitAccelerator
    from penstock.machines.instorage_spec import load_instorage

    found = load_instorage(name)
    if not isinstance(found, UnitAccelerator):
        raise UsageError(f"'{name}' does not run every operation of a program; name 'fheins' or one of its kind")
    return found


def _gb(value: float) -> str:
    return f"{value / 1e9:.4g} GB"
