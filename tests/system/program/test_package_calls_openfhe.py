"""Every call of OpenFHE that packages hold: recorded, replayed in the clear, equal to what OpenFHE decrypts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import penstock.program.openfhe.recorder as recorder
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.openfhe.recorder.tap import TAP
from penstock.program.package.content import Package
from penstock.program.package.replay import run_package
from support.recorded_natively import Seen, difference, packagings_of, run_natively, watched

TECHNIQUES = ("FIXEDMANUAL", "FIXEDAUTO", "FLEXIBLEAUTO", "FLEXIBLEAUTOEXT")
X, Y = (0.5, -0.25, 0.75, 1.0, -0.5, 0.125, 0.0, 0.375), (0.25, 0.5, -1.0, 0.5, 0.75, -0.125, 1.0, 0.5)


@pytest.fixture
def fhe(openfhe: ModuleType) -> Iterator[ModuleType]:
    """OpenFHE with no key registered and no class changed, before and after."""
    yield from cleared(openfhe)


@pytest.fixture(scope="module")
def shared(openfhe: ModuleType, request: pytest.FixtureRequest) -> Iterator[Script]:
    """A script of one technique, for all programs."""
    for fhe in cleared(openfhe):
        yield Script(fhe, request.param)


def cleared(openfhe: ModuleType) -> Iterator[ModuleType]:
    for step in ("before", "after"):
        openfhe.CryptoContext.ClearEvalAutomorphismKeys()
        openfhe.ClearEvalMultKeys()
        openfhe.ReleaseAllContexts()
        assert not TAP.is_open, step
        if step == "before":
            yield openfhe


class Script:
    """A context, its keys, and the pieces that programs are made of."""

    def __init__(self, fhe: ModuleType, technique: str, **more: Any) -> None:
        asked = fhe.CCParamsCKKSRNS()
        settings = {
            "MultiplicativeDepth": 6,
            "ScalingModSize": 50,
            "FirstModSize": 60,
            "RingDim": 1024,
            "BatchSize": 8,
            "SecurityLevel": fhe.HEStd_NotSet,
            "ScalingTechnique": getattr(fhe, technique),
            **more,
        }
        for name, value in settings.items():
            getattr(asked, f"Set{name}")(value)
        self.fhe, self.technique, self.cc = fhe, technique, fhe.GenCryptoContext(asked)
        for feature in (fhe.PKE, fhe.KEYSWITCH, fhe.LEVELEDSHE, fhe.ADVANCEDSHE, fhe.FHE):
            self.cc.Enable(feature)
        self.keys = self.cc.KeyGen()
        self.secret = self.keys.secretKey
        self.cc.EvalMultKeyGen(self.secret)
        self.cc.EvalSumKeyGen(self.secret)
        self.cc.EvalRotateKeyGen(self.secret, [1, 2, 3, 4, -1])
        self.inputs: list[Any] = []
        self.evaluation_keys: dict[str, tuple[bytes, bytes]] = {}

    def plain(self, values: Any = Y, **more: Any) -> Any:
        return self.cc.MakeCKKSPackedPlaintext(values if isinstance(values, np.ndarray) else list(values), **more)

    def encrypted(self, values: Any = X, **more: Any) -> Any:
        self.inputs.append(np.asarray(values))
        made = self.cc.Encrypt(self.keys.publicKey, self.plain(values, **more))
        return made

    def product(self) -> Any:
        """x * y, not rescaled."""
        return self.cc.EvalMult(self.encrypted(X), self.encrypted(Y))

    def decrypted(self, ciphertext: Any) -> Any:
        found = self.cc.Decrypt(ciphertext, self.secret)
        found.SetLength(8)
        return np.array(found.GetCKKSPackedValue())


def packaged(script: Script, program: Callable[[Script], Any]) -> tuple[Package, Any, Seen]:
    """The package of a program that returns a ciphertext, what OpenFHE decrypts, and what its key's owner saw."""
    with watched(script.fhe, script.evaluation_keys) as seen, recorder.recorded(script.cc, constants=True) as recording:
        found = script.decrypted(program(script))
        assert recording.problems == []
        (packaging,) = packagings_of(recording)
        return packaging.package(), found, seen[id(packaging)]


def replayed(script: Script, package: Package) -> Any:
    inputs = {given.name: values for given, values in zip(package.inputs, script.inputs, strict=True)}
    (output,) = run_package(ClearEvaluator(package.params), package, inputs).values()
    return output


