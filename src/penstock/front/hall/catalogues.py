"""`penstock.catalogue`, `parameters`, `machine` and `sizes`: what has a name, and how big keys are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock.base.types import Rows, RowView
from penstock.errors import UsageError
from penstock.front.hall.arguments import names_arguments
from penstock.front.hall.programs import Program, set_of, trace_of
from penstock.front.hall.result import Table
from penstock.lab.simulation.names import one_of
from penstock.program import workloads
from penstock.program.running.readings import READINGS
from penstock.scheme.machines import (
    Machine,
    load_machine,
    load_network,
    load_tier,
    machine_names,
    network_names,
    tier_names,
)
from penstock.scheme.machines.drives import drive_names, load_drive
from penstock.scheme.params import catalogue as sets
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm, form_of
from penstock.scheme.params.sizes import size_report
from penstock.scheme.play.caches import POLICIES
from penstock.scheme.traces import is_trace_file


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Sizes(Table):
    """Bytes of keys and data of a parameter set. Rows: by the number of limbs that are left."""

    report: RowView
    """All numbers, as docs/guides/parameters.md describes them; `exactness` says which are estimated."""

    @property
    def total_key_bytes(self) -> int | None:
        """All keys that are counted, as stored; `None`: the program has some that nobody knows (`report`)."""
        return _whole(self.report["total_key_bytes"])

    @property
    def num_keys(self) -> int | None:
        return _whole(self.report["num_keys"])

    @property
    def by_form(self) -> dict[str, int | None] | None:
        """All keys of the program as each form stores them; `None`: no program was named."""
        rows = self.report["key_forms"]
        return None if rows is None else {row["key_form"]: _whole(row["stored_key_bytes"]) for row in rows}

    @property
    def rotation_key_bytes(self) -> int:
        """One rotation key, full, at all limbs."""
        return int(self.report["rotation_key_bytes"])

    @property
    def ciphertext_bytes(self) -> int:
        """A fresh ciphertext."""
        return int(self.report["ciphertext_bytes"])

    @property
    def security_bits(self) -> int | None:
        """The level that the set holds; `None`: none is stated."""
        bits: int | None = self.report["security_bits"]
        return bits


@names_arguments
def catalogue(kind: str | None = None) -> Table:
    """Everything that has a name: what other functions take as texts.

    Args:   kind: "machines", "tiers", "networks", "drives", "parameters", "workloads", "policies" or "readings"
            (default: all of them).
    Returns: rows with `kind`, `name` and `description`; of one kind, with its own columns too.
    Raises: UnknownName: no such kind.
    """
    if kind is not None:
        rows = KINDS[one_of("kind", kind, KINDS)]()
    else:
        rows = [
            {"kind": category, "name": row["name"], "description": row["description"]}
            for category, made in KINDS.items()
            for row in made()
        ]
    x, y = _PICTURES.get(kind or "", ("name", "name"))
    return Table(rows=tuple(rows), title=kind or "catalogue", provenance="published", x=x, y=y)


@names_arguments
def parameters(name: str | Path | CkksParameters) -> CkksParameters:
    """A checked parameter set, by name or from a .toml file.

    Raises: UnknownName: no such set, with the nearest; ParamsError: the file breaks a rule.
    """
    checked = set_of(name)
    assert checked is not None
    return checked


@names_arguments
def machine(name: str | Path | Machine) -> Machine:
    """A checked machine, by name or from a .toml file.

    Raises: UnknownName: no such machine, with the nearest; MachineError: the file breaks a rule.
    """
    return name if isinstance(name, Machine) else load_machine(name)


@names_arguments
def sizes(
    params: str | Path | CkksParameters,
    *,
    rotations: Sequence[int] | None = None,
    program: Program | None = None,
    size: str | None = None,
    seed: int = 0,
    key_form: str | KeyForm | None = None,
) -> Sizes:
    """The sizes of keys, ciphertexts and plaintexts of a set, without making any.

    Args:   rotations: whose keys are counted, in slots to the left; program: count the keys that it uses. Without
            either only the relinearization key is counted. key_form: of the total, "full", "seeded", "truncated" or
            "seeded+truncated" (default: as the set says); `.by_form` has all of a program.
    Returns: a row for each number of limbs; `.total_key_bytes` counts all keys in this form, the others one object of
            the full chain.
    Raises: UnknownName; UsageError: rotations and a program, or a size or a truncated form without a program.
    """
    checked = parameters(params)
    if size is not None and program is None:
        raise UsageError("size names the size of a workload: add program")
    trace = None
    if program is not None:
        recorded = not isinstance(program, str | Path) or is_trace_file(str(program))
        trace = trace_of(program, None if recorded else checked, size, seed)
    report = size_report(checked, rotations=rotations, trace=trace, key_form=form_of(key_form))
    rows = report["key_bytes_by_limbs"]
    return Sizes(
        rows=tuple(rows),
        title=f"keys of {checked.name}",
        provenance="predicted",
        x="limbs",
        y="full_key_bytes",
        report=report,
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _stored(
    load: Callable[[str], object], names: Callable[[], Sequence[str]], *columns: str, **named: str
) -> Callable[[], Rows]:
    """Makes rows of what lies in files. Args: columns: attributes; named: columns, with attributes of other names."""
    read = {"name": "name", "description": "title", **dict(zip(columns, columns, strict=True)), **named}
    return lambda: [{column: getattr(of, read[column]) for column in read} for of in map(load, names())]


def _machines() -> Rows:
    rows = _stored(load_machine, machine_names, "native_params", "on_chip_bytes", power_w="watts")()
    return [row | {"on_chip_bytes": row["on_chip_bytes"] or None} for row in rows]


def _parameters() -> Rows:
    rows = []
    for params in map(sets.get, sets.names()):
        row = sets.set_row(params)
        size = f"N = 2^{params.ring_dim.bit_length() - 1}, {params.num_q}+{params.num_p} limbs"
        rows.append({"name": row.pop("name"), "description": size, **row})
    return rows


def _workloads() -> Rows:
    return [
        {
            "name": workload.NAME, "description": workload.DESCRIPTION, "sizes": ", ".join(workload.SIZES),
            "default_size": workload.DEFAULT_SIZE, "source": workload.SOURCE,
        }
        for workload in map(workloads.get, workloads.names())
    ]  # fmt: skip


def _described(of: Mapping[str, object], attribute: str) -> Rows:
    return [{"name": name, "description": getattr(of[name], attribute)} for name in of]


KINDS: Mapping[str, Callable[[], Rows]] = {
    "machines": _machines, "tiers": _stored(load_tier, tier_names, "bandwidth_bytes_per_s", "latency_s"),
    "networks": _stored(load_network, network_names), "drives": _stored(load_drive, drive_names),
    "parameters": _parameters, "workloads": _workloads, "policies": partial(_described, POLICIES, "summary"),
    "readings": partial(_described, READINGS, "meaning"),
}  # fmt: skip
_PICTURES = {"tiers": ("name", "bandwidth_bytes_per_s"), "parameters": ("name", "rotation_key_bytes")}
