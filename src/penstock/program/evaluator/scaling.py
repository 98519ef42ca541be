"""The scaling rules of CKKS as a state machine: limbs of each operand, and the steps before a call computes.

`fixed-manual`: the program rescales; operands that differ in limbs lose the surplus limbs. `flexible-auto` (and
`fixed-auto`): a product keeps a squared scale until the next multiplication, which rescales its operands first;
operands at different levels are brought together by a scalar multiplication and rescales. `flexible-auto-ext`: the
same, but a value encrypted on the full chain already has the scale of a product.
Source: the rules that OpenFHE 1.5/1.6 documents and follows for each scaling technique (`ckksrns-leveledshe`);
checked operation by operation against real ciphertexts in tests/system.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ParamsError
from penstock.scheme.params.ckks import CkksParameters, Scaling


@dataclass(frozen=True, slots=True)
class ScaleState:
    """Limbs of a ciphertext, and the degree of its scale: 2 after a product."""

    limbs: int
    degree: int = 1

    @classmethod
    def encrypted(cls, params: CkksParameters, limbs: int) -> ScaleState:
        """Of a ciphertext that was encrypted at so many limbs: `flexible-auto-ext` spends the last limb of the full
        chain on the noise of encryption, by a rescale before the first product."""
        product = params.scaling is Scaling.FLEXIBLE_AUTO_EXT and limbs == params.num_q
        return cls(limbs, 2 if product else 1)


@dataclass(frozen=True, slots=True)
class Aligned:
    """Operands in the state that an operation needs, and the steps to bring them there."""

    limbs: int
    degrees: tuple[int, ...]
    rescales: int
    scalar_mults: int


def align_unary(state: ScaleState, scaling: Scaling, *, multiplication: bool) -> Aligned:
    """One operand. Before a multiplication an automatic rule rescales a product first."""
    if scaling.automatic and multiplication and state.degree == 2:
        return Aligned(_checked(state.limbs - 1, "rescale"), (1,), 1, 0)
    return Aligned(state.limbs, (state.degree,), 0, 0)


def align_pair(a: ScaleState, b: ScaleState, scaling: Scaling, *, multiplication: bool) -> Aligned:
    """Two operands, brought to the same limbs (and, under an automatic rule, the same scale)."""
    if not scaling.automatic:
        if not multiplication and a.degree != b.degree:
            raise ParamsError(
                f"operands of a sum differ in scale (degrees {a.degree} and {b.degree}): rescale one of them first"
            )
        return Aligned(min(a.limbs, b.limbs), (a.degree, b.degree), 0, 0)
    a, b, rescales, scalar_mults = _meet(a, b, scaling)
    if multiplication and a.degree == 2:
        return Aligned(_checked(a.limbs - 1, "rescale"), (1, 1), rescales + 2, scalar_mults)
    return Aligned(a.limbs, (a.degree, b.degree), rescales, scalar_mults)


def check_drop(a: ScaleState, b: ScaleState) -> None:
    """Before a sum under OpenFHE's manual rule, which drops no product to the last limb.

    Raises: ParamsError: it would, although nothing but the limbs differs.
    """
    if a.degree == b.degree == 2 and a.limbs != b.limbs:
        _checked(min(a.limbs, b.limbs) - 1, "a sum with a product of fewer limbs")


def _meet(a: ScaleState, b: ScaleState, scaling: Scaling) -> tuple[ScaleState, ScaleState, int, int]:
    """Both operands at the limbs and degree of an automatic rule's common level.

    Raises: ParamsError: a product on the last limb, which leaves no room for what brings the other one to it.
    """
    if a.limbs < b.limbs:
        b, a, rescales, scalar_mults = _meet(b, a, scaling)
        return a, b, rescales, scalar_mults
    if a.limbs == b.limbs:
        degree = max(a.degree, b.degree)
        if a.degree != b.degree and scaling is Scaling.FIXED_AUTO:
            # With no modulus below to raise it by, OpenFHE takes the operand times 0.
            _checked(a.limbs - 1, "a sum with a product")
        joined = ScaleState(a.limbs, degree)
        return joined, joined, 0, int(a.degree != b.degree)
    if b.degree == 2 and not (a.degree == 2 and a.limbs == b.limbs + 1 and scaling is not Scaling.FIXED_AUTO):
        _checked(b.limbs - 1, "a sum with a product of fewer limbs")
    if scaling is Scaling.FIXED_AUTO:
        # One scale for all levels: limbs are dropped, and only a difference of degree takes work.
        return b, b, int(a.degree > b.degree), int(a.degree < b.degree)
    gap = a.limbs - b.limbs
    if a.degree == 2 and b.degree == 2:
        return b, b, 1, 1
    if a.degree == 2:
        # One level apart the product only has to be rescaled; further apart it is scaled, dropped and rescaled twice.
        return (b, b, 1, 0) if gap == 1 else (b, b, 2, 1)
    if b.degree == 2:
        return b, b, 0, 1
    return b, b, 1, 1


def _checked(limbs: int, what: str) -> int:
    if limbs < 1:
        raise ParamsError(
            f"{what} needs a limb more than the ciphertext has: the program is deeper than the parameters"
        )
    return limbs
