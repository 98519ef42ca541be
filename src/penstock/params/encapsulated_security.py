"""The level of a set with an encapsulated secret: that of its main or of its ephemeral secret, the lower one counts.

Evaluation keys show the main secret modulo QP. One key alone shows the ephemeral one, modulo q_0 and an
auxiliary modulus. A uniform ternary main secret keeps the level of the guidelines' table. Sparse secrets are by
`penstock.params.sparse_security`, with a margin as large as its largest error on published points.
"""

from __future__ import annotations

from penstock.params import security
from penstock.params.secrets import EPHEMERAL_WEIGHT, SPARSE_ENCAPSULATED, SPARSE_WEIGHT
from penstock.params.sparse_security import LISTS, estimate

MARGIN_BITS = 2.0
"""The estimate is 1.9 bits above a published point at most (`tests/unit/test_sparse_security.py`)."""
ESTIMATE = "penstock's estimate of hybrid attacks on sparse secrets"


def sparse_level(ring_dim: int, log_q: float, weight: int) -> tuple[int, float | None]:
    """Return the level that a sparse secret keeps (0: none) and its estimated bits.

    Without an estimate (`None`) where the modulus is too long even for a uniform secret.
    """
    if log_q > (security.GUIDELINES_2024.max_log_qp(ring_dim, security.LEVELS[0]) or 0):
        return 0, None
    bits = estimate(ring_dim, float(log_q), weight, LISTS).bits
    return max((level for level in security.LEVELS if bits - MARGIN_BITS >= level), default=0), bits


def encapsulated_level(ring_dim: int, log_qp: float, log_raised: float, secret: str) -> tuple[int, str]:
    """Return the level of both secrets, and a sentence that says how it was found.

    Args: log_raised: log2 of q_0 times the auxiliary modulus of the switch to the ephemeral secret.
    >>> encapsulated_level(2**16, 1700, 126, "uniform-encapsulated")[0]
    128
    >>> encapsulated_level(2**12, 1700, 126, "sparse-encapsulated")[0]
    0
    """
    if secret == SPARSE_ENCAPSULATED:
        main, bits = sparse_level(ring_dim, log_qp, SPARSE_WEIGHT)
        main_note = _said("main secret", ring_dim, log_qp, SPARSE_WEIGHT, bits)
    else:
        main, main_note = security.security_level(ring_dim, log_qp)
    if not main:
        return 0, main_note if main_note.startswith("insecure") else f"insecure: {main_note}"
    ephemeral, bits = sparse_level(ring_dim, log_raised, EPHEMERAL_WEIGHT)
    note = f"{main_note}; {_said('ephemeral secret', ring_dim, log_raised, EPHEMERAL_WEIGHT, bits)}"
    level = min(main, ephemeral)
    return level, f"{level} bit: {note}" if level else f"insecure: {note}"


def _said(which: str, ring_dim: int, log_q: float, weight: int, bits: float | None) -> str:
    where = f"{which} of weight {weight}, modulus of {log_q:g} bits at N={ring_dim}"
    if bits is None:
        return f"{where}: the modulus exceeds even the bound of {security.GUIDELINES_2024.name} for uniform secrets"
    return f"{where}: {bits:.1f} bits by {ESTIMATE} (a level needs {MARGIN_BITS:g} more)"
