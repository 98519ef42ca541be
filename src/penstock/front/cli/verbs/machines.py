"""`penstock machines`: the accelerators, CPUs and GPUs that price operations, and where each value comes from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from penstock.base.system.files import check_target
from penstock.base.types import Row, Rows
from penstock.base.units import format_named
from penstock.errors import UsageError
from penstock.front.cli.lazy import NamedVerbs
from penstock.front.cli.options import PATH
from penstock.front.cli.output import Own, draw_rows, emit, format_option, output_options, say
from penstock.lab.fit.kernel_rates import WORDS, kernel_machine, line_rows, read_kernels
from penstock.lab.prediction import machine_tables
from penstock.scheme.machines import Machine, Overlap, load_machine, machine_names
from penstock.scheme.machines.missing import missing
from penstock.scheme.machines.written import write_machine
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.unpriced import shown_total


@click.group(cls=NamedVerbs)
def command() -> None:
    """Machines that price operations: accelerators, GPUs, and CPUs fitted to measurements.

    MACHINE is a name of `penstock machines list` or the path of a .toml file. How to write one:
    docs/guides/machines.md.

    \b
    Examples:
      penstock machines list
      penstock machines show ark
      penstock machines show mine.toml --params sharp --format json
      penstock machines check mine.toml
      penstock machines import-kernels kernels.csv -o mine.toml
    """


@command.command("list")
@click.option("--markdown", "as_markdown", is_flag=True, help="The tables of docs/guides/machines.md.")
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
        click.echo(machine_tables.markdown(machines), nl=False)
        return
    rows = [machine_tables.machine_row(machine) for machine in machines]
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
    facts: Row = {
        **machine_tables.machine_row(machine),
        "description": machine.description,
        "overlap_source": machine.overlap_source,
        "parameter_set": None if params is None else machine_tables.set_row(params),
        "operations": [] if params is None else machine_tables.operation_rows(machine, params),
        "schedule": scheduled,
        "values": machine_tables.value_rows(machine),
        "disputed": list(machine.disputed),
        "warnings": refused if params is None else [*machine.warnings(params), *refused],
    }
    emit(facts, output_format, table=lambda console: _draw_machine(console, machine, facts))


def _scheduled(machine: Machine, params: CkksParameters) -> tuple[Rows, list[str]]:
    """Operations scheduled on the units, or why they cannot be; nothing for machines whose kernels run in turn."""
    if machine.overlap is not Overlap.PIPELINED or machine.fit is not None:
        return [], []
    try:
        return machine_tables.schedule_rows(machine, params), []
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
    findings = machine_tables.check_of(load_machine(name))
    if output_format == "csv":
        emit(machine_tables.check_rows(findings), output_format)
        return
    emit(findings, output_format, table=lambda console: _draw_check(console, findings))


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
@output_options
def import_kernels(
    file: Path, output: Path, name: str | None, word_bits: str | None, force: bool, quiet: bool, output_format: str
) -> None:
    """Make a machine of a GPU's measured kernels, with 'measured' rates, as a file for any --machine.

    FILE is CSV or JSON, one timing a row: kernel, limbs, ring_dim, word_bits, seconds, and sources for base-conversion
    and key-product. Kernels are transform, inverse-transform, base-conversion, key-product, product, scaling, sum and
    automorphism. Several numbers of limbs tell the start of a kernel from its rate. docs/guides/machines.md has an
    example.

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
    for absent in missing(machine):
        if absent.field.startswith("gpu."):
            say(f"note: {absent.field.rpartition('.')[2]} was not measured: {absent.taken}", quiet=quiet)
    say(f"machine written to {output}", quiet=quiet)


def _draw_kernels(console: Console, rows: Rows) -> None:
    draw_rows(
        console,
        rows,
        "measured=kernel | >timings | >limbs | >rate a second=rate_per_s:{:.4g} | of=measure | >start=start_s "
        "| >worst error=worst_error:{:.1%}",
        {"limbs": lambda row: "-".join(dict.fromkeys(map(str, (row["limbs_from"], row["limbs_to"]))))},
        no_wrap=True,
    )


