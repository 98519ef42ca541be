"""The cost of recording in a machine file."""

from __future__ import annotations

import math

from penstock.base.units import SECOND_UNITS
from penstock.errors import MachineError
from penstock.scheme.machines.files import figure
from penstock.scheme.machines.record_cost import MEASURES, RecordingModel
from penstock.scheme.machines.records import RecordingSpec


def recording_from_spec(spec: RecordingSpec, where: str) -> RecordingModel:
    """The checked costs.

    Raises: MachineError: an unknown term, a value or deviation that cannot be.
    """
    costs = {}
    for term, written in spec.costs.items():
        if term not in MEASURES:
            raise MachineError(f"{where}: recording has '{term}'; its terms are {', '.join(MEASURES)}")
        of = f"/{MEASURES[term]}" if MEASURES[term] else ""
        units = {f"{name}{of}": factor for name, factor in SECOND_UNITS.items()}
        costs[term] = figure(written, where, f"recording.{term}", units)
    if not (math.isfinite(spec.log_sd) and spec.log_sd >= 0):
        raise MachineError(f"{where}: recording.log_sd is {spec.log_sd}; a deviation is not negative")
    return RecordingModel(costs=costs, log_sd=spec.log_sd)
