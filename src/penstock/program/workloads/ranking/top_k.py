"""Top-k: the k largest scores of every record of an encrypted table, with indices
(`penstock.program.database.ranking`)."""

from __future__ import annotations

from penstock.program.workloads.parts.ranking import blank, check, data, program, sizes

__all__ = ["blank", "check", "data", "program"]

NAME = "top-k"
DESCRIPTION = "k largest of the encrypted scores of each record in order, and their indices"
SOURCE = "all pairs compared by the minimax sign of Lee et al., IEEE TDSC 2021 (ePrint 2020/834); after FHEIns, III-A"

SIZES = sizes(top=10)
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "published"