def _draw_check(console: Console, findings: Row) -> None:
    console.print(f"{findings['name']}: {findings['title']}", highlight=False, markup=False)
    if findings["missing"]:
        in_results = {"in_results": lambda row: "yes" if row["in_results"] else "no"}
        columns = "missing=field | taken instead=taken | in results=in_results | source"
        draw_rows(console, findings["missing"], columns, in_results)
    for kind in ("assumed", "calibrated"):
        if findings[kind]:
            console.print()
            draw_rows(console, findings[kind], f"{kind}=field | value=text | source")
    for text in findings["disputed"]:
        console.print(f"\ndisputed: {text}", highlight=False, markup=False)
    missing, assumed, calibrated = (len(findings[kind]) for kind in ("missing", "assumed", "calibrated"))
    console.print(
        f"\n{missing} missing, {assumed} assumed, {calibrated} calibrated, {len(findings['disputed'])} disputed",
        highlight=False,
    )


def _draw_list(console: Console, rows: Rows) -> None:
    kinds = ("datasheet", "measured", "calibrated", "assumed")
    own: Own = {
        "units": lambda row: "-" if row["lanes"] is None else f"{row['clusters']} x {row['lanes']}",
        "utilisation": lambda row: (
            "-" if row["utilisation"] is None else f"{row['utilisation']:.1%} {row['utilisation_kind']}"
        ),
        "assumed": lambda row: f"{row['num_assumed']} of {sum(row[f'num_{kind}'] for kind in kinds)}",
    }
    columns = (
        "name | word=word_bits:{:g} bit | clusters x lanes=units | on chip=on_chip_bytes | area=area_mm2:{:g} mm2 "
    )
    columns += "| power=power_w:{:g} W | utilisation | params=native_params | assumed"
    draw_rows(console, rows, columns, own, no_wrap=True)
    console.print(
        "\nassumed: values that no source at hand states; 'penstock machines show NAME' has every value and source.",
        highlight=False,
    )


def _draw_machine(console: Console, machine: Machine, facts: Row) -> None:
    console.print(f"{machine.name}: {machine.title}", highlight=False)
    if machine.description:
        console.print(machine.description, highlight=False)
    console.print(f"units {machine.overlap}: {machine.overlap_source}\n", highlight=False)
    draw_rows(
        console, facts["values"], "value=field | =text | kind | source", no_wrap="source", fold=True, pad_edge=False
    )
    if facts["operations"]:
        _draw_operations(console, facts, on_chip=machine.gpu is None)
    if facts["schedule"]:
        _draw_schedule(console, facts)
    for what in ("disputed", "warnings"):
        for text in facts[what]:
            console.print(f"\n{what.removesuffix('s')}: {text}", highlight=False)


def _draw_operations(console: Console, facts: Row, *, on_chip: bool) -> None:
    row = facts["parameter_set"]
    levels = "no bootstrapping" if row["effective_levels"] is None else f"{row['effective_levels']} levels after it"
    level = f"{row['security_bits']} bit" if row["security_bits"] else "no security level stated"
    console.print(
        f"\nat '{row['params']}': N = {row['ring_dim']}, {row['num_q']}+{row['num_p']} limbs, dnum {row['dnum']}, "
        f"{row['word_bits']}-bit words, {levels}, {level}; every byte {'on chip' if on_chip else 'in device memory'}",
        highlight=False,
    )
    columns = "operation | time=seconds:seconds | at peak=peak_seconds:seconds | energy | bound by=bound_by | key"
    own: Own = {
        "energy": lambda row: shown_total(row, "joules", lambda joules: f"{joules * 1e3:.3g} mJ"),
        "key": lambda row: format_named("key_bytes", row["key_bytes"] or None),
    }
    draw_rows(console, facts["operations"], columns, own, no_wrap=True)


def _draw_schedule(console: Console, facts: Row) -> None:
    units = list(dict.fromkeys(unit for row in facts["schedule"] for unit in row["busy"]))
    console.print(
        "\nkernels scheduled on the units, limb by limb (simulate --inside schedule), with the largest lower bound and "
        "the share of the time in which each unit works",
        highlight=False,
    )
    rows = [
        {
            **row,
            **{f"{unit} busy": share for unit, share in row["busy"].items()},
            "bound_s": row["bounds_s"][row["bound"]],
        }
        for row in facts["schedule"]
    ]
    busy = "".join(f" | {unit}={unit} busy:{{:.0%}}" for unit in units)
    columns = f"operation | keys | time=seconds:seconds | bound=bound_s | by=bound{busy}"
    draw_rows(console, rows, columns, no_wrap=True)
