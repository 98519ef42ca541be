"""The utilisation, and the efficiency in schedules, of a machine whose file states none: SHARP's, as an assumption."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import resources

from penstock.base.system import toml
from penstock.errors import MachineError
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.files import figure, parse_spec
from penstock.scheme.machines.records import SHARE, FigureSpec, MachineSpec

DONOR = "sharp"
"""The accelerator that is calibrated to its own published bootstrapping."""
EFFECTIVE = (Evidence.MEASURED, Evidence.CALIBRATED)
"""Kinds of rates that are reached, not peaks: they need no utilisation."""


@cache
def donor_utilisation() -> Figure:
    """The donor's utilisation, marked as assumed, with its origin as the source."""
    return _transferred("utilisation", _donor().utilisation)


@cache
def donor_efficiency() -> Figure:
    """The donor's efficiency in schedules of kernels, marked as assumed, with its origin as the source."""
    inside = _donor().datapath
    return _transferred("datapath.efficiency", None if inside is None else inside.efficiency)


@cache
def _donor() -> MachineSpec:
    where = f"machines/{DONOR}.toml"
    file = resources.files("penstock.scheme.machines").joinpath("data").joinpath(where)
    return parse_spec(MachineSpec, toml.table(file.read_bytes(), where, "a machine file", MachineError), where)


def _transferred(field: str, spec: FigureSpec | None) -> Figure:
    where = f"machines/{DONOR}.toml"
    if spec is None:
        raise MachineError(f"{where}: no {field}; machines that state none take it from here, so add [{field}]")
    stated = figure(spec, where, field, SHARE, positive=True)
    return Figure(
        value=stated.value,
        text=stated.text,
        source=f"the machine file states none; that of machine '{DONOR}' is taken, which is calibrated to its own "
        "published bootstrapping; nothing of this machine was calibrated",
        kind=Evidence.ASSUMED,
    )


def taken_utilisation(stated: Figure | None, rates: Iterable[Figure], *, fitted: bool) -> Figure | None:
    """The utilisation to price with: the stated one, else the donor's where all rates are peaks.

    `None` where the machine was fitted, or where any rate was measured or calibrated: such rates are effective.
    """
    if stated is not None or fitted or any(rate.kind in EFFECTIVE for rate in rates):
        return stated
    return donor_utilisation()
