"""`penstock run`: a workload in the clear, or encrypted and checked against the clear result."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from penstock.cli.options import load_data, params_option, quiet_option, seed_option, size_option, threads_option
from penstock.cli.output import emit, format_option, progress_console
from penstock.cli.tenant_queue import run_tenants, tenant_options
from penstock.errors import CheckFailed, PenstockError, UsageError
from penstock.files import WouldOverwrite
from penstock.program.native_reading import KeyPlace, NativeRun, record_native
from penstock.program.native_store import DEFAULT_TENANT
from penstock.program.reading import Run, record_openfhe, resolve, run_clear
from penstock.progress import Progress
from penstock.trace.io import write_trace
from penstock.units import parse_bytes

READINGS = ("clear", "openfhe", "native")


@click.command("run")
@click.argument("workload", required=False)
@click.option("--reading", type=click.Choice(READINGS), default="openfhe", show_default=True, help="What it means.")
@params_option
@size_option
@click.option(
    "--data", "data_path", type=click.Path(path_type=Path), help="Your data: a folder (MNIST) or file (genotypes)."
)
@seed_option
@threads_option
@click.option(
    "--key-budget", metavar="SIZE", help="Bytes of evaluation keys in memory ('1 GiB'); the others lie on disk."
)
@click.option(
    "--keys",
    "store",
    type=click.Path(path_type=Path, file_okay=False),
    help="Key store of the native reading, kept for other runs; the secret key goes to KEYS.client beside it.",
)
@click.option("--tenant", metavar="NAME", help="Whose keys of the store. [default: local]")
@tenant_options
@click.option("--trace", "trace_path", type=click.Path(path_type=Path), help="Write the recorded trace here.")
@click.option("--force", is_flag=True, help="Replace an existing trace file.")
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
    store: Path | None,
    tenant: str | None,
    tenants_path: Path | None,
    jobs_path: Path | None,
    scheduling: str | None,
    trace_path: Path | None,
    force: bool,
    quiet: bool,
    output_format: str,
) -> None:
    """Run WORKLOAD: in the clear, or encrypted and checked against the clear result.

    Readings: `clear`, on plain vectors; `openfhe`, each operation by OpenFHE; `native`, each operation by penstock's
    own evaluator, word for word, while OpenFHE makes keys, encrypts and decrypts.

    \b
    Examples:
      penstock run inner-product --size ci
      penstock run logistic-regression --reading clear --size helr
      penstock run matrix-multiplication --threads 1 --trace matrix.parquet
      penstock run logistic-regression --reading native --key-budget "256 MiB"
      penstock run --tenants tenants.toml --jobs jobs.toml --scheduling locality
    """
    if tenants_path is not None or jobs_path is not None:
        if workload is not None:
            raise UsageError(f"--tenants and --jobs run a queue: leave '{workload}' out, or write it as a job")
        run_tenants(tenants_path, jobs_path, scheduling, threads=threads, quiet=quiet, output_format=output_format)
        return
    if workload is None:
        raise UsageError("name a WORKLOAD ('penstock workloads' lists them), or a queue with --tenants and --jobs")
    place = _key_place(reading, key_budget, store, tenant)
    module, size_name, checked = resolve(workload, params, size)
    if trace_path is not None and trace_path.exists() and not force:
        raise WouldOverwrite(trace_path)
    if trace_path is not None and reading == "clear":
        raise PenstockError("the clear reading records no trace; make one with 'penstock trace', or run openfhe")
    data = load_data(module, module.SIZES[size_name], checked.slots, seed, data_path)
    started = time.perf_counter()
    clear = run_clear(workload, checked, size_name, seed, data)
    clear_s = time.perf_counter() - started
    result: dict[str, Any] = {
        "workload": workload, "size": size_name, "params": checked.name, "security_bits": checked.security_bits,
        "reading": reading, "provenance": "measured", "clear_s": clear_s,
    }  # fmt: skip
    if reading == "clear":
        check = module.check(clear, clear, data, module.SIZES[size_name])
        result |= {"result_norm": float(np.linalg.norm(clear)), **check.numbers}
        emit(result, output_format, title="")
        return
    done: Run
    with Progress(quiet=quiet).stage(f"{workload} encrypted") as stage:

        def report(n: int, total: int) -> None:
            stage.update(n, total=total)

        if reading == "native":
            done = record_native(
                workload, checked, size_name, seed, data, threads=threads, keys=place, on_operation=report
            )
        else:
            done = record_openfhe(
                workload, checked, size_name, seed, data, threads=threads, key_budget_bytes=place.budget_bytes,
                on_operation=report,
            )  # fmt: skip
    check = module.check(clear, done.result, data, module.SIZES[size_name])
    result |= {
        "wall_s": done.wall_s, "server_s": done.server_s, "setup_s": sum(done.setup_s.values()),
        "encode_s": done.encode_s, "key_load_s": done.key_load_s, "num_key_loads": done.num_key_loads,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "num_operations": len(done.trace.server_operations()),
    }  # fmt: skip
    if isinstance(done, NativeRun):
        result |= _native_numbers(done)
    result |= {
        "passed": check.passed, "max_abs_error": check.max_abs_error, "tolerance": check.tolerance, **check.numbers,
    }  # fmt: skip
    if trace_path is not None:
        write_trace(done.trace, trace_path, force=force)
        if not quiet:
            progress_console.print(f"trace written to {trace_path}")
    emit(result, output_format)
    if not check.passed:
        raise CheckFailed(f"{workload} encrypted differs from clear: {'; '.join(check.rules)}")


def _key_place(reading: str, key_budget: str | None, store: Path | None, tenant: str | None) -> KeyPlace:
    """Where keys are to be."""
    if (store is not None or tenant is not None) and reading != "native":
        raise UsageError(f"--keys and --tenant are for --reading native, not for {reading}")
    if tenant is not None and store is None:
        raise UsageError("--tenant names keys of a store: name the store with --keys")
    if key_budget is not None and reading == "clear":
        raise UsageError("the clear reading has no keys: leave out --key-budget, or run native or openfhe")
    budget = None if key_budget is None else parse_bytes(key_budget, "--key-budget")
    return KeyPlace(budget_bytes=budget, store=store, tenant=tenant or DEFAULT_TENANT)


def _native_numbers(run: NativeRun) -> dict[str, Any]:
    """What only the native reading has."""
    traffic = run.traffic
    return {
        "kernels": run.kernels, "transfer_s": run.transfer_s, "key_budget_bytes": run.budget_bytes,
        "key_bytes": traffic.key_bytes, "key_read_bytes": traffic.read_bytes,
        "key_requested_bytes": traffic.requested_bytes, "key_hits": traffic.hits, "key_late_hits": traffic.late_hits,
        "key_misses": traffic.misses, "key_evictions": traffic.evictions,
        "key_peak_resident_bytes": traffic.peak_resident_bytes, "key_read_s": traffic.read_s,
        "num_keys_made": run.made_keys,
    }  # fmt: skip
