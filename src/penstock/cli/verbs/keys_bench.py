"""`penstock keys bench` and `penstock keys study`: keys in memory and on disk, measured."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path

import click

from penstock.cli.options import quiet_option, size_option
from penstock.cli.output import emit, format_option
from penstock.errors import UsageError
from penstock.params import catalogue
from penstock.progress import Progress


@click.command("study")
@click.argument("workload")
@size_option
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads of one operation.")
@click.option("--budgets", default="100,50,25,10", show_default=True, help="Per cent of the bytes of all keys.")
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Where the keys are written meanwhile: the disk that is measured. Default: that of temporary files.",
)  # fmt: skip
@quiet_option
@format_option
def study(
    workload: str, size: str | None, threads: int, budgets: str, folder: Path | None, quiet: bool, output_format: str
) -> None:
    """Run WORKLOAD natively under several key budgets, each beside the simulation of its trace.

    \b
    Example:
      penstock keys study logistic-regression --budgets 100,25
    """
    from penstock.program.native_study import as_rows, study_budgets

    shares = _shares(budgets)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-keys-", dir=folder) as place,
        Progress(quiet=quiet).stage("budgets", total=len(shares)) as stage,
    ):
        rows = study_budgets(
            workload, size, threads=threads, shares=shares, folder=Path(place) / "keys",
            on_run=lambda done, total: stage.update(done, total=total),
        )  # fmt: skip
    emit(as_rows(rows), output_format)


def _shares(text: str) -> list[float]:
    try:
        shares = [float(each) / 100 for each in text.split(",")]
    except ValueError:
        shares = []
    if not shares or not all(0 < share <= 1 for share in shares):
        raise UsageError(f"--budgets '{text}': numbers above 0 and up to 100, separated by commas")
    return shares


@click.command("bench")
@click.option("--params", "name", metavar="SET", default="openfhe-bench", show_default=True, help="Parameter set.")
@click.option(
    "--threads", type=click.IntRange(min=1), default=1, show_default=True,
    help="Threads, and processors that all of them share, those that read keys too.",
)  # fmt: skip
@click.option("--num-keys", type=click.IntRange(min=5), default=8, show_default=True, help="Keys of one stream.")
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="Streams of each kind.")
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Where the keys are written meanwhile: the disk that is measured. Default: that of temporary files.",
)  # fmt: skip
@quiet_option
@format_option
def command(
    name: str, threads: int, num_keys: int, rounds: int, folder: Path | None, quiet: bool, output_format: str
) -> None:
    """Rotations at the full chain, paired in one run: by OpenFHE, natively with keys in memory, and natively with each
    key read from disk past the page cache.

    \b
    Example:
      penstock keys bench --params openfhe-bench --threads 2 --format json
    """
    from penstock.program.native_bench import bench_keys

    params = catalogue.get(name)
    with Progress(quiet=quiet).stage("rotations", total=rounds) as stage:
        found = bench_keys(
            params, threads, num_keys=num_keys, rounds=rounds, folder=folder,
            on_round=lambda done, total: stage.update(done, total=total),
        )  # fmt: skip
    emit(asdict(found), output_format)
