"""Values that a machine does not state, and the assumptions that its results rest on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.scheme.machines.calibration import FACTORS
from penstock.scheme.machines.figure import Evidence
from penstock.scheme.machines.networks import Network
from penstock.scheme.machines.schema import InsideModel, Machine, Overlap, Tier, assumed
from penstock.scheme.machines.transferred import donor_utilisation
from penstock.scheme.work.units import ARITHMETIC

MISSING = "missing"
"""Kind of an assumption about a value that the machine does not state."""
NO_PRICE = "operations that need it have no price"
BASE_UNITS = (*ARITHMETIC, "memory")
OF_MEASUREMENTS = (
    ("threads", "the rates are those of all threads"),
    ("cache", "working sets of all sizes take the same rates"),
    ("cold", "a call in a program takes as long as one that is repeated"),
    ("client", "encoding, encryption and decryption are not predicted"),
    ("recording", "recording calls takes no time"),
    ("calibrated", "no kind of operation differs from its kernel work"),
)
"""Parts of a machine file that `penstock predict fit` writes, and the meaning of their absence."""


@dataclass(frozen=True, slots=True)
class Missing:
    """One value that a machine file does not state."""

    field: str
    taken: str
    """The value that is taken instead, or the meaning of its absence."""
    in_results: bool
    """Whether it changes the number that a result shows, so that results name it."""
    source: str = "the machine file states none"


def missing(machine: Machine) -> list[Missing]:
    """Every value that the machine does not state; first the ones that change results."""
    return [*_in_results(machine), *_besides(machine)]


def _in_results(machine: Machine) -> Iterator[Missing]:
    if machine.utilisation == donor_utilisation():
        taken = donor_utilisation()
        yield Missing("utilisation", taken.text, True, taken.source)
    elif machine.peaks_as_stated:
        yield Missing("utilisation", "100 %", True, "some rates were measured, so the others are taken whole too")
    if machine.fit is None:  # a fit leaves out the costs that it finds to be zero
        for unit in BASE_UNITS if machine.gpu is None else ():
            if unit not in machine.units:
                yield Missing(f"units.{unit}", "takes no time" if unit == "memory" else NO_PRICE, True)
        for kernel in machine.gpu.unpriced() if machine.gpu is not None else ():
            yield Missing(f"gpu.kernels.{kernel}", NO_PRICE, True)
        if machine.plaintext_transforms is None:
            yield Missing("plaintext_transforms", "all limbs of plaintexts are loaded", True)
        if machine.overhead is None:
            yield Missing("overhead", "0 s", True)
    if machine.power is None and machine.thread_power is None:
        yield Missing("power", "no energy is known", True)


def _besides(machine: Machine) -> Iterator[Missing]:
    if machine.idle_power is None:
        yield Missing("idle_power", "no energy of waiting is known", False)
    if machine.native_params is None:
        yield Missing("native_params", "programs take their own parameter set", False)
    if not machine.on_chip:
        yield Missing("on_chip", "no cache has the size of its memory", False)
    made = machine.architecture
    if made.word is None:
        yield Missing("architecture.word", "any width of primes is priced without a warning", False)
    if made.ring_dim is None:
        yield Missing("architecture.ring_dim", "any ring dimension is priced without a warning", False)
    for name in ("clusters", "lanes", "off_chip", "area", "technology"):
        if getattr(made, name) is None:
            yield Missing(f"architecture.{name}", "shown as '-'; not priced", False)
    if machine.overlap is Overlap.PIPELINED and machine.fit is None:
        for path, taken in machine.datapath.gaps():
            yield Missing(path, f"in schedules of kernels {taken}", False)
    for name, taken in OF_MEASUREMENTS:
        if getattr(machine, name) is None:
            yield Missing(name, taken, False)


def of_link(what: str, link: Tier | Network) -> list[dict[str, str]]:
    """The assumed and calibrated values of a tier or a network (`what`), and its latency where none is stated."""
    figures = list(link.figures() if isinstance(link, Network) else link.figures)
    rows = assumed(what, link.name, figures)
    if "latency" not in dict(figures):
        rows.append({what: link.name, "field": "latency", "value": "0 s", "kind": MISSING, "source": "none is stated"})
    return rows


def assumptions(machine: Machine) -> list[dict[str, str]]:
    """Every value that results rest on and no source states: assumed, calibrated, or missing.

    Schedules of kernels rest on the machine's datapath instead of its utilisation. The factors of kinds of operations
    are one of them. A missing value has the kind `missing`; its `value` is taken instead. The assumed utilisation of a
    machine that states none is among the assumed ones.
    """
    scheduled = machine.inside is InsideModel.SCHEDULE
    unused = (f"{FACTORS}.", "utilisation" if scheduled else "datapath.")
    priced = ((path, figure) for path, figure in machine.figures() if not path.startswith(unused))
    rows = assumed("machine", machine.name, priced)
    factors = [figure for _, figure in machine.calibrated.figures()] if machine.calibrated is not None else []
    if factors:
        values = [figure.value for figure in factors]
        rows.append(
            {
                "machine": machine.name,
                "field": FACTORS,
                "value": f"{len(factors)} factors of kinds of operations, {min(values):.3g} to {max(values):.3g}",
                "kind": Evidence.CALIBRATED.value,
                "source": factors[0].source,
            }
        )
    stated = {assumption["field"] for assumption in rows}
    for gap in missing(machine):
        if scheduled and gap.field == "utilisation":
            continue
        inside = scheduled and gap.field.startswith("datapath.")
        if (gap.in_results or inside) and gap.field not in stated:
            row = {"field": gap.field, "value": gap.taken, "kind": MISSING, "source": gap.source}
            rows.append({"machine": machine.name, **row})
    return rows
