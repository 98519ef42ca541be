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
    parser = _Parser(where)
    for number, raw in enumerate(lines, 1):
        if number == 1 and raw.startswith(BINARY):
            raise TraceError(f"{where} is a binary file (.fhex): give the .fhetch text of the same program")
        if not parser.read(number, raw):
            break
    if not parser.program.steps:
        raise TraceError(f"{where}: no instruction; give a .fhetch file of polynomial instructions")
    return parser.program


class _Parser:
    """The program so far, and which value each address holds."""

    def __init__(self, where: str) -> None:
        self.program, self._where, self._most = FhetchProgram(), where, most_operations()
        self._moduli = _Moduli()
        self._held: dict[int, int] = {}

    def read(self, number: int, raw: str) -> bool:
        """Take a line; whether more of them may follow. Raises: as `parse`."""
        if "#" in raw and (ring_match := _RING.fullmatch(raw.strip())):
            self._ring(_integer(ring_match[1]), number)
        text = raw.split("#", 1)[0].strip()
        if not text or text.startswith("modulus_count"):
            return True
        if entry := _MODULUS.fullmatch(text):
            if not self._moduli.enter(int(entry[1]), _integer(entry[2])):
                raise self._error(number, f"modulus {entry[1]} is not the next of the table")
            return True
        op, *parts = _GAP.split(text.rstrip(","))
        op = op.lower()
        if op == "halt":
            return False
        if op not in _OPS:
            raise self._error(number, f"'{op[:40]}' is not an instruction on integer polynomials")
        operands = [_operand(part) for part in parts]
        addresses = [address for name, address in operands if name == _AT]
        numbers = [scalar for name, scalar in operands if name == ""]
        named = {name: written for name, written in operands if name and name != _AT}
        modulus = self._moduli.number(named)
        understood = len(addresses) + len(named) + len(numbers) == len(parts)
        fits = len(addresses) == (3 if op in TWO else 2) and len(numbers) == (op in SCALAR)
        if not understood or not fits or modulus is None:
            raise self._error(number, f"'{text[:80]}' has not the operands of '{op}', or a modulus of no table")
        if op == "sr_automorph_eval" and named.get("logn", 64) < 64:
            self._ring(1 << named["logn"], number)
        self._add(op, addresses, modulus, numbers[0] if op in SCALAR else None, named.get("k"), number)
        return True

    def _add(
        self, op: str, addresses: list[int], modulus: int, scalar: int | None, element: int | None, number: int
    ) -> None:
        """Add the step of an instruction; a copy is none."""
        program, held = self.program, self._held
        made, *sources = addresses
        zeros = op == "sr_mulps" and scalar == 0
        reads = []
        for source in () if zeros else sources:
            if source not in held:
                held[source] = self._value(modulus, outside=True)
            elif program.modulus_of[held[source]] == COPY:
                program.modulus_of[held[source]] = modulus
            reads.append(held[source])
        if op == "sr_addps" and scalar == 0 and modulus == COPY:
            held[made] = reads[0]  # a copy is the same value
            return
        if len(program.steps) == self._most:
            raise too_many(self._where, self._most, "instructions")
        held[made] = self._value(modulus or (program.modulus_of[reads[0]] if reads else COPY), outside=False)
        program.steps.append(
            LimbStep(ZERO if zeros else op, held[made], tuple(reads), modulus, scalar, element, number)
        )

    def _value(self, modulus: int, *, outside: bool) -> int:
        self.program.modulus_of.append(modulus)
        self.program.outside.append(outside)
        return len(self.program.modulus_of) - 1

    def _ring(self, ring_dim: int, number: int) -> None:
        if self.program.ring_dim not in (None, ring_dim):
            raise self._error(number, f"N is {ring_dim} here and {self.program.ring_dim} before")
        self.program.ring_dim = ring_dim

    def _error(self, number: int, fault: str) -> TraceError:
        return TraceError(f"{self._where}, line {number}: {fault}")


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
