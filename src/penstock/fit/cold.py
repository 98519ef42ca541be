"""Fit the extra cost of an operation in a program over a loop, to primitives that were timed both ways."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from penstock.fit.measurements import Measurement
from penstock.fit.regression import Floats, robust_nnls
from penstock.machines.cold import ColdModel, operand_bytes
from penstock.machines.figure import Evidence, Figure
from penstock.operations import TRAITS, OpKind
from penstock.work.shapes import shape_work

FEWEST = 6
"""Pairs of a warm and a cold timing that the two numbers can be fitted to."""
ONE_SD = 68.27
"""Percentage of a normal distribution within one standard deviation."""

MOST_SD = 1.0
"""The cost lies between nothing (everything was cached) and about twice the fitted value. The data say no more."""
FEWEST_TOGETHER = 4
"""Operations of one configuration whose sum says how far off the cost of a program is."""


def fit_cold(measurements: Iterable[Measurement]) -> ColdModel | None:
    """The costs that meet the cold timings, given the warm ones of the same operations; `None` with too few pairs."""
    warm: dict[object, float] = {}
    cold: list[Measurement] = []
    for m in measurements:
        if m.group != "primitives" or m.shape is None or TRAITS[OpKind(m.shape.kind)].client:
            continue
        if m.condition == "warm":
            warm[_key(m)] = m.seconds
        else:
            cold.append(m)
    paired = [(m, warm[_key(m)]) for m in cold if _key(m) in warm]
    if len(paired) < FEWEST:
        return None
    num_bytes = np.asarray([operand_bytes(shape_work(m.shape, m.params)) for m, _ in paired if m.shape], dtype=float)
    if np.ptp(num_bytes) == 0:
        return None
    seconds, known = np.asarray([m.seconds for m, _ in paired]), np.asarray([each for _, each in paired])
    columns = np.stack([np.ones(len(paired)), num_bytes], axis=1)
    found = robust_nnls(columns, seconds, np.ones(len(paired)), known=known).coefficients
    more = columns @ found
    if not more.all():
        return None
    counts = ", ".join(str(n) for n in sorted({m.threads for m, _ in paired}))
    rings = [m.params.ring_dim for m, _ in paired]
    together = [(m.params, m.shape.limbs_in if m.shape else 0, m.threads) for m, _ in paired]
    source = (
        f"fitted to {len(paired)} primitives, each timed warm and cold, {counts} thread{'' if counts == '1' else 's'}"
    )

    def figure(value: float, text: str) -> Figure:
        return Figure(value=value, text=text, source=source, kind=Evidence.CALIBRATED)

    call, each_byte = found.tolist()
    return ColdModel(
        call=figure(float(f"{call * 1e6:.6g}") * 1e-6, f"{call * 1e6:.6g} us") if call else None,
        operands=figure(float(f"{1e-9 / each_byte:.6g}") * 1e9, f"{1e-9 / each_byte:.6g} GB/s") if each_byte else None,
        log_sd=min(float(f"{_log_sd(columns, seconds, known, rings, together):.4g}"), MOST_SD),
    )


def _log_sd(
    columns: Floats, seconds: Floats, known: Floats, rings: Sequence[int], together: Sequence[Hashable]
) -> float:
    """The joint error of the cost of several operations, at ring dimensions outside the fit.

    The common error counts in full. Single operations count with their scatter where a configuration has too few, or
    with one ring dimension only.
    """
    groups: dict[Hashable, list[int]] = {}
    for row, name in enumerate(together):
        groups.setdefault(name, []).append(row)
    several = [rows for rows in groups.values() if len(rows) >= FEWEST_TOGETHER]
    logs = []
    for ring in sorted(set(rings)):
        rest = np.asarray([each != ring for each in rings])
        if rest.sum() < FEWEST:
            continue
        found = robust_nnls(columns[rest], seconds[rest], np.ones(int(rest.sum())), known=known[rest]).coefficients
        for rows in several:
            predicted, measured = float((columns[rows] @ found).sum()), float((seconds - known)[rows].sum())
            if rings[rows[0]] == ring and predicted > 0 and measured > 0:
                logs.append(np.log(predicted / measured))
    if logs:
        return float(np.percentile(np.abs(logs), ONE_SD))
    more = columns @ robust_nnls(columns, seconds, np.ones(len(seconds)), known=known).coefficients
    return float(np.percentile(np.abs((seconds - known - more) / more), ONE_SD))


def _key(m: Measurement) -> object:
    return m.item, m.params, m.shape, m.threads
