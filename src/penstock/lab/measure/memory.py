"""Memory of a process that computes with OpenFHE: what predictions of a peak start from.

Both are calibrated to the peaks of OpenFHE 1.6.1 runs on one x86-64 machine (0.2 to 15 GB, Debian 12, glibc).
"""

PROCESS_BYTES = 130_000_000
"""Interpreter, libraries and one small context: calibrated to 14 runs of 0.14 to 2.1 GB, CPython 3.10."""
ALLOCATION = 1.15
"""Bytes allocated for a byte of keys and data: temporaries and fragments."""
