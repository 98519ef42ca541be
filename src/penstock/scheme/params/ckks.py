"""Checked CKKS parameters: slots, scales and bootstrapping, on top of `penstock.scheme.params.rlwe`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.base.types import RowView
from penstock.scheme.operations import Word
from penstock.scheme.params.rlwe import Readers, RlweParameters, read


class Scaling(Word):
    """When a ciphertext is rescaled."""

    FIXED_MANUAL = "fixed-manual"
    """The program calls `rescale`."""
    FIXED_AUTO = "fixed-auto"
    FLEXIBLE_AUTO = "flexible-auto"
    """The library rescales at the start of the next multiplication; `rescale` does nothing."""
    FLEXIBLE_AUTO_EXT = "flexible-auto-ext"

    @property
    def automatic(self) -> bool:
        """Whether the library, not the program, decides when to rescale."""
        return self is not Scaling.FIXED_MANUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapPlan:
    """The shape of bootstrapping as a circuit.

    A stage of CtS, EvalMod or StC may consume more than one limb where its scale is wider than one prime
    (double-prime scaling); `*_limbs` is the limbs consumed by one level of that stage.
    """

    cts_stages: int
    stc_stages: int
    chebyshev_degree: int
    double_angles: int
    cts_limbs: int = 1
    eval_mod_limbs: int = 1
    stc_limbs: int = 1
    extra_limbs: int = 0
    """Limbs spent on scale corrections at the ends."""
    rotations: str = "hoisted"
    """The stages of CtS and StC. With `hoisted`, baby steps share one decomposition and each step has a key. With
    `min-ks`, the same step is repeated, with two keys a stage and a decomposition for each rotation. With `few-keys`,
    for OpenFHE's parameters, there are few baby steps, giant steps use one key, and both transforms share their
    keys."""
    order: str = "stc-last"
    """`stc-first`: SlotsToCoeffs at few limbs before the modulus is raised, for real values only (slim). For OpenFHE's
    parameters it needs `few-keys`."""
    sine_range: int = 16
    """K: the multiples of q_0 that raising the modulus adds lie within -K and K."""
    baby_steps: int = 0
    """Of a stage with few keys, a power of two: a key each, and fewer giant steps. 0: about the root of its
    diagonals."""


def _plan(record: RowView | None) -> BootstrapPlan | None:
    return None if record is None else read(BootstrapPlan, record, {})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CkksParameters(RlweParameters):
    """A checked CKKS parameter set. Built by `CkksSpec.build()` only; everything else takes it as given."""

    slots: int
    scale_bits: int
    scaling: Scaling
    bootstrap: BootstrapPlan | None = None
    first_mod_bits: int = 0
    """Size that was asked for q_0; 0 stands for `q_bits[0]`."""

    _ORDER: ClassVar[tuple[str, ...]] = (
        "name", "ring_dim", "slots", "q_bits", "p_bits", "dnum", "scale_bits", "scaling", "secret", "word_bits",
        "key_form", "library", "security_bits", "security_note", "bootstrap", "source", "assumed", "first_mod_bits",
        "security_asked", "small_ring_dim", "q_primes", "p_primes",
    )  # fmt: skip
    """As versions without `RlweParameters` wrote them; digests depend on it."""
    _READERS: ClassVar[Readers] = {
        **RlweParameters._READERS, "scaling": Scaling, "bootstrap": _plan,
    }  # fmt: skip

    @property
    def depth(self) -> int:
        """Multiplications in sequence that a fresh ciphertext carries (FLEXIBLEAUTOEXT keeps one more limb)."""
        return self.num_q - 1 - (1 if self.scaling is Scaling.FLEXIBLE_AUTO_EXT else 0)
