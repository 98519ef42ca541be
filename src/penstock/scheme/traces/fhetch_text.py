"""The text of FHETCH's polynomial instructions: a line for each limb of each polynomial.

`sr_addp %2, %0, %1, m=1` writes address 2 from addresses 0 and 1 modulo the first prime of the table at the head. An
address may be written again. Here each writing is a separate value, and a value that is read before it is written comes
from outside. A number after `m=` beyond the table is the prime itself; older files write it after `q=`.

Source: github.com/NiobiumInc/niobium-fhetch, README.md, src/probes.cpp (the writer of a recording of OpenFHE),
src/trace_writer.cpp and src/fhetch_parser.cpp at commit f61749c of 2026-07-22, src/fhetch_reader.cpp and its tests at
30972e0 of August 2026; after the FHETCH consortium's Polynomial Intermediate Representation (fhetch.org).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from penstock.errors import TraceError
from penstock.scheme.traces.io import most_operations, too_many

COPY = 0
"""Number of the modulus that is none: copies and permutations name it."""
SENTINEL = 2**64 - 1
"""What stands for it in the table."""
LEAST_PRIME = 2**16
"""A smaller number behind `m=` is a place that the table lacks, no prime."""
BINARY = "NBFH"
"""First bytes of the same program in binary (`.fhex`)."""
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
"""The meaning of `sr_mulps` with the number 0: a limb of zeros, which reads nothing."""
_OPS = frozenset((*TWO, *ONE, *SCALAR))
_AT = "%"
_GAP = re.compile(r"[,\s]+")
_NUMBER = r"(\d{1,20}|0[xX][0-9a-fA-F]{1,16})"
_MODULUS = re.compile(r"m\[(\d{1,9})\]\s+" + _NUMBER, re.ASCII)
_RING = re.compile(r"#\s*Ring Dimension:\s*" + _NUMBER, re.ASCII)
_ADDRESS = re.compile("%" + _NUMBER, re.ASCII)
_SCALAR = re.compile(_NUMBER, re.ASCII)
_NAMED = re.compile("(m|q|k|offset|omega|mask|logn)=" + _NUMBER, re.ASCII)


@dataclass(frozen=True, slots=True)
class LimbStep:
    """One instruction on limbs: its result, its operands, its prime, and k of an automorphism."""

    op: str
    made: int
    reads: tuple[int, ...]
    modulus: int
    scalar: int | None
    element: int | None
    line: int


@dataclass(slots=True)
class FhetchProgram:
    """All steps, and which values come from outside."""

    steps: list[LimbStep] = field(default_factory=list)
    ring_dim: int | None = None
    """N, where the head or an automorphism says it."""
    modulus_of: list[int] = field(default_factory=list)
    """Of each value, the number of its prime; `COPY` where none is known."""
    outside: list[bool] = field(default_factory=list)
    """Of each value, whether it is read before it is written."""


class _Moduli:
    """The table at the head, and primes that instructions name themselves."""

    def __init__(self) -> None:
        self.table: list[int] = []
        self.numbers = {SENTINEL: COPY}

    def enter(self, place: int, prime: int) -> bool:
        """Whether this is the next line of the table: a gap would shift what every instruction means."""
        self.table.append(prime)
        self.numbers.setdefault(prime, len(self.numbers))
        return place == len(self.table) - 1

    def number(self, named: dict[str, int]) -> int | None:
        """Number of an instruction's modulus; `None`: it names none that could be one."""
        written = named.get("q", named.get("m"))
        if written is None:
            return COPY
        if "q" not in named and written < len(self.table):
            return self.numbers[self.table[written]]
        return self.numbers.setdefault(written, len(self.numbers)) if written >= LEAST_PRIME else None


def parse(lines: Iterable[str], where: str = "FHETCH text") -> FhetchProgram:
    """The program in these lines. Comments, and what follows `halt`, are passed over.

    Raises: TraceError: a line that is not an instruction, an instruction on numbers that are not integers, a table with
            a gap, two values of N, a file in binary, or more instructions than the limit.
    """
    program, moduli, most = FhetchProgram(), _Moduli(), most_operations()
    held: dict[int, int] = {}

    def value(modulus: int, *, outside: bool) -> int:
        program.modulus_of.append(modulus)
        program.outside.append(outside)
        return len(program.modulus_of) - 1

    def ring(ring_dim: int, number: int) -> None:
        if program.ring_dim not in (None, ring_dim):
            raise TraceError(f"{where}, line {number}: N is {ring_dim} here and {program.ring_dim} before")
        program.ring_dim = ring_dim

    for number, raw in enumerate(lines, 1):
        if number == 1 and raw.startswith(BINARY):
            raise TraceError(f"{where} is a binary file (.fhex): give the .fhetch text of the same program")
        if "#" in raw and (ring_match := _RING.fullmatch(raw.strip())):
            ring(_integer(ring_match[1]), number)
        text = raw.split("#", 1)[0].strip()
        if not text or text.startswith("modulus_count"):
            continue
        if entry := _MODULUS.fullmatch(text):
            if not moduli.enter(int(entry[1]), _integer(entry[2])):
                raise TraceError(f"{where}, line {number}: modulus {entry[1]} is not the next of the table")
            continue
        op, *parts = _GAP.split(text.rstrip(","))
        op = op.lower()
        if op == "halt":
            break
        if op not in _OPS:
            raise TraceError(f"{where}, line {number}: '{op[:40]}' is not an instruction on integer polynomials")
        addresses: list[int] = []
        named: dict[str, int] = {}
        numbers: list[int] = []
        for part in parts:
            name, written = _operand(part)
            if name == _AT:
                addresses.append(written)
            elif name:
                named[name] = written
            elif name is not None:
                numbers.append(written)
        modulus = moduli.number(named)
        wanted = 3 if op in TWO else 2
        understood = len(addresses) + len(named) + len(numbers) == len(parts)
        if not understood or len(addresses) != wanted or len(numbers) != (op in SCALAR) or modulus is None:
            raise TraceError(
                f"{where}, line {number}: '{text[:80]}' has not the operands of '{op}', or a modulus of no table"
            )
        if op == "sr_automorph_eval" and named.get("logn", 64) < 64:
            ring(1 << named["logn"], number)
        made, *sources = addresses
        scalar = numbers[0] if op in SCALAR else None
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
        if len(program.steps) == most:
            raise too_many(where, most, "instructions")
        held[made] = value(modulus or (program.modulus_of[reads[0]] if reads else COPY), outside=False)
        program.steps.append(
            LimbStep(ZERO if zeros else op, held[made], tuple(reads), modulus, scalar, named.get("k"), number)
        )
    if not program.steps:
        raise TraceError(f"{where}: no instruction; give a .fhetch file of polynomial instructions")
    return program


@lru_cache(maxsize=1 << 12)
def _operand(part: str) -> tuple[str | None, int]:
    """`_AT` and an address, a name and its number, no name and a number; `None`: none of them."""
    if match := _ADDRESS.fullmatch(part):
        return _AT, _integer(match[1])
    if match := _NAMED.fullmatch(part):
        return match[1], _integer(match[2])
    return ("", _integer(part)) if _SCALAR.fullmatch(part) else (None, 0)


def _integer(text: str) -> int:
    """Decimal, or hexadecimal after 0x."""
    return int(text, 16 if text[:2].lower() == "0x" else 10)
