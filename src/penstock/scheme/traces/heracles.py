"""Traces of Intel's HERACLES tools (Encrypted Computing SDK), both ways: one instruction a ciphertext operation.

Our own reading of the message `heracles.fhe_trace.Trace`. Source: github.com/IntelLabs/encrypted-computing-sdk, files
p-isa_tools/data_formats/proto/heracles/fhe_trace.proto and common.proto, and the names of instructions that its program
mapper knows (program_mapper/poly_program/poly_operation_library.h), commit 92662b8 of 2026-02-17.

A HERACLES trace states N, the number of primes of Q and of Q and P, and the digits, but no bits. Without a named
parameter set the bits are assumed. Values are in another file of theirs and are never read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.base.types import Row
from penstock.errors import ParamsError, TraceError
from penstock.scheme.operations import CONJ_KEY, KINDS, TRAITS, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces import wire
from penstock.scheme.traces.builder import TraceBuilder
from penstock.scheme.traces.io import most_operations, too_many
from penstock.scheme.traces.schema import CLIENT_KINDS, ORIGIN_CALLED, Trace, TraceMeta
from penstock.scheme.unpriced import added

CKKS_SCHEMES = {3: "ckks", 4: "openfhe_ckks"}
SCHEMES = {0: "unspecified", 1: "bgv", 2: "bfv", **CKKS_SCHEMES}
OWN = "bk_"
"""Instructions whose name begins so are bookkeeping: HERACLES' tools pass over them."""
GALOIS = "galois_elt"
UINT32 = 0
MOST_PRIMES = 1000
"""Of Q and P together; the longest chain of a program has a tenth of it."""
MOST_POLYNOMIALS = 100
"""Of an operand; a ciphertext has two, a product of several a few more."""
PARTS_EACH = 4
"""Operands and parameters of an instruction, on average at most."""
_SMALL = re.compile(r"\d{1,4}", re.ASCII)
_ELEMENT = re.compile(r"\d{1,9}", re.ASCII)

WRITTEN: dict[OpKind, str] = {
    OpKind.ADD: "add",
    OpKind.ADD_PLAIN: "add_plain",
    OpKind.SUB: "sub",
    OpKind.SUB_PLAIN: "sub",
    OpKind.MULT_NO_RELIN: "mul",
    OpKind.MULT_PLAIN: "mul_plain",
    OpKind.MULT_SCALAR: "muli",
    OpKind.RELINEARIZE: "relin",
    OpKind.ROTATE: "rotate",
    OpKind.ROTATE_HOISTED: "rotate",
    OpKind.CONJUGATE: "rotate",
    OpKind.RESCALE: "rescale",
}
"""Kinds that have an instruction. `mult` and `square` are two: a product of three polynomials, and `relin`."""

OWN_KINDS = frozenset({OpKind.ADD_SCALAR, OpKind.SUB_SCALAR, OpKind.NEGATE, OpKind.MOD_DROP, OpKind.MOD_RAISE})
"""Kinds that are read back from bookkeeping; those over Q and P are inside an operation of theirs."""


@dataclass(slots=True)
class Operand:
    """An operand: its symbol, its limbs, its polynomials (1 of a plaintext, 2 or 3 of a ciphertext)."""

    symbol: str = ""
    limbs: int = 0
    order: int = 0


@dataclass(slots=True)
class HeraclesCall:
    """One instruction: its name, its result, its operands, and its parameters by name."""

    op: str = ""
    dests: list[Operand] = field(default_factory=list)
    srcs: list[Operand] = field(default_factory=list)
    params: dict[str, str] = field(default_factory=dict)
    evalop: str = ""

    def parts(self) -> int:
        """Operands and parameters."""
        return len(self.dests) + len(self.srcs) + len(self.params)


@dataclass(slots=True)
class HeraclesTrace:
    """The message in the file."""

    instructions: list[HeraclesCall] = field(default_factory=list)
    scheme: int = 3
    ring_dim: int = 0
    key_rns_num: int = 0
    """Limbs of Q and P together."""
    q_size: int = 0
    dnum: int = 0
    alpha: int = 0


# The message.


def encode(trace: HeraclesTrace) -> bytes:
    """The bytes of the message."""
    parts = [wire.bytes_field(1, _encode_instruction(instruction)) for instruction in trace.instructions]
    numbers = (trace.scheme, trace.ring_dim, trace.key_rns_num, trace.q_size, trace.dnum, trace.alpha)
    return b"".join(parts + [wire.number_field(i, number) for i, number in enumerate(numbers, 2)])


