"""`penstock predict validate`: predictions against held-out measurements."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from penstock.base.system.progress import Progress
from penstock.base.types import RowView
from penstock.errors import CapabilityMissing, ThresholdMissed, UsageError
from penstock.front.cli.figures import make_folder, say_figures
from penstock.front.cli.imported import tell_imported
from penstock.front.cli.options import PATH, Values
from penstock.front.cli.output import draw_rows, emit, output_options, say
from penstock.lab.fit.measurements import READINGS, Measurement, of_reading
from penstock.lab.prediction.importers import ImportLog, load_all, newest_results
from penstock.lab.prediction.models import named
from penstock.lab.prediction.validation.compared import models
from penstock.lab.prediction.validation.protocols import ALL, PROTOCOLS, Given
from penstock.lab.prediction.validation.scores import Validation, validate
from penstock.lab.prediction.validation.statistics import AUTO, STATISTICS, WHY
from penstock.program.running.readings import DEFAULT_READING

OURS = "penstock"


@click.command("validate")
@click.argument("results", nargs=-1, type=PATH)
@click.option(
    "--protocol",
    "protocols",
    multiple=True,
    help="Only this protocol; repeat for several: unseen-application, unseen-application-wall, "
    "unseen-ring-dim, unseen-depth, unseen-threads, "
    "unseen-operation, unseen-machine, paper. Default: all that the results allow.",
)
@click.option("--model", "models", multiple=True, help="Only this model: penstock, additive, log-quadratic.")
@click.option(
    "--data",
    type=PATH,
    help="A folder of CryptOracle's CSV files, instead of own results, or with results of the same CPU.",
)
@click.option("--other", type=PATH, help="Another machine's results, for unseen-machine.")
@click.option("--cpu", help="CryptOracle's files of the CPU with this in its name.")
@click.option("--other-cpu", help="The same for --other. Default: as --cpu.")
@click.option(
    "--reading",
    type=click.Choice(READINGS),
    help="Who computed. Default: the one reading of the results; with --measure: native, as in 'penstock run'.",
)
@click.option("--measure", is_flag=True, help="First measure what is needed, again while the machine is noisy.")
@click.option(
    "--statistic",
    type=click.Choice(STATISTICS),
    default=AUTO,
    help="Times of primitives: quiet (5 % of the calls are faster), or the median of the calls. auto: quiet where "
    "primitives are held out, median where programs are.",
)
@click.option("--figures", type=PATH, help="Folder for plots (SVG).")
@click.option("--details", is_flag=True, help="Every row in the table, single operations too; JSON and CSV have them.")
@click.option("--skip-bad", is_flag=True, help="Leave bad rows of the results out and list them.")
@click.option(
    "--fail-above",
    "limits",
    multiple=True,
    metavar="[PROTOCOL=]ERROR",
    help="Exit with 4 where the mean |error| of model penstock is above it: 8%, or unseen-ring-dim=5%. A protocol that "
    "the results do not allow counts where it is named, here or by --protocol.",
)
@output_options
def command(results: tuple[Path, ...], figures: Path | None, quiet: bool, output_format: str, **asked: Any) -> None:
    """Predict each measurement from the others, and print the error of each model.

    RESULTS are run folders of 'penstock bench run' or files that 'penstock predict fit' reads; without any, the newest
    run below runs/ that measured primitives. Nothing is measured unless --measure. Errors are predicted / measured - 1.

    \b
    Examples:
      penstock predict validate
      penstock predict validate --measure --fail-above unseen-application=8%
      penstock predict validate runs/mine --protocol unseen-ring-dim --format json
      penstock predict validate runs/mine --other runs/theirs --figures figures/
    """
    chosen, fits = named("protocol", asked["protocols"], PROTOCOLS), named("model", asked["models"], models())
    allowed = _limits(asked["limits"], list(chosen))
    if figures is not None:
        make_folder(figures)
    if asked["measure"] and (results or asked["data"]):
        raise UsageError("--measure makes new results: leave RESULTS and --data out")
    log, other = ImportLog(skip_bad=asked["skip_bad"]), asked["other"]
    measured = _measurements([*results, *([asked["data"]] if asked["data"] else [])], asked, log, quiet)
    beside = load_all([other], log=log, cpu=asked["other_cpu"] or asked["cpu"]) if other else ()
    given = Given(measurements=tuple(measured), other=tuple(beside))
    with Progress(quiet=quiet).stage("fitting and predicting") as stage:
        validation = validate(given, chosen, fits, on_step=stage.update, statistic=asked["statistic"])
    if not quiet:
        _notes(log, validation)
    if not validation.points:
        why = "; ".join(validation.warnings[:3])
        raise CapabilityMissing(f"these results allow none of the protocols: {why}")
    if figures is not None:
        from penstock.lab.prediction.validation.plots import draw

        say_figures(draw(validation, figures))
    rows = validation.rows()
    emit(rows, output_format, table=lambda console: _draw(console, rows, asked["details"]))
    _check(validation, allowed, {*asked["protocols"], *(text.rpartition("=")[0] for text in asked["limits"])})


def _measurements(paths: Sequence[Path], asked: Values, log: ImportLog, quiet: bool) -> list[Measurement]:
    if asked["measure"]:
        from penstock.lab.prediction.measuring import measure_quietly

        paths = [measure_quietly(reading=asked["reading"] or DEFAULT_READING, on_attempt=say)]
    elif not paths:
        paths = [newest_results()]
    say(f"results: {', '.join(str(path) for path in paths)}", quiet=quiet)
    return of_reading(load_all(paths, log=log, cpu=asked["cpu"]), asked["reading"], "the results")


def _limits(texts: Sequence[str], protocols: Sequence[str]) -> dict[str, float]:
    """Largest mean |error| of each protocol, from `8%`, `0.08` or `protocol=8%`; the most special one counts.

    Raises: UsageError: no such protocol is run, or no positive share.
    """
    general: dict[str, float] = {}
    special: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not share > 0:
            raise UsageError(f"--fail-above {text!r}: write a share above zero, 8% or unseen-application=8%")
        if not equals:
            general = dict.fromkeys(protocols, share)
        elif name in protocols:
            special[name] = share
        else:
            raise UsageError(
                f"--fail-above {text!r}: '{name}' is not among the protocols that run: {', '.join(protocols)}"
            )
    return general | special


def _check(validation: Validation, allowed: Mapping[str, float], named: Container[str]) -> None:
    """Raises: ThresholdMissed: the model penstock is further off than allowed, or was not scored where it had to be.

    Args:   named: protocols that must be scored; any other may be one that the results do not allow.
    """
    missed = []
    errors = {protocol: validation.error_of(OURS, protocol) for protocol in allowed}
    for protocol, error in errors.items():
        if error is not None and error > allowed[protocol]:
            missed.append(f"{protocol} {error:.1%} (limit {allowed[protocol]:.1%})")
        elif error is None and protocol in named:
            why = "; ".join(validation.why_not(OURS, protocol)) or f"model {OURS} was left out"
            missed.append(f"{protocol} was not scored ({why})")
    if errors and not missed and set(errors.values()) == {None}:
        missed.append("no protocol was scored")
    if missed:
        raise ThresholdMissed(f"mean |error| of model {OURS}: {'; '.join(missed)}")


def _notes(log: ImportLog, validation: Validation) -> None:
    tell_imported(log)
    for text in validation.warnings:
        say(f"warning: {text}", style="yellow")


def _shown(row: RowView, details: bool) -> bool:
    """Whether a row is in the short table: everything of applications, and of operations what sums them up."""
    application = str(row["application"])
    summed = application.split("/")[0] in (ALL, "interior", "edge", "combination", "key-switching", "element-wise")
    of_programs = row["protocol"] in ("unseen-application", "paper", "unseen-operation") and "/" not in application
    return details or summed or of_programs


def _draw(console: Console, rows: Sequence[RowView], details: bool) -> None:
    columns = "application | model | >n | >mean=mean_abs_error:{:.1%} | >median=median_abs_error:{:.1%} "
    columns += (
        "| >p90=p90_abs_error:{:.1%} | >worst=worst_abs_error:{:.1%} | >bias=bias:{:+.1%} | >in 90 %=coverage90:{:.0%}"
    )
    for protocol in dict.fromkeys(row["protocol"] for row in rows):
        mine = [row for row in rows if row["protocol"] == protocol]
        times = " and ".join(dict.fromkeys(row["statistic"] for row in mine))
        title = f"{protocol}: predicted / measured - 1, {times} times"
        kept = [row for row in mine if _shown(row, details)]
        draw_rows(console, kept, columns, once="application", no_wrap=True, title=title, title_justify="left")
        console.print()
    console.print("mean, median, p90, worst: of |error|. in 90 %: share inside the model's own 90 % interval.")
    for name, why in WHY.items():
        if any(name in row["statistic"] for row in rows):
            console.print(f"{why}.", highlight=False)
