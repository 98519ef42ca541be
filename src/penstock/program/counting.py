"""The counting reading: a program's tally without a trace, an order of magnitude sooner.

It is the `trace` reading that keeps no rows. What an operation does to limbs, scale and counts is learned from the
`trace` reading's own rules the first time that operands of these states meet, and repeated after that. A composite is
expanded once for each state of its operand, and the expansion is kept for every program at parameters of its structure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from penstock.machines.shapes import Shape
from penstock.operations import OpKind, rotation_key
from penstock.params.ckks import CkksParameters
from penstock.program.evaluator import Plain, Values, padded
from penstock.program.recording import Cipher
from penstock.program.scaling import ScaleState
from penstock.program.symbolic import SymbolicEvaluator
from penstock.program.tally import Tally, peak
from penstock.program.tally_builder import TallyBuilder


@dataclass(slots=True)
class _Move:
    """What operands of certain states lead to."""

    shape: Shape
    state: ScaleState
    polynomials: int
    size: int
    """Bytes of the result."""
    count: int = 0


@dataclass(frozen=True, slots=True)
class _Expansion:
    """The tally of one composite."""

    builder: TallyBuilder
    own: list[int]
    """Objects that only it sees: its ciphertexts and digits."""
    state: ScaleState
    """Of its result."""
    plaintexts: frozenset[tuple[Hashable, int]]
    """(identity, limbs) of those that it multiplies by: a composite that is called alike has the same ones again."""
    held: dict[tuple[int, int], int] = field(default_factory=dict)

    def besides(self, params: CkksParameters) -> int:
        """Bytes of its own objects at their most."""
        digits = (params.dnum, params.num_p)
        if digits not in self.held:
            columns = (self.builder.first, self.builder.last, self.builder.sizes(params))
            first, last, size = ([values[i] for i in self.own] for values in columns)
            self.held[digits] = peak(first, last, size)
        return self.held[digits]


Expansions = dict[Hashable, _Expansion]


@lru_cache(maxsize=64)
def _expansions(of: Hashable) -> Expansions:
    """Those known at parameters of this structure; it fills as programs are read."""
    return {}


@lru_cache(maxsize=4096)
def structure(params: CkksParameters) -> Hashable:
    """What of the parameters a program's operations depend on: sets of one structure run the same ones.

    Digits and special primes are not in it: they make operations cost more or less, and digits larger.
    """
    p = params
    return (p.ring_dim, p.slots, p.num_q, p.num_p > 0, p.scaling, p.secret, p.word_bits, p.library, p.bootstrap)


class CountingEvaluator(SymbolicEvaluator):
    """Counts what the program calls. One evaluator belongs to one run of a program."""

    builder: TallyBuilder

    def __init__(self, params: CkksParameters) -> None:
        super().__init__(params, TallyBuilder(params))
        self._moves: dict[str, dict[int, _Move]] = {kind.value: {} for kind in OpKind}
        self._galois: dict[int, str] = {}
        self._plaintext_bytes: dict[int, int] = {}
        self._known = _expansions(structure(params))
        self._composites: dict[str, int] = {}
        self._expanded: dict[int, tuple[_Expansion, int]] = {}
        """Expansions that this program uses, by id, and how often."""
        self._composite_steps: dict[int, _Expansion] = {}

    def tally(self, workload: str, size: str, params: CkksParameters | None = None) -> Tally:
        """The tally of what was called so far, at the parameters that it was called at or others of their structure."""
        builder, params = self.builder, params or self.params
        counts = dict(builder.counts)
        for moves in self._moves.values():
            for move in moves.values():
                counts[move.shape] = counts.get(move.shape, 0) + move.count
        calls = dict(self._composites)
        for shape, count in counts.items():
            calls[shape.kind] = calls.get(shape.kind, 0) + count
        inside: set[tuple[Hashable, int]] = set()
        for expansion, times in self._expanded.values():
            inside.update(expansion.plaintexts)
            for shape, count in expansion.builder.counts.items():
                counts[shape] = counts.get(shape, 0) + times * count
        return Tally(
            workload=workload,
            size=size,
            params=params,
            counts=counts,
            calls={kind.value: calls[kind.value] for kind in OpKind if calls.get(kind.value)},
            keys=dict(builder.keys),
            composite_keys=frozenset(key for each, _ in self._expanded.values() for key in each.builder.keys),
            live_bytes=peak(
                builder.first,
                builder.last,
                builder.sizes(params),
                {step: expansion.besides(params) for step, expansion in self._composite_steps.items()},
            ),
            encodings=_by_limbs(builder.plaintexts.values()),
            composite_encodings=_by_limbs(inside),
        )

    def encode(self, values: Values | Callable[[], Values], *, name: str | None = None) -> Plain:
        # A vector in full needs no copy; one that is still to be made is not made.
        full = callable(values) or values.shape == (self.params.slots,)
        return Plain(values, name) if full else super().encode(values, name=name)

    def encrypt(self, values: Values, *, name: str | None = None) -> Cipher:
        if values.shape != (self.params.slots,):
            values = padded(values, self.params.slots)
        return super().encrypt(values, name=name)

    def scope(self, name: str) -> AbstractContextManager[str]:
        return nullcontext(name)

    def _rotation_key(self, step: int) -> str:
        key = self._galois.get(step)
        if key is None:
            key = self._galois[step] = rotation_key(step, self.params.ring_dim)
        return key

    # Operations. The first of its states goes through the rules of the `trace` reading.
    def _two(self, kind: OpKind, a: Cipher, b: Cipher, *, key: str | None = None) -> Cipher:
        moves, code = self._moves[kind._value_], _code(a) << 32 | _code(b)
        move = moves.get(code)
        if move is None:
            result = super()._two(kind, a, b, key=key)
            moves[code] = self._learned(result)
            return result
        self.builder.last[b.object_id] = self.builder.step
        return self._repeated(move, a, key)

    def _one(
        self,
        kind: OpKind,
        a: Cipher,
        *,
        key: str | None = None,
        plain: Plain | None = None,
        scalar: complex | None = None,
        step: int | None = None,
        extra: Any = None,
    ) -> Cipher:
        moves, code = self._moves[kind._value_], _code(a)
        move = moves.get(code)
        if move is None:
            result = super()._one(kind, a, key=key, plain=plain, scalar=scalar, step=step, extra=extra)
            moves[code] = self._learned(result)
            return result
        if plain is not None:
            self._use(plain, move.state.limbs)
        return self._repeated(move, a, key)

    def _rotate_hoisted(self, a: Cipher, digits: Cipher, step: int) -> Cipher:
        moves, code = self._moves[OpKind.ROTATE_HOISTED._value_], _code(a)
        move = moves.get(code)
        if move is None:
            result = super()._rotate_hoisted(a, digits, step)
            moves[code] = self._learned(result)
            return result
        self.builder.last[digits.object_id] = self.builder.step
        return self._repeated(move, a, self._rotation_key(step))

    def _drop(self, kind: OpKind, a: Cipher, limbs: int, degree: int) -> Cipher:
        moves, code = self._moves[kind._value_], (_code(a) << 20 | limbs) << 4 | degree
        move = moves.get(code)
        if move is None:
            result = super()._drop(kind, a, limbs, degree)
            moves[code] = self._learned(result)
            return result
        return self._repeated(move, a, None)

    def _learned(self, result: Cipher) -> _Move:
        builder = self.builder
        assert builder.shape is not None
        return _Move(builder.shape, result.state, result.polynomials, builder.size[result.object_id])

    def _repeated(self, move: _Move, a: Cipher, key: str | None) -> Cipher:
        builder = self.builder
        step, made = builder.step, len(builder.first)
        move.count += 1
        builder.first.append(step)
        builder.last.append(step)
        builder.size.append(move.size)
        builder.last[a.object_id] = step
        builder.step = step + 1
        if key is not None and builder.keys.get(key, 0) < move.shape.limbs_in:
            builder.keys[key] = move.shape.limbs_in
        if move.polynomials == 3:
            builder.three.add(made)
        return Cipher(made, move.state, move.polynomials)

    def _use(self, plain: Plain, limbs: int) -> None:
        """The encoding of a plaintext at `limbs` limbs is used in this step."""
        builder = self.builder
        objects = plain.encoded.setdefault("objects", {})
        known = objects.get((id(builder), limbs))
        if known is not None:
            builder.last[known] = builder.step
            return
        size = self._plaintext_bytes.get(limbs)
        if size is None:
            size = self._plaintext_bytes[limbs] = self.params.plaintext_bytes(limbs)
        known = objects[id(builder), limbs] = len(builder.first)
        builder.first.append(builder.step)
        builder.last.append(builder.step)
        builder.size.append(size)
        builder.plaintexts[known] = (plain.name, limbs)

    # Composites.
    def _composite(
        self,
        kind: OpKind,
        name: str,
        a: Cipher,
        circuit: Callable[[Any, Cipher], Cipher],
        extra: Any = None,
    ) -> Cipher:
        called = (kind.value, (tuple(extra[0]), *extra[1:]) if extra is not None else None)
        expansion = self._known.get((called, _code(a)))
        if expansion is None:
            expansion = self._known[called, _code(a)] = _expand(self.params, a, circuit, called)
        builder = self.builder
        if id(expansion) not in self._expanded:
            for key, limbs in expansion.builder.keys.items():
                builder.keys[key] = max(builder.keys.get(key, 0), limbs)
        self._expanded[id(expansion)] = (expansion, self._expanded.get(id(expansion), (expansion, 0))[1] + 1)
        self._composites[kind.value] = self._composites.get(kind.value, 0) + 1
        self._composite_steps[builder.step] = expansion
        builder.last[a.object_id] = builder.step
        result = Cipher(builder.ciphertext(expansion.state.limbs), expansion.state)
        builder.step += 1
        return result


def _code(a: Cipher) -> int:
    """State and polynomials as one number."""
    state = a.state
    return state.limbs << 8 | state.degree << 4 | a.polynomials


def _by_limbs(plaintexts: Iterable[tuple[Hashable, int]]) -> dict[int, int]:
    return dict(sorted(Counter(limbs for _, limbs in plaintexts).items()))


def _expand(
    params: CkksParameters, a: Cipher, circuit: Callable[[Any, Cipher], Cipher], called: Hashable
) -> _Expansion:
    builder = TallyBuilder(params)
    operand = Cipher(builder.ciphertext(a.state.limbs, a.polynomials), a.state, a.polynomials)
    result = circuit(SymbolicEvaluator(params, builder), operand)
    ends = {operand.object_id, result.object_id}
    return _Expansion(
        builder=builder,
        own=[i for i in range(len(builder.first)) if i not in ends and i not in builder.plaintexts],
        state=result.state,
        plaintexts=frozenset(((called, name), limbs) for name, limbs in builder.plaintexts.values()),
    )


def count_variants(name: str, variants: Sequence[CkksParameters], size: str | None = None) -> list[Tally]:
    """The tallies of a workload at several sets of one structure: the program is read once.

    Raises: as `count_workload`.
    """
    from penstock.program.reading import resolve

    workload, size_name, checked = resolve(name, variants[0], size)
    chosen = workload.SIZES[size_name]
    evaluator = CountingEvaluator(checked)
    workload.program(evaluator, _blank(workload, chosen, checked.slots), chosen)
    return [evaluator.tally(name, size_name, params) for params in variants]


def count_workload(name: str, params: str | CkksParameters | None = None, size: str | None = None) -> Tally:
    """The tally of a workload: equal to that of its trace. Nothing is encrypted, no data is read.

    Args:   as `trace_workload`.
    Raises: UnknownName; ParamsError: the program is deeper than the parameters.
    """
    from penstock.program.reading import resolve

    _, size_name, checked = resolve(name, params, size)
    return count_variants(name, [checked], size_name)[0]


@lru_cache(maxsize=8)
def _blank(workload: Any, size: Any, slots: int) -> Any:
    return workload.blank(size, slots)
