"""Argmax: the largest score of every record of an encrypted table, and its index
(`penstock.program.database.ranking`)."""

from __future__ import annotations

from penstock.program.workloads.parts.ranking import blank, check, data, program, sizes

__all__ = ["blank", "check", "data", "program"]

NAME = "argmax"
DESCRIPTION = "largest of the encrypted scores of each record, and its index"
SOURCE = "all pairs compared by the minimax sign of Lee et al., IEEE TDSC 2021 (ePrint 2020/834); after FHEIns, III-A"

SIZES = sizes(top=1)
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "published"