def in_place(name: str, *operands: Any) -> Callable[[Script], Any]:
    """A call that changes its ciphertext: X among the operands. Y is another one."""

    def program(s: Script) -> Any:
        changed = s.encrypted()
        known = {id(X): lambda s: changed, id(Y): lambda s: s.encrypted(Y)}
        given = [known.get(id(each), each) for each in operands]
        getattr(s.cc, name)(*[each(s) if callable(each) else each for each in given])
        return changed

    return program


def plain(s: Script) -> Any:
    return s.plain()


def low_plain(s: Script) -> Any:
    """Of fewer limbs than the ciphertext."""
    return s.plain(level=2)


PROGRAMS: dict[str, Callable[[Script], Any]] = {
    **{
        f"{name}-{operand}": (lambda s, name=name, make=make: getattr(s.cc, name)(s.encrypted(), make(s)))
        for name in ("EvalAdd", "EvalSub", "EvalMult")
        for operand, make in {
            "ciphertext": lambda s: s.encrypted(Y),
            "plaintext": plain,
            "low-plaintext": low_plain,
            "product-plaintext": lambda s: s.plain(np.array(Y)),
            "float": lambda s: 0.75,
            "int": lambda s: 2,
            "numpy": lambda s: np.float64(0.3),
        }.items()
    },
    **{
        f"{name}-reversed-{operand}": (lambda s, name=name, make=make: getattr(s.cc, name)(make(s), s.encrypted()))
        for name in ("EvalAdd", "EvalSub", "EvalMult")
        for operand, make in {"plaintext": plain, "low-plaintext": low_plain, "float": lambda s: 0.75}.items()
    },
    **{
        f"{name}Mutable": (lambda s, name=name: getattr(s.cc, f"{name}Mutable")(s.product(), s.encrypted(Y)))
        for name in ("EvalAdd", "EvalSub")
    },
    "EvalMultMutable": lambda s: s.cc.EvalMultMutable(s.encrypted(), s.encrypted(Y)),
    "EvalSquareMutable": lambda s: s.cc.EvalSquareMutable(s.encrypted()),
    "EvalAddInPlace": in_place("EvalAddInPlace", X, Y),
    "EvalAddInPlace-plaintext": in_place("EvalAddInPlace", X, plain),
    "EvalAddInPlace-float": in_place("EvalAddInPlace", X, 0.5),
    "EvalAddInPlace-reversed": in_place("EvalAddInPlace", 0.5, X),
    "EvalAddInPlaceNoCheck": in_place("EvalAddInPlaceNoCheck", X, Y),
    "EvalSubInPlace": in_place("EvalSubInPlace", X, Y),
    "EvalSubInPlace-plaintext": in_place("EvalSubInPlace", plain, X),
    "EvalSubInPlace-reversed": in_place("EvalSubInPlace", 3.0, X),
    "EvalAddMutableInPlace": in_place("EvalAddMutableInPlace", X, Y),
    "EvalSubMutableInPlace": in_place("EvalSubMutableInPlace", X, Y),
    "EvalMultInPlace": in_place("EvalMultInPlace", X, -1.5),
    "EvalMultMutableInPlace": in_place("EvalMultMutableInPlace", X, Y),
    "EvalNegateInPlace": in_place("EvalNegateInPlace", X),
    "EvalSquareInPlace": in_place("EvalSquareInPlace", X),
    "plus": lambda s: s.encrypted() + s.encrypted(Y),
    "Clone": lambda s: s.cc.EvalNegate(s.encrypted().Clone()),
    "EvalRotate": lambda s: s.cc.EvalRotate(s.encrypted(), 3),
    "EvalAtIndex": lambda s: s.cc.EvalAtIndex(s.cc.EvalAtIndex(s.encrypted(), -1), 0),
    "EvalAutomorphism": lambda s: s.cc.EvalAutomorphism(
        s.encrypted(), s.cc.FindAutomorphismIndex(2), s.cc.GetEvalAutomorphismKeyMap(s.secret.GetKeyTag())
    ),
    "hoisted": lambda s: _hoisted(s),
    "EvalMultNoRelin": lambda s: s.cc.Relinearize(s.cc.EvalMultNoRelin(s.encrypted(), s.encrypted(Y))),
    "RelinearizeInPlace": lambda s: _relinearized_in_place(s),
    "KeySwitch": lambda s: s.cc.KeySwitch(
        s.cc.EvalMultNoRelin(s.encrypted(), s.encrypted(Y)), s.cc.GetEvalMultKeyVector(s.secret.GetKeyTag())[0]
    ),
    "EvalMultAndRelinearize": lambda s: s.cc.EvalMultAndRelinearize(s.encrypted(), s.encrypted(Y)),
    "EvalSquare": lambda s: s.cc.EvalSquare(s.encrypted()),
    "Rescale": lambda s: s.cc.EvalMult(s.cc.Rescale(s.product()), s.encrypted(Y)),
    "ModReduceInPlace": lambda s: _reduced_in_place(s),
    "LevelReduce": lambda s: s.cc.EvalAdd(s.cc.LevelReduce(s.encrypted(), None, 2), s.encrypted(Y)),
    "Compress": lambda s: s.cc.EvalAdd(s.cc.Compress(s.encrypted(), 3), 1.0),
    "Compress-product": lambda s: s.cc.Compress(s.product(), 3),
    "low-input": lambda s: s.cc.EvalMult(s.encrypted(X, level=3), s.encrypted(Y, level=2)),
    "EvalAddMany": lambda s: s.cc.EvalAddMany([s.encrypted(), s.encrypted(Y), s.encrypted()]),
    "EvalAddManyInPlace": lambda s: s.cc.EvalAddManyInPlace([s.encrypted(), s.encrypted(Y), s.encrypted()]),
    "EvalMultMany": lambda s: s.cc.EvalMultMany([s.encrypted(), s.encrypted(Y), s.encrypted(), s.encrypted(Y)]),
    "ComposedEvalMult": lambda s: s.cc.ComposedEvalMult(s.encrypted(), s.encrypted(Y)),
    "EvalLinearWSum": lambda s: s.cc.EvalLinearWSum([s.encrypted(), s.encrypted(Y)], [0.5, -2.0]),
    "EvalLinearWSumMutable": lambda s: s.cc.EvalLinearWSumMutable([3, 1], [s.encrypted(), s.encrypted(Y)]),
    "EvalSum": lambda s: s.cc.EvalSum(s.encrypted(), 8),
    "EvalInnerProduct": lambda s: s.cc.EvalInnerProduct(s.encrypted(), s.encrypted(Y), 8),
    "EvalInnerProduct-plaintext": lambda s: s.cc.EvalInnerProduct(s.encrypted(), plain(s), 4),
    "EvalChebyshevSeries": lambda s: s.cc.EvalChebyshevSeries(s.encrypted(), [0.5, 1.0, 0.25, -0.5], -1, 1),
    "EvalChebyshevSeriesPS": lambda s: s.cc.EvalChebyshevSeriesPS(s.encrypted(), [0.5, 1.0, 0, 0.2, 0, 0.3], -2, 2),
    "EvalChebyshevFunction": lambda s: s.cc.EvalChebyshevFunction(math.exp, s.encrypted(), -1, 2, 9),
    "EvalChebyshevFunction-named": lambda s: s.cc.EvalChebyshevFunction(
        a=-1, b=2, degree=9, func=lambda x: x**3, ciphertext=s.encrypted()
    ),
    "EvalLogistic": lambda s: s.cc.EvalLogistic(s.encrypted(), -2, 2, 9),
    "EvalSin": lambda s: s.cc.EvalSin(s.encrypted(), -2, 2, 9),
    "EvalCos": lambda s: s.cc.EvalCos(s.encrypted(), -2, 2, 9),
    "EvalDivide": lambda s: s.cc.EvalDivide(s.cc.EvalAdd(s.encrypted(), 2.5), 1, 4, 12),
    "EvalPoly": lambda s: s.cc.EvalPoly(s.encrypted(), [1, 0, 2, 0.5, 0, 0, -1]),
    "EvalPolyLinear": lambda s: s.cc.EvalPolyLinear(s.encrypted(), [1, 0, 2, 0.5]),
    "EvalPolyPS": lambda s: s.cc.EvalPolyPS(s.encrypted(), [1.0, 0.0, 2.0, 0.5, 0, 0, -1]),
}  # fmt: skip


