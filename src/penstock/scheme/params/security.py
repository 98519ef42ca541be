"""How large the modulus may be: published bounds on log2(QP) per ring dimension, each table named with its edition.

Two tables. `GUIDELINES_2024` decides the level that a set states. `OPENFHE` is what OpenFHE enforces when a set asks it
for a level: the 2018 standard up to N = 2^15, the 2024 guidelines above, so up to N = 2^15 it admits a longer modulus.
"""

from __future__ import annotations

from dataclasses import dataclass

LEVELS = (128, 192, 256)
"""Classical security levels, in bits."""
UNIFORM_TERNARY = "uniform-ternary"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityTable:
    """Largest log2(QP) at each level, for one distribution of the secret, classical attacks."""

    name: str
    source: str
    secret: str
    bounds: dict[int, dict[int, int]]
    """ring_dim -> level -> bits; a level that is missing is not offered at that ring dimension."""

    def max_log_qp(self, ring_dim: int, level: int) -> int | None:
        """The largest admitted log2(QP), or `None` where the table has no entry.

        >>> GUIDELINES_2024.max_log_qp(2**15, 128), OPENFHE.max_log_qp(2**15, 128)
        (868, 881)
        """
        return self.bounds.get(ring_dim, {}).get(level)


# Every cell agrees with the authors' own code: github.com/gong-cr/FHE-Security-Guidelines, commit a43a593,
# RNS-CKKS-examples/lattigo/parameters/tables.go ("Table 5.2"). N = 2^10 has no 192 and 256-bit entry there.
GUIDELINES_2024 = SecurityTable(
    name="security guidelines 2024",
    source="Bossuat et al., Security Guidelines for Implementing Homomorphic Encryption, ePrint 2024/463, Table 5.2",
    secret=UNIFORM_TERNARY,
    bounds={
        2**10: {128: 26},
        2**11: {128: 53, 192: 36, 256: 27},
        2**12: {128: 106, 192: 73, 256: 56},
        2**13: {128: 214, 192: 147, 256: 114},
        2**14: {128: 430, 192: 297, 256: 230},
        2**15: {128: 868, 192: 597, 256: 462},
        2**16: {128: 1747, 192: 1199, 256: 929},
        2**17: {128: 3523, 192: 2411, 256: 1866},
    },
)

OPENFHE = SecurityTable(
    name="OpenFHE 1.6",
    source="homomorphic encryption standard 2018 (N up to 2^15) and ePrint 2024/463 (above), as OpenFHE enforces them "
    "(src/core/lib/lattice/stdlatticeparms.cpp)",
    secret=UNIFORM_TERNARY,
    bounds={
        2**10: {128: 27, 192: 19, 256: 14},
        2**11: {128: 54, 192: 37, 256: 29},
        2**12: {128: 109, 192: 75, 256: 58},
        2**13: {128: 218, 192: 152, 256: 118},
        2**14: {128: 438, 192: 305, 256: 237},
        2**15: {128: 881, 192: 611, 256: 476},
        **{n: GUIDELINES_2024.bounds[n] for n in (2**16, 2**17)},
    },
)


def security_level(
    ring_dim: int, log_qp: float, secret: str = UNIFORM_TERNARY, table: SecurityTable = GUIDELINES_2024
) -> tuple[int, str]:
    """The level that a modulus of `log_qp` bits keeps, and a sentence that names the table and the bound.

    Returns: (128, 192 or 256, note); (0, note) where the table grants no level or does not cover the secret.
    >>> security_level(2**16, 1692)[0], security_level(2**16, 1692, "sparse-ternary")[0]
    (128, 0)
    """
    here = f"logQP {log_qp:g} at N={ring_dim}"
    if secret != table.secret:
        # Fewer non-zero coefficients only make a secret easier to find, so the dense bound is an upper bound for it.
        if log_qp > (table.max_log_qp(ring_dim, LEVELS[0]) or 0):
            return 0, f"insecure: {here} exceeds even the bound of {table.name} for {table.secret} secrets"
        return 0, f"no level stated: {table.name} ({table.source}) covers {table.secret} secrets, not {secret}"
    granted = [level for level in LEVELS if log_qp <= (table.max_log_qp(ring_dim, level) or 0)]
    edition = f"{table.name} ({table.source}), classical, {table.secret} secret"
    if granted:
        level = max(granted)
        return level, f"{level} bit: {here} is within {table.max_log_qp(ring_dim, level)} by {edition}"
    bound = table.max_log_qp(ring_dim, LEVELS[0])
    if bound is None:
        return 0, f"insecure: {here} is outside {edition}"
    return 0, f"insecure: {here} exceeds {bound}, the bound for {LEVELS[0]} bit by {edition}"
