"""`penstock predict precision`: how precise a program's result will be, before it runs encrypted."""

from __future__ import annotations

import math
from typing import Any

import click
from rich.console import Console

from penstock.base.system.progress import Progress
from penstock.base.types import Rows, RowView
from penstock.errors import UsageError
from penstock.front.cli.options import Values, choice_option, numbers_of, program_options, seed_option
from penstock.front.cli.output import Own, draw_rows, emit, output_options, say
from penstock.program.workloads import valued


@click.command("precision")
@click.argument("workload")
@program_options
@seed_option
@click.option(
    "--scale-bits",
    "scales",
    metavar="K[,K…]",
    help="Sizes of the scale to try ('35,40' or '30..50'). Default: the set's own.",
)
@choice_option("--reading", ("openfhe", "native"), "Whose encrypted run; they differ where a program bootstraps.")
@click.option("--draws", type=click.IntRange(min=1), default=5, help="Number of draws of the noise.")
@click.option("--measure", type=click.IntRange(min=1), metavar="RUNS", help="Also run it encrypted, so many times.")
@click.option("--shared", is_flag=True, help="Also for results that others than the owner of the key learn.")
@click.option(
    "--queries", type=click.IntRange(min=1), metavar="N", help="With --shared: runs under one key pair. Default: 1."
)
@click.option(
    "--statistical-bits",
    type=click.IntRange(1, 128),
    metavar="S",
    help="With --shared: statistical security of the noise. Default: 30.",
)
@output_options
def command(
    workload: str,
    scales: str | None,
    measure: int | None,
    queries: int | None,
    statistical_bits: int | None,
    quiet: bool,
    output_format: str,
    **asked: Any,
) -> None:
    """How precise the result of WORKLOAD, of a program of your own (a .py file), or of a package (.pkg), will be.
    Nothing is encrypted, unless --measure asks for it.

    The program runs on plain vectors with the noise that each operation would add, on real data, as often
    as there are draws, and is held against the clear result. `bits` are those behind the binary point: -log2 of the
    root mean square of the differences, the median of the draws, and the least and most of them.

    A decrypted result tells its readers of the key. --shared adds the precision after noise has hidden that: the noise
    follows from a worst-case bound on the error.

    \b
    Examples:
      penstock predict precision logistic-regression
      penstock predict precision score.py --params mine.toml
      penstock predict precision inner-product --params openfhe-demo --scale-bits 30..43
      penstock predict precision inner-product --size ci --scale-bits 50,59 --shared --queries 100
    """
    from penstock.front.hall.predicting import precision

    valued(workload, "precision")
    noise: Values = {"queries": queries, "statistical_bits": statistical_bits}
    given = {name: value for name, value in noise.items() if value is not None}
    if given and not asked["shared"]:
        raise UsageError(f"--{next(iter(given)).replace('_', '-')} is for results that others learn: add --shared")
    tried = numbers_of(scales, "--scale-bits")
    with Progress(quiet=quiet).stage("precision") as stage:
        precisions = precision(workload, scale_bits=tried, measure=measure or 0, on_draw=stage.update, **given, **asked)
    rows = precisions.to_dicts()
    shown = {text for row in rows for text in row["warnings"]}
    for text in precisions.warnings:
        if text not in shown:
            say(text)
    emit(rows, output_format, table=lambda console: _draw(console, rows, asked["reading"]))


def _draw(console: Console, rows: Rows, reading: str) -> None:
    first = rows[0]
    console.print(
        f"{first['workload']} ({first['size']}) encrypted ({reading}), against the clear result", highlight=False
    )
    columns = ">=provenance | >params | >ring dim=ring_dim | >scale bits=scale_bits | >security=security_bits "
    columns += "| >bits=precision_bits:{:.1f} | >least=low_bits:{:.1f} | >most=high_bits:{:.1f} "
    columns += "| >rms error=rms_error:{:.2g} | >largest error=high_max_error:{:.2g} "
    columns += "| >largest value=largest_value:{:.2g} | >check passed=passed"
    own: Own = {"passed": lambda row: f"{row['checks_passed']} of {row['draws']}"}
    draw_rows(console, rows, columns, own, wide=True)
    _draw_shared(console, [row for row in rows if "verdict" in row])
    for warning in dict.fromkeys(text for row in rows for text in row["warnings"]):
        console.print(f"warning: {warning}", highlight=False, markup=False, soft_wrap=True)


def _draw_shared(console: Console, rows: Rows) -> None:
    if not rows:
        return
    first = rows[0]
    console.print(
        f"\nshared: {first['decryptions']} decryptions that others learn, {first['statistical_bits']} statistical bits "
        f"(advantage at most 2^-{first['advantage_bits']:.1f}); predicted",
        highlight=False,
    )
    own: Own = {"noise": lambda row: f"2^{math.log2(row['flooding_std']):.1f}", "passed": _passed}
    columns = ">scale bits=scale_bits | >bits kept=precision_bits:{:.1f} | >bits shared=shared_bits:{:.1f} "
    columns += "| >lost=lost_bits:{:.1f} | >bound on the error=error_bound:{:.2g} | >noise | >needs=needed_bits:{:.1f} "
    columns += "| >modulus=held_bits:{:.1f} | >verdict | >check passed=passed"
    draw_rows(console, rows, columns, own, wide=True)
    for remedy, verdict in dict.fromkeys((row["remedy"], row["verdict"]) for row in rows if row["remedy"]):
        console.print(f"{verdict}: {remedy}", highlight=False, markup=False, soft_wrap=True)


def _passed(row: RowView) -> str:
    passed = row["shared_checks_passed"]
    return "-" if passed is None else f"{passed} of {row['draws']}"
