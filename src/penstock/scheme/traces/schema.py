"""The trace format: two tables (operations, objects) and metadata. It never holds ciphertext or key material."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.types import Row
from penstock.scheme.operations import KINDS, TRAITS, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.unpriced import added

SCHEMA_VERSION = 1

ORIGIN_CALLED = "called"
"""The program asked for this operation."""
ORIGIN_COMPOSITE = "composite"
"""One call of the library that stands for many operations; `modelled` rows with its scope expand it."""
ORIGIN_MODELLED = "modelled"
"""Part of the expansion of a composite by our own circuit."""

OPERATIONS_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("kind", pa.dictionary(pa.int16(), pa.string()), nullable=False),
        pa.field("origin", pa.dictionary(pa.int16(), pa.string()), nullable=False),
        # Limbs at which the operation computes, and limbs of its result.
        pa.field("limbs_in", pa.int32(), nullable=False),
        pa.field("limbs_out", pa.int32(), nullable=False),
        pa.field("operands", pa.list_(pa.int64()), nullable=False),  # object ids, in order
        pa.field("output", pa.int64(), nullable=True),  # object id; null for decrypt
        pa.field("key", pa.dictionary(pa.int32(), pa.string()), nullable=True),  # relin | rot:<g> | conj | …
        pa.field("plaintext", pa.int64(), nullable=True),  # object id
        pa.field("step", pa.int32(), nullable=True),  # rotation, in slots to the left
        # What automatic scaling does inside the call, before the operation itself.
        pa.field("implied_rescales", pa.int16(), nullable=False),
        pa.field("implied_scalar_mults", pa.int16(), nullable=False),
        pa.field("scope", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("start_s", pa.float64(), nullable=True),  # since the start of the recording
        pa.field("end_s", pa.float64(), nullable=True),
    ]
)

OBJECT_CLASSES = ("ciphertext", "plaintext", "key", "digits", "extended", "small", "stored")
"""`small`: ciphertexts of the set's small ring; `stored`: a block of an encrypted database, in that ring too."""

