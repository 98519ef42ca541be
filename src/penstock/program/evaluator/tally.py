"""A program in a predictor's terms: the count of each shape of operation, its keys, and its peak of live data.

A tally is read from a trace by `tally_of`, or made without rows by `penstock.program.evaluator.counting`; both give the
same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.arrays import Bools, Ints
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.traces.columns import OperationColumns, ints_of
from penstock.scheme.traces.schema import ORIGIN_COMPOSITE, ORIGIN_MODELLED, Trace, place_in, text_codes
from penstock.scheme.work.shapes import Objects, Shape, codes, ints, shapes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts of a program at one parameter set, composites expanded.

    Data is alive from its first to its last appearance. One call of a composite is one step, in which its operand and
    its result are alive and, besides, its own ciphertexts and digits at their most.
    """

    workload: str
    size: str
    params: CkksParameters
    counts: Mapping[Shape, int]
    """How often each shape occurs, encryption and decryption included."""
    calls: Mapping[str, int]
    """Kind -> how often the program calls it; a composite is one call."""
    keys: Mapping[str, int]
    """Key id -> most limbs at which it is used; in the order of first use."""
    composite_keys: frozenset[str]
    """Keys that composites use; the program may use them too."""
    live_bytes: int
    """The most bytes of ciphertexts, digits and encoded plaintexts that the program holds at once."""
    encodings: Mapping[int, int] = field(default_factory=dict)
    """Limbs -> plaintexts that the program's own operations encode."""
    composite_encodings: Mapping[int, int] = field(default_factory=dict)
    """Limbs -> plaintexts that composites multiply by (the diagonals of bootstrapping), each once."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Kind -> further operations whose inside nobody knows."""

    @property
    def num_operations(self) -> int:
        """Operations that the server runs, composites expanded."""
        return sum(count for shape, count in self.counts.items() if not TRAITS[OpKind(shape.kind)].client)

    @property
    def plaintext_bytes(self) -> int:
        """All encoded plaintexts, including those of composites, each once."""
        # OpenFHE's composites multiply over Q and P.
        special = self.params.num_p if self.params.library == "openfhe" else 0
        return sum(
            count * self.params.plaintext_bytes(limbs + more)
            for encodings, more in ((self.encodings, 0), (self.composite_encodings, special))
            for limbs, count in encodings.items()
        )

    def key_bytes(self, key_form: KeyForm | None = None) -> int:
        """All keys that are used, each once as stored in this form: truncated ones up to the most limbs of a use."""
        return self.params.total_key_bytes(self.keys, key_form)

    def key_bytes_touched(self, key_form: KeyForm | None = None) -> int:
        """Bytes of keys that all operations together read, every use counted, at the limbs of the use."""
        return sum(
            count * self.params.key_bytes(shape.limbs_in, key_form, key=TRAITS[OpKind(shape.kind)].key)
            for shape, count in self.counts.items()
            if TRAITS[OpKind(shape.kind)].key is not None
        )


def tally_of(trace: Trace) -> Tally:
    """The tally of a trace, recorded or symbolic.

    A composite without an expansion is counted as the composite, which machines cannot price.
    Raises: TraceError: an operation names an object that the trace lacks.
    """
    params = trace.parameters()
    objects = Objects(trace, params)
    view = trace.view()
    expanded = view.operations
    shapes = shapes_of(expanded, objects)
    key_codes, key_names = codes(expanded["key"])
    used = key_codes >= 0
    origins, origin_names = codes(expanded["origin"])
    inside = origins == (origin_names.index(ORIGIN_MODELLED) if ORIGIN_MODELLED in origin_names else -2)
    composite_keys = {key_names[code] for code in np.unique(key_codes[inside & used]).tolist()}
    own, composite = (_encodings(expanded["plaintext"], rows, objects) for rows in (~inside, inside))
    return Tally(
        workload=trace.meta.workload,
        size=trace.meta.size,
        params=params,
        counts=dict(zip(shapes.distinct, shapes.counts.tolist(), strict=True)),
        calls=trace.view(composites=True).count_by_kind(),
        keys=view.key_limbs(),
        composite_keys=frozenset(composite_keys),
        live_bytes=_live_bytes(trace, objects),
        encodings=own,
        composite_encodings=composite,
        left_out=trace.meta.left_out,
    )


