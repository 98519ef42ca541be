"""`penstock reproduce io-study`: every published number of the storage-I/O study next to our own."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from penstock.base.system.collector import collector_paused
from penstock.front.cli.figures import make_folder, say_figures
from penstock.front.cli.options import FOLDER
from penstock.front.cli.output import draw_rows, draw_verdict, emit, format_option
from penstock_studies.verbs.tables import headline_table, study_table


@click.command("io-study")
@click.option("--figures", type=FOLDER, help="Folder for figures 1, 2, 4 to 7 and the tornado chart as SVG.")
@click.option("--client", default="laptop", help="Where the client computes, and its line: a name, or a TOML file.")
@click.option("--prices", default="cloud-2024", help="Prices of an hour, a byte and a joule: a name, or a TOML file.")
@format_option
@collector_paused()
def io_study(figures: Path | None, client: str, prices: str, output_format: str) -> None:
    """The storage-I/O study of FHE accelerators: every published number, by its own rules and from first principles.

    'calibrated' has the study's demands and divisors as inputs; 'first_principles' is from our traces on the machines
    'sharp' and 'a100-tensorfhe' with nothing fitted to the study. The five steps of a run have bytes, seconds and
    joules; a thousand runs have a cost. Curves, costs, sensitivities, every assumed value and the locality table are in
    the JSON and CSV; 'docs/studies/io-study.md' explains the residuals.

    \b
    Examples:
      penstock reproduce io-study
      penstock reproduce io-study --figures figures/ --format json
      penstock reproduce io-study --prices mine.toml --client mine-too.toml --format csv
    """
    from penstock.scheme.machines.prices import load_prices
    from penstock_studies.headlines import headlines, readings_of
    from penstock_studies.io_study import reproduction as study
    from penstock_studies.io_study.client_place import load_client_place
    from penstock_studies.verdict import verdict_of

    place, listed = load_client_place(client), load_prices(prices)
    if figures is not None:
        make_folder(figures)
    rows = study.rows(client=place, prices=listed)
    shown = headlines(readings_of("io_study"), rows)
    if figures is not None:
        from penstock_studies.io_study.figures import draw

        say_figures(draw(rows, figures))

    def table(console: Console) -> None:
        draw_verdict(console, verdict_of(rows))
        title = "The storage-I/O study: published | by its own rules | first principles"
        console.print(study_table(title, study.table_rows(rows)))
        console.print(headline_table(shown))
        columns = "program | step | >seconds=time:seconds | >bytes | >joules=energy:{:.3g} J | note"
        title = "Figure 2: the steps of a run, keys from the PCIe disk (predicted)"
        steps = ({**step, "bytes": step.get("bytes") or None} for step in study.step_rows(rows))
        draw_rows(console, steps, columns, section="program", title=title, fold=True)
        for group, (count, middle, worst) in study.summary(rows).items():
            console.print(
                f"{group}: first principles, {count} rows, |error| median {middle:.1%}, worst {worst:.1%}",
                highlight=False,
            )
        console.print(
            "'published' is the study's; all else is computed or simulated. Curves, costs, sensitivities, assumed "
            "values and the locality table: --format json, --figures."
        )

    every = {"study": study.STUDY, "rows": rows, "headlines": shown}
    emit(every if output_format == "json" else rows, output_format, table=table)