OBJECTS_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("class", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("name", pa.string(), nullable=True),  # of keys and named inputs
        pa.field("limbs", pa.int32(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceMeta:
    """The origin of a trace: program, parameters, reading, provenance."""

    workload: str
    params: Row
    """The resolved parameter set, as `CkksParameters.to_dict()` gives it."""
    reading: str
    """`trace` (symbolic), `openfhe` (measured), `record` (a user's script)."""
    size: str = ""
    seed: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    left_out: dict[str, int] = field(default_factory=dict)
    """Kind -> operations of the program whose inside nobody knows, and of which the trace has no rows."""
    schema_version: int = SCHEMA_VERSION

    def to_dict(self) -> Row:
        record = asdict(self)
        return record if self.left_out else {name: value for name, value in record.items() if name != "left_out"}


@dataclass(frozen=True, slots=True)
class Trace:
    """A recorded program. `operations` follows `OPERATIONS_SCHEMA`, `objects` follows `OBJECTS_SCHEMA`."""

    meta: TraceMeta
    operations: pa.Table
    objects: pa.Table

    def __len__(self) -> int:
        return int(self.operations.num_rows)

    def parameters(self) -> CkksParameters:
        """The parameter set that the trace was made at."""
        return CkksParameters.from_dict(self.meta.params)

    def view(self, *, composites: bool = False) -> Trace:
        """The trace with each composite expanded (default), or whole (`composites=True`).

        A composite without an expansion is kept either way. Expanded, operations keep their order.
        """
        origins, origin_names = text_codes(self.operations["origin"])
        modelled = origins == place_in(ORIGIN_MODELLED, origin_names)
        if composites:
            keep = ~modelled
        else:
            scopes, scope_names = text_codes(self.operations["scope"])
            expanded = {
                scope_names[code][:end] for code in np.unique(scopes[modelled]) for end in _ends(scope_names[code])
            }
            inside = np.asarray([name in expanded for name in scope_names], dtype=bool)
            composite = origins == place_in(ORIGIN_COMPOSITE, origin_names)
            keep = ~(composite & inside[scopes]) if len(scope_names) else ~composite
        return replace(self, operations=self.operations.filter(pa.array(keep)))

    def server_operations(self) -> pa.Table:
        """The operations that the server executes: without `encrypt` and `decrypt`."""
        return server_rows(self.operations)

    def key_ids(self) -> list[str]:
        """Evaluation keys in the order of first use."""
        codes, names = text_codes(self.operations["key"])
        distinct, first = np.unique(codes, return_index=True)
        return list(dict.fromkeys(names[code] for code in distinct[np.argsort(first)].tolist() if code >= 0))

    def key_limbs(self) -> dict[str, int]:
        """The most limbs at which an operation uses each evaluation key, in the order of first use.

        A truncated key has the rows up to there. Keys inside a composite count as far as the trace expands it.
        """
        codes, names = text_codes(self.operations["key"])
        limbs = np.asarray(self.operations["limbs_in"].to_numpy(), dtype=np.int64)
        used = codes >= 0
        most = np.zeros(len(names), dtype=np.int64)
        np.maximum.at(most, codes[used], limbs[used])
        distinct, first = np.unique(codes[used], return_index=True)
        return {names[code]: int(most[code]) for code in distinct[np.argsort(first)].tolist()}

    def has_modelled_keys(self) -> bool:
        """Whether some key is used only by our model of a library composite."""
        origins, origin_names = text_codes(self.operations["origin"])
        if ORIGIN_MODELLED not in origin_names:
            return False
        codes, names = text_codes(self.operations["key"])
        modelled = origins == origin_names.index(ORIGIN_MODELLED)
        inside, outside = (
            {names[code] for code in np.unique(own[own >= 0])} for own in (codes[modelled], codes[~modelled])
        )
        return bool(inside - outside - {""})

    def has_modelled_key_limbs(self) -> bool:
        """Whether some key is used at its most limbs only by our model of a library composite, or by nothing else."""
        return self.view().key_limbs() != self.view(composites=True).key_limbs()

    def whole_composites(self) -> dict[str, int]:
        """Kind -> composites whose inside nobody knows: neither their operations nor their keys."""
        counts = self.view().count_by_kind()
        whole = {kind: count for kind, count in counts.items() if TRAITS[OpKind(kind)].composite}
        return added([whole, self.meta.left_out])

    def count_by_kind(self) -> dict[str, int]:
        """Number of operations of each kind, in the vocabulary's order."""
        codes, names = text_codes(self.operations["kind"])
        counted = Counter[str]()
        for name, count in zip(names, np.bincount(codes[codes >= 0], minlength=len(names)).tolist(), strict=True):
            counted[name] += count
        return {kind: counted[kind] for kind in KINDS if counted[kind]}


def server_rows(operations: pa.Table) -> pa.Table:
    """The operations that the server executes."""
    codes, kinds = text_codes(operations["kind"])
    # A null has the code -1, the last one.
    kept = np.asarray([*(kind not in CLIENT_KINDS for kind in kinds), True], dtype=bool)
    return operations.filter(pa.array(kept[codes]))


def text_codes(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], list[str]]:
    """A column of names as (num_ops,) codes, -1 for a null, and the names that they stand for."""
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0) if whole.num_chunks else pa.array([], column.type)
    encoded = whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
    return np.asarray(encoded.indices.fill_null(-1)).astype(np.int64), encoded.dictionary.to_pylist()


def place_in(name: str | None, names: Sequence[str]) -> int:
    """The place of a name; -1: it is not there."""
    return names.index(name) if name in names else -1


def _ends(scope: str) -> list[int]:
    """Ends of every path prefix of `scope`, itself included: a/b/c -> a, a/b, a/b/c."""
    return [i for i, c in enumerate(scope) if c == "/"] + [len(scope)]


CLIENT_KINDS = tuple(kind.value for kind in OpKind if TRAITS[kind].client)
