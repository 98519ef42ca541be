"""Prices a trace on a machine: seconds and joules of every operation, and which bytes it needs that are not resident.

Each distinct shape (kind, limbs, …) is priced once; the rest is array work, so that long traces take milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.arrays import Bools, Floats, Ints
from penstock.base.types import Row
from penstock.errors import TraceError, check_known
from penstock.scheme.machines.schema import InsideModel, Machine
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.traces.schema import Trace
from penstock.scheme.unpriced import added, warned
from penstock.scheme.work.kernels import KernelWork
from penstock.scheme.work.shapes import Objects, Shapes, codes, ints, server_rows, shape_work, shapes_of

if TYPE_CHECKING:
    from penstock.scheme.play.schedule import ProgramShapes, Schedule


ACCESS_CLASSES = ("key", "plaintext", "ciphertext", "database")
"""Classes of objects that may be kept off chip. Digit decompositions go with the ciphertexts; `database` is the stored
blocks of an encrypted database."""

_UNPRICED = "unpriced"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PricedTenants:
    """The programs that a priced trace is made of, where several share a machine."""

    names: tuple[str, ...]
    unpriced: tuple[Mapping[str, int], ...]
    """As `PricedTrace.unpriced`, of each."""
    tenant: Ints
    """(n,) which program each operation is of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedTrace:
    """A trace with the cost of each server operation on one machine, in the order of the trace."""

    workload: str
    params: str
    machine: str
    classes: tuple[str, ...]
    op_ids: Ints
    """(n,) ids in the trace."""
    compute_s: Floats
    """(n,) seconds."""
    joules: Floats | None
    """(n,) joules, `None` where the machine's power is not known."""
    bound_by: npt.NDArray[np.int8]
    """(n,) index into `units`: the unit that each operation waits for."""
    units: tuple[str, ...]
    access_start: Ints
    """(n + 1,) the accesses of operation i are `access_start[i]:access_start[i + 1]`."""
    access_object: npt.NDArray[np.int32]
    """(m,) row of the object in the trace's table of objects."""
    access_class: npt.NDArray[np.int8]
    """(m,) class of the object, an index into `ACCESS_CLASSES`."""
    access_bytes: Ints
    """(m,) bytes that the operation needs of it at its limbs; one limb of a plaintext whose others are made on chip."""
    access_is_result: Bools
    """(m,) whether the operation makes the object instead of reading it: nothing is loaded for it."""
    bytes_by_class: dict[str, int]
    """Bytes that all operations together read and write, by class, resident or not; of plaintexts those loaded."""
    stored_key_bytes: int
    """Bytes of the program's keys, each once, in the form that they are stored in."""
    unpriced: Mapping[str, int] = field(default_factory=dict)
    """Kind -> operations that have no price, or not a whole one: sums over operations are lower bounds."""
    warnings: tuple[str, ...] = ()
    schedule: Schedule | None = None
    """Its kernels on the machine's units, where the machine has operations scheduled."""
    together: Floats | None = None
    """(shapes,) operations of each distinct shape that are ready at once, for launches of a GPU; `None`: not asked."""
    tenants: PricedTenants | None = None
    """The programs that it is made of; `None`: one program."""
    off_chip_s: float | None = None
    """Seconds in which the machine's own memory moves all keys and plaintexts that are read; `None`: not stated."""

    def __len__(self) -> int:
        return len(self.compute_s)

    @property
    def priced(self) -> PricedTrace:
        """Itself, as `ClusterProgram.priced` is the price of a program on clusters."""
        return self

    @property
    def compute_j(self) -> float | None:
        """Joules of computing; `None` where the machine's power is not known."""
        return None if self.joules is None else float(self.joules.sum())

    @property
    def ideal_s(self) -> float:
        """Seconds with every byte resident."""
        return float(self.compute_s.sum())

    @property
    def accessed_bytes(self) -> int:
        """Bytes read of the classes that are not resident, every read counted."""
        return int(self.access_bytes[~self.access_is_result].sum())

    @property
    def distinct_bytes(self) -> int:
        """Bytes of the objects of those classes, each once, at its largest use."""
        largest = np.zeros(int(self.access_object.max(initial=-1)) + 1, dtype=np.int64)
        np.maximum.at(largest, self.access_object, self.access_bytes)
        return int(largest.sum())

    @property
    def demand_bytes_per_s(self) -> float:
        """Those bytes per second of ideal time: D of the storage-I/O study's law."""
        return self.accessed_bytes / self.ideal_s if self.ideal_s else 0.0

    @property
    def demand_reads_per_s(self) -> float:
        """Reads of those classes per second of ideal time; each costs a latency where it is not resident."""
        return int((~self.access_is_result).sum()) / self.ideal_s if self.ideal_s else 0.0

    @property
    def accesses(self) -> Accesses:
        """What the operations read and make, as a cache sees it."""
        return Accesses(self.access_start, self.access_object, self.access_bytes, self.access_is_result)


