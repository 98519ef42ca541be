"""`penstock package`: a program as a package: one file of calls, constants, inputs and keys, without code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from penstock.base.system.files import check_target
from penstock.base.system.progress import Progress
from penstock.base.types import Row
from penstock.base.units import format_bytes
from penstock.errors import UsageError
from penstock.front.cli.options import FILE, PATH, program_options, seed_option
from penstock.front.cli.output import emit, output_options, rows_table, say
from penstock.program.running.packaging import make_package
from penstock.program.workloads.packaged import SUFFIX

SHOWN = 12
"""Inputs, outputs and differing calls that are printed."""


@click.command("package")
@click.argument("workload")
@click.option("-o", "--output", type=PATH, help="The package (.pkg). Without it only a summary is printed.")
@program_options
@seed_option
@click.option("--values", type=FILE, help="WORKLOAD is a HERACLES program trace, and this its file of values.")
@click.option("--verify", is_flag=True, help="Capture again with other inputs: constants that change are refused.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@output_options
def command(workload: str, output: Path | None, quiet: bool, output_format: str, **asked: Any) -> None:
    """Make a package of WORKLOAD: a program of your own (.py), one of penstock's, or a package at another set.

    A package holds calls, constants, names and lengths of inputs and outputs, and the parameter set. It holds no key,
    no code and no encrypted values. Everything else that a program computes with, such as a model's weights, is a
    constant. A program whose calls depend on decrypted values is refused, with its line.

    \b
    Examples:
      penstock package score.py -o score.pkg --verify
      penstock package resnet20 -o resnet20.pkg
      penstock package score.pkg
      penstock package score.pkg --params sharp -o score-sharp.pkg
      penstock package program.heracles --values testvec.bin -o program.pkg
    """
    if output is not None:
        if output.suffix != SUFFIX:
            raise UsageError(f"{output}: the name of a package ends in {SUFFIX}")
        check_target(output, force=asked["force"])
    from_heracles = asked["values"] is not None
    row = make_package(workload, output, progress=Progress(quiet=quiet), **asked)
    if output is not None and not from_heracles:
        say(f"package written to {output}", quiet=quiet)
    emit(row, output_format, table=lambda console: _draw(console, row))


def _draw(console: Console, row: Row) -> None:
    def line(text: str) -> None:
        console.print(f"  {text}", highlight=False, markup=False, soft_wrap=True)

    security = f"{row['security_bits']} bit" if row["security_bits"] else "insecure"
    console.print(
        f"{row['name']} on {row['params']}: N={row['ring_dim']}, {row['num_q']} limbs, {row['scaling']}, {security}",
        highlight=False,
    )
    counts = ({"instruction": verb, "count": count} for verb, count in row["instructions"].items())
    table = rows_table(counts, "instruction | >count=count:{:,}")
    table.add_row("all", f"{row['num_instructions']:,}", style="bold")
    console.print(table)
    for what in ("inputs", "outputs"):
        shown = [f"{vector['name']} ({vector['length']:,})" for vector in row[what][:SHOWN]]
        more = len(row[what]) - len(shown)
        line(f"{what}: {', '.join(shown) or 'none'}" + (f" and {more} more" if more else ""))
    line(
        f"{row['num_constants']:,} constants, {format_bytes(row['constant_bytes'])}; {row['num_series']} series; "
        f"{row['num_keys']} evaluation keys, {format_bytes(row['key_bytes'])}"
    )
    noise = row["noise"]
    line(
        "noise: not stated, so that results cannot be shared"
        if noise is None
        else f"noise of a result: at most 2^{noise['error_bits']} (predicted), for inputs up to "
        f"{2 ** (noise['input_eighths'] / 8):.3g}"
    )
    if "file_bytes" in row:
        line(f"file: {format_bytes(row['file_bytes'])}")
    if "verified" in row:
        line("verified: with other inputs its calls and constants are the same")
        for origin in row["from_data"]:
            calls = origin["calls"]
            line(f"constants from {origin['part']}: {len(calls)} calls, such as {calls[0]}")
