"""`penstock reproduce`: published results beside our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from penstock.cli.output import emit, format_option, progress_console


@click.group("reproduce")
def command() -> None:
    """Published results, beside the same quantities from our own traces, models and measurements.

    \b
    Example:
      penstock reproduce cryptoracle
    """


@command.command("cryptoracle")
@click.option(
    "--workload", "names", multiple=True, help="Only this workload; may be repeated. Default: all of Table 3."
)
@click.option(
    "--results", type=click.Path(path_type=Path), help="A run folder of 'penstock bench run': adds figures 5-8."
)
@click.option("--figures", type=click.Path(path_type=Path), help="Folder for the figures as SVG (needs --results).")
@format_option
def cryptoracle(names: tuple[str, ...], results: Path | None, figures: Path | None, output_format: str) -> None:
    """Operation counts of CryptOracle's Table 3, published and from our traces, by operation and limbs.

    Nothing is encrypted: the counts come from symbolic traces. Each difference is explained in the row's note.
    Figures 5 to 8 (runtime against threads and ring dimension) are of this machine, from a bench run's results.

    \b
    Examples:
      penstock reproduce cryptoracle
      penstock reproduce cryptoracle --workload matrix-multiplication --format json
      penstock reproduce cryptoracle --results runs/20261101T120000-bench --figures figures/
    """
    from penstock.errors import UnknownName, UsageError
    from penstock.studies import cryptoracle as study
    from penstock.studies import cryptoracle_figures as drawings

    known = [column.workload for column in study.TABLE3]
    for name in names:
        if name not in known:
            raise UnknownName("workload of Table 3", name, known)
    if figures is not None and results is None:
        raise UsageError("--figures draws what was measured: name a run folder of 'penstock bench run' with --results")
    measured: list[dict[str, Any]] = []
    if results is not None:
        from penstock.measure.bench.results import load_results

        loaded = load_results(results)
        points = drawings.points(loaded) + drawings.event_points(loaded, drawings.load_events(results))
        measured = study.figure_rows(points)
        for path in drawings.draw(points, figures) if figures is not None else []:
            progress_console.print(f"figure written to {path}")
    counts = study.rows(names or None)
    rows = counts + measured

    def table(console: Console) -> None:
        drawn = Table(title="CryptOracle, Table 3: operations of each workload (published | ours)", box=None)
        shown: list[dict[str, Any]] = study.table_rows(counts)
        for column in shown[0] if shown else []:
            drawn.add_column(
                column, justify="right" if column in ("published", "calls", "expanded") else "left",
                overflow="fold", ratio=3 if column == "why" else None,
            )  # fmt: skip
        last = None
        for row in shown:
            if last not in (None, row["workload"]):
                drawn.add_section()
            drawn.add_row(*(_cell(value) for value in {**row, "workload": _once(row["workload"], last)}.values()))
            last = row["workload"]
        console.print(drawn)
        console.print(
            "calls: a composite is one, as the paper counts; expanded: what the library does inside. Provenance: "
            "'published' is the paper's, all else is predicted from traces."
        )
        if not measured:
            console.print("Figures 5 to 8 are drawn from this machine's own results: add --results and --figures.")
            return
        timed = Table(title="Figures 5 to 8, measured on this machine", box=None)
        for heading in ("row", "measured", "unit", "note"):
            timed.add_column(heading, justify="right" if heading == "measured" else "left", overflow="fold")
        for row in measured:
            value = None if row["measured"] is None else f"{row['measured']:.4g}"
            timed.add_row(row["id"], _cell(value), row["unit"], row["note"])
        console.print(timed)

    emit({"study": study.STUDY, "rows": rows} if output_format == "json" else rows, output_format, table=table)


def _once(name: str, last: str | None) -> str:
    return "" if name == last else name


def _cell(value: Any) -> str:
    return "-" if value is None else str(value)
