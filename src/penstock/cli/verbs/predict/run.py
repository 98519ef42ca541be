"""`penstock predict run`: time, energy, memory and keys of a program before it runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from penstock.cli.advice import advice_option, draw_advice, wants_advice
from penstock.cli.assumed import KINDS
from penstock.cli.options import PATH, THREADS, key_form_option, params_on_machine_option, quiet_option, size_option
from penstock.cli.output import emit, format_option, progress_console, say_choice, table_of, with_range
from penstock.cli.terminal import WIDTH, print_wide
from penstock.errors import UsageError
from penstock.machines import Machine, assumptions, load_machine, machine_names
from penstock.params.ckks import CkksParameters
from penstock.params.rlwe import KeyForm, form_of
from penstock.simulation.words import OPTIONS
from penstock.system.progress import Progress
from penstock.traces import is_trace_file
from penstock.units import format_bytes, format_seconds
from penstock.unpriced import UNKNOWN, shown_total

if TYPE_CHECKING:
    from penstock.advice.remedy import Advice
    from penstock.prediction.prediction import Prediction
    from penstock.prediction.whatif import Program


@click.command("run")
@click.argument("target", metavar="[WORKLOAD|TRACE]", required=False)
@click.option("--machine", help="A machine's name or .toml file; 'penstock predict fit' writes one.")
@params_on_machine_option
@size_option
@click.option("--threads", type=THREADS, help="Threads inside one operation. Default: the machine's own.")
@key_form_option
@click.option(
    "--op-counts",
    type=PATH,
    help="Counts instead of a program, with --params: a CSV, JSON or YAML file of operation,count[,limbs].",
)
@click.option(
    "--what-if",
    "what_if",
    multiple=True,
    metavar="AXIS=VALUES|FILE.toml",
    help="One row for each combination: ring-dim, depth, dnum, security, key-form, machine, threads; may be repeated.",
)
@click.option(
    "--contributions",
    type=click.IntRange(min=0),
    default=10,
    help="Number of the largest contributions to list, by operation and limbs.",
)
@advice_option
@quiet_option
@format_option
def command(
    target: str | None,
    machine: str | None,
    params: str | None,
    size: str | None,
    threads: int | None,
    key_form: str | None,
    op_counts: Path | None,
    what_if: tuple[str, ...],
    contributions: int,
    advice: bool | None,
    quiet: bool,
    output_format: str,
) -> None:
    """Predict time and energy of a program, with 90 % intervals, its peak memory, with the range of runs that it was
    calibrated to, and its key bytes. Nothing is executed.

    A machine that is fitted to encode, encrypt and decrypt runs the whole program; any other runs the server's part. An
    unknown value is null, and a warning gives the reason. Last comes what would help most, each change predicted.

    \b
    Examples:
      penstock predict run resnet20 --size full --machine mine.toml --threads 2
      penstock predict run logistic-regression --params sharp --machine sharp --format json
      penstock predict run score.py --params sharp --machine sharp
      penstock predict run resnet20 --machine mine.toml --what-if ring-dim=2^15,2^16 --what-if depth=26..32 --format csv
      penstock predict run --op-counts counts.csv --params openfhe-demo --machine mine.toml
    """
    chosen = load_machine(machine) if machine else None
    if chosen is None:
        raise UsageError(f"name a machine: --machine {'|'.join(machine_names())}, or a .toml file of your own")
    form = form_of(key_form)
    if (target is None) == (op_counts is None):
        raise UsageError("give a workload or a trace, or --op-counts FILE: one of the two says what runs")
    if op_counts is not None:
        if what_if or size is not None or advice:
            raise UsageError(
                "--op-counts has no program to vary: leave --what-if, --size and --advice out, or name a workload"
            )
        _emit_counts(op_counts, params, chosen, threads, form, contributions, output_format)
        return
    assert target is not None
    from penstock.hall.predicting import counted_of
    from penstock.hall.programs import at_home, trace_of

    taken, note = at_home(target, params, size, [chosen])
    say_choice(None if quiet else note)
    program = counted_of(target, taken, size, OPTIONS)
    advised = wants_advice(advice, output_format)
    if what_if:
        if advice:
            raise UsageError("--what-if lists changes of your own: leave --advice out, or --what-if")
        _emit_rows(program, what_if, chosen, threads, form, quiet, output_format)
        return
    from penstock.prediction.prediction import predict

    found = predict(program.count([program.params])[0], chosen, threads=threads, key_form=form)
    remedies = None
    if advised:
        from penstock.advice.predicted import Predicts, advise

        assert machine is not None
        own = is_trace_file(target)
        remedies = advise(
            Predicts(
                program=program, found=found, machine=chosen, target=target, machine_text=machine,
                params=None if own or taken is None else str(taken), size=size, threads=threads, key_form=form,
                trace=(lambda: trace_of(target, None, None)) if own else None,
            )
        )  # fmt: skip
    _emit_one(found, program.title, program.params, program.size, chosen, contributions, output_format, remedies)


def _emit_counts(
    path: Path, params: str | None, machine: Machine, threads: int | None, form: KeyForm | None, shown: int, fmt: str
) -> None:
    from penstock.params import catalogue
    from penstock.prediction.operation_counts import predict_counts, read_operation_counts

    if params is None:
        raise UsageError("--op-counts: counts of operations say nothing without a parameter set: add --params")
    checked = catalogue.get(params)
    found = predict_counts(read_operation_counts(path), checked, machine, threads=threads, key_form=form)
    _emit_one(found, path.name, checked, None, machine, shown, fmt)


def _emit_rows(
    program: Program,
    texts: Sequence[str],
    machine: Machine,
    threads: int | None,
    form: KeyForm | None,
    quiet: bool,
    fmt: str,
) -> None:
    from penstock.prediction.whatif import what_if
    from penstock.prediction.whatif_axes import read_axes

    axes = read_axes(texts)
    for option, given, values in (("threads", threads, axes.threads), ("key-form", form, axes.key_form)):
        if given is not None and values:
            raise UsageError(f"--{option} and --what-if {option}= both list values to try: leave one of them out")
    with Progress(quiet=quiet).stage("what if", total=len(axes)) as stage:
        rows = what_if(
            program,
            axes,
            machine,
            threads=threads,
            key_form=form,
            workers=processes(),
            on_row=lambda done, total: stage.update(done, total=total),
        )
    emit(rows, fmt, table=lambda console: _draw_rows(console, rows))
    impossible = sum(row["reason"] is not None for row in rows)
    if impossible and not quiet:
        progress_console.print(f"{impossible} of {len(rows)} combinations are impossible; 'why not' says why")


def processes() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _emit_one(
    found: Prediction,
    workload: str,
    params: CkksParameters,
    size: str | None,
    machine: Machine,
    shown: int,
    fmt: str,
    advice: Advice | None = None,
) -> None:
    memory = found.memory if found.peak_bytes is not None else None
    row: dict[str, Any] = {
        "predicted_s": found.predicted_s, "low_s": found.low_s, "high_s": found.high_s,
        "predicted_j": found.predicted_j, "low_j": found.low_j, "high_j": found.high_j,
        "idle_j": found.energy.idle_j, "energy_kind": None if found.energy.kind is None else found.energy.kind.value,
        "peak_bytes": found.peak_bytes,
        "low_peak_bytes": None if memory is None else memory.low_bytes,
        "high_peak_bytes": None if memory is None else memory.high_bytes,
        "key_bytes": found.key_bytes, "key_bytes_touched": found.key_bytes_touched, "num_keys": found.num_keys,
        "num_operations": found.num_operations,
        "server_s": found.server_s, "client_s": found.client_s, "encode_s": found.encode_s,
        "recording_s": found.recording_s, "unpriced": found.unpriced, "at_least": found.at_least,
        "warnings": list(found.warnings),
        "contributions": [
            {"kind": c.kind, "limbs": c.limbs, "count": c.count, "seconds": c.seconds, "share": c.share,
             "factor": _factor(machine, c.kind, params.ring_dim, c.limbs, found.threads)}
            for c in found.contributions[:shown]
        ],
        "provenance": "predicted", "workload": workload, "params": params.name, "size": size, "machine": machine.name,
        "reading": None if machine.fit is None else machine.fit.reading,
        "threads": found.threads, "assumptions": assumptions(machine),
    }  # fmt: skip
    if advice is not None:
        row["advice"] = advice.to_dict()

    def drawn(console: Console) -> None:
        _draw_one(console, row, machine)
        if advice is not None:
            draw_advice(console, advice)

    emit(row, fmt, table=drawn)


def _factor(machine: Machine, kind: str, ring_dim: int, limbs: int, threads: int | None) -> float | None:
    """The calibrated factor on the kernel work of an operation; `None` without a calibration for its kind."""
    known = machine.calibrated
    if known is None or kind not in known.factors:
        return None
    return known.factor(kind, ring_dim, limbs, threads or 1)


def _draw_one(console: Console, row: dict[str, Any], machine: Machine) -> None:
    fitted = "" if row["reading"] is None else f" (fitted to the {row['reading']} reading)"
    where = f"{row['workload']} at {row['params']} on {row['machine']}{fitted}"
    threads = "" if row["threads"] is None else f", {row['threads']} thread{'s' if row['threads'] > 1 else ''}"
    console.print(f"{where}{threads}: predicted, 90 % intervals", highlight=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    total = partial(shown_total, row)
    parts_of_time = (
        ("server", "server_s"), ("encryption and decryption", "client_s"), ("encoding", "encode_s"),
        ("recording", "recording_s"),
    )  # fmt: skip
    for label, text in (
        ("time", total("predicted_s", lambda s: with_range(s, row["low_s"], row["high_s"], format_seconds))),
        (
            "",
            ", ".join(f"{what} {total(name, format_seconds)}" for what, name in parts_of_time)
            if any(row[name] for name in ("client_s", "encode_s", "recording_s"))
            else "server only",
        ),
        (
            "energy",
            total("predicted_j", lambda j: with_range(j, row["low_j"], row["high_j"], "{:.4g} J".format), UNKNOWN)
            + ("" if row["energy_kind"] in (None, "measured") else f" ({row['energy_kind']})"),
        ),
        *([("idle energy", f"{row['idle_j']:.4g} J in that time without work")] if row["idle_j"] is not None else []),
        (
            "peak memory",
            total("peak_bytes", lambda n: with_range(n, row["low_peak_bytes"], row["high_peak_bytes"], format_bytes)),
        ),
        ("keys", ", ".join(dict.fromkeys([total("num_keys", str), total("key_bytes", format_bytes)]))),
        (
            "operations",
            f"{total('num_operations', '{:,}'.format)}; they read {total('key_bytes_touched', format_bytes)} of keys"
            if UNKNOWN not in (total("num_operations", str), total("key_bytes_touched", str))
            else UNKNOWN,
        ),
    ):
        table.add_row(label, text)
    console.print(table)
    parts = table_of("operation | >limbs | >count | >time | >share | >calibrated")
    for part in row["contributions"]:
        parts.add_row(
            part["kind"],
            str(part["limbs"]),
            f"{part['count']:,}",
            format_seconds(part["seconds"]),
            "-" if part["share"] is None else f"{part['share']:.1%}",
            "-" if part["factor"] is None else f"x {part['factor']:.3f}",
        )
    if row["contributions"]:
        console.print(parts)
    for warning in row["warnings"]:
        console.print(f"warning: {warning}", highlight=False, soft_wrap=True, markup=False)
    for kind in KINDS:
        stated = [f"{each['field']} {each['value']}" for each in row["assumptions"] if each["kind"] == kind]
        if stated:
            console.print(f"{machine.name}, {kind}: {'; '.join(stated)}", highlight=False, soft_wrap=True, markup=False)


def _draw_rows(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    columns = (
        ("ring dim", "ring_dim", str), ("depth", "depth", str), ("dnum", "dnum", str),
        ("security", "security_bits", str), ("keys", "key_form", str), ("machine", "machine", str),
        ("threads", "threads", str), ("time", "predicted_s", format_seconds), ("from", "low_s", format_seconds),
        ("to", "high_s", format_seconds), ("energy", "predicted_j", lambda j: f"{j:.4g} J"),
        ("peak memory", "peak_bytes", lambda n: format_bytes(n).split(" (")[0]),
        ("key bytes", "key_bytes", lambda n: format_bytes(n).split(" (")[0]), ("bootstraps", "bootstraps", str),
    )  # fmt: skip
    table = Table(box=None, pad_edge=False)
    for title, _, _ in columns:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("why not")
    for row in rows:
        cells = [shown_total(row, name, text) for _, name, text in columns]
        table.add_row(*cells, (row["reason"] or "")[:WIDTH])
    print_wide(console, table)
