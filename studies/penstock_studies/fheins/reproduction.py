"""FHEIns, reproduced: its figures 3 to 5 and the arithmetic of its tables, under each named assumption.

`first_principles` is from the workloads' traces, the kernel algebra, the units that the paper names and the drives of
its Table I; values that the paper leaves open are `assumed` in the machine file. `calibrated` chains the operations of
an object and has two fitted constants: the clock (to SSD-S's maximum of figure 4) and the share of the DRAM's rate for
selections (to SSD-L's of figure 3). The rows of the fit have no error. `policy` names the assumption of each row;
errors refer to the headline's, `restream-overlap`.
Source: "FHEIns: Fully Homomorphic Encryption Acceleration for Large Data Applications with In-Storage Processing".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.base.system import toml
from penstock.base.types import Row, Rows, RowView
from penstock_studies.fheins import data
from penstock_studies.fheins.assumed import assumed_rows
from penstock_studies.fheins.engine import engine_rows
from penstock_studies.fheins.model import FheinsStudy
from penstock_studies.fheins.rows import (
    ablation_rows,
    energy_rows,
    inspire_rows,
    pir_rows,
    sensitivity_rows,
    ssc_rows,
)
from penstock_studies.fheins.tables import table1_rows, table2_rows
from penstock_studies.fheins.workloads import inspire_unit_rows, mode_rows, workload_rows

STUDY = "fheins"
DRAWN = ("sensitivity", "energy", "table1", "modes", "assumed")
"""Groups that a table on a terminal leaves out."""


def rows(study: FheinsStudy | None = None) -> list[Row]:
    """The whole study as flat rows."""
    paper = FheinsStudy.of_paper() if study is None else study
    made = [
        *pir_rows(paper),
        *inspire_rows(paper),
        *inspire_unit_rows(paper),
        *ssc_rows(paper),
        *ablation_rows(paper),
        *workload_rows(paper),
        *mode_rows(paper),
        *energy_rows(paper),
        *sensitivity_rows(paper),
        *assumed_rows(paper),
        *engine_rows(paper),
        *table1_rows(paper),
        *table2_rows(paper),
    ]
    assert len({line["id"] for line in made}) == len(made), "ids are unique"
    return made


def table_rows(made: Sequence[Row]) -> list[Row]:
    """Rows for a terminal: maxima under every policy, the largest batch where both sides batch, INSPIRE, the ablation,
    power, and engine against formula."""
    largest = f".batch{data.BATCHES[-1]}."
    shown = []
    for line in made:
        row_id, group = line["id"], line["group"]
        one_batch = re.search(r"\.batch\d+\.", row_id) is not None
        kept = group in ("inspire", "engine", "workloads") or (
            group == "figure3" and line["policy"].startswith("batch-overlap")
        )
        if group in DRAWN or row_id.endswith((".area", "_share")) or (one_batch and not (kept and largest in row_id)):
            continue
        shown.append(line)
    return shown


_VALUE = re.compile(r"\{(\w) (\S+)\}")
"""In `claims.toml`: how a value is written, and its row."""


def claims(made: Sequence[RowView]) -> Rows:
    """Which published claims survive, with the numbers of the rows: `claim`, `needs`, `value` and `survives`."""
    at = {line["id"]: line["first_principles"] for line in made}

    def written(match: re.Match[str]) -> str:
        how, name = match.groups()
        rows = dict.fromkeys(name.replace("*", drive) for drive in data.DRIVES)
        if how == "J":
            sides = [dict.fromkeys(at[f"{row}.{whose}_energy"] for row in rows) for whose in ("fheins", "host")]
            return " against ".join(" and ".join(f"{joule:.0f}" for joule in side) + " J" for side in sides)
        return " and ".join(f"{at[row]:.3g}{' W' if how == 'W' else how}" for row in rows)

    table = toml.packaged("penstock_studies.fheins", "claims.toml")["claim"]
    return [{part: _VALUE.sub(written, text) for part, text in claim.items()} for claim in table]
