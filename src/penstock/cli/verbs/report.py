"""`penstock report DIR`: write a run folder's report again."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.runs import RunFolder


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the report to this file, not into DIR.")
@click.option("--force", is_flag=True, help="Replace the file named by -o where it exists.")
def command(folder: Path, output: Path | None, force: bool) -> None:
    """Write the report of the run in DIR again, and print its path.

    The run may be finished or not: what is missing is left out, with the reason. A sweep gets a page of its own: axes,
    the best and the worst point of each program, and what each axis moves.

    \b
    Examples:
      penstock report runs/20261121T090500-logistic-regression
      penstock report runs/20261121T090500-logistic-regression -o report.html
      penstock report runs/20261121T101500-sweep-tiers
    """
    from penstock.report import build_report

    click.echo(build_report(RunFolder.open(folder), output, force=force))
