"""Base conversions and key switches in FHETCH's instructions, found by the flow of data between limbs.

A limb that is brought to coefficients (`sr_intt`) and comes back as evaluations of other primes (`sr_ntt`) is a base
conversion. Which one, its primes say: to a special prime, a digit that is raised; from the special primes, a division
by P; from the last prime to all others, a rescale. A special prime is one at which only keys come from outside: what is
multiplied there by raised digits alone. What the products of digits and keys add up to, and is divided by P, is a key
switch.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from penstock.errors import TraceError
from penstock.trace.fhetch_text import COPY, ZERO, Program


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
class Found:
    """Conversions and switches of a program, and the steps that belong to them."""

    special: set[int]
    rescales: list[Conversion]
    switches: list[Switch]
    taken: set[int]
    """Steps that are inside."""


def find(program: Program) -> Found:
    """All conversions and key switches.

    Raises: TraceError: a conversion that is none of the three, or a division that no second one goes with.
    """
    return _Finder(program).found()


class _Finder:
    def __init__(self, program: Program) -> None:
        self.program, self.steps = program, program.steps
        self.maker = {step.made: i for i, step in enumerate(self.steps)}
        self.users: dict[int, list[int]] = defaultdict(list)
        for i, step in enumerate(self.steps):
            for read in step.reads:
                self.users[read].append(i)
        self.taken: set[int] = set()
        self.rests: dict[int, int] = {}
        """Converted limb -> what it is taken off, before any scaling."""
        self.conversions = self._conversions()
        self.special = self._special()

    def found(self) -> Found:
        raised, divided, rescales = [], [], []
        for each in self.conversions:
            if self.special & each.targets.keys():
                raised.append(each)
            elif each.sources.keys() <= self.special:
                divided.append(each)
            elif len(each.sources) == 1:
                rescales.append(each)
            else:
                line = self.steps[each.first].line
                raise TraceError(
                    f"line {line}: a base conversion from {len(each.sources)} primes that is no digit of one"
                )
        for each in (*divided, *rescales):
            self._divide(each)
        number = {value: i for i, each in enumerate(raised) for value in each.targets.values()}
        switches: list[Switch] = []
        waiting: tuple[Conversion, tuple[int, ...]] | None = None
        for each in divided:
            digits = self._digits(each, number, raised)
            if waiting is None:
                waiting = each, digits
                continue
            one, same = waiting
            if same != digits:
                raise TraceError(f"line {self.steps[each.first].line}: a division by P that no second one goes with")
            values = frozenset(v for d in digits for v in raised[d].sources.values())
            at = max(self.maker[v] for out in (one, each) for v in out.results.values())
            switches.append(Switch(digits, values, (one.results, each.results), at))
            waiting = None
        if waiting is not None:
            raise TraceError(f"line {self.steps[waiting[0].first].line}: a division by P that no second one goes with")
        return Found(self.special, rescales, switches, self.taken)

    def _conversions(self) -> list[Conversion]:
        """Steps between coefficients and evaluations, joined where values flow from one to the other."""
        parent: dict[int, int] = {}

        def root(value: int) -> int:
            while parent[value] != value:
                parent[value] = value = parent[parent[value]]
            return value

        entered: dict[int, list[int]] = {}
        left: list[int] = []
        for i, step in enumerate(self.steps):
            inside = [read for read in step.reads if read in parent]
            if step.op == "sr_intt":
                parent[step.made] = step.made
                entered[step.made] = [i]
            elif step.op == "sr_ntt":
                if not inside:
                    raise TraceError(
                        f"line {step.line}: evaluations of a polynomial from outside; only conversions have them"
                    )
                left.append(i)
            elif inside:
                parent[step.made] = root(inside[0])
                for other in inside[1:]:
                    parent[root(other)] = root(inside[0])
            else:
                continue
            self.taken.add(i)
        found: dict[int, Conversion] = {}
        for value, (i,) in entered.items():
            each = found.setdefault(root(value), Conversion(first=i))
            each.first = min(each.first, i)
            each.sources[self.program.modulus_of[self.steps[i].reads[0]]] = self.steps[i].reads[0]
        for i in left:
            found[root(self.steps[i].reads[0])].targets[self.steps[i].modulus] = self.steps[i].made
        return sorted(found.values(), key=lambda each: each.first)

    def _special(self) -> set[int]:
        """Primes at which everything from outside is multiplied by raised digits alone."""
        raised = {value for each in self.conversions for value in each.targets.values()}
        candidates = {prime for each in self.conversions for prime in each.targets} - {COPY}
        for value, outside in enumerate(self.program.outside):
            if not outside:
                continue
            for i in self.users[value]:
                step = self.steps[i]
                if step.op != "sr_mulp" or not any(read in raised for read in step.reads if read != value):
                    candidates.discard(self.program.modulus_of[value])
        return candidates

    def _divide(self, each: Conversion) -> None:
        """The quotient: what is taken off (or added to) the rest, with one scaling before or after."""
        if not each.targets:
            line = self.steps[each.first].line
            raise TraceError(f"line {line}: coefficients that never become evaluations again divide nothing")
        for prime, value in each.targets.items():
            after = [i for i in self.users[value] if i not in self.taken]
            if len(after) != 1 or self.steps[after[0]].op not in ("sr_subp", "sr_addp"):
                line = self.steps[each.first].line
                raise TraceError(
                    f"line {line}: a converted limb is not taken off one other limb, so nothing is divided"
                )
            step = self.steps[after[0]]
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
            self.rests[value] = self.steps[nearest].reads[0] if nearest < after[0] else rest
            each.results[prime] = step.made if nearest < after[0] else self.steps[nearest].made

    def _only(self, value: int) -> bool:
        return len(self.users[value]) == 1

    def _digits(self, each: Conversion, number: dict[int, int], raised: list[Conversion]) -> tuple[int, ...]:
        """Which raised digits a division by P goes back to; every step on the way is inside the switch."""
        starts = list(each.sources.values())
        for value in each.targets.values():
            starts.append(self.rests[value])
        own = {value for one in raised for value in one.sources.values()}
        digits: set[int] = set()
        seen: set[int] = set()
        while starts:
            value = starts.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in number:
                digits.add(number[value])
            elif value not in own and value in self.maker:
                i = self.maker[value]
                if self.steps[i].op not in ("sr_mulp", "sr_addp", "sr_mulps", ZERO):
                    raise TraceError(f"line {self.steps[i].line}: '{self.steps[i].op}' inside a key switch")
                self.taken.add(i)
                starts += self.steps[i].reads
        if not digits:
            raise TraceError(f"line {self.steps[each.first].line}: a division by P of what no key was multiplied with")
        return tuple(sorted(digits))
