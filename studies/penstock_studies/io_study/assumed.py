"""Every `assumed` value behind the headline rows, and what half and twice of it would make of them.

One value is changed at a time, and the machine is not calibrated again. Values that no time depends on (sizes that are
not in the price, a process) say so. Energies and prices move their rows in proportion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from penstock.base.types import Row
from penstock.scheme.machines import Machine, Tier, load_tier
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.networks import load_network
from penstock.scheme.machines.prices import PriceList
from penstock.scheme.machines.schema import UnitRate
from penstock_studies.io_study import data
from penstock_studies.io_study.client_place import ClientSite
from penstock_studies.io_study.model import Study, StudyProgram
from penstock_studies.io_study.rows import row

FACTORS = (0.5, 2.0)
GROUP = "assumed"
PRICED = ("clock", "utilisation", "plaintext_transforms", "overhead")
"""Values of a machine that a price depends on, besides those of its units or its kernels."""


def assumed_rows(study: Study, place: ClientSite, prices: PriceList) -> Iterator[Row]:
    """A row for each assumed value and application that it reaches: the factor on its time at half and at twice."""
    for accelerator in ("sharp", "tensorfhe"):
        for program in study.both(accelerator):
            yield from _machine_rows(program)
            yield from _parameter_rows(program)
    for name in data.TIERS:
        yield from _tier_rows(study, load_tier(name))
    for name in data.NETWORKS:
        for field, figure in load_network(name).figures():
            if figure.kind is Evidence.ASSUMED:
                says = {"energy": "energy of messages in proportion", "latency": "of messages of megabytes"}
                text = says.get(field, "messages in proportion: rows of 32 hosts on the other network have a sixth")
                yield _row(f"networks.{name}.{field}", None, figure, text)
    for what, figures in ((f"clients.{place.name}", place.figures()), (f"prices.{prices.name}", prices.figures())):
        for field, figure in figures:
            if figure.kind is Evidence.ASSUMED:
                yield _row(f"{what}.{field}", None, figure, "its steps, energies or costs in proportion")


def _machine_rows(program: StudyProgram) -> Iterator[Row]:
    machine = program.machine
    for field, figure in machine.figures():
        if figure.kind not in (Evidence.ASSUMED, Evidence.CALIBRATED):
            continue
        name = f"{program.accelerator}.{program.application}.machine.{field}"
        machines = [changed(machine, field, factor) for factor in FACTORS]
        if machines[0] is None:
            yield _row(name, None, figure, _unpriced(field))
            continue
        base = program.priced.ideal_s
        for factor, variant in zip(FACTORS, machines, strict=True):
            assert variant is not None
            seconds = program.compute_s(variant)
            share = program.slowdown(data.SHOWN_TIER) - 1
            over = (seconds / base + share) / (1 + share)
            text = f"{factor:g} times: time with every byte at hand; over '{data.SHOWN_TIER}' {over:.3g} times"
            yield _row(f"{name}.times-{factor:g}", seconds / base, figure, text)


def _unpriced(field: str) -> str:
    """What a value without a part in these times is for."""
    if field == "power":
        return "energy in proportion"
    if field.startswith("datapath."):
        return "of 'simulate --inside schedule' alone, which these rows do not use"
    return "in no time: it is a description, or large enough"


def changed(machine: Machine, field: str, factor: float) -> Machine | None:
    """The machine with one value of its file times `factor`; `None` where the price does not depend on it."""
    is_priced = field in PRICED or field.startswith(("units.", "gpu."))
    scaled: Machine | None = _scaled(machine, field, factor) if is_priced else None
    return scaled


def _scaled(part: Any, path: str, factor: float) -> Any:
    """A part of a machine with the figure at a path times `factor`."""
    if isinstance(part, Figure):
        return replace(part, value=part.value * factor, text=f"{factor:g} x {part.text}")
    if isinstance(part, UnitRate):
        return replace(part, figure=_scaled(part.figure, path, factor))
    name, _, rest = path.partition(".")
    if isinstance(part, Mapping):
        return {**part, name: _scaled(part[name], rest, factor)}
    return replace(part, **{name: _scaled(getattr(part, name), rest, factor)})


def _parameter_rows(program: StudyProgram) -> Iterator[Row]:
    """Fields of the parameter set that have no source; the tornado changes some of them."""
    for field in program.params.assumed:
        name = f"{program.accelerator}.{program.application}.params.{field}"
        text = f"'{field}' of set '{program.params.name}'"
        moved = f"sensitivity.{program.accelerator}.{program.application}.* has other programs, digits and forms"
        yield row(f"assumed.{name}", GROUP, "note", None, f"{text}: {moved}", policy=GROUP)


def _tier_rows(study: Study, tier: Tier) -> Iterator[Row]:
    for field, figure in tier.figures:
        if figure.kind is not Evidence.ASSUMED:
            continue
        if field == "latency":
            # Zero has no half: 10 us at each read of a key, one after another.
            program = study.program("sharp", "resnet20")
            reads = program.key_accesses() / program.runs
            more = 1 + reads * 10e-6 / (program.ideal_s * program.slowdown(tier.name))
            text = f"10 us instead of {figure.text} at each of {reads:.4g} reads of a key: ResNet-20 on SHARP"
            yield _row(f"tiers.{tier.name}.latency.10us", more, figure, text)
        else:
            yield _row(f"tiers.{tier.name}.{field}", None, figure, "energy of loads in proportion")


def _row(name: str, factor: float | None, figure: Figure, says: str) -> Row:
    note = f"{figure.kind} {figure.text}; {says}; {figure.source}"
    return row(f"assumed.{name}", GROUP, "factor", factor, note, policy=GROUP)
