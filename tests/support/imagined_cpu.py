"""Measurements of an imagined CPU whose times follow the kernel algebra, for tests of prediction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.lab.fit.measurements import Measurement, primitive_shape
from penstock.lab.prediction.models import served
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.work.shapes import Shape, shape_work
from support.toy import toy

KINDS = (OpKind.ADD, OpKind.MULT_PLAIN, OpKind.ROTATE, OpKind.MULT, OpKind.DECOMPOSE, OpKind.SUB)
COLUMNS = {
    "model", "protocol", "application", "statistic", "n", "mean_abs_error", "median_abs_error", "p90_abs_error",
    "worst_abs_error", "bias", "coverage90",
}  # fmt: skip


def params_of(log_n: int, limbs: int = 8) -> CkksParameters:
    """A set that holds the small programs of the tests."""
    return toy(
        name=f"insecure-{log_n}-{limbs}", ring_dim=2**log_n, slots=2 ** (log_n - 1), q_bits=(60,) + (50,) * (limbs - 1)
    )


def true_seconds(shape: Shape, params: CkksParameters, threads: int) -> float:
    """Time on an imagined CPU: what a perfect model would say."""
    work = shape_work(shape, params)
    butterflies = work.limb_transforms * params.ring_dim / 2 * math.log2(max(params.ring_dim, 2))
    elements = work.elementwise_mults + work.elementwise_adds + work.bconv_macs + work.automorphism_coefficients
    return 20e-6 + (2e-9 * butterflies + 1e-9 * elements) / threads**0.5


def timed(kind: OpKind, params: CkksParameters, limbs: int, threads: int = 1, factor: float = 1.0) -> Measurement:
    shape = primitive_shape(kind, params, limbs)
    return Measurement(
        item=kind.value,
        group="primitives",
        params=params,
        shape=shape,
        threads=threads,
        seconds=factor * true_seconds(shape, params, threads),
        source="imagined",
    )


def ran(item: str, size: str, threads: int, factor: float = 1.0, params: CkksParameters | None = None) -> Measurement:
    """A program of the registry at its own small size."""
    from penstock.program import workloads
    from penstock.scheme.params import catalogue

    params = params or catalogue.get(workloads.get(item).SIZES[size].params)
    blank = Measurement(
        item=item, group="workloads", params=params, size=size, threads=threads, seconds=1.0, source="imagined"
    )
    seconds = sum(n * true_seconds(shape, params, threads) for shape, n in served(blank).counts.items())
    return replace(blank, seconds=factor * seconds, wall_s=factor * seconds)


def sweep(
    rings: Sequence[int] = (11, 12, 13, 14),
    depths: Sequence[int] = (6, 8, 12),
    threads: Sequence[int] = (1,),
    factor: Callable[[int], float] = lambda index: 1.0,
) -> list[Measurement]:
    found: list[Measurement] = []
    for log_n in rings:
        for chain in depths:
            params = params_of(log_n, chain)
            for count in threads:
                for kind in KINDS:
                    for limbs in sorted({chain, chain // 2, 2}):
                        found.append(timed(kind, params, limbs, count, factor(len(found))))
    return found
