"""`penstock predict run`: time, energy, memory and keys of a program before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from penstock.base.system.host import available_cores
from penstock.base.system.progress import Progress
from penstock.base.types import Row, Rows
from penstock.base.units import format_bytes, format_seconds
from penstock.errors import UsageError
from penstock.front.cli.advice import advice_option, emit_advised, wants_advice
from penstock.front.cli.assumed import stated_lines
from penstock.front.cli.options import PATH, THREADS, Values, key_form_option, machine_named, priced_options
from penstock.front.cli.output import Own, draw_rows, emit, output_options, say, say_choice, with_range
from penstock.front.cli.terminal import WIDTH
from penstock.lab.simulation.words import OPTIONS
from penstock.scheme.machines import Machine
from penstock.scheme.params.rlwe import KeyForm, form_of
from penstock.scheme.unpriced import UNKNOWN, shown_total


@click.command("run")
@click.argument("target", metavar="[WORKLOAD|TRACE]", required=False)
@priced_options
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
@output_options
def command(
    target: str | None,
    machine: str | None,
    op_counts: Path | None,
    what_if: tuple[str, ...],
    contributions: int,
    advice: bool | None,
    quiet: bool,
    output_format: str,
    **asked: Any,
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
    chosen, form = machine_named(machine), form_of(asked["key_form"])
    if (target is None) == (op_counts is None):
        raise UsageError("give a workload or a trace, or --op-counts FILE: one of the two says what runs")
    if what_if and advice:
        raise UsageError("--what-if lists changes of your own: leave --advice out, or --what-if")
    remedies = None
    if target is None:
        if what_if or asked["size"] is not None or advice:
            raise UsageError(
                "--op-counts has no program to vary: leave --what-if, --size and --advice out, or name a workload"
            )
        assert op_counts is not None
        row = _counted(op_counts, asked["params"], chosen, asked["threads"], form, contributions)
    elif what_if:
        rows = _varied(target, what_if, chosen, quiet, **asked)
        emit(rows, output_format, table=lambda console: _draw_rows(console, rows))
        if impossible := sum(row["reason"] is not None for row in rows):
            say(f"{impossible} of {len(rows)} combinations are impossible; 'why not' says why", quiet=quiet)
        return
    else:
        from penstock.front.hall.predicting import predict, prediction_row

        advised = wants_advice(advice, output_format)
        result = predict(target, str(machine), **asked, spelled=OPTIONS)
        say_choice(result.note, quiet=quiet)
        remedies = result.advice().advice if advised else None
        row = prediction_row(result.prediction, result.params, chosen, contributions, result.program)

    emit_advised(row, remedies, output_format, lambda console: _draw_one(console, row, chosen))


def _counted(
    path: Path, params: str | None, machine: Machine, threads: int | None, form: KeyForm | None, shown: int
) -> Row:
    """The prediction of counts of operations."""
    from penstock.front.hall.predicting import prediction_row
    from penstock.lab.prediction.operation_counts import predict_counts, read_operation_counts
    from penstock.scheme.params import catalogue

    if params is None:
        raise UsageError("--op-counts: counts of operations say nothing without a parameter set: add --params")
    checked = catalogue.get(params)
    counted = predict_counts(read_operation_counts(path), checked, machine, threads=threads, key_form=form)
    return prediction_row(counted, checked, machine, shown, (path.name, None))


def _varied(target: str, texts: Sequence[str], machine: Machine, quiet: bool, **options: Any) -> Rows:
    """A row for each combination of the values to try."""
    from penstock.front.hall.predicting import what_if
    from penstock.front.hall.programs import at_home
    from penstock.lab.prediction.whatif_axes import read_axes

    axes = read_axes(texts)
    for name in ("threads", "key_form"):
        if options[name] is not None and name in axes:
            option = name.replace("_", "-")
            raise UsageError(f"--{option} and --what-if {option}= both list values to try: leave one of them out")
    options["params"], note = at_home(target, options["params"], options["size"], [machine])
    say_choice(note, quiet=quiet)
    words: Values = {"machine": machine, **options, **axes, "workers": available_cores(), "spelled": OPTIONS}
    with Progress(quiet=quiet).stage("what if") as stage:
        varied = what_if(target, **words, on_row=stage.update)
    return varied.to_dicts()


def _draw_one(console: Console, row: Row, machine: Machine) -> None:
    fitted = "" if row["reading"] is None else f" (fitted to the {row['reading']} reading)"
    where = f"{row['workload']} at {row['params']} on {row['machine']}{fitted}"
    threads = "" if row["threads"] is None else f", {row['threads']} thread{'s' if row['threads'] > 1 else ''}"
    console.print(f"{where}{threads}: predicted, 90 % intervals", highlight=False)
    total = partial(shown_total, row)
    times = {"server": "server_s", "encryption and decryption": "client_s", "encoding": "encode_s"}
    times |= {"recording": "recording_s"}
    parts = ", ".join(f"{what} {total(name, format_seconds)}" for what, name in times.items())
    is_whole = any(row[name] for name in ("client_s", "encode_s", "recording_s"))
    energy = total("predicted_j", lambda j: with_range(j, row["low_j"], row["high_j"], "{:.4g} J".format), UNKNOWN)
    memory = row["low_peak_bytes"], row["high_peak_bytes"]
    count, touched = total("num_operations", "{:,}".format), total("key_bytes_touched", format_bytes)
    texts = {
        "time": total("predicted_s", lambda s: with_range(s, row["low_s"], row["high_s"], format_seconds)),
        "": parts if is_whole else "server only",
        "energy": energy + ("" if row["energy_kind"] in (None, "measured") else f" ({row['energy_kind']})"),
        "idle energy": "" if row["idle_j"] is None else f"{row['idle_j']:.4g} J in that time without work",
        "peak memory": total("peak_bytes", lambda n: with_range(n, *memory, format_bytes)),
        "keys": ", ".join(dict.fromkeys([total("num_keys", str), total("key_bytes", format_bytes)])),
        "operations": UNKNOWN if UNKNOWN in (count, touched) else f"{count}; they read {touched} of keys",
    }
    lines = ({"what": what, "text": text} for what, text in texts.items() if text)
    draw_rows(console, lines, "what | text", show_header=False)
    if row["contributions"]:
        columns = "operation=kind | >limbs | >count=count:{:,} | >time=seconds:seconds | >share=share:{:.1%} "
        draw_rows(console, row["contributions"], columns + "| >calibrated=factor:x {:.3f}")
    for warning in row["warnings"]:
        console.print(f"warning: {warning}", highlight=False, soft_wrap=True, markup=False)
    for line in stated_lines(machine.name, row["assumptions"]):
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def _draw_rows(console: Console, rows: Sequence[Row]) -> None:
    columns = ">ring dim=ring_dim | >depth | >dnum | >security=security_bits | >keys=key_form | >machine | >threads "
    columns += (
        "| >time=predicted_s | >from=low_s | >to=high_s | >energy=predicted_j:{:.4g} J | >peak memory=peak_bytes "
    )
    columns += "| >key bytes=key_bytes | >bootstraps | why not"
    why: Own = {"why not": lambda row: (row["reason"] or "")[:WIDTH]}
    draw_rows(console, rows, columns, why, wide=True, no_wrap="why not")
