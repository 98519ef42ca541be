"""The algorithms of CryptOracle's programs, written from its paper and its code: the calls that its Table 3 counts.

They are not our workloads of similar names, which compute the same results by other algorithms. Matrix multiplication
spreads two masked columns and rows a step in one ciphertext. The two functions are Chebyshev series too long for their
depth: one call of the library evaluates the first terms, and the others follow by hand from T_1, T_2, … T_2^m. The
network multiplies the Chebyshev polynomials T_1 to T_8 of its input with masks, and sums.
Source: Brynds et al., "CryptOracle" (ISPASS 2026), Tables 2 and 3; components of Polycircuit (FHERMA challenges).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from penstock.errors import ParamsError
from penstock.lab.prediction.composites import LOGISTIC_SERIES, logistic_coefficients, logistic_series
from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Operand, Plain, Values
from penstock.program.workloads.logistic_function import BOUND, logistic

ORDER = 32
"""Of the square matrices."""
LOGISTIC_TERMS, LOGISTIC_TOP = 77, 64
"""The last term of all, and the power of two that the terms by hand are reached from."""
SIGN_SERIES, SIGN_TERMS, SIGN_TOP = 1007, 1023, 1024
POLYNOMIALS = 8
"""Chebyshev polynomials of the network's input."""
SHIFTS = (0, -1, -2, -3)
"""Rotations of the masked polynomials."""
FOLDS = (1600, 800, 400, 200, 100, 50)
"""Rotations that halve the network's sums; 40, 20 and 10 follow."""


def check_order(order: int, slots: int) -> None:
    """Raises: ParamsError: `order` is not a power of two, or 2 order^2 values do not fit in the slots."""
    if order < 4 or order & (order - 1) or 2 * order * order > slots:
        raise ParamsError(
            f"matrix multiplication: order {order} is a power of two from 4 with 2 x order^2 <= slots ({slots}); take "
            "another order or more slots"
        )


