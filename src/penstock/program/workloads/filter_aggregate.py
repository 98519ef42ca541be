"""Filter and aggregate: sum and count of the rows whose category is the query's, all encrypted.

A row a slot: a column of category codes 0 … c-1 and one of values (`penstock.program.database.filtering`). Mask times
value, and the mask itself, are summed over ciphertexts and then over slots by rotations: mask selection and slot-wise
reduction, figure 1(a) of FHEIns.

The polynomial is steep at its outer zeros: of 8 categories an error at a difference of 7 comes out 1,657 times as
large. Scales that are off by a prime's distance from 2^p (`fixed-manual`) are off alike in every row, and a sum over
many rows adds that up; `full` runs where scales are followed exactly, and only noise is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.base.arrays import Floats
from penstock.program.database.filtering import FilterPlan, FilterScan
from penstock.program.evaluator.protocol import Evaluator
from penstock.program.workloads.parts.check import Check, refuse_path
from penstock.program.workloads.parts.tables import check_sums, encrypted_table, sum_and_count
from penstock.scheme.params.ckks import CkksParameters

NAME = "filter-aggregate"
DESCRIPTION = "sum and count of the rows of an encrypted category"
SOURCE = "FHEIns, section III-A and figure 1(a)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Rows of a table, and how many categories they fall into."""

    params: str
    rows: int
    categories: int

    def plan(self, params: CkksParameters) -> FilterPlan:
        """Raises: ParamsError: the parameters do not carry the query."""
        return FilterPlan(params=params, rows=self.rows, categories=self.categories)


SIZES = {
    "ci": Size(params="insecure-small", rows=2**12, categories=8),
    "full": Size(params="openfhe-filter", rows=2**16, categories=8),
    "published": Size(params="fheins-ssc", rows=2**18, categories=8),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "published"


@dataclass(frozen=True, slots=True)
class Data:
    """Category codes (rows,), values (rows,) in [0, 1], and the code that is asked for."""

    categories: Floats
    values: Floats
    query: int
    description: str = ""


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Random codes and values."""
    refuse_path(path, NAME, "its table is drawn from --seed")
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, size.categories, size.rows).astype(np.float64)
    values = generator.uniform(0, 1, size.rows)
    return Data(codes, values, int(generator.integers(0, size.categories)), f"a table of {size.rows} random rows")


def blank(size: Size, slots: int) -> Data:
    """The same shapes without values."""
    return Data(np.zeros(size.rows), np.zeros(size.rows), 0)


def program(ev: Evaluator, data: Data, size: Size) -> Floats:
    """Sum of the values and number of the rows of the query's category, (2,)."""
    plan = size.plan(ev.params)
    table = encrypted_table(ev, "category", data.categories, data.values, size.categories)
    scan = FilterScan(ev, plan, data.query)
    return sum_and_count(ev, scan, table, size.rows, zero=data.query == 0)


def check(clear: Floats, got: Floats, data: Data, size: Size) -> Check:
    """Sum and count within 1e-4, the clear ones equal to numpy's."""
    chosen = data.categories == data.query
    return check_sums(clear, got, (data.values[chosen].sum(), chosen.sum()), "count")