def price_trace(
    trace: Trace, machine: Machine, *, key_form: KeyForm | None = None, classes: Sequence[str] = ("key",)
) -> PricedTrace:
    """Cost and accesses of every server operation of a trace.

    Args:   key_form: the form of stored and moved keys (default: the parameter set's); classes: the classes that are
            not resident, of `ACCESS_CLASSES`.
    Returns: `encrypt` and `decrypt` are left out. Operations without a price are in `unpriced`.
    Raises: UnknownName: no such class; TraceError: an operation names an object or a key that the trace lacks;
            UsageError: limbs that the parameter set does not have.
    """
    for name in classes:
        check_known("access class", name, ACCESS_CLASSES)
    params = trace.parameters()
    view = trace.view()
    table = server_rows(view.operations)
    objects = Objects(trace, params)
    shapes = shapes_of(table, objects)
    of_row, counts = shapes.of_row, shapes.counts
    scheduled = _scheduled(table, objects, shapes, params, machine, key_form)
    units = (*(machine.parts if scheduled is None else scheduled.parts), _UNPRICED)
    together = _together(table, objects, shapes, machine)
    works, seconds, joules, bound, lacking = _priced_shapes(shapes, machine, params, key_form, units, together)
    unpriced = added([lacking, trace.meta.left_out])
    key_bytes = np.asarray([work.key_bytes for work in works], dtype=np.int64)
    most = params.plaintext_bytes(1) if machine.extends_plaintexts else np.iinfo(np.int64).max
    plaintext_bytes = np.asarray([min(work.plaintext_bytes, most) for work in works], dtype=np.int64)
    ciphertext_bytes = np.asarray([w.ciphertext_read_bytes + w.ciphertext_write_bytes for w in works], dtype=np.int64)

    compute_s, energy = seconds[of_row], joules[of_row]
    if scheduled is not None:
        compute_s = scheduled.added_s
        energy = compute_s * (machine.watts or 0.0)
        composite = np.asarray([TRAITS[OpKind(shape.kind)].composite for shape in shapes.distinct], dtype=np.bool_)
        bound = np.where(composite, bound, [units.index(unit) for unit in scheduled.binding]).astype(np.int8)
    parts = _read_and_made(table, objects, shapes, classes, key_bytes, plaintext_bytes)
    own = machine.architecture.off_chip
    totals = {"key": key_bytes, "plaintext": plaintext_bytes, "ciphertext": ciphertext_bytes}
    read_once = int(objects.bytes[shapes.operand[objects.is_stored[shapes.operand]]].sum())
    return PricedTrace(
        workload=trace.meta.workload,
        params=params.name,
        machine=machine.name,
        classes=tuple(classes),
        op_ids=ints(table["id"]),
        compute_s=compute_s,
        joules=energy if machine.watts is not None else None,
        bound_by=bound[of_row],
        units=units,
        **_rows_of(parts, table.num_rows),
        bytes_by_class={name: int(amounts @ counts) for name, amounts in totals.items()}
        | ({"database": read_once} if read_once else {}),
        stored_key_bytes=params.total_key_bytes(view.key_limbs(), key_form),
        unpriced=unpriced,
        warnings=(*machine.warnings(params), *warned(unpriced)),
        schedule=scheduled,
        together=together,
        off_chip_s=None if own is None else float(key_bytes @ counts + plaintext_bytes @ counts) / own.value,
    )