def peak(
    first: npt.ArrayLike, last: npt.ArrayLike, size: npt.ArrayLike, besides: Mapping[int, int] | None = None
) -> int:
    """The largest sum of sizes over the steps at which objects are alive.

    Args:   first, last: (n,) step of the first and the last appearance; size: (n,) bytes; besides: step -> bytes that
            are alive in that step only.
    >>> peak([0, 1, 3], [1, 3, 3], [10, 20, 5]), peak([0], [2], [10], {1: 7})
    (30, 17)
    """
    begin, end = np.asarray(first, dtype=np.int64), np.asarray(last, dtype=np.int64)
    if not len(begin):
        return max((besides or {}).values(), default=0)
    weights = np.asarray(size, dtype=np.int64)
    change = np.zeros(int(end.max()) + 2, dtype=np.int64)
    np.add.at(change, begin, weights)
    np.add.at(change, end + 1, -weights)
    alive = np.cumsum(change)
    for step, extra in (besides or {}).items():
        alive[step] += extra
    return int(alive.max())


def _encodings(column: pa.ChunkedArray, rows: npt.NDArray[np.bool_], objects: Objects) -> dict[int, int]:
    """Limbs -> distinct plaintexts that these operations use."""
    chosen = column.filter(pa.array(rows)).drop_null()
    plaintexts = np.unique(objects.rows(ints(chosen), "plaintext"))
    limbs, counts = np.unique(objects.limbs[plaintexts], return_counts=True)
    return dict(zip(limbs.tolist(), counts.tolist(), strict=True))


def _live_bytes(trace: Trace, objects: Objects) -> int:
    """Peak of live data; the ciphertexts and digits of a composite count in its own step only."""
    operations = OperationColumns(trace)
    steps, owner = np.arange(len(operations)), _owners(operations)
    pairs = ((operations.row_of, operations.operands), (steps, operations.output),
             (steps, ints_of(operations.table, "plaintext")))  # fmt: skip
    uses = [(rows[ids >= 0], objects.rows(ids[ids >= 0], "object")) for rows, ids in pairs]
    held, first, last = _lives(_of(uses, owner < 0))
    count = len(objects.bytes)
    ends = [rows * count + used for rows, used in _of(uses[:2], owner < 0)]
    inside = [(rows, owner[rows] * count + used) for rows, used in _of(uses[:2], owner >= 0)]
    own, begin, end = _lives([(rows[other], used[other]) for rows, used in inside
                              for other in [~np.isin(used, np.concatenate(ends))]])  # fmt: skip
    besides = {}
    for composite in np.unique(own // max(1, count)).tolist():
        at = slice(*np.searchsorted(own, [composite * count, (composite + 1) * count]).tolist())
        since = begin[at].min()
        besides[composite] = peak(begin[at] - since, end[at] - since, objects.bytes[own[at] % count])
    return peak(first, last, objects.bytes[held], besides)


def _of(uses: Sequence[tuple[Ints, Ints]], chosen: Bools) -> list[tuple[Ints, Ints]]:
    """The uses at these steps."""
    return [(rows[chosen[rows]], objects[chosen[rows]]) for rows, objects in uses]


def _lives(uses: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints, Ints]:
    """Objects that are used, each once, and the first and the last step of each.

    Args:   uses: steps, and the object that each uses.
    """
    steps, used = (np.concatenate(parts) for parts in zip(*uses, strict=True))
    order = np.lexsort((steps, used))
    steps, used = steps[order], used[order]
    begins = np.flatnonzero(np.diff(used, prepend=-1))
    ends = np.append(begins[1:], len(used)) - 1 if len(used) else begins
    return used[begins], steps[begins], steps[ends]


def _owners(operations: OperationColumns) -> Ints:
    """The row of the composite whose expansion an operation belongs to, the outermost one; -1: none."""
    scopes, names = text_codes(operations.table["scope"])
    is_of = [operations.origins == place_in(origin, operations.origin_names)
             for origin in (ORIGIN_COMPOSITE, ORIGIN_MODELLED)]  # fmt: skip
    composites = {names[scopes[row]]: row for row in np.flatnonzero(is_of[0]).tolist()}
    owners = np.asarray([_owner(name, composites) for name in names] if composites else [-1] * len(names), np.int64)
    return np.where(is_of[1], owners[scopes], -1)


def _owner(scope: str, composites: Mapping[str, int]) -> int:
    at = -1
    while (at := scope.find("/", at + 1)) >= 0:
        if scope[:at] in composites:
            return composites[scope[:at]]
    return composites.get(scope, -1)
