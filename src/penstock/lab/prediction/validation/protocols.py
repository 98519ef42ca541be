"""Hold-out protocols: which measurements a model is fitted to, and which it then has to predict.

A protocol cuts measurements into folds. No fold is scored on anything that it was fitted to, and where the measurements
do not allow a protocol, it says which runs would.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.lab.fit.measurements import Measurement
from penstock.lab.measure.grouping import grouped
from penstock.lab.prediction.models import calibration, composites, predictable, primitives, programs

ALL = "all"
INTERIOR, EDGE, COMBINATION = "interior", "edge", "combination"
ANCHORS = ("add", "mult_plain", "rotate", "mult")
"""The few primitives by which a machine that was fitted elsewhere is rescaled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Fit to `train`, predict `test`."""

    held_out: str
    """The data that the models have not seen, in words."""
    train: tuple[Measurement, ...]
    test: tuple[Measurement, ...]
    where: str | None = None
    """`interior`, `edge` or `combination` where the protocol tells them apart."""
    anchors: tuple[Measurement, ...] = ()
    """Measurements by which the fitted model is rescaled before it predicts."""


@dataclass(slots=True)
class Cut:
    """What a protocol makes of the measurements."""

    folds: list[Fold] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """All that protocols may cut."""

    measurements: tuple[Measurement, ...]
    other: tuple[Measurement, ...] = ()
    """Of another machine."""


def unseen_ring_dim(given: Given) -> Cut:
    """Each ring dimension in turn: fitted without any measurement at it, then all of them predicted."""
    return _axis(given, "ring dimension", lambda m: m.params.ring_dim, _power)


def unseen_depth(given: Given) -> Cut:
    """Each depth (limbs of the chain) in turn."""
    return _axis(given, "depth", lambda m: m.params.depth, str)


def unseen_threads(given: Given) -> Cut:
    """Each number of threads in turn. With two numbers only, each is left out at one parameter set at a time."""
    return _axis(given, "number of threads", lambda m: m.threads, str)


def unseen_operation(given: Given) -> Cut:
    """Each kind of operation in turn: none of its timings is used, nor any composite's or program's.

    A composite is predicted from its operations.
    """
    timed, whole = primitives(given.measurements), composites(given.measurements)
    by_kind = grouped(timed, lambda m: m.shape.kind if m.shape is not None else "")
    if len(by_kind) < 3:
        return Cut(warnings=[_needs("three kinds of primitives", f"{len(by_kind)} of them")])
    return Cut(
        [
            Fold(held_out=kind, train=tuple(m for m in timed if m.shape and m.shape.kind != kind), test=tuple(test))
            for kind, test in by_kind.items()
        ]
        + [
            Fold(held_out=item, train=tuple(timed), test=tuple(m for m in whole if m.item == item))
            for item in dict.fromkeys(m.item for m in whole)
        ]
    )


def unseen_application(given: Given) -> Cut:
    """Fitted to primitives alone; then every microbenchmark and workload is predicted."""
    timed, ran = primitives(given.measurements), programs(given.measurements)
    if not timed or not ran:
        missing = "primitives" if not timed else "a microbenchmark or workload"
        return Cut(warnings=[_needs(f"measurements of {missing}", "none")])
    return Cut([Fold(held_out="every application", train=tuple(calibration(given.measurements)), test=tuple(ran))])


def unseen_application_wall(given: Given) -> Cut:
    """As `unseen-application`, compared with the time of whole runs: client and encoding included, keys not loaded."""
    known = [m.as_whole() for m in programs(given.measurements) if m.wall_s is not None]
    if not known:
        return Cut(warnings=[_needs("the wall time of a microbenchmark or workload", "none")])
    cut = unseen_application(given)
    cut.folds = [replace(fold, test=tuple(known)) for fold in cut.folds]
    return cut


def paper(given: Given) -> Cut:
    """CryptOracle's own: applications at configurations where the primitives were timed too, no timing of theirs."""
    known = [m for m in given.measurements if m.group == "primitives"]  # its composites are primitives to the paper
    timed = {m.configuration for m in primitives(known)}
    ran = [m for m in programs(given.measurements) if m.configuration in timed]
    if not ran:
        return Cut(warnings=[_needs("an application at a configuration whose primitives were timed too", "none")])
    return Cut([Fold(held_out="every application", train=tuple(known), test=tuple(ran))])


