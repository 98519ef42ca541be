"""`penstock predict suggest`: which parameter set a program should run on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from penstock.cli.options import PATH, THREADS, key_form_option, params_on_machine_option, quiet_option, size_option
from penstock.cli.output import emit, format_option, progress_console, say_choice, table_of, toml_target
from penstock.cli.terminal import print_wide
from penstock.cli.verbs.predict.run import processes
from penstock.errors import UsageError
from penstock.machines import machine_names
from penstock.simulation.words import OPTIONS
from penstock.system.progress import Progress
from penstock.units import format_bytes, format_seconds
from penstock.unpriced import shown_total

if TYPE_CHECKING:
    from penstock.hall.predicting import Suggested
    from penstock.prediction.suggest import Suggestions

ORDERS = ("time", "time-per-slot", "keys", "memory")
SECURITY = ("128", "192", "256", "none")


@click.command("suggest")
@click.argument("workload")
@click.option("--machine", help="A machine's name or .toml file; 'penstock predict fit' writes one.")
@params_on_machine_option
@size_option
@click.option("--security", type=click.Choice(SECURITY), default="128", help="Bits that must hold.")
@click.option("--ring-dim", "ring_dims", metavar="N[,N…]", help="Ring dimensions to try ('2^14,2^15'). Default: all.")
@click.option("--dnum", "digits", metavar="K[,K…]", help="Digits of key switching to try. Default: 1 to 8.")
@click.option(
    "--precision",
    type=click.FloatRange(min=1, max=60),
    metavar="BITS",
    help="Bits behind the binary point that results must have: sets take the least scale that gives them.",
)
@click.option("--by", "order", type=click.Choice(ORDERS), default="time", help="What is least first.")
@click.option("--top", type=click.IntRange(min=1), default=10, help="How many are printed.")
@click.option("--threads", type=THREADS, help="Threads inside one operation. Default: the machine's own.")
@key_form_option
@click.option("-o", "--output", type=PATH, help="Write the first one to this file, for --params.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@quiet_option
@format_option
def command(
    workload: str,
    machine: str | None,
    params: str | None,
    size: str | None,
    security: str,
    ring_dims: str | None,
    digits: str | None,
    precision: float | None,
    order: str,
    top: int,
    threads: int | None,
    key_form: str | None,
    output: Path | None,
    force: bool,
    quiet: bool,
    output_format: str,
) -> None:
    """Parameter sets for WORKLOAD, a program of your own (a .py file), a package (.pkg) or a trace, the best first.
    Nothing is encrypted.

    Each ring dimension and number of digits that holds the security, at the least depth that carries the program (with
    bootstrapping: at every secure depth from there), priced on the machine. All else is as in --params (default: the
    set that the machine was built for): scaling rule, secret, and size of the scale; with --precision it is the least
    that gives so many bits ('penstock predict precision' says how many there are).

    \b
    Examples:
      penstock predict suggest logistic-regression --machine sharp
      penstock predict suggest score.py --machine mine.toml --by keys -o score.toml
      penstock predict suggest runs/score/trace.parquet --machine sharp
      penstock predict suggest score.py --machine mine.toml --precision 20
      penstock predict suggest resnet20 --size full --machine mine.toml --threads 2 --ring-dim 2^15,2^16 --dnum 2..4
    """
    from penstock.hall.predicting import suggest
    from penstock.prediction.whatif_axes import whole_numbers

    if machine is None:
        raise UsageError(f"name a machine: --machine {'|'.join(machine_names())}, or a .toml file of your own")
    if output is not None:
        toml_target(output, "a parameter set", force=force)
    with Progress(quiet=quiet).stage("suggest") as stage:
        found = suggest(
            workload,
            machine,
            params=params,
            size=size,
            security=0 if security == "none" else int(security),
            ring_dims=None if ring_dims is None else whole_numbers(ring_dims.split(","), "--ring-dim"),
            digits=None if digits is None else whole_numbers(digits.split(","), "--dnum"),
            by=order,
            threads=threads,
            key_form=key_form,
            workers=processes(),
            precision=precision,
            on_ring=lambda n, total: stage.update(n, total=total),
            spelled=OPTIONS,
        )
    for note in () if quiet else found.notes:
        say_choice(note)
    rows = list(found.rows[:top])
    like = f"{found.base.name} ({found.base.word_bits}-bit words)"
    emit(rows, output_format, table=lambda console: _draw(console, found.suggestions, rows, like))
    if output is not None:
        _write(output, found, force=force, quiet=quiet)


def _write(output: Path, found: Suggested, *, force: bool, quiet: bool) -> None:
    """Write the first parameter set to a file."""
    found.save(output, force=force)
    if not quiet:
        progress_console.print(f"the first one is written to {output}: --params {output}", highlight=False)


def _draw(console: Console, found: Suggestions, rows: list[dict[str, Any]], base: str) -> None:
    columns: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
        ("ring dim", "ring_dim", str), ("depth", "depth", str), ("dnum", "dnum", str),
        ("scale bits", "scale_bits", str), ("precision", "precision_bits", lambda value: f"{value:.1f}"),
        ("security", "security_bits", str), ("slots", "slots", str), ("time", "predicted_s", format_seconds),
        ("from", "low_s", format_seconds), ("to", "high_s", format_seconds),
        ("a slot", "s_per_slot", format_seconds), ("keys", "num_keys", str),
        ("key bytes", "key_bytes", lambda n: format_bytes(n).split(" (")[0]),
        ("peak memory", "peak_bytes", lambda n: format_bytes(n).split(" (")[0]), ("bootstraps", "bootstraps", str),
    )  # fmt: skip
    first = rows[0]
    if first["precision_bits"] is None:
        columns = tuple(each for each in columns if each[1] not in ("scale_bits", "precision_bits"))
    console.print(
        f"{first['workload']} ({first['size']}) on {first['machine']}, sets like {base}: predicted, 90 % intervals",
        highlight=False,
    )
    table = table_of(" | ".join(f">{title}" for title, _, _ in columns), no_wrap=True)
    for row in rows:
        table.add_row(*(shown_total(row, name, text) for _, name, text in columns))
    print_wide(console, table)
    if len(found.rows) > len(rows):
        console.print(f"{len(found.rows) - len(rows)} more: --top", highlight=False)
    for why, at in _left_out(found).items():
        console.print(f"none at ring dimension {at}: {why}", highlight=False, markup=False, soft_wrap=True)
    said = (each.replace(f"set '{row['params']}'", "set of these") for row in rows for each in row["warnings"])
    for warning in dict.fromkeys(said):
        console.print(f"warning: {warning}", highlight=False, markup=False, soft_wrap=True)


def _left_out(found: Suggestions) -> dict[str, str]:
    """Why sets are not there -> the ring dimensions."""
    from penstock.prediction.suggest import INSECURE

    at: dict[str, list[str]] = {}
    for ring_dim, why in found.left_out.items():
        if INSECURE in why:
            why = f"{INSECURE} at depth {found.least_depth[ring_dim]}, the least that carries the program"
        at.setdefault(why, []).append(str(ring_dim))
    return {why: ", ".join(rings) for why, rings in at.items()}
