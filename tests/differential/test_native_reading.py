"""The native reading: the trace of the `trace` reading inside composites too, the values, and OpenFHE's own words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from penstock import _engine
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.openfhe.evaluator import load_openfhe
from penstock.runtime.native.engine import EngineHere, make_context
from penstock.runtime.native.evaluator import NativeEvaluator
from penstock.runtime.native.keys import KeysInMemory
from penstock.runtime.native.openfhe_client import OpenFheClient, make_keys
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.traces.schema import Trace
from support.evaluator_pair import evaluator_pair
from support.readings import X, read
from support.toy import toy

SCALINGS = tuple(Scaling)
pytestmark = pytest.mark.usefixtures("openfhe")


@contextmanager
def native(params: CkksParameters, trace: Trace, **engine: Any) -> Iterator[NativeEvaluator]:
    """An evaluator with the keys of a trace in memory."""
    from penstock.program.openfhe.evaluator import OpenFheContext

    client = OpenFheContext.create(params, relinearize=False)
    try:
        made = make_context(params, **engine)
        keys = KeysInMemory(params, made)
        make_keys(client, trace.view().key_ids(), keys.put)
        yield NativeEvaluator(EngineHere(params, made, keys), OpenFheClient(client))
    finally:
        client.release()


def symbolic_trace(params: CkksParameters, program: Any) -> Trace:
    trace = read(SymbolicEvaluator(params), program)[1]
    assert trace is not None
    return trace


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("degree", [3, 7, 13, 29, 62])
def test_series_have_openfhes_values_and_levels(scaling: Scaling, degree: int) -> None:
    """Our circuit of OpenFHE's EvalChebyshevSeries against the call itself, on one ciphertext and one key."""
    params = toy(scaling=scaling)
    series = [1 / (k + 1.5) * (-1) ** (k // 2) for k in range(degree + 1)]

    def program(ev: Any) -> list[Any]:
        return [ev.chebyshev_series(ev.encrypt(X), series, -1, 1)]

    symbolic = symbolic_trace(params, program)
    with native(params, symbolic) as ev:
        encrypted = ev.encrypt(X)
        ours = ev.chebyshev_series(encrypted, series, -1, 1)
        client, fhe = ev.ends.context, load_openfhe()
        client.context.EvalMultKeyGen(client.secret_key)
        given = fhe.DeserializeCiphertextString(ev.engine.give(encrypted), fhe.BINARY)
        theirs = client.context.EvalChebyshevSeries(given, series, -1, 1)
        assert (ours.state.limbs, ours.state.degree) == (params.num_q - theirs.GetLevel(), theirs.GetNoiseScaleDeg())
        plain = client.context.Decrypt(theirs, client.secret_key)
        plain.SetLength(params.slots)
        difference = np.abs(np.asarray(plain.GetCKKSPackedValue()) - ev.decrypt(ours))
    assert float(np.max(difference)) < 1e-9


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("path", _engine.ckks_paths())
def test_a_chain_of_operations_has_openfhes_words(scaling: Scaling, path: str) -> None:
    """One program on both evaluators, from the same ciphertexts and keys: every limb word at every step."""

    params = toy(scaling=scaling)

    def program(ev: Any, a: Any, b: Any) -> list[Any]:
        steps = [ev.mult(a, b)]
        steps.append(ev.rotate(ev.rescale(steps[-1]), 3))
        steps.append(ev.sub(0.25, ev.square(steps[-1])))
        steps.append(ev.mult(ev.rescale(steps[-1]), ev.encode(X)))
        steps.append(ev.add(ev.rescale(steps[-1]), a))
        steps.extend(ev.rotate_many(steps[-1], [1, -2]))
        steps.append(ev.conjugate(steps[-1]))
        steps.append(ev.mult(steps[-1], ev.mod_drop(b, 5)))
        return steps

    def whole(ev: Any) -> list[Any]:
        return program(ev, ev.encrypt(X), ev.encrypt(X[::-1]))

    with evaluator_pair(params, symbolic_trace(params, whole).view().key_ids(), path) as pair:
        for step, (ours, theirs) in enumerate(zip(whole(pair.ours), whole(pair.theirs), strict=True)):
            assert pair.difference(ours, theirs) == "", step


DEGREES = (1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 14, 20, 29, 62)


def series_of(degree: int, parity: str) -> list[float]:
    found = np.random.default_rng(degree).uniform(-1, 1, degree + 1)
    if parity != "full":
        found[1 - degree % 2 :: 2] = 0
    return found.tolist()


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("interval", [(-1.0, 1.0), (-2.0, 3.0)])
def test_series_have_openfhes_words(scaling: Scaling, interval: tuple[float, float]) -> None:
    """Of a fresh operand, of a product, and of one with fewer limbs, whose scale is not that of the chain's end."""
    params = toy(scaling=scaling)

    def program(ev: Any) -> list[Any]:
        a = ev.encrypt(X)
        lower = ev.rescale(ev.add(ev.mult(a, 0.5), ev.square(a)))
        made = [ev.chebyshev_series(a, series_of(d, p), *interval) for d in DEGREES for p in ("full", "half")]
        made += [ev.chebyshev_series(lower, series_of(d, "full"), *interval) for d in DEGREES[:-2]]
        made += [ev.chebyshev_series(ev.mod_drop(lower, 8), series_of(d, "full"), *interval) for d in DEGREES[:-2]]
        # No term at all above the constant, zeros at the end, and terms that the library takes for none.
        odd = ([1.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.2, 0.3, 0.0, 0.0], [0.5] * 6 + [0.0] * 3)
        nearly = ([0.5, 0.5, 1e-15], [0.5, 0.5, 1e-14, 0.5, 0.0, 0.3, 1e-15, 0.2], [0.5] * 6 + [1e-14])
        return made + [ev.chebyshev_series(each, c, *interval) for each in (a, lower) for c in (*odd, *nearly)]

    with evaluator_pair(params, ["relin"]) as pair:
        for number, (ours, theirs) in enumerate(zip(program(pair.ours), program(pair.theirs), strict=True)):
            assert pair.difference(ours, theirs) == "", number
