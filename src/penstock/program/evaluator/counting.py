"""The counting reading: a program's tally without a trace, an order of magnitude sooner.

It is the `trace` reading that keeps no rows. The `trace` reading's own rules give the effect of an operation on limbs,
scale and counts when operands of these states first meet; it is repeated after that. A composite is expanded once for
each state of its operand, and the expansion is kept for every program at parameters of its structure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from penstock.program.evaluator.abreast import Bundle, Circuit, members_of, side_by_side
from penstock.program.evaluator.arguments import each_of
from penstock.program.evaluator.call import Cipher, Composite, Period
from penstock.program.evaluator.protocol import Plain, Values, Weight, name_of, padded
from penstock.program.evaluator.scaling import ScaleState
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.evaluator.tally import Tally, peak
from penstock.program.evaluator.tally_builder import TallyBuilder
from penstock.scheme.operations import KINDS, OpKind
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.work.shapes import Shape


class _Rule(NamedTuple):
    """What operands of certain states lead to."""

    shape: Shape
    state: ScaleState
    polynomials: int
    size: int
    """Bytes of the result."""


@dataclass(slots=True)
class _Move:
    """The number of uses of a rule."""

    rule: _Rule
    count: int = 0


@dataclass(frozen=True, slots=True)
class _Expansion:
    """The tally of one composite."""

    builder: TallyBuilder
    counts: Mapping[Shape, int]
    own: list[int]
    """Objects that only it sees: its ciphertexts and digits."""
    state: ScaleState
    """Of its result."""
    plaintexts: frozenset[tuple[Hashable, int]]
    """(identity, limbs) of its constant operands: a composite with equal arguments has the same ones again."""
    held: dict[tuple[int, int], int] = field(default_factory=dict)

    def besides(self, params: CkksParameters) -> int:
        """Bytes of its temporary objects at their peak."""
        digits = (params.digit_limbs, params.num_p)
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
def structure(params: CkksParameters, *, chain: bool = True) -> Hashable:
    """What of the parameters a program's operations depend on: sets of one structure run the same ones.

    Digits and special primes are not in it: they make operations cost more or less, and digits larger. Without `chain`
    its length is not either.
    """
    p = params
    return (
        p.ring_dim,
        p.slots,
        p.num_q if chain else 0,
        p.num_p > 0,
        p.scaling,
        p.secret,
        p.word_bits,
        p.library,
        p.bootstrap,
        p.small_ring_dim,
    )


@lru_cache(maxsize=64)
def _rules(ring_dim: int, word_bits: int, scaling: Scaling, library: str) -> dict[tuple[str, int], _Rule]:
    """Those learned under this library's scaling: by kind, and the states of the operands as a number. Chains share
    them."""
    return {}


class _Counting(SymbolicEvaluator):
    """Counts operations by the rules that it learns. A composite is its operations."""

    builder: TallyBuilder

    def __init__(self, params: CkksParameters, builder: TallyBuilder) -> None:
        super().__init__(params, builder)
        self._rules = _rules(params.ring_dim, params.word_bits, params.scaling, params.library)
        self._moves: dict[str, dict[int, _Move]] = {kind: {} for kind in KINDS}
        self._family: list[_Counting] = [self]
        """Those that count into the same builder."""
        self._plaintext_size = lru_cache(maxsize=None)(params.plaintext_bytes)

    def sibling(self, params: CkksParameters) -> _Counting:
        sibling = _Counting(params, self.builder)
        sibling._family = self._family
        self._family.append(sibling)
        return sibling

    def counts(self) -> dict[Shape, int]:
        """How often each shape occurred so far."""
        counts = dict(self.builder.counts)
        for evaluator in self._family:
            for moves in evaluator._moves.values():
                for move in moves.values():
                    counts[move.rule.shape] = counts.get(move.rule.shape, 0) + move.count
        return counts

    def encode(self, values: Values | Callable[[], Values], *, name: str | None = None) -> Plain:
        # Nothing reads a vector: one in full is not copied, and one that is still to be made is not made.
        full = callable(values) or getattr(values, "shape", None) == (self.params.slots,)
        if full:
            return Plain(values, name_of(name), slots=self.params.slots)
        return super().encode(values, name=name)

    def scope(self, name: str) -> AbstractContextManager[str]:
        return nullcontext(name)

    def _move(self, kind: OpKind, code: int) -> _Move | None:
        """Of operands of these states; `None` where their rule is not known yet."""
        move = self._moves[kind._value_].get(code)
        if move is None:
            rule = self._rules.get((kind._value_, code))
            if rule is not None:
                move = self._moves[kind._value_][code] = _Move(rule)
        return move

    # Operations. The first of its states goes through the rules of the `trace` reading.
    def _two(
        self, kind: OpKind, a: Cipher, b: Cipher, *, key: str | None = None, argument: int | None = None
    ) -> Cipher:
        code = _code(a) << 32 | _code(b)
        move = self._move(kind, code)
        if move is None:
            return self._learned(kind, code, super()._two(kind, a, b, key=key, argument=argument))
        self.builder.last[b.object_id] = self.builder.step
        return self._repeated(move, a, key)

    def _one(
        self, kind: OpKind, a: Cipher, *, key: str | None = None, plain: Plain | None = None, **rest: Any
    ) -> Cipher:
        code = _code(a)
        move = self._move(kind, code)
        if move is None:
            return self._learned(kind, code, super()._one(kind, a, key=key, plain=plain, **rest))
        if plain is not None:
            self._use(plain, move.rule.state.limbs)
        return self._repeated(move, a, key)

    def _rotate_hoisted(self, a: Cipher, digits: Cipher, step: int) -> Cipher:
        code = _code(a)
        move = self._move(OpKind.ROTATE_HOISTED, code)
        if move is None:
            return self._learned(OpKind.ROTATE_HOISTED, code, super()._rotate_hoisted(a, digits, step))
        self.builder.last[digits.object_id] = self.builder.step
        return self._repeated(move, a, self._rotation_key(step))

    def _drop(self, kind: OpKind, a: Cipher, limbs: int, degree: int) -> Cipher:
        code = (_code(a) << 20 | limbs) << 4 | degree
        move = self._move(kind, code)
        if move is None:
            return self._learned(kind, code, super()._drop(kind, a, limbs, degree))
        return self._repeated(move, a, None)

    def _learned(self, kind: OpKind, code: int, result: Cipher) -> Cipher:
        builder = self.builder
        assert builder.shape is not None
        size = builder.size[result.object_id]
        self._rules[kind._value_, code] = _Rule(builder.shape, result.state, result.polynomials, size)
        return result

    def _repeated(self, move: _Move, a: Cipher, key: str | None) -> Cipher:
        builder = self.builder
        step, made, rule = builder.step, len(builder.first), move.rule
        move.count += 1
        builder.first.append(step)
        builder.last.append(step)
        builder.size.append(rule.size)
        builder.last[a.object_id] = step
        builder.step = step + 1
        if key is not None and builder.keys.get(key, 0) < rule.shape.limbs_in:
            builder.keys[key] = rule.shape.limbs_in
        if rule.polynomials >= 3:
            builder.three.add(made)
        return Cipher(made, rule.state, rule.polynomials)

    def _use(self, plain: Plain, limbs: int) -> None:
        """The encoding of a plaintext at `limbs` limbs is used in this step."""
        builder = self.builder
        objects = plain.kept(builder)
        known = objects.get(limbs)
        if known is not None:
            builder.last[known] = builder.step
            return
        known = objects[limbs] = len(builder.first)
        builder.first.append(builder.step)
        builder.last.append(builder.step)
        builder.size.append(self._plaintext_size(limbs))
        builder.plaintexts[known] = (plain.name, limbs)


class CountingEvaluator(_Counting):
    """Counts the calls of the program. One evaluator belongs to one run of a program."""

    def __init__(self, params: CkksParameters) -> None:
        super().__init__(params, TallyBuilder(params))
        self._known = _expansions(structure(params))
        # A series starts from its operand, whatever the chain above.
        self._known_series = _expansions(structure(params, chain=False))
        self._composites: dict[str, int] = {}
        self._expanded: dict[int, tuple[_Expansion, int]] = {}
        """Expansions that this program uses, by id, and how often."""
        self._composite_steps: dict[int, _Expansion] = {}
        self._used_once: dict[int, int] = {}
        """Limbs -> plaintexts of weighted sums: nothing else uses them, and they are not among the builder's."""

    def tally(self, workload: str, size: str, params: CkksParameters | None = None) -> Tally:
        """The tally of the calls so far, at the parameters of the calls or others of the same structure."""
        builder, params = self.builder, params or self.params
        counts = self.counts()
        calls = dict(self._composites)
        for shape, count in counts.items():
            calls[shape.kind] = calls.get(shape.kind, 0) + count
        inside: set[tuple[Hashable, int]] = set()
        for expansion, times in self._expanded.values():
            inside.update(expansion.plaintexts)
            for shape, count in expansion.counts.items():
                counts[shape] = counts.get(shape, 0) + times * count
        return Tally(
            workload=workload,
            size=size,
            params=params,
            counts=dict(sorted(counts.items())),  # whatever was learned before: sums of floats depend on it
            calls={kind.value: calls[kind.value] for kind in OpKind if calls.get(kind.value)},
            keys=dict(builder.keys),
            composite_keys=frozenset(key for expanded, _ in self._expanded.values() for key in expanded.builder.keys),
            live_bytes=peak(
                builder.first,
                builder.last,
                builder.sizes(params),
                {step: expansion.besides(params) for step, expansion in self._composite_steps.items()},
            ),
            encodings=_by_limbs(builder.plaintexts.values(), self._used_once),
            composite_encodings=_by_limbs(inside),
        )

    def encrypt(self, values: Values, *, name: str | None = None) -> Cipher:
        if getattr(values, "shape", None) != (self.params.slots,):
            values = padded(values, self.params.slots)
        return super().encrypt(values, name=name)

    # Sums of products.
    def weighted_sum(self, terms: Iterable[Cipher], weights: Iterable[Weight]) -> Cipher:
        terms, weights = list(each_of("terms", terms)), list(each_of("weights", weights))
        moves = self._moves_of_sum(terms, weights)
        if moves is None:
            return super().weighted_sum(terms, weights)
        product, total = moves
        builder, count, limbs = self.builder, len(terms), product.rule.state.limbs
        first, last, used = _lifetimes(count)
        step, size = builder.step, self._plaintext_size(limbs)
        product.count += count
        total.count += count - 1
        builder.first += [step + offset for offset in first]
        builder.last += [step + offset for offset in last]
        builder.size += [size, product.rule.size] + [size, product.rule.size, total.rule.size] * (count - 1)
        for term, when in zip(terms, used, strict=True):
            builder.last[term.object_id] = step + when
        self._used_once[limbs] = self._used_once.get(limbs, 0) + count
        builder.step = step + 2 * count - 1
        return Cipher(len(builder.first) - 1, total.rule.state)

    def _moves_of_sum(self, terms: list[Cipher], weights: list[Weight]) -> tuple[_Move, _Move] | None:
        """Of the products and of the sums, where they can be counted at once: terms of one state, weights that nothing
        else can use, and rules that are known."""
        if len(terms) < 2 or len(terms) != len(weights) or not all(isinstance(term, Cipher) for term in terms):
            return None
        state = terms[0].state
        for term in terms:
            if term.polynomials != 2 or (term.state is not state and term.state != state):
                return None
        for weight in weights:
            if isinstance(weight, Plain):
                return None
        product = self._move(OpKind.MULT_PLAIN, _code(terms[0]))
        if product is None:
            return None
        reached = _code(Cipher(-1, product.rule.state))
        total = self._move(OpKind.ADD, reached << 32 | reached)
        return None if total is None or total.rule.state != product.rule.state else (product, total)

    # Composites.
    def _composite(self, kind: OpKind, name: str, a: Cipher, circuit: Circuit, how: Composite) -> Cipher:
        known = self._known_series if kind is OpKind.CHEBYSHEV else self._known
        expansion = known.get((how, _code(a)))
        if expansion is None:
            expansion = known[how, _code(a)] = _expand(self.params, a, circuit, how)
        builder = self.builder
        if id(expansion) not in self._expanded:
            for key, limbs in expansion.builder.keys.items():
                builder.keys[key] = max(builder.keys.get(key, 0), limbs)
        self._expanded[id(expansion)] = (expansion, self._expanded.get(id(expansion), (expansion, 0))[1] + 1)
        own = members_of(a)
        self._composites[kind.value] = self._composites.get(kind.value, 0) + len(own)
        self._composite_steps[builder.step] = expansion
        for member in own:
            builder.last[member.object_id] = builder.step
        results = [Cipher(builder.ciphertext(expansion.state.limbs), expansion.state) for _ in own]
        builder.step += 1
        return Bundle.of(results) if isinstance(a, Bundle) else results[0]


