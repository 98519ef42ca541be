"""`penstock package`: a program as a package: one file of calls, constants, inputs and keys, without code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from penstock.cli.options import FILE, PATH, data_option, params_option, quiet_option, seed_option, size_option
from penstock.cli.output import emit, format_option, progress_console, table_of
from penstock.errors import UsageError
from penstock.running.packaging import Swapped, describe_package, package_workload, verify_inputs
from penstock.system.files import check_target, os_errors
from penstock.system.progress import Progress
from penstock.units import format_bytes
from penstock.workloads.packaged import SUFFIX

SHOWN = 12
"""Inputs, outputs and differing calls that are printed."""


@click.command("package")
@click.argument("workload")
@click.option("-o", "--output", type=PATH, help="The package (.pkg). Without it only a summary is printed.")
@params_option
@size_option
@data_option
@seed_option
@click.option(
    "--values", "values_path", type=FILE, help="WORKLOAD is a HERACLES program trace, and this its file of values."
)
@click.option("--verify", is_flag=True, help="Capture again with other inputs: constants that change are refused.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@quiet_option
@format_option
def command(
    workload: str,
    output: Path | None,
    params: str | None,
    size: str | None,
    data_path: Path | None,
    seed: int,
    values_path: Path | None,
    verify: bool,
    force: bool,
    quiet: bool,
    output_format: str,
) -> None:
    """Make a package of WORKLOAD: a program of your own (.py), one of penstock's, or a package at another set.

    A package holds calls, constants, names and lengths of inputs and outputs, and the parameter set. It holds no key,
    no code and no encrypted values. Everything else that a program computes with, such as a model's weights, is a
    constant. A program whose calls depend on decrypted values is refused, with its line.

    \b
    Examples:
      penstock package score.py -o score.pkg --verify
      penstock package resnet20 -o resnet20.pkg
      penstock package score.pkg
      penstock package score.pkg --params sharp -o score-sharp.pkg
      penstock package program.heracles --values testvec.bin -o program.pkg
    """
    from penstock.package.file import PackageFile, open_package
    from penstock.running.reading import resolve

    if output is not None:
        if output.suffix != SUFFIX:
            raise UsageError(f"{output}: the name of a package ends in {SUFFIX}")
        check_target(output, force=force)
    if values_path is not None:
        said = _from_heracles(Path(workload), values_path, params, output, force=force)
        emit(said, output_format, table=lambda console: _draw(console, said))
        return
    found, size_name, checked = resolve(workload, params, size)
    data = None
    if data_path is not None and not hasattr(found, "PACKAGE"):
        data = found.data(found.SIZES[size_name], checked.slots, seed, data_path)
    progress = Progress(quiet=quiet)
    swapped: list[Swapped] | None = None
    if verify:
        with progress.stage("compare with other inputs"):
            swapped = verify_inputs(workload, params, size, seed, data)
    with progress.stage(f"calls of {workload}") as stage:

        def on_call(count: int) -> None:
            if not count % 256:
                stage.update(count)

        if output is None:
            said = describe_package(package_workload(workload, params, size, seed, data, on_call=on_call))
        else:
            with PackageFile(output, force=force) as file:
                package = package_workload(workload, params, size, seed, data, sink=file, on_call=on_call)
                file.finish(package)
            said = describe_package(open_package(output))
            said = {"file": str(output), "file_bytes": output.stat().st_size, **said}
    if swapped is not None:
        said["verified"] = True
        said["from_data"] = [{"part": each.part, "calls": list(each.changed)} for each in swapped]
    if output is not None and not quiet:
        progress_console.print(f"package written to {output}", highlight=False)
    emit(said, output_format, table=lambda console: _draw(console, said))


def _from_heracles(
    trace: Path, values: Path, params: str | None, output: Path | None, *, force: bool
) -> dict[str, Any]:
    """The package of another tool's trace and values, written and described."""
    from penstock.package.file import PackageFile, open_package
    from penstock.package.heracles import package_of_heracles
    from penstock.params import catalogue

    if output is None:
        raise UsageError("--values: name the package with -o; constants are not kept in memory")
    with os_errors(trace, "read"):
        content = trace.read_bytes()
    with os_errors(values, "read"):
        given = values.read_bytes()
    chosen = None if params is None else catalogue.get(params)
    with PackageFile(output, force=force) as file:
        file.finish(package_of_heracles(content, given, file, chosen, name=trace.stem))
    return {
        "file": str(output),
        "file_bytes": output.stat().st_size,
        **describe_package(open_package(output)),
    }


def _draw(console: Console, said: dict[str, Any]) -> None:
    def line(text: str) -> None:
        console.print(f"  {text}", highlight=False, markup=False, soft_wrap=True)

    security = f"{said['security_bits']} bit" if said["security_bits"] else "insecure"
    console.print(
        f"{said['name']} on {said['params']}: N={said['ring_dim']}, {said['num_q']} limbs, {said['scaling']}, "
        f"{security}",
        highlight=False,
    )
    table = table_of("instruction | >count")
    for verb, count in said["instructions"].items():
        table.add_row(verb, f"{count:,}")
    table.add_row("all", f"{said['num_instructions']:,}", style="bold")
    console.print(table)
    for what in ("inputs", "outputs"):
        shown = [f"{each['name']} ({each['length']:,})" for each in said[what][:SHOWN]]
        more = len(said[what]) - len(shown)
        line(f"{what}: {', '.join(shown) or 'none'}" + (f" and {more} more" if more else ""))
    line(
        f"{said['num_constants']:,} constants, {format_bytes(said['constant_bytes'])}; {said['num_series']} series; "
        f"{said['num_keys']} evaluation keys, {format_bytes(said['key_bytes'])}"
    )
    noise = said["noise"]
    line(
        "noise: not stated, so that results cannot be shared"
        if noise is None
        else f"noise of a result: at most 2^{noise['error_bits']} (predicted), for inputs up to "
        f"{2 ** (noise['input_eighths'] / 8):.3g}"
    )
    if "file_bytes" in said:
        line(f"file: {format_bytes(said['file_bytes'])}")
    if "verified" in said:
        line("verified: with other inputs its calls and constants are the same")
        for each in said["from_data"]:
            calls = each["calls"]
            line(f"constants from {each['part']}: {len(calls)} calls, such as {calls[0]}")
