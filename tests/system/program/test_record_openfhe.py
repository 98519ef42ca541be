"""Recording real OpenFHE programs: the rows are what ran, the program is left as it was, the trace is kept."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import penstock.program.openfhe.recorder as recorder
from penstock.base.system.files import WouldOverwrite
from penstock.errors import UsageError
from penstock.program.openfhe.recorder.parameters import NotRecordable, context_parameters
from penstock.program.openfhe.recorder.tap import TAP
from penstock.scheme.params.ckks import Scaling
from penstock.scheme.traces.inspect import problems
from penstock.scheme.traces.io import read_trace
from penstock.scheme.traces.schema import Trace

TECHNIQUES = ("FIXEDMANUAL", "FIXEDAUTO", "FLEXIBLEAUTO", "FLEXIBLEAUTOEXT")


@pytest.fixture
def fhe(openfhe: ModuleType) -> Iterator[ModuleType]:
    """OpenFHE with no key registered and no class changed, before and after."""
    for step in ("before", "after"):
        openfhe.CryptoContext.ClearEvalAutomorphismKeys()
        openfhe.ClearEvalMultKeys()
        openfhe.ReleaseAllContexts()
        assert not TAP.is_open, step
        if step == "before":
            yield openfhe


def context(fhe: ModuleType, technique: str = "FLEXIBLEAUTO", depth: int = 4, slots: int = 16, **more: Any) -> Any:
    """A small context with keys for steps 1, 2 and -1; `more` are setters of the parameters, by name."""
    asked = fhe.CCParamsCKKSRNS()
    settings = {
        "MultiplicativeDepth": depth,
        "ScalingModSize": 50,
        "FirstModSize": 60,
        "RingDim": 1024,
        "BatchSize": slots,
        "SecurityLevel": fhe.HEStd_NotSet,
        "ScalingTechnique": getattr(fhe, technique),
        **more,
    }
    for name, value in settings.items():
        getattr(asked, f"Set{name}")(value)
    cc = fhe.GenCryptoContext(asked)
    for feature in (fhe.PKE, fhe.KEYSWITCH, fhe.LEVELEDSHE, fhe.ADVANCEDSHE, fhe.FHE):
        cc.Enable(feature)
    keys = cc.KeyGen()
    cc.EvalMultKeyGen(keys.secretKey)
    cc.EvalRotateKeyGen(keys.secretKey, [1, 2, -1])
    return cc, keys


def encrypted(cc: Any, keys: Any, values: Any = (0.5, 0.25)) -> Any:
    return cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext(list(values)))


def decrypted(cc: Any, keys: Any, ciphertext: Any, count: int) -> Any:
    plain = cc.Decrypt(ciphertext, keys.secretKey)
    plain.SetLength(count)
    return np.array(plain.GetRealPackedValue())


def checked(recording: recorder.Recording) -> Trace:
    """The trace, of which every call was recorded and every rule of the format holds."""
    assert recording.problems == []
    trace = recording.trace()
    assert list(problems(trace)) == []
    return trace


def rows(recording: recorder.Recording) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = checked(recording).view(composites=True).operations.to_pylist()
    return listed


def test_record_returns_the_context_itself_which_then_saves(fhe: ModuleType, tmp_path: Path) -> None:
    cc, keys = context(fhe)
    path = tmp_path / "t.parquet"
    assert recorder.record(cc, path) is cc
    try:
        a = encrypted(cc, keys)
        assert cc.save_trace() == path
        cc.EvalAdd(a, a)
        cc.save_trace()
        assert len(read_trace(path)) == 2
        other = tmp_path / "other.parquet"
        other.touch()
        with pytest.raises(WouldOverwrite):
            cc.save_trace(other)
        cc.save_trace(other, force=True)
        assert len(read_trace(other)) == 2
    finally:
        recorder.stop(cc)
    assert not hasattr(cc, "save_trace")
    with pytest.raises(WouldOverwrite, match=r"pass force=True to penstock\.record"):
        recorder.record(cc, path)


def test_a_bgv_context_is_refused_by_record(fhe: ModuleType) -> None:
    asked = fhe.CCParamsBGVRNS()
    asked.SetPlaintextModulus(65537)
    asked.SetMultiplicativeDepth(1)
    with pytest.raises(NotRecordable, match="BGV"):
        recorder.record(fhe.GenCryptoContext(asked))
    with pytest.raises(UsageError, match="CryptoContext"):
        recorder.record("context")


def test_openfhes_classes_are_as_they_were_afterwards(fhe: ModuleType) -> None:
    before = dict(vars(fhe.CryptoContext)), dict(vars(fhe.Ciphertext))
    cc, keys = context(fhe)
    with recorder.recorded(cc):
        assert dict(vars(fhe.CryptoContext)) != before[0]
        encrypted(cc, keys)
    assert dict(vars(fhe.CryptoContext)) == before[0]
    assert dict(vars(fhe.Ciphertext)) == before[1]


# What becomes a row.
@pytest.mark.parametrize("technique", TECHNIQUES)
def test_limbs_are_those_of_the_real_ciphertexts(fhe: ModuleType, technique: str) -> None:
    """Limbs counted in the bytes of each ciphertext, which no level can misstate."""
    cc, keys = context(fhe, technique, depth=5)
    limb_bytes = 8 * cc.GetRingDimension()
    with recorder.recorded(cc) as recording:
        a = encrypted(cc, keys)
        plain = cc.MakeCKKSPackedPlaintext([0.5, 0.5])
        made = [a, cc.EvalMult(a, a)]
        made.append(cc.Rescale(made[-1]))
        made.append(cc.EvalMult(made[-1], 0.5))
        made.append(cc.EvalMult(cc.Rescale(made[-1]), plain))
        made.append(cc.EvalAdd(cc.Rescale(made[-1]), a) if technique != "FIXEDMANUAL" else cc.Rescale(made[-1]))
        made.append(cc.EvalMult(made[-1], a))
        made.append(cc.EvalRotate(made[-1], 1))
        made.append(cc.Compress(a, 2))
        produced = {r["output"]: r["limbs_out"] for r in rows(recording)}
        seen = [recording._known(c) for c in made]
    for ciphertext, known in zip(made, seen, strict=True):
        real = len(fhe.Serialize(ciphertext, fhe.BINARY)) // (2 * limb_bytes)
        assert produced[known.object_id] == known.state.limbs == real
    assert not any("other limbs" in note for note in checked(recording).meta.notes)
    assert recording.params.depth == 5
    assert str(recording.params.scaling).replace("-", "").upper() == technique


def test_implied_rescales_are_those_of_the_call(fhe: ModuleType) -> None:
    cc, keys = context(fhe, "FLEXIBLEAUTO")
    with recorder.recorded(cc) as recording:
        a = encrypted(cc, keys)
        square = cc.EvalSquare(a)
        cc.EvalMult(square, a)
        cc.EvalAdd(square, a)
        cc.EvalMult(square, cc.MakeCKKSPackedPlaintext([1.0]))
        cc.EvalMult(square, 2.0)
        found = {(r["kind"], r["implied_rescales"], r["implied_scalar_mults"]) for r in rows(recording)}
    # A product meets a fresh one: one is scaled up, then both are rescaled. Counted by debugger in the library.
    assert found == {
        ("encrypt", 0, 0),
        ("square", 0, 0),
        ("mult", 2, 1),
        ("add", 0, 1),
        ("mult_plain", 1, 0),
        ("mult_scalar", 1, 0),
    }


def test_every_form_of_a_call_is_recorded_and_computes_the_same(fhe: ModuleType) -> None:
    cc, keys = context(fhe, depth=3)

    def program() -> Any:
        a, b = encrypted(cc, keys, (0.5, 0.25)), encrypted(cc, keys, (0.125, 1.0))
        plain = cc.MakeCKKSPackedPlaintext([0.5, -0.5])
        total = a + b
        total += a
        cc.EvalAddInPlace(total, plain)
        cc.EvalAddInPlace(1.0, total)
        cc.EvalSubInPlace(total, b)
        cc.EvalNegateInPlace(total)
        total = cc.EvalSub(2.0, total)
        total = cc.EvalSub(ciphertext=total, plaintext=plain)
        total = cc.EvalAddMutable(total, b.Clone())
        long = cc.EvalMultNoRelin(total, a)
        cc.RelinearizeInPlace(long)
        cc.EvalSquareInPlace(long)
        cc.EvalMultInPlace(long, 0.5)
        return decrypted(cc, keys, long, 2)

    plainly = program()
    with recorder.recorded(cc) as recording:
        recorded = program()
    assert np.allclose(plainly, recorded, atol=1e-6)
    assert [r["kind"] for r in rows(recording)] == [
        "encrypt",
        "encrypt",
        "add",
        "add",
        "add_plain",
        "add_scalar",
        "sub",
        "negate",
        "sub_scalar",
        "sub_plain",
        "add",
        "mult_no_relin",
        "relinearize",
        "square",
        "mult_scalar",
        "decrypt",
    ]
    operations = rows(recording)
    # Each step works on what the one before left behind.
    chain = [r for r in operations if r["kind"] not in ("encrypt", "decrypt")]
    assert all(earlier["output"] in later["operands"] for earlier, later in pairwise(chain))
    assert checked(recording).objects["bytes"].to_pylist()[chain[9]["output"]] == 3 * 8 * 1024 * chain[9]["limbs_out"]


def test_hoisted_rotations_share_one_decomposition(fhe: ModuleType) -> None:
    cc, keys = context(fhe)
    cc.EvalAutomorphismKeyGen(keys.secretKey, [2 * 1024 - 1])
    with recorder.recorded(cc) as recording:
        a = encrypted(cc, keys)
        digits = cc.EvalFastRotationPrecompute(a)
        cc.EvalFastRotation(a, 1, 2048, digits)
        cc.EvalFastRotation(a, -1, digits)
        cc.EvalAutomorphism(a, 2047, cc.GetEvalAutomorphismKeyMap(keys.secretKey.GetKeyTag()))
        cc.EvalAutomorphism(a, 25, cc.GetEvalAutomorphismKeyMap(keys.secretKey.GetKeyTag()))
        found = rows(recording)[1:]
    assert [(r["kind"], r["operands"], r["key"], r["step"]) for r in found] == [
        ("decompose", [0], None, None),
        ("rotate_hoisted", [0, 1], "rot:5", 1),
        ("rotate_hoisted", [0, 1], f"rot:{cc.FindAutomorphismIndex(-1)}", -1),
        ("conjugate", [0], "conj", None),
        ("rotate", [0], "rot:25", 2),
    ]
    assert checked(recording).objects["class"].to_pylist()[1] == "digits"


def test_a_rotation_by_zero_that_the_library_copies_is_no_operation(fhe: ModuleType) -> None:
    cc, keys = context(fhe)
    half = cc.GetRingDimension() // 2
    with recorder.recorded(cc) as recording:
        a = encrypted(cc, keys)
        digits = cc.EvalFastRotationPrecompute(a)
        # No key for Galois element 1 is there: what needs none computes.
        copies = cc.EvalAtIndex(a, 0), cc.EvalFastRotation(a, 0, 2 * cc.GetRingDimension(), digits)
        for refused in (
            lambda: cc.EvalRotate(a, 0),
            lambda: cc.EvalAtIndex(a, half),
            lambda: cc.EvalFastRotation(a, half, digits),
        ):
            with pytest.raises(RuntimeError):
                refused()
        cc.EvalAdd(*copies)
        cc.EvalRotateKeyGen(keys.secretKey, [0])
        cc.EvalRotate(a, 0)
        cc.EvalAtIndex(a, half)
        cc.EvalFastRotation(a, half, digits)
        found = rows(recording)[1:]
    assert [(r["kind"], r["operands"], r["key"]) for r in found] == [
        ("decompose", [0], None),
        ("add", [0, 0], None),
        ("rotate", [0], "rot:1"),
        ("rotate", [0], "rot:1"),
        ("rotate_hoisted", [0, 1], "rot:1"),
    ]


def test_composites_are_one_row_each_in_a_scope_with_what_is_known_of_them_beneath(fhe: ModuleType) -> None:
    cc, keys = context(fhe, depth=6)
    cc.EvalSumKeyGen(keys.secretKey)
    with recorder.recorded(cc) as recording:
        a, b = encrypted(cc, keys), encrypted(cc, keys)
        cc.EvalAddMany([a, b, a])
        cc.EvalMultMany([a, b, a, b])
        cc.EvalSum(a, 8)
        cc.EvalInnerProduct(a, b, 4)
        cc.EvalChebyshevFunction(lambda x: x * x, a, -1, 1, 13)
        cc.EvalPolyWithPrecomp(cc.EvalPowers(a, [1.0, 2.0, 3.0]), [1.0, 2.0, 3.0])
    trace = checked(recording)
    called = trace.view(composites=True).operations.slice(2).to_pylist()
    assert [(r["kind"], r["scope"]) for r in called] == [
        ("composite", "EvalAddMany[0]"),
        ("composite", "EvalMultMany[0]"),
        ("composite", "EvalSum[0]"),
        ("composite", "EvalInnerProduct[0]"),
        ("chebyshev", "EvalChebyshevFunction[0]"),
        ("composite", "EvalPowers[0]"),
        ("composite", "EvalPolyWithPrecomp[0]"),
    ]
    assert called[6]["operands"] == [called[5]["output"]]
    inside: dict[str, list[str]] = {}
    for row in trace.view().operations.to_pylist():
        inside.setdefault(row["scope"], []).append(row["kind"])
    assert inside["EvalAddMany[0]"] == ["add", "add"]
    assert inside["EvalMultMany[0]"] == ["mult"] * 3
    assert inside["EvalSum[0]"] == [
        "extend",
        "decompose",
        *["rotate_hoisted_extended"] * 3,
        *["add_extended"] * 3,
        "decompose_extended",
        "rotate_extended",
        "add_extended",
        "mod_down",
    ]
    assert inside["EvalInnerProduct[0]"][0] == "mult"
    assert inside["EvalChebyshevFunction[0]"].count("square") == 3
    assert inside["EvalPowers[0]"] == ["composite"]


def test_a_composite_of_operands_at_different_limbs_computes_at_the_lowest(fhe: ModuleType) -> None:
    cc, keys = context(fhe)
    cc.EvalSumKeyGen(keys.secretKey)
    with recorder.recorded(cc) as recording:
        a = encrypted(cc, keys)
        b = cc.EvalMult(cc.EvalMult(a, a), a)
        cc.EvalAddMany([a, b, a])
        cc.EvalMultMany([a, b])
        cc.EvalInnerProduct(a, b, 8)
        cc.EvalLinearWSum([a, b], [0.5, 0.25])
        found = rows(recording)[3:]
    assert [r["kind"] for r in found] == ["composite"] * 4
    assert {r["limbs_in"] for r in found} == {found[0]["limbs_out"]} == {4}


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_what_is_known_of_composites_ends_at_the_real_limbs(fhe: ModuleType, technique: str) -> None:
    cc, keys = context(fhe, technique, depth=9)
    cc.EvalSumKeyGen(keys.secretKey)
    series = [1.0 / (i + 1) for i in range(14)]
    with recorder.recorded(cc) as recording:
        a, b = encrypted(cc, keys), encrypted(cc, keys)
        cc.EvalLinearWSum([a, b, a], [1.0, 2.0, 3.0])
        cc.EvalMultMany([a, b, a, b, a])
        cc.ComposedEvalMult(a, b)
        cc.EvalInnerProduct(a, cc.MakeCKKSPackedPlaintext([1.0, 2.0]), 8)
        cc.EvalChebyshevSeries(a, series, -2, 2)
        cc.EvalLogistic(a, -4, 4, 27)
        cc.EvalPoly(a, series)
        cc.EvalPoly(a, series[:4])
    trace = checked(recording)
    whole = trace.view(composites=True)
    assert len(trace) > len(whole)
    # Nothing was left unexpanded: an expansion that ends elsewhere than the real result is not used.
    assert "composite" not in trace.view().count_by_kind()
    assert "chebyshev" not in trace.view().count_by_kind()


def test_a_sum_reads_just_the_keys_that_its_rows_name(fhe: ModuleType) -> None:
    cc, keys = context(fhe, slots=64)
    cc.EvalSumKeyGen(keys.secretKey)
    with recorder.recorded(cc) as recording:
        cc.EvalSum(encrypted(cc, keys), 32)
    used = {r["step"] for r in checked(recording).view().operations.to_pylist() if r["step"] is not None}
    assert used == {1, 2, 3, 4, 8, 12, 16}
    for missing in (None, 3, 16):
        fhe.CryptoContext.ClearEvalAutomorphismKeys()
        cc.EvalRotateKeyGen(keys.secretKey, sorted(used - {missing}))
        a = encrypted(cc, keys, [1.0] * 64)
        if missing is None:
            assert np.allclose(decrypted(cc, keys, cc.EvalSum(a, 32), 1), [32.0], atol=1e-3)
        else:
            with pytest.raises(RuntimeError):
                cc.EvalSum(a, 32)


@pytest.mark.parametrize(
    ("technique", "slots", "budget", "secret"),
    [
        ("FLEXIBLEAUTO", 64, [3, 2], "SPARSE_TERNARY"),
        ("FIXEDMANUAL", 512, [2, 2], "UNIFORM_TERNARY"),
        ("FLEXIBLEAUTOEXT", 8, [1, 1], "SPARSE_TERNARY"),
    ],
)
def test_a_bootstrap_reads_every_key_that_was_generated_for_it_and_no_other(
    fhe: ModuleType, technique: str, slots: int, budget: list[int], secret: str
) -> None:
    distribution = getattr(fhe, secret)
    depth = 2 + fhe.CryptoContext.GetBootstrapDepth(budget, distribution)
    cc, keys = context(fhe, technique, depth, slots, ScalingModSize=59, SecretKeyDist=distribution)
    fhe.CryptoContext.ClearEvalAutomorphismKeys()
    num_q = depth + 1 + (technique == "FLEXIBLEAUTOEXT")
    with recorder.recorded(cc) as recording:
        cc.EvalBootstrapSetup(levelBudget=budget, slots=slots)
        cc.EvalBootstrapKeyGen(keys.secretKey, slots)
        plain = cc.MakeCKKSPackedPlaintext([0.25] * slots, 1, num_q - 2, None, slots)
        fresh = cc.EvalBootstrap(cc.Encrypt(keys.publicKey, plain))
        assert np.allclose(decrypted(cc, keys, fresh, slots), 0.25, atol=1e-2)
    trace = checked(recording)
    called = trace.view(composites=True).operations.to_pylist()
    assert [(r["kind"], r["scope"]) for r in called[1:-1]] == [("bootstrap", "EvalBootstrap[0]")]
    expanded = trace.view()
    assert "bootstrap" not in expanded.count_by_kind()
    read = {int(key[4:]) for key in expanded.key_ids() if key.startswith("rot:")}
    generated = set(cc.GetExistingEvalAutomorphismKeyIndices(keys.secretKey.GetKeyTag()))
    assert read == generated - {2 * cc.GetRingDimension() - 1}
    assert recording.num_automorphism_keys == len(generated)


# Parameters.
@pytest.mark.parametrize("technique", TECHNIQUES)
@pytest.mark.parametrize(
    "more", [{}, {"NumLargeDigits": 1}, {"NumLargeDigits": 2}, {"ScalingModSize": 59}, {"KeySwitchTechnique": "BV"}]
)
@pytest.mark.parametrize("depth", [1, 4, 7])
def test_parameters_of_the_context_give_the_size_of_its_keys(
    fhe: ModuleType, technique: str, more: dict[str, Any], depth: int
) -> None:
    settings = {name: getattr(fhe, value) if isinstance(value, str) else value for name, value in more.items()}
    cc, keys = context(fhe, technique, depth, **settings)
    params = context_parameters(cc, fhe)
    real = len(fhe.Serialize(cc.GetEvalMultKeyVector(keys.publicKey.GetKeyTag()), fhe.BINARY))
    # A limb more or less would be 8 kB for each digit and polynomial; headers are well below.
    limbs = 2 * params.active_digits(params.num_q)
    assert 0 <= real - params.key_bytes() < limbs * 8192 // 2
    assert (params.depth, params.ring_dim, params.slots, params.dnum) == (depth, 1024, 16, params.dnum)
    assert params.scale_bits == more.get("ScalingModSize", 50)
    assert (
        params.scaling
        is Scaling[
            {"FLEXIBLEAUTO": "FLEXIBLE_AUTO", "FLEXIBLEAUTOEXT": "FLEXIBLE_AUTO_EXT"}.get(
                technique, technique.replace("FIXED", "FIXED_")
            )
        ]
    )


# The program is left alone.
def test_recording_keeps_no_ciphertext_alive(fhe: ModuleType) -> None:
    cc, keys = context(fhe)
    with recorder.recorded(cc) as recording:
        a = encrypted(cc, keys)
        watched = []
        for _ in range(20):
            a = cc.EvalAdd(a, a.Clone())
            watched.append(weakref.ref(a))
        gc.collect()
        assert sum(reference() is not None for reference in watched) == 1
        assert len(TAP.identities) <= 2
    assert len(rows(recording)) == 21


def test_a_sum_into_the_first_ciphertext_leaves_the_others_alone(fhe: ModuleType) -> None:
    cc, keys = context(fhe)
    with recorder.recorded(cc) as recording:
        terms = [encrypted(cc, keys, [float(i)]) for i in range(1, 6)]
        total = cc.EvalAddManyInPlace(terms)
        known = [recording._known(term).object_id for term in terms]
        values = [decrypted(cc, keys, term, 1)[0] for term in terms]
    assert total is terms[0]
    assert np.allclose(values, [15, 2, 3, 4, 5], atol=1e-6)
    assert [object_id < 5 for object_id in known] == [False, True, True, True, True]
    assert len(checked(recording).view()) == 5 + 4 + 5


def test_calls_from_several_threads_are_all_recorded(fhe: ModuleType) -> None:
    cc, keys = context(fhe)
    with recorder.recorded(cc) as recording:
        a = encrypted(cc, keys)
        threads = [threading.Thread(target=lambda: [cc.EvalAdd(a, a) for _ in range(50)]) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(rows(recording)) == 151


def test_a_second_recording_of_one_context_leaves_the_first_open(fhe: ModuleType) -> None:
    cc, keys = context(fhe)
    with recorder.recorded(cc) as outer:
        with recorder.recorded(cc) as inner:
            assert inner is outer
        encrypted(cc, keys)
    assert len(rows(outer)) == 1
