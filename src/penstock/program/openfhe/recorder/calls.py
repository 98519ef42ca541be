"""The methods of OpenFHE's CryptoContext and Ciphertext in the trace's vocabulary.

A `RecordedCall` is found by the method's name. Methods that no table names but that take and give ciphertexts (the
signature says so) are composites: one row in a scope of the method's name.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from enum import Enum

from penstock.program.openfhe.types import Arguments, Ciphertext, Numeric
from penstock.scheme.operations import OpKind


class Form(Enum):
    """The arguments of a call, which decide how its row and its instruction are made."""

    PAIR = "two operands, at least one a ciphertext"
    ONE = "one ciphertext"
    ROTATE = "ciphertext and step"
    DECOMPOSE = "ciphertext to digits"
    ROTATE_HOISTED = "ciphertext, step and digits"
    AUTOMORPHISM = "ciphertext, Galois element and keys"
    DROP = "fewer limbs"
    RELINEARIZE = "three polynomials to two"
    KEY_SWITCH = "ciphertext and key"
    ENCRYPT = "key and plaintext"
    DECRYPT = "key and ciphertext"
    COMPOSITE = "anything with ciphertexts"
    CLONE = "a copy"
    FORGET = "the ciphertext is edited by hand"
    KEYS = "evaluation keys are made"
    BOOTSTRAP_SETUP = "the shape of bootstrapping"

    @property
    def handler(self) -> str:
        """The method that takes calls of this form, in `Recording` and in `Packaging`: `_pair`, `_one`, …"""
        return f"_{self.name.lower()}"


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One method. `kinds`: of a pair with a ciphertext, a plaintext and a number; otherwise just one."""

    name: str
    form: Form
    kinds: tuple[OpKind, ...] = ()
    in_place: bool = False
    mutable: bool = False
    """Operands may be rescaled in place before the operation."""
    copies_by_zero: bool = False
    """By 0 it gives a copy, without a key; by other multiples of N/2 it switches keys like any rotation."""


@dataclass(slots=True)
class Finished:
    """A call that the script made: its arguments, its result, and when it began and ended."""

    call: RecordedCall
    args: Arguments
    result: object
    start: float
    end: float

    @property
    def target(self) -> Ciphertext:
        """What holds the result; of a call in place its first argument."""
        return self.args[0] if self.result is None else self.result


_ADD = (OpKind.ADD, OpKind.ADD_PLAIN, OpKind.ADD_SCALAR)
_SUB = (OpKind.SUB, OpKind.SUB_PLAIN, OpKind.SUB_SCALAR)
_MULT = (OpKind.MULT, OpKind.MULT_PLAIN, OpKind.MULT_SCALAR)
_NO_RELIN = (OpKind.MULT_NO_RELIN,)


def _pairs() -> list[RecordedCall]:
    ways = ("", "InPlace", "InPlaceNoCheck", "NoCheck", "Mutable", "MutableInPlace")
    calls = [
        RecordedCall(stem + way, Form.PAIR, kinds, in_place="InPlace" in way, mutable="Mutable" in way)
        for stem, kinds in (("EvalAdd", _ADD), ("EvalSub", _SUB), ("EvalMult", _MULT))
        for way in ways
    ]
    calls += [RecordedCall(name, Form.PAIR, _NO_RELIN) for name in ("EvalMultNoRelin", "EvalMultNoRelinNoCheck")]
    return [*calls, RecordedCall("EvalMultAndRelinearize", Form.PAIR, _MULT)]


def _ones() -> list[RecordedCall]:
    calls = []
    for stem, form, kind in (
        ("EvalNegate", Form.ONE, OpKind.NEGATE),
        ("EvalSquare", Form.ONE, OpKind.SQUARE),
        ("Relinearize", Form.RELINEARIZE, OpKind.RELINEARIZE),
        ("KeySwitch", Form.KEY_SWITCH, OpKind.RELINEARIZE),
        ("Rescale", Form.DROP, OpKind.RESCALE),
        ("ModReduce", Form.DROP, OpKind.RESCALE),
        ("LevelReduce", Form.DROP, OpKind.MOD_DROP),
        ("Compress", Form.DROP, OpKind.MOD_DROP),
    ):
        calls += [RecordedCall(stem, form, (kind,)), RecordedCall(stem + "InPlace", form, (kind,), in_place=True)]
    calls.append(RecordedCall("EvalSquareMutable", Form.ONE, (OpKind.SQUARE,), mutable=True))
    return calls