def unseen_machine(given: Given) -> Cut:
    """Fitted to another machine's measurements, rescaled by the anchors at one configuration of this one."""
    if not given.other:
        return Cut(warnings=["it needs another machine's results: name them with --other"])
    here = [m for m in given.measurements if predictable(m)]
    anchored = (m for m in primitives(here) if m.item in ANCHORS)
    at = grouped(anchored, lambda m: m.configuration)
    if not at:
        return Cut(warnings=[_needs(f"one of the primitives {', '.join(ANCHORS)}, to rescale by", "none")])
    # The cheapest complete configuration: a user's first measurement.
    chosen = min(at, key=lambda c: (-len({m.item for m in at[c]}), c.ring_dim * c.num_q, c.threads))
    items = sorted({m.item for m in at[chosen]})
    anchors = tuple(max((m for m in at[chosen] if m.item == item), key=_limbs) for item in items)
    test = tuple(m for m in here if m not in anchors)
    if not test:
        return Cut(warnings=[_needs("more than the primitives that the machine is rescaled by", "no other")])
    return Cut(
        [
            Fold(
                held_out="this machine",
                train=given.other,
                test=test,
                anchors=tuple(sorted(anchors, key=lambda m: m.item)),
            )
        ]
    )


def _axis(given: Given, what: str, value: Callable[[Measurement], int], shown: Callable[[int], str]) -> Cut:
    """Every value of one axis held out in turn; programs come along where they were measured along the axis."""
    timed = primitives(given.measurements)
    values = sorted({value(m) for m in timed})
    if len(values) < 2:
        seen = f"{shown(values[0])} only" if values else "no primitive"
        return Cut(warnings=[_needs(f"primitives at two values of the {what} or more, better four", seen)])
    if len(values) == 2 and what == "number of threads":
        return _combinations(timed, values)
    along: dict[tuple[str, str | None], set[int]] = defaultdict(set)
    for m in programs(given.measurements):
        along[m.item, m.size].add(value(m))
    pool = [
        *timed,
        *composites(given.measurements),
        *(m for m in programs(given.measurements) if len(along[m.item, m.size]) >= KNOWN_ALONG),
    ]
    cut = Cut()
    for held in values:
        train = tuple(m for m in given.measurements if value(m) != held)
        known = {m.item for m in train}  # an operation that is new besides is another protocol's
        test = tuple(m for m in pool if value(m) == held and m.item in known)
        if not test:
            continue
        where = EDGE if held in (values[0], values[-1]) else INTERIOR
        cut.folds.append(Fold(held_out=f"{what} {shown(held)}", train=train, test=test, where=where))
    if len(values) == 2:
        cut.warnings.append(
            f"only two values of the {what} were measured ({shown(values[0])}, {shown(values[1])}): both are edges, "
            "and each is predicted from the other alone; measure a third for an interior one"
        )
    return cut


KNOWN_ALONG = 3
"""A program is held out along an axis where it was measured at so many values of it."""


def _combinations(timed: Sequence[Measurement], threads: Sequence[int]) -> Cut:
    """With two numbers of threads neither can be left out: each is, at one ring dimension at a time."""
    cut = Cut(
        warnings=[
            f"only {threads[0]} and {threads[1]} threads were measured: how the time falls with threads cannot be seen "
            "from one of them, so each is left out at one ring dimension at a time ('combination'); measure a third "
            "number of threads to leave one out altogether"
        ]
    )
    for ring_dim in sorted({m.params.ring_dim for m in timed}):
        here = [m for m in timed if m.params.ring_dim == ring_dim]
        if len({m.threads for m in here}) < 2:
            continue
        for count in threads:
            test = tuple(m for m in here if m.threads == count)
            train = tuple(m for m in timed if m not in test)
            if len({m.threads for m in train if m.params.ring_dim != ring_dim}) == 2:
                held_out = f"{count} threads at ring dimension {_power(ring_dim)}"
                cut.folds.append(Fold(held_out=held_out, train=train, test=test, where=COMBINATION))
    if not cut.folds:
        cut.warnings = [_needs("two numbers of threads at two ring dimensions", "fewer")]
    return cut


def _needs(what: str, seen: str) -> str:
    return f"it needs {what}; these results have {seen}: 'penstock bench run --suite fit' measures them"


def _power(number: int) -> str:
    return f"2^{number.bit_length() - 1}" if number & (number - 1) == 0 else str(number)


def _limbs(m: Measurement) -> int:
    return m.shape.limbs_in if m.shape else 0


Protocol = Callable[[Given], Cut]

PROTOCOLS: Mapping[str, Protocol] = {
    "unseen-application": unseen_application,
    "unseen-application-wall": unseen_application_wall,
    "unseen-ring-dim": unseen_ring_dim,
    "unseen-depth": unseen_depth,
    "unseen-threads": unseen_threads,
    "unseen-operation": unseen_operation,
    "unseen-machine": unseen_machine,
    "paper": paper,
}
