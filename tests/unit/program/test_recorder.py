"""The recorder on a stand-in for OpenFHE: what becomes a row, what does not, and that the program is left alone."""

from __future__ import annotations

import gc
import json
import threading
from collections import Counter
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import UsageError
from penstock.front.cli.verbs.record import command, split_options
from penstock.program.evaluator.circuits.openfhe.bootstrapping import BootstrapSetup, bootstrap, transform_stages
from penstock.program.evaluator.circuits.openfhe.series import evaluate_series
from penstock.program.evaluator.circuits.openfhe.sums import sum_slots
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.openfhe.recorder.calls import Form, context_call, parameter_names, positional
from penstock.program.openfhe.recorder.context import free_path
from penstock.program.openfhe.recorder.parameters import NotRecordable
from penstock.program.openfhe.recorder.tap import Tap
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.traces.inspect import problems
from penstock.scheme.traces.schema import TraceMeta

LIMBS = 5
Scheme = Enum("Scheme", {"CKKSRNS_SCHEME": 1, "BFVRNS_SCHEME": 2})


class Ciphertext:
    def __init__(self, context: Any, level: int = 0, degree: int = 1) -> None:
        self.context, self.level, self.degree = context, level, degree

    def GetLevel(self) -> int:
        return self.level

    def GetNoiseScaleDeg(self) -> int:
        return self.degree

    def NumberCiphertextElements(self) -> int:
        return 2

    def GetCryptoContext(self) -> Any:
        return self.context

    def Clone(self) -> Ciphertext:
        return Ciphertext(self.context, self.level, self.degree)

    def SetLevel(self, level: int) -> None:
        self.level = level

    def __add__(self, other: Ciphertext) -> Ciphertext:
        return Ciphertext(self.context, max(self.level, other.level), self.degree)


class Plaintext:
    def GetLevel(self) -> int:
        return 0

    def GetNoiseScaleDeg(self) -> int:
        return 1


class PrivateKey:
    def GetKeyTag(self) -> str:
        return "tag"


def make_context_class() -> Any:
    """A fresh class each time: what a test replaces in it cannot leak into another."""

    class CryptoContext:
        scheme = Scheme.CKKSRNS_SCHEME

        def getSchemeId(self) -> Scheme:
            return self.scheme

        def GetRingDimension(self) -> int:
            return 1024

        def GetBatchSize(self) -> int:
            return 16

        def Encrypt(self, key: Any, plaintext: Any) -> Ciphertext:
            return Ciphertext(self)

        def Decrypt(self, key: Any, ciphertext: Any) -> Plaintext:
            return Plaintext()

        def EvalAdd(self, a: Any, b: Any) -> Ciphertext:
            """EvalAdd(self: CryptoContext, ciphertext: Ciphertext, scalar: float) -> Ciphertext"""
            if a is None:
                raise TypeError("incompatible function arguments")
            first = a if isinstance(a, Ciphertext) else b
            return Ciphertext(self, first.level, first.degree)

        def EvalMult(self, a: Ciphertext, b: Any) -> Ciphertext:
            return Ciphertext(self, a.level, 2)

        def EvalAddInPlace(self, a: Ciphertext, b: Any) -> None:
            a.level = max(a.level, getattr(b, "level", 0))

        def Rescale(self, a: Ciphertext) -> Ciphertext:
            return Ciphertext(self, a.level + (a.degree == 2), 1)

        def EvalRotate(self, ciphertext: Ciphertext, index: int) -> Ciphertext:
            """EvalRotate(self: CryptoContext, ciphertext: Ciphertext, index: int) -> Ciphertext"""
            return ciphertext.Clone()

        def EvalAutomorphism(self, ciphertext: Ciphertext, index: int, keys: Any) -> Ciphertext:
            """EvalAutomorphism(self: CryptoContext, ciphertext: Ciphertext, i: int, evalKeyMap: Any) -> Ciphertext"""
            return ciphertext.Clone()

        def EvalSecret(self, ciphertext: Ciphertext) -> Ciphertext:
            """EvalSecret(self: CryptoContext, ciphertext: Ciphertext) -> Ciphertext"""
            return Ciphertext(self, ciphertext.level + 2, 1)

        def EvalRotateKeyGen(self, key: Any, steps: list[int]) -> None:
            pass

        @staticmethod
        def GetExistingEvalAutomorphismKeyIndices(tag: str) -> list[int]:
            return [5, 25]

    return CryptoContext


