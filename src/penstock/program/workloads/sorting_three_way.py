"""Sorting of encrypted values by a three-way merging network: the sizes of `sorting_k_way` for k = 3."""

from __future__ import annotations

from penstock.program.workloads.sorting_k_way import SIZES as K_WAY_SIZES
from penstock.program.workloads.sorting_k_way import SOURCE as K_WAY_SOURCE
from penstock.program.workloads.sorting_k_way import blank, check, data, program

__all__ = ["blank", "check", "data", "program"]

NAME = "sorting-three-way"
DESCRIPTION = "three-way merging network on encrypted values, comparison by minimax polynomials"
SOURCE = K_WAY_SOURCE

SIZES = {name: K_WAY_SIZES[f"three-way-{name}"] for name in ("ci", "full", "published")}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "published"
