"""Machines as rows, made from their files, for `penstock machines` and the documentation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace

from penstock.base.types import Row, Rows
from penstock.base.units import format_bytes
from penstock.errors import ParamsError
from penstock.program.evaluator.circuits.bootstrap import refreshed_levels
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.missing import missing
from penstock.scheme.machines.schema import Machine
from penstock.scheme.operations import OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.unpriced import bounded
from penstock.scheme.work.kernels import kernel_work

SCHEDULED_OPERATIONS = (OpKind.ROTATE, OpKind.ROTATE_HOISTED, OpKind.MULT)
SHOWN_OPERATIONS = (OpKind.ROTATE, OpKind.ROTATE_HOISTED, OpKind.MULT, OpKind.MULT_PLAIN, OpKind.RESCALE, OpKind.ADD)


def machine_row(machine: Machine) -> Row:
    """One machine as a flat row, in base units (areas in mm2, processes in nm); `None` where no file says it."""
    made = machine.architecture
    kinds = Counter(figure.kind for _, figure in machine.figures())
    return {
        "name": machine.name,
        "title": machine.title,
        "native_params": machine.native_params,
        "overlap": machine.overlap.value,
        "clock_hz": _value(machine.clock),
        "word_bits": _whole(made.word),
        "clusters": _whole(made.clusters),
        "lanes": _whole(made.lanes),
        "on_chip_bytes": machine.on_chip_bytes or None,
        "off_chip_bytes_per_s": _value(made.off_chip),
        "area_mm2": _value(made.area),
        "technology_nm": _value(made.technology),
        "power_w": machine.watts,
        "utilisation": _value(machine.utilisation),
        "utilisation_kind": machine.utilisation.kind.value if machine.utilisation else None,
        **{f"num_{kind.value}": kinds[kind] for kind in Evidence},
    }


def value_rows(machine: Machine) -> Rows:
    """Every value of a machine: where it is in the file, in base units, as written, how far to trust it and why."""
    return [
        {"field": path, "value": figure.value, "text": figure.text, "kind": figure.kind.value, "source": figure.source}
        for path, figure in machine.figures()
    ]


def check_of(machine: Machine) -> Row:
    """The values of a machine that no source states: `missing` (with the `taken` value), `assumed`, `calibrated`; and
    `disputed` ones."""
    absent = missing(machine)
    fields = {absence.field for absence in absent}
    check: Row = {
        "name": machine.name,
        "title": machine.title,
        "missing": [asdict(absence) for absence in absent],
    }
    for kind in (Evidence.ASSUMED, Evidence.CALIBRATED):
        check[kind.value] = [
            row for row in value_rows(machine) if row["kind"] == kind.value and row["field"] not in fields
        ]
    return check | {"disputed": list(machine.disputed)}


def check_rows(check: Row) -> Rows:
    """`check_of` as flat rows, one a value."""
    rows = [("missing", row["field"], row["taken"], row["in_results"], row["source"]) for row in check["missing"]]
    for kind in (Evidence.ASSUMED.value, Evidence.CALIBRATED.value):
        rows += [(kind, row["field"], row["text"], None, row["source"]) for row in check[kind]]
    rows += [("disputed", None, text, None, None) for text in check["disputed"]]
    names = ("kind", "field", "value", "in_results", "source")
    return [{"machine": check["name"], **dict(zip(names, row, strict=True))} for row in rows]


def operation_rows(machine: Machine, params: CkksParameters) -> Rows:
    """What operations at all limbs of a set cost: seconds, joules (`None` without a power), what binds, key bytes.

    `peak_seconds` are those with every unit at its peak rate: no utilisation makes the machine faster than that.
    """
    rows, at_peak = [], replace(machine, utilisation=None)
    for kind in SHOWN_OPERATIONS:
        work = kernel_work(kind, params, params.num_q)
        cost = machine.price(work)
        row = {
            "operation": kind.value,
            "params": params.name,
            "limbs": params.num_q,
            "seconds": cost.seconds,
            "peak_seconds": at_peak.price(work).seconds,
            "joules": cost.joules,
            "bound_by": cost.bound_by,
            "key_bytes": work.key_bytes,
        }
        unpriced = {kind.value: 1} if machine.lacks(work) else {}
        rows.append(bounded(row, unpriced, ("seconds", "peak_seconds", "joules"), ("bound_by",)))
    return rows


def schedule_rows(machine: Machine, params: CkksParameters) -> Rows:
    """Operations at all limbs of a set, scheduled kernel by kernel: seconds, lower bounds, busy shares of units.

    Each is there with every byte on chip, and with keys from the machine's own memory if it states one.

    Raises: UsageError, MachineError: as `schedule_operation`.
    """
    from penstock.scheme.play.schedule import schedule_operation  # at use: it loads the engine

    rows = []
    for kind in SCHEDULED_OPERATIONS:
        for loads in (False, True) if machine.architecture.off_chip is not None else (False,):
            schedule, _ = schedule_operation(kind, params, params.num_q, machine, loads=loads)
            rows.append(
                {
                    "operation": kind.value,
                    "params": params.name,
                    "limbs": params.num_q,
                    "keys": "own memory" if loads else "on chip",
                    "seconds": schedule.total_s,
                    "bound": schedule.bound,
                    "bounds_s": schedule.bounds_s,
                    "busy": schedule.busy_shares,
                }
            )
    return rows


def set_row(params: CkksParameters) -> Row:
    """A machine's own parameter set in short; `effective_levels` are the levels after a bootstrapping."""
    try:
        levels: int | None = refreshed_levels(params)
    except ParamsError:
        levels = None
    return {
        "params": params.name,
        **{name: getattr(params, name) for name in ("ring_dim", "num_q", "num_p", "dnum", "word_bits")},
        "key_form": params.key_form.value,
        "effective_levels": levels,
        "security_bits": params.security_bits,
        "assumed": list(params.assumed),
    }