def serialized() -> str:
    def pointer(data: Any) -> dict[str, Any]:
        return {"ptr_wrapper": {"data": data}}

    primes = [pointer({"value0": {"cm": {"v": 2**bits - 1}}}) for bits in (60, 50, 50, 50, 50)]
    ring = {"elp": pointer({"p": primes}), "enp": pointer({"m": 50})}
    rlwe = {"value0": ring, "rw": 0, "mo": 1, "slv": 6}
    rns = {"value0": rlwe, "rs": 0, "ks": 2, "dnum": 3, "rws": 64}
    return json.dumps({"value0": pointer({"cc": pointer({"value0": rns})})})


@pytest.fixture
def fhe() -> Any:
    names = {
        "ScalingTechnique": Enum("ScalingTechnique", {"FIXEDMANUAL": 0, "COMPOSITESCALINGAUTO": 5}),
        "KeySwitchTechnique": Enum("KeySwitchTechnique", {"BV": 1, "HYBRID": 2}),
        "SecretKeyDist": Enum("SecretKeyDist", {"UNIFORM_TERNARY": 1}),
        "SecurityLevel": Enum("SecurityLevel", {"HEStd_128_classic": 0, "HEStd_NotSet": 6}),
    }
    return SimpleNamespace(
        CryptoContext=make_context_class(),
        Ciphertext=Ciphertext,
        Plaintext=Plaintext,
        PrivateKey=PrivateKey,
        JSON=None,
        Serialize=lambda cc, form: serialized(),
        **names,
    )


@pytest.fixture
def tap(fhe: Any) -> Any:
    tap = Tap()
    tap.open(fhe)
    yield tap
    tap.close()


@pytest.fixture
def recorded(tap: Tap, fhe: Any) -> Any:
    """A context, and what is recorded of it."""
    cc = fhe.CryptoContext()
    return cc, tap.start(cc)


def rows(recording: Any) -> list[dict[str, Any]]:
    trace = recording.trace()
    assert recording.problems == []
    assert list(problems(trace)) == []
    listed: list[dict[str, Any]] = trace.operations.to_pylist()
    return listed


def test_each_call_is_one_row_with_its_operands(recorded: Any) -> None:
    cc, recording = recorded
    plain = Plaintext()
    a, b = cc.Encrypt(None, plain), cc.Encrypt(None, plain)
    total = cc.EvalAdd(a, b)
    cc.EvalAdd(total, 2.0)
    cc.EvalAdd(plain, total)
    cc.Decrypt(None, total)
    found = rows(recording)
    assert [r["kind"] for r in found] == ["encrypt", "encrypt", "add", "add_scalar", "add_plain", "decrypt"]
    assert [r["operands"] for r in found] == [[], [], [0, 1], [2], [2], [2]]
    assert found[4]["plaintext"] is not None
    assert all(0 <= r["start_s"] <= r["end_s"] for r in found)


def test_an_operator_is_recorded_like_the_method(recorded: Any) -> None:
    cc, recording = recorded
    a = cc.Encrypt(None, None)
    a += a
    a = a + a
    assert [r["operands"] for r in rows(recording)] == [[], [0, 0], [1, 1]]


def test_a_call_in_place_gives_the_ciphertext_another_object(recorded: Any) -> None:
    cc, recording = recorded
    a = cc.Encrypt(None, None)
    cc.EvalAddInPlace(a, 1.0)
    cc.EvalAddInPlace(a, a)
    assert [(r["operands"], r["output"]) for r in rows(recording)] == [([], 0), ([0], 1), ([1, 1], 2)]


def test_a_clone_is_the_same_object_until_it_is_changed(recorded: Any) -> None:
    cc, recording = recorded
    a = cc.Encrypt(None, None)
    copy = a.Clone()
    cc.EvalAdd(copy, a)
    cc.EvalAddInPlace(copy, 1.0)
    cc.EvalAdd(copy, a)
    assert [r["operands"] for r in rows(recording)] == [[], [0, 0], [0], [2, 0]]


