"""`penstock bench`: run the benchmark suite, compare two runs, export results."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console

from penstock.base.runs.folder import RunFolder
from penstock.base.system.files import write_atomic
from penstock.base.system.progress import Progress
from penstock.base.types import Rows, RowView
from penstock.base.units import format_bytes, format_seconds, parse_percent
from penstock.errors import ThresholdMissed, UsageError, cut
from penstock.front.cli.options import PATH, counts_of, parts_of, quiet_option, seed_option
from penstock.front.cli.output import (
    Own,
    draw_rows,
    draw_verdict,
    emit,
    format_option,
    plain,
    progress_console,
    write_csv,
)
from penstock.lab.fit.measurements import READINGS
from penstock.lab.measure.bench import timing
from penstock.lab.measure.bench.compare import Comparison
from penstock.lab.measure.bench.compare import compare as compare_results
from penstock.lab.measure.bench.estimate import estimate, plan_rows, total_seconds
from penstock.lab.measure.bench.results import google_context, load_results, summary_rows, to_google_benchmark
from penstock.lab.measure.bench.spec import BenchPoint, SuitePlan, load_suite, plan
from penstock.lab.measure.bench.store import default_store
from penstock.lab.measure.bench.suite import Options, config_of, raise_problems, run_plan
from penstock.lab.measure.bench.verdict import verdict_of, verdict_of_run
from penstock.lab.measure.events import parse_events
from penstock.program.running.readings import DEFAULT_READING

EXPORTS = ("google-benchmark", "csv", "json")


@click.group("bench")
def command() -> None:
    """The benchmark suite: primitives, microbenchmarks and workloads, measured natively or with OpenFHE.

    \b
    Examples:
      penstock bench run --suite quick -o runs/before
      penstock bench compare runs/before runs/after --threshold 1.05
      penstock bench export runs/before --to google-benchmark -o before.json
    """


def _numbers(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    return counts_of(value, parameter.opts[0], "1,2,4")


@command.command("run")
@click.option("--suite", "suite_name", default="quick", help="quick, full, fit, or a file of yours (.toml).")
@click.option("--only", help="Groups or items to keep: primitives,micro,workloads or rotate,mult.")
@click.option(
    "--reading",
    type=click.Choice(READINGS),
    default=DEFAULT_READING,
    help="Who computes: penstock's own evaluator, as in 'penstock run', or OpenFHE.",
)
@click.option("--threads", callback=_numbers, help="Threads inside an operation, instead of the suite's: 1,2.")
@click.option(
    "--across-operations",
    "across",
    callback=_numbers,
    help="Independent operations at the same time, one thread each, instead of the suite's: 1,2.",
)
@click.option(
    "--events",
    help="Also count these events of warm points, in a separate pass: instructions,cache-misses. Of primitives with "
    "--reading openfhe only.",
)
@click.option("-o", "--output", type=PATH, help="Run folder. Default: runs/<time>-bench-<suite>.")
@click.option("--store", type=PATH, help="Folder for contexts, keys and inputs.")
@click.option("--dry-run", is_flag=True, help="Print each point with its predicted time and memory; measure nothing.")
@click.option("--force", is_flag=True, help="Replace an existing run.")
@seed_option
@quiet_option
@format_option
def run_command(
    suite_name: str,
    only: str | None,
    reading: str,
    threads: tuple[int, ...] | None,
    across: tuple[int, ...] | None,
    events: str | None,
    output: Path | None,
    store: Path | None,
    dry_run: bool,
    force: bool,
    seed: int,
    quiet: bool,
    output_format: str,
) -> None:
    """Run a suite. The same command goes on where an interrupted one stopped.

    The table begins with a verdict: what changed since the last finished run of the suite in the same folder.

    \b
    Examples:
      penstock bench run --suite quick
      penstock bench run --suite full --only primitives --threads 1,2 -o runs/primitives
      penstock bench run --suite mine.toml --dry-run
    """
    suite = load_suite(suite_name)
    planned = plan(suite, only=tuple(parts_of(only or "")), threads=threads, across=across, reading=reading)
    timing.check_affinity(max(max(p.threads, p.across) for p in planned.points))
    if dry_run:
        _describe(planned, output_format)
        return
    counted = () if events is None else tuple(parse_events(events))
    options = Options(store=store or default_store(), events=counted, seed=seed)
    config = config_of(planned, options)
    name = f"bench-{planned.suite}"
    path = output or (None if force else RunFolder.find_unfinished(name, config)) or RunFolder.default_path(name)
    run = RunFolder.open_or_resume(path, config, force=force)
    if not quiet:
        progress_console.print(f"run folder: {path}", markup=False)
    if not (run.complete and run.has_results):
        with run, _progress(planned, options, quiet):
            outcome = run_plan(planned, run, options)
        if outcome.resumed and not quiet:
            progress_console.print(f"{outcome.resumed} points were stored already and were not repeated")
    else:
        outcome = None
    if not quiet:
        _draw_left_out(progress_console, planned)
        for warning in run.warnings:
            progress_console.print(f"warning: {warning['what']}; {warning['remedy']}", markup=False, style="yellow")
    results = load_results(path)
    rows = summary_rows(results)

    def drawn(console: Console) -> None:
        draw_verdict(console, verdict_of_run(path, results))
        _draw(console, rows)

    emit(rows, output_format, table=drawn)
    if outcome is not None:
        raise_problems(outcome)


@contextmanager
def _progress(planned: SuitePlan, options: Options, quiet: bool) -> Iterator[None]:
    if quiet:
        yield
        return
    total = sum(estimate(point).total_s for point in planned.points)
    with Progress(quiet=quiet).stage("measuring", total) as stage:
        done = 0.0

        def finished(point: BenchPoint, share: float) -> None:
            nonlocal done
            done += share * estimate(point).total_s
            stage.update(done)

        options.on_start = lambda point: stage.update(done, name=point.label())
        options.on_done = finished
        yield


def _describe(planned: SuitePlan, output_format: str) -> None:
    available = timing.available_bytes()
    rows = plan_rows(planned, available)
    predicted = total_seconds(rows)

    def draw(console: Console) -> None:
        places = (point.label().partition(", ")[2] for point in planned.points)
        lines = ({**row, "where": place} for row, place in zip(rows, places, strict=True))
        columns = "item | where | >predicted time=predicted_s | >predicted memory=predicted_peak_bytes:bytes | =fits"
        own: Own = {"fits": lambda row: "" if row["fits"] is not False else "does not fit: refused"}
        draw_rows(console, lines, columns, own, header_style="bold")
        parts = ", ".join(f"{group} {format_seconds(s)}" for group, s in predicted.items() if group != "total" and s)
        console.print(
            f"{len(rows)} points, predicted {format_seconds(predicted['total'])} ({parts}), set-up included where "
            f"nothing is stored yet; available memory {format_bytes(available) if available else 'unknown'}"
        )
        _draw_left_out(console, planned)

    emit(rows, output_format, table=draw)


def _draw_left_out(console: Console, planned: SuitePlan) -> None:
    for skipped in planned.skipped:
        console.print(f"left out: {skipped['what']}: {skipped['why']}", markup=False)


def _draw(console: Console, rows: Rows) -> None:
    own: Own = {
        "item": _item,
        "limbs": lambda row: str(row["limbs"] or "-"),
        "threads": lambda row: f"{row['threads']} x {row['across']}" if row["across"] > 1 else str(row["threads"]),
        "passed": lambda row: {True: "passed", False: "FAILED", None: "-"}[row["passed"]],
    }
    columns = "item | params | >limbs | >threads | condition | reading | >measured=median_s | >spread=spread:{:.1%} "
    draw_rows(console, rows, columns + "| >runs | check=passed", own, header_style="bold")


def _item(row: RowView) -> str:
    return f"{row['item']} {row['size']}" if row["size"] else str(row["item"])


@command.command("compare")
@click.argument("first", type=PATH)
@click.argument("second", type=PATH)
@click.option("--threshold", type=float, help="Exit with 4 where a point is slower by more than this factor: 1.05.")
@click.option("--fail-above", metavar="PERCENT", help="The same as a percentage: '5%' is --threshold 1.05.")
@quiet_option
@format_option
def compare_command(
    first: Path, second: Path, threshold: float | None, fail_above: str | None, quiet: bool, output_format: str
) -> None:
    """Compare two runs, FIRST and SECOND: run folders, or Google Benchmark JSON files.

    A ratio above 1 says that SECOND is slower. A point misses the threshold if its ratio exceeds it and the difference
    is neither chance nor noise. Chance is tested by Mann-Whitney U, p < 0.05 (with one run each the ratio alone
    decides). Noise is the change of the calibration loop around each point. The first line is a verdict on all.

    \b
    Examples:
      penstock bench compare runs/before runs/after
      penstock bench compare runs/before runs/after --fail-above 5%
    """
    if threshold is not None and not threshold > 0:
        raise UsageError(f"--threshold {threshold}: a ratio is positive, for example 1.05")
    if fail_above is not None:
        if threshold is not None:
            raise UsageError("--fail-above and --threshold say the same: give one of them")
        threshold = _factor(fail_above)
    comparison = compare_results(load_results(first), load_results(second))
    emit(comparison.rows, output_format, table=lambda console: _draw_comparison(console, comparison))
    if not quiet:
        for where, labels in ((first, comparison.only_first), (second, comparison.only_second)):
            if labels:
                more = f" and {len(labels) - 3} more" if len(labels) > 3 else ""
                progress_console.print(f"only in {where}: {'; '.join(labels[:3])}{more}", markup=False)
        if comparison.noise is not None and comparison.noise > timing.NOISY_SPREAD:
            progress_console.print(
                f"warning: a fixed piece of work differed by {comparison.noise:.0%} (median over the points) while "
                "these runs were measured; smaller differences say nothing",
                markup=False,
                style="yellow",
            )
    missed = [] if threshold is None else comparison.missed(threshold)
    if missed:
        worst = max(missed, key=lambda row: row["ratio"])
        raise ThresholdMissed(
            f"{len(missed)} of {len(comparison.rows)} points are slower by more than {threshold}; worst: "
            f"{cut(worst['item'])} at {worst['params']}, {worst['ratio']:.3f} times "
            f"({format_seconds(worst['first_s'])} -> {format_seconds(worst['second_s'])})"
        )


def _factor(text: str) -> float:
    """`5%` as 1.05."""
    share = parse_percent(text)
    if not (math.isfinite(share) and share >= 0):
        raise UsageError(f"--fail-above {text}: write a percentage that is not negative, for example 5%")
    return 1 + share


def _interval(row: RowView) -> str:
    if row["low"] is None:
        return "-"
    return " to ".join(dict.fromkeys((f"{row['low']:.3f}", f"{row['high']:.3f}")))


def _draw_comparison(console: Console, comparison: Comparison) -> None:
    draw_verdict(console, verdict_of(comparison))
    own: Own = {
        "item": lambda row: _item(row) + ("" if row["condition"] == "warm" else f" ({row['condition']})"),
        "params": lambda row: row["params"] or "-",
        "limbs": lambda row: str(row["limbs"] or "-"),
        "95 %": _interval,
    }
    columns = "item | params | >limbs | >threads | reading | >first=first_s | >second=second_s | >ratio=ratio:{:.3f} "
    draw_rows(console, comparison.rows, columns + "| >95 % | >p=p_value:{:.3f} | verdict", own, header_style="bold")


@command.command("export")
@click.argument("run", type=PATH)
@click.option("--to", "target", type=click.Choice(EXPORTS), default="google-benchmark")
@click.option("-o", "--output", type=PATH, help="File to write. Default: stdout.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def export_command(run: Path, target: str, output: Path | None, force: bool) -> None:
    """Write the results of RUN in another format; Google Benchmark's JSON is read back wherever a run is.

    \b
    Examples:
      penstock bench export runs/before --to google-benchmark -o before.json
      penstock bench export runs/before --to csv > before.csv
    """
    table = load_results(run)
    rows = table.to_pylist()
    if target == "google-benchmark":
        record = RunFolder.open(run).record if run.is_dir() else {}
        text = json.dumps(plain(to_google_benchmark(table, google_context(record))), indent=1, allow_nan=False) + "\n"
    elif target == "json":
        text = json.dumps(plain(rows), indent=1, allow_nan=False) + "\n"
    else:
        buffer = io.StringIO()
        write_csv(buffer, rows, table.column_names)
        text = buffer.getvalue()
    if output is None:
        click.echo(text, nl=False)
    else:
        write_atomic(output, text.encode(errors="backslashreplace"), force=force)
