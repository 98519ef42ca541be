"""Numbers of every size through every door of every reading: right, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from faults.values import case
from penstock.errors import PenstockError
from penstock.front.hall.running import RunDiffers
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.fits import held_bits, scale_bits
from penstock.program.running import READINGS
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.params.spec import CkksSpec
from support.readings import keys_of
from support.toy import toy

X = np.array([0.4, -0.3, 0.2, -0.1, 0.25, 0.125, 0.45, -0.45])
PLAIN = np.array([0.5, -0.25, 0.75, 0.3, 0.1, 0.2, -0.3, -0.4])
SCALINGS = tuple(Scaling)
COMPUTING = [name for name, each in READINGS.items() if each.computes and each.records]
Program = Callable[[Any], Any]


def result(reading: str, params: CkksParameters, program: Program) -> np.ndarray | str:
    """The first values that a program decrypts to, or the error of the reading."""
    try:
        with READINGS[reading].evaluator(params, keys_of(params, program)) as ev:
            return np.asarray(ev.decrypt(program(ev)))[: len(X)]
    except PenstockError as error:
        return str(error)


def refusal(work: Callable[[], Any]) -> str:
    """The error of ours that it ends with; nothing: it gives a result."""
    try:
        work()
    except PenstockError as error:
        return str(error)
    return ""


def with_last(value: float) -> np.ndarray:
    return np.array([1.0, 2.0, 3.0, value])


DOORS: dict[str, Callable[[Any, Any, float], Any]] = {
    "encrypt": lambda ev, a, big: ev.encrypt(with_last(big)),
    "add": lambda ev, a, big: ev.add(a, big),
    "sub": lambda ev, a, big: ev.sub(a, big),
    "sub from": lambda ev, a, big: ev.sub(big, a),
    "add to a product": lambda ev, a, big: ev.add(ev.mult(a, a), big),
    "mult": lambda ev, a, big: ev.mult(a, big),
    "mult below": lambda ev, a, big: ev.mult(ev.rescale(ev.mult(a, a)), big),
    "add plain": lambda ev, a, big: ev.add(a, ev.encode(with_last(big))),
    "sub plain": lambda ev, a, big: ev.sub(a, ev.encode(lambda: with_last(big))),
    "add plain to a product": lambda ev, a, big: ev.add(ev.mult(a, a), ev.encode(with_last(big))),
    "mult plain": lambda ev, a, big: ev.mult(a, ev.encode(with_last(big))),
    "weighted sum": lambda ev, a, big: ev.weighted_sum([a, a], [ev.encode(with_last(big)), lambda: with_last(1.0)]),
}


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("reading", COMPUTING)
def test_a_number_that_the_modulus_does_not_hold_is_refused_at_every_door(
    reading: str, scaling: Scaling, request: pytest.FixtureRequest
) -> None:
    if READINGS[reading].keys:
        request.getfixturevalue("openfhe" if READINGS[reading].library else "encrypting")
    params = toy(scaling=scaling)

    def refusals(ev: Any) -> None:
        a = ev.encrypt(X)
        for name, door in DOORS.items():
            for big in (1e150, -1e200, 1e300, np.finfo(float).max):
                assert "bits at" in refusal(lambda d=door, b=big: d(ev, a, b)), f"{name}, {big}"
            for none in (np.nan, np.inf, -np.inf, np.longdouble("1e4000")):
                assert "finite" in refusal(lambda d=door, b=none: d(ev, a, b)), f"{name}, {none}"
        # What is near the bound is computed: the message is about the modulus, not about large numbers.
        fits = 2.0 ** (held_bits(params, a.state.limbs) - 2 - scale_bits(params, a.state))
        ev.add(a, fits), ev.add(a, ev.encode(np.full(8, fits)))

    with READINGS[reading].evaluator(params, keys_of(params, lambda ev: ev.square(ev.encrypt(X)))) as ev:
        refusals(ev)


@pytest.mark.parametrize("name", DOORS)
def test_the_clear_reading_decrypts_nothing_that_is_not_finite(name: str) -> None:
    ev = ClearEvaluator(toy())
    for none in (np.nan, np.inf, -np.inf):
        with pytest.raises(PenstockError, match="finite"), np.errstate(invalid="ignore", over="ignore"):
            ev.decrypt(DOORS[name](ev, ev.encrypt(X), none))
    with pytest.raises(PenstockError, match="double"):
        ev.encrypt([2**1100, 1])
    assert ev.decrypt(ev.encrypt([2**400, np.float16(0.5)]))[0] == 2.0**400


SHALLOW: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "a sum": lambda ev, a, b, plain: ev.add(a, b),
    "a sum with a plaintext": lambda ev, a, b, plain: ev.add(a, plain),
    "a product": lambda ev, a, b, plain: ev.mult(a, b),
    "a product and a number": lambda ev, a, b, plain: ev.add(ev.mult(a, b), 0.25),
    "a product in a product": lambda ev, a, b, plain: ev.mult(ev.rescale(ev.mult(a, b)), a),
    "a product times a number": lambda ev, a, b, plain: ev.mult(ev.rescale(ev.mult(a, b)), 0.3),
}


class Library:
    """OpenFHE itself, with no rule of ours."""

    def __init__(self, fhe: Any, params: CkksParameters) -> None:
        wanted = fhe.CCParamsCKKSRNS()
        wanted.SetRingDim(params.ring_dim)
        wanted.SetBatchSize(params.slots)
        wanted.SetMultiplicativeDepth(params.depth)
        wanted.SetFirstModSize(params.first_mod_bits)
        wanted.SetScalingModSize(params.scale_bits)
        wanted.SetScalingTechnique(getattr(fhe, params.scaling.value.replace("-", "").upper()))
        wanted.SetSecurityLevel(fhe.HEStd_NotSet)
        self.cc = fhe.GenCryptoContext(wanted)
        for feature in (fhe.PKE, fhe.KEYSWITCH, fhe.LEVELEDSHE):
            self.cc.Enable(feature)
        self.pair, self.params = self.cc.KeyGen(), params
        self.cc.EvalMultKeyGen(self.pair.secretKey)

    def encrypt(self, values: np.ndarray) -> Any:
        return self.cc.Encrypt(self.pair.publicKey, self._encoded(values, 1, 0))

    def encode(self, values: np.ndarray) -> np.ndarray:
        return values

    def add(self, a: Any, b: Any) -> Any:
        other = self._encoded(b, a.GetNoiseScaleDeg(), a.GetLevel()) if isinstance(b, np.ndarray) else b
        return self.cc.EvalAdd(a, other)

    def mult(self, a: Any, b: Any) -> Any:
        return self.cc.EvalMult(a, b)

    def rescale(self, a: Any) -> Any:
        return a if self.params.scaling.automatic else self.cc.Rescale(a)

    def decrypt(self, a: Any) -> np.ndarray:
        found = self.cc.Decrypt(self.pair.secretKey, a)
        found.SetLength(len(X))
        return np.array(found.GetRealPackedValue())

    def _encoded(self, values: np.ndarray, degree: int, level: int) -> Any:
        return self.cc.MakeCKKSPackedPlaintext(values.tolist(), degree, level, None, self.params.slots)


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("bits", [(60, 50), (50, 50)])
@pytest.mark.usefixtures("openfhe", "encrypting")
def test_a_shallow_set_runs_what_openfhe_runs(bits: tuple[int, int], depth: int, scaling: Scaling) -> None:
    import openfhe

    params = CkksSpec(
        name="shallow", ring_dim="2^10", slots=8, depth=depth, first_mod_bits=bits[0], scale_bits=bits[1],
        scaling=scaling.value, security="none",
    ).build()  # fmt: skip
    library, expected = Library(openfhe, params), {}
    for name, program in SHALLOW.items():
        try:
            expected[name] = library.decrypt(program(library, library.encrypt(X), library.encrypt(X[::-1]), PLAIN))
        except RuntimeError:
            expected[name] = None
    openfhe.ClearEvalMultKeys()
    for name, program in SHALLOW.items():

        def whole(ev: Any, program: Any = program) -> Any:
            return program(ev, ev.encrypt(X), ev.encrypt(X[::-1]), ev.encode(PLAIN))

        for reading in COMPUTING:
            found = result(reading, params, whole)
            if expected[name] is None:
                assert isinstance(found, str), f"{name}, {reading}: OpenFHE refuses it"
            else:
                assert not isinstance(found, str), f"{name}, {reading}: OpenFHE runs it; {found}"
                assert np.max(np.abs(found - expected[name])) < 1e-3, f"{name}, {reading}"


@pytest.mark.usefixtures("encrypting")
def test_a_run_whose_values_outgrow_the_modulus_says_so(tmp_path: Path) -> None:
    file = tmp_path / "outgrown.py"
    file.write_text("""import numpy as np
PARAMS = "insecure-small"
def data(size, slots, seed):
    return np.full(slots, 30.0)
def program(ev, data, size):
    a = ev.encrypt(data)
    return ev.decrypt(ev.mod_drop(ev.rescale(ev.square(a)), 1))
""")
    with pytest.raises(RunDiffers, match="values up to 900 outgrow"):
        ps.run(file)


@pytest.mark.usefixtures("openfhe", "encrypting")
def test_random_numbers_are_right_or_refused() -> None:
    assert [fault for seed in range(20) for fault in case(seed).faults] == []


def test_a_coefficient_that_only_a_longer_float_holds_is_refused() -> None:
    ev = ClearEvaluator(toy())
    a = ev.encrypt(X)
    longer = np.array([1, "1e4000"], dtype=np.longdouble)
    for call in (lambda: ev.polynomial(a, longer), lambda: ev.chebyshev_series(a, longer, -1, 1)):
        assert "finite real numbers" in refusal(call)
