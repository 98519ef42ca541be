"""Memory of a process that computes with OpenFHE, as measured: what predictions of a peak start from."""

PROCESS_BYTES = 230_000_000
"""Interpreter, libraries and one small context."""
ALLOCATION = 1.15
"""What is allocated for a byte of keys and data: temporaries and fragments."""
