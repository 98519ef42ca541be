"""`penstock params`: the parameter sets, their values, and the sizes of their keys and data."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.console import Console

from penstock.base.types import Row, RowView
from penstock.base.units import format_bytes
from penstock.errors import UsageError
from penstock.front.cli.key_forms import draw_forms
from penstock.front.cli.lazy import NamedVerbs
from penstock.front.cli.options import key_form_option, seed_option, size_option
from penstock.front.cli.output import Own, draw_rows, emit, format_option
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.params.spec import modulus_bits
from penstock.scheme.unpriced import shown_total


@click.group(cls=NamedVerbs)
def command() -> None:
    """Parameter sets: list and show them, and say how big keys and ciphertexts are before any is made.

    SET is a name of `penstock params list` or the path of a .toml file.

    \b
    Examples:
      penstock params list
      penstock params show sharp
      penstock params show openfhe-demo --toml > mine.toml
      penstock params size openfhe-bench --rotations 1,2,4,8
      penstock params size mine.toml --workload logistic-regression
    """


@command.command("list")
@format_option
def list_sets(output_format: str) -> None:
    """Every named set, one a row.

    \b
    Example:
      penstock params list --format json
    """
    sets = [catalogue.get(name) for name in catalogue.names()]
    rows = [catalogue.set_row(params) for params in sets]
    emit(rows, output_format, table=lambda console: _draw_list(console, rows, {params.name: params for params in sets}))


@command.command()
@click.argument("name", metavar="SET")
@click.option("--toml", "as_toml", is_flag=True, help="Print the set as a file that can be edited and used as SET.")
@format_option
def show(name: str, as_toml: bool, output_format: str) -> None:
    """Show every value of a set, the values derived from them, and its security level.

    \b
    Examples:
      penstock params show sharp
      penstock params show openfhe-demo --toml > mine.toml
    """
    params = catalogue.get(name)
    if as_toml:
        click.echo(catalogue.spec(name).to_toml(), nl=False)
        return
    emit(_values(params), output_format, table=lambda console: _draw_values(console, params))


@command.command()
@click.argument("name", metavar="SET")
@click.option("--rotations", metavar="STEPS", help="Rotations whose keys are counted, in slots: 1,2,4,-1.")
@click.option("--workload", metavar="WORKLOAD", help="Count the keys that this workload uses ('penstock workloads').")
@size_option
@seed_option
@key_form_option
@format_option
def size(name: str, rotations: str | None, workload: str | None, output_format: str, **asked: Any) -> None:
    """Show the sizes of keys, ciphertexts and plaintexts of a set without making any.

    SET is a name, a .toml file, or a package (.pkg), whose keys are counted. Without --rotations or --workload only the
    relinearization key of another set is counted. With --workload the keys are counted in
    every form: truncated keys have only the rows that the workload reads.

    \b
    Examples:
      penstock params size openfhe-bench
      penstock params size openfhe-bench --rotations 1,2,4,8
      penstock params size sharp --workload logistic-regression --size helr --format json
      penstock params size openfhe-bootstrap --workload bootstrapping --key-form seeded+truncated
      penstock params size model.pkg
    """
    from penstock.front.hall.catalogues import sizes

    if name.endswith(".pkg"):
        from penstock.program.workloads import packaged

        workload = name if workload is None else workload
        params = packaged.load(name).PACKAGE.params
    else:
        params = catalogue.get(name)
    if asked["size"] is not None and workload is None:
        raise UsageError("--size names the size of a workload: add --workload")
    steps = None if rotations is None else _steps(rotations)
    report = sizes(params, rotations=steps, program=workload, **asked).report
    emit(report, output_format, table=lambda console: _draw_sizes(console, params, report))


def _steps(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"rotations '{text}' are not whole numbers with commas; write for example 1,2,4") from error


def _values(params: CkksParameters) -> Row:
    log_q, log_qp = modulus_bits(params)
    derived = {name: getattr(params, name) for name in ("num_q", "num_p", "depth", "digit_limbs")}
    return {**params.to_dict(), **derived, "log_q": log_q, "log_qp": log_qp}


def _level(params: CkksParameters) -> str:
    if params.security_bits:
        return f"{params.security_bits} bit"
    return "insecure" if params.security_note.startswith("insecure") else "not stated"


def _draw_list(console: Console, rows: Sequence[RowView], sets: Mapping[str, CkksParameters]) -> None:
    own: Own = {
        "runs": lambda row: "yes" if row["library"] == "openfhe" else "-",
        "N": lambda row: _power(row["ring_dim"]),
        "limbs": lambda row: f"{row['num_q']}+{row['num_p']}",
        "security": lambda row: _level(sets[row["name"]]),
    }
    columns = "name | runs | N | Q+P=limbs | dnum | security | >one key, full=rotation_key_bytes:bytes"
    draw_rows(console, rows, columns, own, no_wrap=True)
    console.print("\nruns: can be run here with OpenFHE; the others are for traces and simulation. Q+P: limbs.")


def _draw_values(console: Console, params: CkksParameters) -> None:
    hidden = ("source", "assumed", "security_note", "security_bits", "security_asked")
    values = _values(params)
    rows = [
        {"name": name, "value": _shown(name, values), "": "assumed" if name in params.assumed else ""}
        for name in values
        if name not in hidden
    ]
    draw_rows(console, rows, "name | value | ", fold=True, pad_edge=False, show_header=False)
    asked = f"{params.security_asked} bit" if params.security_asked else "none"
    console.print(f"security: {params.security_note}; asked for: {asked}", highlight=False)
    if params.source:
        console.print(f"source: {params.source}", highlight=False)


def _shown(name: str, values: RowView) -> str:
    value = values[name]
    if name in ("ring_dim", "slots"):
        return f"{value} ({_power(value)})"
    if name in ("q_bits", "p_bits"):
        return _runs(value)
    if name in ("q_primes", "p_primes"):
        return ", ".join(map(hex, value))
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    return "-" if value is None else str(getattr(value, "value", value))


def _runs(sizes: tuple[int, ...]) -> str:
    """Prime sizes as runs of equal ones: `1 x 60, 10 x 50`."""
    return ", ".join(f"{len(list(run))} x {bits}" for bits, run in itertools.groupby(sizes))


def _power(value: int) -> str:
    return f"2^{value.bit_length() - 1}"


_SHOWN_SIZES = {
    "rotation_key_bytes": "one rotation key, full",
    "relinearization_key_bytes": "relinearization key, full",
    "seeded_key_bytes": "one key, uniform half as a seed",
    "ciphertext_bytes": "fresh ciphertext",
    "plaintext_bytes": "plaintext, all limbs",
}


def _draw_sizes(console: Console, params: CkksParameters, report: RowView) -> None:
    exactness = report["exactness"]
    chain = f"{params.num_q}+{params.num_p} limbs, dnum {params.dnum}, {params.word_bits}-bit words"
    console.print(f"{params.name}: N={_power(params.ring_dim)}, {chain}; {_level(params)}", highlight=False)
    keys = f"{shown_total(report, 'num_keys', str)} {'key' if report['num_keys'] == 1 else 'keys'}"
    labels = _SHOWN_SIZES | {"total_key_bytes": f"{keys} as stored ({report['key_form']})"}
    sizes = {name: shown_total(report, name, format_bytes, "") for name in labels}
    lines = ({"what": labels[name], "size": size, "is": exactness[name]} for name, size in sizes.items() if size)
    draw_rows(console, lines, "what | >size | is", no_wrap=True, show_header=False)
    if params.library == "openfhe":
        console.print("Full keys and ciphertexts are the files that OpenFHE writes, headers included.")
    if report["key_forms"] is not None:
        draw_forms(console, report["key_forms"], report["key_limbs"])
    console.print(f"\nBy limbs left: one key as stored ({report['key_form']}), and a ciphertext (coefficients)")
    key = "seeded_key_bytes" if KeyForm(report["key_form"]).is_seeded else "full_key_bytes"
    columns = f">limbs | >digits=active_digits | >key={key}:bytes | >ciphertext=ciphertext_bytes:bytes"
    draw_rows(console, _steps_of_digits(report["key_bytes_by_limbs"]), columns, no_wrap=True)
    console.print(f"\nsecurity: {report['security_note']}", highlight=False)
    if params.assumed:
        console.print(f"assumed, no source states them: {', '.join(params.assumed)}", highlight=False)


def _steps_of_digits(rows: list[dict[str, int]]) -> list[dict[str, int]]:
    """The full chain, where a key falls by a digit, and the last limb; the whole table is in JSON."""
    above = [rows[0], *rows[:-1]]
    return [
        row
        for before, row in zip(above, rows, strict=True)
        if row in (rows[0], rows[-1]) or row["active_digits"] != before["active_digits"]
    ]
