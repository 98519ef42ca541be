"""CryptOracle's chi-square test: counts of alleles, and products that are never relinearized.

Its calls are those of Table 3, but for its 4 EvalMultPlaintext and no EvalAddPlaintext: its code has one of each. No
operation reads a key.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.errors import ParamsError
from penstock.program.evaluator.protocol import Evaluator, Values
from penstock.program.workloads import chi_square
from penstock.program.workloads.chi_square import Data, blank, check, data
from penstock_studies.workloads import algorithms

__all__ = ["blank", "check", "data", "program"]

NAME = "cryptoracle-chi-square"
DESCRIPTION = "chi-square test as CryptOracle computes it, without relinearization"
SOURCE = "CryptOracle (Brynds et al., ISPASS 2026), Tables 2, 3 and 5; openfhe-genomic-examples, demo-chi2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size(chi_square.Size):
    """As of `chi-square`."""

    scaling: float
    """Factor of scaled counts: products of counts stay in range."""


SIZES = {
    "ci": Size(params="insecure-ci", people=16, variants=512, associated=1, scaling=1e-3),
    "full": Size(params="cryptoracle-chi-square", people=200, variants=2**14, associated=3, scaling=2.5e-6),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "full"


def program(ev: Evaluator, data: Data, size: Size) -> Values:
    """Chi-square statistics and odds ratios, (2, variants)."""
    people, variants = data.genotypes.shape
    if variants > ev.params.slots:
        raise ParamsError(
            f"{NAME}: {variants} variants take as many slots, and the set has {ev.params.slots}; take one with more"
        )
    with ev.scope("input"):
        genotypes = [ev.encrypt(row, name=f"genotype {i}") for i, row in enumerate(data.genotypes)]
        phenotypes = [
            ev.encrypt(np.full(ev.params.slots, y), name=f"phenotype {i}") for i, y in enumerate(data.phenotypes)
        ]
    parts = algorithms.chi_square(ev, genotypes, phenotypes, size.scaling)
    with ev.scope("output"):
        numerator, denominator, odds, against = (np.real(ev.decrypt(part))[:variants] for part in parts)
    total = 2 * people
    smallest = 0.5 * size.scaling
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(denominator > smallest**2, total * numerator / denominator, np.nan)
        ratio = np.where(against > smallest, odds / against, np.nan)
    return np.stack([statistic, ratio])
