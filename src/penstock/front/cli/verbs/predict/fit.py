"""`penstock predict fit`: measured primitives to a machine file that every other verb takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from penstock.base.system.progress import Progress
from penstock.base.types import Row, RowView
from penstock.errors import UsageError
from penstock.front.cli.imported import tell_imported
from penstock.front.cli.measured_fit import ERRORS_STYLE, check_options, describe, draw_check, measure
from penstock.front.cli.options import PATH, Values, choice_option, counts_of, parts_of, quiet_option, together
from penstock.front.cli.output import draw_rows, emit, format_option, progress_console, toml_target
from penstock.front.hall.fitting import BUDGET, TARGET, FitChoice, asked_of, counted, experiment_of, fitted, session_of
from penstock.lab.fit.measurements import READINGS, Measurement, few_calls, statistic_of
from penstock.lab.prediction.importers import BUILDS, ImportLog, load_all, newest_results
from penstock.lab.prediction.validation.statistics import AUTO, STATISTICS
from penstock.scheme.machines import Machine
from penstock.scheme.machines.figure import Figure
from penstock.scheme.machines.written import write_machine

if TYPE_CHECKING:
    from penstock.lab.prediction.experiments.loop import Goal
    from penstock.lab.prediction.experiments.session import Session


@click.command("fit")
@click.argument("results", nargs=-1, type=PATH)
@click.option("-o", "--output", type=PATH, help="Machine file (.toml) to write.")
@click.option(
    "--measure", "measures", is_flag=True, help="First measure this machine: what tells most about programs comes next."
)
@together(
    "measuring",
    click.option("--budget", metavar="TIME", help=f"With --measure: the most time that it takes. Default: {BUDGET}."),
    click.option(
        "--target",
        metavar="ERROR",
        help=f"With --measure: stop where the expected mean error of programs is this small. Default: {TARGET}.",
    ),
    click.option("--dry-run", is_flag=True, help="With --measure: print what would be measured; measure nothing."),
    click.option("--store", type=PATH, help="With --measure: folder for contexts and keys."),
)
@click.option(
    "--reading",
    type=click.Choice(READINGS),
    help="Who computed. Default: the one reading of RESULTS; with --measure: native, as in 'penstock run'.",
)
@click.option("--name", help="Name of the machine. Default: the file's.")
@click.option(
    "--threads",
    help="Only measurements at these numbers of threads inside an operation: 1,2. With --measure: the measured ones; "
    "default: 1, 2 and all cores.",
)
@click.option("--only", help="Only these primitives: rotate,mult,add.")
@together(
    "origin",
    click.option("--cpu", help="CryptOracle's files of the CPU with this in its name: AMD."),
    choice_option(
        "--build",
        BUILDS,
        "CryptOracle's files of this build of OpenFHE: hexl and without-hexl belong to its comparison with "
        "Intel's HEXL.",
    ),
)
@choice_option(
    "--statistic",
    STATISTICS,
    "Times of primitives: quiet (5 % of the calls are faster), or the median of the calls. auto: median, as the "
    "programs that the machine prices run through the same disturbances.",
    default=AUTO,
)
@click.option("--idle-power", metavar="WATTS|measure", help='Power without work: "20 W", or measured now (RAPL).')
@click.option("--skip-bad", is_flag=True, help="Leave bad rows out and list them, instead of stopping at the first.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@quiet_option
@format_option
def command(
    results: tuple[Path, ...],
    output: Path | None,
    measures: bool,
    measuring: Values,
    reading: str | None,
    name: str | None,
    threads: str | None,
    only: str | None,
    origin: Values,
    statistic: str,
    idle_power: str | None,
    skip_bad: bool,
    force: bool,
    quiet: bool,
    output_format: str,
) -> None:
    """Fit a machine to the measured primitives of RESULTS, and write it as a file for any --machine.

    RESULTS are run folders of 'penstock bench run', Google Benchmark JSON, or CryptOracle's CSV or YAML files or a
    folder of them; without any, the newest run below runs/. Programs among them are not fitted to. Every coefficient is
    'calibrated', or 'assumed' where the measurements cannot tell it from another.

    --measure needs no RESULTS: it times what tells most about the time of programs, until the expected error is small
    enough or the time is up, and runs programs to check. The same command goes on where an interrupted one stopped.

    \b
    Examples:
      penstock predict fit --measure -o mine.toml
      penstock predict fit --measure --budget 3min --dry-run
      penstock predict fit -o mine.toml --idle-power "20 W"
      penstock predict fit runs/monday runs/tuesday --threads 1 -o one-thread.toml
      penstock predict fit ../CryptOracle/datasets --cpu AMD --name ryzen-7950x -o ryzen-7950x.toml
      penstock simulate logistic-regression --params openfhe-bench --machine mine.toml
    """
    check_options(measures, results, only, **measuring)
    counts = counts_of(threads, "--threads", "1,2")
    if measuring["dry_run"]:
        describe(*_measuring(counts, reading, measuring), output_format)
        return
    output, idle = _target(output, force), _idle(idle_power)
    folder, report = measure(*_measuring(counts, reading, measuring), quiet) if measures else (None, None)
    paths = list(results) or [newest_results() if folder is None else folder]
    log, progress = ImportLog(skip_bad=skip_bad or measures), Progress(quiet=quiet)
    with progress.stage("reading"):
        measurements = load_all(paths, log=log, **origin)
    kept = None if only is None else parts_of(only)
    choice = FitChoice(threads=counts, only=kept, reading=reading, statistic=statistic, word="--threads")
    with progress.stage("fitting"):
        tell = partial(_notes, paths, log, measurements, quiet=quiet)
        machine, chosen = fitted(measurements, choice, name or output.stem, log, tell)
    machine = replace(machine, idle_power=idle or machine.idle_power)
    write_machine(machine, output, force=force)
    result = _result(machine, output, paths, chosen, log)
    if report is not None:
        result["experiment"] = experiment_of(report, measurements, machine)
    rows = result["coefficients"] if output_format == "csv" else result
    emit(rows, output_format, table=lambda console: _draw(console, machine, result))
    if not quiet:
        progress_console.print(f"machine written to {output}", markup=False, highlight=False)


def _measuring(counts: Sequence[int] | None, reading: str | None, measuring: Values) -> tuple[Session, Goal]:
    """The measurement of this machine that the options ask for, and when it stops."""
    return session_of(counts, measuring["store"], reading), asked_of(measuring["budget"], measuring["target"])


def _target(output: Path | None, force: bool) -> Path:
    """Raises: UsageError: no name of a machine file; WouldOverwrite: it is there, and not `force`."""
    if output is None:
        raise UsageError("no machine file is named: add --output mine.toml")
    toml_target(output, "a machine", force=force)
    return output


def _idle(text: str | None) -> Figure | None:
    if text is None:
        return None
    from penstock.lab.prediction.idle import idle_power

    return idle_power(text)


def _notes(
    paths: Sequence[Path],
    log: ImportLog,
    measurements: Sequence[Measurement],
    chosen: Sequence[Measurement],
    *,
    quiet: bool,
) -> None:
    if quiet:
        return

    def note(text: str) -> None:
        progress_console.print(text, markup=False, highlight=False)

    note(f"results: {', '.join(map(str, paths))}: {counted(measurements)}, {len(chosen)} primitives chosen")
    few = few_calls(chosen)
    if few is not None:
        note(f"note: {few}")
    tell_imported(log)


def _result(
    machine: Machine, output: Path, paths: Sequence[Path], chosen: Sequence[Measurement], log: ImportLog
) -> Row:
    fit = machine.fit
    assert fit is not None
    errors = {coefficient.name: coefficient.standard_error for coefficient in fit.coefficients}
    return {
        "machine": machine.name, "output": str(output), "results": [str(path) for path in paths],
        "origins": [{"results": path, **asdict(origin)} for path, origin in log.origins.items()],
        "fitted_to": fit.fitted_to, "reading": fit.reading, "measurements": len(chosen),
        "statistic": statistic_of(chosen), "shapes": fit.shapes,
        "total_error": fit.total_error, "spread": fit.spread, "common_sd": fit.common_sd,
        "interval_scale": fit.interval_scale, "ranges": {name: list(span) for name, span in fit.ranges.items()},
        "coefficients": [
            {
                "coefficient": path, "value": figure.text, "kind": figure.kind.value,
                "relative_standard_error": errors.get(_coefficient_of(path) or ""), "source": figure.source,
            }
            for path, figure in machine.figures()
        ],
        "errors": [
            {name: getattr(row, name)
             for name in ("kind", "samples", "mean_abs", "median_abs", "p90_abs", "worst_abs", "bias")}
            | {"sd": fit.kinds.get(row.kind)}
            for row in fit.errors
        ],
        "warnings": [*log.warnings, *fit.warnings, *fit.merged], "bad_rows": list(log.bad),
        "left_out": [{"reason": reason, "timings": timings} for reason, timings in log.left_out.items()],
    }  # fmt: skip


_FITTED = {"overhead": "overhead", "threads.loop": "loops", "cache.beyond": "beyond cache"}
"""Path of a value of the machine file -> the coefficient that it was made from; units have theirs by name."""


def _coefficient_of(path: str) -> str | None:
    """The fitted coefficient behind a value of the machine file.

    >>> _coefficient_of("units.additions"), _coefficient_of("threads.shared.additions")
    ('additions', 'shared additions')
    >>> _coefficient_of("cache.beyond"), _coefficient_of("cache.size")
    ('beyond cache', None)
    """
    table, _, unit = path.rpartition(".")
    return {"units": unit, "threads.shared": f"shared {unit}"}.get(table) or _FITTED.get(path)


def _draw(console: Console, machine: Machine, result: RowView) -> None:
    overall = machine.fit.overall if machine.fit else None
    of = f"{result['machine']}, {result['reading']}"
    console.print(f"{of}: fitted to {result['fitted_to']}", markup=False, highlight=False)
    columns = "coefficient | >value | >+/-=relative_standard_error:{:.0%} | kind"
    draw_rows(console, result["coefficients"], columns, no_wrap=True, header_style="bold")
    console.print()
    columns = "operation=kind | >runs=samples | >mean=mean_abs:{:.1%} | >median=median_abs:{:.1%} "
    columns += "| >p90=p90_abs:{:.1%} | >worst=worst_abs:{:.1%} | >bias=bias:{:+.1%} | >sd=sd:{:.1%}"
    title = "predicted / measured - 1 of what it was fitted to"
    draw_rows(console, result["errors"], columns, title=title, **ERRORS_STYLE)
    if overall is not None:
        console.print("mean, median, p90, worst: of |error|; sd: between configurations that were held out")
    if "experiment" in result:
        draw_check(console, result["experiment"])
    for text in (*machine.fit.warnings, *machine.fit.merged) if machine.fit else ():
        console.print(f"note: {text}", markup=False, highlight=False)