_CONTEXT = [
    *_pairs(),
    *_ones(),
    RecordedCall("EvalRotate", Form.ROTATE, (OpKind.ROTATE,)),
    RecordedCall("EvalAtIndex", Form.ROTATE, (OpKind.ROTATE,), copies_by_zero=True),
    RecordedCall("EvalFastRotationPrecompute", Form.DECOMPOSE, (OpKind.DECOMPOSE,)),
    RecordedCall("EvalFastRotation", Form.ROTATE_HOISTED, (OpKind.ROTATE_HOISTED,), copies_by_zero=True),
    RecordedCall("EvalAutomorphism", Form.AUTOMORPHISM, (OpKind.ROTATE,)),
    RecordedCall("Encrypt", Form.ENCRYPT, (OpKind.ENCRYPT,)),
    RecordedCall("Decrypt", Form.DECRYPT, (OpKind.DECRYPT,)),
    RecordedCall("MultipartyDecryptFusion", Form.DECRYPT, (OpKind.DECRYPT,)),
    RecordedCall("EvalAddManyInPlace", Form.COMPOSITE, (OpKind.COMPOSITE,), in_place=True),
    RecordedCall("EvalBootstrapSetup", Form.BOOTSTRAP_SETUP),
]
CONTEXT_CALLS = {call.name: call for call in _CONTEXT}

_CIPHERTEXT = [
    # The 1.6.1 wheel has only `+`; a build that has the others is recorded too.
    *(
        RecordedCall(f"__{prefix}{stem}__", Form.PAIR, kinds, in_place=prefix == "i")
        for stem, kinds in (("add", _ADD), ("sub", _SUB), ("mul", _MULT))
        for prefix in ("", "r", "i")
    ),
    RecordedCall("__neg__", Form.ONE, (OpKind.NEGATE,)),
    RecordedCall("Clone", Form.CLONE),
    *(
        RecordedCall(name, Form.FORGET)
        for name in ("SetElements", "SetElementsMove", "RemoveElement", "SetLevel", "SetNoiseScaleDeg")
    ),
]
CIPHERTEXT_CALLS = {call.name: call for call in _CIPHERTEXT}

_COMPOSITE_KINDS = {
    OpKind.BOOTSTRAP: re.compile(r"Boot|FBT"),
    OpKind.CHEBYSHEV: re.compile(r"^Eval(Cheb\w*|Logistic|Sin|Cos|Divide)$"),
}
_GIVES = re.compile(r"-> .*(Ciphertext|seriesPowers|SeriesPowers)")
_TAKES = re.compile(r"\(self: .*(Ciphertext|seriesPowers|SeriesPowers).*\) ->")


def context_call(name: str, method: object) -> RecordedCall | None:
    """The call behind method `name` of CryptoContext; `None` for methods that are not recorded (getters, set-up)."""
    known = CONTEXT_CALLS.get(name)
    if known is not None:
        return known
    if name.startswith(("Get", "Set", "_")) or isinstance(method, staticmethod):
        return None
    if "KeyGen" in name or "KeysGen" in name:
        return RecordedCall(name, Form.KEYS) if name.startswith(("Eval", "MultiEval")) else None
    if _is_of_ciphertexts(method.__doc__ or ""):
        kind = next((k for k, pattern in _COMPOSITE_KINDS.items() if pattern.search(name)), OpKind.COMPOSITE)
        return RecordedCall(name, Form.COMPOSITE, (kind,))
    return None


@functools.cache
def _is_of_ciphertexts(doc: str) -> bool:
    return any(_GIVES.search(line) and _TAKES.search(line) for line in _signatures(doc))


def _signatures(doc: str) -> list[str]:
    """The lines of pybind's docstring that are signatures."""
    return [line for line in doc.splitlines() if " -> " in line and "(" in line]


@functools.cache
def names_of(doc: str) -> list[list[str]]:
    """Names of the parameters in each signature of a docstring of pybind."""
    return [parameter_names(signature) for signature in _signatures(doc)]


def parameter_names(signature: str) -> list[str]:
    """Names of the parameters in a signature of pybind, `self` left out.

    >>> parameter_names("2. F(self: CC, a: Sequence[int, str], b: float = 1.0) -> None")
    ['a', 'b']
    """
    inside = signature[signature.index("(") + 1 : signature.rindex(") ->")]
    shorter = re.sub(r"\[[^\[\]]*\]", "", inside)
    while shorter != inside:
        inside, shorter = shorter, re.sub(r"\[[^\[\]]*\]", "", shorter)
    return [name for name in re.findall(r"(?:^|, )(\w+):", inside) if name != "self"]


OMITTED: object = object()
"""Stands for an argument that was left out before one that was named."""


def positional(names: list[list[str]], args: Arguments, kwargs: dict[str, Numeric]) -> Arguments:
    """The arguments in the order of the first signature that has all the names; the last one given ends them.

    >>> positional([["a", "b", "c"]], (1,), {"c": 3, "b": 2})
    (1, 2, 3)
    """
    for signature in names:
        rest = signature[len(args) :]
        if set(kwargs) <= set(rest):
            last = max(rest.index(name) for name in kwargs) + 1
            return args + tuple(kwargs.get(name, OMITTED) for name in rest[:last])
    return args + tuple(kwargs.values())
