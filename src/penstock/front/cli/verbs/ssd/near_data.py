"""`penstock ssd near-data`: keys that stay at the drive, for any workload."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console

from penstock.base.types import RowView
from penstock.base.units import format_bytes
from penstock.front.cli.assumed import draw_assumed
from penstock.front.cli.options import choice_option, key_form_option, several_option
from penstock.front.cli.output import draw_rows, emit, format_option, say_choice
from penstock.lab.simulation.words import OPTIONS


@click.command("near-data")
@click.argument("workload")
@click.option("--params", help="Parameter set of the workload. Default: that of the machine, or of the trace.")
@click.option("--size", help="Named size of the workload. Default: the one that the parameters imply.")
@click.option("--machine", default="sharp", help="The accelerator on the host.")
@click.option("--architecture", default="fheins", help="The accelerators in the drive.")
@click.option("--drive", default="ssd-l")
@several_option("--link", "links", "Tier or bandwidth between host and drive ('7.9 GB/s')", default=("pcie5", "rdma"))
@choice_option("--keys-in", ("dram", "flash"), "Place of the keys in the drive.")
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
    output_format: str,
    **asked: Any,
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
    from penstock.front.hall.programs import homes
    from penstock.lab.instorage.machine_spec import load_units
    from penstock.lab.instorage.near_data import near_rows
    from penstock.scheme.machines import load_machine, load_tier
    from penstock.scheme.params.rlwe import form_of

    units, host = load_units(architecture), load_machine(machine)
    tiers = [load_tier(text) for text in asked.pop("links")]
    home = next(homes(workload, params, size, 0, [host], spelled=OPTIONS))
    say_choice(home.note)
    form = form_of(asked.pop("key_form"))
    rows = near_rows(home.trace, host, units, tiers, key_form=form, name=workload, **asked)

    def table(console: Console) -> None:
        columns = "at the drive=partition | link | >pull=pull_s | >near=near_s | >speedup=speedup:{:.3g} "
        columns += "| >keys=key_bytes:GB | >cross=crossing_bytes:GB | >pull above=above"
        title = f"{workload} at '{rows[0]['params']}': keys pulled to {machine}, or work at {architecture}"
        draw_rows(console, rows, columns, {"above": _above}, title=title, pad_edge=True)
        console.print("'pull above': the link at which pulling is as soon; 'cross': bytes that travel where keys stay")
        console.print(f"the drive stores {format_bytes(rows[0]['stored_key_bytes'])} of keys", highlight=False)
        console.print(f"no pull is faster than the drive reads keys, {rows[0]['key_bytes_per_s'] / 1e9:.4g} GB/s")
        console.print("simulated; one operation after another, an operation's limbs dealt to all accelerators")
        draw_assumed(console, [host], tiers, [])

    emit(rows, output_format, table=table)


def _above(row: RowView) -> str:
    """The bandwidth from which pulling keys is sooner."""
    rate = row["crossover_bytes_per_s"]
    return "never" if rate is None else "always" if rate == 0 else f"{rate / 1e9:.4g} GB/s"
