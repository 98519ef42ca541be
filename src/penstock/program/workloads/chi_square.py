"""Chi-square test for genome-wide association: allele counts against case or control, one variant a slot.

One ciphertext a person holds that person's minor alleles (0, 1, 2) for every variant; another holds the phenotype
(1 case, 0 control) in every slot. With T = 2 x persons alleles in all, and as shares of T: a of minor alleles among
cases, c of minor alleles, r of alleles of cases,

  chi^2 = T (a - c r)^2 / (c (1 - c) r (1 - r)),   odds ratio = a (1 - r - c + a) / ((c - a) (r - a)).

The server returns numerators and denominators, the client divides: three levels, one key. The products of genotype
and phenotype are added as three polynomials and relinearized once.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np

from penstock.base.system.outside import content_of, decoded
from penstock.errors import ParamsError, UsageError
from penstock.program.evaluator.protocol import Evaluator, Values
from penstock.program.workloads import Check

NAME = "chi-square"
DESCRIPTION = "chi-square statistics and odds ratios of a genome-wide association study"
SOURCE = "Blatt, Gusev, Polyakov, Goldwasser, PNAS 2020 (ePrint 2020/563); openfhe-genomic-examples"
TOLERANCE = 1e-3
"""Relative error of the statistic plus one, and of the odds ratio plus one."""
PHENOTYPES = ("phenotype", "condition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The number of people, and of variants of each, in generated data."""

    params: str
    people: int
    variants: int
    associated: int
    """Variants that raise the risk of being a case."""


