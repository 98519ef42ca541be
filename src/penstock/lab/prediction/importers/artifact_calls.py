"""The names that CryptOracle's files have for operations: columns of its timings, and keys of its tables of counts."""

from __future__ import annotations

CALLS: dict[str, tuple[str, int | None]] = {
    "CKKS_Add": ("add", None), "CKKS_Add_Plaintext": ("add_plain", None), "CKKS_Sub": ("sub", None),
    "CKKS_Sub_Scalar": ("sub_scalar", None), "CKKS_Mult": ("mult", None), "CKKS_MultNoRelin": ("mult_no_relin", None),
    "CKKS_Mult_Plaintext": ("mult_plain", None), "CKKS_Mult_Scalar": ("mult_scalar", None),
    "CKKS_Square": ("square", None), "CKKS_Rotate": ("rotate", None),
    "CKKS_Fast_Rotate_Precompute": ("decompose", None), "CKKS_Fast_Rotate": ("rotate_hoisted", None),
    "CKKS_Encryption": ("encrypt", None), "CKKS_Decryption": ("decrypt", None),
    "CKKS_Chebyshev_Series": ("chebyshev_series", 57), "CKKS_Chebyshev_Function": ("chebyshev_function", 59),
    "CKKS_Logistic": ("chebyshev_function", 59), "CKKS_Bootstrap": ("bootstrap", None),
}  # fmt: skip
"""Column -> our primitive, and the degree of the series that it evaluates."""
