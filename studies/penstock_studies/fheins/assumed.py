"""Every assumed value of FHEIns' drives and accelerators, and the headlines with another value.

One value is changed at a time: half and twice a number, the other one of two words. The host's drive changes as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.base.types import Row
from penstock.errors import PenstockError
from penstock.lab.instorage.drive import DriveRates, drive_rates
from penstock.lab.instorage.machine import LaneWork, UnitAccelerator, with_options
from penstock.lab.instorage.queries import in_storage, on_host, speedup
from penstock.lab.instorage.query import Query
from penstock.scheme.machines.drives import Drive, load_drive
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.work.kernels import Hoisting
from penstock_studies.fheins import data
from penstock_studies.fheins.model import HEADLINE, FheinsStudy
from penstock_studies.fheins.rows import row

FACTORS = (0.5, 2.0)
GROUP = "assumed"
OPPOSITE = {"yes": "no", "no": "yes"}


def assumed_rows(study: FheinsStudy) -> Iterator[Row]:
    """A row for each assumed value, other value, drive and workload: the headline over its own."""
    queries = {"pir": (study.pir(), data.BATCHES[-1]), "ssc": (study.ssc(), 1)}
    for name in data.DRIVES:
        rates, drive = study.drives[name], load_drive(name)
        changed = [
            (f"{field}.{how}", figure, drive_rates(variant))
            for field, figure in drive.figures.items()
            if figure.kind is Evidence.ASSUMED
            for how, variant in _drives(drive, field, figure)
        ]
        for workload, (query, batch) in queries.items():
            base = headline(study, query, batch, rates, study.accelerator)
            for what, figure, other in changed:
                speedup = base if other == rates else headline(study, query, batch, other, study.accelerator)
                yield _row(f"{name}.{workload}.drive.{what}", figure, base, speedup)
            for field, figure in study.accelerator.figures():
                if figure.kind is not Evidence.ASSUMED:
                    continue
                for how, accelerator in _accelerators(study.accelerator, field):
                    speedup = headline(study, query, batch, rates, accelerator)
                    yield _row(f"{name}.{workload}.fheins.{field}.{how}", figure, base, speedup)


def headline(study: FheinsStudy, query: Query, batch: int, rates: DriveRates, accelerator: UnitAccelerator) -> float:
    """Speedup under the headline's policy."""
    ours = in_storage(query, rates, accelerator, batch=batch, inside=HEADLINE.inside)
    return speedup(ours, on_host(query, rates, study.host, HEADLINE.host, batch=batch))


def _drives(drive: Drive, field: str, figure: Figure) -> Iterator[tuple[str, Drive]]:
    """(what changes, drive) with another value of one field; nothing where no drive can have it."""
    number, _, unit = figure.text.partition(" ")
    written = (
        {f"times-{factor:g}": f"{float(number) * factor:.10g} {unit}" for factor in FACTORS}
        if unit
        else {OPPOSITE[number]: OPPOSITE[number]}
        if number in OPPOSITE
        else {}
    )
    for how, text in written.items():
        try:
            yield how, load_drive(drive.name, {field: text})
        except PenstockError:
            continue


def _accelerators(accelerator: UnitAccelerator, field: str) -> Iterator[tuple[str, UnitAccelerator]]:
    """The same of accelerators. The bits of a slot change the database itself: `sensitivity.pir.*` has them."""
    if field == "lane":
        yield "word", with_options(accelerator, lane=LaneWork.WORD)
    elif field == "hoisting":
        yield "results", with_options(accelerator, hoisting=Hoisting.RESULTS)
    elif field in ("clock", "plaintext_transforms"):
        figure: Figure = getattr(accelerator, field)
        for factor in FACTORS:
            scaled = replace(figure, value=factor * figure.value, text=f"{factor:g} x {figure.text}")
            if field == "clock":
                yield f"times-{factor:g}", replace(accelerator, clock=scaled)
            else:
                yield f"times-{factor:g}", replace(accelerator, plaintext_transforms=scaled)


def _row(name: str, figure: Figure, base: float, changed: float) -> Row:
    note = f"{figure.text}: the headline of {base:.3g} becomes {changed:.3g}; {figure.source}"
    return row(f"assumed.{name}", GROUP, "factor", changed / base, note, policy=GROUP)
