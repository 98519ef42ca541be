"""Several programs on one machine at once: their operations take turns, and their data competes for the same levels.

Each program keeps its own objects (its user's keys and ciphertexts) and its own order; the machine runs one operation
at a time. So the joint time is the time of one program of interleaved operations, and every cache, level and time mode
applies to it unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, cast, get_args

import numpy as np

from penstock.base.arrays import Floats, Ints
from penstock.base.types import Row
from penstock.errors import UsageError, check_known
from penstock.scheme.play.own import OwnFile, TenantJob, is_own, own_file_at, turns_of
from penstock.scheme.play.price import PricedTenants, PricedTrace
from penstock.scheme.unpriced import AT_LEAST, UNPRICED, added, bounded, opaque, warned

Order = Literal["round-robin", "time"]
ORDERS: tuple[str, ...] = get_args(Order)
Turns: TypeAlias = Order | OwnFile
"""How programs take turns: by one of `ORDERS`, or by a schedule of the user's own."""


def order_named(text: str) -> Turns:
    """How programs take turns: one of `ORDERS`, or a Python file of the user's own with a `schedule`.

    Raises: UnknownName; UsageError: of the file.
    """
    if is_own(text):
        return own_file_at(text, "interleave")
    check_known("order", text, ORDERS)
    return cast(Order, text)


def summary(together: PricedTrace, end_s: Floats | None, operation_bytes: Ints | Floats) -> tuple[Row, ...] | None:
    """One row a program; `None` where there is one alone.

    Args:   end_s: (n,) the end of each operation, of a timeline, or `None` without one; operation_bytes: (n,) bytes
            that each waits for.
    """
    if (tenants := together.tenants) is None:
        return None
    rows = []
    everyone = added(tenants.unpriced)
    for i, (name, own) in enumerate(zip(tenants.names, tenants.unpriced, strict=True)):
        mine = tenants.tenant == i
        alone_s = float(together.compute_s[mine].sum())
        finish_s = None if end_s is None else float(np.asarray(end_s)[mine].max(initial=0.0))
        row = bounded(
            {
                "tenant": name,
                "num_operations": int(mine.sum()),
                "compute_s": alone_s,
                "finish_s": finish_s,
                "slowdown": finish_s / alone_s if alone_s and finish_s is not None else None,
                "io_bytes": float(np.asarray(operation_bytes)[mine].sum()),
            },
            everyone,  # a program waits for the operations of all
            ("compute_s",) if own else (),
            ("finish_s", "slowdown", *(("io_bytes",) if opaque(everyone) else ())),
        )
        rows.append(row if everyone else {key: row[key] for key in row if key not in (UNPRICED, AT_LEAST)})
    return tuple(rows)


def interleave(programs: Sequence[PricedTrace], order: Turns = "round-robin") -> PricedTrace:
    """Programs, priced on one machine, as one: all operations in the order in which they run, objects numbered apart.

    Args:   order: `round-robin`: one operation of each in turn; `time`: each is as far as its own compute time would
            have brought it, so that long operations are not favoured; or a schedule of the user's own. Ties go to the
            program that is named first.
    Raises: UsageError: no program, or they are priced on different machines or for different classes, or of the file;
            UnknownName: no such order.
    """
    if not isinstance(order, OwnFile):
        check_known("order", order, ORDERS)
    if not programs:
        raise UsageError("no programs to run together: name one at least")
    first = programs[0]
    for other in programs[1:]:
        if (other.machine, other.classes, other.units) != (first.machine, first.classes, first.units):
            raise UsageError(
                f"'{other.workload}' is priced on {other.machine} with {', '.join(other.classes)}, '{first.workload}' "
                f"on {first.machine} with {', '.join(first.classes)}: programs that run together share the machine"
            )
    tenant = np.concatenate([np.full(len(p), i, dtype=np.int64) for i, p in enumerate(programs)])
    turns = _turns(programs, order)
    within = np.concatenate([np.arange(len(p), dtype=np.int64) for p in programs])
    # Within a program, operations of no time stay in their order.
    run = np.lexsort((within, tenant, np.concatenate(turns)))
    tenants = PricedTenants(
        names=tuple(_told_apart([p.workload for p in programs])),
        unpriced=tuple(p.unpriced for p in programs),
        tenant=tenant[run],
    )
    return replace(_joined(programs, run), tenants=tenants)


def _turns(programs: Sequence[PricedTrace], order: Turns) -> list[Floats]:
    """For each program, (n,) the turn of each operation."""
    if isinstance(order, OwnFile):
        names = _told_apart([p.workload for p in programs])
        return turns_of(order, [_job(p, name) for p, name in zip(programs, names, strict=True)])
    if order == "round-robin":
        return [np.arange(len(p), dtype=np.float64) for p in programs]
    return [np.concatenate(([0.0], np.cumsum(p.compute_s)))[:-1] for p in programs]


def _job(program: PricedTrace, name: str) -> TenantJob:
    """A program as a schedule of the user's sees it."""
    return TenantJob(
        name=name,
        compute_s=program.compute_s,
        load_bytes=program.accesses.by_operation(program.access_bytes),
        distinct_bytes=program.distinct_bytes,
    )


def _told_apart(names: list[str]) -> list[str]:
    """Programs of the same name get numbers."""
    return [name if names.count(name) == 1 else f"{name} {names[: i + 1].count(name)}" for i, name in enumerate(names)]


_OF_OPERATIONS = ("op_ids", "compute_s", "bound_by")
_OF_ACCESSES = ("access_class", "access_bytes", "access_is_result")


def _joined(programs: Sequence[PricedTrace], run: Ints) -> PricedTrace:
    """One program with all operations in the order `run`, and each program's objects after the previous
    one's."""
    first = programs[0]
    joules = [p.joules for p in programs]
    known = [energy for energy in joules if energy is not None]
    unpriced, alone = added(p.unpriced for p in programs), {text for p in programs for text in warned(p.unpriced)}
    counts = np.concatenate([np.diff(p.access_start) for p in programs])
    starts = np.concatenate(([0], np.cumsum(counts)))[:-1]
    behind = np.cumsum([0, *(int(p.access_object.max(initial=-1)) + 1 for p in programs)])
    objects = np.concatenate([p.access_object + offset for p, offset in zip(programs, behind[:-1], strict=True)])
    access_start = np.concatenate(([0], np.cumsum(counts[run])))
    # Position of each access: the start of its operation, and its place within.
    place = np.arange(access_start[-1]) - np.repeat(access_start[:-1], counts[run])
    take = np.repeat(starts[run], counts[run]) + place
    return replace(
        first,
        workload="+".join(p.workload for p in programs),
        params="+".join(dict.fromkeys(p.params for p in programs)),
        **{name: np.concatenate([getattr(p, name) for p in programs])[run] for name in _OF_OPERATIONS},
        joules=np.concatenate(known)[run] if len(known) == len(joules) else None,
        access_start=access_start,
        access_object=objects[take].astype(np.int32),
        **{name: np.concatenate([getattr(p, name) for p in programs])[take] for name in _OF_ACCESSES},
        bytes_by_class={
            name: sum(p.bytes_by_class.get(name, 0) for p in programs)
            for name in dict.fromkeys(name for p in programs for name in p.bytes_by_class)
        },
        schedule=None,  # each has its own
        off_chip_s=None,
        stored_key_bytes=sum(p.stored_key_bytes for p in programs),
        unpriced=unpriced,
        warnings=(
            *dict.fromkeys(text for p in programs for text in p.warnings if text not in alone),
            *warned(unpriced),
        ),
    )
