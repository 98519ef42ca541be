"""Rows for CryptOracle's figures 4, 9 and 10: every application of the data, predicted by all models, and their errors.

`published` is the data's value for the application. The paper only draws its predictions, and prints four geometric
means of |error|. Their rows compare these with the same figure of our re-run, and with nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from penstock.base.types import Row, Rows
from penstock_studies.cryptoracle.counts import MEASURED
from penstock_studies.cryptoracle.data import WORKLOADS, PredictedApplication, Priced, value_of
from penstock_studies.cryptoracle.errors import STATISTICS, as_published, cosine, errors
from penstock_studies.cryptoracle.programs import PROGRAMS
from penstock_studies.cryptoracle.tables import POLICY, TABLE7, THREADS, is_default, reasons, row

HERE = "here"
"""Stands for a vendor where this machine measured."""
GEOMEANS = {"runtime": (0.0702, 0.0840), "energy": (0.0974, 0.1567)}
"""Figure 9: geometric means of |error| of microbenchmarks and of workloads, as printed."""
FLAMEGRAPH_SHARE = 0.90
"""Figure 4: share of multiplications in the logistic function's time, 'roughly 90%'."""
Samples = Mapping[str, Mapping[str, float]]
FUNCTION_OF = {
    "EvalMultPlaintext": "EvalMult", "EvalMultScalar": "EvalMult", "EvalAddPlaintext": "EvalAdd",
    "EvalSubScalar": "EvalSub", "Rescale": "ModReduce",
}  # fmt: skip
"""Operation of Table 3 -> the function of the library that a profile sees, where that has another name."""
MULTIPLICATIONS = ("mult", "square", "mult_no_relin", "relinearize", "mult_plain", "mult_scalar")
UNITS = {"runtime": "s", "energy": "J"}


def figure_rows(predicted: Sequence[PredictedApplication], samples: Samples | None = None) -> Rows:
    """All rows of figures 4, 9 and 10."""
    return [*point_rows(predicted), *error_rows(predicted), *published_rows(predicted), *share_rows(predicted, samples)]


def point_rows(predicted: Sequence[PredictedApplication]) -> Iterator[Row]:
    """Every application at every configuration: time and energy, measured by the paper or here, and predicted."""
    for p in predicted:
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
                policy=MEASURED if here else POLICY,
                **p.columns(quantity),
            )


def point_id(p: PredictedApplication) -> str:
    """An application at a configuration: `sign-evaluation.amd.n16.d10.t8`."""
    parts = (p.name, p.size, p.vendor, f"n{p.log_n}.d{p.depth}.t{p.threads}", p.level)
    return ".".join(part for part in parts if part)


def _measured(p: PredictedApplication, quantity: str) -> float | None:
    return p.seconds if quantity == "runtime" else p.joules


def pairs(predicted: Sequence[PredictedApplication], column: str, quantity: str) -> list[tuple[float, float]]:
    """(predicted, measured) where both are known; `column`: the model's, of `PredictedApplication.models`."""
    both = [(value_of(p.models[column], quantity), _measured(p, quantity)) for p in predicted]
    return [(a, b) for a, b in both if a is not None and b]


def _groups(predicted: Sequence[PredictedApplication]) -> Iterator[tuple[str, list[PredictedApplication]]]:
    """Names of groups of points, and the points: all, and each program, ring, depth and thread count."""
    for whole, chosen in (("micro", True), ("workload", False)):
        points = [p for p in predicted if (p.name in PROGRAMS) == chosen]
        if not points:
            continue
        yield whole, points
        for name in dict.fromkeys(p.name for p in points):
            yield name, [p for p in points if p.name == name]
        for letter, field in (("n", "log_n"), ("d", "depth"), ("t", "threads")):
            for value in sorted({getattr(p, field) for p in points}):
                yield f"{whole}.{letter}{value}", [p for p in points if getattr(p, field) == value]


def error_rows(predicted: Sequence[PredictedApplication], policy: str = POLICY) -> Iterator[Row]:
    """Figure 9: errors of all models over all points, and by program, ring, depth and threads."""
    for quantity in UNITS:
        for group, points in _groups(predicted):
            known = {column: pairs(points, column, quantity) for column in predicted[0].models}
            if not any(known.values()):
                continue
            of_all = {column: errors(both) for column, both in known.items()}
            theirs, ours, plain = map(len, known.values())
            for statistic in STATISTICS:
                of_models: Row = {column: error.get(statistic) for column, error in of_all.items()}
                yield row(
                    f"figure9.{group}.{quantity}.{statistic}",
                    "figure9-errors",
                    statistic,
                    f"{quantity}; {theirs} points additive, {ours} ours, {plain} regression",
                    policy=policy,
                    **of_models,
                )
            if group in {p.name for p in predicted}:
                similar: Row = {column: cosine(both) for column, both in known.items()}
                yield row(
                    f"figure9.{group}.{quantity}.cosine",
                    "figure9-correlation",
                    "cosine_similarity",
                    "figure 9(b) is drawn only",
                    policy=policy,
                    **similar,
                )
    inside = [
        p.ours.low_s <= p.seconds <= p.ours.high_s
        for p in predicted
        if isinstance(p.ours, Priced) and p.ours.low_s is not None and p.ours.high_s is not None
    ]
    if inside:
        row_id = "figure9.runtime.coverage90"
        note = "share of points inside our interval"
        first_principles = sum(inside) / len(inside)
        yield row(row_id, "figure9-errors", "coverage90", note, policy=policy, first_principles=first_principles)


