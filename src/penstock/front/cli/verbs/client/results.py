"""The options of a decryption: for whom its values are, and which program they come from."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.base.types import Row
from penstock.front.cli.options import FILE, Values, count_option, together
from penstock.front.cli.output import say

if TYPE_CHECKING:
    from penstock.runtime.client import KeyPair, Service


results_options = together(
    "asked",
    click.option(
        "--for",
        "result_for",
        type=click.Choice(["owner", "shared"]),
        required=True,
        help="Who learns the values: the owner of the secret key alone, or others too. Others get them with noise.",
    ),
    click.option(
        "--package",
        type=FILE,
        help="The program that made the result (.pkg), to which the header of the ciphertext is held.",
    ),
    click.option(
        "--input",
        "inputs",
        metavar="[NAME=]FILE",
        multiple=True,
        help="The values that were encrypted: the package must make the same result of them.",
    ),
    count_option(
        "--queries", 1000, "With --for shared: results of this pair that others will learn in all.", metavar="N"
    ),
    click.option(
        "--statistical-bits",
        type=click.IntRange(1, 128),
        default=30,
        help="With --for shared: statistical security of the noise.",
    ),
)
"""For whom a result is, its package, and how much noise a shared one gets. The command gets `asked`, for `asked_of`."""


def asked_of(
    result_for: str, package: Path | None, inputs: tuple[str, ...], queries: int, statistical_bits: int
) -> Row:
    """The options as `KeyPair.decrypt` and `Service.result` take them."""
    from penstock.program.package.file import open_package
    from penstock.program.workloads.packaged import read_inputs

    if inputs and package is None:
        raise click.UsageError("--input is compared by the program: add --package FILE")
    given = read_inputs(open_package(package), inputs).inputs if inputs and package is not None else None
    chosen = {"queries": queries, "statistical_bits": statistical_bits}
    return {"result_for": result_for, "package": package, "inputs": given, **chosen}


def tell_shared(holder: KeyPair | Service, asked: Values, *, quiet: bool) -> None:
    """Say on stderr what shared results of a pair add up to, where this is one."""
    if asked["result_for"] != "shared" or quiet:
        return
    count = holder.shared
    bits = count.advantage_bits
    advantage = "none" if math.isinf(bits) else f"an advantage of at most 2^-{bits:.1f} (predicted)"
    trust = (
        "The package makes the same of the inputs."
        if asked["inputs"]
        else "Whoever evaluated is trusted to have run the program (--input compares)."
    )
    say(f"shared results of this pair: {count.results}; {advantage}. {trust}")