def _code(a: Cipher) -> int:
    """State and polynomials as one number."""
    state = a.state
    return state.limbs << 8 | state.degree << 4 | a.polynomials


@lru_cache(maxsize=256)
def _lifetimes(count: int) -> tuple[list[int], list[int], list[int]]:
    """When objects of a weighted sum of `count` terms appear and are used last, and when each term is used; in steps.

    The objects: plaintext and product of the first term, then plaintext, product and sum of each further one.
    """
    first, last, used = [0, 0], [0, 2], [0]
    for i in range(1, count):
        at = 2 * i - 1
        used.append(at)
        first += [at, at, at + 1]
        last += [at, at + 1, at + 3]
    last[-1] = 2 * count - 2
    return first, last, used


def _by_limbs(plaintexts: Iterable[tuple[Hashable, int]], others: Mapping[int, int] | None = None) -> dict[int, int]:
    counts = Counter(limbs for _, limbs in plaintexts)
    counts.update(others or {})
    return dict(sorted(counts.items()))


def _expand(params: CkksParameters, a: Cipher, circuit: Circuit, how: Composite) -> _Expansion:
    builder = TallyBuilder(params)
    own = [Cipher(builder.ciphertext(a.state.limbs, a.polynomials), a.state, a.polynomials) for _ in members_of(a)]
    counting = _Counting(params, builder)
    result = circuit(side_by_side(counting, a), Bundle.of(own) if isinstance(a, Bundle) else own[0])
    ends = {end.object_id for end in (*own, *members_of(result))}
    # The constant operands are the same, however many ciphertexts there are.
    alike = replace(how, ciphertexts=1) if isinstance(how, Period) else how
    return _Expansion(
        builder=builder,
        counts=counting.counts(),
        own=[i for i in range(len(builder.first)) if i not in ends and i not in builder.plaintexts],
        state=result.state,
        plaintexts=frozenset(((alike, name), limbs) for name, limbs in builder.plaintexts.values()),
    )
