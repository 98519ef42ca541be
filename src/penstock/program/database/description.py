"""The kind, packing and parameters of a database: the part of its header that people choose.

A database has entries of one size, numbered in the order of the disk. Stored as `ciphertexts` an entry is one
ciphertext. Stored as `records` (private retrieval only, whose server may know the records) an entry is the raw bytes of
one block, and its columns are encoded while it is read: OpenFHE's Python cannot store encoded plaintexts.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field

from penstock.base.types import Row, RowView
from penstock.errors import ParamsError, UsageError
from penstock.program.database.matching import MatchPlan
from penstock.program.database.packing import RecordPacking
from penstock.program.database.pir import PirPlan
from penstock.program.database.ssc import SscPlan
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.sizes import serialized_ciphertext_bytes

PIR, SSC, MATCH = "pir", "ssc", "string-match"
KINDS = (PIR, SSC, MATCH)
RECORDS, CIPHERTEXTS = "records", "ciphertexts"


_COUNTS = ("records", "record_bytes", "bits_per_slot", "features", "batch")
_TYPES: dict[str, type] = {"kind": str, "stored": str, "source": dict, **dict.fromkeys(_COUNTS, int)}
"""Field of a stored description -> its type; a bool is an int to Python, and no count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A database as requested. Two databases of one description hold the same records."""

    kind: str
    params: CkksParameters
    stored: str
    """`records` or `ciphertexts`."""
    records: int
    """Records, or vectors of features."""
    record_bytes: int = 0
    bits_per_slot: int = 0
    features: int = 0
    batch: int = 0
    """Vectors in one ciphertext; 0 is as many as fit."""
    source: RowView = field(default_factory=dict)
    """Where the records come from: a seed, or a file's digest."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"kind '{self.kind}': known are {', '.join(KINDS)}")
        if self.stored == RECORDS and self.kind != PIR:
            raise UsageError(
                f"a {self.kind} database is stored as ciphertexts: its server must not know it; only private "
                "retrieval reads raw records"
            )
        if self.params.library != "openfhe":
            raise ParamsError(
                f"set '{self.params.name}' is for accelerators: it has sizes and traces; a database on disk takes an "
                "OpenFHE set ('penstock params list')"
            )
        self.plan()

    def plan(
        self, *, folds: tuple[int, ...] = (), summation: str = "fold", pattern_bytes: int | None = None
    ) -> PirPlan | SscPlan | MatchPlan:
        """What a query computes.

        Raises: ParamsError, UsageError: the parameters do not carry it; a record is wider than what holds it.
        """
        if self.kind == SSC:
            return SscPlan(
                params=self.params, vectors=self.records, features=self.features, batch=self.batch, summation=summation
            )
        if self.kind == PIR:
            return PirPlan(params=self.params, records=self.records, packing=self.packing, folds=folds)
        length = self.packing.chunk_bytes if pattern_bytes is None else pattern_bytes
        return MatchPlan(params=self.params, records=self.records, packing=self.packing, pattern_bytes=length)

    @property
    def packing(self) -> RecordPacking:
        """The cutting of a record of bytes into slots."""
        return RecordPacking(record_bytes=self.record_bytes, bits_per_slot=self.bits_per_slot)

    @property
    def object_limbs(self) -> int:
        """Limbs of a stored ciphertext."""
        return self.params.num_q

    @property
    def num_entries(self) -> int:
        """Entries on disk."""
        plan = self.plan()
        if self.stored == RECORDS:
            assert isinstance(plan, PirPlan)
            return plan.blocks
        return plan.num_objects

    @property
    def entry_bytes(self) -> int:
        """Bytes of one entry: a block of raw records, or about what OpenFHE writes of a ciphertext.

        The library's version and features add some bytes to the latter; the header of a database has the exact size.
        """
        if self.stored == RECORDS:
            return self.params.slots * self.record_bytes
        return serialized_ciphertext_bytes(self.params, self.object_limbs)

    def to_dict(self) -> Row:
        """Every field in plain types."""
        record = {name: value for name, value in asdict(self).items() if name not in ("params", "source")}
        return {**record, "params": self.params.to_dict(), "source": dict(self.source)}

    @classmethod
    def from_dict(cls, record: RowView) -> Description:
        """What `to_dict` stored. Raises: KeyError, TypeError, PenstockError: it is malformed."""
        for name, kind in _TYPES.items():
            if type(record[name]) is not kind:
                raise TypeError(f"{name} is not of type {kind.__name__}")
        return cls(**{**record, "params": CkksParameters.from_dict(record["params"])})

    def params_digest(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the parameter set."""
        return digest(self.params.to_dict())


def digest(record: RowView) -> str:
    """16 hexadecimal digits that two records share only if they are equal."""
    return hashlib.sha256(canonical(record)).hexdigest()[:16]


def canonical(record: RowView) -> bytes:
    """A record as bytes, the same for equal records."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
