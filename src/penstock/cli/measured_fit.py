"""`penstock predict fit --measure`: its plan, its measurement and its check, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from penstock.cli.output import emit, progress_console, table_of
from penstock.errors import UsageError
from penstock.system.progress import Progress
from penstock.units import format_seconds, parse_seconds

if TYPE_CHECKING:
    from penstock.fit.measurements import Measurement
    from penstock.machines import Machine
    from penstock.prediction.experiments.loop import Asked, Report
    from penstock.prediction.experiments.outlook import Expected, Outlook, Step

BUDGET, TARGET = "10 min", "5%"
WORSE = 1.5
"""Times the expected error from which the check earns a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The given options of a measurement."""

    threads: tuple[int, ...] | None
    budget: str | None
    target: str | None
    store: Path | None

    def asked(self) -> Asked:
        """Raises: UsageError: no time, or no share."""
        from penstock.prediction.experiments.loop import Asked

        budget_s = parse_seconds(self.budget or BUDGET, "--budget")
        if not budget_s > 0:
            raise UsageError(f"--budget {self.budget}: ask for more than no time")
        return Asked(budget_s=budget_s, target=_share(self.target or TARGET))


def _share(text: str) -> float:
    number, percent, rest = text.strip().partition("%")
    try:
        share = float(number) / 100 if percent and not rest else -1.0
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise UsageError(f"--target {text!r}: write a share between 0 and 100 %, for example 5%")
    return share


def check_options(measure: bool, results: Sequence[Path], only: str | None, **given: object) -> None:
    """Raises: UsageError: options of a measurement without one, or of results with one."""
    if measure:
        if results or only is not None:
            raise UsageError("--measure makes new results: leave RESULTS and --only out")
        return
    lone = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if lone:
        raise UsageError(f"{', '.join(lone)}: options of a measurement; add --measure")


def describe(wanted: Wanted, output_format: str) -> None:
    """Print the planned visits and the error to expect; measure nothing."""
    asked, outlook = wanted.asked(), _session(wanted).outlook()
    from penstock.prediction.experiments.loop import CHECK_SHARE

    steps = outlook.plan((1 - CHECK_SHARE) * asked.budget_s, asked.target)
    rows = [_step_row(step, outlook) for step in steps]

    def draw(console: Console) -> None:
        table = table_of("ring dim | >limbs | >dnum | >points | >threads | >time | >error after", header_style="bold")
        for row in rows:
            table.add_row(
                str(row["ring_dim"]), str(row["num_q"]), str(row["dnum"]), str(row["points"]),
                ",".join(map(str, row["threads"])), format_seconds(row["predicted_s"]), f"{row['expected_error']:.1%}",
            )  # fmt: skip
        console.print(table)
        if steps:
            console.print(_outlook_text(steps, steps[-1].expected), markup=False, highlight=False)

    emit(rows, output_format, table=draw)


def measure(wanted: Wanted, quiet: bool) -> tuple[Path, Report]:
    """Measure this machine into a run folder.

    Raises: UsageError: the budget is too small.
    """
    from penstock.prediction.experiments.loop import Told

    asked, session = wanted.asked(), _session(wanted)
    path = session.folder()

    def note(text: str) -> None:
        if not quiet:
            progress_console.print(text, markup=False, highlight=False)

    note(f"run folder: {path}")
    with Progress(quiet=quiet).stage("measuring", asked.budget_s) as stage:
        told = Told(
            planned=lambda steps, expected: note(_outlook_text(steps, steps[-1].expected if steps else expected)),
            starts=lambda what, spent: stage.update(spent, name=what),
            done=lambda spent, expected: stage.update(spent, name=f"error to expect {expected.mean:.1%}"),
        )
        try:
            report = session.measure(path, asked, told)
        except KeyboardInterrupt:
            note(f"interrupted; {path} keeps every finished round, and the same command goes on")
            raise
    why = "the target is reached" if report.reached else "nothing is left" if report.exhausted else "the time is up"
    note(
        f"{report.points} primitives in {report.visits} visits, {format_seconds(round(report.spent_s))}: {why}; "
        f"expected error of programs {_errors_text(report.expected)}"
    )
    return path, report


def experiment_of(report: Report, found: Sequence[Measurement], machine: Machine) -> dict[str, Any]:
    """What the measurement expected, and the programs that checked it."""
    from penstock.prediction.experiments.check import checked, mean_error

    rows = checked(found, machine)
    return {
        "spent_s": report.spent_s, "visits": report.visits, "points": report.points,
        "target_reached": report.reached, "expected_error": report.expected.mean,
        "expected_by_threads": [
            {"threads": count, "error": error} for count, error in report.expected.by_threads.items()
        ],
        "check_error": mean_error(rows), "check": rows,
    }  # fmt: skip


def draw_check(console: Console, experiment: dict[str, Any]) -> None:
    """The programs that nothing was fitted to."""
    table = table_of(
        "program | params | >threads | >measured | >predicted | >error | in 90 %",
        no_wrap=True,
        title="programs that nothing was fitted to: predicted / measured - 1",
        title_justify="left",
        header_style="bold",
    )
    for row in experiment["check"]:
        table.add_row(
            f"{row['program']} {row['size']}", row["params"], str(row["threads"]), format_seconds(row["measured_s"]),
            format_seconds(row["predicted_s"]), f"{row['error']:+.1%}",
            {True: "yes", False: "NO", None: "-"}[row["in_interval"]],
        )  # fmt: skip
    console.print()
    console.print(table)
    expected, found = experiment["expected_error"], experiment["check_error"]
    if found is None:
        console.print("note: the time did not suffice to check the fit with a program; give a larger --budget")
        return
    console.print(f"mean |error|: {found:.1%}, expected {expected:.1%}", highlight=False)
    if found > WORSE * expected:
        console.print(
            "note: the check is worse than expected: other processes may have disturbed it; measure again, or longer "
            "(--budget 20min)",
            highlight=False,
        )


def _session(wanted: Wanted) -> Any:
    from penstock.measure.bench.spec import default_threads
    from penstock.measure.bench.store import default_store
    from penstock.prediction.experiments.session import Session, default_counts

    threads = wanted.threads or default_counts(default_threads())
    return Session(threads=tuple(sorted(set(threads))), store=wanted.store or default_store())


def _step_row(step: Step, outlook: Outlook) -> dict[str, Any]:
    points = [outlook.candidates.points[number] for number in step.choice.at]
    return {
        "params": step.params.name, "ring_dim": step.params.ring_dim, "num_q": step.params.num_q,
        "dnum": step.params.dnum, "points": len(points), "threads": sorted({point.threads for point in points}),
        "items": sorted({point.item for point in points}), "predicted_s": step.choice.seconds,
        "expected_error": step.expected.mean, "provenance": "predicted",
    }  # fmt: skip


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
