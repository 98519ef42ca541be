"""FHETCH's polynomial instructions put together to operations on ciphertexts.

Three steps. `fhetch_text` reads the text, and `fhetch_switches` finds base conversions and key switches by the flow of
data. The rest is here: neighbouring steps of one kind at different primes are one step on a polynomial, and two of
these, or products of pairs, are one on a ciphertext. A step outside of the patterns is an error that names its line:
nothing is guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.errors import TraceError
from penstock.scheme.operations import CONJ_KEY, RELIN_KEY, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.builder import TraceBuilder
from penstock.scheme.traces.fhetch_switches import Conversion, Patterns, Switch, find
from penstock.scheme.traces.fhetch_text import ZERO, FhetchProgram, parse
from penstock.scheme.traces.schema import Trace, TraceMeta

Polynomial = frozenset[int]
"""The values of its limbs."""


@dataclass(frozen=True, slots=True)
class Node:
    """A step on a whole polynomial."""

    op: str
    made: Polynomial
    reads: tuple[Polynomial, ...]
    element: int | None
    at: int
    line: int


@dataclass(frozen=True, slots=True)
class FhetchCiphertext:
    """A ciphertext: its object in the trace, and its polynomials."""

    object_id: int
    polynomials: tuple[Polynomial, ...]


def read_fhetch(lines: Iterable[str], params: CkksParameters, *, name: str = "fhetch") -> Trace:
    """The trace of a FHETCH program.

    Args:   params: the program's parameter set: the text does not state which primes are special, and N not always.
    Raises: TraceError: a line that is not an instruction, steps that fit no operation, primes or an N from another set.
    """
    program = parse(lines, name)
    if program.ring_dim not in (None, params.ring_dim):
        raise TraceError(
            f"{name} has N = {program.ring_dim} and parameter set '{params.name}' {params.ring_dim}: "
            "name the set of the program with --params"
        )
    patterns = find(program)
    primes = set(program.modulus_of) - {0}
    if patterns.switches and len(patterns.special) != params.num_p:
        raise TraceError(
            f"{name} has {len(patterns.special)} special primes and parameter set '{params.name}' {params.num_p}: "
            "name the set of the program with --params"
        )
    if len(primes - patterns.special) > params.num_q:
        raise TraceError(
            f"{name} has {len(primes - patterns.special)} primes of Q and parameter set '{params.name}' "
            f"{params.num_q}: name the set of the program with --params"
        )
    builder = TraceBuilder(params)
    _Assembler(program, patterns, builder).read()
    note = f"put together from {len(program.steps)} polynomial instructions of FHETCH"
    return builder.finish(TraceMeta(workload=name, params=params.to_dict(), reading="fhetch", notes=(note,)))


Event = Node | Switch | tuple[Conversion, Conversion]
"""A step on a polynomial, a key switch, or the rescales of two polynomials."""


class _Assembler:
    def __init__(self, program: FhetchProgram, patterns: Patterns, builder: TraceBuilder) -> None:
        self.program, self.patterns, self.builder = program, patterns, builder
        self.cipher_of: dict[int, tuple[FhetchCiphertext, int]] = {}
        """Value -> its ciphertext and which polynomial of it."""
        self.plain_of: dict[int, int] = {}
        self.digits_of: dict[tuple[int, ...], int] = {}
        self.uses = Counter(switch.digits for switch in patterns.switches)
        self.inputs = 0

    def read(self) -> None:
        events: list[tuple[int, Event]] = [(node.at, node) for node in self._nodes()]
        events += [(switch.at, switch) for switch in self.patterns.switches]
        rescales = self.patterns.rescales
        if len(rescales) % 2:
            raise TraceError("an odd number of polynomials is rescaled; a ciphertext has two")
        made = {step.made: i for i, step in enumerate(self.program.steps)}
        for one, other in zip(rescales[::2], rescales[1::2], strict=True):
            events.append(
                (max(made[v] for conversion in (one, other) for v in conversion.results.values()), (one, other))
            )
        ordered = [event for _, event in sorted(events, key=lambda pair: pair[0])]
        at = 0
        while at < len(ordered):
            event = ordered[at]
            if isinstance(event, Switch):
                at += 1 + self._switch(event, _nodes_at(ordered, at + 1))
            elif isinstance(event, Node):
                at += self._step(_nodes_at(ordered, at))
            else:
                self._rescale(*event)
                at += 1

    def _nodes(self) -> list[Node]:
        """Runs of one kind at different primes, outside of switches and conversions."""
        nodes: list[Node] = []
        run: list[int] = []
        steps = self.program.steps

        def close() -> None:
            if run:
                reads = tuple(frozenset(column) for column in zip(*(steps[i].reads for i in run), strict=True))
                first = steps[run[0]]
                made = frozenset(steps[i].made for i in run)
                nodes.append(Node(first.op, made, reads, first.element, run[0], first.line))
                run.clear()

        for i, step in enumerate(steps):
            if step.op == ZERO:
                continue  # recorded where a library makes room for a result, between two limbs too
            if i in self.patterns.taken:
                close()
                continue
            of = self.program.modulus_of
            if run and (
                steps[run[-1]].op != step.op
                or steps[run[-1]].element != step.element
                or of[step.made] in {of[steps[j].made] for j in run}
            ):
                close()
            run.append(i)
        close()
        return nodes

    # Ciphertexts.

    def _known(self, polynomial: Polynomial) -> tuple[FhetchCiphertext, int] | None:
        owners = {self.cipher_of.get(value) for value in polynomial}
        return owners.pop() if len(owners) == 1 else None

    def _outside(self, polynomial: Polynomial) -> bool:
        return all(self.program.outside[value] and value not in self.cipher_of for value in polynomial)

    def _primes(self, polynomial: Polynomial) -> frozenset[int]:
        return frozenset(self.program.modulus_of[value] for value in polynomial)

    def _cipher(self, polynomials: Sequence[Polynomial], line: int) -> FhetchCiphertext:
        """The ciphertext of these polynomials, in order; one from outside is new."""
        known = [self._known(polynomial) for polynomial in polynomials]
        if len({self._primes(polynomial) for polynomial in polynomials}) > 1:
            raise TraceError(f"line {line}: polynomials at different primes in one operation")
        if all(self._outside(polynomial) for polynomial in polynomials):
            values = frozenset[int]().union(*polynomials)
            if len(values) < sum(map(len, polynomials)) or not values.isdisjoint(self.plain_of):
                raise TraceError(f"line {line}: a limb from outside that is in two polynomials")
            made = self._make(polynomials, name=f"input[{self.inputs}]")
            self.inputs += 1
            return made
        cipher = known[0][0] if known[0] is not None else None
        if cipher is None or known != [(cipher, position) for position in range(len(cipher.polynomials))]:
            raise TraceError(f"line {line}: polynomials that are not those of one ciphertext, each in its place")
        return cipher

    def _together(self, side: Sequence[Polynomial]) -> bool:
        """Whether two polynomials are the first and second of one ciphertext, or may be: both are from outside."""
        one, other = (self._known(polynomial) for polynomial in side)
        if one is None or other is None:
            return side[0] != side[1] and all(self._outside(polynomial) for polynomial in side)
        return one[0] == other[0] and (one[1], other[1]) == (0, 1)

    def _make(self, polynomials: Sequence[Polynomial], name: str | None = None) -> FhetchCiphertext:
        limbs = min(len(polynomial) for polynomial in polynomials)
        made = FhetchCiphertext(self.builder.ciphertext(limbs, len(polynomials), name=name), tuple(polynomials))
        for position, polynomial in enumerate(polynomials):
            for value in polynomial:
                self.cipher_of[value] = made, position
        return made

    def _plaintext(self, polynomial: Polynomial, line: int) -> int:
        known = {self.plain_of.get(value) for value in polynomial}
        if len(known) > 1 or not polynomial.isdisjoint(self.cipher_of):
            raise TraceError(f"line {line}: a plaintext with limbs of another, or of a ciphertext")
        plaintext = known.pop()
        if plaintext is None:
            plaintext = self.builder.plaintext(len(polynomial))
            self.plain_of |= dict.fromkeys(polynomial, plaintext)
        return plaintext

    def _add(
        self, kind: OpKind, limbs: int, operands: Sequence[FhetchCiphertext], made: Sequence[Polynomial], **more: object
    ) -> None:
        cipher = self._make(made)
        self.builder.add(
            kind,
            limbs_in=limbs,
            limbs_out=len(made[0]),
            operands=[cipher.object_id for cipher in operands],
            output=cipher.object_id,
            **more,  # type: ignore[arg-type]
        )

    # Operations.

    def _step(self, ahead: Sequence[Node]) -> int:
        """The operation that the next nodes are; how many of them it takes."""
        node = ahead[0]
        if node.op == "sr_mulp":
            return self._product(ahead)
        second = ahead[1] if len(ahead) > 1 else None
        paired = second is not None and second.op == node.op and self._primes(second.made) == self._primes(node.made)
        if node.op in ("sr_addp", "sr_subp"):
            return self._sum(node, second if paired else None)
        if node.op in ("sr_mulps", "sr_negp") and paired and second is not None:
            kind = OpKind.MULT_SCALAR if node.op == "sr_mulps" else OpKind.NEGATE
            operand = self._cipher([node.reads[0], second.reads[0]], node.line)
            self._add(kind, len(node.made), [operand], [node.made, second.made])
            return 2
        if node.op.startswith(("sr_addps", "sr_subps")):
            kind = OpKind.ADD_SCALAR if "add" in node.op else OpKind.SUB_SCALAR
            self._one_polynomial(kind, node, node.reads[0])
            return 1
        raise TraceError(f"line {node.line}: '{node.op}' here is part of no operation on ciphertexts")

    def _one_polynomial(self, kind: OpKind, node: Node, changed: Polynomial, plaintext: int | None = None) -> None:
        """An operation that leaves the second polynomial unchanged."""
        known = self._known(changed)
        if known is None or known[1] != 0:
            raise TraceError(f"line {node.line}: '{node.op}' on one polynomial whose ciphertext is not known")
        first, *rest = known[0].polynomials
        if changed != first:
            raise TraceError(f"line {node.line}: '{node.op}' on {len(changed)} of {len(first)} limbs of a polynomial")
        self._add(kind, len(node.made), [known[0]], [node.made, *rest], plaintext=plaintext)

    def _sum(self, node: Node, second: Node | None) -> int:
        add = node.op == "sr_addp"
        if second is not None and not any(operand == node.made for operand in second.reads):
            sides = list(zip(node.reads, second.reads, strict=True))
            if all(self._together(side) for side in sides):
                operands = [self._cipher(list(side), node.line) for side in sides]
                self._add(OpKind.ADD if add else OpKind.SUB, len(node.made), operands, [node.made, second.made])
                return 2
        changed, other = node.reads
        if self._known(changed) is None and self._known(other) is not None and add:
            changed, other = other, changed
        if not self._outside(other):
            raise TraceError(f"line {node.line}: a sum of one polynomial with no plaintext")
        self._one_polynomial(
            OpKind.ADD_PLAIN if add else OpKind.SUB_PLAIN, node, changed, self._plaintext(other, node.line)
        )
        return 1

    def _product(self, ahead: Sequence[Node]) -> int:
        node = ahead[0]
        for size in (5, 4):
            part = ahead[:size]
            products = [step for step in part if step.op == "sr_mulp"]
            sums = [step for step in part if step.op == "sr_addp"]
            if len(part) == size and len(products) == size - 1 and len(sums) == 1:
                middle = [product for product in products if product.made in sums[0].reads]
                ends = [product for product in products if product not in middle]
                summed = set(sums[0].reads) == {product.made for product in middle}
                if len(ends) == 2 and summed and _crossed(ends, middle):
                    lefts = [ends[0].reads[0], ends[1].reads[0]]
                    rights = [ends[0].reads[1], ends[1].reads[1]]
                    left = self._cipher(lefts, node.line)
                    right = left if lefts == rights else self._cipher(rights, node.line)
                    made = [ends[0].made, sums[0].made, ends[1].made]
                    self._add(OpKind.MULT_NO_RELIN, len(node.made), [left, right], made)
                    return size
        if len(ahead) > 1 and ahead[1].op == "sr_mulp":
            shared = set(node.reads) & set(ahead[1].reads)
            if len(shared) == 1 and self._outside(next(iter(shared))):
                (plain,) = shared
                own = [[factor for factor in product.reads if factor != plain] for product in ahead[:2]]
                if not all(own):
                    raise TraceError(f"line {node.line}: a plaintext times itself is not an operation of ciphertexts")
                operand = self._cipher([first for first, *_ in own], node.line)
                made = [node.made, ahead[1].made]
                self._add(
                    OpKind.MULT_PLAIN, len(node.made), [operand], made, plaintext=self._plaintext(plain, node.line)
                )
                return 2
        raise TraceError(
            f"line {node.line}: products of polynomials that are not a product of ciphertexts or plaintexts"
        )

    def _rescale(self, one: Conversion, other: Conversion) -> None:
        sources = [frozenset((*conversion.sources.values(), *conversion.rests.values())) for conversion in (one, other)]
        made = [frozenset(conversion.results.values()) for conversion in (one, other)]
        source = self._cipher(sources, self.program.steps[one.first].line)
        self._add(OpKind.RESCALE, len(sources[0]), [source], made)

    def _switch(self, switch: Switch, ahead: Sequence[Node]) -> int:
        """A key switch with the sums and automorphisms after it; how many of the next nodes it takes."""
        line = self.program.steps[switch.at].line
        out = [frozenset(half.values()) for half in switch.out]
        limbs = len(out[0])
        summed: dict[Polynomial, Node] = {}  # half of the switch -> its sum
        for node in ahead[:2]:
            halves = [operand for operand in node.reads if operand in out]
            if node.op == "sr_addp" and len(halves) == 1:
                summed.setdefault(halves[0], node)
        beside = [operand for half, node in summed.items() for operand in node.reads if operand != half]
        if len(summed) == 2:
            source = self._cipher([*beside, switch.polynomial], line)
            made = [node.made for node in summed.values()]
            self._add(OpKind.RELINEARIZE, limbs, [source], made, key=RELIN_KEY)
            return 2
        alone = [half for half in out if half not in summed]
        moved = [*(node.made for node in summed.values()), *alone]
        morphs = {node.reads: node for node in ahead[1:3] if node.op == "sr_automorph_eval"}
        elements = {node.element for node in morphs.values()}
        element = elements.pop() if len(elements) == 1 else None
        if not summed or morphs.keys() != {(half,) for half in moved} or element is None:
            raise TraceError(f"line {line}: a key switch that is neither a relinearization nor a rotation")
        source = self._cipher([*beside, switch.polynomial], line)
        ring_dim = self.builder.params.ring_dim
        conjugate = element == 2 * ring_dim - 1
        more: dict[str, object] = {"key": CONJ_KEY if conjugate else f"rot:{element % (2 * ring_dim)}"}
        kind = OpKind.CONJUGATE if conjugate else OpKind.ROTATE
        made = [morphs[half,].made for half in moved]
        if self.uses[switch.digits] == 1 or conjugate:
            self._add(kind, limbs, [source], made, **more)
            return 3
        if switch.digits not in self.digits_of:
            digits = self.digits_of[switch.digits] = self.builder.digits(limbs)
            self.builder.add(
                OpKind.DECOMPOSE, limbs_in=limbs, limbs_out=limbs, operands=[source.object_id], output=digits
            )
        both = [source, FhetchCiphertext(self.digits_of[switch.digits], ())]
        self._add(OpKind.ROTATE_HOISTED, limbs, both, made, **more)
        return 3


def _nodes_at(ordered: Sequence[Event], at: int) -> list[Node]:
    """The next nodes that nothing else comes between, at most as many as an operation has."""
    nodes: list[Node] = []
    for event in ordered[at : at + 5]:
        if not isinstance(event, Node):
            break
        nodes.append(event)
    return nodes


def _crossed(ends: Sequence[Node], middle: Sequence[Node]) -> bool:
    """Whether the middle products are those between the first and second polynomials that the outer ones are made of.

    A product with a plaintext, a sum and the next product would else look alike.
    """
    (a0, b0), (a1, b1) = ends[0].reads, ends[1].reads
    return {frozenset(node.reads) for node in middle} == {frozenset((a0, b1)), frozenset((a1, b0))}
