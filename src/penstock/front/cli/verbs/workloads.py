"""`penstock workloads`: the programs, with their sizes."""

from __future__ import annotations

import click

from penstock.front.cli.output import emit, format_option
from penstock.program import workloads


@click.command("workloads")
@click.argument("named", metavar="[WORKLOAD|FILE.py]...", nargs=-1)
@format_option
def command(named: tuple[str, ...], output_format: str) -> None:
    """List the programs that penstock studies with their named sizes, or the named ones; Python files are allowed too.

    \b
    Examples:
      penstock workloads
      penstock workloads resnet20 score.py
    """
    rows = []
    for name in named or workloads.names():
        workload = workloads.get(name)
        for size_name, size in workload.SIZES.items():
            fields = workloads.describe(size)
            rows.append(
                {
                    "workload": workload.NAME,
                    "size": size_name,
                    "params": fields.pop("params"),
                    "default": size_name == workload.DEFAULT_SIZE,
                    "details": ", ".join(f"{k} {_shown(v)}" for k, v in fields.items() if v is not None),
                    "description": workload.DESCRIPTION,
                }
            )
    emit(rows, output_format)


def _shown(value: object) -> str:
    """A field of a size: a word, a number, or several of them."""
    if isinstance(value, tuple | list):
        return "/".join(map(_shown, value)) or "none"
    return value if isinstance(value, str) else format(value, "g")
