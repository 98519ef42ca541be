"""Rows for CryptOracle's figures 9 to 11: every application of the data, predicted by all models, and their errors.

`published` is the data's value for the application. The paper only draws its predictions, and prints four geometric
means of |error|. Their rows compare these with the same figure of our re-run, and with nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock.studies.cryptoracle.counts import MEASURED
from penstock.studies.cryptoracle.data import PredictedApplication, Priced
from penstock.studies.cryptoracle.errors import STATISTICS, as_published, cosine, errors
from penstock.studies.cryptoracle.programs import PROGRAMS
from penstock.studies.cryptoracle.tables import POLICY, is_default, reasons, row

HERE = "here"
"""Stands for a vendor where this machine measured."""
GEOMEANS = {"runtime": (0.0702, 0.0840), "energy": (0.0974, 0.1567)}
"""Figure 9: geometric means of |error| of microbenchmarks and of workloads, as printed."""
FLAMEGRAPH_SHARE = 0.90
"""Figure 4: share of multiplications in the logistic function's time, 'roughly 90%'."""
GPU_SPEEDUP = 5.42
"""Figure 11's text: of the two algorithms in their own paper."""
ALGORITHMS = ("rectangular-mm", "algorithm-5")
LISTINGS = (
    "the two algorithms are listings of another paper (arXiv 2410.02486); this one prints their names and settings "
    "(d = 128, r = 2, N = 2^16, depth 3 and 6), and neither listings, shapes of operands nor operation counts. The "
    "names do not tell them: a rectangular product as in Jiang et al. (CCS 2018) takes 3 levels, where the setting of "
    "'Rectangular MM' says 6. penstock has no program of them, so nothing is counted and nothing priced"
)
UNITS = {"runtime": "s", "energy": "J"}


def figure_rows(found: Sequence[PredictedApplication]) -> list[dict[str, Any]]:
    """All rows of figures 4, 9, 10 and 11."""
    return [*point_rows(found), *error_rows(found), *published_rows(found), *share_rows(found), *figure11_rows()]


def point_rows(found: Sequence[PredictedApplication]) -> Iterator[dict[str, Any]]:
    """Every application at every configuration: time and energy, measured by the paper or here, and predicted."""
    for p in found:
        for quantity, unit in UNITS.items():
            value = _measured(p, quantity)
            if value is None:
                continue
            here = p.vendor == HERE
            yield row(
                f"figure9.{point_id(p)}.{quantity}",
                "figure9",
                quantity,
                reasons(p.additive, p.ours, after=f"median of {p.runs} run(s) {'here' if here else 'in the data'}"),
                unit=unit,
                published=None if here else value,
                measured=value if here else None,
                calibrated=_predicted(p.additive, quantity),
                first_principles=_predicted(p.ours, quantity),
                regression=_predicted(p.regression, quantity),
                policy=MEASURED if here else POLICY,
            )


def point_id(p: PredictedApplication) -> str:
    """An application at a configuration: `sign-evaluation.amd.n16.d10.t8`."""
    return ".".join(part for part in (p.name, p.size, p.vendor, f"n{p.log_n}.d{p.depth}.t{p.threads}") if part)


def _measured(p: PredictedApplication, quantity: str) -> float | None:
    return p.seconds if quantity == "runtime" else p.joules


def _predicted(priced: Priced | str, quantity: str) -> float | None:
    if isinstance(priced, str):
        return None
    return priced.seconds if quantity == "runtime" else priced.joules


def pairs(
    found: Sequence[PredictedApplication], which: Callable[[PredictedApplication], Priced | str], quantity: str
) -> list[tuple[float, float]]:
    """(predicted, measured) where both are known."""
    both = [(_predicted(which(p), quantity), _measured(p, quantity)) for p in found]
    return [(a, b) for a, b in both if a is not None and b]


def of_additive(p: PredictedApplication) -> Priced | str:
    return p.additive


def of_ours(p: PredictedApplication) -> Priced | str:
    return p.ours


def of_regression(p: PredictedApplication) -> Priced | str:
    return p.regression


def _groups(found: Sequence[PredictedApplication]) -> Iterator[tuple[str, list[PredictedApplication]]]:
    """Names of groups of points, and the points: all, and each program, ring, depth and thread count."""
    for whole, chosen in (("micro", True), ("workload", False)):
        points = [p for p in found if (p.name in PROGRAMS) == chosen]
        if not points:
            continue
        yield whole, points
        for name in dict.fromkeys(p.name for p in points):
            yield name, [p for p in points if p.name == name]
        for letter, field in (("n", "log_n"), ("d", "depth"), ("t", "threads")):
            for value in sorted({getattr(p, field) for p in points}):
                yield f"{whole}.{letter}{value}", [p for p in points if getattr(p, field) == value]


