"""The time of a primitive that a protocol compares: the median of its calls, or that of an undisturbed call.

On a machine that is shared, the median of a primitive's calls has in it what neighbours did meanwhile, above all on
several threads, where a loop waits for the slowest. The error of a model on other configurations is a question about
the library and the machine: `auto` answers it with quiet times. A program runs through whatever happens, so that its
time is predicted from medians.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from penstock.errors import check_known
from penstock.lab.fit.measurements import MEDIAN, QUIET, Measurement, few_calls
from penstock.lab.prediction.validation.protocols import Cut, Fold, Given, Protocol

AUTO = "auto"
STATISTICS = (AUTO, QUIET, MEDIAN)
"""What may be asked for."""
OVER_PRIMITIVES = frozenset({"unseen-ring-dim", "unseen-depth", "unseen-threads", "unseen-operation"})
"""Protocols that fit to primitives and hold out primitives."""

WHY: Mapping[str, str] = {
    QUIET: "quiet: 5 % of a primitive's calls are faster; what a call takes that no neighbour of the machine disturbs. "
    "Fitted to and compared",
    MEDIAN: "median: of a primitive's calls, disturbances and all, which the times of programs have in them too",
}
"""Each statistic, in words."""


def measured_as(measurements: Sequence[Measurement], statistic: str) -> tuple[Measurement, ...]:
    """These with their quiet times, if they are asked for and known; else unchanged."""
    return tuple(m.as_quiet() for m in measurements) if statistic == QUIET else tuple(measurements)


class Cuts:
    """Protocols cut for a statistic. Cuts of the same statistic have the very same measurements in them."""

    def __init__(self, given: Given, statistic: str) -> None:
        check_known("statistic", statistic, STATISTICS)
        self.asked = statistic
        self._given = {MEDIAN: given}
        if statistic != MEDIAN:
            self._given[QUIET] = Given(
                measurements=measured_as(given.measurements, QUIET), other=measured_as(given.other, QUIET)
            )

    def of(self, name: str, protocol: Protocol) -> Cut:
        """The folds of a protocol. With `auto`, programs held out together with primitives are folds of medians."""
        if self.asked != AUTO:
            return self._cut(protocol, self.asked)
        if name not in OVER_PRIMITIVES:
            return self._cut(protocol, MEDIAN)
        quiet, median = self._cut(protocol, QUIET), protocol(self._given[MEDIAN])
        folds = [*_only(quiet, programs=False), *_only(median, programs=True)]
        return Cut(folds, quiet.warnings)

    def _cut(self, protocol: Protocol, statistic: str) -> Cut:
        cut = protocol(self._given[statistic])
        few = few_calls(tuple({id(m): m for fold in cut.folds for m in fold.test}.values()))
        return cut if few is None else Cut(cut.folds, [*cut.warnings, few])


def _only(cut: Cut, *, programs: bool) -> Iterator[Fold]:
    """The folds with only the held-out measurements of programs, or only the others."""
    for fold in cut.folds:
        test = tuple(m for m in fold.test if (m.group != "primitives") == programs)
        if test:
            yield replace(fold, test=test)


def label(fitted: str, compared: str) -> str:
    """The statistic of a scored time, given the statistic of the primitives' times in the fit.

    >>> label("quiet", "quiet"), label("quiet", "median")
    ('quiet', 'quiet for median')
    """
    return compared if fitted == compared else f"{fitted} for {compared}"
