"""A program in a predictor's terms: the count of each shape of operation, its keys, and its peak of live data.

A tally is read from a trace by `tally_of`, or made without rows by `penstock.program.evaluator.counting`; both give the
same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.traces.schema import ORIGIN_MODELLED, Trace
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
    table = trace.operations
    scopes, kinds = table["scope"].to_pylist(), table["origin"].to_pylist()
    columns = (table[name].to_pylist() for name in ("operands", "output", "plaintext"))
    rows = list(zip(kinds, scopes, *columns, strict=True))
    composites = {scope: i for i, (origin, scope, *_) in enumerate(rows) if origin == "composite"}
    ids = ints(trace.objects["id"])
    size = dict(zip(ids.tolist(), objects.bytes.tolist(), strict=True))
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    inner: dict[int, list[tuple[int, ...]]] = {}
    for i, (origin, scope, operands, output, plaintext) in enumerate(rows):
        held = [object_id for object_id in (*operands, output) if object_id is not None]
        if origin == ORIGIN_MODELLED:
            owner = _owner(scope, composites)
            if owner is not None:
                inner.setdefault(owner, []).append(tuple(held))
                continue
        for object_id in (*held, plaintext):
            if object_id is not None:
                first.setdefault(object_id, i)
                last[object_id] = i
    besides = {}
    for owner, steps in inner.items():
        ends = {*rows[owner][2], rows[owner][3]}
        begin: dict[int, int] = {}
        end: dict[int, int] = {}
        for i, held_inside in enumerate(steps):
            for object_id in held_inside:
                if object_id not in ends:
                    begin.setdefault(object_id, i)
                    end[object_id] = i
        besides[owner] = peak(list(begin.values()), list(end.values()), [size[object_id] for object_id in begin])
    return peak(list(first.values()), list(last.values()), [size[object_id] for object_id in first], besides)


def _owner(scope: str, composites: Mapping[str, int]) -> int | None:
    """The row of the composite whose expansion an operation of this scope belongs to: the outermost one."""
    at = -1
    while (at := scope.find("/", at + 1)) >= 0:
        if scope[:at] in composites:
            return composites[scope[:at]]
    return composites.get(scope)
