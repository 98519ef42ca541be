"""Base conversions and key switches in FHETCH's instructions, found by the flow of data between limbs.

A limb that is brought to coefficients (`sr_intt`) and comes back as evaluations of other primes (`sr_ntt`) is a base
conversion. Its primes decide the kind: to a special prime, a digit that is raised; from the special primes, a division
by P; from the last prime to all others, a rescale. At a special prime only keys come from outside: only raised digits
multiply them there. A sum of products of digits and keys that is divided by P is a key switch: at each prime one
product of each digit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass, field

from penstock.errors import TraceError
from penstock.scheme.traces.fhetch_text import COPY, SCALAR, ZERO, FhetchProgram, LimbStep


@dataclass(slots=True)
class Conversion:
    """Limbs of one polynomial, or of one digit of it, brought to other primes."""

    first: int
    """The step at which it begins."""
    sources: dict[int, int] = field(default_factory=dict)
    """Prime -> the value that is brought to coefficients."""
    targets: dict[int, int] = field(default_factory=dict)
    """Prime -> the value that comes out."""
    results: dict[int, int] = field(default_factory=dict)
    """Of a division: prime -> quotient."""
    rests: dict[int, int] = field(default_factory=dict)
    """Of a division: prime -> the minuend of the converted limb, before any scaling."""


@dataclass(slots=True)
class Switch:
    """One key switch: the polynomial, its digits, and the two polynomials that come out."""

    digits: tuple[int, ...]
    """Numbers of the conversions that raise its digits."""
    polynomial: frozenset[int]
    """The values that were cut into digits."""
    out: tuple[dict[int, int], dict[int, int]]
    at: int
    """The step at which it is done."""


@dataclass(slots=True)
class Patterns:
    """Conversions and switches of a program, and the steps that belong to them."""

    special: set[int]
    rescales: list[Conversion]
    switches: list[Switch]
    taken: set[int]
    """Steps that are inside."""


def find(program: FhetchProgram) -> Patterns:
    """All conversions and key switches.

    Raises: TraceError: a conversion that is none of the three, or a division that no second one goes with.
    """
    return _Finder(program).all()


class _Finder:
    def __init__(self, program: FhetchProgram) -> None:
        self.program, self.steps = program, program.steps
        self.maker = {step.made: i for i, step in enumerate(self.steps)}
        self.users: dict[int, list[int]] = defaultdict(list)
        for i, step in enumerate(self.steps):
            for read in step.reads:
                self.users[read].append(i)
        self.taken: set[int] = set()
        self.conversions = self._conversions()
        self.special = self._special()

    def all(self) -> Patterns:
        raised, divided, rescales = [], [], []
        for conversion in self.conversions:
            if self.special & conversion.targets.keys():
                raised.append(conversion)
            elif conversion.sources.keys() == self.special:
                divided.append(conversion)
            elif len(conversion.sources) == 1:
                rescales.append(conversion)
            else:
                line = self.steps[conversion.first].line
                raise TraceError(
                    f"line {line}: a base conversion from {len(conversion.sources)} primes that is not a digit of one"
                )
        for conversion in (*divided, *rescales):
            self._divide(conversion)
        number = {value: i for i, conversion in enumerate(raised) for value in conversion.targets.values()}
        switches: list[Switch] = []
        waiting: tuple[Conversion, tuple[int, ...]] | None = None
        for conversion in divided:
            digits = self._digits(conversion, number, raised)
            if waiting is None:
                waiting = conversion, digits
                continue
            one, same = waiting
            if same != digits:
                raise TraceError(
                    f"line {self.steps[conversion.first].line}: a division by P that no second one goes with"
                )
            values = frozenset(v for d in digits for v in raised[d].sources.values())
            at = max(self.maker[v] for out in (one, conversion) for v in out.results.values())
            switches.append(Switch(digits, values, (one.results, conversion.results), at))
            waiting = None
        if waiting is not None:
            raise TraceError(f"line {self.steps[waiting[0].first].line}: a division by P that no second one goes with")
        return Patterns(self.special, rescales, switches, self.taken)

    def _conversions(self) -> list[Conversion]:
        """Steps between coefficients and evaluations, joined where values flow from one to the other."""
        parent: dict[int, int] = {}

        def root(value: int) -> int:
            while parent[value] != value:
                parent[value] = value = parent[parent[value]]
            return value

        of = self.program.modulus_of
        zeros = {step.made for step in self.steps if step.op == ZERO}
        origins: dict[int, frozenset[int]] = {}  # coefficients -> the limbs that they are made of
        moved: set[int] = set()  # coefficients at another prime than the limb that they come from
        entered: dict[int, int] = {}
        left: list[int] = []
        for i, step in enumerate(self.steps):
            inside = [read for read in step.reads if read in parent]
            if not (inside and step.op in SCALAR):
                self._same_prime(step)
            if step.op == "sr_intt":
                parent[step.made] = step.made
                origins[step.made] = frozenset((step.made,))
                entered[step.made] = i
            elif step.op == "sr_ntt":
                if not inside:
                    raise TraceError(
                        f"line {step.line}: evaluations of a polynomial from outside; only conversions have them"
                    )
                left.append(i)
            elif inside:
                others = [read for read in step.reads if read not in parent and read not in zeros]
                if others or step.op not in (*SCALAR, "sr_addp"):
                    raise TraceError(f"line {step.line}: '{step.op}' inside a base conversion")
                parent[step.made] = root(inside[0])
                for other in inside[1:]:
                    parent[root(other)] = root(inside[0])
                origins[step.made] = frozenset().union(*(origins[read] for read in inside))
                changes = of[step.made] != of[inside[0]]
                if changes and inside[0] in moved:
                    raise TraceError(f"line {step.line}: '{step.op}' modulo a third prime inside a base conversion")
                if changes or moved.intersection(inside):
                    moved.add(step.made)
            else:
                continue
            self.taken.add(i)
        conversion_of: dict[int, Conversion] = {}
        for value, i in entered.items():
            conversion = conversion_of.setdefault(root(value), Conversion(first=i))
            conversion.first = min(conversion.first, i)
            self._enter(conversion.sources, i, self.steps[i].reads[0])
        for i in left:
            (read,) = self.steps[i].reads
            conversion = conversion_of[root(read)]
            self._enter(conversion.targets, i, self.steps[i].made)
            if len(origins[read]) != len(conversion.sources):
                raise TraceError(f"line {self.steps[i].line}: a limb that not all limbs of its conversion add to")
        return sorted(conversion_of.values(), key=lambda conversion: conversion.first)

    def _same_prime(self, step: LimbStep) -> None:
        """Limbs are at one prime, but for the scaling inside a conversion that brings them to another."""
        primes = {self.program.modulus_of[value] for value in (step.made, *step.reads)} - {COPY}
        if len(primes) > 1:
            raise TraceError(f"line {step.line}: '{step.op}' modulo one prime of a limb modulo another")

    def _enter(self, limbs: dict[int, int], i: int, value: int) -> None:
        """Add a limb to one side of a conversion."""
        if limbs.setdefault(self.program.modulus_of[value], value) != value:
            raise TraceError(f"line {self.steps[i].line}: a second limb at one prime in one base conversion")

    def _special(self) -> set[int]:
        """Primes at which everything from outside is multiplied by raised digits alone."""
        raised = {value for conversion in self.conversions for value in conversion.targets.values()}
        candidates = {prime for conversion in self.conversions for prime in conversion.targets} - {COPY}
        for value, outside in enumerate(self.program.outside):
            if not outside:
                continue
            for i in self.users[value]:
                step = self.steps[i]
                if step.op != "sr_mulp" or not any(read in raised for read in step.reads if read != value):
                    candidates.discard(self.program.modulus_of[value])
        return candidates

    def _divide(self, conversion: Conversion) -> None:
        """The quotient: the rest minus (or plus) the converted limb, with one scaling before or after."""
        if not conversion.targets:
            line = self.steps[conversion.first].line
            raise TraceError(f"line {line}: coefficients that never become evaluations again divide nothing")
        for prime, value in conversion.targets.items():
            after = [i for i in self.users[value] if i not in self.taken]
            step = self.steps[after[0]] if len(after) == 1 else None
            if step is None or step.op not in ("sr_subp", "sr_addp") or (step.op, step.reads[0]) == ("sr_subp", value):
                line = self.steps[conversion.first].line
                raise TraceError(
                    f"line {line}: a converted limb is not taken off one other limb, so nothing is divided"
                )
            self.taken.add(after[0])
            (rest,) = [read for read in step.reads if read != value]
            # Both may be there, one of them the program's own product with a number: the scaling is the nearer one.
            scalings = [self.maker[rest]] if rest in self.maker and self._only(rest) else []
            scalings += self.users[step.made] if self._only(step.made) else []
            scalings = [i for i in scalings if self.steps[i].op == "sr_mulps"]
            if not scalings:
                raise TraceError(
                    f"line {step.line}: a difference that is not scaled by the inverse: nothing is divided"
                )
            nearest = min((abs(i - after[0]), i) for i in scalings)[1]
            self.taken.add(nearest)
            conversion.rests[prime] = self.steps[nearest].reads[0] if nearest < after[0] else rest
            conversion.results[prime] = step.made if nearest < after[0] else self.steps[nearest].made

    def _only(self, value: int) -> bool:
        return len(self.users[value]) == 1

    def _digits(self, division: Conversion, number: dict[int, int], raised: list[Conversion]) -> tuple[int, ...]:
        """The raised digits behind a division by P; every step on the way is inside the switch."""
        line = self.steps[division.first].line
        factors = number.keys() | {value for one in raised for value in one.sources.values()}
        limbs = {
            prime: self._multiplied(value, factors, line)
            for prime, value in {**division.sources, **division.rests}.items()
        }
        digits = {number[value] for values in limbs.values() for value in values if value in number}
        if not digits:
            raise TraceError(f"line {line}: a division by P of what no key was multiplied with")
        for prime, values in limbs.items():
            if values != {raised[d].targets.get(prime, raised[d].sources.get(prime)) for d in digits}:
                raise TraceError(f"line {line}: a division by P of a sum that lacks a digit at one prime")
        return tuple(sorted(digits))

    def _multiplied(self, total: int, factors: Set[int], line: int) -> set[int]:
        """The limbs of digits whose products with keys add up to this one."""
        multiplied: set[int] = set()
        waiting, seen = [total], {total}
        while waiting:
            i = self.maker.get(waiting.pop())
            if i is None:
                raise TraceError(f"line {line}: a division by P of what comes from outside")
            step = self.steps[i]
            own = [read for read in step.reads if read in factors]
            if step.op == "sr_mulp" and len(own) == 1:
                keys = [read for read in step.reads if read not in factors]
                fits = self.program.outside[keys[0]] and own[0] not in multiplied
                multiplied.update(own)
            elif step.op in ("sr_addp", ZERO):
                fits = len(set(step.reads) - seen) == len(step.reads)
                seen.update(step.reads)
                waiting += step.reads
            else:
                fits = False
            if not fits:
                raise TraceError(
                    f"line {step.line}: '{step.op}' inside a key switch, which adds digits times keys once"
                )
            self.taken.add(i)
        return multiplied
