"""`penstock machines`: the accelerators, CPUs and GPUs that price operations, and where each value comes from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from penstock.cli.lazy import NamedVerbs
from penstock.cli.options import PATH, quiet_option
from penstock.cli.output import emit, format_option, progress_console, table_of
from penstock.errors import UsageError
from penstock.fit.kernel_rates import WORDS, kernel_machine, line_rows, read_kernels
from penstock.machines import Machine, Overlap, load_machine, machine_names
from penstock.machines.missing import missing
from penstock.machines.written import write_machine
from penstock.params import catalogue
from penstock.params.ckks import CkksParameters
from penstock.prediction.machine_tables import (
    check_of,
    check_rows,
    machine_row,
    markdown,
    operation_rows,
    schedule_rows,
    set_row,
    value_rows,
)
from penstock.system.files import check_target
from penstock.units import format_bytes, format_seconds
from penstock.unpriced import shown_total


@click.group(cls=NamedVerbs)
def command() -> None:
    """Machines that price operations: accelerators, GPUs, and CPUs fitted to measurements.

    MACHINE is a name of `penstock machines list` or the path of a .toml file. How to write one: docs/machines.md.

    \b
    Examples:
      penstock machines list
      penstock machines show ark
      penstock machines show mine.toml --params sharp --format json
      penstock machines check mine.toml
      penstock machines import-kernels kernels.csv -o mine.toml
    """


@command.command("list")
@click.option("--markdown", "as_markdown", is_flag=True, help="The tables of docs/machines.md.")
@format_option
def list_machines(as_markdown: bool, output_format: str) -> None:
    """Every machine that comes with penstock, one a row.

    \b
    Examples:
      penstock machines list
      penstock machines list --format csv
    """
    machines = [load_machine(name) for name in machine_names()]
    if as_markdown:
        click.echo(markdown(machines), nl=False)
        return
    rows = [machine_row(machine) for machine in machines]
    emit(rows, output_format, table=lambda console: _draw_list(console, rows))


@command.command()
@click.argument("name", metavar="MACHINE")
@click.option("--params", "set_name", metavar="SET", help="Price operations at this parameter set (default: its own).")
@format_option
def show(name: str, set_name: str | None, output_format: str) -> None:
    """Show every value of a machine with its source, disputed values, and the times of single operations.

    \b
    Examples:
      penstock machines show sharp
      penstock machines show bts --params bts-ins3 --format json
    """
    machine = load_machine(name)
    chosen = set_name or machine.native_params
    params = catalogue.get(chosen) if chosen is not None else None
    scheduled, refused = ([], []) if params is None else _scheduled(machine, params)
    found: dict[str, Any] = {
        **machine_row(machine),
        "description": machine.description,
        "overlap_source": machine.overlap_source,
        "parameter_set": None if params is None else set_row(params),
        "operations": [] if params is None else operation_rows(machine, params),
        "schedule": scheduled,
        "values": value_rows(machine),
        "disputed": list(machine.disputed),
        "warnings": refused if params is None else [*machine.warnings(params), *refused],
    }
    emit(found, output_format, table=lambda console: _draw_machine(console, machine, found))


def _scheduled(machine: Machine, params: CkksParameters) -> tuple[list[dict[str, Any]], list[str]]:
    """Operations scheduled on the units, or why they cannot be; nothing for machines whose kernels run in turn."""
    if machine.overlap is not Overlap.PIPELINED or machine.fit is not None:
        return [], []
    try:
        return schedule_rows(machine, params), []
    except UsageError as error:
        return [], [f"kernels are not scheduled: {error}"]


@command.command()
@click.argument("name", metavar="MACHINE")
@format_option
def check(name: str, output_format: str) -> None:
    """List the values of a machine that no source states: missing ones and their replacements, assumed, calibrated and
    disputed ones. A file that cannot be read is an error.

    \b
    Examples:
      penstock machines check mine.toml
      penstock machines check bts --format json
    """
    found = check_of(load_machine(name))
    if output_format == "csv":
        emit(check_rows(found), output_format)
        return
    emit(found, output_format, table=lambda console: _draw_check(console, found))


@command.command("import-kernels")
@click.argument("file", type=PATH)
@click.option("-o", "--output", required=True, type=PATH, help="Machine file (.toml) to write.")
@click.option("--name", help="Name of the machine. Default: FILE's own, or the name of the file to write.")
@click.option(
    "--word-bits",
    type=click.Choice([str(width) for width in WORDS]),
    help="Take the timings on words of this width. Needed where FILE has both.",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@quiet_option
@format_option
def import_kernels(
    file: Path, output: Path, name: str | None, word_bits: str | None, force: bool, quiet: bool, output_format: str
) -> None:
    """Make a machine of a GPU's measured kernels, with 'measured' rates, as a file for any --machine.

    FILE is CSV or JSON, one timing a row: kernel, limbs, ring_dim, word_bits, seconds, and sources for base-conversion
    and key-product. Kernels are transform, inverse-transform, base-conversion, key-product, product, scaling, sum and
    automorphism. Several numbers of limbs tell the start of a kernel from its rate. docs/machines.md has an example.

    \b
    Examples:
      penstock machines import-kernels kernels.csv -o mine.toml
      penstock machines import-kernels kernels.json -o mine64.toml --word-bits 64 --name mine-64
    """
    check_target(output, force=force)
    width = None if word_bits is None else int(word_bits)
    machine, lines = kernel_machine(read_kernels(file), file.name, name=name or output.stem, word_bits=width)
    if name is not None:
        machine = replace(machine, name=name)
    write_machine(machine, output, force=force)
    rows = line_rows(lines)
    emit(rows, output_format, table=lambda console: _draw_kernels(console, rows))
    if not quiet:
        for each in missing(machine):
            if each.field.startswith("gpu."):
                text = f"note: {each.field.rpartition('.')[2]} was not measured: {each.taken}"
                progress_console.print(text, markup=False, highlight=False)
        progress_console.print(f"machine written to {output}", markup=False, highlight=False)


def _draw_kernels(console: Console, rows: list[dict[str, Any]]) -> None:
    drawn = table_of("measured | >timings | >limbs | >rate a second | of | >start | >worst error", no_wrap=True)
    for row in rows:
        first, last = row["limbs_from"], row["limbs_to"]
        drawn.add_row(
            row["kernel"],
            str(row["timings"]),
            str(first) if first == last else f"{first}-{last}",
            f"{row['rate_per_s']:.4g}",
            row["measure"],
            format_seconds(row["start_s"]),
            f"{row['worst_error']:.1%}",
        )
    console.print(drawn)


def _draw_check(console: Console, found: dict[str, Any]) -> None:
    console.print(f"{found['name']}: {found['title']}", highlight=False, markup=False)
    if found["missing"]:
        drawn = table_of("missing | taken instead | in results | source")
        for row in found["missing"]:
            drawn.add_row(row["field"], row["taken"], "yes" if row["in_results"] else "no", row["source"])
        console.print(drawn)
    for kind in ("assumed", "calibrated"):
        if found[kind]:
            drawn = table_of(f"{kind} | value | source")
            for row in found[kind]:
                drawn.add_row(row["field"], row["text"], row["source"])
            console.print()
            console.print(drawn)
    for text in found["disputed"]:
        console.print(f"\ndisputed: {text}", highlight=False, markup=False)
    missing, assumed, calibrated = (len(found[kind]) for kind in ("missing", "assumed", "calibrated"))
    console.print(
        f"\n{missing} missing, {assumed} assumed, {calibrated} calibrated, {len(found['disputed'])} disputed",
        highlight=False,
    )


def _draw_list(console: Console, rows: list[dict[str, Any]]) -> None:
    drawn = table_of(
        "name | word | clusters x lanes | on chip | area | power | utilisation | params | assumed", no_wrap=True
    )
    for row in rows:
        values = sum(row[f"num_{kind}"] for kind in ("datasheet", "measured", "calibrated", "assumed"))
        drawn.add_row(
            row["name"],
            _shown(row["word_bits"], " bit"),
            "-" if row["lanes"] is None else f"{row['clusters']} x {row['lanes']}",
            "-" if row["on_chip_bytes"] is None else format_bytes(row["on_chip_bytes"]).split(" (")[0],
            _shown(row["area_mm2"], " mm2"),
            _shown(row["power_w"], " W"),
            "-" if row["utilisation"] is None else f"{row['utilisation']:.1%} {row['utilisation_kind']}",
            row["native_params"] or "-",
            f"{row['num_assumed']} of {values}",
        )
    console.print(drawn)
    console.print(
        "\nassumed: values that no source at hand states; 'penstock machines show NAME' has every value and source.",
        highlight=False,
    )


def _draw_machine(console: Console, machine: Machine, found: dict[str, Any]) -> None:
    console.print(f"{machine.name}: {machine.title}", highlight=False)
    if machine.description:
        console.print(machine.description, highlight=False)
    console.print(f"units {machine.overlap}: {machine.overlap_source}\n", highlight=False)
    drawn = Table(box=None, pad_edge=False)
    for column in ("value", "", "kind", "source"):
        drawn.add_column(column, no_wrap=column != "source", overflow="fold")
    for row in found["values"]:
        drawn.add_row(row["field"], row["text"], row["kind"], row["source"])
    console.print(drawn)
    if found["operations"]:
        _draw_operations(console, found, on_chip=machine.gpu is None)
    if found["schedule"]:
        _draw_schedule(console, found)
    for what in ("disputed", "warnings"):
        for text in found[what]:
            console.print(f"\n{what.removesuffix('s')}: {text}", highlight=False)


def _draw_operations(console: Console, found: dict[str, Any], *, on_chip: bool) -> None:
    row = found["parameter_set"]
    levels = "no bootstrapping" if row["effective_levels"] is None else f"{row['effective_levels']} levels after it"
    level = f"{row['security_bits']} bit" if row["security_bits"] else "no security level stated"
    console.print(
        f"\nat '{row['params']}': N = {row['ring_dim']}, {row['num_q']}+{row['num_p']} limbs, dnum {row['dnum']}, "
        f"{row['word_bits']}-bit words, {levels}, {level}; every byte {'on chip' if on_chip else 'in device memory'}",
        highlight=False,
    )
    drawn = table_of("operation | time | at peak | energy | bound by | key", no_wrap=True)
    for each in found["operations"]:
        drawn.add_row(
            each["operation"],
            shown_total(each, "seconds", format_seconds),
            shown_total(each, "peak_seconds", format_seconds),
            shown_total(each, "joules", lambda joules: f"{joules * 1e3:.3g} mJ"),
            each["bound_by"] or "-",
            format_bytes(each["key_bytes"]).split(" (")[0] if each["key_bytes"] else "-",
        )
    console.print(drawn)


def _draw_schedule(console: Console, found: dict[str, Any]) -> None:
    units = list(dict.fromkeys(unit for row in found["schedule"] for unit in row["busy"]))
    console.print(
        "\nkernels scheduled on the units, limb by limb (simulate --inside schedule), with the largest lower bound and "
        "the share of the time in which each unit works",
        highlight=False,
    )
    drawn = table_of(" | ".join(("operation", "keys", "time", "bound", "by", *units)), no_wrap=True)
    for row in found["schedule"]:
        busy = (f"{row['busy'][unit]:.0%}" if unit in row["busy"] else "-" for unit in units)
        bound = format_seconds(row["bounds_s"][row["bound"]])
        drawn.add_row(row["operation"], row["keys"], format_seconds(row["seconds"]), bound, row["bound"], *busy)
    console.print(drawn)


def _shown(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:g}{unit}"
