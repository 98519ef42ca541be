"""Sorting of encrypted values by a bitonic network.

The values lie in as many slots, with copies behind them. A step compares each slot with its partner a power of two
away. With u = x - partner, t = u (1 + sign(u)) / 2 for ascending order, and u (1 - sign(u)) / 2 for descending order.
Then x - t in one slot and x + t in the other are the two values in their order. The sign is a composition of minimax
polynomials: values closer than its lower bound may come out mixed, by no more than that bound.

The network follows Batcher (AFIPS 1968), log2(n) (log2(n) + 1) / 2 steps. On encrypted values it is the two-way case of
Hong et al., IEEE TIFS 2021 (ePrint 2021/551), whose k-way networks compare fewer times for larger k:
`penstock.program.workloads.sorting_k_way`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from penstock.base.arrays import Floats
from penstock.errors import ParamsError, UsageError
from penstock.program.evaluator.circuits.minimax import CompositeSign, composite_sign, parse_degrees
from penstock.program.evaluator.placement import Chain, start_levels
from penstock.program.evaluator.protocol import Ciphertext, Evaluator
from penstock.program.workloads import Check

NAME = "sorting"
DESCRIPTION = "bitonic sorting network on encrypted values, comparison by minimax polynomials"
SOURCE = "Hong et al., IEEE TIFS 2021 (ePrint 2021/551), two-way"

TOLERANCE = 1e-3
"""Largest difference of the encrypted result to the clear one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The number of values, and the quality of comparisons."""

    params: str
    values: int
    """A power of two."""
    degrees: str
    """Of the polynomials whose composition is the sign."""
    lower_bits: int
    """The sign is good for differences from 2^-lower_bits on."""


SIZES = {
    "ci": Size(params="insecure-resnet20-multiplexed", values=4, degrees="7-15", lower_bits=4),
    "full": Size(params="openfhe-resnet20-multiplexed", values=256, degrees="15-15-27", lower_bits=9),
    # As many values as accelerator papers sort.
    "published": Size(params="sharp", values=2**14, degrees="15-15-27", lower_bits=9),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "published"


@dataclass(frozen=True, slots=True)
class Data:
    """What is sorted."""

    values: Floats
    """(values,) in [0, 1]."""
    description: str = ""


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Random values of [0, 1], one in each of as many equal intervals, in random order; or the values of a text file.

    Raises: UsageError: a file without so many numbers, or with numbers outside [0, 1].
    """
    if path is not None:
        try:
            values = np.loadtxt(path, dtype=np.float64).reshape(-1)
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: no file of numbers, one a line ({error})") from error
        if len(values) != size.values or values.min() < 0 or values.max() > 1:
            raise UsageError(f"{path}: {len(values)} numbers; this size sorts {size.values} numbers of [0, 1]")
        return Data(values, str(path))
    generator = np.random.default_rng(seed)
    spread = (np.arange(size.values) + generator.uniform(0.2, 0.8, size.values)) / size.values
    return Data(generator.permutation(spread), f"{size.values} random values")


def blank(size: Size, slots: int) -> Data:
    """The same shape without values."""
    return Data(np.zeros(size.values))


def steps(values: int) -> Iterator[tuple[int, int]]:
    """(length of the runs that are made, distance of partners) of each step.

    >>> list(steps(4))
    [(2, 1), (4, 2), (4, 1)]
    """
    run = 2
    while run <= values:
        distance = run // 2
        while distance:
            yield run, distance
            distance //= 2
        run *= 2


def sign_of(size: Size) -> CompositeSign:
    """The sign that this size compares with."""
    return composite_sign(2.0**-size.lower_bits, parse_degrees(size.degrees))


def blocks(size: Size) -> list[int]:
    """Levels of the parts of all steps: the polynomials of the sign, and the product with the difference."""
    return [*sign_of(size).levels, 1] * sum(1 for _ in steps(size.values))


def program(ev: Evaluator, data: Data, size: Size) -> Floats:
    """The values in ascending order, (values,).

    Raises: ParamsError: more values than slots.
    """
    count, slots = size.values, ev.params.slots
    if count > slots:
        raise ParamsError(f"{NAME} sorts {count} values in as many slots and the set has {slots}: take more slots")
    sign, chain = sign_of(size), Chain(ev, blocks(size))
    with ev.scope("input"):
        a = ev.encrypt(np.tile(data.values, slots // count), name="values")
        a = ev.mod_drop(a, start_levels(ev.params, blocks(size)) + 1)
    for run, distance in steps(count):
        with ev.scope("step"):
            a = _step(ev, a, sign, chain, count, run, distance)
    with ev.scope("output"):
        return np.real(ev.decrypt(a))[:count]


def _step(
    ev: Evaluator, a: Ciphertext, sign: CompositeSign, chain: Chain, count: int, run: int, distance: int
) -> Ciphertext:
    with ev.scope("compare"):
        a = value = chain.before(a, slots=count)
        value = difference = ev.sub(a, ev.rotate(a, distance))
        for index in range(len(sign.series)):
            value = value if index == 0 else chain.before(value, slots=count)
            value = sign.step(ev, value, index)
    with ev.scope("exchange"):
        value = chain.before(value, slots=count)
        half, turned = (
            ev.encode(partial(_halves, count, ev.params.slots, run, distance, directed), name=f"{word}{run}/{distance}")
            for word, directed in (("half", False), ("turned", True))
        )
        moved = ev.add(
            ev.rescale(ev.mult(value, ev.rescale(ev.mult(difference, turned)))), ev.rescale(ev.mult(difference, half))
        )
        return ev.add(ev.sub(a, moved), ev.rotate(moved, -distance))


def _halves(count: int, slots: int, run: int, distance: int, directed: bool) -> Floats:
    """1/2 in the slots whose partner is to their right; with its sign where they are to descend (`directed`)."""
    slot = np.arange(slots) % count
    mask = np.where(slot & distance, 0.0, 0.5)
    return np.where(slot & run, -mask, mask) if directed else mask


def check(clear: Floats, got: Floats, data: Data, size: Size) -> Check:
    """The clear result within 1e-3, and the values in their order up to the error of the sign."""
    return check_order(clear, got, data, size, sum(1 for _ in steps(size.values)))


def check_order(clear: Floats, got: Floats, data: Data, size: Size, count: int, ways: int = 2) -> Check:
    """The check of a network of `count` steps, each of which puts so many values in their order."""
    sign = sign_of(size)
    error = float(np.max(np.abs(clear - got)))
    order = float(np.max(np.abs(got - np.sort(data.values))))
    # Of two, both results are wrong by at most half of the difference, or of the sign's error times it. Of more, two
    # that are too close are mixed, by half of their difference. Every other comparison lacks half of the sign's error:
    # a place loses the error of its own value ways - 1 times, and its neighbours put in ways + 1 times as much.
    step = max(sign.lower, sign.error) / 2 if ways == 2 else sign.lower / 2 + ways * sign.error
    bound = count * step + TOLERANCE
    outcome = {
        f"differs from the clear reading by at most {TOLERANCE:g}": error <= TOLERANCE,
        f"differs from the sorted values by at most {bound:.3g}": order <= bound,
    }
    return Check.of(outcome, error, TOLERANCE, numbers={"max_abs_difference_to_sorted": order, "steps": float(count)})
