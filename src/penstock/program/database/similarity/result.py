"""From the decrypted tables of a search to payloads and counts, at the client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Complexes, Floats
from penstock.program.database.similarity.comparison import Selection
from penstock.program.database.similarity.scheme import COLUMNS, PAYLOAD, PAYLOAD_RANGE

Payloads: TypeAlias = npt.NDArray[Any]
"""(records, `PAYLOAD`) whole numbers, of integers of any width."""
_TOLERANCE = 1 / 8
"""So near to whole numbers are the payload of a record that is alone in its bucket, and its share if that is whole."""


@dataclass(frozen=True, slots=True)
class Matches:
    """The matches of one search."""

    payloads: npt.NDArray[np.int16]
    """(matches, `PAYLOAD`), in lexicographic order."""
    count: int
    """Of all matches, as the tables count them: more than the payloads where some share buckets in every table."""


def encoded_payloads(payloads: Payloads) -> Complexes:
    """The columns of payloads, (`COLUMNS`, records): pairs of numbers over `PAYLOAD_RANGE`, the last with a 1 that
    counts.

    Args:   payloads: (records, `PAYLOAD`) integers from 0 to `PAYLOAD_RANGE` - 1.
    """
    values = np.ones((len(payloads), 2 * COLUMNS))
    values[:, :PAYLOAD] = payloads / PAYLOAD_RANGE
    return np.ascontiguousarray((values[:, 0::2] + 1j * values[:, 1::2]).T)


def tables_of(selection: Selection, results: Sequence[Complexes]) -> list[Floats]:
    """The tables of the result ciphertexts, (buckets, `PAYLOAD` + 1) each: sums of payloads in whole numbers, and of
    shares.

    Args:   results: one for each variant, (slots,) complex128.
    """
    made: list[Floats] = []
    for variant, values in enumerate(results):
        for table in selection.tables(variant):
            sums = np.empty((selection.buckets, 2 * COLUMNS))
            for column in range(COLUMNS):
                part = values[table.places(selection.slots, column)]
                sums[:, 2 * column], sums[:, 2 * column + 1] = part.real, part.imag
            sums[:, :PAYLOAD] *= PAYLOAD_RANGE
            made.append(sums)
    return made


def found_in(tables: Sequence[Floats]) -> Matches:
    """The matches: records that are alone in a bucket of some table, with a share above 1/2.

    A record near the threshold has a share between 0 and 1, and its payload is its sum over its share. Two such
    records in one bucket could look like one; so two tables must show such a payload, where there are several. Two
    records with the same payload are two where one table shows both.
    """
    whole: Counter[tuple[int, ...]] = Counter()
    shared: list[Counter[tuple[int, ...]]] = []
    counts = []
    for table in tables:
        share = table[:, PAYLOAD]
        whole |= Counter(filter(None, map(_alone, table[share >= 1 - _TOLERANCE])))
        shared.append(Counter(filter(None, map(_alone, table[(share >= 0.5) & (share < 1 - _TOLERANCE)]))))
        counts.append(int(np.rint(share).sum()))
    for payload in set().union(*shared):
        whole[payload] += sorted(alone[payload] for alone in shared)[-min(2, len(shared))]
    payloads = np.array(sorted(whole.elements()), dtype=np.int16).reshape(-1, PAYLOAD)
    return Matches(payloads, max([len(payloads), *counts]))


def _alone(row: Floats) -> tuple[int, ...] | None:
    """The payload of the one record in a bucket; `None`: there are several, or none that is sure."""
    share = float(row[PAYLOAD])
    if share > 1 + _TOLERANCE:
        return None
    # The sum of a whole record is whole itself, whatever the error of its share.
    for divisor in (1.0, share) if share >= 1 - _TOLERANCE else (share,):
        values = row[:PAYLOAD] / divisor
        whole = np.rint(values)
        if np.all(np.abs(values - whole) <= _TOLERANCE) and np.all((whole >= 0) & (whole < PAYLOAD_RANGE)):
            return tuple(int(value) for value in whole)
    return None


def counted(values: Complexes) -> int:
    """The matches of a result that only counts: the number in each slot, rounded."""
    return int(np.sum(np.rint(values.real)))