def _encode_instruction(instruction: HeraclesCall) -> bytes:
    operands = b"".join(
        wire.bytes_field(
            number, wire.text_field(1, one.symbol) + wire.number_field(2, one.limbs) + wire.number_field(3, one.order)
        )
        for number, group in ((1, instruction.dests), (2, instruction.srcs))
        for one in group
    )
    for name, value in sorted(instruction.params.items()):
        parameter = wire.text_field(1, value) + wire.number_field(2, UINT32)
        operands += wire.bytes_field(3, wire.text_field(1, name) + wire.bytes_field(2, parameter))
    return wire.text_field(1, instruction.op) + wire.bytes_field(3, operands) + wire.text_field(4, instruction.evalop)


def decode(data: bytes) -> HeraclesTrace:
    """The message in these bytes; fields that a newer schema adds are passed over.

    Raises: TraceError: no such message, cut off, or more instructions than are read.
    """
    trace = HeraclesTrace(scheme=0)
    most, parts = most_operations(), 0
    names = {2: "scheme", 3: "ring_dim", 4: "key_rns_num", 5: "q_size", 6: "dnum", 7: "alpha"}
    for number, value in wire.fields(data):
        if number == 1:
            if len(trace.instructions) == most:
                raise too_many("the HERACLES trace", most, "instructions")
            instruction = _decode_instruction(wire.nested(value), PARTS_EACH * most - parts)
            parts += instruction.parts()
            trace.instructions.append(instruction)
        elif number in names:
            setattr(trace, names[number], wire.whole(value))
    return trace


def _decode_instruction(message: memoryview, most_parts: int) -> HeraclesCall:
    instruction = HeraclesCall()
    for number, value in wire.fields(message):
        if number == 1:
            instruction.op = wire.text(value)
        elif number == 4:
            instruction.evalop = wire.text(value)
        elif number == 3:
            for inner, content in wire.fields(wire.nested(value)):
                if inner in (1, 2):
                    (instruction.dests if inner == 1 else instruction.srcs).append(
                        _decode_operand(wire.nested(content))
                    )
                elif inner == 3:
                    entry = dict(wire.fields(wire.nested(content)))
                    parameter = dict(wire.fields(wire.nested(entry.get(2, memoryview(b"")))))
                    name = wire.text(entry.get(1, memoryview(b"")))
                    instruction.params[name] = wire.text(parameter.get(1, memoryview(b"")))
                if instruction.parts() > most_parts:
                    most = PARTS_EACH * most_operations()
                    raise too_many("the HERACLES trace", most, "operands and parameters")
    return instruction


def _decode_operand(message: memoryview) -> Operand:
    parts = dict(wire.fields(message))
    return Operand(
        symbol=wire.text(parts.get(1, memoryview(b""))),
        limbs=wire.whole(parts.get(2, 0)),
        order=wire.whole(parts.get(3, 0)),
    )


# From our trace.


def to_heracles(trace: Trace) -> tuple[bytes, dict[str, int]]:
    """A trace as HERACLES' tools read it, and how many operations of which kinds they will pass over.

    Composites are expanded, the client's operations are left out. A hoisted rotation becomes a rotation. A kind without
    an instruction is written as bookkeeping, `bk_<kind>`, which their tools skip; so is an operation that the trace
    left out. The implied scaling inside a call is a parameter that only penstock reads.
    """
    params = trace.parameters()
    objects = {row["id"]: row for row in trace.objects.to_pylist()}
    out = HeraclesTrace(
        ring_dim=params.ring_dim,
        key_rns_num=params.num_q + params.num_p,
        q_size=params.num_q,
        dnum=params.dnum,
        alpha=params.digit_limbs,
    )
    skipped: Counter[str] = Counter()
    for op in trace.view().operations.to_pylist():
        if op["kind"] in CLIENT_KINDS:
            continue
        kind = OpKind(op["kind"])
        if kind is OpKind.DECOMPOSE:
            continue
        made = [] if op["output"] is None else [_operand(objects[op["output"]], params)]
        ciphertexts = op["operands"][:1] if kind is OpKind.ROTATE_HOISTED else op["operands"]
        reads = [*ciphertexts, *([] if op["plaintext"] is None else [op["plaintext"]])]
        srcs = [_operand(objects[i], params) for i in reads]
        own = {name: str(op[name]) for name in ("implied_rescales", "implied_scalar_mults") if op[name]}
        if kind in (OpKind.MULT, OpKind.SQUARE):
            product = Operand(f"{made[0].symbol}_product", made[0].limbs, 3)
            first = "square" if kind is OpKind.SQUARE else "mul"
            out.instructions.append(HeraclesCall(first, [product], srcs, own, kind.value))
            out.instructions.append(HeraclesCall("relin", made, [product], {}, kind.value))
            continue
        if op["key"] is not None and kind is not OpKind.RELINEARIZE:
            element = 2 * params.ring_dim - 1 if op["key"] == CONJ_KEY else int(op["key"].split(":")[1])
            own[GALOIS] = str(element)
        name = WRITTEN.get(kind)
        if name is None:
            skipped[kind.value] += 1
            name = OWN + kind.value
        out.instructions.append(HeraclesCall(name, made, srcs, own, kind.value))
    left_out = trace.meta.left_out
    most = most_operations()
    if sum(left_out.values()) > most:
        raise too_many("the trace", most, "operations left out")
    out.instructions += [
        HeraclesCall(OWN + kind, evalop=kind) for kind, count in left_out.items() for _ in range(count)
    ]
    return encode(out), added([skipped, left_out])


