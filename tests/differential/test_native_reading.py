"""The native reading: the trace of the `trace` reading inside composites too, the values, and OpenFHE's own words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from penstock import _engine
from penstock.native.client import ClientHere, make_keys
from penstock.native.engine import EngineHere, make_context
from penstock.native.evaluator import NativeEvaluator
from penstock.native.keys import KeysInMemory
from penstock.openfhe.evaluator import load_openfhe
from penstock.params.ckks import CkksParameters, Scaling
from penstock.program.symbolic import SymbolicEvaluator
from penstock.traces.schema import Trace
from readings import X, read
from toy import toy

SCALINGS = tuple(Scaling)
pytestmark = pytest.mark.usefixtures("openfhe")


@contextmanager
def native(params: CkksParameters, trace: Trace, **engine: Any) -> Iterator[NativeEvaluator]:
    """An evaluator with the keys of a trace in memory."""
    from penstock.openfhe.evaluator import OpenFheContext

    client = OpenFheContext.create(params, relinearize=False)
    try:
        made = make_context(params, **engine)
        keys = KeysInMemory(params, made)
        make_keys(client, trace.view().key_ids(), keys.put)
        yield NativeEvaluator(EngineHere(params, made, keys), ClientHere(client))
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


def openfhe_words(ev: NativeEvaluator, value: Any) -> list[np.ndarray]:
    """(limbs, N) words of each polynomial of OpenFHE's ciphertext."""
    fhe = load_openfhe()
    imported = ev.engine.context.import_ciphertext(fhe.Serialize(value, fhe.BINARY))
    return [imported.words(k) for k in range(imported.polynomials)]


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("path", _engine.ckks_paths())
def test_a_chain_of_operations_has_openfhes_words(scaling: Scaling, path: str) -> None:
    """One program on both evaluators, from the same ciphertexts and keys: every limb word at every step."""
    from penstock.openfhe.evaluator import OpenFheContext, OpenFheEvaluator
    from penstock.openfhe.stored import adopt, library_ciphertext

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

    symbolic = symbolic_trace(params, lambda ev: program(ev, ev.encrypt(X), ev.encrypt(X)))
    client = OpenFheContext.create(params, relinearize=False)
    try:
        engine = make_context(params, path=path)
        keys = KeysInMemory(params, engine)
        kept: dict[str, bytes] = {}

        def take(key: str, content: bytes) -> None:
            keys.put(key, content)
            kept[key] = content

        make_keys(client, symbolic.view().key_ids(), take)
        ours = NativeEvaluator(EngineHere(params, engine, keys), ClientHere(client))
        # OpenFHE gets the same keys back.
        fhe, cc = load_openfhe(), client.context
        maps = {name: fhe.DeserializeEvalKeyMapString(kept[name], fhe.BINARY) for name in kept if name != "relin"}
        relin = fhe.DeserializeEvalKeyString(kept["relin"], fhe.BINARY)
        cc.InsertEvalMultKey([relin])
        for each in maps.values():
            cc.InsertEvalAutomorphismKey(each, "")
        client.automorphism_keys = maps["conj"]
        theirs = OpenFheEvaluator(client)
        given = [ours.encrypt(X), ours.encrypt(X[::-1])]
        contents = [ours.engine.give(each) for each in given]
        same = [adopt(theirs, library_ciphertext(content), "given") for content in contents]
        mine, other = program(ours, *given), program(theirs, *same)
        for step, (left, right) in enumerate(zip(mine, other, strict=True)):
            assert left.state == right.state, step
            words = [left.value.words(k) for k in range(left.value.polynomials)]
            for k, expected in enumerate(openfhe_words(ours, right.value)):
                np.testing.assert_array_equal(words[k], expected, err_msg=f"step {step}, polynomial {k}")
    finally:
        client.release()
