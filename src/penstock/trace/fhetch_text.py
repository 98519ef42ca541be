"""The text of FHETCH's polynomial instructions: a line for each limb of each polynomial, in static single assignment.

`sr_addp %2, %0, %1, m=1` writes address 2 from addresses 0 and 1 modulo the first prime of the table at the head. An
address may be written again; here each writing is a value of its own, and what is read before it is written comes from
outside. Source: github.com/NiobiumInc/niobium-fhetch, README.md and src/fhetch_parser.cpp, commit f61749c of
2026-07-22, which follows the FHETCH consortium's Polynomial Intermediate Representation (fhetch.org).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.errors import TraceError

COPY = 0
"""Index of the modulus that is none: copies and permutations name it."""
TWO = ("sr_addp", "sr_subp", "sr_mulp")
ONE = (
    "sr_negp",
    "sr_ntt",
    "sr_intt",
    "sr_permute",
    "sr_automorph_eval",
    "sr_automorph_coeff",
    "sr_rot_automorph_coeff",
)
SCALAR = ("sr_addps", "sr_subps", "sr_mulps", "sr_addps_coeff", "sr_subps_coeff")
ZERO = "zero"
"""What `sr_mulps` with the number 0 is here: a limb of zeros, which reads nothing."""
_MODULUS = re.compile(r"m\[(\d+)\]\s+(0[xX][0-9a-fA-F]+)")
_NAMED = re.compile(r"(m|k|offset|omega|mask|logn)=(\d+|0[xX][0-9a-fA-F]+)")


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction on limbs: what it makes from what, modulo which prime, and k of an automorphism."""

    op: str
    made: int
    reads: tuple[int, ...]
    modulus: int
    scalar: int | None
    element: int | None
    line: int


@dataclass(slots=True)
class Program:
    """All steps, and which values come from outside."""

    steps: list[Step] = field(default_factory=list)
    moduli: list[int] = field(default_factory=list)
    """Primes by index; the first is no prime."""
    modulus_of: list[int] = field(default_factory=list)
    """Of each value, the index of its prime."""
    outside: list[bool] = field(default_factory=list)
    """Of each value, whether it is read before it is written."""


def parse(lines: Iterable[str], where: str = "FHETCH text") -> Program:
    """The program in these lines. Comments, and what follows `halt`, are passed over.

    Raises: TraceError: a line that is no instruction, or an instruction on numbers that are no integers.
    """
    program = Program()
    held: dict[int, int] = {}

    def value(modulus: int, *, outside: bool) -> int:
        program.modulus_of.append(modulus)
        program.outside.append(outside)
        return len(program.modulus_of) - 1

    for number, raw in enumerate(lines, 1):
        text = raw.split("#", 1)[0].strip()
        if not text or text.startswith("modulus_count"):
            continue
        entry = _MODULUS.fullmatch(text)
        if entry:
            program.moduli.append(int(entry[2], 16))
            continue
        op, _, rest = text.partition(" ")
        op = op.lower()
        if op == "halt":
            break
        if op not in (*TWO, *ONE, *SCALAR):
            raise TraceError(f"{where}, line {number}: '{op}' is no instruction on integer polynomials")
        parts = [part.strip() for part in rest.split(",")]
        addresses = [int(part[1:]) for part in parts if part.startswith("%") and part[1:].isdigit()]
        named = {found[1]: int(found[2], 0) for part in parts if (found := _NAMED.fullmatch(part))}
        numbers = [part for part in parts if part.isdigit()]
        wanted = 3 if op in TWO else 2
        modulus = named.get("m", COPY)
        if len(addresses) != wanted or (op in SCALAR and len(numbers) != 1) or modulus >= max(1, len(program.moduli)):
            raise TraceError(
                f"{where}, line {number}: '{text}' has not the operands of '{op}', or a modulus of no table"
            )
        made, *sources = addresses
        scalar = int(numbers[0]) if op in SCALAR else None
        zeros = op == "sr_mulps" and scalar == 0
        reads = []
        for source in () if zeros else sources:
            if source not in held:
                held[source] = value(modulus, outside=True)
            elif program.modulus_of[held[source]] == COPY:
                program.modulus_of[held[source]] = modulus
            reads.append(held[source])
        if op == "sr_addps" and scalar == 0 and modulus == COPY:
            held[made] = reads[0]  # a copy is the same value
            continue
        held[made] = value(modulus or (program.modulus_of[reads[0]] if reads else COPY), outside=False)
        program.steps.append(
            Step(ZERO if zeros else op, held[made], tuple(reads), modulus, scalar, named.get("k"), number)
        )
    if not program.steps:
        raise TraceError(f"{where}: no instruction; give a .fhetch file of polynomial instructions")
    return program