def matrix_multiplication(ev: Evaluator, a: Ciphertext, b: Ciphertext, order: int = ORDER) -> Ciphertext:
    """The product of two encrypted `order` x `order` matrices, row by row from slot 0; other slots are not defined.

    Each factor is joined with a copy whose first column (row) is the next one, so that one masked ciphertext holds
    two columns of A (rows of B), `order^2` slots apart. A step spreads both by rotations and multiplies: two outer
    products. `order / 2` steps and one fold make the product.
    Raises: ParamsError: as `check_order`.
    """
    check_order(order, ev.params.slots)
    area = order * order
    at = np.arange(order)
    masks = []
    # A's columns lie `order` slots apart, B's rows are runs.
    for place, name in ((at * order, "column"), (at, "row")):
        values = np.zeros(2 * area)
        values[place] = values[area + place] = 1.0
        masks.append(ev.encode(values, name=name))
    with ev.scope("align"):
        pair = [ev.add(x, ev.rotate(x, stride - area)) for x, stride in ((a, 1), (b, order))]
    products = []
    for step in range(order // 2):
        with ev.scope("step"):
            spread = []
            for x, mask, stride in zip(pair, masks, (1, order), strict=True):
                part = _times(ev, ev.rotate(x, 2 * step * stride), mask)
                for k in range(order.bit_length() - 1):
                    part = ev.add(part, ev.rotate(part, -stride << k))
                spread.append(part)
            products.append(_times(ev, *spread))
    with ev.scope("fold"):
        while len(products) > 1:
            half = len(products) // 2
            products = [ev.add(x, y) for x, y in zip(products[:half], products[half:], strict=True)]
        return ev.add(products[0], ev.rotate(products[0], area))


def logistic_function(ev: Evaluator, x: Ciphertext) -> Ciphertext:
    """1 / (1 + e^-x) for x in [-25, 25]."""
    c = logistic_coefficients()
    total = ev.chebyshev_series(x, logistic_series(), -BOUND, BOUND)
    with ev.scope("polynomials"):
        t = {1: _times(ev, x, 1 / BOUND)}
        t[2] = _doubled(ev, _times(ev, t[1], t[1]), 1.0)
        # From x itself, 4x^3 - 3x: one level less than from T_1 and T_2.
        t[3] = ev.sub(_cube(ev, x, 4.0), _times(ev, t[1], 3.0))
        for k in range(4, LOGISTIC_TOP):
            t[k] = _doubled(ev, _times(ev, t[k // 2], t[k - k // 2]), t[1] if k % 2 else 1.0)
    rest = None
    with ev.scope("terms"):
        for n in range(LOGISTIC_SERIES + 2, LOGISTIC_TERMS + 1, 2):
            if n < LOGISTIC_TOP:
                # The climb to T_65 leaves one more T_63, which is taken off here.
                c_n = c[n] - (c[n + 2] if n == LOGISTIC_TOP - 1 else 0.0)
                term = _term(ev, t, n, c_n, LOGISTIC_TOP)
            elif n == LOGISTIC_TOP + 1:
                # 64 (2x^3 - x) = 64 T_1 T_2 -> 32 T_1 T_4 -> … -> 2 T_1 T_64 = T_65 + T_63.
                start = ev.sub(_cube(ev, x, 128 * c[n]), _times(ev, t[1], 64 * c[n]))
                term = _climb(ev, t, start, (2, 4, 8, 16, 32), 1, 64 * c[n])
            else:
                # 32 T_3 -> 16 T_5 -> … -> 2 T_33, then by the polynomial that leads to n.
                start = ev.sub(_cube(ev, x, 128 * c[n]), _times(ev, x, 96 * c[n] / BOUND))
                term = _climb(ev, t, start, (2, 4, 8, 16), 1, 32 * c[n])
                last, back = n - 33, n - 66
                term = ev.sub(_times(ev, term, t[last]), _times(ev, t[back], c[n]))
            rest = term if rest is None else ev.add(rest, term)
    with ev.scope("join"):
        return ev.add(total, rest)


def sign_evaluation(ev: Evaluator, x: Ciphertext) -> Ciphertext:
    """The sign of x in [-1, 1], by a series of degree 1023: within 0.1 for |x| above 0.01."""
    c = _sign_coefficients()
    total = ev.chebyshev_series(x, c[: SIGN_SERIES + 1], -1.0, 1.0)
    with ev.scope("polynomials"):
        t = {1: x}
        for k in range(2, SIGN_TOP // 2 + 1):
            t[k] = _doubled(ev, _times(ev, t[k - k // 2], t[k // 2]), t[1] if k % 2 else 1.0)
    with ev.scope("terms"):
        for n in range(SIGN_SERIES + 2, SIGN_TERMS + 1, 2):
            total = ev.add(total, _term(ev, t, n, c[n], SIGN_TOP))
    return total


def _times(ev: Evaluator, a: Ciphertext, b: Operand) -> Ciphertext:
    """A product at the scale of its factors: under automatic scaling, as CryptOracle's, `rescale` does nothing."""
    return ev.rescale(ev.mult(a, b))


def _doubled(ev: Evaluator, product: Ciphertext, less: Operand) -> Ciphertext:
    """2 T_a T_b - T_(a-b), the last a ciphertext or, where a = b, the number 1."""
    return ev.sub(ev.add(product, product), less)


def _cube(ev: Evaluator, x: Ciphertext, factor: float) -> Ciphertext:
    """factor * (x / BOUND)^3, in two levels."""
    return _times(ev, _times(ev, x, factor / BOUND**3), ev.rescale(ev.square(x)))


def _term(ev: Evaluator, t: Mapping[int, Ciphertext], n: int, coefficient: float, top: int) -> Ciphertext:
    """coefficient * T_n, n below `top` by an odd number: from T_a by T_g, T_2g, … T_(top/2), with g - a = top - n."""
    back = top - n
    giant = 1 << back.bit_length()
    giants = [giant << i for i in range(top.bit_length() - giant.bit_length())]
    scale = coefficient * 2 ** len(giants)
    return _climb(ev, t, _times(ev, t[giant - back], scale), giants, back, scale)


def _climb(
    ev: Evaluator, t: Mapping[int, Ciphertext], start: Ciphertext, giants: Sequence[int], back: int, scale: float
) -> Ciphertext:
    """2 T_m T_g - T_back = T_(m+g) for each giant g, the factors of 2 spent on the way."""
    for giant in giants:
        scale /= 2
        start = ev.sub(_times(ev, start, t[giant]), _times(ev, t[back], scale))
    return start


@lru_cache(maxsize=1)
def _sign_coefficients() -> list[float]:
    """Of the interpolant through 1027 nodes, 0 among them: (2 / n) cot(k pi / 2n), alternating."""
    nodes = 1027
    k = np.arange(1, nodes, 2)
    c = np.zeros(nodes)
    c[k] = 2.0 / nodes / np.tan(k * np.pi / (2 * nodes)) * np.where(k % 4 == 1, 1.0, -1.0)
    return [float(value) for value in c]


def cifar10(ev: Evaluator, x: Ciphertext, masks: Sequence[Values]) -> Ciphertext:
    """The scores of ten classes in the first ten slots; other slots are not defined.

    Args:   masks: 35 vectors of (slots,): two for the input (a sum, a product), four for each polynomial, and one sum
            behind the first of all.
    """
    plain = [ev.encode(mask, name=f"mask {i}") for i, mask in enumerate(masks)]
    with ev.scope("input"):
        x = _times(ev, ev.add(x, plain[0]), plain[1])
    offset, weights = plain[3], iter([plain[2], *plain[4:]])
    total: Ciphertext = None
    t: dict[int, Ciphertext] = {}
    for n in range(1, POLYNOMIALS + 1):
        with ev.scope("polynomials"):
            t[n] = x if n == 1 else _polynomial(ev, t, n)
        with ev.scope("masks"):
            for step in SHIFTS:
                part = _times(ev, t[n], next(weights))
                if total is None:
                    total = ev.add(part, offset)
                else:
                    total = ev.add(ev.rotate(part, step) if step else part, total)
    with ev.scope("sum"):
        for step in FOLDS:
            total = ev.add(total, ev.rotate(total, step))
        last = ev.rotate(total, 40)
        for step in (20, 10):
            total = ev.add(total, ev.rotate(total, step))
        return ev.add(total, last)


def _polynomial(ev: Evaluator, t: Mapping[int, Ciphertext], n: int) -> Ciphertext:
    """T_n of T_1, … T_(n-1): 2 T_a T_b - T_(a-b), the last 1 where a = b."""
    a = n - n // 2 if n in (2, 4, 8) else 4 if n > 4 else 2
    return _doubled(ev, _times(ev, t[a], t[n - a]), 1.0 if 2 * a == n else t[abs(2 * a - n)])


def chi_square(
    ev: Evaluator, genotypes: Sequence[Ciphertext], phenotypes: Sequence[Ciphertext], scaling: float
) -> tuple[Ciphertext, ...]:
    """Numerators and denominators of the statistics, and of the odds ratios; products are not relinearized.

    Args:   genotypes, phenotypes: one ciphertext a person; scaling: keeps products of counts in range.
    """
    total = 2.0 * len(genotypes) * scaling
    twice = ev.encode(np.full(ev.params.slots, total), name="2 x people, scaled")
    with ev.scope("counts"):
        cases = _tree(ev, list(phenotypes))
        a = [ev.mult_no_relin(g, y) for g, y in zip(genotypes, phenotypes, strict=True)]
        n11 = ev.rescale(_tree(ev, a))
        c = _tree(ev, list(genotypes))
        r = ev.add(cases, cases)
        r_scaled, c_scaled = (ev.rescale(ev.mult(x, scaling)) for x in (r, c))
        r, c = _reduced(ev, r), _reduced(ev, c)
    with ev.scope("statistic"):
        excess = ev.rescale(ev.sub(ev.mult(n11, twice), ev.mult_no_relin(c, r_scaled)))
        numerator = ev.mult_no_relin(excess, excess)
        columns = ev.rescale(ev.mult_no_relin(c, ev.sub(total, c_scaled)))
        rows = ev.rescale(ev.mult_no_relin(r, ev.sub(total, r_scaled)))
        denominator = ev.mult_no_relin(columns, rows)
    with ev.scope("odds"):
        n11_scaled = ev.rescale(ev.mult(n11, scaling))
        without = _reduced(ev, ev.sub(c, n11))
        r_scaled = _reduced(ev, r_scaled)
        odds_denominator = ev.mult_no_relin(without, ev.sub(r_scaled, n11_scaled))
        rest = ev.sub(ev.sub(n11_scaled, r_scaled), _reduced(ev, c_scaled))
        odds_numerator = ev.mult_no_relin(_reduced(ev, n11), ev.add(rest, twice))
    return numerator, denominator, odds_numerator, odds_denominator


def _tree(ev: Evaluator, terms: list[Ciphertext]) -> Ciphertext:
    """The sum of all, pair by pair."""
    step = 1
    while step < len(terms):
        for i in range(0, len(terms) - step, 2 * step):
            terms[i] = ev.add(terms[i], terms[i + step])
        step *= 2
    return terms[0]


def _reduced(ev: Evaluator, a: Ciphertext) -> Ciphertext:
    """One limb fewer: LevelReduce."""
    return ev.mod_drop(a, ev.levels(a))


ROW = 16
"""Slots of a sample of the regression: its features, padded."""
LEARNING_RATE, MOMENTUM = 0.1, 0.1
SIGMOID_BOUND, SIGMOID_DEGREE = 16.0, 59


def logistic_regression(
    ev: Evaluator, x: Ciphertext, negative_x: Ciphertext, labels: Ciphertext, weights: Ciphertext, iterations: int
) -> Ciphertext:
    """Weights and momentum behind `iterations` of Nesterov's gradient, a sample in every 16 slots.

    Args:   x, negative_x: the samples, and the same times minus the learning rate over their number; labels: in all
            slots of a sample; weights: 16 slots of weights and 16 of momentum, over and over. It is refreshed before
            each iteration but the first, in 8 times 16 slots.
    """
    slots = np.arange(ev.params.slots)
    first, second = (ev.encode((slots // ROW % 2 == half).astype(float), name=f"half {half}") for half in (0, 1))
    starts = ev.encode((slots % ROW == 0).astype(float), name="starts of samples")
    for i in range(iterations):
        with ev.scope("iteration"):
            if i:
                # The library takes the last limbs only; the first iteration leaves more.
                last = ev.mod_drop(weights, 2) if ev.levels(weights) > 1 else weights
                weights = ev.bootstrap(last, min(8 * ROW, ev.params.slots))
            theta, phi = (
                ev.add(ev.rotate(half, step), half)
                for half, step in ((_times(ev, weights, first), -ROW), (_times(ev, weights, second), ROW))
            )
            gradient = _gradient(ev, x, negative_x, labels, theta, starts)
            stepped = ev.sub(theta, gradient)
            theta = ev.add(stepped, _times(ev, ev.sub(stepped, phi), MOMENTUM)) if i else stepped
            weights = ev.add(_times(ev, theta, first), _times(ev, stepped, second))
    return weights


def _gradient(
    ev: Evaluator, x: Ciphertext, negative_x: Ciphertext, labels: Ciphertext, theta: Ciphertext, starts: Plain
) -> Ciphertext:
    """The gradient, over and over: sums over columns, EvalLogistic, and sums over rows."""
    logits = _times(ev, x, theta)
    for k in range(ROW.bit_length() - 1):
        logits = ev.add(logits, ev.rotate(logits, 1 << k))
    logits = _times(ev, logits, starts)
    for k in range(ROW.bit_length() - 1):
        logits = ev.add(logits, ev.rotate(logits, -1 << k))
    predicted = ev.chebyshev_function(logits, logistic, -SIGMOID_BOUND, SIGMOID_BOUND, SIGMOID_DEGREE)
    total = _times(ev, negative_x, ev.sub(labels, predicted))
    step = ROW
    while step < ev.params.slots:
        total = ev.add(total, ev.rotate(total, step))
        step *= 2
    return total
