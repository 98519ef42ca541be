"""Write crates/penstock-client/src/tables.rs: the cumulative tables of the client's discrete Gaussians.

An entry k is 2^bits times the probability that |x| <= k, rounded, where x is discrete Gaussian: its probability is
proportional to exp(-x^2 / (2 sigma^2)). `--check` compares the file instead of writing it.
"""

from __future__ import annotations

import argparse
import sys
from decimal import Decimal, getcontext
from pathlib import Path

FILE = Path(__file__).parents[1] / "crates/penstock-client/src/tables.rs"
getcontext().prec = 120


def thresholds(sigma: Decimal, bits: int) -> list[int]:
    """The entries below 2^bits; a larger |x| has a probability of less than 2^-(bits + 1)."""
    weights = []
    for k in range(10_000):
        weight = (-(Decimal(k) ** 2) / (2 * sigma**2)).exp() * (1 if k == 0 else 2)
        if weight < Decimal(2) ** -(bits + 40):
            break
        weights.append(weight)
    total, below, entries = sum(weights), Decimal(0), []
    for weight in weights:
        below += weight
        entry = int((below / total * 2**bits).to_integral_value())
        if entry >= 2**bits:
            break
        entries.append(entry)
    return entries


def written() -> str:
    """The content of the file."""
    error, base = thresholds(Decimal("3.19"), 63), thresholds(Decimal(34), 127)
    lines = [
        "//! Cumulative tables of discrete Gaussians, by `scripts/gaussian_tables.py`: entry k is 2^bits times the",
        "//! probability that |x| <= k.",
        "",
        "/// The standard deviation of errors: the one that the security guidelines assume, and OpenFHE takes.",
        "#[cfg_attr(not(test), allow(dead_code))]",
        "pub const ERROR_DEVIATION: f64 = 3.19;",
        "",
        "/// Of errors, of 63 bits.",
        f"pub const ERROR: [u64; {len(error)}] = [",
        *(f"    {entry:#018x}," for entry in error),
        "];",
        "",
        "/// The standard deviation of the samples that flooding adds up.",
        "pub const BASE_DEVIATION: f64 = 34.0;",
        "",
        "/// Of those samples, of 127 bits.",
        f"pub const BASE: [u128; {len(base)}] = [",
        *(f"    {entry:#034x}," for entry in base),
        "];",
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    """Write or check the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        return int(FILE.read_text() != written())
    FILE.write_text(written())
    return 0


if __name__ == "__main__":
    sys.exit(main())
