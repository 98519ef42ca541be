"""CKKS operations in the order, and with the idle steps, in which Niobium's recording of OpenFHE writes them.

Not written by their tools: put together from what their OpenFHE calls and what each call records
(github.com/NiobiumInc/openfhe-development, poly-impl.h, dcrtpoly-impl.h, keyswitch-hybrid.cpp; niobium-fhetch,
src/probes.cpp at f61749c). A copy is `sr_addps %b, %a, 0, m=0`; room for a result is made with zeros; a step on a copy
names what it was copied from; conversions go source by source; addresses of results that are done are used again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from support.fhetch_writer import Poly, Writer


@dataclass
class Recorded(Writer):
    """As `Writer`, the way a recording has it."""

    free: list[int] = field(default_factory=list)

    def text(self) -> str:
        head = ["# =====", "# Program: recorded v1.0", f"# Instruction Count: {len(self.lines)}", "# ====="]
        return "\n".join(head) + "\n" + super().text()

    def new(self, primes: Sequence[int]) -> Poly:
        return {i: self.free.pop() if self.free else self._fresh() for i in primes}

    def _fresh(self) -> int:
        self.next_address += 1
        return self.next_address  # address 0 is left out

    def outside(self, primes: Sequence[int]) -> Poly:
        """Inputs and keys keep their addresses."""
        return {i: self._fresh() for i in primes}

    def cipher(self) -> list[Poly]:
        return [self.outside(self.q), self.outside(self.q)]

    def plain(self, limbs: int) -> Poly:
        return self.outside(self.q[:limbs])

    def note(self, text: str) -> None:
        self.lines.append(f"# {text}")

    def copy(self, made: int, source: int) -> None:
        self.emit("sr_addps", made, f"%{source}", 0, "m=0")

    def copied(self, a: Poly) -> Poly:
        made = self.new(list(a))
        for i in a:
            self.copy(made[i], a[i])
        return made

    def room(self, primes: Sequence[int]) -> Poly:
        return {i: self.zero(i) for i in primes}

    def each(self, op: str, a: Poly, b: Poly | None = None, *, scalar: int | None = None, over: bool = False) -> Poly:
        """A binary step copies its first operand and writes over the copy; `over`: it writes over the operand."""
        primes = [i for i in a if b is None or i in b]
        made: Poly = {}
        for i in primes:
            made[i] = a[i] if over else self.new([i])[i]
            if not over:
                self.copy(made[i], a[i])
            more = [f"%{b[i]}"] if b is not None else [] if scalar is None else [scalar]
            self.emit(op, made[i], f"%{a[i]}", *more, f"m={i}")
        return made

    def mult(self, a: list[Poly], b: list[Poly]) -> list[Poly]:
        self.note("enter DCRTPoly::Times")
        first, other = self.each("sr_mulp", a[0], b[0]), self.each("sr_mulp", a[1], b[0])
        cross = self.each("sr_mulp", a[0], b[1])
        middle = self.each("sr_addp", cross, other, over=True)
        last = self.each("sr_mulp", a[1], b[1])
        out = self.switch(last, "relin")
        made = [self.each("sr_addp", first, out[0], over=True), self.each("sr_addp", middle, out[1], over=True)]
        self.note("DCRTPoly::operator+=")
        return made

    def square(self, a: list[Poly]) -> list[Poly]:
        first, cross = self.each("sr_mulp", a[0], a[0]), self.each("sr_mulp", a[0], a[1])
        middle = self.each("sr_addp", cross, cross, over=True)
        last = self.each("sr_mulp", a[1], a[1])
        out = self.switch(last, "relin")
        return [self.each("sr_addp", first, out[0], over=True), self.each("sr_addp", middle, out[1], over=True)]

    def rotate(self, a: list[Poly], element: int, digits: list[Poly] | None = None) -> list[Poly]:
        out = self.switch(a[1], f"rot:{element}", digits)
        moved = self.each("sr_addp", a[0], out[0])
        return [self.automorphism(moved, element), self.automorphism(out[1], element)]

    def automorphism(self, a: Poly, element: int) -> Poly:
        made: Poly = {}
        for i in a:
            made[i] = self.zero(i)
            self.permute(made[i], a[i], i, element)
        return made

    # Inside.

    def dropped(self, a: Poly) -> Poly:
        """On a copy: the last limb to coefficients, to each other prime and back, added to the scaled limb."""
        own = self.copied(a)
        last = max(a)
        coefficients = self.new([last])[last]
        self.copy(coefficients, own[last])
        self.emit("sr_intt", coefficients, f"%{own[last]}", f"m={last}", "omega=3")
        made = {i: own[i] for i in a if i != last}
        for i in made:
            moved = self.moved(coefficients, last, i)
            self.emit("sr_mulps", moved, f"%{moved}", 23, f"m={i}")
            self.emit("sr_ntt", moved, f"%{moved}", f"m={i}", "omega=3")
            self.emit("sr_mulps", made[i], f"%{a[i]}", 11, f"m={i}")
            self.emit("sr_addp", made[i], f"%{made[i]}", f"%{moved}", f"m={i}")
            self.free.append(moved)
        self.free += [own[last], coefficients]
        return made

    def moved(self, coefficients: int, old: int, new: int) -> int:
        made = self.new([new])[new]
        self.copy(made, coefficients)
        self.note(f"switchmodulus %{made}, %{made}, old_mod={old}, new_mod={new}")
        self.emit("sr_mulps", made, f"%{made}", 1, f"m={old}")
        self.emit("sr_addps", made, f"%{made}", 1 << 40, f"m={old}")
        self.emit("sr_mulps", made, f"%{made}", 1, f"m={new}")
        self.emit("sr_addps", made, f"%{made}", 1 << 39, f"m={new}")
        return made

    def converted(self, limbs: Poly, targets: Sequence[int]) -> Poly:
        totals = self.room(targets)
        for i in limbs:
            scaled = self.new([i])[i]
            self.copy(scaled, limbs[i])
            self.emit("sr_mulps", scaled, f"%{limbs[i]}", 13, f"m={i}")
            for target in targets:
                part = self.moved(scaled, i, target)
                self.emit("sr_mulps", part, f"%{part}", 19, f"m={target}")
                self.emit("sr_addp", totals[target], f"%{totals[target]}", f"%{part}", f"m={target}")
                self.free.append(part)
            self.free.append(scaled)
        for target in targets:
            self.emit("sr_ntt", totals[target], f"%{totals[target]}", f"m={target}", "omega=3")
        return totals

    def raised(self, a: Poly) -> list[Poly]:
        """Digit by digit: its own limbs are copied, and copied again to become coefficients."""
        primes, alpha = list(a), self.params.digit_limbs
        digits = []
        for first in range(0, len(primes), alpha):
            own = primes[first : first + alpha]
            part = self.room(own)
            for i in own:
                self.copy(part[i], a[i])
            clone = self.copied(part)
            for i in own:
                self.emit("sr_intt", clone[i], f"%{part[i]}", f"m={i}", "omega=3")
            others = [i for i in (*primes, *self.p) if i not in own]
            made = self.converted(clone, others)
            digit = self.room([*primes, *self.p])
            for i in own:
                self.copy(digit[i], part[i])
            self.free += [*clone.values(), *(digit[i] for i in others)]
            digits.append({i: made.get(i, digit[i]) for i in (*primes, *self.p)})
        return digits

    def switch(self, a: Poly, key: str, digits: list[Poly] | None = None) -> tuple[Poly, Poly]:
        every = [*self.q, *self.p]
        digits = self.raised(a) if digits is None else digits
        rows = self.keys.setdefault(key, [])
        while len(rows) < len(digits):
            rows.append((self.outside(every), self.outside(every)))
        primes = [*a, *self.p]
        sums = self.room(primes), self.room(primes)
        for digit, row in zip(digits, rows, strict=False):
            for i in primes:
                for half in (0, 1):
                    (part,) = self.each("sr_mulp", {i: digit[i]}, {i: row[half][i]}).values()
                    (total,) = self.each("sr_addp", {i: sums[half][i]}, {i: part}).values()
                    self.free += [part, sums[half][i]]
                    sums[half][i] = total
        return self.divided(sums[0], list(a)), self.divided(sums[1], list(a))

    def divided(self, total: Poly, primes: Sequence[int]) -> Poly:
        part = self.room(list(self.p))
        for i in self.p:
            self.copy(part[i], total[i])
            self.emit("sr_intt", part[i], f"%{total[i]}", f"m={i}", "omega=3")
        moved = self.converted(part, primes)
        made: Poly = {}
        room = self.room(primes)
        for i in primes:
            (rest,) = self.each("sr_subp", {i: total[i]}, {i: moved[i]}).values()
            (made[i],) = self.each("sr_mulps", {i: rest}, scalar=17).values()
            self.free += [rest, moved[i]]
        self.free += [*room.values(), *part.values()]
        return made
