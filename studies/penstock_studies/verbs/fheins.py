"""`penstock reproduce fheins`: the in-storage accelerator's figures and tables next to our own."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from penstock.base.system.collector import collector_paused
from penstock.front.cli.figures import make_folder, say_figures
from penstock.front.cli.options import FOLDER
from penstock.front.cli.output import draw_rows, draw_verdict, emit, format_option
from penstock_studies.verbs.tables import headline_table, study_table


@click.command("fheins")
@click.option("--figures", type=FOLDER, help="Folder for figures 3 to 5 and the powers of Table II as SVG.")
@format_option
@collector_paused()
def fheins(figures: Path | None, output_format: str) -> None:
    """FHEIns, queries inside an SSD: figures 3 to 5 and the arithmetic of Tables I and II.

    'policy' names the basis of each value. The headline's is 'restream-overlap': a host that reads the database again
    for every query. 'first_principles' is from traces, the kernel algebra and the units that the paper names;
    'calibrated' has two constants, each named in the notes. Every batch and policy is in the JSON and CSV;
    'docs/studies/fheins.md' explains the residuals.

    \b
    Examples:
      penstock reproduce fheins
      penstock reproduce fheins --figures figures/ --format json
    """
    from penstock_studies.fheins import reproduction as study
    from penstock_studies.headlines import headlines, readings_of
    from penstock_studies.verdict import verdict_of

    if figures is not None:
        make_folder(figures)
    rows = study.rows()
    if figures is not None:
        from penstock_studies.fheins.figures import draw

        say_figures(draw(rows, figures))

    def table(console: Console) -> None:
        draw_verdict(console, verdict_of(rows))
        title = "FHEIns: published | calibrated | first principles"
        console.print(study_table(title, study.table_rows(rows)))
        console.print(headline_table(headlines(readings_of("fheins"), rows)))
        columns = "claim*2 | needs*2 | here*2=value | survives*2"
        title = "Which claims survive"
        draw_rows(console, study.claims(rows), columns, section="claim", title=title, fold=True)
        console.print(
            "'published' is FHEIns'; all else is computed or simulated. Errors belong to the headline's policy, "
            "restream-overlap. Every batch, energies and sensitivities: --format json, --figures."
        )

    if output_format == "json":
        shown = headlines(readings_of("fheins"), rows)
        emit({"study": study.STUDY, "rows": rows, "claims": study.claims(rows), "headlines": shown}, output_format)
    else:
        emit(rows, output_format, table=table)
