"""The `counting` reading: the tally of a workload, an order of magnitude sooner than its trace."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

from penstock.program.evaluator.counting import CountingEvaluator
from penstock.program.evaluator.tally import Tally, tally_of
from penstock.program.evaluator.unfolded import UnfoldedEvaluator
from penstock.program.running.reading import Reading, resolve
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import TraceMeta


def count_variants(
    name: str, variants: Sequence[CkksParameters], size: str | None = None, data: object = None
) -> list[Tally]:
    """The tallies of a workload at several sets of one structure: the program is read once.

    Raises: as `count_workload`.
    """
    workload, size_name, checked = resolve(name, variants[0], size)
    chosen = workload.SIZES[size_name]
    evaluator = CountingEvaluator(checked)
    workload.program(evaluator, _blank(workload, chosen, checked.slots) if data is None else data, chosen)
    return [evaluator.tally(workload.NAME, size_name, params) for params in variants]


def count_workload(
    name: str, params: str | CkksParameters | None = None, size: str | None = None, seed: int = 0, data: object = None
) -> Tally:
    """The tally of a workload: equal to the tally of its trace. Nothing is encrypted, no data is read.

    Args:   as `trace_workload`; a tally depends on no values, nor on the seed.
    Raises: UnknownName; ParamsError: the program is deeper than the parameters.
    """
    _, size_name, checked = resolve(name, params, size)
    return count_variants(name, [checked], size_name, data)[0]


def count_unfolded(name: str, params: str | CkksParameters | None = None, size: str | None = None) -> Tally:
    """The tally of a workload with the steps of OpenFHE 1.2.4: its series, and each product and rescale of its scaling.

    Raises: as `count_workload`.
    """
    workload, size_name, checked = resolve(name, params, size)
    chosen = workload.SIZES[size_name]
    evaluator = UnfoldedEvaluator(checked)
    evaluator.plaintexts_at_level = getattr(workload, "PLAINTEXTS_AT_LEVEL", False)
    workload.program(evaluator, _blank(workload, chosen, checked.slots), chosen)
    meta = TraceMeta(workload=workload.NAME, params=checked.to_dict(), reading="trace", size=size_name, seed=None)
    return tally_of(evaluator.builder.finish(meta))


@lru_cache(maxsize=8)
def _blank(workload: Any, size: Any, slots: int) -> Any:
    return workload.blank(size, slots)


READING = Reading(
    name="counting",
    meaning="each call is counted by its shape",
    returns="the `Tally`",
    computes=False,
    records=False,
    verb="predict run",
    read=count_workload,
    evaluator=lambda params, expected: nullcontext(CountingEvaluator(params)),
)
