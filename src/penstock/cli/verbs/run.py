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
from penstock.errors import CheckFailed, PenstockError
from penstock.files import WouldOverwrite
from penstock.program.reading import record_openfhe, resolve, run_clear
from penstock.progress import Progress
from penstock.trace.io import write_trace

READINGS = ("clear", "openfhe")


@click.command("run")
@click.argument("workload")
@click.option("--reading", type=click.Choice(READINGS), default="openfhe", show_default=True, help="What it means.")
@params_option
@size_option
@click.option(
    "--data", "data_path", type=click.Path(path_type=Path), help="Your data: a folder (MNIST) or file (genotypes)."
)
@seed_option
@threads_option
@click.option("--trace", "trace_path", type=click.Path(path_type=Path), help="Write the recorded trace here.")
@click.option("--force", is_flag=True, help="Replace an existing trace file.")
@quiet_option
@format_option
def command(
    workload: str,
    reading: str,
    params: str | None,
    size: str | None,
    data_path: Path | None,
    seed: int,
    threads: int | None,
    trace_path: Path | None,
    force: bool,
    quiet: bool,
    output_format: str,
) -> None:
    """Run WORKLOAD: in the clear, or encrypted with OpenFHE and checked against the clear result.

    \b
    Examples:
      penstock run inner-product --size ci
      penstock run logistic-regression --reading clear --size helr
      penstock run matrix-multiplication --threads 1 --trace matrix.parquet
    """
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
    with Progress(quiet=quiet).stage(f"{workload} encrypted") as stage:
        done = record_openfhe(
            workload, checked, size_name, seed, data, threads=threads,
            on_operation=lambda n, total: stage.update(n, total=total),
        )  # fmt: skip
    check = module.check(clear, done.result, data, module.SIZES[size_name])
    result |= {
        "wall_s": done.wall_s, "setup_s": sum(done.setup_s.values()), "encode_s": done.encode_s,
        "key_load_s": done.key_load_s, "num_key_loads": done.num_key_loads,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "num_operations": len(done.trace.server_operations()), "passed": check.passed,
        "max_abs_error": check.max_abs_error, "tolerance": check.tolerance, **check.numbers,
    }  # fmt: skip
    if trace_path is not None:
        write_trace(done.trace, trace_path, force=force)
        if not quiet:
            progress_console.print(f"trace written to {trace_path}")
    emit(result, output_format)
    if not check.passed:
        raise CheckFailed(f"{workload} encrypted differs from clear: {'; '.join(check.rules)}")
