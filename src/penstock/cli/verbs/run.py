"""`penstock run`: a workload in the clear, or encrypted and checked against the clear result."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.core import ParameterSource
from rich.console import Console
from rich.table import Table

from penstock.cli.options import (
    data_option,
    load_data,
    params_option,
    quiet_option,
    seed_option,
    size_option,
    threads_option,
)
from penstock.cli.output import emit, format_option, progress_console, shown
from penstock.cli.tenant_queue import run_tenants, tenant_options
from penstock.errors import CheckFailed, UsageError
from penstock.keystore import check_tenant, local_folder
from penstock.measure.timings import benchmark_of
from penstock.native.memory import peak_resident_bytes
from penstock.native.reading import ClientPlace
from penstock.running.clear import run_clear
from penstock.running.reading import Reading, Run, resolve
from penstock.running.readings import READINGS
from penstock.system.files import check_target, write_atomic
from penstock.system.progress import Progress
from penstock.traces.io import write_trace
from penstock.units import parse_bytes
from penstock.workloads import Check

OFFERED = [name for name, each in READINGS.items() if each.verb == "run"]
"""The readings that this verb has."""
_OF_A_QUEUE = {"tenants_path", "jobs_path", "scheduling", "threads", "quiet", "output_format"}
"""Parameters of the verb that a queue has, too."""


@click.command("run")
@click.argument("workload", required=False)
@click.option("--reading", type=click.Choice(OFFERED), default="openfhe", help="What it means.")
@params_option
@size_option
@data_option
@seed_option
@threads_option
@click.option(
    "--key-budget", metavar="SIZE", help="Bytes of evaluation keys in memory ('1 GiB'); the others lie on disk."
)
@click.option(
    "--keys",
    "store",
    type=click.Path(file_okay=False),
    help="Key store of the native reading, kept for other runs; the secret key goes to KEYS.client beside it.",
)
@click.option("--tenant", metavar="NAME", help="Whose keys of the store. [default: local]")
@click.option(
    "--input-budget",
    metavar="SIZE",
    help="Bytes of encrypted inputs in memory, those in use included; the others are read when they are used.",
)
@click.option(
    "--client",
    type=click.Choice([each.value for each in ClientPlace]),
    help="Where the native reading has OpenFHE and the secret key: a process of their own (default), or inside.",
)
@tenant_options
@click.option("--trace", "trace_path", type=click.Path(path_type=Path), help="Write the recorded trace here.")
@click.option(
    "--timings",
    "timings_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the times of its primitives here, for 'penstock predict fit' (Google Benchmark JSON).",
)
@click.option("--force", is_flag=True, help="Replace existing files.")
@quiet_option
@format_option
def command(
    workload: str | None,
    reading: str,
    params: str | None,
    size: str | None,
    data_path: Path | None,
    seed: int,
    threads: int | None,
    key_budget: str | None,
    store: str | None,
    tenant: str | None,
    input_budget: str | None,
    client: str | None,
    tenants_path: Path | None,
    jobs_path: Path | None,
    scheduling: str | None,
    trace_path: Path | None,
    timings_path: Path | None,
    force: bool,
    quiet: bool,
    output_format: str,
) -> None:
    """Run WORKLOAD, or a program of your own (a .py file): in the clear, or encrypted and checked against the clear
    result.

    Readings: `clear`, on plain vectors; `openfhe`, each operation by OpenFHE; `native`, each operation by penstock's
    own evaluator, word for word, while OpenFHE makes keys, encrypts and decrypts.

    \b
    Examples:
      penstock run inner-product --size ci
      penstock run logistic-regression --reading clear --size helr
      penstock run score.py
      penstock run matrix-multiplication --threads 1 --trace matrix.parquet
      penstock run logistic-regression --reading native --key-budget "256 MiB"
      penstock run --tenants tenants.toml --jobs jobs.toml --scheduling locality
    """
    if tenants_path is not None or jobs_path is not None:
        if workload is not None:
            raise UsageError(f"--tenants and --jobs run a queue: leave '{workload}' out, or write it as a job")
        _refuse_beside_a_queue()
        run_tenants(tenants_path, jobs_path, scheduling, threads=threads, quiet=quiet, output_format=output_format)
        return
    if workload is None:
        raise UsageError("name a WORKLOAD ('penstock workloads' lists them), or a queue with --tenants and --jobs")
    if scheduling is not None:
        raise UsageError("--scheduling orders the jobs of a queue: name it with --tenants and --jobs")
    chosen = READINGS[reading]
    options = _options(chosen, key_budget, store, tenant, input_budget, client)
    module, size_name, checked = resolve(workload, params, size)
    for path in (trace_path, timings_path):
        if path is not None and not chosen.keys:
            raise UsageError(f"the {reading} reading records no trace; make one with 'penstock trace', or run openfhe")
        if path is not None:
            check_target(path, force=force)
    sized = module.SIZES[size_name]
    data = load_data(module, sized, checked.slots, seed, data_path)
    started = time.perf_counter()
    clear = run_clear(workload, checked, size_name, seed, data)
    clear_s = time.perf_counter() - started
    result: dict[str, Any] = {
        "workload": module.NAME, "size": size_name, "params": checked.name, "security_bits": checked.security_bits,
        "reading": reading, "provenance": "measured", "clear_s": clear_s,
    }  # fmt: skip
    if not chosen.keys:
        got = clear if reading == "clear" else chosen.read(workload, checked, size_name, seed, data, **options)
        if not isinstance(got, Mapping):  # values; else the reading's own numbers
            got = {"result_norm": float(np.linalg.norm(got)), **module.check(clear, got, data, sized).numbers}
        emit(result | got, output_format, title="")
        return
    with Progress(quiet=quiet).stage(f"{module.NAME} encrypted") as stage:
        options |= {"threads": threads, "on_operation": lambda n, total: stage.update(n, total=total)}
        done: Run = chosen.read(workload, checked, size_name, seed, data, **options)
    check = module.check(clear, done.result, data, sized)
    result |= _numbers(done, check)
    _write(done, trace_path, timings_path, threads, force=force, quiet=quiet)
    emit(result, output_format, table=lambda console: _draw(console, result))
    if not check.passed:
        raise CheckFailed(f"{workload} encrypted differs from clear: {'; '.join(check.rules)}")


def _numbers(done: Run, check: Check) -> dict[str, Any]:
    """What a run took, and how it was checked."""
    return {
        "wall_s": done.wall_s,
        "server_s": done.server_s,
        "setup_s": sum(done.setup_s.values()),
        "encode_s": done.encode_s,
        "key_load_s": done.key_load_s,
        "num_key_loads": done.num_key_loads,
        "peak_rss_bytes": peak_resident_bytes(),
        "num_operations": len(done.trace.view().server_operations()),
        **done.own_numbers(),
        "passed": check.passed,
        "max_abs_error": check.max_abs_error,
        "tolerance": check.tolerance,
        **check.numbers,
    }


def _write(
    done: Run, trace_path: Path | None, timings_path: Path | None, threads: int | None, *, force: bool, quiet: bool
) -> None:
    """The trace, and the times of its primitives, where they are asked for."""
    if trace_path is not None:
        write_trace(done.trace, trace_path, force=force)
        if not quiet:
            progress_console.print(f"trace written to {trace_path}")
    if timings_path is not None:
        timed = benchmark_of(done.trace, threads or len(os.sched_getaffinity(0)))
        write_atomic(timings_path, json.dumps(timed, indent=1).encode() + b"\n", force=force)
        left_out = len(done.trace.server_operations()) - len(timed["benchmarks"])
        if left_out and not quiet:
            progress_console.print(
                f"times of {len(timed['benchmarks'])} operations written to {timings_path}; {left_out} are left out: "
                "what the benchmark suite has no name for, and what did pending work of another operation too",
                highlight=False,
            )


def _refuse_beside_a_queue() -> None:
    """Options of one workload say nothing to a queue: its files do."""
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE and name not in _OF_A_QUEUE:
            raise UsageError(
                f"a queue takes no {option.opts[0]}: its files say whose keys are where, under which budget, and what "
                "each job runs"
            )


def _draw(console: Console, result: dict[str, Any]) -> None:
    """A line for each value: too many for a line of all."""
    drawn = Table(box=None, pad_edge=False, show_header=False)
    for name, value in result.items():
        drawn.add_row(name, shown(value))
    console.print(drawn)


def _options(
    reading: Reading,
    key_budget: str | None,
    store: str | None,
    tenant: str | None,
    input_budget: str | None,
    client: str | None,
) -> dict[str, Any]:
    """The options of a reading that stand on the command line.

    Raises: UsageError: an option that is not of this reading; a tenant without a store.
    """
    given = {
        "input_budget_bytes": (input_budget, "--input-budget is"),
        "store": (store, "--keys and --tenant are"),
        "tenant": (tenant, "--keys and --tenant are"),
        "client": (client, "--client is"),
    }
    for option, (value, words) in given.items():
        if value is not None and option not in reading.options:
            of = " or ".join(READINGS.with_option(option))
            raise UsageError(f"{words} for --reading {of}, not for {reading.name}")
    if tenant is not None and store is None:
        raise UsageError("--tenant names keys of a store: name the store with --keys")
    if tenant is not None:
        check_tenant(tenant, "--tenant")
    if key_budget is not None and not reading.keys:
        raise UsageError(f"the {reading.name} reading has no keys: leave out --key-budget, or run native or openfhe")
    read = {
        "key_budget_bytes": None if key_budget is None else parse_bytes(key_budget, "--key-budget"),
        "input_budget_bytes": None if input_budget is None else parse_bytes(input_budget, "--input-budget"),
        "store": None if store is None else local_folder(store, "--keys"),
        "tenant": tenant,
        "client": client,
    }
    return {option: value for option, value in read.items() if value is not None}