def _hoisted(s: Script) -> Any:
    a = s.encrypted()
    digits = s.cc.EvalFastRotationPrecompute(a)
    turned = [s.cc.EvalFastRotation(a, step, 2 * s.cc.GetRingDimension(), digits) for step in (1, 2, 0)]
    return s.cc.EvalAdd(s.cc.EvalAdd(turned[0], turned[2]), s.cc.EvalFastRotation(a, -1, digits))


def _relinearized_in_place(s: Script) -> Any:
    long = s.cc.EvalMultNoRelin(s.encrypted(), s.encrypted(Y))
    s.cc.EvalAddInPlace(long, s.cc.EvalMultNoRelin(s.encrypted(), s.encrypted()))
    s.cc.RelinearizeInPlace(long)
    return long


def _reduced_in_place(s: Script) -> Any:
    long = s.product()
    s.cc.ModReduceInPlace(long)
    s.cc.LevelReduceInPlace(long, None, 1)
    return s.cc.EvalMult(long, 2.0)


def has_other_words(name: str, technique: str) -> bool:
    """Whether a package gives the same values, and other words."""
    # OpenFHE sums over Q and P, and divides by P once. Words of series may differ by less than the noise. Where levels
    # have scales of their own it adapts the scale of a ciphertext that it lowers to a plaintext.
    series = ("EvalCheb", "EvalPoly", "EvalLogistic", "EvalSin", "EvalCos", "EvalDivide")
    return name.startswith(("EvalSum", "EvalInner", *series)) or (
        "low-plaintext" in name and technique.startswith("FLEX")
    )


