"""Pieces of recorded packages without OpenFHE: marks, names, digests, the thread that writes constants."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.program.openfhe.recorder.behind import Behind
from penstock.program.openfhe.recorder.capture import Capture
from penstock.program.openfhe.recorder.decrypted import DecryptedFloat, is_decrypted, marked
from penstock.program.openfhe.recorder.emission import COMPOSITES, CallBuilder
from penstock.program.openfhe.recorder.identity import Identities
from penstock.program.openfhe.recorder.names import Names, name_of, stored_name
from penstock.program.openfhe.recorder.oblivious import compare
from penstock.program.openfhe.recorder.packagings import Packagings
from penstock.program.openfhe.recorder.plaintexts import Encoded, as_array, as_vector
from penstock.program.openfhe.recorder.refusals import NotPackaged, Refused
from penstock.program.package.capture import DigestSink
from penstock.program.package.content import ConstantsInMemory, Verb


@pytest.mark.parametrize(
    "computed",
    [
        lambda x: x + 1,
        lambda x: 2 - x,
        lambda x: 3.0 * x / 2,
        lambda x: x**2,
        lambda x: -abs(x),
        lambda x: [0.0, x],
        lambda x: x * 1j,
        lambda x: np.exp(marked(np.array([float(x)]))) + 1,
    ],
)
def test_what_is_computed_of_a_decrypted_number_is_marked(computed: Any) -> None:
    (x,) = marked([0.5])
    assert is_decrypted(computed(x))
    assert not is_decrypted(computed(0.5)) or isinstance(computed(0.5), np.ndarray)


def test_a_marked_number_is_the_number() -> None:
    x = marked(0.25)
    assert (repr(x), f"{x:.3f}", hash(x), x == 0.25) == ("0.25", "0.250", hash(0.25), True)
    assert type(pickle.loads(pickle.dumps(x))) is float
    assert isinstance(copy.deepcopy(x), DecryptedFloat)
    assert type(pickle.loads(pickle.dumps(marked([0.5])))) is list
    assert isinstance(x + 1, DecryptedFloat)


def here() -> str | None:
    return stored_name(sys._getframe(1))


def through() -> str | None:
    return here()


def test_a_result_has_the_name_of_its_variable() -> None:
    first = here()
    second = through()
    listed = [here()]
    held: dict[str, Any] = {}
    held["key"] = here()
    assert (first, second) == ("first", "second")
    assert listed == [None]
    assert held["key"] is None


def test_a_parameter_has_the_name_of_the_callers_variable() -> None:
    def shown(ciphertext: object) -> str | None:
        return name_of(ciphertext, sys._getframe())

    score = object()
    assert shown(score) == "score"
    assert shown(object()) == "ciphertext"


def test_names_are_numbered() -> None:
    names = Names()
    assert [names.free(each, "input") for each in ("x", "x", None, None, "y")] == [
        "x",
        "x[1]",
        "input[0]",
        "input[1]",
        "y",
    ]


def test_lists_of_real_numbers_are_converted_once() -> None:
    assert as_array([1, 2.5]).tolist() == [1.0, 2.5]
    given = [1 + 1j]
    assert as_array(given) is given
    assert as_vector(given, is_complex=False).tolist() == [1.0]
    assert as_vector(given, is_complex=True).tolist() == [1 + 1j]


def test_constants_written_behind_have_the_numbers_of_the_other_sink() -> None:
    held = ConstantsInMemory()
    vectors = [np.array([float(k % 3), 1.0]) for k in range(300)]
    with Behind(held) as sink:
        assert [sink.add(each) for each in vectors] == list(range(300))
        assert sink.settled() == [k % 3 for k in range(300)]
    assert len(held) == 3
    assert "penstock-constants" not in {each.name for each in threading.enumerate()}


def test_a_constant_that_cannot_be_written_is_told() -> None:
    class Full:
        def add(self, values: Any) -> int:
            raise OSError("the disk is full")

    with Behind(Full()) as sink:
        sink.add(np.zeros(1))
        with pytest.raises(PenstockError, match="the disk is full"):
            sink.settled()
        with pytest.raises(PenstockError, match="the disk is full"):
            sink.add(np.zeros(1))


def test_equal_constants_have_one_digest() -> None:
    sink = DigestSink()
    assert [sink.add(np.array(each)) for each in ([1.0, 0.0], [1.0], [2.0])] == [0, 0, 1]
    assert len(set(sink.digests.values())) == 2


def entry(place: str, **more: Any) -> dict[str, Any]:
    return {"call": ["add", [0, 1]], "place": place, "constant": [], "number": "0j", **more}


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ([entry("a"), entry("b", number="1j")], r"b: not oblivious: its number differs in a second run \(0j and 1j\)"),
        ([entry("a"), entry("b", constant=["ff"])], "b: not oblivious: its constant differs in a second run;"),
        ([entry("a")], "b: not oblivious: only one of two runs makes the call"),
        ([entry("a"), entry("b"), entry("c")], "c: not oblivious: only one of two runs makes the call"),
        ([entry("a", call=["sub", [0, 1]]), entry("b")], "a: not oblivious: its call differs"),
    ],
)
def test_the_first_difference_of_two_runs_is_named(second: Any, says: str) -> None:
    compare([entry("a"), entry("b")], [entry("elsewhere"), entry("b")])
    with pytest.raises(NotPackaged, match=says):
        compare([entry("a"), entry("b")], second)


class Emitted(CallBuilder):
    """Takes the instructions of a call; values have numbers from 10 on."""

    def __init__(self, *, automatic: bool) -> None:
        recording: Any = SimpleNamespace(params=SimpleNamespace(scaling=SimpleNamespace(automatic=automatic)))
        super().__init__(ConstantsInMemory(), recording)
        self.steps: list[tuple[Verb, list[int]]] = []

    def add(self, verb: Verb, operands: Sequence[int] = (), **_: Any) -> int:
        self.steps.append((verb, list(operands)))
        return 9 + len(self.steps)


def emitted(name: str, operands: int, *, automatic: bool = True) -> list[tuple[Verb, list[int]]]:
    to = Emitted(automatic=automatic)
    assert COMPOSITES[name](to, (), range(operands), None) == 9 + len(to.steps)
    return to.steps


def test_many_operands_are_combined_as_the_library_combines_them() -> None:
    assert emitted("EvalAddMany", 5) == [
        (Verb.ADD, [0, 1]), (Verb.ADD, [2, 3]), (Verb.ADD, [4, 10]), (Verb.ADD, [11, 12]),
    ]  # fmt: skip
    assert emitted("EvalAddManyInPlace", 4) == [(Verb.ADD, [0, 1]), (Verb.ADD, [10, 2]), (Verb.ADD, [11, 3])]
    assert emitted("EvalMultMany", 3) == [(Verb.MULT, [0, 1]), (Verb.MULT, [2, 10])]
    assert emitted("EvalMultMany", 3, automatic=False) == [
        (Verb.MULT, [0, 1]), (Verb.RESCALE, [10]), (Verb.MULT, [2, 11]), (Verb.RESCALE, [12]),
    ]  # fmt: skip


def test_a_sum_of_slots_rotates_by_digits_to_the_base_of_four() -> None:
    def summed(count: int) -> tuple[int, list[Verb]]:
        to = Emitted(automatic=True)
        total = COMPOSITES["EvalSum"](to, (None, count), [0], None)
        return total, [verb for verb, _ in to.steps]

    by_one = [Verb.ROTATE, Verb.ADD]
    by_three = [Verb.DECOMPOSE, *3 * [Verb.ROTATE_HOISTED], *3 * [Verb.ADD]]
    assert summed(1) == (0, [])
    assert summed(2) == (11, by_one)
    assert summed(4) == (16, by_three)
    assert summed(8) == (18, by_three + by_one)
    for count in (0, -2, 3, 6):
        with pytest.raises(Refused, match=f"a sum over {count} slots has unknown steps"):
            summed(count)


class Plaintext:
    pass


def test_a_second_run_encrypts_other_values_of_each_plaintext_whose_values_are_known() -> None:
    def make(cc: object, values: Any, degree: int, level: int, params: None, slots: int) -> tuple[Any, ...]:
        return (list(values), degree, level, slots)

    known, edited, decrypted, unknown = (Plaintext() for _ in range(4))
    packaging: Any = SimpleNamespace(plaintexts=Identities(), num_q=5)
    packaging.plaintexts.set(known, Encoded([0.25, 0.75], 3, 1, 8))
    packaging.plaintexts.set(edited, Encoded(None, 3, 1, 8))
    packaging.plaintexts.set(decrypted, Encoded([0.25, 0.75], 3, 1, 8, decrypted=True))
    fhe: Any = SimpleNamespace(CryptoContext=SimpleNamespace(MakeCKKSPackedPlaintext=make))
    capture = Capture(SimpleNamespace(), fhe)  # type: ignore[arg-type]
    capture.add(packaging)
    values, *rest = capture.other(None, known)
    assert rest == [1, 2, 8]
    assert values != [0.25, 0.75]
    for each in (edited, decrypted, unknown):
        assert capture.other(None, each) is each


def test_only_an_output_is_shortened_in_the_package() -> None:
    shortened: list[tuple[int, int]] = []
    owner = SimpleNamespace(builder=SimpleNamespace(shorten=lambda *args: shortened.append(args)))
    packagings = Packagings.__new__(Packagings)
    packagings.shorten(Encoded([0.5], 3, 1, 8), 4)
    packagings.shorten(Encoded([0.5], 3, 1, 8, owner=owner), 4)
    assert shortened == []
    for length in (4, 0, 20):
        packagings.shorten(Encoded(None, 3, 1, 8, owner=owner, output=0), length)
    assert shortened == [(0, 4), (0, 1), (0, 8)]