def test_a_ciphertext_from_elsewhere_is_an_input_in_the_state_before_the_call(recorded: Any) -> None:
    cc, recording = recorded
    loaded = Ciphertext(cc, level=1)
    cc.EvalAddInPlace(loaded, Ciphertext(cc, level=3))
    trace = recording.trace()
    assert trace.objects["name"].to_pylist()[:2] == ["input[0]", "input[1]"]
    assert trace.objects["limbs"].to_pylist() == [LIMBS - 1, LIMBS - 3, LIMBS - 3]
    assert any("2 ciphertexts came from outside" in note for note in trace.meta.notes)


def test_a_ciphertext_that_was_edited_by_hand_is_met_as_new(recorded: Any) -> None:
    cc, recording = recorded
    a = cc.Encrypt(None, None)
    a.SetLevel(2)
    cc.EvalAdd(a, 1.0)
    assert rows(recording)[1]["operands"] != [0]
    assert rows(recording)[1]["limbs_in"] == LIMBS - 2


def test_a_rescale_that_changes_nothing_is_no_operation(recorded: Any) -> None:
    cc, recording = recorded
    a = cc.Encrypt(None, None)
    same = cc.Rescale(a)
    product = cc.EvalMult(same, same)
    cc.Rescale(product)
    found = rows(recording)
    assert [r["kind"] for r in found] == ["encrypt", "mult", "rescale"]
    assert found[1]["operands"] == [0, 0]
    assert (found[2]["limbs_in"], found[2]["limbs_out"]) == (LIMBS, LIMBS - 1)


def test_a_method_that_no_table_names_is_a_composite_in_its_own_scope(recorded: Any) -> None:
    cc, recording = recorded
    a = cc.Encrypt(None, None)
    cc.EvalSecret(a)
    cc.EvalSecret(a)
    found = rows(recording)[1:]
    assert [(r["kind"], r["origin"], r["scope"]) for r in found] == [
        ("composite", "composite", "EvalSecret[0]"),
        ("composite", "composite", "EvalSecret[1]"),
    ]
    assert (found[0]["limbs_in"], found[0]["limbs_out"]) == (LIMBS, LIMBS - 2)


def test_arguments_by_name_mean_what_their_names_say(recorded: Any) -> None:
    cc, recording = recorded
    cc.EvalRotate(index=-1, ciphertext=cc.Encrypt(None, None))
    rotation = rows(recording)[1]
    assert (rotation["step"], rotation["key"]) == (-1, f"rot:{pow(5, 511, 2048)}")


def test_steps_beyond_the_slots_are_those_that_they_come_to(recorded: Any) -> None:
    cc, recording = recorded
    a = cc.Encrypt(None, None)
    for step in (512 + 3, -3 * 512 - 1, 512):
        cc.EvalRotate(a, step)
    assert [(row["step"], row["key"]) for row in rows(recording)[1:]] == [
        (3, "rot:125"),
        (511, f"rot:{pow(5, 511, 2048)}"),
        (512, "rot:1"),
    ]


def test_an_automorphism_is_a_rotation_a_conjugation_or_both_in_one_call(recorded: Any) -> None:
    cc, recording = recorded
    a = cc.Encrypt(None, None)
    for element in (25, 2047, 3):
        cc.EvalAutomorphism(a, element, {})
    assert [(row["kind"], row["key"], row["step"]) for row in rows(recording)[1:]] == [
        ("rotate", "rot:25", 2),
        ("conjugate", "conj", None),
        ("composite", None, None),
    ]


def test_a_call_that_fails_is_no_row_and_fails_as_before(recorded: Any) -> None:
    cc, recording = recorded
    with pytest.raises(TypeError, match="incompatible function arguments"):
        cc.EvalAdd(None, 1.0)
    assert rows(recording) == []


