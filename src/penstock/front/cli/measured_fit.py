"""`penstock predict fit --measure`: its plan, its measurement and its check, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from penstock.base.system.progress import Progress
from penstock.base.types import Row
from penstock.base.units import format_seconds
from penstock.errors import UsageError
from penstock.front.cli.options import Values
from penstock.front.cli.output import Own, draw_rows, emit, progress_console
from penstock.front.hall.fitting import step_row

if TYPE_CHECKING:
    from penstock.lab.prediction.experiments.loop import Goal, Report
    from penstock.lab.prediction.experiments.outlook import Expected, Step
    from penstock.lab.prediction.experiments.session import Session

ERRORS_STYLE: Values = {"no_wrap": True, "title_justify": "left", "header_style": "bold"}
"""Of a table of errors."""
WORSE = 1.5
"""Times the expected error from which the check earns a warning."""


def check_options(measure: bool, results: Sequence[Path], only: str | None, **given: object) -> None:
    """Raises: UsageError: options of a measurement without one, or of results with one."""
    if measure:
        if results or only is not None:
            raise UsageError("--measure makes new results: leave RESULTS and --only out")
        return
    lone = [f"--{name.replace('_', '-')}" for name in ("budget", "target", "dry_run", "store") if given[name]]
    if lone:
        raise UsageError(f"{', '.join(lone)}: options of a measurement; add --measure")


def describe(session: Session, asked: Goal, output_format: str) -> None:
    """Print the planned visits and the error to expect; measure nothing."""
    outlook = session.outlook()
    from penstock.lab.prediction.experiments.loop import CHECK_SHARE

    steps = outlook.plan((1 - CHECK_SHARE) * asked.budget_s, asked.target)
    rows = [step_row(step, outlook) for step in steps]

    def draw(console: Console) -> None:
        columns = "ring dim=ring_dim | >limbs=num_q | >dnum | >points | >threads | >time=predicted_s "
        own: Own = {"threads": lambda row: ",".join(map(str, row["threads"]))}
        draw_rows(console, rows, columns + "| >error after=expected_error:{:.1%}", own, header_style="bold")
        if steps:
            console.print(_outlook_text(steps, steps[-1].expected), markup=False, highlight=False)

    emit(rows, output_format, table=draw)


def measure(session: Session, asked: Goal, quiet: bool) -> tuple[Path, Report]:
    """Measure this machine into a run folder.

    Raises: UsageError: the budget is too small.
    """
    from penstock.lab.prediction.experiments.loop import Watcher

    path = session.folder()

    def note(text: str) -> None:
        if not quiet:
            progress_console.print(text, markup=False, highlight=False)

    note(f"run folder: {path}")
    with Progress(quiet=quiet).stage("measuring", asked.budget_s) as stage:
        listener = Watcher(
            planned=lambda steps, expected: note(_outlook_text(steps, steps[-1].expected if steps else expected)),
            starts=lambda what, spent: stage.update(spent, name=what),
            done=lambda spent, expected: stage.update(spent, name=f"error to expect {expected.mean:.1%}"),
        )
        try:
            report = session.measure(path, asked, listener)
        except KeyboardInterrupt:
            note(f"interrupted; {path} keeps every finished round, and the same command goes on")
            raise
    why = "the target is reached" if report.reached else "nothing is left" if report.exhausted else "the time is up"
    note(
        f"{report.points} primitives in {report.visits} visits, {format_seconds(round(report.spent_s))}: {why}; "
        f"expected error of programs {_errors_text(report.expected)}"
    )
    return path, report


def draw_check(console: Console, experiment: Row) -> None:
    """The programs that nothing was fitted to."""
    own: Own = {
        "program": lambda row: f"{row['program']} {row['size']}",
        "in 90 %": lambda row: {True: "yes", False: "NO", None: "-"}[row["in_interval"]],
    }
    columns = "program | params | >threads | >measured=measured_s | >predicted=predicted_s | >error=error:{:+.1%} "
    title = "programs that nothing was fitted to: predicted / measured - 1"
    console.print()
    draw_rows(console, experiment["check"], columns + "| in 90 %", own, title=title, **ERRORS_STYLE)
    expected, actual = experiment["expected_error"], experiment["check_error"]
    if actual is None:
        console.print("note: the time did not suffice to check the fit with a program; give a larger --budget")
        return
    console.print(f"mean |error|: {actual:.1%}, expected {expected:.1%}", highlight=False)
    if actual > WORSE * expected:
        console.print(
            "note: the check is worse than expected: other processes may have disturbed it; measure again, or longer "
            "(--budget 20min)",
            highlight=False,
        )


def _outlook_text(steps: Sequence[Step], expected: Expected) -> str:
    seconds = sum(step.choice.seconds for step in steps)
    points = sum(len(step.choice.at) for step in steps)
    return (
        f"planned: {points} points in {len(steps)} visits, about {format_seconds(round(seconds))}; expected error of "
        f"programs then {_errors_text(expected)}"
    )


def _errors_text(expected: Expected) -> str:
    parts = ", ".join(
        f"{count} thread{'s' if count > 1 else ''} {error:.1%}" for count, error in expected.by_threads.items()
    )
    return f"{expected.mean:.1%} ({parts})"