def _operand(row: Row, params: CkksParameters) -> Operand:
    polynomials = row["bytes"] // params.polynomial_bytes(row["limbs"])
    order = int(polynomials) if row["class"] in ("ciphertext", "plaintext") else 2
    return Operand(f"{row['class']}_{row['id']}", row["limbs"], order)


# To our trace.


def from_heracles(data: bytes, params: CkksParameters | None = None, *, name: str = "heracles") -> Trace:
    """The trace in a HERACLES file.

    Args:   params: the parameter set of the program; without it one is made of the header, with bits that are assumed;
            name: of the program.
    Returns: a trace whose notes count the skipped instructions; `left_out` has the operations among them.
    Raises: TraceError: another scheme than CKKS, polynomials instead of ciphertexts, limbs that the set does not have.
    """
    message = decode(data)
    if message.scheme not in CKKS_SCHEMES:
        scheme = SCHEMES.get(message.scheme, str(message.scheme))
        raise TraceError(f"a HERACLES trace of scheme '{scheme}'; penstock prices CKKS: 'ckks' or 'openfhe_ckks'")
    if not message.instructions:
        raise TraceError("a HERACLES trace without instructions, or another message; give its program trace")
    chosen = assumed_set(message) if params is None else checked_set(message, params)
    reader = _Reader(chosen)
    for index, instruction in enumerate(merged(message.instructions)):
        reader.add(index, *instruction)
    notes = [f"read from a HERACLES trace of {len(message.instructions)} instructions"]
    if params is None:
        notes.append("bits of primes, secret and security are assumed: the HERACLES trace does not state them")
    notes += [f"passed over: {count} {op}" for op, count in reader.passed_over.items()]
    meta = TraceMeta(
        workload=name,
        params=chosen.to_dict(),
        reading="heracles",
        notes=tuple(notes),
        left_out=dict(reader.left_out),
    )
    return reader.builder.finish(meta)


SHORTEST = 20
"""Bits of the primes that a program may have."""


