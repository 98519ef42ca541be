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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.base.types import Row, RowView
from penstock_studies.fheins import data
from penstock_studies.fheins.assumed import assumed_rows
from penstock_studies.fheins.engine import engine_rows
from penstock_studies.fheins.model import HEADLINE, FheinsStudy
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A published claim and its remainder."""

    claim: str
    needs: str
    value: str
    survives: str


@dataclass(frozen=True, slots=True)
class _Computed:
    """The values of the rows, in the words of a claim."""

    at: Mapping[str, float]
    """Row -> from first principles."""

    def both(self, name: str) -> str:
        """The gains of both drives."""
        return " and ".join(f"{self.at[name.format(drive)]:.3g}x" for drive in data.DRIVES)

    def joules(self, of: str) -> str:
        """The energies of both drives against those of the host."""
        sides = [
            [self.at[f"{of.format(drive)}.{whose}_energy"] for drive in data.DRIVES] for whose in ("fheins", "host")
        ]
        return " against ".join(" and ".join(f"{joule:.0f}" for joule in dict.fromkeys(side)) + " J" for side in sides)


LAST = data.BATCHES[-1]
DRAM, ONCE = "batch-overlap-dram", "batch-overlap-dram-encode-once"


def claims(made: Sequence[RowView]) -> list[Claim]:
    """Which published claims survive, with the numbers of the rows."""
    computed = _Computed({line["id"]: line["first_principles"] for line in made})
    return [*_retrieval_claims(computed), *_similarity_claims(computed), *_power_claims(computed)]


def _retrieval_claims(computed: _Computed) -> list[Claim]:
    both = computed.both
    return [
        Claim(
            claim="PIR up to 14.3x and 24.7x",
            needs="a host that reads the database again for each query, against a drive that reads it once a batch",
            value=f"{both('pir.{}.max.speedup')} under that policy",
            survives=f"no: with batches on both sides {both(f'pir.{{}}.batch1.{DRAM}.speedup')} for one query and "
            f"{both(f'pir.{{}}.batch{LAST}.{DRAM}.speedup')} for {LAST} "
            f"({both(f'pir.{{}}.batch{LAST}.{ONCE}.speedup')} where both encode records once)",
        ),
        Claim(
            claim="in-storage bandwidth helps queries that read everything once",
            needs="one query, or few",
            value=f"{both(f'pir.{{}}.batch1.{DRAM}.speedup')}, the ratio of internal to PCIe bandwidth",
            survives="yes",
        ),
        Claim(
            claim="INSPIRE gains 1.2x to 2.3x over the same host",
            needs="the same re-streaming host",
            value=both(f"inspire.{{}}.{HEADLINE.name}.batch{LAST}.speedup"),
            survives=f"no: {both(f'inspire.{{}}.batch-overlap.batch{LAST}.speedup')} against a host that batches "
            f"{LAST} queries",
        ),
    ]


def _similarity_claims(computed: _Computed) -> list[Claim]:
    both = computed.both
    return [
        Claim(
            claim="SSC up to 1.3x and 2.7x",
            needs="one query at a time, and keys that cost the DRAM nothing",
            value=both("ssc.{}.max.speedup"),
            survives=f"no: {both(f'ssc.{{}}.queries{LAST}.batch-overlap.speedup')} against a host that reads the "
            f"database once for {LAST} queries; one query: {both(f'ssc.{{}}.max.{DRAM}.speedup')} with seeded keys "
            f"over the DRAM, broadcast in lock step, {both('ssc.{}.max.batch-overlap-spill.speedup')} if what 7 MB do "
            "not hold of a key switch spills",
        ),
        Claim(
            claim="memory optimisations give 1.60x to 2.24x",
            needs="a base that reads one key of sixteen again for each ciphertext",
            value=both("ablation.{}.base.speedup"),
            survives=f"as a lower bound: a base that reads all keys again gives "
            f"{both('ablation.{}.all-keys-from-flash.speedup')}",
        ),
        Claim(
            claim="SSD-L gains less on SSC, limited by computing",
            needs="-",
            value=f"{both('ssc.{}.max.speedup')}: twice the accelerators, twice the gain",
            survives="no: its own numbers say that the large drive gains more",
        ),
    ]


def _power_claims(computed: _Computed) -> list[Claim]:
    at, joules = computed.at, computed.joules
    return [
        Claim(
            claim="better energy efficiency",
            needs="powers of synthesised logic against SHARP's published power; flash, DRAM and link left out",
            value=f"PIR, {LAST} queries: {joules(f'pir.{{}}.batch{LAST}')} a query; SSC: {joules('ssc.{}.batch1')}",
            survives=f"for PIR, by less: {joules(f'pir.{{}}.batch{LAST}.{DRAM}')} where both read the database once a "
            f"batch; for SSC not: {joules(f'ssc.{{}}.queries{LAST}.{DRAM}')} for {LAST} queries",
        ),
        Claim(
            claim="power within 55 W for both drives",
            needs="rows of Table II that are whole accelerators, not single engines",
            value=" and ".join(f"{at[f'table2.{d}.per-engine.power']:.3g} W" for d in data.DRIVES) + " read literally",
            survives="for SSD-S; for SSD-L only if a row of Table II is all that an accelerator has "
            f"({at['table2.ssd-l.per-accelerator.power']:.3g} W)",
        ),
    ]
