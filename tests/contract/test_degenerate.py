"""Calls of the protocol with degenerate arguments: in each reading the clear value, or the same refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.errors import EvaluationRefused, PenstockError
from penstock.program.evaluator.circuits.sums import fold
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.package.capture import capture
from penstock.program.package.content import ConstantsInMemory, Package
from penstock.program.package.file import open_package, write_package
from penstock.program.package.replay import run_package
from penstock.program.running import READINGS
from penstock.scheme.operations import RELIN_KEY
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.traces.schema import TraceMeta
from support.degenerate_calls import CALLS, VALUES, Call
from support.evaluator_pair import evaluator_pair
from support.readings import keys_of
from support.toy import toy


def _decrypted(ev: Any, call: Call, values: np.ndarray = VALUES) -> list[np.ndarray] | str:
    """What a call gives, or how it is refused."""
    try:
        made = call(ev, ev.encrypt(values))
        return [np.asarray(ev.decrypt(each)) for each in (made if isinstance(made, list) else [made])]
    except PenstockError as error:
        return f"{type(error).__name__}: {error}"


def _expected(params: CkksParameters, call: Call) -> tuple[list[np.ndarray] | str, Any]:
    """What each reading gives of a call: the clear value, or the refusal, by its arguments or the depth."""
    clear, symbolic = _decrypted(ClearEvaluator(params), call), SymbolicEvaluator(params)
    traced = _decrypted(symbolic, call)
    if isinstance(clear, str):
        assert traced == clear
    elif isinstance(traced, str):
        assert "deeper than the parameters" in traced, traced
        clear = traced
    trace = symbolic.builder.finish(TraceMeta(workload="test", params=params.to_dict(), reading="trace"))
    return clear, trace


def _check(found: list[np.ndarray] | str, expected: list[np.ndarray] | str, tolerance: float = 1e-6) -> None:
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected
        return
    assert len(found) == len(expected)
    for got, exact in zip(found, expected, strict=True):
        assert np.allclose(got, exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CALLS)
def test_a_degenerate_argument_has_its_clear_value_or_one_refusal_without_cryptography(name: str) -> None:
    for params in (toy(), toy(scaling=Scaling.FLEXIBLE_AUTO)):
        expected, trace = _expected(params, CALLS[name])
        for reading in ("counting", "noisy"):
            with READINGS[reading].evaluator(params, trace) as ev:
                found = _decrypted(ev, CALLS[name])
                if reading == "counting" and not isinstance(found, str) and not isinstance(expected, str):
                    assert len(found) == len(expected)
                    continue
                _check(found, expected)


@pytest.mark.parametrize("reading", ["native", "openfhe"])
@pytest.mark.parametrize("scaling", [Scaling.FIXED_MANUAL, Scaling.FLEXIBLE_AUTO])
def test_a_degenerate_argument_has_its_clear_value_or_one_refusal_encrypted(
    reading: str, scaling: Scaling, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("openfhe" if reading == "openfhe" else "encrypting")
    params = toy(scaling=scaling)
    expected = {name: _expected(params, call) for name, call in CALLS.items()}
    computed = [name for name, (values, _) in expected.items() if not isinstance(values, str)]

    def every(ev: Any, a: Any) -> list[Any]:
        made = [CALLS[name](ev, a) for name in computed]
        return [each for one in made for each in (one if isinstance(one, list) else [one])]

    symbolic = SymbolicEvaluator(params)
    assert not isinstance(_decrypted(symbolic, every), str)
    trace = symbolic.builder.finish(TraceMeta(workload="test", params=params.to_dict(), reading="trace"))
    with READINGS[reading].evaluator(params, trace) as ev:
        for name, call in CALLS.items():
            try:
                _check(_decrypted(ev, call), expected[name][0])
            except Exception as error:
                raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error


def _product(ev: Any, a: Any) -> Any:
    """Three polynomials."""
    made = ev.mult_no_relin(a, a)
    return made if ev.params.scaling.automatic else ev.rescale(made)


NOT_RELINEARIZED: dict[str, Call] = {
    "mult": lambda ev, a: ev.mult(_product(ev, a), a),
    "mult, second": lambda ev, a: ev.mult(a, _product(ev, a)),
    "square": lambda ev, a: ev.square(_product(ev, a)),
    "polynomial": lambda ev, a: ev.polynomial(_product(ev, a), [0, 1, 2]),
    "polynomial, constant": lambda ev, a: ev.polynomial(_product(ev, a), [1]),
    "chebyshev_series": lambda ev, a: ev.chebyshev_series(_product(ev, a), [0, 1, 2], -1, 1),
    "chebyshev_series, function": lambda ev, a: ev.chebyshev_function(_product(ev, a), np.cos, -1, 1, 3),
    "rotate": lambda ev, a: ev.rotate(_product(ev, a), 1),
    "rotate, fold": lambda ev, a: fold(ev, _product(ev, a), 4),
    "rotate_many": lambda ev, a: ev.rotate_many(_product(ev, a), [1, 2]),
    "conjugate": lambda ev, a: ev.conjugate(_product(ev, a)),
    "decompose": lambda ev, a: ev.decompose(_product(ev, a)),
    "bootstrap": lambda ev, a: ev.bootstrap(_product(ev, a)),
    "bootstrap_many": lambda ev, a: ev.bootstrap_many([_product(ev, a), a]),
    "relinearize": lambda ev, a: ev.relinearize(ev.mult_no_relin(_product(ev, a), a)),
}
DIGITS: dict[str, Call] = {
    **{f"{call}": lambda ev, a, call=call: getattr(ev, call)(ev.decompose(a))
       for call in ("decrypt", "negate", "square", "relinearize", "conjugate", "rescale", "decompose", "bootstrap",
                    "levels", "mult_by_i")},
    **{f"{call}, {n}": lambda ev, a, call=call, n=n: getattr(ev, call)(*(each(ev, a) for each in ORDERS[n]))
       for call in ("add", "sub", "mult") for n in ("first", "second", "number", "plaintext")},
    "mult_no_relin": lambda ev, a: ev.mult_no_relin(a, ev.decompose(a)),
    "weighted_sum": lambda ev, a: ev.weighted_sum([a, ev.decompose(a)], [ev.encode(VALUES)] * 2),
    "rotate": lambda ev, a: ev.rotate(ev.decompose(a), 1),
    "rotate_many": lambda ev, a: ev.rotate_many(ev.decompose(a), [1, 2]),
    "mod_drop": lambda ev, a: ev.mod_drop(ev.decompose(a), 2),
    "polynomial": lambda ev, a: ev.polynomial(ev.decompose(a), [0, 1]),
    "chebyshev_series": lambda ev, a: ev.chebyshev_series(ev.decompose(a), [0, 1], -1, 1),
    "bootstrap_many": lambda ev, a: ev.bootstrap_many([a, ev.decompose(a)]),
    "rotate_hoisted": lambda ev, a: ev.rotate_hoisted(ev.decompose(a), ev.decompose(a), 1),
    "rotate_hoisted, none": lambda ev, a: ev.rotate_hoisted(a, a, 1),
    "rotate_hoisted, a number": lambda ev, a: ev.rotate_hoisted(a, 0.5, 1),
    "rotate_hoisted, other limbs": lambda ev, a: ev.rotate_hoisted(ev.mod_drop(a, 2), ev.decompose(a), 1),
    "rotate_hoisted, another": lambda ev, a: ev.rotate_hoisted(a, ev.decompose(ev.negate(a)), 1),
    "rotate_hoisted, not at all": lambda ev, a: ev.rotate_hoisted(a, ev.decompose(ev.negate(a)), 0),
}  # fmt: skip
ORDERS: dict[str, tuple[Call, Call]] = {
    "first": (lambda ev, a: ev.decompose(a), lambda ev, a: a),
    "second": (lambda ev, a: a, lambda ev, a: ev.decompose(a)),
    "number": (lambda ev, a: 0.5, lambda ev, a: ev.decompose(a)),
    "plaintext": (lambda ev, a: ev.decompose(a), lambda ev, a: ev.encode(VALUES)),
}


@pytest.mark.parametrize("scaling", [Scaling.FIXED_MANUAL, Scaling.FLEXIBLE_AUTO])
@pytest.mark.parametrize("reading", ["trace", "counting", "noisy", "native", "openfhe", "package"])
def test_digits_and_what_is_not_relinearized_are_refused_alike_in_all_that_follow_states(
    reading: str, scaling: Scaling, request: pytest.FixtureRequest
) -> None:
    if reading in ("native", "openfhe"):
        request.getfixturevalue("openfhe" if reading == "openfhe" else "encrypting")
    params = toy(scaling=scaling)

    def refused(ev: Any) -> list[np.ndarray]:
        a = ev.encrypt(VALUES)
        for what, calls in (("relinearize", NOT_RELINEARIZED), ("digits", DIGITS)):
            for name, call in calls.items():
                words = f"^{name.partition(',')[0]}: .*{what}|^the native evaluator refuses: .*relinearize it first"
                with pytest.raises(EvaluationRefused, match=words):
                    call(ev, a)
        return [ev.decrypt(ev.rotate_hoisted(a, ev.decompose(a), 3)), ev.decrypt(ev.relinearize(_product(ev, a)))]

    def keys(ev: Any) -> None:
        ev.decrypt(ev.rotate(ev.square(ev.encrypt(VALUES)), 3))

    if reading == "package":
        capture(refused, params, ConstantsInMemory(), "refused")
        return
    if reading == "trace":
        refused(SymbolicEvaluator(params))
        return
    with READINGS[reading].evaluator(params, keys_of(params, keys)) as ev:
        rotated, squared = refused(ev)
        if reading != "counting":
            assert np.allclose(rotated, np.roll(VALUES, -3), atol=1e-6)
            assert np.allclose(squared, VALUES**2, atol=1e-6)


def _refilled(ev: Any) -> list[np.ndarray]:
    """Vectors of one array that is filled anew, and values that the program overwrites."""
    buffer, plains, terms = np.zeros(ev.params.slots), [], []
    for value in (0.125, 0.25, 0.5):
        buffer[:] = value
        plains.append(ev.encode(buffer))
        terms.append(ev.encrypt(buffer, name=f"{value}"))
    buffer[:] = 9
    total = ev.add(ev.add(terms[0], terms[1]), terms[2])
    for plain in plains:
        total = ev.add(total, plain)
    seen = ev.decrypt(total)
    seen[:] = 9
    return [ev.decrypt(total)]


@pytest.mark.parametrize("reading", ["clear", "noisy", "native", "openfhe"])
def test_an_array_that_the_caller_fills_anew_changes_nothing(reading: str, request: pytest.FixtureRequest) -> None:
    if READINGS[reading].keys:
        request.getfixturevalue("openfhe" if reading == "openfhe" else "encrypting")
    params = toy()
    with READINGS[reading].evaluator(params, keys_of(params, _refilled)) as ev:
        assert np.allclose(_refilled(ev)[0], 1.75, atol=1e-6)


def test_a_package_has_an_array_as_it_was_encoded() -> None:
    params = toy()
    package = capture(_refilled, params, ConstantsInMemory(), "refilled")
    inputs = {each.name: np.full(params.slots, float(each.name)) for each in package.inputs}
    found = run_package(ClearEvaluator(params), package, inputs).values()
    assert [np.allclose(each, 1.75) for each in found] == [True, True]


def _all(names: list[str]) -> Call:
    """The results of several calls, one after the other."""

    def every(ev: Any, a: Any) -> list[Any]:
        made = [CALLS[name](ev, a) for name in names]
        return [each for one in made for each in (one if isinstance(one, list) else [one])]

    return every


def _packaged(call: Call, params: CkksParameters, path: Path) -> Package:
    """A call as a package, read from its file again."""

    def program(ev: Any) -> list[Any]:
        return [ev.decrypt(each) for each in call(ev, ev.encrypt(VALUES, name="x"))]

    write_package(capture(program, params, ConstantsInMemory(), "degenerate"), path)
    return open_package(path)


@pytest.mark.parametrize("scaling", [Scaling.FIXED_MANUAL, Scaling.FLEXIBLE_AUTO])
def test_a_package_has_the_degenerate_calls_of_its_program(scaling: Scaling, tmp_path: Path) -> None:
    params = toy(scaling=scaling)
    expected = {name: _expected(params, call)[0] for name, call in CALLS.items()}
    computed = [name for name, values in expected.items() if isinstance(values, list) and values]
    package = _packaged(_all(computed), params, tmp_path / "model.pkg")
    found = run_package(ClearEvaluator(params), package, {given.name: np.resize(VALUES, given.length)
                                                          for given in package.inputs})  # fmt: skip
    exact = _decrypted(ClearEvaluator(params), _all(computed))
    others = {at for at, name in enumerate(computed) if name.startswith("encrypt: ")}  # other inputs
    assert len(found) == len(exact)
    assert len(others) < 5
    assert sum(not np.allclose(got, each) for got, each in zip(found.values(), exact, strict=True)) <= len(others)


@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("decrypt of a number",)])
def test_what_the_readings_refuse_cannot_be_captured(name: str) -> None:
    params = toy()
    expected, _ = _expected(params, CALLS[name])
    if isinstance(expected, str):
        kind, _, message = expected.partition(": ")
        with pytest.raises(PenstockError) as refused:
            capture(lambda ev: CALLS[name](ev, ev.encrypt(VALUES)), params, ConstantsInMemory(), "refused")
        assert (type(refused.value).__name__, str(refused.value)) == (kind, message)


@pytest.mark.parametrize("degree", [2204, 2205])
@pytest.mark.usefixtures("openfhe")
def test_a_series_beyond_openfhes_table_has_its_words(degree: int) -> None:
    params = toy(ring_dim=256, slots=8, q_bits=(60,) + (50,) * 14)
    series = np.random.default_rng(degree).uniform(-1, 1, degree + 1) / degree

    def made(ev: Any) -> list[Any]:
        a = ev.encrypt(VALUES[::8])
        return [ev.chebyshev_series(a, series, -1, 1), ev.polynomial(a, series)]

    with evaluator_pair(params, [RELIN_KEY]) as pair:
        ours, theirs = made(pair.ours), made(pair.theirs)
        assert [pair.difference(*each) for each in zip(ours, theirs, strict=True)] == ["", ""]
        for got, exact in zip(ours, made(ClearEvaluator(params)), strict=True):
            assert np.allclose(pair.ours.decrypt(got), exact, atol=1e-6)


@pytest.mark.parametrize("scaling", [Scaling.FIXED_AUTO, Scaling.FLEXIBLE_AUTO, Scaling.FLEXIBLE_AUTO_EXT])
@pytest.mark.usefixtures("openfhe")
def test_a_product_that_is_rescaled_to_the_last_limb_meets_a_plaintext(scaling: Scaling) -> None:
    params = toy(scaling=scaling)

    def made(ev: Any) -> Any:
        a = ev.mod_drop(ev.encrypt(VALUES), 2)
        return ev.mult(ev.square(a), ev.encode(VALUES))

    with evaluator_pair(params, [RELIN_KEY]) as pair:
        ours, theirs = made(pair.ours), made(pair.theirs)
        assert ours.state.limbs == 1
        assert pair.difference(ours, theirs) == ""
