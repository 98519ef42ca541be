"""Small parameter sets for tests, built field by field so that tests of programs do not depend on the catalogue."""

from __future__ import annotations

from typing import Any

from penstock.scheme.params.ckks import BootstrapPlan, CkksParameters, Scaling
from penstock.scheme.params.rlwe import KeyForm

FIELDS: dict[str, Any] = {
    "name": "insecure-test",
    "ring_dim": 1024,
    "slots": 64,
    "q_bits": (60,) + (50,) * 9,
    "p_bits": (60,) * 4,
    "dnum": 3,
    "scale_bits": 50,
    "scaling": Scaling.FIXED_MANUAL,
    "secret": "uniform-ternary",
    "word_bits": 64,
    "key_form": KeyForm.FULL,
    "library": "openfhe",
    "security_bits": 0,
    "security_note": "a toy set for tests",
}


def toy(**changes: Any) -> CkksParameters:
    """A 10-limb set over N=2^10, with `changes`."""
    return CkksParameters(**{**FIELDS, **changes})


def toy_bootstrap(scaling: Scaling, slots: int = 256, ring_dim: int = 2048) -> CkksParameters:
    """A set that bootstraps: dense secret under fixed-manual, sparse under an automatic rule."""
    dense = scaling is Scaling.FIXED_MANUAL
    return toy(
        ring_dim=ring_dim,
        slots=slots,
        q_bits=(60,) + (59,) * 24,
        scale_bits=59,
        scaling=scaling,
        secret="uniform-ternary" if dense else "sparse-ternary",
        bootstrap=BootstrapPlan(
            cts_stages=3,
            stc_stages=3,
            chebyshev_degree=104 if dense else 48,
            double_angles=6 if dense else 3,
            extra_limbs=1,
        ),
    )