def error_rows(found: Sequence[PredictedApplication], policy: str = POLICY) -> Iterator[dict[str, Any]]:
    """Figure 9: errors of all models over all points, and by program, ring, depth and threads."""
    for quantity in UNITS:
        for group, points in _groups(found):
            theirs, ours, plain = (pairs(points, which, quantity) for which in (of_additive, of_ours, of_regression))
            first, second, third = errors(theirs), errors(ours), errors(plain)
            if first is None and second is None and third is None:
                continue
            for statistic in STATISTICS:
                yield row(
                    f"figure9.{group}.{quantity}.{statistic}",
                    "figure9-errors",
                    statistic,
                    f"{quantity}; {len(theirs)} points additive, {len(ours)} ours, {len(plain)} regression",
                    policy=policy,
                    calibrated=getattr(first, statistic, None),
                    first_principles=getattr(second, statistic, None),
                    regression=getattr(third, statistic, None),
                )
            if group in {p.name for p in found}:
                yield row(
                    f"figure9.{group}.{quantity}.cosine",
                    "figure9-correlation",
                    "cosine_similarity",
                    "figure 9(b) is drawn only",
                    policy=policy,
                    calibrated=cosine(theirs),
                    first_principles=cosine(ours),
                    regression=cosine(plain),
                )
    inside = [
        p.ours.low_s <= p.seconds <= p.ours.high_s
        for p in found
        if isinstance(p.ours, Priced) and p.ours.low_s is not None and p.ours.high_s is not None
    ]
    if inside:
        row_id = "figure9.runtime.coverage90"
        note = "share of points inside our interval"
        first_principles = sum(inside) / len(inside)
        yield row(row_id, "figure9-errors", "coverage90", note, policy=policy, first_principles=first_principles)


def published_rows(found: Sequence[PredictedApplication]) -> Iterator[dict[str, Any]]:
    """The four figures that the paper prints, and the same of our re-run of its model."""
    micro = [p for p in found if p.name in PROGRAMS]
    for quantity, (micro_printed, workload_printed) in GEOMEANS.items():
        yield row(
            f"figure9.micro.{quantity}.as_published",
            "figure9-published",
            "geometric_mean_abs_error",
            (
                "the paper's figure over all of its data, and the same of the additive model over the part that is "
                "here; it says little of accuracy: see mean, median and bias"
            ),
            published=micro_printed,
            calibrated=as_published(pairs(micro, of_additive, quantity)),
        )
        row_id = f"figure9.workload.{quantity}.as_published"
        note = "no timings of workloads in the data"
        yield row(row_id, "figure9-published", "geometric_mean_abs_error", note, published=workload_printed)


def share_rows(found: Sequence[PredictedApplication]) -> Iterator[dict[str, Any]]:
    """Figures 4 and 10: the contribution of each operation at Table 5's configuration and 8 threads."""
    for p in (p for p in found if is_default(p) and p.name in PROGRAMS):
        theirs, ours = (_shares(each.by_operation) if isinstance(each, Priced) else {} for each in (p.additive, p.ours))
        energy = _shares(p.additive.joules_by_operation) if isinstance(p.additive, Priced) else {}
        for operation in dict.fromkeys([*theirs, *ours]):
            stem = f"figure10.{p.name}.{p.vendor}.{operation}"
            yield row(
                f"{stem}.runtime_share",
                "figure10",
                "runtime_share",
                "of the predicted time; ours counts what scaling does before a call with the call",
                calibrated=theirs.get(operation),
                first_principles=ours.get(operation),
            )
            if operation in energy:
                note = "of the additive model's energy"
                yield row(f"{stem}.energy_share", "figure10", "energy_share", note, calibrated=energy[operation])
        if p.name == "logistic-function":
            yield row(
                f"figure4.{p.name}.{p.vendor}.EvalMult.share",
                "figure4",
                "runtime_share",
                "the flame graph's share counts multiplications inside the series too, these two do not",
                published=FLAMEGRAPH_SHARE,
                calibrated=theirs.get("EvalMult"),
                first_principles=ours.get("EvalMult"),
            )


def _shares(parts: Any) -> dict[str, float]:
    total = sum(parts.values())
    return {name: value / total for name, value in parts.items()} if total else {}


def figure11_rows() -> Iterator[dict[str, Any]]:
    """The case study of two matrix products, which cannot be reproduced."""
    for algorithm in ALGORITHMS:
        for quantity, unit in UNITS.items():
            yield row(f"figure11.{algorithm}.{quantity}", "figure11", quantity, LISTINGS, unit=unit)
    for quantity in UNITS:
        note = f"published as 10 to 15 times; {LISTINGS}"
        yield row(f"figure11.{quantity}.gain", "figure11", "gain", note)
    note = f"measured in the algorithms' own paper, on a GPU; {LISTINGS}"
    yield row("figure11.gpu.speedup", "figure11", "speedup", note, published=GPU_SPEEDUP)