SIZES = {
    "ci": Size(params="insecure-ci", people=64, variants=512, associated=2),
    # 200 people, as the counts of Table 3 imply.
    "full": Size(params="openfhe-gwas", people=200, variants=2**14, associated=3),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "full"


@dataclass(frozen=True, slots=True)
class Data:
    """Genotypes (people, variants) in 0, 1, 2; phenotypes (people,) in 0, 1."""

    genotypes: Values
    phenotypes: Values
    variants: Sequence[str] = ()
    """Names of the variants, from a file."""
    associated: tuple[int, ...] = ()
    """Variants with a planted association."""
    description: str = ""


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Generated genotypes with planted associations, or the genotypes of the CSV file at `path` (see
    `read_genotypes`)."""
    if path is not None:
        return read_genotypes(path, slots)
    _fits(size.variants, slots)
    generator = np.random.default_rng(seed)
    frequency = generator.uniform(0.05, 0.5, size.variants)
    genotypes = generator.binomial(2, frequency, (size.people, size.variants)).astype(np.float64)
    associated = tuple(int(v) for v in np.sort(generator.choice(size.variants, size.associated, replace=False)))
    chosen = genotypes[:, associated]
    risk = ((chosen - chosen.mean(axis=0)) / np.maximum(chosen.std(axis=0), 1e-9)).sum(axis=1)
    # Half of the people are cases: those whose risk, with as much chance in it, is above the median.
    liability = risk + generator.normal(0.0, max(float(risk.std()), 1e-9) / 2, size.people)
    phenotypes = (liability > np.median(liability)).astype(np.float64)
    return Data(genotypes, phenotypes, (), associated, f"generated genotypes, seed {seed}")


def blank(size: Size, slots: int) -> Data:
    """The same shapes without values."""
    return Data(np.zeros((size.people, size.variants)), np.zeros(size.people))


def read_genotypes(path: Path, slots: int) -> Data:
    """People and their genotypes from a CSV file.

    Its header names the columns: one is `phenotype` (or `condition`), 0 or 1; every column to its left is a label and
    ignored; every column to its right is a variant, the number of minor alleles 0, 1 or 2. Covariates, where a file has
    them, belong to the left.
    Raises: UsageError: the file cannot be read or breaks a rule; the message names file, row and rule.
            ParamsError: more variants than slots.
    """
    if not path.exists():
        raise UsageError(f"{path} does not exist: --data names a CSV file of genotypes")
    if path.is_dir():
        raise UsageError(f"{path} is a folder: --data of {NAME} names one CSV file of genotypes")
    try:
        # Numbered as the file's rows are, blank ones among them.
        lines = io.StringIO(decoded(content_of(path)), newline="")
        rows = [(number, row) for number, row in enumerate(csv.reader(lines), 1) if row]
    except (ValueError, csv.Error) as error:
        raise UsageError(f"{path} cannot be read as a CSV file: {error}") from error
    if not rows:
        raise UsageError(f"{path} is empty: its first row names the columns")
    (top, names), *people = rows
    header = [name.strip() for name in names]
    conditions = [i for i, name in enumerate(header) if name.lower() in PHENOTYPES]
    if len(conditions) != 1:
        raise UsageError(
            f"{path}, row {top}: {len(conditions)} columns are named {' or '.join(map(repr, PHENOTYPES))}; exactly one "
            "says who is a case"
        )
    first = conditions[0] + 1
    if first == len(header):
        raise UsageError(
            f"{path}, row {top}: no column is to the right of '{header[conditions[0]]}', where the variants are"
        )
    _fits(len(header) - first, slots)
    genotypes, phenotypes = [], []
    for number, row in people:
        if len(row) != len(header):
            raise UsageError(f"{path}, row {number}: {len(row)} cells and the header names {len(header)} columns")
        phenotypes.append(_cell(path, number, header[conditions[0]], row[conditions[0]], (0, 1)))
        cells = zip(header[first:], row[first:], strict=True)
        genotypes.append([_cell(path, number, name, cell, (0, 1, 2)) for name, cell in cells])
    cases = sum(phenotypes)
    if not 0 < cases < len(phenotypes):
        raise UsageError(
            f"{path}: {cases:g} of {len(phenotypes)} people are cases; the test needs both cases and controls"
        )
    return Data(np.array(genotypes), np.array(phenotypes), header[first:], (), f"genotypes in {path.name}")


def _cell(path: Path, row: int, column: str, cell: str, allowed: tuple[int, ...]) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if value not in allowed:
        listed = ", ".join(map(str, allowed))
        raise UsageError(
            f"{path}, row {row}, column '{column}': {cell.strip()!r} is none of {listed}; missing genotypes must be "
            "imputed or their rows left out"
        )
    return value


def _fits(variants: int, slots: int) -> None:
    if variants > slots:
        raise ParamsError(f"{NAME}: {variants} variants and {slots} slots in the set, one a variant: take a larger set")


def program(ev: Evaluator, data: Data, size: Size) -> Values:
    """(2, variants): the statistics, and the odds ratios; `nan` where a margin of the table is zero."""
    people, variants = data.genotypes.shape
    _fits(variants, ev.params.slots)
    total = 2.0 * people
    with ev.scope("input"):
        genotypes = [ev.encrypt(row, name=f"genotypes[{i}]") for i, row in enumerate(data.genotypes)]
        # The data owner divides the phenotype by T, which saves a level.
        shares = data.phenotypes / total
        phenotypes = [ev.encrypt(np.full(ev.params.slots, y), name=f"phenotype[{i}]") for i, y in enumerate(shares)]
    with ev.scope("counts"):
        products = [ev.mult_no_relin(s, y) for s, y in zip(genotypes, phenotypes, strict=True)]
        a = ev.rescale(ev.relinearize(reduce(ev.add, products)))
        c = ev.rescale(ev.mult(reduce(ev.add, genotypes), 1.0 / total))
        half = reduce(ev.add, phenotypes)
        r = ev.add(half, half)
    with ev.scope("statistic"):
        excess = ev.sub(a, ev.rescale(ev.mult(c, r)))
        numerator = ev.rescale(ev.square(excess))
        columns = ev.rescale(ev.mult(c, ev.sub(1.0, c)))
        rows = ev.rescale(ev.mult(r, ev.sub(1.0, r)))
        denominator = ev.rescale(ev.mult(columns, rows))
    with ev.scope("odds"):
        major = ev.add(ev.sub(ev.sub(a, r), c), 1.0)
        odds_numerator = ev.rescale(ev.mult(a, major))
        odds_denominator = ev.rescale(ev.mult(ev.sub(c, a), ev.sub(r, a)))
    with ev.scope("output"):
        shown = [
            np.real(ev.decrypt(part))[:variants] for part in (numerator, denominator, odds_numerator, odds_denominator)
        ]
    # Counts are whole: a denominator that is not zero is at least about 1 / T^2.
    smallest = 0.5 / total**2
    return np.stack([total * _ratio(shown[0], shown[1], smallest), _ratio(shown[2], shown[3], smallest)])


def _ratio(numerator: Values, denominator: Values, smallest: float) -> Values:
    defined = denominator > smallest
    return np.where(defined, numerator / np.where(defined, denominator, 1.0), np.nan)


def p_values(statistics: Values) -> Values:
    """Chance of a statistic at least so large with one degree of freedom.

    >>> [round(p, 3) for p in p_values(np.array([0.0, 3.841, 6.635])).tolist()]
    [1.0, 0.05, 0.01]
    """
    return np.array([math.erfc(math.sqrt(max(s, 0.0) / 2.0)) for s in statistics])


def check(clear: Values, got: Values, data: Data, size: Size) -> Check:
    """Statistics and odds ratios within 1e-3 of the clear ones (relative to the value plus one)."""
    defined = np.isfinite(clear)
    same = bool(np.array_equal(defined, np.isfinite(got)))
    both = defined & np.isfinite(got)
    error = float(np.max(np.abs(clear - got)[both] / (1.0 + np.abs(clear[both])), initial=0.0))
    statistics = np.where(np.isfinite(got[0]), got[0], 0.0)
    numbers = {
        "max_statistic": float(np.max(statistics)),
        "min_p_value": float(np.min(p_values(statistics))),
        "max_abs_error_of_statistic": float(np.max(np.abs(clear - got)[0][both[0]], initial=0.0)),
        "max_abs_error_of_odds_ratio": float(np.max(np.abs(clear - got)[1][both[1]], initial=0.0)),
        "undefined": float(np.sum(~defined)),
    }
    if data.associated:
        top = np.argsort(statistics)[::-1][: len(data.associated)]
        numbers["associated_found"] = float(len(set(top.tolist()) & set(data.associated)))
        numbers["associated"] = float(len(data.associated))
    outcome = {
        f"statistics and odds ratios differ by at most {TOLERANCE:g} of their value plus one": error <= TOLERANCE,
        "they are defined for the same variants": same,
    }
    return Check.of(outcome, error, TOLERANCE, numbers)
