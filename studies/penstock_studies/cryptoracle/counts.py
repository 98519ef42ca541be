"""CryptOracle's Table 3 and our own: the calls of each operation by each workload, and their limbs.

Published counts were typed by hand into the paper; ours are read from traces. Where they differ, the program computes
the same result by another algorithm, and the row's note says which.
Source: Brynds et al., "CryptOracle: A Modular Framework to Characterize FHE" (ISPASS 2026), Tables 2, 3 and 5;
github.com/UnaryLab/CryptOracle, commit 78cadec.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.base.system import toml
from penstock.base.types import Row, Rows, RowView
from penstock.errors import ParamsError
from penstock.program import workloads
from penstock.program.running.trace import trace_workload
from penstock.scheme.operations import OpKind
from penstock.scheme.traces.schema import Trace
from penstock_studies.cryptoracle.figures import FigurePoint, missing

STUDY = "cryptoracle"
CALLS = "calls"
"""Counted as the paper counts: one call of the library is one, a composite too."""
EXPANDED = "expanded"
"""Composites replaced by their operations in the library."""
MEASURED = "measured"
"""From a `bench run` of this machine."""

_WRITTEN = toml.packaged("penstock_studies.cryptoracle", "operations.toml")
OPERATIONS: Mapping[str, tuple[OpKind, ...]] = {
    name: tuple(map(OpKind, operation["kinds"])) for name, operation in _WRITTEN["operation"].items()
}
"""Rows of Table 3, and our kinds that they count."""
BESIDE: Mapping[str, tuple[OpKind, ...]] = {
    name: tuple(map(OpKind, kinds)) for name, kinds in _WRITTEN["beside"].items()
}
"""Operations that our traces have and Table 3 leaves out."""
PRIMITIVE_OF: Mapping[str, tuple[str, int | None]] = {
    name: (operation["primitive"], operation.get("degree")) for name, operation in _WRITTEN["operation"].items()
}
"""Operation of Table 3 -> the primitive that was timed, and its degree."""
EQUAL = "equal"
NOT_REGISTERED = "no such workload in this version of penstock: nothing to count"


@dataclass(frozen=True, slots=True)
class Published:
    """One column of Table 3, and why ours differs."""

    workload: str
    program: str
    """The workload that is the paper's program."""
    size: str
    counts: Sequence[int]
    """In the order of OPERATIONS."""
    note: str
    notes: Mapping[str, str] = field(default_factory=dict)
    """Of single operations; `note` is for the others."""
    differences: Mapping[str, str] = field(default_factory=dict)
    """Operation -> why the count of the paper's program, written again, is not the published one."""
    series: str = "EvalChebyshevSeries"
    """The row that counts a Chebyshev series."""

    @property
    def operations(self) -> Mapping[str, tuple[OpKind, ...]]:
        return {**OPERATIONS, "EvalChebyshevSeries": (), self.series: (OpKind.CHEBYSHEV,)}


TABLE3: tuple[Published, ...] = tuple(
    Published(**column) for column in toml.packaged("penstock_studies.cryptoracle", "table3.toml")["column"]
)
"""Its columns, from `table3.toml`."""


@dataclass(frozen=True, slots=True)
class CountedProgram:
    """One workload's operations: by call, with composites expanded, and those by limbs."""

    calls: Mapping[str, int]
    expanded: Mapping[str, int]
    by_limbs: Mapping[tuple[str, int], int]
    params: str


def count(trace: Trace) -> CountedProgram:
    """Operations that the server executes, by kind, and by kind and limbs."""
    whole, expanded = (trace.view(composites=c).server_operations() for c in (True, False))
    kinds = expanded["kind"].to_pylist()
    return CountedProgram(
        Counter(whole["kind"].to_pylist()),
        Counter(kinds),
        Counter(zip(kinds, expanded["limbs_in"].to_pylist(), strict=True)),
        str(trace.meta.params["name"]),
    )


def rows(only: Sequence[str] | None = None) -> Rows:
    """The study as flat rows, one a workload, operation and policy, then one for each number of limbs.

    `published` holds Table 3, `first_principles` our count; `calibrated` is null, since nothing here is fitted.
    `measured` is for the figures (`figure_rows`).
    Args: only: the workloads to count; all by default.
    """
    made: Rows = []
    for column in TABLE3:
        if only is None or column.workload in only:
            made += _column_rows(column, _counted(column))
            if column.program in workloads.names():
                made += _program_rows(column)
    return made


def _program_rows(column: Published) -> Iterator[Row]:
    """The paper's own program, written again: its calls are the published ones, but for explained differences."""
    calls = count(trace_workload(column.program, size="full")).calls
    for (name, kinds), published in zip(column.operations.items(), column.counts, strict=True):
        ours = sum(calls.get(kind, 0) for kind in kinds)
        if published or ours:
            note = EQUAL if ours == published else column.differences[name]
            yield _row(f"table3.{column.program}.{name}", "table3-programs", CALLS, published, ours, note)


