"""HERACLES' program traces with their file of values as packages.

The trace names operands by symbols; the other file, the message `heracles.data.TestVector`, holds polynomials by
symbol. Plaintexts become constants; ciphertexts, which it may hold too, are not read.
Source: github.com/IntelLabs/encrypted-computing-sdk, file p-isa_tools/data_formats/proto/heracles/data.proto, commit
69becbf.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import TraceError
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import Input, Output, Package, Verb
from penstock.program.package.file import PackageFile
from penstock.scheme.operations import OpKind, rotation_steps
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces import wire
from penstock.scheme.traces.heracles import (
    CKKS_SCHEMES,
    GALOIS,
    OWN,
    HeraclesCall,
    HeraclesTrace,
    Operand,
    assumed_set,
    checked_set,
    decode,
    merged,
    unknown_kind,
)

SCALAR = "scalar"
"""The parameter of an instruction that holds a number."""
MOST_WORDS = 1 << 30
"""Coefficients of all polynomials of a file of values."""
_KINDS: dict[str, OpKind] = {
    "negate": OpKind.NEGATE,
    "relin": OpKind.RELINEARIZE,
    "rescale": OpKind.RESCALE,
    "mod_switch": OpKind.RESCALE,
}
_PAIRS = {
    "add": (Verb.ADD, Verb.ADD_PLAIN),
    "add_plain": (Verb.ADD, Verb.ADD_PLAIN),
    "sub": (Verb.SUB, Verb.SUB_PLAIN),
    "mul": (Verb.MULT_NO_RELIN, Verb.MULT_PLAIN),
    "mul_plain": (Verb.MULT_NO_RELIN, Verb.MULT_PLAIN),
}


@dataclass(frozen=True, slots=True)
class Residues:
    """One polynomial: (N,) coefficients modulo each prime."""

    rows: tuple[tuple[int, npt.NDArray[np.uint64]], ...]
    evaluated: bool
    """Whether these are evaluations, not coefficients."""


def package_of_heracles(
    trace: bytes, values: bytes, sink: PackageFile, params: CkksParameters | None = None, *, name: str = "heracles"
) -> Package:
    """The package of a trace and its values.

    Args:   trace, values: the bytes of both messages; sink: takes the constants; params: the parameter set; without it
            one is made of the header, with bits that are assumed.
    Raises: TraceError: another scheme, an instruction that no package has, a plaintext without a value, a number that
            is not there, or a file that is damaged.
    """
    decoded = decode(trace)
    if decoded.scheme not in CKKS_SCHEMES:
        raise TraceError("a HERACLES trace of another scheme than CKKS; a package holds CKKS programs")
    chosen = assumed_set(decoded) if params is None else checked_set(decoded, params)
    return _Builder(decoded, dict(polynomials(values)), sink, chosen).package(name)


def polynomials(data: bytes) -> Iterator[tuple[str, tuple[Residues, ...]]]:
    """Symbols of a file of values, each with its polynomials.

    Raises: TraceError: no such message, or cut off; more coefficients than are read.
    """
    words = 0
    for number, value in wire.fields(data):
        if number != 1:
            continue
        entry = dict(wire.fields(wire.nested(value)))
        symbol = wire.text(entry.get(1, memoryview(b"")))
        held = dict(wire.fields(wire.nested(entry.get(2, memoryview(b"")))))
        parts, evaluated = [], False
        for inner, content in wire.fields(wire.nested(held.get(1, memoryview(b"")))):
            if inner == 1:
                parts.append(wire.nested(content))
            elif inner == 2:
                evaluated = bool(wire.whole(content))
        made = tuple(_polynomial(part, symbol, evaluated=evaluated) for part in parts)
        words += sum(len(row) for residues in made for _, row in residues.rows)
        if words > MOST_WORDS:
            raise TraceError(f"the file of values has more than {MOST_WORDS:,} coefficients; it is not read")
        yield symbol, made


def _polynomial(message: memoryview, symbol: str, *, evaluated: bool) -> Residues:
    rows = []
    for number, value in wire.fields(message):
        if number == 1:
            rows.append(_row(wire.nested(value), symbol))
        elif number == 3:
            evaluated |= bool(wire.whole(value))
    return Residues(tuple(rows), evaluated)


def _row(message: memoryview, symbol: str) -> tuple[int, npt.NDArray[np.uint64]]:
    """Modulus and coefficients of one limb."""
    coefficients: list[int] = []
    modulus = 0
    for number, value in wire.fields(message):
        if number == 2:
            modulus = wire.whole(value)
        elif number == 1:
            coefficients += [value] if isinstance(value, int) else wire.packed(value)
    if modulus < 2 or any(coefficient >= modulus for coefficient in coefficients):
        raise TraceError(f"value '{symbol}': coefficients are below their modulus, and it is {modulus}: it is damaged")
    return modulus, np.asarray(coefficients, dtype=np.uint64)


def integers(residues: Residues, symbol: str, ring_dim: int) -> npt.NDArray[np.int64]:
    """(N,) signed coefficients: what all limbs agree on.

    Raises: TraceError: evaluations, another length, or coefficients of more than 62 bits.
    """
    if residues.evaluated:
        raise TraceError(
            f"value '{symbol}' is in evaluation form; write the values as coefficients (in_ntt_form = false)"
        )
    if not residues.rows or any(len(row) != ring_dim for _, row in residues.rows):
        raise TraceError(f"value '{symbol}': a limb has {ring_dim} coefficients, as N of the trace says")
    modulus, total = 1, np.zeros(ring_dim, dtype=object)
    for prime, row in residues.rows:
        # Garner: from the residue modulo the primes so far to one prime more.
        missing = (row.astype(object) - total) * pow(modulus, -1, prime) % prime
        total = total + missing * modulus
        modulus *= prime
    centred = np.where(total > modulus // 2, total - modulus, total)
    if any(abs(coefficient) >= 1 << 62 for coefficient in centred):
        raise TraceError(f"value '{symbol}' has coefficients of more than 62 bits: no encoded plaintext has")
    return centred.astype(np.int64)


class _Builder:
    """Instructions to calls. A symbol that is made again is a new value."""

    def __init__(
        self,
        trace: HeraclesTrace,
        values: Mapping[str, tuple[Residues, ...]],
        sink: PackageFile,
        params: CkksParameters,
    ) -> None:
        self._trace, self._given, self._sink, self.params = trace, values, sink, params
        self._builder = PackageBuilder(sink)
        self._numbers: dict[str, int] = {}
        self._constants: dict[str, int] = {}
        self._unused: dict[str, int] = {}

    def package(self, name: str) -> Package:
        for index, (call, kind) in enumerate(merged(self._trace.instructions)):
            self._add(call, kind, f"instruction {index} ({call.op})")
        for symbol, value in self._unused.items():
            self._builder.output(value, Output(symbol, self.params.slots))
        return self._builder.finish(name, self.params, self._sink, provenance={"format": "HERACLES"})

    def _add(self, call: HeraclesCall, kind: OpKind | None, where: str) -> None:
        op = call.op.lower()
        plain = [one for one in call.srcs if one.order == 1]
        cipher = [self._value(one) for one in call.srcs if one.order != 1]
        if op.startswith(OWN) and not cipher and unknown_kind(call) is None:
            return  # bookkeeping
        if len(call.dests) != 1 or not cipher:
            raise TraceError(f"{where}: {len(cipher)} ciphertexts in and {len(call.dests)} out; a call has some and 1")
        made = self._call(op, call, kind, cipher, plain, where)
        for value in cipher:
            self._unused = {symbol: held for symbol, held in self._unused.items() if held != value}
        symbol = call.dests[0].symbol
        self._numbers[symbol] = self._unused[symbol] = made

    def _call(
        self,
        op: str,
        call: HeraclesCall,
        kind: OpKind | None,
        cipher: list[int],
        plain: list[Operand],
        where: str,
    ) -> int:
        add = self._builder.add
        if kind is not None:
            return add(Verb(kind.value), cipher[:1] if kind is OpKind.SQUARE else cipher)
        if op == "muli":
            return add(Verb.MULT_SCALAR, cipher, number=self._scalar(call, where))
        if op == "rotate":
            return self._rotation(call, cipher, where)
        if op in _KINDS:
            return add(Verb(_KINDS[op].value), cipher)
        if op in _PAIRS:
            with_cipher, with_plain = _PAIRS[op]
            if plain:
                return add(with_plain, cipher, constants=[self._constant(plain[0], where)])
            return add(with_cipher, cipher if len(cipher) == 2 else [cipher[0], cipher[0]])
        raise TraceError(f"{where}: no call of a package; it takes add, sub, mul, muli, negate, relin, rotate, rescale")

    def _value(self, one: Operand) -> int:
        if one.symbol not in self._numbers:
            given = Input(one.symbol, self.params.slots, 0 if one.limbs == self.params.num_q else one.limbs)
            self._numbers[one.symbol] = self._builder.encrypt(given)
        return self._numbers[one.symbol]

    def _constant(self, one: Operand, where: str) -> int:
        if one.symbol not in self._constants:
            held = self._given.get(one.symbol)
            if not held:
                raise TraceError(f"{where}: plaintext '{one.symbol}' has no value in the file of values")
            whole = integers(held[0], one.symbol, self.params.ring_dim)
            self._constants[one.symbol] = self._sink.add_coefficients(whole, -self.params.scale_bits)
        return self._constants[one.symbol]

    def _rotation(self, call: HeraclesCall, cipher: list[int], where: str) -> int:
        text = call.params.get(GALOIS, "")
        element = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
        if element == 2 * self.params.ring_dim - 1:
            return self._builder.add(Verb.CONJUGATE, cipher)
        step = rotation_steps(self.params.ring_dim).get(element)
        if step is None:
            raise TraceError(f"{where}: '{GALOIS}' is '{text[:40]}', and no rotation of the slots has it")
        return self._builder.add(Verb.ROTATE, cipher, argument=step % (self.params.ring_dim // 2))

    def _scalar(self, call: HeraclesCall, where: str) -> float:
        try:
            factor = float(call.params[SCALAR])
        except (KeyError, ValueError):
            raise TraceError(f"{where}: a product with a number states it as the parameter '{SCALAR}'") from None
        if not np.isfinite(factor):
            raise TraceError(f"{where}: '{SCALAR}' is {factor}")
        return factor