def test_what_the_recorder_cannot_read_never_reaches_the_program(recorded: Any) -> None:
    cc, recording = recorded
    a = cc.Encrypt(None, None)
    broken = Ciphertext(cc, level="none")  # type: ignore[arg-type]
    result = cc.EvalMult(a, broken)
    assert isinstance(result, Ciphertext)
    assert len(recording.problems) == 1
    assert "EvalMult" in recording.problems[0]
    assert any("could not be recorded" in note for note in recording.trace().meta.notes)


def test_dead_ciphertexts_are_forgotten(tap: Tap, recorded: Any) -> None:
    cc, _ = recorded
    a = cc.Encrypt(None, None)
    for _ in range(50):
        a = cc.EvalAdd(a, 1.0)
    gc.collect()
    assert len(tap.identities) == 1


def test_threads_lose_no_operation(recorded: Any) -> None:
    cc, recording = recorded
    a = cc.Encrypt(None, None)

    def work() -> None:
        for _ in range(200):
            cc.EvalAdd(a, a)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rows(recording)) == 1 + 4 * 200


def test_closing_puts_the_methods_back(fhe: Any) -> None:
    before = {**vars(fhe.CryptoContext)}, {**vars(Ciphertext)}
    tap = Tap()
    tap.open(fhe)
    assert vars(fhe.CryptoContext)["EvalAdd"] is not before[0]["EvalAdd"]
    tap.add_method("save_trace", lambda cc: None)
    tap.close()
    assert dict(vars(fhe.CryptoContext)) == before[0]
    assert dict(vars(Ciphertext)) == before[1]


def test_a_context_that_nobody_asked_for_is_not_recorded(tap: Tap, fhe: Any, recorded: Any) -> None:
    _, recording = recorded
    other = fhe.CryptoContext()
    other.EvalAdd(other.Encrypt(None, None), 1.0)
    assert rows(recording) == []
    assert len(tap.recordings) == 1


def test_a_stopped_recording_takes_no_more_operations(tap: Tap, fhe: Any, recorded: Any) -> None:
    cc, recording = recorded
    a = cc.Encrypt(None, None)
    other = tap.start(fhe.CryptoContext())
    tap.stop(cc)
    cc.EvalAdd(a, a)
    assert isinstance(a + a, Ciphertext)
    assert len(rows(recording)) == 1
    assert other.num_operations == 0
    assert tap.is_open


def test_a_bfv_context_is_refused_by_name_and_passed_through_in_a_script(tap: Tap, fhe: Any) -> None:
    cc = fhe.CryptoContext()
    cc.scheme = Scheme.BFVRNS_SCHEME
    with pytest.raises(NotRecordable, match="BFV context is not recorded: this version records CKKS only"):
        tap.start(cc)
    refused: list[NotRecordable] = []
    tap.everything, tap.on_refused = True, refused.append
    assert isinstance(cc.EvalAdd(cc.Encrypt(None, None), 1.0), Ciphertext)
    assert len(refused) == 1


def test_what_is_no_context_is_refused(tap: Tap) -> None:
    with pytest.raises(UsageError, match="takes OpenFHE's CryptoContext, not int"):
        tap.start(3)


def test_keys_that_the_program_makes_are_counted(recorded: Any) -> None:
    cc, recording = recorded
    cc.EvalRotateKeyGen(PrivateKey(), [1, 2])
    cc.EvalRotateKeyGen(PrivateKey(), [1])
    assert recording.num_automorphism_keys == 2


def test_parameters_are_the_contexts_own(recorded: Any) -> None:
    params = recorded[1].params
    assert (params.q_bits, params.dnum, params.scaling) == ((60, 50, 50, 50, 50), 3, Scaling.FIXED_MANUAL)
    assert params.num_p == 2
    assert params.security_bits == 0


# Names and arguments.
def test_setters_getters_and_key_switching_material_are_no_operations() -> None:
    def method(*_: Any) -> None:
        """F(self: CryptoContext, ciphertext: Ciphertext) -> Ciphertext"""

    assert context_call("SetThing", method) is None
    assert context_call("GetThing", method) is None
    known = context_call("EvalSumRowsKeyGen", method)
    assert known is not None
    assert known.form is Form.KEYS
    boot = context_call("EvalFunctionalBootstrap", method)
    assert boot is not None
    assert boot.kinds == (OpKind.BOOTSTRAP,)


