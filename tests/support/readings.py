"""Every operation of the protocol, as programs that tests run in each reading."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from penstock.errors import PenstockError
from penstock.program.evaluator.counting import CountingEvaluator
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import Trace, TraceMeta

X = np.linspace(-1, 1, 64)
SERIES = [1, 0.5, 0.25, 0.1, 0.7, 0.3, 0.2]


def sums(ev: Any) -> list[Any]:
    a, b, p = ev.encrypt(X), ev.encrypt(X[::-1]), ev.encode(2 * X)
    return [ev.add(a, b), ev.add(a, p), ev.add(a, 0.5), ev.sub(a, b), ev.sub(a, p), ev.sub(a, 0.5), ev.sub(0.5, a),
            ev.negate(a)]  # fmt: skip


def products(ev: Any) -> list[Any]:
    a, b, p = ev.encrypt(X), ev.encrypt(X[::-1]), ev.encode(2 * X)
    made = [ev.mult(a, b), ev.mult(a, p), ev.mult(a, 0.3), ev.relinearize(ev.mult_no_relin(a, b)), ev.square(a)]
    return [ev.rescale(c) for c in made]


def automorphisms(ev: Any) -> list[Any]:
    a = ev.encrypt(X)
    return [ev.rotate(a, 3), ev.rotate(a, -5), ev.rotate(a, 0), *ev.rotate_many(a, [1, 2, 0, -3]), ev.conjugate(a)]


def unequal_levels(ev: Any) -> list[Any]:
    a, b, p = ev.encrypt(X), ev.encrypt(X[::-1]), ev.encode(2 * X)
    product = ev.mult(a, b)
    one = ev.rescale(product)
    two = ev.rescale(ev.mult(one, a))
    shared = [ev.add(two, a), ev.sub(one, two), ev.mod_drop(a, 4), ev.add(one, p)]
    deeper = [ev.rescale(ev.mult(two, a)), ev.rescale(ev.mult(two, p)), ev.rescale(ev.mult(two, one))]
    if not ev.params.scaling.automatic:
        return [*shared, *deeper, ev.add(product, p)]
    # A product meets operands one and several levels away: each path of the automatic rule.
    late = ev.mult(two, two)
    return [
        *shared,
        *deeper,
        ev.add(product, a),
        ev.add(two, product),
        ev.mult(product, two),
        ev.add(late, a),
        ev.mult(late, a),
        ev.sub(a, late),
        ev.add(late, product),
    ]


def drops(ev: Any) -> list[Any]:
    """Limbs of a fresh ciphertext and of a product; sums and products with what was not dropped, and with a product."""
    a, b, p = ev.encrypt(X), ev.encrypt(X[::-1]), ev.encode(2 * X)
    product = ev.mult(a, b)
    if not ev.params.scaling.automatic:
        product = ev.rescale(product)
    limbs = ev.params.num_q
    low, least = ev.mod_drop(a, limbs - 1), ev.mod_drop(product, limbs - 3)
    made = [low, least, ev.mod_drop(low, 3), ev.add(low, a), ev.add(low, product), ev.sub(least, b)]
    for each in (low, least, ev.mod_drop(ev.add(a, p), limbs - 2)):
        made += [ev.add(each, p), ev.sub(0.5, each), ev.conjugate(each)]
        made += [ev.rescale(c) for c in (ev.square(each), ev.mult(each, p), ev.mult(each, 0.3), ev.mult(each, a))]
    return made


def series(ev: Any) -> list[Any]:
    a = ev.encrypt(X)
    lower = ev.rescale(ev.mult(a, a))
    return [ev.chebyshev_series(a, SERIES, -1, 1), ev.chebyshev_series(a, SERIES, -3, 2),
            ev.chebyshev_function(a, np.exp, -2, 2, 13), ev.chebyshev_series(lower, SERIES, -3, 2)]  # fmt: skip


PROGRAMS = {f.__name__: f for f in (sums, products, automorphisms, unequal_levels, drops, series)}


def keys_of(params: CkksParameters, program: Any) -> Trace:
    """The trace whose keys a program needs, as far as it is not refused."""
    ev = SymbolicEvaluator(params)
    with suppress(PenstockError):
        program(ev)
    return ev.builder.finish(TraceMeta(workload="test", params=params.to_dict(), reading="trace"))


def read(ev: Any, program: Any) -> tuple[list[np.ndarray], Trace | None]:
    """What a program decrypts, and its trace where the reading keeps one."""
    values = [ev.decrypt(c) for c in program(ev)]
    if isinstance(ev, CountingEvaluator) or not hasattr(ev, "builder"):
        return values, None
    return values, ev.builder.finish(TraceMeta(workload="test", params=ev.params.to_dict(), reading="test"))
