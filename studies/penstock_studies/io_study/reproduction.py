"""The storage-I/O study, reproduced: every number that it prints, by its own rules and from first principles.

`published` is the study's; `calibrated` has its demands and divisors as inputs and tests its arithmetic;
`first_principles` is from our traces on cited machines, over the same tiers and networks, and nothing in it is fitted
to the study. A row is a contradiction where the study's own rows exclude each other: its note says which is followed.
Source: "The Future of Fully Homomorphic Encryption System: from a Storage I/O Perspective".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from penstock.base.types import Row, Rows
from penstock.lab.simulation.memory.locality import RUNTIMES, locality_table
from penstock.scheme.machines import load_tiers
from penstock.scheme.machines.prices import PriceList, load_prices
from penstock_studies.io_study import data
from penstock_studies.io_study.assumed import assumed_rows
from penstock_studies.io_study.client_place import ClientSite, load_client_place
from penstock_studies.io_study.clusters import breakdown_rows, cluster_rows, curve_rows
from penstock_studies.io_study.costs import cost_rows, energy_rows
from penstock_studies.io_study.history import history_rows
from penstock_studies.io_study.hosts import demand_rows, hit_ratio_rows, ideal_rows, slowdown_rows
from penstock_studies.io_study.interpretations import interpretation_rows
from penstock_studies.io_study.model import Study
from penstock_studies.io_study.occupancy import occupancy_rows
from penstock_studies.io_study.rows import row
from penstock_studies.io_study.sensitivity import sensitivity_rows
from penstock_studies.io_study.servers import assumed_server_rows, server_rows
from penstock_studies.io_study.sizes import digest_rows, expansion_rows, size_rows, size_sensitivity_rows
from penstock_studies.io_study.workflow import workflow_rows

STUDY = "io-study"
DRAWN = (
    "hit-ratio-curve",
    "cluster-curve",
    "occupancy",
    "sensitivity",
    "reading",
    "locality",
    "history",
    "cost",
    "servers",
    "assumed",
)
"""Groups that a table on a terminal leaves out: curves and charts, which `--figures` draws, and readings."""


def rows(study: Study | None = None, *, client: ClientSite | None = None, prices: PriceList | None = None) -> Rows:
    """The whole study as flat rows, in the order of its sections.

    Args:   study: the programs, to share them with another call; by default they are traced and priced here; client:
            where encryption runs; prices: of an hour, a byte and a joule.
    """
    programs = Study() if study is None else study
    place, listed = client or load_client_place(), prices or load_prices()
    made = [
        *ideal_rows(programs),
        *demand_rows(programs),
        *slowdown_rows(programs),
        *hit_ratio_rows(programs),
        *cluster_rows(programs),
        *breakdown_rows(programs),
        *curve_rows(programs),
        *occupancy_rows(programs),
        *size_rows(programs),
        *expansion_rows(programs),
        *history_rows(),
        *workflow_rows(programs, place),
        *energy_rows(programs),
        *cost_rows(programs, listed),
        *server_rows(programs, listed),
        *digest_rows(programs),
        *sensitivity_rows(programs),
        *size_sensitivity_rows(programs),
        *interpretation_rows(programs),
        *locality_rows(programs),
        *assumed_rows(programs, place, listed),
        *assumed_server_rows(programs),
    ]
    assert len({line["id"] for line in made}) == len(made), "ids are unique"
    return made


def locality_rows(study: Study) -> Iterator[Row]:
    """What a runtime that knows the program saves against LRU on demand, in SHARP's own on-chip memory."""
    for program in study.both("sharp"):
        table = locality_table(program.priced, program.machine, load_tiers(data.TIERS))
        for played, (tier, runtime) in zip(
            table, [(tier, name) for tier in data.TIERS for name, _, _ in RUNTIMES], strict=True
        ):
            row_id = f"locality.sharp.{program.application}.{tier}.{runtime}.slowdown"
            note = (
                f"loads {played['io_bytes'] / 1e9:.4g} GB, {_share(played['saved_bytes_share'])} less than LRU; takes "
                f"{played['total_s'] / program.runs:.4g} s, {_share(played['saved_s_share'])} less"
            )
            yield row(row_id, "locality", "slowdown", played["slowdown"], note, policy=runtime)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def summary(made: Iterable[Row]) -> dict[str, tuple[int, float, float]]:
    """Group -> rows with a published value, median and largest |error| from first principles."""
    from statistics import median

    errors: dict[str, list[float]] = {}
    for line in made:
        if line["error_first_principles"] is not None:
            errors.setdefault(line["group"], []).append(abs(line["error_first_principles"]))
    return {group: (len(of_group), median(of_group), max(of_group)) for group, of_group in errors.items()}


def table_rows(made: Sequence[Row]) -> Rows:
    """Rows for a terminal: published values and bounds, and the breakdowns."""
    return [line for line in made if line["group"] not in DRAWN and line["published"] is not None]


def step_rows(made: Sequence[Row]) -> Rows:
    """The five steps of each run for a terminal: a row a program and step, with seconds, bytes and joules."""
    steps: dict[tuple[str, str], Row] = {}
    for published in made:
        if published["group"] != "workflow":
            continue
        _, accelerator, application, step, quantity = published["id"].split(".")
        line = steps.setdefault(
            (f"{accelerator} {application}", step), {"program": f"{accelerator} {application}", "step": step}
        )
        line[quantity] = published["first_principles"]
        line.setdefault("note", published["note"])
    return list(steps.values())
