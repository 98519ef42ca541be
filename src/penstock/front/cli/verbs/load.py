"""`penstock load`: jobs at a service, at times that do not depend on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from penstock.base.system.files import check_target, write_atomic
from penstock.base.system.progress import Progress
from penstock.base.types import Row
from penstock.base.units import format_named, parse_seconds
from penstock.errors import UsageError
from penstock.front.cli.options import FILE, PATH, seed_option
from penstock.front.cli.output import draw_rows, emit, output_options, plain, say
from penstock.front.cli.service_options import ca_option, service_option

if TYPE_CHECKING:
    from penstock.base.system.web import Web
    from penstock.service.load.arrivals import Arrival
    from penstock.service.load.drive import ServiceLoad

_GROUPS = ("tenants", "programs")
"""Lists of the report."""


@click.command()
@service_option()
@click.option(
    "--tenants",
    "tenants_file",
    type=FILE,
    required=True,
    help="TOML file with name, token_file, program and inputs of each [[tenant]].",
)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Jobs a second, in the mean.")
@click.option("--duration", metavar="TIME", default="1 min", help="How long jobs arrive.")
@click.option("--burst", type=click.IntRange(min=1), default=1, help="Jobs that arrive at once. 1: a Poisson process.")
@click.option(
    "--arrivals", "arrivals_file", type=FILE, help="CSV file with at_s and tenant of each job, instead of --rate."
)
@click.option("--zipf", type=click.FloatRange(min=0), default=0.0, help="Exponent of the tenants' shares. 0: equal.")
@click.option("--within", metavar="TIME", help="A job is good if its results are there by then: goodput.")
@click.option("--deadline", metavar="TIME", help="Deadline of each job, at the service.")
@click.option("--results/--no-results", default=True, help="Fetch the outputs of each job.")
@click.option("--most-open", type=click.IntRange(min=1), default=10_000, help="Jobs in flight; others are not sent.")
@click.option("--senders", type=click.IntRange(1, 256), default=16, help="Connections that send jobs, fetch results.")
@click.option("--rows", type=PATH, help="Write a JSON object a job to this file.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@ca_option
@seed_option
@output_options
def command(
    service: str,
    rows: Path | None,
    arrivals_file: Path | None,
    ca: Path | None,
    quiet: bool,
    output_format: str,
    **asked: Any,
) -> None:
    """Send jobs to a service, and report percentiles of their latency and the goodput.

    The loop is open: jobs arrive at their times, whether or not others have ended. A latency is the time from the
    arrival to the last byte of the results. A refused job (429, 503) is counted and not sent again.

    Inputs are encrypted once for each tenant: 'penstock client submit … --prepare FOLDER'.

    \b
    Examples:
      penstock load --service http://127.0.0.1:8700 --tenants tenants.toml --rate 5 --duration "20 min" --zipf 1
      penstock load --service http://127.0.0.1:8700 --tenants tenants.toml --arrivals arrivals.csv --rows jobs.jsonl
    """
    from penstock.service.load.arrivals import arrivals_at, read_arrivals
    from penstock.service.load.drive import ServiceLoad
    from penstock.service.load.report import by, summary
    from penstock.service.load.tenants import read_tenants

    if (asked["rate"] is None) == (arrivals_file is None):
        raise UsageError("say when jobs arrive in one way: --rate, or --arrivals FILE")
    within_s, deadline_s = (_seconds(asked[name], f"--{name}") for name in ("within", "deadline"))
    if rows is not None:
        check_target(rows, force=asked["force"])
    tenants = read_tenants(asked["tenants_file"])
    if arrivals_file is not None:
        arrivals = read_arrivals(arrivals_file, [tenant.name for tenant in tenants])
    else:
        duration_s = parse_seconds(asked["duration"], "--duration")
        arrivals = arrivals_at(
            asked["rate"], duration_s, asked["burst"], tenants=len(tenants), zipf=asked["zipf"], seed=asked["seed"]
        )
    how = {name: asked[name] for name in ("most_open", "results", "senders")}
    load = ServiceLoad(service, tenants, ca=ca, deadline_s=deadline_s, **how)
    took_s = _played(load, arrivals, quiet)
    jobs = sorted(load.rows, key=lambda job: job.due_s)
    if rows is not None:
        lines = "".join(json.dumps(plain(job.as_row())) + "\n" for job in jobs)
        write_atomic(rows, lines.encode(), force=asked["force"])
    result = {
        **summary(jobs, took_s, within_s),
        "seed": asked["seed"],
        "tenants": by("tenant", jobs, took_s, within_s),
        "programs": by("program", jobs, took_s, within_s),
    }
    emit(result, output_format, table=lambda console: _draw(console, result))


def _played(load: ServiceLoad, arrivals: Sequence[Arrival], quiet: bool) -> float:
    """Send the jobs at their times. Returns the seconds from the first to the end of the last."""
    try:
        with Progress(quiet=quiet).stage("inputs") as stage:
            load.prepare(_upload, stage.update)
        with Progress(quiet=quiet).stage("jobs", total=len(arrivals)) as stage:
            return load.play(arrivals, stage.update)
    except KeyboardInterrupt:
        say(f"interrupted: {len(load.rows)} jobs had ended", quiet=quiet)
        raise
    finally:
        load.close()


def _seconds(text: str | None, option: str) -> float | None:
    return None if text is None else parse_seconds(text, option)


def _upload(web: Web, path: Path) -> str:
    from penstock.runtime.client.journal import Journal
    from penstock.runtime.client.uploads import Uploads

    return Uploads(web, Journal(None)).send(path, "input")


def _draw(console: Console, result: Row) -> None:
    values = ({"what": name, "value": format_named(name, value)} for name, value in result.items())
    draw_rows(console, (row for row in values if row["what"] not in _GROUPS), "what | >value", show_header=False)
    for member in _GROUPS:
        if len(result[member]) > 1:
            console.print()
            draw_rows(
                console, result[member], f"{member[:-1]} | >jobs | >done | >mean=mean_s | >p50=p50_s | >p99=p99_s"
            )
