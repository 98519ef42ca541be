"""`penstock predict precision`: how precise a program's result will be, before it runs encrypted."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from penstock.cli.options import data_option, load_data, params_option, quiet_option, seed_option, size_option
from penstock.cli.output import emit, format_option, progress_console, table_of
from penstock.cli.terminal import print_wide
from penstock.errors import PenstockError, UsageError
from penstock.system.progress import Progress
from penstock.workloads import valued


@click.command("precision")
@click.argument("workload")
@params_option
@size_option
@data_option
@seed_option
@click.option(
    "--scale-bits",
    "scales",
    metavar="K[,K…]",
    help="Sizes of the scale to try ('35,40' or '30..50'). Default: the set's own.",
)
@click.option(
    "--reading",
    type=click.Choice(["openfhe", "native"]),
    default="openfhe",
    help="Whose encrypted run; they differ where a program bootstraps.",
)
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
@quiet_option
@format_option
def command(
    workload: str,
    params: str | None,
    size: str | None,
    data_path: Path | None,
    seed: int,
    scales: str | None,
    reading: str,
    draws: int,
    measure: int | None,
    shared: bool,
    queries: int | None,
    statistical_bits: int | None,
    quiet: bool,
    output_format: str,
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
    from penstock.params.variation import varied
    from penstock.prediction.precision import measure_precision
    from penstock.prediction.whatif_axes import whole_numbers
    from penstock.running.reading import resolve

    valued(workload, "precision")
    if not shared and (queries is not None or statistical_bits is not None):
        option = "--queries" if queries is not None else "--statistical-bits"
        raise UsageError(f"{option} is for results that others learn: add --shared")
    predicted = _predictor(shared=shared, queries=queries, statistical_bits=statistical_bits)
    module, size_name, checked = resolve(workload, params, size)
    tried = [checked]
    if scales is not None:
        numbers = whole_numbers(scales.split(","), "--scale-bits")
        tried = [varied(checked, scale_bits=each) for each in numbers]
    rows: list[dict[str, Any]] = []
    refused: dict[int, PenstockError] = {}
    of_each = draws + (measure or 0)
    with Progress(quiet=quiet).stage("precision") as stage:
        for index, each in enumerate(tried):

            def on_draw(done: int, total: int, before: int = index * of_each) -> None:
                stage.update(before + done, total=len(tried) * of_each)

            def on_run(done: int, total: int, before: int = index * of_each + draws) -> None:
                stage.update(before + done, total=len(tried) * of_each)

            data = load_data(module, module.SIZES[size_name], each.slots, seed, data_path)
            try:
                rows.append(
                    predicted(workload, each, size_name, seed, data, reading=reading, draws=draws, on_draw=on_draw)
                )
                if measure is not None:
                    done = measure_precision(
                        workload, each, size_name, seed, data, reading=reading, runs=measure, on_run=on_run
                    )
                    rows.append(done.to_row())
            except PenstockError as error:
                refused[each.scale_bits] = error
    if not rows:
        raise next(iter(refused.values()))
    for scale_bits, why in refused.items():
        progress_console.print(f"none at a scale of {scale_bits} bits: {why}", highlight=False, markup=False)
    emit(rows, output_format, table=lambda console: _draw(console, rows, reading))


def _predictor(*, shared: bool, queries: int | None, statistical_bits: int | None) -> Callable[..., dict[str, Any]]:
    """The function that makes a row, with the columns of the flooding if the result is shared."""
    from penstock.prediction.precision import predict_precision
    from penstock.prediction.shared import predict_shared
    from penstock.program.flooding import STATISTICAL_BITS

    if not shared:
        return lambda *program, **options: predict_precision(*program, **options).to_row()
    with_noise = partial(predict_shared, queries=queries or 1, statistical_bits=statistical_bits or STATISTICAL_BITS)
    return lambda *program, **options: with_noise(*program, **options).to_row()


def _draw(console: Console, rows: list[dict[str, Any]], reading: str) -> None:
    columns = (
        ("", "provenance", str), ("params", "params", str), ("ring dim", "ring_dim", str),
        ("scale bits", "scale_bits", str), ("security", "security_bits", str), ("bits", "precision_bits", _bits),
        ("least", "low_bits", _bits), ("most", "high_bits", _bits), ("rms error", "rms_error", _error),
        ("largest error", "high_max_error", _error), ("largest value", "largest_value", _error),
    )  # fmt: skip
    first = rows[0]
    console.print(
        f"{first['workload']} ({first['size']}) encrypted ({reading}), against the clear result", highlight=False
    )
    table = table_of(" | ".join(f">{title}" for title, _, _ in columns) + " | >check passed", no_wrap=True)
    for row in rows:
        passed = f"{row['checks_passed']} of {row['draws']}"
        table.add_row(*(text(row[name]) for _, name, text in columns), passed)
    print_wide(console, table)
    _draw_shared(console, [row for row in rows if "verdict" in row])
    for warning in dict.fromkeys(each for row in rows for each in row["warnings"]):
        console.print(f"warning: {warning}", highlight=False, markup=False, soft_wrap=True)


def _draw_shared(console: Console, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    first = rows[0]
    console.print(
        f"\nshared: {first['decryptions']} decryptions that others learn, {first['statistical_bits']} statistical bits "
        f"(advantage at most 2^-{first['advantage_bits']:.1f}); predicted",
        highlight=False,
    )
    columns = (
        ("scale bits", "scale_bits", str), ("bits kept", "precision_bits", _bits),
        ("bits shared", "shared_bits", _bits), ("lost", "lost_bits", _bits),
        ("bound on the error", "error_bound", _error), ("noise", "flooding_std", _power),
        ("needs", "needed_bits", _bits), ("modulus", "held_bits", _bits), ("verdict", "verdict", str),
    )  # fmt: skip
    table = table_of(" | ".join(f">{title}" for title, _, _ in columns) + " | >check passed", no_wrap=True)
    for row in rows:
        passed = row["shared_checks_passed"]
        checked = "-" if passed is None else f"{passed} of {row['draws']}"
        table.add_row(*(text(row[name]) for _, name, text in columns), checked)
    print_wide(console, table)
    for remedy, verdict in dict.fromkeys((row["remedy"], row["verdict"]) for row in rows if row["remedy"]):
        console.print(f"{verdict}: {remedy}", highlight=False, markup=False, soft_wrap=True)


def _power(value: float) -> str:
    return f"2^{math.log2(value):.1f}"


def _bits(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _error(value: float) -> str:
    return f"{value:.2g}"
