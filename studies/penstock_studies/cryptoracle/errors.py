"""Errors of predictions over many points: mean, median, 90th percentile, worst and signed bias.

The geometric mean of |error|, which the paper prints, is here only to be set beside what it prints: one point that is
met by chance pulls it to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

STATISTICS = ("mean_abs_error", "median_abs_error", "p90_abs_error", "worst_abs_error", "bias")
"""Relative errors; the bias is their signed mean."""


def errors(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Each of `STATISTICS` of predicted / measured - 1, from (predicted, measured) pairs; nothing without any.

    >>> errors([(1.1, 1.0), (0.8, 1.0)])["bias"]
    -0.05
    """
    if not pairs:
        return {}
    signed = np.asarray([predicted / measured - 1 for predicted, measured in pairs])
    size = np.abs(signed)
    values = size.mean(), np.median(size), np.percentile(size, 90), size.max(), round(float(signed.mean()), 12)
    return dict(zip(STATISTICS, map(float, values), strict=True))


def as_published(pairs: Sequence[tuple[float, float]]) -> float | None:
    """The paper's headline figure: the geometric mean of |error|. Not a measure of accuracy."""
    sizes = [abs(predicted / measured - 1) for predicted, measured in pairs]
    return float(np.exp(np.mean(np.log(sizes)))) if sizes and min(sizes) > 0 else None


def cosine(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Cosine similarity of predicted and measured values: figure 9(b). A factor common to all does not change it."""
    if len(pairs) < 2:
        return None
    predicted, measured = np.asarray(pairs).T
    return float(predicted @ measured / np.sqrt((predicted @ predicted) * (measured @ measured)))
