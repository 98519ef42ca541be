"""The largest scores of every record of an encrypted table, with their indices: `argmax` and `top_k` share it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from penstock.program.database.ranking import Floats, RankPlan, RankScan
from penstock.program.evaluator.protocol import Evaluator
from penstock.program.workloads.parts.check import Check, refuse_path
from penstock.program.workloads.parts.tables import stored_objects
from penstock.scheme.params.ckks import CkksParameters

TOLERANCE = 1e-3
"""Of a score within [0, 1], and of an index over the number of scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A table of scores, and the quality of comparisons."""

    params: str
    records: int
    scores: int
    top: int
    lower_bits: int
    degrees: str
    rank_degrees: str

    def plan(self, params: CkksParameters) -> RankPlan:
        """Raises: ParamsError, UsageError: the parameters do not carry the query."""
        return RankPlan(**{**asdict(self), "params": params})


def sizes(top: int) -> dict[str, Size]:
    """The named sizes of the `top` largest; at `ci` 3 at most."""
    many = Size(
        params="openfhe-deep",
        records=8,
        scores=64,
        top=top,
        lower_bits=8,
        degrees="15-15-15",
        rank_degrees="15-15-15",
    )
    few = Size(
        params="insecure-resnet20-multiplexed",
        records=8,
        scores=8,
        top=min(top, 3),
        lower_bits=5,
        degrees="15-15",
        rank_degrees="15-15",
    )
    return {"ci": few, "full": many, "published": replace(many, params="fheins-ssc", records=32)}


@dataclass(frozen=True, slots=True)
class Data:
    """Scores (records, scores) in [0, 1]."""

    scores: Floats
    description: str = ""


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Random scores of [0, 1], one in each of as many equal intervals, in random order for each record."""
    refuse_path(path, "a ranking", "its scores are drawn from --seed")
    generator = np.random.default_rng(seed)
    spread = (np.arange(size.scores) + generator.uniform(0.2, 0.8, (size.records, size.scores))) / size.scores
    return Data(generator.permuted(spread, axis=1), f"{size.records} records of {size.scores} random scores")


def blank(size: Size, slots: int) -> Data:
    """The same shape without values."""
    return Data(np.zeros((size.records, size.scores)))


def program(ev: Evaluator, data: Data, size: Size) -> Floats:
    """The largest scores of each record in descending order and their indices, (records, top, 2)."""
    plan = size.plan(ev.params)
    stored = stored_objects(ev, plan, data.scores)
    scan = RankScan(ev, plan)
    with ev.scope("scan"):
        answers = [scan.absorb(ciphertext) for ciphertext in stored]
    with ev.scope("output"):
        return plan.decoded([[ev.decrypt(ciphertext) for ciphertext in answer] for answer in answers])


def check(clear: Floats, got: Floats, data: Data, size: Size) -> Check:
    """Scores and indices within 1e-3 of the clear ones; in both, every index and place is numpy's."""
    over = np.array([1.0, 1.0 / size.scores])
    error = float(np.max(np.abs((got - clear) * over)))
    order = np.argsort(-data.scores, axis=1)[:, : size.top]
    best = np.take_along_axis(data.scores, order, axis=1)
    off = float(np.max(np.abs(got[..., 0] - best)))
    outcome = {
        f"scores, and indices over {size.scores}, differ by at most {TOLERANCE:g}": error <= TOLERANCE,
        "every index is numpy's": bool(np.array_equal(np.rint(got[..., 1]), order)),
        "the clear reading has the same indices": bool(np.array_equal(np.rint(clear[..., 1]), order)),
        f"scores are within {TOLERANCE:g} of the sorted ones": off <= TOLERANCE,
    }
    numbers = {"records": float(size.records), "max_abs_difference_to_sorted": off}
    return Check.of(outcome, error, TOLERANCE, numbers)