def _scheduled(
    table: pa.Table,
    objects: Objects,
    shapes: Shapes,
    params: CkksParameters,
    machine: Machine,
    key_form: KeyForm | None,
) -> Schedule | None:
    """The kernels of the operations on the machine's units, where it has them scheduled."""
    if machine.inside is not InsideModel.SCHEDULE:
        return None
    from penstock.scheme.play.schedule import schedule_program

    return schedule_program(program_of(table, objects, shapes), params, machine, key_form)


def program_of(table: pa.Table, objects: Objects, shapes: Shapes) -> ProgramShapes:
    """Operations with the earlier ones whose results they read."""
    from penstock.scheme.play.schedule import ProgramShapes, sources_of

    made = _ids(table["output"], objects, "output")
    operands = shapes.operand_row, shapes.operand
    return ProgramShapes(shapes.distinct, shapes.of_row, sources_of(made, operands, table.num_rows, len(objects.bytes)))


def _together(table: pa.Table, objects: Objects, shapes: Shapes, machine: Machine) -> Floats | None:
    """(shapes,) operations of one shape behind equally long chains of others, on average; `None` without batches."""
    if machine.gpu is None or machine.gpu.most_ciphertexts <= 1:
        return None
    waits = depths(program_of(table, objects, shapes))
    # A pair is one number: depth, then shape.
    groups = np.unique(waits * len(shapes.distinct) + shapes.of_row) % max(len(shapes.distinct), 1)
    launches = np.bincount(groups, minlength=len(shapes.distinct))
    return np.asarray(shapes.counts / np.maximum(launches, 1), dtype=np.float64)


def depths(program: ProgramShapes) -> Ints:
    """(n,) the length of the longest chain of operations that each waits for."""
    rows = len(program.of_row)
    readers = np.repeat(np.arange(rows, dtype=np.int64), np.diff(program.source_start))
    lengths = [0] * rows
    # Sources stand before their readers, so their own chains are known.
    for row, source in zip(readers.tolist(), program.source.tolist(), strict=True):
        if lengths[source] >= lengths[row]:
            lengths[row] = lengths[source] + 1
    return np.asarray(lengths, dtype=np.int64)


def _priced_shapes(
    shapes: Shapes,
    machine: Machine,
    params: CkksParameters,
    key_form: KeyForm | None,
    units: Sequence[str],
    together: Floats | None,
) -> tuple[list[KernelWork], Floats, Floats, npt.NDArray[np.int8], dict[str, int]]:
    """Work, seconds, joules and unit of each distinct shape; and how many operations of each kind have no whole
    price."""
    num = len(shapes.distinct)
    unit_index = {unit: i for i, unit in enumerate(units)}
    seconds, joules, bound = np.zeros(num), np.zeros(num), np.zeros(num, dtype=np.int8)
    works: list[KernelWork] = []
    unpriced: dict[str, int] = {}
    for i, shape in enumerate(shapes.distinct):
        kind = OpKind(shape.kind)
        if TRAITS[kind].composite:
            unpriced[shape.kind] = unpriced.get(shape.kind, 0) + int(shapes.counts[i])
            bound[i] = unit_index[_UNPRICED]
            works.append(KernelWork())
            continue
        work = shape_work(shape, params, key_form)
        works.append(work)
        if machine.lacks(work):
            unpriced[shape.kind] = unpriced.get(shape.kind, 0) + int(shapes.counts[i])
        if machine.inside is InsideModel.SCHEDULE:
            continue
        cost = machine.price(work, 1.0 if together is None else float(together[i]))
        factor = machine.factor(shape.kind, params.ring_dim, shape.limbs_in)
        seconds[i], joules[i] = factor * cost.seconds, factor * (cost.joules or 0.0)
        bound[i] = unit_index[cost.bound_by]
    return works, seconds, joules, bound, unpriced


