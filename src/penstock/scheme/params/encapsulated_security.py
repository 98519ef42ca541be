"""The level of a set with an encapsulated secret: that of its main or of its ephemeral secret, the lower one counts.

Evaluation keys show the main secret modulo QP. One key alone shows the ephemeral one, modulo q_0 and an auxiliary
modulus. A uniform ternary main secret keeps the level of the guidelines' table. No table covers sparse secrets: their
bounds are by `penstock.scheme.params.sparse_security`, with a margin as wide as the spread between its models of
lattice reduction. Nobody outside of penstock has confirmed these bounds.
"""

from __future__ import annotations

from penstock.scheme.params import security
from penstock.scheme.params.secrets import EPHEMERAL_WEIGHT, SPARSE_ENCAPSULATED, SPARSE_WEIGHT

MARGIN_BITS = 4.5
"""As wide as the spread between the two models of lattice reduction: `BDGL16` is at most 4.2 bits above `LISTS` at
these bounds (1.6 at 128 bits). The estimate is also 1.9 bits at most above a published point without Meet-LWE, and
above none with it (`tests/unit/scheme/test_sparse_security.py`)."""
ESTIMATE = "penstock's estimate of hybrid attacks on sparse secrets"
SPARSE_BOUNDS: dict[int, dict[int, dict[int, int]]] = {
    SPARSE_WEIGHT: {
        2**12: {128: 82, 192: 45, 256: 26},
        2**13: {128: 170, 192: 96, 256: 58},
        2**14: {128: 353, 192: 202, 256: 126},
        2**15: {128: 726, 192: 424, 256: 270},
        2**16: {128: 1495, 192: 882, 256: 573},
        2**17: {128: 3062, 192: 1830, 256: 1202},
    },
    EPHEMERAL_WEIGHT: {
        2**14: {128: 40},
        2**15: {128: 105},
        2**16: {128: 256},
        2**17: {128: 585},
    },
}
"""Weight -> N -> level -> the most bits of the modulus at which `sparse_security.estimate` grants the level and the
margin. The estimate takes a second; a test holds the bounds against it."""


def sparse_bound(ring_dim: int, weight: int, level: int) -> int:
    """Return the most bits of a modulus under which a sparse secret keeps the level; 0: none.

    >>> sparse_bound(2**16, 192, 128), sparse_bound(2**13, 32, 128)
    (1495, 0)
    """
    return SPARSE_BOUNDS[weight].get(ring_dim, {}).get(level, 0)


def sparse_level(ring_dim: int, log_q: float, weight: int) -> int:
    """Return the level that a sparse secret keeps; 0: none."""
    return max((level for level in security.LEVELS if log_q <= sparse_bound(ring_dim, weight, level)), default=0)


def encapsulated_level(ring_dim: int, log_qp: float, log_raised: float, secret: str) -> tuple[int, str]:
    """Return the level of both secrets, and a sentence that says how it was found.

    Args: log_raised: log2 of q_0 times the auxiliary modulus of the switch to the ephemeral secret.
    >>> encapsulated_level(2**16, 1700, 126, "uniform-encapsulated")[0]
    128
    >>> encapsulated_level(2**12, 1700, 126, "sparse-encapsulated")[0]
    0
    """
    if secret == SPARSE_ENCAPSULATED:
        main, main_note = _sparse(ring_dim, log_qp, SPARSE_WEIGHT, "main")
    else:
        main, main_note = security.security_level(ring_dim, log_qp)
        main_note = f"main secret: {main_note.partition(' bit: ')[2]}" if main else main_note
    if not main:
        return 0, main_note if main_note.startswith("insecure") else f"insecure: {main_note}"
    ephemeral, note = _sparse(ring_dim, log_raised, EPHEMERAL_WEIGHT, "ephemeral")
    level = min(main, ephemeral)
    return level, f"{level} bit: {main_note}; {note}" if level else f"insecure: {main_note}; {note}"


def _sparse(ring_dim: int, log_q: float, weight: int, which: str) -> tuple[int, str]:
    level = sparse_level(ring_dim, log_q, weight)
    modulus = "logQP" if which == "main" else "log2 of the modulus"
    what = f"{which} secret of weight {weight}, {modulus} {log_q:g} at N={ring_dim}"
    by = f"by {ESTIMATE}, with {MARGIN_BITS:g} bits of margin"
    if not level:
        return 0, f"{what} exceeds {sparse_bound(ring_dim, weight, security.LEVELS[0])}, the bound for 128 bit {by}"
    return level, f"{what} is within {sparse_bound(ring_dim, weight, level)}, the bound for {level} bit {by}"
