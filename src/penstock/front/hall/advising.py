"""What would help a simulation, a prediction or a run most, as a result of `import penstock`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.front.hall.result import Result
from penstock.lab.advice.remedy import Advice

_SHOWN = ("kind", "change", "before", "after", "gain", "command")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Advised(Result):
    """Changes that help, the largest gain first. Each row has its `gain`, and the `command` that shows `after`."""

    advice: Advice
    DRAWN: ClassVar = ("change", "gain")


def advised_as(advice: Advice) -> Advised:
    """An advice as a result."""
    left_out = [f"without gain: {', '.join(advice.without_gain)}"] if advice.without_gain else []
    return Advised(
        rows=tuple(remedy.to_row() for remedy in advice.remedies),
        title=f"What would help most: {advice.about}, {advice.now}",
        provenance=advice.provenance,
        warnings=(*left_out, *(f"not tried: {text}" for text in advice.not_tried)),
        shown=_SHOWN,
        advice=advice,
    )