def published_rows(predicted: Sequence[PredictedApplication]) -> Iterator[Row]:
    """The four figures that the paper prints, and the same of our re-run of its model."""
    parts = {
        "micro": [p for p in predicted if p.name in PROGRAMS],
        "workload": [p for p in predicted if p.name in WORKLOADS],
    }
    for quantity, printed in GEOMEANS.items():
        for (part, points), value in zip(parts.items(), printed, strict=True):
            known = pairs(points, "calibrated", quantity)
            note = (
                f"the paper's figure over all of its data, and the same of the additive model over the {len(known)} "
                "points here; it says little of accuracy: see mean, median and bias"
            )
            yield row(
                f"figure9.{part}.{quantity}.as_published",
                "figure9-published",
                "geometric_mean_abs_error",
                note,
                published=value,
                calibrated=as_published(known),
            )


def share_rows(predicted: Sequence[PredictedApplication], samples: Samples | None = None) -> Iterator[Row]:
    """Figures 4 and 10: the contribution of each operation at Table 5's configuration and 8 threads.

    Args:   samples: program -> function -> share of the samples of a profile.
    """
    for p in predicted:
        if p.vendor not in TABLE7 or not (is_default(p) or (p.name in WORKLOADS and p.threads == THREADS)):
            continue
        theirs, ours = (
            _shares(priced.by_operation) if isinstance(priced, Priced) else {} for priced in (p.additive, p.ours)
        )
        energy = _shares(p.additive.joules_by_operation) if isinstance(p.additive, Priced) else {}
        stem = f"figure10.{p.name}.{p.vendor}"
        for operation in dict.fromkeys([*theirs, *ours]):
            yield row(
                f"{stem}.{operation}.runtime_share",
                "figure10",
                "runtime_share",
                "of the predicted time; ours counts what scaling does before a call with the call",
                calibrated=theirs.get(operation),
                first_principles=ours.get(operation),
            )
            if operation in energy:
                note = "of the additive model's energy; ours is time times the power of the package, so the same share"
                yield row(
                    f"{stem}.{operation}.energy_share", "figure10", "energy_share", note, calibrated=energy[operation]
                )
        yield from _sample_rows(stem, (samples or {}).get(p.name, {}), theirs, ours)
        if p.name == "logistic-function":
            yield _flame_row(p, (samples or {}).get(p.name, {}), theirs)


def _sample_rows(
    stem: str, samples: Mapping[str, float], theirs: Mapping[str, float], ours: Mapping[str, float]
) -> Iterator[Row]:
    """A profile's functions beside the same functions of the models: it tells no overload of EvalMult from another."""
    for function, share in samples.items():
        known = [operation for operation in {*theirs, *ours} if FUNCTION_OF.get(operation, operation) == function]
        summed = [
            math.fsum(shares.get(o, 0.0) for o in known) if shares and known else None for shares in (theirs, ours)
        ]
        yield row(
            f"{stem}.{function}.sample_share",
            "figure10",
            "sample_share",
            "published: samples of the profile in this function over those in all of its functions"
            + ("" if known else "; Table 3 does not count it"),
            published=share,
            calibrated=summed[0],
            first_principles=summed[1],
        )


def _flame_row(p: PredictedApplication, samples: Mapping[str, float], theirs: Mapping[str, float]) -> Row:
    """Figure 4: multiplications in the logistic function."""
    kinds = p.ours.by_kind if isinstance(p.ours, Priced) else {}
    total = math.fsum(kinds.values())
    inside = math.fsum(kinds.get(kind, 0.0) for kind in MULTIPLICATIONS) / total if total else None
    seen = f"; the artifact's profile has {samples['EvalMult']:.0%} in EvalMult" if "EvalMult" in samples else ""
    return row(
        f"figure4.{p.name}.{p.vendor}.EvalMult.share",
        "figure4",
        "runtime_share",
        "'roughly 90%' of the flame graph. It and ours count products and relinearizations inside the series too; the "
        f"additive model has the series as one call{seen}",
        published=FLAMEGRAPH_SHARE,
        calibrated=theirs.get("EvalMult"),
        first_principles=inside,
    )


def _shares(parts: Mapping[str, float]) -> dict[str, float]:
    total = sum(parts.values())
    return {name: value / total for name, value in parts.items()} if total else {}
