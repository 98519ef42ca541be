"""CKKS operations written as FHETCH's polynomial instructions, in the order in which OpenFHE works on its limbs.

It knows nothing of the reader: hybrid key switching (digits raised one by one, products with the key by prime, two
divisions by P), rescales, automorphisms after the switch. Scalars are what they would be up to their value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.scheme.params.ckks import CkksParameters

Poly = dict[int, int]
"""Prime (index) -> address."""


@dataclass
class Writer:
    """Collects the lines of one program."""

    params: CkksParameters
    in_place: bool = False
    """Whether sums and key switches write over an operand's address, as a library that recycles memory does."""
    zeros: bool = False
    """Whether sums begin with zeros."""
    lines: list[str] = field(default_factory=list)
    next_address: int = 0
    keys: dict[str, list[tuple[Poly, Poly]]] = field(default_factory=dict)

    @property
    def q(self) -> range:
        return range(1, self.params.num_q + 1)

    @property
    def p(self) -> range:
        return range(self.params.num_q + 1, self.params.num_q + self.params.num_p + 1)

    def text(self) -> str:
        primes = [f"m[{i}] 0x{(1 << 50) + i:X}" for i in (*self.q, *self.p)]
        head = ["# Niobium FHETCH Trace", f"modulus_count {len(primes) + 1}", "m[0] 0xFFFFFFFFFFFFFFFF", *primes]
        return "\n".join([*head, "", "# Instructions", *self.lines, "halt"]) + "\n"

    def new(self, primes: Sequence[int]) -> Poly:
        made = {i: self.next_address + j for j, i in enumerate(primes)}
        self.next_address += len(made)
        return made

    def emit(self, op: str, made: int, *rest: object) -> None:
        self.lines.append(f"{op} %{made}, " + ", ".join(map(str, rest)))

    def zero(self, prime: int) -> int:
        made = self.new([prime])[prime]
        self.emit("sr_mulps", made, f"%{made}", 0, f"m={prime}")
        return made

    def each(self, op: str, a: Poly, b: Poly | None = None, *, scalar: int | None = None, over: bool = False) -> Poly:
        """One instruction a prime."""
        primes = [i for i in a if b is None or i in b]
        made = {i: a[i] for i in primes} if over and self.in_place else self.new(primes)
        for i in primes:
            more = [f"%{b[i]}"] if b is not None else [] if scalar is None else [scalar]
            self.emit(op, made[i], f"%{a[i]}", *more, f"m={i}")
        return made

    # Ciphertexts.

    def cipher(self) -> list[Poly]:
        return [self.new(self.q), self.new(self.q)]

    def plain(self, limbs: int) -> Poly:
        return self.new(self.q[:limbs])

    def add(self, a: list[Poly], b: list[Poly], op: str = "sr_addp") -> list[Poly]:
        return [self.each(op, x, y) for x, y in zip(a, b, strict=True)]

    def add_plain(self, a: list[Poly], b: Poly) -> list[Poly]:
        return [self.each("sr_addp", a[0], b), a[1]]

    def add_scalar(self, a: list[Poly]) -> list[Poly]:
        return [self.each("sr_addps", a[0], scalar=7), a[1]]

    def negate(self, a: list[Poly]) -> list[Poly]:
        return [self.each("sr_negp", x) for x in a]

    def mult_plain(self, a: list[Poly], b: Poly) -> list[Poly]:
        return [self.each("sr_mulp", x, b) for x in a]

    def mult_scalar(self, a: list[Poly]) -> list[Poly]:
        return [self.each("sr_mulps", x, scalar=5) for x in a]

    def mult(self, a: list[Poly], b: list[Poly]) -> list[Poly]:
        first, cross = self.each("sr_mulp", a[0], b[0]), self.each("sr_mulp", a[0], b[1])
        other = self.each("sr_mulp", a[1], b[0])
        middle = self.each("sr_addp", cross, other, over=True)
        last = self.each("sr_mulp", a[1], b[1])
        out = self.switch(last, "relin")
        return [self.each("sr_addp", first, out[0]), self.each("sr_addp", middle, out[1])]

    def square(self, a: list[Poly]) -> list[Poly]:
        first, cross, last = (
            self.each("sr_mulp", *[a[0]] * 2),
            self.each("sr_mulp", a[0], a[1]),
            self.each("sr_mulp", *[a[1]] * 2),
        )
        middle = self.each("sr_addp", cross, cross)
        out = self.switch(last, "relin")
        return [self.each("sr_addp", first, out[0]), self.each("sr_addp", middle, out[1])]

    def rotate(self, a: list[Poly], element: int, digits: list[Poly] | None = None) -> list[Poly]:
        out = self.switch(a[1], f"rot:{element}", digits)
        return [self.automorphism(self.each("sr_addp", a[0], out[0]), element), self.automorphism(out[1], element)]

    def automorphism(self, a: Poly, element: int) -> Poly:
        made = self.new(list(a))
        for i in a:
            self.permute(made[i], a[i], i, element)
        return made

    def permute(self, made: int, source: int, prime: int, element: int) -> None:
        size = self.params.ring_dim
        named = (f"mask={size - 1}", f"logn={size.bit_length() - 1}", f"k={element}")
        self.emit("sr_automorph_eval", made, f"%{source}", f"m={prime}", *named)

    def rescale(self, a: list[Poly]) -> list[Poly]:
        return [self.dropped(x) for x in a]

    # Inside.

    def dropped(self, a: Poly) -> Poly:
        """The last limb to coefficients, to each other prime, back, taken off and scaled."""
        last = max(a)
        coefficients = self.new([last])[last]
        self.emit("sr_intt", coefficients, f"%{a[last]}", f"m={last}", "omega=3")
        rest = [i for i in a if i != last]
        made = self.new(rest)
        for i in rest:
            moved = self.moved(coefficients, last, i)
            self.emit("sr_ntt", moved, f"%{moved}", f"m={i}", "omega=3")
            self.emit("sr_subp", made[i], f"%{a[i]}", f"%{moved}", f"m={i}")
            self.emit("sr_mulps", made[i], f"%{made[i]}", 11, f"m={i}")
        return made

    def moved(self, coefficients: int, old: int, new: int) -> int:
        """A limb at another prime: centred before and after."""
        made = self.new([new])[new]
        self.emit("sr_mulps", made, f"%{coefficients}", 1, f"m={old}")
        self.emit("sr_addps", made, f"%{made}", 1 << 40, f"m={old}")
        self.emit("sr_mulps", made, f"%{made}", 1, f"m={new}")
        self.emit("sr_addps", made, f"%{made}", 1 << 39, f"m={new}")
        return made

    def converted(self, limbs: Poly, targets: Sequence[int]) -> Poly:
        """Coefficients of some limbs at other primes, and their evaluations there."""
        scaled = self.new(list(limbs))
        for i in limbs:
            self.emit("sr_mulps", scaled[i], f"%{limbs[i]}", 13, f"m={i}")
        made: Poly = {}
        for target in targets:
            total = self.zero(target) if self.zeros else None
            for i in limbs:
                part = self.moved(scaled[i], i, target)
                if total is None:
                    total = part
                else:
                    self.emit("sr_addp", total, f"%{total}", f"%{part}", f"m={target}")
            assert total is not None
            self.emit("sr_ntt", total, f"%{total}", f"m={target}", "omega=3")
            made[target] = total
        return made

    def raised(self, a: Poly) -> list[Poly]:
        """The digits over all primes; own limbs are those of the polynomial."""
        primes, alpha = list(a), self.params.digit_limbs
        coefficients = self.new(primes)
        for i in primes:
            self.emit("sr_intt", coefficients[i], f"%{a[i]}", f"m={i}", "omega=3")
        digits = []
        for first in range(0, len(primes), alpha):
            own = primes[first : first + alpha]
            others = [i for i in (*primes, *self.p) if i not in own]
            made = self.converted({i: coefficients[i] for i in own}, others)
            digits.append({**made, **{i: a[i] for i in own}})
        return digits

    def switch(self, a: Poly, key: str, digits: list[Poly] | None = None) -> tuple[Poly, Poly]:
        every = [*self.q, *self.p]
        digits = self.raised(a) if digits is None else digits
        rows = self.keys.setdefault(key, [])
        while len(rows) < len(digits):
            rows.append((self.new(every), self.new(every)))
        primes = [*a, *self.p]
        sums: tuple[Poly, Poly] = {}, {}
        if self.zeros:
            sums = {i: self.zero(i) for i in primes}, {i: self.zero(i) for i in primes}
        for digit, row in zip(digits, rows, strict=False):
            for i in primes:
                for half in (0, 1):
                    part = self.new([i])[i]
                    self.emit("sr_mulp", part, f"%{digit[i]}", f"%{row[half][i]}", f"m={i}")
                    if i in sums[half]:
                        self.emit("sr_addp", sums[half][i], f"%{sums[half][i]}", f"%{part}", f"m={i}")
                    else:
                        sums[half][i] = part
        return self.divided(sums[0], list(a)), self.divided(sums[1], list(a))

    def divided(self, total: Poly, primes: Sequence[int]) -> Poly:
        coefficients = self.new(self.p)
        for i in self.p:
            self.emit("sr_intt", coefficients[i], f"%{total[i]}", f"m={i}", "omega=3")
        moved = self.converted(coefficients, primes)
        made = self.new(primes)
        for i in primes:
            self.emit("sr_subp", made[i], f"%{total[i]}", f"%{moved[i]}", f"m={i}")
            self.emit("sr_mulps", made[i], f"%{made[i]}", 17, f"m={i}")
        return made