def _read_and_made(
    table: pa.Table, objects: Objects, shapes: Shapes, classes: Sequence[str], key_bytes: Ints, plaintext_bytes: Ints
) -> list[tuple[Ints, int, Ints, Ints]]:
    """(row, rank, object, bytes) of what operations read of these classes and make, by part."""
    parts, of_row = [], shapes.of_row
    if "ciphertext" in classes:
        row, operand = shapes.operand_row, shapes.operand
        need = np.minimum(objects.limbs[operand], shapes.limbs_in[row] + (shapes.implied_rescales[row] > 0))
        cut = objects.bytes[operand] * need // np.maximum(objects.limbs[operand], 1)
        whole = objects.is_extended[operand] | objects.is_small[operand]
        need = np.where(objects.is_stored[operand], 0, np.where(whole, objects.bytes[operand], cut))
        parts.append((row, 0, operand, need))
    if "key" in classes:
        row, objects_used = _keys(table["key"], objects)
        parts.append((row, 1, objects_used, key_bytes[of_row[row]]))
    if "plaintext" in classes:
        row, objects_used = _ids(table["plaintext"], objects, "plaintext")
        parts.append((row, 2, objects_used, plaintext_bytes[of_row[row]]))
    if "database" in classes:
        stored = objects.is_stored[shapes.operand]
        row, operand = shapes.operand_row[stored], shapes.operand[stored]
        parts.append((row, 3, operand, objects.bytes[operand]))
    if "ciphertext" in classes:
        # A result is made on chip: it takes room, and nothing is loaded for it.
        row, objects_used = _ids(table["output"], objects, "output")
        parts.append((row, _RESULT, objects_used, objects.bytes[objects_used]))
    return parts


def _ids(column: pa.ChunkedArray, objects: Objects, what: str) -> tuple[Ints, Ints]:
    """(row, object) where the column is not null."""
    present = np.asarray(column.is_valid().to_numpy(), dtype=bool)
    values = np.asarray(column.drop_null().to_numpy(), dtype=np.int64)
    return np.nonzero(present)[0], objects.rows(values, what)


def _keys(column: pa.ChunkedArray, objects: Objects) -> tuple[Ints, Ints]:
    used, names = codes(column)
    row = np.nonzero(used >= 0)[0]
    object_rows = np.full(len(names), -1, dtype=np.int64)
    for i, name in enumerate(names):
        object_rows[i] = objects.keys.get(name, -1)
    keys = object_rows[used[row]] if len(row) else np.zeros(0, dtype=np.int64)
    if (keys < 0).any():
        name = names[int(used[row[np.argmax(keys < 0)]])]
        raise TraceError(f"the trace uses key '{name}', which its table of objects lacks; make the trace again")
    return row, keys


_PARTS = ("ciphertext", "key", "plaintext", "database", "ciphertext")
_CLASS_OF_PART = np.array([ACCESS_CLASSES.index(c) for c in _PARTS], np.int8)
_RESULT = 4


def _rows_of(parts: list[tuple[Ints, int, Ints, Ints]], rows: int) -> Row:
    """Accesses in compressed sparse rows, within an operation in the order of the parts. Empty ones are left out.

    Returns: the fields `access_*` of a `PricedTrace`.
    """
    none = np.zeros(0, dtype=np.int64)
    row = np.concatenate([none, *(part[0] for part in parts)])
    rank = np.concatenate([none, *(part[0] * len(_PARTS) + part[1] for part in parts)])
    object_rows = np.concatenate([none, *(part[2] for part in parts)])
    size = np.concatenate([none, *(part[3] for part in parts)])
    order = np.argsort(rank, kind="stable")
    order = order[size[order] > 0]
    start = np.zeros(rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(row[order], minlength=rows), out=start[1:])
    part = rank[order] % len(_PARTS)
    return {
        "access_start": start,
        "access_object": object_rows[order].astype(np.int32),
        "access_class": _CLASS_OF_PART[part],
        "access_bytes": size[order],
        "access_is_result": part == _RESULT,
    }
