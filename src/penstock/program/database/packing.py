"""The cutting of records into slots: chunks of whole bytes, one column of the database for each chunk.

A block is as many records as a vector has slots. Column c of a block is the vector of chunk c of its records, one
record a slot: a plaintext for each column, block after block, is the order in which a scan reads the database.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.base.units import BITS_PER_BYTE
from penstock.errors import ParamsError, UsageError
from penstock.scheme.params.ckks import CkksParameters

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]

ERROR_STANDARD_DEVIATION = 3.19
"""Of the discrete Gaussian that encryption draws from, sigma = 8 / sqrt(2 pi), as the security tables assume."""
MARGIN_DEVIATIONS = 6.0
"""An error this many standard deviations long is not expected in the lifetime of a database (2e-9 a slot)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPacking:
    """Records of a fixed width in chunks of whole bytes, a chunk a slot."""

    record_bytes: int
    bits_per_slot: int

    def __post_init__(self) -> None:
        if self.record_bytes < 1:
            raise UsageError(f"a record of {self.record_bytes} bytes holds nothing: ask for at least 1")
        if self.bits_per_slot < BITS_PER_BYTE or self.bits_per_slot % BITS_PER_BYTE or self.bits_per_slot > 48:
            raise UsageError(f"{self.bits_per_slot} bits a slot: chunks are whole bytes, 8 to 48 bits")

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a record that one slot holds."""
        return self.bits_per_slot // BITS_PER_BYTE

    @property
    def columns(self) -> int:
        """Slots that one record takes."""
        return -(-self.record_bytes // self.chunk_bytes)

    def chunks(self, records: Bytes) -> Floats:
        """Records of shape (n, record_bytes) as chunks of shape (columns, n), each in [0, 1)."""
        padded = np.zeros((len(records), self.columns * self.chunk_bytes), dtype=np.uint8)
        padded[:, : self.record_bytes] = records
        split = padded.reshape(len(records), self.columns, self.chunk_bytes).astype(np.float64)
        weights = 256.0 ** (np.arange(self.chunk_bytes) - self.chunk_bytes)
        return np.ascontiguousarray((split @ weights).T)

    def rounded(self, chunks: Floats) -> tuple[Bytes, Floats]:
        """The records in chunks of shape (columns, n), and how far each chunk was from a whole number, in units of it.

        Returns: (n, record_bytes) bytes; (columns, n), 0.5 where a chunk could as well have been its neighbour.
        """
        scaled = chunks * 2.0**self.bits_per_slot
        whole = np.clip(np.rint(scaled), 0, 2**self.bits_per_slot - 1)
        split = (whole.astype(np.int64)[..., None] >> (8 * np.arange(self.chunk_bytes))) & 0xFF
        rows = np.ascontiguousarray(split.transpose(1, 0, 2)).reshape(whole.shape[1], -1)
        return rows[:, : self.record_bytes].astype(np.uint8), np.abs(scaled - whole)


def precision_bits(params: CkksParameters, additions: int) -> float:
    """Bits of a slot that survive encryption and so many additions of fresh errors.

    A fresh ciphertext's error has a standard deviation of sigma sqrt(4 N / 3 + 1) a coefficient (e0 + e1 s + v e with
    ternary s and v), sqrt(N) times that a slot; sums add variances. Values lie in [0, 1), and half a step is left.
    >>> from penstock.scheme.params import catalogue
    >>> round(precision_bits(catalogue.get("insecure-database"), 1024), 1)
    27.5
    """
    n = params.ring_dim
    slot_error = ERROR_STANDARD_DEVIATION * math.sqrt(4 * n / 3 + 1) * math.sqrt(n)
    bound = MARGIN_DEVIATIONS * slot_error * math.sqrt(additions)
    return params.scale_bits - math.log2(bound) - 1


def check_precision(params: CkksParameters, bits_per_slot: int, additions: int, what: str) -> None:
    """Refuse more bits a slot than CKKS returns exactly.

    Raises: ParamsError: fewer bits survive than a slot holds.
    """
    left = precision_bits(params, additions)
    if bits_per_slot > left:
        raise ParamsError(
            f"{what}: {bits_per_slot} bits a slot, and set '{params.name}' (scale 2^{params.scale_bits}, "
            f"N = {params.ring_dim}) returns {left:.1f} bits exactly after {additions} additions: take fewer bits a "
            "slot, or a set with a larger scale"
        )
