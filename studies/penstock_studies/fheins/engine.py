"""Rows of `reproduce fheins` that the event engine plays: the headlines page by page, and their closed forms."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.types import Row
from penstock.lab.instorage.engine import played_in_storage, played_on_host
from penstock.lab.instorage.flash.spec import Arbitration, NandMapping
from penstock.lab.instorage.queries import speedup
from penstock.scheme.machines.drives import Drive, load_drive
from penstock_studies.fheins import data
from penstock_studies.fheins.model import HEADLINE, FheinsStudy
from penstock_studies.fheins.rows import row


def engine_rows(study: FheinsStudy) -> Iterator[Row]:
    """The maxima of figures 3 and 4 by the engine."""
    for name in data.DRIVES:
        drive = load_drive(name)
        for workload, query, batch in (("pir", study.pir(), data.BATCHES[-1]), ("ssc", study.ssc(), 1)):
            ours = played_in_storage(query, drive, study.accelerator, batch=batch, inside=HEADLINE.inside)
            theirs = played_on_host(query, drive, study.host, HEADLINE.host, batch=batch)
            formula = study.compared(query, name, HEADLINE, batch)[0]
            ratio = speedup(ours, theirs)
            note = (
                f"played page by page: {ours.query_s:.4g} s and {theirs.query_s:.4g} s a query; "
                f"{ratio / formula - 1:+.2%} of the closed form"
            )
            yield row(
                f"engine.{workload}.{name}.batch{batch}.speedup", "engine", "speedup", ratio, note, policy="engine-jump"
            )
        yield from _inside_rows(study, name, drive)


def _inside_rows(study: FheinsStudy, name: str, drive: Drive) -> Iterator[Row]:
    """FHEIns' statements and gaps about the drive: its table in NAND costs little; the order of bus grants is not
    stated."""
    pir = study.pir(database_bytes=data.SAMPLE_BYTES)  # a rate: reads of the table have no period to jump
    for batch in (1, data.BATCHES[-1]):
        base = played_in_storage(pir, drive, study.accelerator, batch=batch)
        for option, played, says in (
            (
                "l2p-in-nand",
                played_in_storage(pir, drive, study.accelerator, batch=batch, mapping=NandMapping()),
                "the logical-to-physical table in NAND, as section III-D has it: 'an ignorable overhead'",
            ),
            (
                "convoy",
                played_in_storage(pir, drive, study.accelerator, batch=batch, arbitration=Arbitration.CONVOY),
                "data always before commands on a channel, one die of a chip at a time",
            ),
        ):
            row_id = f"engine.pir.{name}.{option}.batch{batch}.slowdown"
            yield row(row_id, "engine", "slowdown", played.seconds / base.seconds, says, policy=option)