def _counted(column: Published) -> CountedProgram | str:
    """The counts, or the reason for their absence."""
    if column.workload not in workloads.names():
        return NOT_REGISTERED
    if column.size not in workloads.get(column.workload).SIZES:
        return f"workload '{column.workload}' has no size '{column.size}' in this version of penstock"
    try:
        return count(trace_workload(column.workload, size=column.size))
    except ParamsError as error:
        return f"not traced: {error}"


def _column_rows(column: Published, counted: CountedProgram | str) -> Rows:
    made = []
    for (name, kinds), published in zip(column.operations.items(), column.counts, strict=True):
        row_id = f"table3.{column.workload}.{name}"
        if isinstance(counted, str):
            made.append(_row(row_id, "table3", CALLS, published, None, counted))
            continue
        ours = sum(counted.calls.get(kind, 0) for kind in kinds)
        note = EQUAL if ours == published else column.notes.get(name, column.note)
        made.append(_row(row_id, "table3", CALLS, published, ours, note))
    if isinstance(counted, str):
        return made
    for name, kinds in BESIDE.items():
        if ours := sum(counted.calls.get(kind, 0) for kind in kinds):
            made.append(
                _row(f"table3.{column.workload}.{name}", "beside-table3", CALLS, None, ours, "not a row of Table 3")
            )
    known = {**column.operations, **BESIDE}
    for name, kinds in known.items():
        inside = sum(counted.expanded.get(kind, 0) for kind in kinds)
        if inside != sum(counted.calls.get(kind, 0) for kind in kinds):
            made.append(
                _row(
                    f"table3.{column.workload}.{name}.expanded",
                    "expanded",
                    EXPANDED,
                    None,
                    inside,
                    "composites replaced by the library's own steps",
                )
            )
    for name, kinds in known.items():
        for limbs in sorted({n for kind, n in counted.by_limbs if kind in kinds}, reverse=True):
            at = sum(counted.by_limbs.get((kind, limbs), 0) for kind in kinds)
            row_id = f"table3.{column.workload}.{name}.limbs{limbs}"
            made.append(_row(row_id, "limbs", EXPANDED, None, at, f"at {limbs} limbs, set '{counted.params}'"))
    return made


def _row(row_id: str, group: str, policy: str, published: int | None, ours: int | None, note: str) -> Row:
    known = published and ours is not None and policy == CALLS
    return {
        "id": row_id, "group": group, "policy": policy, "quantity": "operation_count", "unit": "1",
        "published": published, "calibrated": None, "first_principles": ours, "regression": None, "measured": None,
        "error_calibrated": None, "error_regression": None,
        "error_first_principles": (ours - published) / published if known and published and ours is not None else None,
        "note": note,
    }  # fmt: skip


def figure_rows(points: Sequence[FigurePoint]) -> Rows:
    """Rows of figures 5 to 8: our measurements in `measured`, and the quantities that the results lack."""
    made = []
    for point in points:
        row_id = f"{point.figure}.{_slug(point.line)}.{_slug(point.x_name)}{point.x}"
        if point.quantity != "runtime":
            row_id += f".{_slug(point.quantity)}"
        note = f"median of {point.runs} run(s), {point.settings}; the paper only draws it"
        made.append(
            {
                **_row(row_id, point.figure, MEASURED, None, None, note),
                "quantity": point.quantity,
                "unit": point.unit,
                "measured": point.value,
            }
        )
    for figure, note in missing(points):
        made.append(
            {
                **_row(f"{figure}.missing", figure.partition(".")[0], MEASURED, None, None, note),
                "quantity": "runtime",
                "unit": "s",
            }
        )
    return made


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")


def table_rows(made: Iterable[RowView]) -> Rows:
    """The rows as people read them: one line an operation that either side has, with its limbs."""
    everything = list(made)
    limbs: dict[str, list[str]] = {}
    expanded = {}
    for row in everything:
        base = str(row["id"])
        if row["group"] == "limbs":
            stem, _, at = base.rpartition(".limbs")
            limbs.setdefault(stem, []).append(f"{at}:{row['first_principles']}")
        elif row["group"] == "expanded":
            expanded[base.removesuffix(".expanded")] = row["first_principles"]
    shown = []
    for row in everything:
        if row["group"] not in ("table3", "table3-programs", "beside-table3") or not (
            row["published"] or row["first_principles"] or row["id"] in expanded
        ):
            continue
        _, workload, operation = str(row["id"]).split(".")
        shown.append(
            {
                "workload": workload, "operation": operation, "published": row["published"],
                "calls": row["first_principles"], "expanded": expanded.get(row["id"], row["first_principles"]),
                "limbs": _short(limbs.get(str(row["id"]), [])), "why": row["note"],
            }
        )  # fmt: skip
    for before, row in zip(reversed(shown[:-1]), reversed(shown[1:]), strict=True):
        if row["why"] == before["why"] and row["why"] != EQUAL and row["workload"] == before["workload"]:
            row["why"] = "as above"
    return shown


def _short(parts: list[str], most: int = 6) -> str:
    """The first few entries; the rest are in the JSON."""
    return " ".join(parts[:most]) + (f" … ({len(parts)} limb counts)" if len(parts) > most else "")