def assumed_set(message: HeraclesTrace) -> CkksParameters:
    from penstock.scheme.params.spec import CkksSpec

    every = [one for instruction in message.instructions for one in (*instruction.dests, *instruction.srcs)]
    num_q = message.q_size or max((one.limbs for one in every), default=1)
    num_p = message.key_rns_num - num_q
    if max(num_q, num_p, message.dnum) > MOST_PRIMES:
        raise TraceError(
            f"the header states {num_q} primes of Q, {num_p} special ones and dnum {message.dnum}; no set has more "
            f"than {MOST_PRIMES} of any: it is damaged, or no program trace"
        )
    if num_p < 1:
        raise TraceError(
            f"the header states {message.key_rns_num} primes of Q and P, and {num_q} of Q: it leaves no special prime; "
            "name the parameter set with --params"
        )
    dnum = message.dnum or -(-num_q // num_p)
    longest = -(-num_q // dnum)
    # The special primes hold the longest digit.
    first, bits = 60, 50 if longest < 2 else min(50, (60 * num_p - 60) // (longest - 1))
    if bits < SHORTEST:  # too little is left next to a first prime of 60 bits: all are equally long
        first = bits = 60 * num_p // longest
    try:
        return CkksSpec(
            name="heracles",
            ring_dim=message.ring_dim,
            q_bits=(first, *[bits] * (num_q - 1)),
            p_bits=(60,) * num_p,
            scale_bits=bits,
            dnum=dnum,
            library="accelerator",
            security="none",
            word_bits=64,
            source="header of a HERACLES trace",
            assumed=("q_bits", "p_bits", "scale_bits", "secret", "word_bits"),
        ).build()
    except ParamsError as error:
        raise TraceError(
            f"no parameter set can be made of the header ({num_q} primes of Q, {num_p} special ones, dnum {dnum}): "
            f"{error}; name the set with --params"
        ) from error


def checked_set(message: HeraclesTrace, params: CkksParameters) -> CkksParameters:
    stated = {
        "N": message.ring_dim,
        "primes of Q": message.q_size,
        "primes of Q and P": message.key_rns_num,
        "dnum": message.dnum,
    }
    given = (params.ring_dim, params.num_q, params.num_q + params.num_p, params.dnum)
    wrong = [f"{what} {a}, the set {b}" for (what, a), b in zip(stated.items(), given, strict=True) if a and a != b]
    if wrong:
        raise TraceError(f"parameter set '{params.name}' is not that of the trace: it states {'; '.join(wrong)}")
    return params


def merged(instructions: list[HeraclesCall]) -> Iterator[tuple[HeraclesCall, OpKind | None]]:
    """Instructions; a product and the `relin` of it that follows at once are one, of kind `mult` or `square`."""
    uses = Counter(one.symbol for instruction in instructions for one in instruction.srcs)
    at = 0
    while at < len(instructions):
        instruction = instructions[at]
        after = instructions[at + 1] if at + 1 < len(instructions) else None
        product = (
            instruction.op.lower() in ("mul", "square")
            and len(instruction.dests) == 1
            and instruction.dests[0].order == 3
        )
        if product and after is not None and after.op.lower() == "relin" and len(after.srcs) == 1:
            symbol = instruction.dests[0].symbol
            if after.srcs[0].symbol == symbol and uses[symbol] == 1:
                kind = OpKind.SQUARE if instruction.op.lower() == "square" else OpKind.MULT
                yield (
                    HeraclesCall(instruction.op, after.dests, instruction.srcs, instruction.params, instruction.evalop),
                    kind,
                )
                at += 2
                continue
        yield instruction, None
        at += 1


def unknown_kind(instruction: HeraclesCall) -> OpKind | None:
    """The kind of an operation that a reader passes over; `None`: bookkeeping, or the client's.

    One with a separate instruction that lost its operands is a composite too: nobody knows its limbs and its key.

    >>> [unknown_kind(HeraclesCall(op)) for op in ("bk_composite", "bk_free", "Bootstrap")]
    [<OpKind.COMPOSITE: 'composite'>, None, <OpKind.BOOTSTRAP: 'bootstrap'>]
    """
    op = instruction.op.lower()
    name = op.removeprefix(OWN)
    if name not in KINDS:
        evaluates = not op.startswith(OWN) and any(one.order > 1 for one in instruction.srcs)
        return OpKind.COMPOSITE if evaluates else None
    kind = OpKind(name)
    if name in CLIENT_KINDS or kind is OpKind.DECOMPOSE:  # a hoisted rotation is read as a whole one
        return None
    return kind if TRAITS[kind].composite else OpKind.COMPOSITE


class _Reader:
    """Turns instructions into operations. A symbol that is made again is a new object."""

    def __init__(self, params: CkksParameters) -> None:
        self.params, self.builder = params, TraceBuilder(params)
        self.passed_over: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self._objects: dict[str, int] = {}

    def add(self, index: int, instruction: HeraclesCall, kind: OpKind | None) -> None:
        where = f"instruction {index} ({instruction.op})"
        named = kind or self._kind(instruction, where)
        if named is None:
            self.passed_over[instruction.op] += 1
            if (unknown := unknown_kind(instruction)) is not None:
                self.left_out[unknown.value] += 1
            return
        for one in (*instruction.srcs, *instruction.dests):
            if not 1 <= one.limbs <= self.params.num_q:
                raise TraceError(
                    f"{where}: '{one.symbol}' has {one.limbs} limbs; the set has 1 to {self.params.num_q}; name another"
                    " with --params"
                )
            if one.order > MOST_POLYNOMIALS:
                raise TraceError(
                    f"{where}: '{one.symbol}' has {one.order} polynomials; a ciphertext has two or a few more: it is "
                    "damaged, or no program trace"
                )
        plain = [one for one in instruction.srcs if one.order == 1]
        cipher = [one for one in instruction.srcs if one.order != 1]
        if named is OpKind.SQUARE:
            cipher = cipher[:1]
        wanted = TRAITS[named].operands
        if len(cipher) != wanted or len(instruction.dests) != 1:
            raise TraceError(
                f"{where}: {len(cipher)} ciphertexts in and {len(instruction.dests)} out; it has {wanted} and 1"
            )
        operands = [self._seen(one, instruction.op) for one in cipher]
        plaintext = self._seen(plain[0], instruction.op, plaintext=True) if plain else None
        dest = instruction.dests[0]
        output = self._objects[dest.symbol] = self.builder.ciphertext(dest.limbs, dest.order or 2)
        implied = {name: _implied(instruction, name, where) for name in ("implied_rescales", "implied_scalar_mults")}
        limbs = min(one.limbs for one in instruction.srcs)
        if implied["implied_rescales"] and named not in (OpKind.RESCALE, OpKind.MOD_DROP):
            limbs = dest.limbs  # it computes behind the rescale of its operands
        elif named is OpKind.MOD_DROP:
            limbs -= implied["implied_rescales"]
        self.builder.add(
            named,
            limbs_in=limbs,
            limbs_out=dest.limbs,
            operands=operands,
            output=output,
            key=self._key(named, instruction, where),
            plaintext=plaintext,
            origin=ORIGIN_CALLED,
            **implied,
        )

    def _kind(self, instruction: HeraclesCall, where: str) -> OpKind | None:
        op = instruction.op.lower()
        plain = any(one.order == 1 for one in instruction.srcs)
        if op in ("ntt", "intt"):
            raise TraceError(f"{where}: this is a trace of polynomials; give the program trace before it was mapped")
        if op.startswith(OWN):
            own = op.removeprefix(OWN)
            known = (
                own in (kind.value for kind in OpKind)
                and instruction.dests
                and all(one.order > 1 for one in instruction.dests)
            )
            kind = OpKind(own) if known else None
            return kind if kind in OWN_KINDS else None
        if op == "rotate" and instruction.params.get(GALOIS) == str(2 * self.params.ring_dim - 1):
            return OpKind.CONJUGATE
        if op == "mul":
            return OpKind.MULT_PLAIN if plain else OpKind.MULT_NO_RELIN
        return {
            "add": OpKind.ADD_PLAIN if plain else OpKind.ADD,
            "add_plain": OpKind.ADD_PLAIN,
            "sub": OpKind.SUB_PLAIN if plain else OpKind.SUB,
            "mul_plain": OpKind.MULT_PLAIN,
            "muli": OpKind.MULT_SCALAR,
            "negate": OpKind.NEGATE,
            "relin": OpKind.RELINEARIZE,
            "rotate": OpKind.ROTATE,
            "rescale": OpKind.RESCALE,
            "mod_switch": OpKind.RESCALE,
        }.get(op)

    def _key(self, kind: OpKind, instruction: HeraclesCall, where: str) -> str | None:
        wanted = TRAITS[kind].key
        if wanted != "rot":
            return wanted
        element = instruction.params.get(GALOIS, "")
        if not _ELEMENT.fullmatch(element) or int(element) % 2 == 0 or int(element) >= 2 * self.params.ring_dim:
            raise TraceError(
                f"{where}: it has no odd '{GALOIS}' below 2N ({element[:40] or 'none'}), so its key is not known"
            )
        return f"rot:{int(element)}"

    def _seen(self, one: Operand, op: str, *, plaintext: bool = False) -> int:
        if one.symbol not in self._objects:
            make = self.builder.plaintext if plaintext else self.builder.ciphertext
            self._objects[one.symbol] = make(one.limbs, name=one.symbol)
        return self._objects[one.symbol]


def _implied(instruction: HeraclesCall, name: str, where: str) -> int:
    """What automatic scaling does inside an instruction, as penstock writes it."""
    written = instruction.params.get(name, "0")
    if not _SMALL.fullmatch(written):
        raise TraceError(f"{where}: '{name}' is '{written[:40]}'; it is a whole number from 0 to 9999")
    return int(written)
