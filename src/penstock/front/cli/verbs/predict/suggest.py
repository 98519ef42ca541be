"""`penstock predict suggest`: which parameter set a program should run on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from penstock.base.system.host import available_cores
from penstock.base.system.progress import Progress
from penstock.base.types import Rows
from penstock.front.cli.options import PATH, THREADS, key_form_option, machine_named, numbers_of, priced_options
from penstock.front.cli.output import draw_rows, emit, output_options, say, say_choice, toml_target
from penstock.lab.simulation.words import OPTIONS

if TYPE_CHECKING:
    from penstock.lab.prediction.suggest import Suggestions

ORDERS = ("time", "time-per-slot", "keys", "memory")
SECURITY = ("128", "192", "256", "none")
_LISTS = {"ring_dims": "--ring-dim", "digits": "--dnum"}
"""Lists of numbers -> their options."""


@click.command("suggest")
@click.argument("workload")
@priced_options
@click.option("--security", type=click.Choice(SECURITY), default="128", help="Bits that must hold.")
@click.option("--ring-dim", "ring_dims", metavar="N[,N…]", help="Ring dimensions to try ('2^14,2^15'). Default: all.")
@click.option("--dnum", "digits", metavar="K[,K…]", help="Digits of key switching to try. Default: 1 to 8.")
@click.option(
    "--precision",
    type=click.FloatRange(min=1, max=60),
    metavar="BITS",
    help="Bits behind the binary point that results must have: sets take the least scale that gives them.",
)
@click.option("--by", "by", type=click.Choice(ORDERS), default="time", help="What is least first.")
@click.option("--top", type=click.IntRange(min=1), default=10, help="How many are printed.")
@click.option("--threads", type=THREADS, help="Threads inside one operation. Default: the machine's own.")
@key_form_option
@click.option("-o", "--output", type=PATH, help="Write the first one to this file, for --params.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@output_options
def command(
    workload: str,
    machine: str | None,
    security: str,
    top: int,
    output: Path | None,
    force: bool,
    quiet: bool,
    output_format: str,
    **asked: Any,
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
    from penstock.front.hall.suggesting import suggest

    chosen = machine_named(machine)
    if output is not None:
        toml_target(output, "a parameter set", force=force)
    with Progress(quiet=quiet).stage("suggest") as stage:
        suggested = suggest(
            workload,
            chosen,
            security=0 if security == "none" else int(security),
            workers=available_cores(),
            **{**asked, **{name: numbers_of(asked[name], option) for name, option in _LISTS.items()}},
            on_ring=stage.update,
            spelled=OPTIONS,
        )
    for note in suggested.notes:
        say_choice(note, quiet=quiet)
    rows = list(suggested.rows[:top])
    like = f"{suggested.base.name} ({suggested.base.word_bits}-bit words)"
    emit(rows, output_format, table=lambda console: _draw(console, suggested.suggestions, rows, like))
    if output is not None:
        suggested.save(output, force=force)
        say(f"the first one is written to {output}: --params {output}", quiet=quiet)


def _draw(console: Console, suggestions: Suggestions, rows: Rows, base: str) -> None:
    first = rows[0]
    precise = "| >scale bits=scale_bits | >precision=precision_bits:{:.1f} " * (first["precision_bits"] is not None)
    columns = f">ring dim=ring_dim | >depth | >dnum {precise}| >security=security_bits | >slots | >time=predicted_s "
    columns += "| >from=low_s | >to=high_s | >a slot=s_per_slot:seconds | >keys=num_keys | >key bytes=key_bytes "
    columns += "| >peak memory=peak_bytes | >bootstraps"
    console.print(
        f"{first['workload']} ({first['size']}) on {first['machine']}, sets like {base}: predicted, 90 % intervals",
        highlight=False,
    )
    draw_rows(console, rows, columns, wide=True)
    if len(suggestions.rows) > len(rows):
        console.print(f"{len(suggestions.rows) - len(rows)} more: --top", highlight=False)
    for why, at in _left_out(suggestions).items():
        console.print(f"none at ring dimension {at}: {why}", highlight=False, markup=False, soft_wrap=True)
    warnings = (text.replace(f"set '{row['params']}'", "set of these") for row in rows for text in row["warnings"])
    for warning in dict.fromkeys(warnings):
        console.print(f"warning: {warning}", highlight=False, markup=False, soft_wrap=True)


def _left_out(suggestions: Suggestions) -> dict[str, str]:
    """Why sets are not there -> the ring dimensions."""
    from penstock.lab.prediction.suggest import INSECURE

    at: dict[str, list[str]] = {}
    for ring_dim, why in suggestions.left_out.items():
        if INSECURE in why:
            why = f"{INSECURE} at depth {suggestions.least_depth[ring_dim]}, the least that carries the program"
        at.setdefault(why, []).append(str(ring_dim))
    return {why: ", ".join(rings) for why, rings in at.items()}