def test_parameter_names_survive_types_with_commas_and_colons() -> None:
    signature = (
        "1. F(self: CC, func: Callable[[float], int | str], a: Annotated[ArrayLike, float] = <Kind.X: 2>) -> Ciphertext"
    )
    assert parameter_names(signature) == ["func", "a"]
    assert positional([["x"], ["a", "b", "c"]], (1,), {"b": 2}) == (1, 2)


def test_penstocks_options_are_found_after_the_script_and_end_at_two_dashes() -> None:
    assert split_options(["-x", "--output=t.parquet", "--force"]) == ({"output": "t.parquet", "force": "yes"}, ("-x",))
    assert split_options(["-foo", "--", "--force"]) == ({}, ("-foo", "--force"))
    # Before the script it protects everything behind it, a second one included.
    for given, kept in (
        (["-o", "t.parquet", "--", "s.py", "--force", "-o", "q"], ("--force", "-o", "q")),
        (["--", "s.py", "-q", "--", "-x"], ("-q", "--", "-x")),
        (["--", "s.py"], ()),
    ):
        params = command.make_context("record", list(given)).params
        assert (str(params["script"]), split_options(params["args"])) == ("s.py", ({}, kept))
    params = command.make_context("record", ["-q", "s.py", "--", "--force"]).params
    assert split_options(params["args"]) == ({}, ("--force",))
    with pytest.raises(UsageError, match="needs a file name"):
        split_options(["-o"])


def test_a_free_path_is_numbered(tmp_path: Any) -> None:
    path = tmp_path / "a.trace.parquet"
    assert free_path(path) == path
    path.touch()
    (tmp_path / "a-2.trace.parquet").touch()
    assert free_path(path) == tmp_path / "a-3.trace.parquet"


# Expansions, against what a debugger counted inside OpenFHE 1.6.1 (breakpoints on the library's own functions).
def evaluator(scaling: Scaling, limbs: int, secret: str = "uniform-ternary", ring_dim: int = 2048) -> SymbolicEvaluator:
    params = CkksParameters(
        name="insecure",
        ring_dim=ring_dim,
        slots=ring_dim // 2,
        q_bits=(60,) + (50,) * (limbs - 1),
        p_bits=(60,) * 4,
        dnum=3,
        scale_bits=50,
        scaling=scaling,
        secret=secret,
        word_bits=64,
        key_form=KeyForm.FULL,
        library="openfhe",
        security_bits=0,
        security_note="insecure",
    )
    return SymbolicEvaluator(params)


def counted(ev: SymbolicEvaluator) -> dict[str, int]:
    trace = ev.builder.finish(TraceMeta(workload="w", params={}, reading="trace"))
    kinds = Counter(trace.operations["kind"].to_pylist())
    switching = ("rotate", "conjugate", "mult", "square")
    own = sum(kinds[kind] for kind in switching)
    hoisted = kinds["rotate_hoisted"] + kinds["rotate_hoisted_extended"] + kinds["rotate_extended"]
    return {
        "products": kinds["mult"], "squares": kinds["square"], "key_switches": own + hoisted,
        "decompositions": own + kinds["decompose"] + kinds["decompose_extended"],
        "rescales": kinds["rescale"] + sum(trace.operations["implied_rescales"].to_pylist()),
        "scalar_products": kinds["mult_scalar"] + sum(trace.operations["implied_scalar_mults"].to_pylist()),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("scaling", "chebyshev", "degree", "counts", "end"),
    [
        (Scaling.FIXED_MANUAL, True, 2, (0, 1, 3, 3), (10, 1)),
        (Scaling.FIXED_MANUAL, True, 13, (5, 3, 16, 8), (8, 1)),
        (Scaling.FLEXIBLE_AUTO, True, 3, (1, 1, 10, 8), (10, 2)),
        (Scaling.FLEXIBLE_AUTO, True, 27, (6, 4, 52, 37), (8, 2)),
        (Scaling.FLEXIBLE_AUTO, True, 44, (8, 5, 79, 59), (7, 2)),
        (Scaling.FLEXIBLE_AUTO, True, 119, (13, 7, 169, 137), (6, 2)),
        (Scaling.FLEXIBLE_AUTO, False, 3, (1, 1, 6, 6), (11, 2)),
        (Scaling.FLEXIBLE_AUTO, False, 8, (3, 2, 18, 13), (10, 2)),
        (Scaling.FLEXIBLE_AUTO, False, 16, (5, 3, 34, 25), (9, 2)),
    ],
)
def test_a_series_takes_what_the_library_takes(
    scaling: Scaling, chebyshev: bool, degree: int, counts: tuple[int, ...], end: tuple[int, int]
) -> None:
    ev = evaluator(scaling, 13)
    series = [1.0 / (i + 1) for i in range(degree + 1)]
    result = evaluate_series(ev, ev.fresh(13), series, (-2.0, 2.0) if chebyshev else None)
    found = counted(ev)
    assert (found["products"], found["squares"], found["rescales"], found["scalar_products"]) == counts
    assert (result.state.limbs, result.state.degree) == end


