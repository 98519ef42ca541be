"""`penstock reproduce cryptoracle`: counts, times and predictions of CryptOracle next to our own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from penstock.base.types import Row, Rows
from penstock.front.cli.figures import make_folder, say_figures
from penstock.front.cli.options import FOLDER, PATH
from penstock.front.cli.output import draw_rows, draw_verdict, emit, format_option

_PART = re.compile(r"^figure9\.(micro|workload)\.[ndt]\d+\.")
"""Errors of one ring dimension, depth or number of threads."""


@click.command("cryptoracle")
@click.option(
    "--workload", "names", multiple=True, help="Only this workload; may be repeated. Default: all of Table 3."
)
@click.option("--results", type=PATH, help="A run folder of 'penstock bench run': adds figures 5-8.")
@click.option("--data", type=PATH, help="Any folder of CryptOracle's artifact: tables 7 and 8, figures 4 and 9-11.")
@click.option("--skip-bad", is_flag=True, help="Leave bad rows and halved times of the data out and list them.")
@click.option("--figures", type=FOLDER, help="Folder for the figures as SVG (needs --results or --data).")
@format_option
def cryptoracle(
    names: tuple[str, ...],
    results: Path | None,
    data: Path | None,
    skip_bad: bool,
    figures: Path | None,
    output_format: str,
) -> None:
    """Operation counts of CryptOracle's Table 3, published and from our traces, by operation and limbs.

    Nothing is encrypted: the counts come from symbolic traces. Each difference is explained in the row's note. Figures
    5 to 8 (runtime against threads and ring dimension) are of this machine, from a bench run's results. With the
    paper's own data, tables 7 and 8 and figures 9 to 11 have four columns: the measurement, the paper's additive model
    run again ('calibrated'), a machine fitted to the primitives alone ('first_principles') and a plain regression of
    each primitive ('regression'). Without it, the same predictions are made of this machine's own measurements: the run
    of --results, or the newest one.

    \b
    Examples:
      penstock reproduce cryptoracle
      penstock reproduce cryptoracle --workload matrix-multiplication --format json
      penstock reproduce cryptoracle --results runs/20261101T120000-bench --figures figures/
      penstock reproduce cryptoracle --data CryptOracle/results --figures figures/
    """
    from penstock.errors import UnknownName, UsageError
    from penstock_studies.cryptoracle import counts as study
    from penstock_studies.cryptoracle import figures as measurements

    known = [column.workload for column in study.TABLE3]
    for name in names:
        if name not in known:
            raise UnknownName("workload of Table 3", name, known)
    if figures is not None and results is None and data is None:
        raise UsageError(
            "--figures draws measurements: name a run folder of 'penstock bench run' with --results, or the "
            "paper's data with --data"
        )
    if figures is not None:
        make_folder(figures)
    predicted = _predictions(data, skip_bad, results, figures)
    measured: Rows = []
    if results is not None:
        from penstock.lab.measure.bench.results import load_results

        loaded = load_results(results)
        points = measurements.points(loaded) + measurements.event_points(loaded, measurements.load_events(results))
        measured = study.figure_rows(points)
        if figures is not None:
            from penstock_studies.cryptoracle.drawings import draw_measured

            say_figures(draw_measured(points, figures))
    counts = study.rows(names or None)
    rows = counts + measured + predicted

    emit(
        {"study": study.STUDY, "rows": rows} if output_format == "json" else rows,
        output_format,
        table=lambda console: _draw_counts(console, counts, predicted, measured),
    )


def _draw_counts(
    console: Console,
    counts: Sequence[Row],
    predicted: Rows,
    measured: Sequence[Row],
) -> None:
    from penstock_studies.cryptoracle.counts import table_rows
    from penstock_studies.verdict import verdict_of

    draw_verdict(console, verdict_of([*counts, *predicted]))
    title = "CryptOracle, Table 3: operations of each workload (published | ours)"
    counted = table_rows(counts)
    columns = "workload | operation | >published | >calls | >expanded | limbs:count=limbs | why*3"
    draw_rows(console, counted, columns, section="workload", once="workload", title=title, fold=True)
    console.print(
        "calls: a composite is one, as the paper counts; expanded: what the library does inside. Provenance: "
        "'published' is the paper's, all else is predicted from traces."
    )
    if predicted:
        _draw_predictions(console, predicted)
    if not measured:
        console.print("Figures 5 to 8 are drawn from this machine's own results: add --results and --figures.")
        return
    columns = "row=id | >measured=measured:{:.4g} | unit | note"
    draw_rows(console, measured, columns, title="Figures 5 to 8, measured on this machine", fold=True)


def _predictions(data: Path | None, skip_bad: bool, results: Path | None, figures: Path | None) -> Rows:
    """Rows of tables 7 and 8 and figures 9 to 11: from the paper's data, else from this machine's own measurements."""
    from penstock.front.cli.imported import tell_imported
    from penstock.lab.prediction.importers import ImportLog
    from penstock_studies.cryptoracle import predictions as study
    from penstock_studies.cryptoracle.data import load_data, points

    if data is None:
        from penstock_studies.cryptoracle.own import own_rows

        return own_rows(results)
    from penstock_studies.cryptoracle import artifact_rows as beside
    from penstock_studies.cryptoracle.artifact import breakdowns, estimates, event_counts
    from penstock_studies.cryptoracle.tables import DEPTH, LOG_N, table_rows

    log = ImportLog(skip_bad=skip_bad)
    sets = load_data(data, log)
    tell_imported(log)
    predicted = [point for dataset in sets.values() for point in points(dataset)]
    rows = [
        *table_rows(sets, predicted),
        *study.figure_rows(predicted, breakdowns(data, log)),
        *beside.sweep_rows(sets, predicted),
        *beside.event_rows(event_counts(data, LOG_N, DEPTH)),
        *beside.figure11_rows(estimates(data, log), sets),
        *beside.build_rows(data),
    ]
    if figures is not None:
        from penstock_studies.cryptoracle.drawings import draw_predictions, draw_sweeps

        say_figures([*draw_predictions(predicted, figures), *draw_sweeps(rows, figures)])
    return rows


def _draw_predictions(console: Console, rows: Sequence[Row]) -> None:
    """Tables 7 and 8 and the errors over all points; points, parts and shares are in the JSON and CSV."""
    columns = "row=id | >published=published:{:.4g} | >additive=calibrated:{:.4g} | >penstock=first_principles:{:.4g} "
    columns += "| >regression=regression:{:.4g} | unit | note*3"
    title = "Predictions: published | additive model | penstock | log-quadratic regression"
    apart = ("figure9", "figure10", "figure9-correlation")
    summed = [row for row in rows if row["group"] not in apart and not _PART.search(row["id"])]
    draw_rows(console, summed, columns, title=title, fold=True)
