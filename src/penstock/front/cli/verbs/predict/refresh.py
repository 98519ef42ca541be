"""`penstock predict refresh`: which parameter set bootstrapping should run on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from penstock.base.system.files import write_atomic
from penstock.base.system.progress import Progress
from penstock.errors import UsageError
from penstock.front.cli.options import (
    PATH,
    THREADS,
    key_form_option,
    machine_named,
    measured_machine_option,
    numbers_of,
)
from penstock.front.cli.output import Own, draw_rows, emit, output_options, say, toml_target
from penstock.scheme.params.secrets import SPARSE_ENCAPSULATED, UNIFORM_ENCAPSULATED

if TYPE_CHECKING:
    from penstock.lab.prediction.refresh import Refreshes

ORDERS = ("time", "time-per-level", "keys")
SECURITY = ("128", "192", "256", "none")
_LISTS = {"scales": "--scale-bits", "digits": "--dnum"}
"""Lists of numbers -> their options."""
SECRETS = (UNIFORM_ENCAPSULATED, SPARSE_ENCAPSULATED)


@click.command("refresh")
@measured_machine_option
@click.option("--ring-dim", metavar="N", default="2^16", help="Ring dimension.")
@click.option("--slots", metavar="N", default="2^14", help="Values in a ciphertext.")
@click.option("--levels", type=click.IntRange(1, 40), default=8, help="Levels that it must leave.")
@click.option("--security", type=click.Choice(SECURITY), default="128", help="Bits that must hold.")
@click.option(
    "--precision",
    type=click.FloatRange(min=1, max=60),
    metavar="BITS",
    help="Bits behind the binary point that a refreshed value must have.",
)
@click.option("--secret", type=click.Choice(SECRETS), help="Distribution of the secret. Default: both.")
@click.option("--scale-bits", "scales", metavar="K[,K…]", help="Sizes of the scale to try ('50,55' or '50..59').")
@click.option("--dnum", "digits", metavar="K[,K…]", help="Digits of key switching to try. Default: 3 to 6.")
@click.option("--by", type=click.Choice(ORDERS), default="time", help="Least first.")
@click.option("--top", type=click.IntRange(min=1), default=10, help="How many are printed.")
@click.option("--threads", type=THREADS, help="Threads inside one operation. Default: the machine's own.")
@key_form_option
@click.option("-o", "--output", type=PATH, help="Write the first one to this file, for --params.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@output_options
def command(machine: str | None, output: Path | None, quiet: bool, output_format: str, **asked: Any) -> None:
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
    from penstock.lab.prediction.refresh import RefreshDemands, refreshes
    from penstock.scheme.params.rlwe import KeyForm, form_of

    chosen = machine_named(machine)
    if output is not None:
        toml_target(output, "a parameter set", force=asked["force"])
    numbers = {name: numbers_of(asked[name], option) for name, option in _LISTS.items()}
    ring, values = _one(asked["ring_dim"], "--ring-dim"), _one(asked["slots"], "--slots")
    question = RefreshDemands(
        ring_dim=ring,
        slots=values,
        levels=asked["levels"],
        security=0 if asked["security"] == "none" else int(asked["security"]),
        precision=asked["precision"],
        secret=asked["secret"],
        scale_bits=numbers["scales"],
        digits=numbers["digits"],
    )
    form = form_of(asked["key_form"]) or KeyForm.SEEDED_TRUNCATED
    how = {name: asked[name] for name in ("by", "top", "threads")}
    with Progress(quiet=quiet).stage("refresh") as stage:
        ranking = refreshes(chosen, question, key_form=form, on_set=stage.update, **how)
    emit(ranking.rows, output_format, table=lambda console: _draw(console, ranking))
    if output is not None:
        from penstock.scheme.params.spec import spec_of

        row = ranking.rows[0]
        source = f"penstock predict refresh: {row['levels']} levels, predicted {row['precision_bits']:.1f} bits"
        named = spec_of(ranking.sets[0]).model_copy(update={"name": output.stem, "source": source})
        write_atomic(output, named.to_toml().encode(), force=asked["force"])
        say(f"the first one is written to {output}: --params {output}", quiet=quiet)


def _draw(console: Console, ranking: Refreshes) -> None:
    first = ranking.rows[0]
    console.print(
        f"one refresh of {first['slots']} slots at ring dimension {first['ring_dim']} on {first['machine']}: predicted",
        highlight=False,
    )
    own: Own = {
        "limbs": lambda row: f"{row['limbs']}+{row['special_limbs']}",
        "stages": lambda row: f"{row['cts_stages']}+{row['stc_stages']}",
        "sine": lambda row: f"{row['chebyshev_degree']}, {row['double_angles']}",
    }
    columns = (
        ">secret | >limbs | >scale=scale_bits | >dnum | >log QP=log_qp | >security=security_bits | >stages | >sine "
    )
    columns += "| >overflow=overflow_log2:2^{:.0f} | >levels | >bits=precision_bits:{:.1f} | >keys=num_keys "
    columns += "| >key bytes=key_bytes | >time=predicted_s | >a level=s_per_level:seconds"
    draw_rows(console, ranking.rows, columns, own, wide=True)
    reasons = "; ".join(f"{count} where {why}" for why, count in ranking.refused.items())
    console.print(f"{ranking.tried} shapes tried; left out: {reasons or 'none'}", highlight=False)


def _one(text: str, option: str) -> int:
    """Raises: UsageError: several numbers."""
    numbers = numbers_of(text, option) or ()
    if len(numbers) != 1:
        raise UsageError(f"{option} {text}: give one whole number, 16384 or 2^14")
    return numbers[0]
