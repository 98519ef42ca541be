"""The primitives that can be measured: names, inputs, and numbers of limbs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Primitive:
    """One row of the list."""

    name: str
    kind: OpKind | None
    """Its kind in traces; `None` where traces have none (encode, key load)."""
    call: str
    """Its name in OpenFHE."""
    lowest: int = 1
    """Fewest limbs of its operand."""
    conditions: tuple[str, ...] = ("warm", "cold")
    one_level: bool = False
    """Measured at one number of limbs only."""
    uses_degree: bool = False
    relinearizes: bool = False
    rotates: bool = False
    records: str | None = None
    """The primitive whose call is recorded; the timing is the record's part of it."""

    def limbs(self, params: CkksParameters, degree: int) -> tuple[int, int]:
        """Fewest and most limbs of its operand at `params`; `degree` belongs to a Chebyshev series."""
        if self.name == "bootstrap":
            return 2, 2
        if self.uses_degree:
            return chebyshev_depth(degree) + 1, params.num_q
        return self.lowest, params.num_q

    def not_native(self, params: CkksParameters, limbs: int | None, across: int, condition: str) -> str | None:
        """Why the native reading does not time it so, or `None`."""
        if self.name == "key_load" or condition == "cold-keys":
            return "a native run reads keys by rows from its store, which 'penstock keys bench' times"
        if across > 1:
            return "native operations are timed one at a time; take --reading openfhe"
        if self.name == "encrypt" and limbs != params.num_q:
            return "the client of a native run encrypts with all limbs"
        return None

    def unsuitable(self, params: CkksParameters) -> str | None:
        """Why it is not measured at sets such as `params`, however many limbs they have, or `None`."""
        if self.name == "bootstrap":
            if params.bootstrap is None:
                return "the set has no bootstrap plan"
            if not params.scaling.automatic:
                return "OpenFHE's bootstrapping is imprecise with fixed-manual scaling; take flexible-auto"
        if self.name == "rescale" and params.scaling.automatic:
            return f"with {params.scaling} scaling OpenFHE's Rescale does nothing; take fixed-manual"
        return None


def chebyshev_depth(degree: int) -> int:
    """Limbs that OpenFHE's EvalChebyshevSeries consumes, the scaling of the range to [-1, 1] included.

    Source: the table in OpenFHE's FUNCTION_EVALUATION.md (Paterson-Stockmeyer above degree 4).
    >>> [chebyshev_depth(d) for d in (5, 6, 13, 14, 27, 28, 59, 60)]
    [4, 5, 5, 6, 6, 7, 7, 8]
    """
    depth, bound = 4, 5
    for bound_of, levels in ((5, 4), (13, 5), (27, 6), (59, 7), (119, 8), (247, 9)):
        if degree <= bound_of:
            return levels
        depth, bound = levels, bound_of
    return depth + (degree // bound).bit_length()


_LIST = (
    Primitive(name="encode", kind=None, call="MakeCKKSPackedPlaintext"),
    Primitive(name="add", kind=OpKind.ADD, call="EvalAdd"),
    Primitive(name="add_plain", kind=OpKind.ADD_PLAIN, call="EvalAdd (Plaintext)"),
    Primitive(name="sub", kind=OpKind.SUB, call="EvalSub"),
    Primitive(name="sub_scalar", kind=OpKind.SUB_SCALAR, call="EvalSub (Scalar)"),
    Primitive(name="mult_scalar", kind=OpKind.MULT_SCALAR, call="EvalMult (Scalar)", lowest=2),
    Primitive(name="mult_plain", kind=OpKind.MULT_PLAIN, call="EvalMult (Plaintext)", lowest=2),
    Primitive(name="mult_no_relin", kind=OpKind.MULT_NO_RELIN, call="EvalMultNoRelin", lowest=2),
    Primitive(name="rescale", kind=OpKind.RESCALE, call="Rescale", lowest=2),
    Primitive(name="encrypt", kind=OpKind.ENCRYPT, call="Encrypt"),
    Primitive(name="decrypt", kind=OpKind.DECRYPT, call="Decrypt"),
    Primitive(name="decompose", kind=OpKind.DECOMPOSE, call="EvalFastRotationPrecompute"),
    Primitive(name="rotate_hoisted", kind=OpKind.ROTATE_HOISTED, call="EvalFastRotation", rotates=True),
    Primitive(
        name="rotate", kind=OpKind.ROTATE, call="EvalRotate", rotates=True, conditions=("warm", "cold", "cold-keys")
    ),
    Primitive(name="relinearize", kind=OpKind.RELINEARIZE, call="Relinearize", lowest=2, relinearizes=True),
    Primitive(name="square", kind=OpKind.SQUARE, call="EvalSquare", lowest=2, relinearizes=True),
    Primitive(name="mult", kind=OpKind.MULT, call="EvalMult", lowest=2, relinearizes=True),
    Primitive(
        name="key_load", kind=None, call="DeserializeEvalKeyMap", conditions=("warm", "cold-keys"), one_level=True,
        rotates=True,
    ),
    Primitive(
        name="chebyshev_series", kind=OpKind.CHEBYSHEV, call="EvalChebyshevSeries", lowest=5, uses_degree=True,
        relinearizes=True,
    ),
    Primitive(
        name="chebyshev_function", kind=OpKind.CHEBYSHEV, call="EvalChebyshevFunction", lowest=5, uses_degree=True,
        relinearizes=True,
    ),
    Primitive(name="bootstrap", kind=OpKind.BOOTSTRAP, call="EvalBootstrap", one_level=True, relinearizes=True),
)  # fmt: skip
_RECORDED = ("add", "mult_plain", "rotate", "mult", "decrypt", "chebyshev_series")

PRIMITIVES: dict[str, Primitive] = {primitive.name: primitive for primitive in _LIST}
"""All that Table 2 of the CryptOracle paper lists, and encode, encrypt, decrypt, rescale, relinearize, the digit
decomposition of fast rotations and the loading of a key; cheap ones first. Then some of them as a recorded program
calls them, which "all" leaves out."""
for _each in _RECORDED:
    _name = f"recorded_{_each}"
    PRIMITIVES[_name] = replace(
        PRIMITIVES[_each],
        name=_name,
        kind=None,
        call=f"{PRIMITIVES[_each].call}, recorded",
        records=_each,
        conditions=("warm", "cold"),
    )