@pytest.mark.parametrize("shared", TECHNIQUES, indirect=True)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_call_replays_to_what_openfhe_computes(shared: Script, name: str) -> None:
    """In the clear to what it decrypts, and in our evaluator to the same words."""
    script, technique = shared, shared.technique
    script.inputs.clear()
    assert not TAP.is_open
    if technique == "FIXEDMANUAL" and name in ("EvalAddMutable", "EvalSubMutable"):
        pytest.skip("a product and a fresh ciphertext have two scales under the manual rule")
    package, expected, seen = packaged(script, PROGRAMS[name])
    assert np.allclose(replayed(script, package), expected, atol=1e-6)
    (ours,) = run_natively(package, seen)
    if has_other_words(name, technique):
        assert seen.decrypt is not None
        assert np.allclose(seen.decrypt(ours)[:8], expected, atol=1e-6)
    else:
        assert difference(package, ours, *seen.results) == ""


COMPLEX: dict[str, Callable[[Script], Any]] = {
    "plaintext": lambda s: s.cc.EvalMult(s.encrypted(Z), s.plain(Z)),
    "array": lambda s: s.cc.EvalAdd(s.encrypted(Z), s.plain(np.array(Z))),
    "number": lambda s: s.cc.EvalMult(s.encrypted(Z), 2 - 1j),
    "sum": lambda s: s.cc.EvalAdd(1j, s.cc.EvalSub(s.encrypted(Z), 2 - 1j)),
    "reversed": lambda s: s.cc.EvalSub(1 + 0.5j, s.encrypted(Z)),
}
Z = tuple(0.5 * x + 1j * y for x, y in zip(X, Y, strict=True))


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_values_are_complex_constants(fhe: ModuleType, name: str) -> None:
    script = Script(fhe, "FLEXIBLEAUTO", CKKSDataType=fhe.COMPLEX)
    package, expected, seen = packaged(script, COMPLEX[name])
    assert package.inputs[0].is_complex
    assert np.max(np.abs(expected.imag)) > 0.1
    assert np.allclose(replayed(script, package), expected, atol=1e-6)
    assert seen.decrypt is not None
    assert np.allclose(seen.decrypt(*run_natively(package, seen))[:8], expected, atol=1e-6)


def test_a_plaintext_of_fewer_slots_repeats(fhe: ModuleType) -> None:
    script = Script(fhe, "FLEXIBLEAUTO")
    package, expected, seen = packaged(script, lambda s: s.cc.EvalMult(s.encrypted(), s.plain((0.5, 2.0), slots=2)))
    assert np.allclose(expected.real, np.array(X) * np.tile([0.5, 2.0], 4))
    assert np.allclose(replayed(script, package), expected, atol=1e-6)
    assert difference(package, *run_natively(package, seen), *seen.results) == ""


def test_the_slots_of_the_plaintexts_are_those_of_the_package(fhe: ModuleType) -> None:
    script = Script(fhe, "FLEXIBLEAUTO", BatchSize=16)
    package, expected, _ = packaged(script, lambda s: s.cc.EvalRotate(s.encrypted(slots=8), 3))
    assert package.params.slots == 8
    assert np.allclose(replayed(script, package), expected, atol=1e-6)
