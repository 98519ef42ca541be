"""`penstock predict refresh`: which parameter set bootstrapping should run on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from penstock.cli.options import PATH, THREADS, key_form_option, quiet_option
from penstock.cli.output import emit, format_option, progress_console, table_of, toml_target
from penstock.cli.terminal import print_wide
from penstock.errors import UsageError
from penstock.machines import machine_names
from penstock.params.secrets import SPARSE_ENCAPSULATED, UNIFORM_ENCAPSULATED
from penstock.system.files import write_atomic
from penstock.system.progress import Progress
from penstock.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from penstock.prediction.refresh import Refreshes

ORDERS = ("time", "time-per-level", "keys")
SECURITY = ("128", "192", "256", "none")
SECRETS = (UNIFORM_ENCAPSULATED, SPARSE_ENCAPSULATED)


@click.command("refresh")
@click.option("--machine", help="A machine's name or .toml file; 'penstock predict fit' writes one.")
@click.option("--ring-dim", metavar="N", default="2^16", show_default=True, help="Ring dimension.")
@click.option("--slots", metavar="N", default="2^14", show_default=True, help="Values in a ciphertext.")
@click.option("--levels", type=click.IntRange(1, 40), default=8, show_default=True, help="Levels that it must leave.")
@click.option("--security", type=click.Choice(SECURITY), default="128", show_default=True, help="Bits that must hold.")
@click.option(
    "--precision",
    type=click.FloatRange(min=1, max=60),
    metavar="BITS",
    help="Bits behind the binary point that a refreshed value must have.",
)
@click.option("--secret", type=click.Choice(SECRETS), help="Distribution of the secret. Default: both.")
@click.option("--scale-bits", "scales", metavar="K[,K…]", help="Sizes of the scale to try ('50,55' or '50..59').")
@click.option("--dnum", "digits", metavar="K[,K…]", help="Digits of key switching to try. Default: 3 to 6.")
@click.option("--by", "order", type=click.Choice(ORDERS), default="time", show_default=True, help="Least first.")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many are printed.")
@click.option("--threads", type=THREADS, help="Threads inside one operation. Default: the machine's own.")
@key_form_option
@click.option("-o", "--output", type=PATH, help="Write the first one to this file, for --params.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@quiet_option
@format_option
def command(
    machine: str | None,
    ring_dim: str,
    slots: str,
    levels: int,
    security: str,
    precision: float | None,
    secret: str | None,
    scales: str | None,
    digits: str | None,
    order: str,
    top: int,
    threads: int | None,
    key_form: str | None,
    output: Path | None,
    force: bool,
    quiet: bool,
    output_format: str,
) -> None:
    """Parameter sets for bootstrapping with an encapsulated secret, the best first. Nothing is encrypted.

    Each chain of OpenFHE's parameters, number of digits, number of stages and sine that holds the security and leaves
    the levels: with log QP, the probability that the sine's range overflows, precision (the noise of each step), keys,
    and the time of one refresh by penstock's own evaluator, priced on the machine.

    \b
    Examples:
      penstock predict refresh --machine mine.toml --precision 22
      penstock predict refresh --machine mine.toml --levels 10 --by keys -o deep.toml
      penstock predict refresh --machine mine.toml --slots 2^15 --secret sparse-encapsulated
    """
    from penstock.machines import load_machine
    from penstock.params.rlwe import KeyForm, form_of
    from penstock.prediction.refresh import DIGITS, SCALES, Asked, refreshes
    from penstock.prediction.whatif_axes import whole_numbers

    if machine is None:
        raise UsageError(f"name a machine: --machine {'|'.join(machine_names())}, or a .toml file of your own")
    if output is not None:
        toml_target(output, "a parameter set", force=force)
    (ring,), (values,) = whole_numbers([ring_dim], "--ring-dim"), whole_numbers([slots], "--slots")
    asked = Asked(
        ring_dim=ring,
        slots=values,
        levels=levels,
        security=0 if security == "none" else int(security),
        precision=precision or 0.0,
        secrets=SECRETS if secret is None else (secret,),
        scales=SCALES if scales is None else tuple(whole_numbers(scales.split(","), "--scale-bits")),
        digits=DIGITS if digits is None else tuple(whole_numbers(digits.split(","), "--dnum")),
    )
    with Progress(quiet=quiet).stage("refresh") as stage:
        found = refreshes(
            load_machine(machine),
            asked,
            by=order,
            top=top,
            threads=threads,
            key_form=form_of(key_form) or KeyForm.SEEDED_TRUNCATED,
            on_set=lambda done, total: stage.update(done, total=total),
        )
    emit(found.rows, output_format, table=lambda console: _draw(console, found))
    if output is not None:
        from penstock.params.spec import spec_of

        row = found.rows[0]
        source = f"penstock predict refresh: {row['levels']} levels, predicted {row['precision_bits']:.1f} bits"
        named = spec_of(found.sets[0]).model_copy(update={"name": output.stem, "source": source})
        write_atomic(output, named.to_toml().encode(), force=force)
        if not quiet:
            progress_console.print(f"the first one is written to {output}: --params {output}", highlight=False)


def _draw(console: Console, found: Refreshes) -> None:
    first = found.rows[0]
    console.print(
        f"one refresh of {first['slots']} slots at ring dimension {first['ring_dim']} on {first['machine']}: predicted",
        highlight=False,
    )
    columns: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
        ("secret", lambda row: str(row["secret"])),
        ("limbs", lambda row: f"{row['limbs']}+{row['special_limbs']}"),
        ("scale", lambda row: str(row["scale_bits"])),
        ("dnum", lambda row: str(row["dnum"])),
        ("log QP", lambda row: str(row["log_qp"])),
        ("security", lambda row: str(row["security_bits"])),
        ("stages", lambda row: f"{row['cts_stages']}+{row['stc_stages']}"),
        ("sine", lambda row: f"{row['chebyshev_degree']}, {row['double_angles']}"),
        ("overflow", lambda row: f"2^{row['overflow_log2']:.0f}"),
        ("levels", lambda row: str(row["levels"])),
        ("bits", lambda row: f"{row['precision_bits']:.1f}"),
        ("keys", lambda row: str(row["num_keys"])),
        ("key bytes", lambda row: format_bytes(row["key_bytes"]).split(" (")[0]),
        ("time", lambda row: format_seconds(row["predicted_s"])),
        ("a level", lambda row: format_seconds(row["s_per_level"])),
    )
    table = table_of(" | ".join(f">{title}" for title, _ in columns), no_wrap=True)
    for row in found.rows:
        table.add_row(*(text(row) for _, text in columns))
    print_wide(console, table)
    console.print(f"{found.tried} shapes tried; left out: {_left_out(found)}", highlight=False)


def _left_out(found: Refreshes) -> str:
    return "; ".join(f"{count} where {why}" for why, count in found.refused.items()) or "none"
