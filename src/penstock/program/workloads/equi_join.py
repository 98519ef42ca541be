"""Equi-join with sums: pairs of rows of two encrypted tables whose codes are equal.

The large table has a row a slot: a code and a value. Each row of the small one is a code and an attribute, each in a
ciphertext. `penstock.program.database.filtering` masks the rows of equal codes for each small row. The query is "select
sum(value * attribute), count(*) from large join small using (code)".
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.base.arrays import Floats
from penstock.program.database.filtering import JoinPlan, JoinScan
from penstock.program.evaluator.protocol import Evaluator
from penstock.program.workloads.parts.check import Check, refuse_path
from penstock.program.workloads.parts.tables import check_sums, encrypted_table, sum_and_count
from penstock.scheme.params.ckks import CkksParameters

NAME = "equi-join"
DESCRIPTION = "sum and count over the pairs of two encrypted tables with equal codes"
SOURCE = "after FHEIns, section III-A: joins as candidate selection"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Rows of both tables, and how many codes there are."""

    params: str
    rows: int
    categories: int
    small_rows: int

    def plan(self, params: CkksParameters) -> JoinPlan:
        """Raises: ParamsError: the parameters do not carry the query."""
        return JoinPlan(params=params, rows=self.rows, categories=self.categories, small_rows=self.small_rows)


SIZES = {
    "ci": Size(params="insecure-small", rows=2**11, categories=4, small_rows=3),
    "full": Size(params="openfhe-filter", rows=2**15, categories=4, small_rows=3),
    "published": Size(params="fheins-ssc", rows=2**16, categories=8, small_rows=8),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "published"


@dataclass(frozen=True, slots=True)
class Data:
    """Codes and values (rows,) of the large table; codes and attributes (small_rows,) of the small one."""

    codes: Floats
    values: Floats
    small_codes: tuple[int, ...]
    attributes: tuple[float, ...]
    description: str = ""


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Random codes and values; the codes of the small table differ."""
    refuse_path(path, NAME, "its tables are drawn from --seed")
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, size.categories, size.rows).astype(np.float64)
    values = generator.uniform(0, 1, size.rows)
    small = tuple(int(code) for code in generator.permutation(size.categories)[: size.small_rows])
    attributes = tuple(float(value) for value in generator.uniform(0, 1, size.small_rows))
    return Data(codes, values, small, attributes, f"{size.rows} random rows and {size.small_rows} to join them with")


def blank(size: Size, slots: int) -> Data:
    """The same shapes without values."""
    return Data(np.zeros(size.rows), np.zeros(size.rows), tuple(range(size.small_rows)), (0.0,) * size.small_rows)


def program(ev: Evaluator, data: Data, size: Size) -> Floats:
    """Sum of value times attribute and number of the pairs, (2,)."""
    plan = size.plan(ev.params)
    table = encrypted_table(ev, "code", data.codes, data.values, size.categories)
    scan = JoinScan(ev, plan, list(data.small_codes), list(data.attributes))
    return sum_and_count(ev, scan, table, size.rows, zero=0 in data.small_codes)


def check(clear: Floats, got: Floats, data: Data, size: Size) -> Check:
    """Sum and count within 1e-4, the clear ones equal to numpy's."""
    table = dict(zip(data.small_codes, data.attributes, strict=True))
    met = np.array([table.get(int(code), 0.0) for code in data.codes])
    pairs = float(np.isin(data.codes, data.small_codes).sum())
    return check_sums(clear, got, ((met * data.values).sum(), pairs), "pairs")