@pytest.mark.parametrize(
    ("count", "key_switches", "decompositions"), [(2, 1, 1), (4, 3, 1), (8, 4, 2), (16, 6, 2), (32, 7, 3), (64, 9, 3)]
)
def test_a_sum_over_slots_takes_what_the_library_takes(count: int, key_switches: int, decompositions: int) -> None:
    ev = evaluator(Scaling.FIXED_MANUAL, 3)
    sum_slots(ev, ev.fresh(3), count)
    found = counted(ev)
    assert (found["key_switches"], found["decompositions"]) == (key_switches, decompositions)


@pytest.mark.parametrize(
    ("secret", "scaling", "limbs", "slots", "budget", "baby", "ring_dim", "counts"),
    [
        ("sparse-ternary", Scaling.FLEXIBLE_AUTO, 19, 512, (3, 3), (0, 0), 2048, (69, 33, 8, 8, 88, 66)),
        ("uniform-ternary", Scaling.FLEXIBLE_AUTO, 23, 512, (3, 3), (0, 0), 2048, (78, 42, 13, 12, 161, 125)),
        ("sparse-ternary", Scaling.FIXED_MANUAL, 19, 512, (3, 3), (0, 0), 2048, (69, 33, 8, 8, 30, 46)),
        ("uniform-ternary", Scaling.FLEXIBLE_AUTO, 21, 1024, (2, 2), (0, 0), 2048, (125, 69, 26, 24, 313, 248)),
        ("sparse-ternary", Scaling.FLEXIBLE_AUTO, 19, 64, (4, 2), (0, 0), 2048, (56, 34, 8, 8, 88, 66)),
        ("sparse-ternary", Scaling.FLEXIBLE_AUTO, 15, 512, (1, 1), (0, 0), 1024, (173, 49, 16, 16, 165, 130)),
        ("sparse-ternary", Scaling.FLEXIBLE_AUTO, 21, 256, (4, 4), (4, 8), 1024, (53, 37, 8, 8, 90, 66)),
    ],
)
def test_a_bootstrap_takes_what_the_library_takes(
    secret: str,
    scaling: Scaling,
    limbs: int,
    slots: int,
    budget: tuple[int, int],
    baby: tuple[int, int],
    ring_dim: int,
    counts: tuple[int, ...],
) -> None:
    ev = evaluator(scaling, limbs, secret, ring_dim)
    result = bootstrap(ev, ev.fresh(2), BootstrapSetup(slots, budget, baby))
    assert (
        tuple(
            counted(ev)[name]
            for name in ("key_switches", "decompositions", "products", "squares", "rescales", "scalar_products")
        )
        == counts
    )
    assert (result.state.limbs, result.state.degree) == (4, 2)


def test_the_stages_of_a_transform_cover_every_layer() -> None:
    for slots, budget in ((512, 3), (1024, 4), (64, 4), (2**15, 4), (8, 2), (2, 1)):
        for decode in (False, True):
            stages = transform_stages(slots, budget, 0, decode=decode)
            assert sum(s.offset * s.scale for s in stages) == slots - 1
            assert len(stages) == budget