def markdown(machines: Sequence[Machine]) -> str:
    """Two tables in Markdown: the machines, and their parameter sets. A value that is only assumed is in italics."""
    lines = [
        "| machine | clock | word | clusters × lanes | on chip | own memory | area | process | power | utilisation |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for machine in machines:
        made = machine.architecture
        cells = (
            _text(machine.clock), _text(made.word), _lanes(machine), _on_chip(machine), _text(made.off_chip),
            _text(made.area), _text(made.technology), _text(machine.stated_power), _text(machine.utilisation),
        )  # fmt: skip
        lines.append(f"| `{machine.name}` | {' | '.join(cells)} |")
    lines += [
        "",
        "| set | machines | N | limbs Q+P | dnum | word | keys | levels after bootstrapping | security |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    by_set: dict[str, list[str]] = {}
    for machine in machines:
        if machine.native_params is not None:
            by_set.setdefault(machine.native_params, []).append(f"`{machine.name}`")
    for name, users in by_set.items():
        params = catalogue.get(name)
        row = set_row(params)
        levels = "-" if row["effective_levels"] is None else row["effective_levels"]
        unstated = "insecure" if params.security_note.startswith("insecure") else "none stated"
        level = f"{row['security_bits']} bit" if row["security_bits"] else unstated
        lines.append(
            f"| `{name}` | {', '.join(users)} | 2^{row['ring_dim'].bit_length() - 1} | {row['num_q']}+{row['num_p']} "
            f"| {row['dnum']} | {row['word_bits']} bit | {row['key_form']} | {levels} | {level} |"
        )
    return "\n".join(lines) + "\n"


def _value(figure: Figure | None) -> float | None:
    return None if figure is None else figure.value


def _whole(figure: Figure | None) -> int | None:
    return None if figure is None else int(figure.value)


def _text(figure: Figure | None) -> str:
    return "-" if figure is None else _marked(figure.text, figure)


def _marked(text: str, *figures: Figure) -> str:
    """In italics where a figure is assumed."""
    return f"*{text}*" if any(figure.kind is Evidence.ASSUMED for figure in figures) else text


def _lanes(machine: Machine) -> str:
    clusters, lanes = machine.architecture.clusters, machine.architecture.lanes
    if clusters is None or lanes is None:
        return "-"
    return _marked(f"{clusters.value:g} × {lanes.value:g}", clusters, lanes)


def _on_chip(machine: Machine) -> str:
    if not machine.on_chip:
        return "-"
    return _marked(format_bytes(machine.on_chip_bytes).split(" (")[0], *machine.on_chip.values())
