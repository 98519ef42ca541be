"""`penstock report RUN…`: write a run folder's report again, compare several runs, or draw figures for a paper."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.base.runs.folder import RunFolder
from penstock.errors import UsageError
from penstock.front.cli.options import PATH, choice_option


@click.command()
@click.argument("folders", type=PATH, metavar="RUN…", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=PATH,
    help="Write to this file, in no run folder. Default: the run's report.html; of several, comparison.html or, of "
    "benchmarks, benchmarks.html.",
)
@click.option("--figures", type=PATH, metavar="DIR", help="Draw figures for a paper into this folder instead, as SVG.")
@choice_option("--width", ("one-column", "two-column"), "Width of the figures: 85 or 178 mm.")
@choice_option("--style", ("sans", "serif"), "Letters of the figures.")
@click.option("--force", is_flag=True, help="Replace files that exist.")
def command(
    folders: tuple[Path, ...], output: Path | None, figures: Path | None, width: str, style: str, force: bool
) -> None:
    """Write the report of a run again, and print its path; or one file that compares several runs.

    The run may be unfinished: the report leaves out missing parts, with the reason. A sweep gets its own page: axes,
    points to explore with their Pareto front, and the effect of each axis. A comparison shows ratios to the first
    run, and lists the differences between the runs. Every page is one file that needs no network; its tables need no
    JavaScript. Benchmark runs get a page with distributions, trends and significance.

    \b
    Examples:
      penstock report runs/20261121T090500-logistic-regression
      penstock report runs/20261121T101500-sweep-tiers -o sweep.html
      penstock report runs/before runs/after -o comparison.html
      penstock report runs/monday runs/tuesday runs/today -o benchmarks.html
      penstock report runs/demo --figures figures --width two-column --style serif
    """
    runs = [RunFolder.open(folder) for folder in folders]
    measured = [run for run in runs if run.config.get("verb") == "bench"]
    if measured and (figures is not None or len(measured) < len(runs)):
        raise UsageError(
            f"{measured[0].path} holds benchmark results, which need a separate page: name benchmark runs only, "
            "without --figures"
        )
    if measured:
        from penstock.lab.reports.build import build_bench

        click.echo(build_bench(runs, output, force=force))
    elif figures is not None:
        from penstock.lab.reports.data import load
        from penstock.lab.reports.figures import write_figures

        if len(runs) > 1 or output is not None:
            raise UsageError("--figures draws one run, into its folder: name one run, and leave -o out")
        for path in write_figures(load(runs[0]), figures, width=width, style=style, force=force):
            click.echo(path)
    elif len(runs) > 1:
        from penstock.lab.reports.compare import build_comparison

        click.echo(build_comparison(runs, output, force=force))
    else:
        from penstock.lab.reports import build_report

        click.echo(build_report(runs[0], output, force=force))
