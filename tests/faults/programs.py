"""Random programs over random small parameter sets, in the clear, symbolically, with noise, natively and by OpenFHE.

Each program is checked for what the readings promise of each other:

- the native evaluator's ciphertexts are OpenFHE's, word for word, at every step, from the same inputs and keys;
- the traces that both record are the `trace` reading's, operation by operation;
- the measured precision of each result is the predicted one.

    python tests/faults programs --count 500        # a second or two a program
    python tests/faults programs --count 1 --seed 137        # one program again, by its seed
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from faults.frame import Result, over, reported
from penstock.errors import ParamsError, PenstockError
from penstock.lab.prediction.precision import bits
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.noisy import NoisyEvaluator
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.params.spec import CkksSpec
from penstock.scheme.traces.inspect import differences, problems
from penstock.scheme.traces.schema import Trace, TraceMeta
from support.evaluator_pair import evaluator_pair

DRAWS = 7
"""Draws of the noise for one prediction."""
LARGEST = 4.0
"""Values of a program stay within this bound in the clear."""
WITHIN = 0.99
"""Of all results are within a bit of the median draw, at least."""
SPARE_BITS = 3
"""Bits of the modulus above the largest value at every step."""
FLOOR_BITS = 42.0
"""Of precision at most, for the largest value: doubles in the clear reading and in OpenFHE's decoding hold no more."""


@dataclass(frozen=True)
class Step:
    """One call: a name of `_CALLS`, the ciphertexts that it takes (by number) and what else it takes."""

    call: str
    operands: tuple[int, ...] = ()
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        shown = [f"c{i}" for i in self.operands] + [str(each) for each in self.arguments]
        return f"{self.call}({', '.join(shown)})"


@dataclass
class Program:
    """A program: its parameters, plaintext vectors, steps, and the ciphertexts that it decrypts."""

    seed: int
    params: CkksParameters
    plains: list[np.ndarray]
    steps: list[Step] = field(default_factory=list)
    results: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        params = self.params
        head = (
            f"seed {self.seed}: N = {params.ring_dim}, {params.slots} slots, {params.num_q} limbs, dnum {params.dnum}, "
            f"scale 2^{params.scale_bits}, q_0 2^{params.q_bits[0]}, {params.scaling.value}, {params.secret}"
        )
        return "\n".join([head, *(f"  {step}" for step in self.steps), f"  decrypt {self.results}"])


# The calls. Each takes the evaluator, the plaintexts, the operands and the arguments, and returns its ciphertexts.
def _sum_of_slots(ev: Any, a: Any, count: int) -> Any:
    for step in (1 << i for i in range(count.bit_length() - 1)):
        a = ev.add(a, ev.rotate(a, step))
    return a


_CALLS = {
    "encrypt": lambda ev, p, a, x: [ev.encrypt(p[x[0]].values)],
    "add": lambda ev, p, a, x: [ev.add(*a)],
    "sub": lambda ev, p, a, x: [ev.sub(*a)],
    "negate": lambda ev, p, a, x: [ev.negate(*a)],
    "add_plain": lambda ev, p, a, x: [ev.add(a[0], p[x[0]])],
    "sub_plain": lambda ev, p, a, x: [ev.sub(a[0], p[x[0]])],
    "add_number": lambda ev, p, a, x: [ev.add(a[0], x[0])],
    "sub_number": lambda ev, p, a, x: [ev.sub(a[0], x[0])],
    "number_sub": lambda ev, p, a, x: [ev.sub(x[0], a[0])],
    "mult": lambda ev, p, a, x: [ev.mult(*a)],
    "mult_in_parts": lambda ev, p, a, x: [ev.relinearize(ev.mult_no_relin(*a))],
    "square": lambda ev, p, a, x: [ev.square(*a)],
    "mult_plain": lambda ev, p, a, x: [ev.mult(a[0], p[x[0]])],
    "mult_number": lambda ev, p, a, x: [ev.mult(a[0], x[0])],
    "weighted_sum": lambda ev, p, a, x: [ev.weighted_sum(a, [p[i] for i in x])],
    "rotate": lambda ev, p, a, x: [ev.rotate(a[0], x[0])],
    "rotate_many": lambda ev, p, a, x: ev.rotate_many(a[0], x),
    "sum_of_slots": lambda ev, p, a, x: [_sum_of_slots(ev, a[0], x[0])],
    "conjugate": lambda ev, p, a, x: [ev.conjugate(*a)],
    "rescale": lambda ev, p, a, x: [ev.rescale(*a)],
    "mod_drop": lambda ev, p, a, x: [ev.mod_drop(a[0], x[0])],
    "series": lambda ev, p, a, x: [ev.chebyshev_series(a[0], x[0], x[1], x[2])],
}
_WEIGHTS = {
    "add": 3, "sub": 2, "negate": 0.5, "add_plain": 1, "sub_plain": 1, "add_number": 1, "sub_number": 0.5,
    "number_sub": 1, "mult": 3, "mult_in_parts": 1, "square": 1.5, "mult_plain": 2, "mult_number": 2, "weighted_sum": 1,
    "rotate": 1.5, "rotate_many": 1, "sum_of_slots": 0.7, "conjugate": 0.7, "rescale": 1, "mod_drop": 2, "series": 1.5,
}  # fmt: skip


def run(ev: Any, program: Program) -> list[Any]:
    """Every ciphertext of the program, in order."""
    made: list[Any] = []
    plains = [ev.encode(each) for each in program.plains]
    for step in program.steps:
        made += _CALLS[step.call](ev, plains, [made[i] for i in step.operands], step.arguments)
    return made


# Drawing a program.
def draw_params(rng: np.random.Generator, scaling: Scaling | None = None) -> CkksParameters:
    """A small insecure set of OpenFHE's; one in twenty has a digit for each of many limbs."""
    digits = rng.spawn(1)[0]
    many = int(digits.integers(18, 34)) if digits.random() < 0.05 else None
    while True:
        ring_dim = 1 << (int(rng.integers(10, 13)) if many is None else 10)
        scale_bits = int(rng.integers(32, 56))
        try:
            return CkksSpec(
                name="insecure-random",
                ring_dim=ring_dim,
                slots=1 << int(rng.integers(4, ring_dim.bit_length() - 1)),
                depth=int(rng.integers(2, 10)) if many is None else many - 1,
                scale_bits=scale_bits,
                first_mod_bits=int(rng.integers(min(scale_bits + 5, 60), 61)),
                dnum=int(rng.integers(1, 4)) if many is None else many,
                scaling=scaling or list(Scaling)[int(rng.integers(4))],
                secret="sparse-ternary" if rng.random() < 0.25 else "uniform-ternary",
                security="none",
            ).build()
        except ParamsError:
            continue  # more digits than limbs, or primes that are not there


def _number(rng: np.random.Generator) -> float:
    known = (0.0, 1.0, -1.0, 0.5, -1.5, 2.0, 1e-3, -0.3)
    return float(rng.choice(known)) if rng.random() < 0.4 else float(rng.uniform(-2, 2))


def _series(rng: np.random.Generator, values: np.ndarray) -> tuple[Any, ...]:
    degree = int(rng.choice([1, 2, 3, 4, 5, 7, 10, 13, 15, 27]))
    series = rng.uniform(-1, 1, degree + 1) / np.sqrt(degree + 1)
    parity = rng.random()
    if parity < 0.4 and degree > 1:
        series[(0 if parity < 0.2 else 1) :: 2] = 0.0
    low, high = float(np.min(values)), float(np.max(values))
    interval = (-1.0, 1.0) if low >= -1 and high <= 1 and rng.random() < 0.6 else (low - 0.25, high + 0.25)
    return ([float(each) for each in series], *interval)


@dataclass
class _Draft:
    """A program while it is drawn: what has been made of it symbolically and in the clear."""

    program: Program
    rng: np.random.Generator

    def __post_init__(self) -> None:
        params = self.program.params
        self.readers: tuple[Any, Any] = SymbolicEvaluator(params), ClearEvaluator(params)
        self.plains = [[ev.encode(each) for each in self.program.plains] for ev in self.readers]
        self.symbolic: list[Any] = []
        self.clear: list[np.ndarray] = []

    def take(self, step: Step) -> bool:
        """Add a step, if every reading should accept it."""
        try:
            symbolic, clear = (
                _CALLS[step.call](ev, plains, [made[i] for i in step.operands], step.arguments)
                for ev, plains, made in zip(self.readers, self.plains, (self.symbolic, self.clear), strict=True)
            )
        except PenstockError:
            return False
        if not all(self._holds(c.state, values) for c, values in zip(symbolic, clear, strict=True)):
            return False
        self.symbolic += symbolic
        self.clear += clear
        self.program.steps.append(step)
        return True

    def _holds(self, state: Any, values: np.ndarray) -> bool:
        params, largest = self.program.params, float(np.max(np.abs(values)))
        held = sum(params.q_bits[: state.limbs])
        needed = state.degree * params.scale_bits + np.log2(max(largest, 1.0)) + SPARE_BITS
        # A product at the last limb cannot be brought to anything, and OpenFHE loses its scale.
        return bool(largest <= LARGEST and needed < held and state.limbs >= state.degree)

    def candidate(self) -> Step:
        """A step that may or may not fit."""
        rng, params, have = self.rng, self.program.params, len(self.clear)
        names = list(_WEIGHTS)
        weights = np.array(list(_WEIGHTS.values()))
        call = names[int(rng.choice(len(names), p=weights / weights.sum()))]
        # Rather what was made last.
        a, b = (int(have - 1 - min(rng.geometric(0.35) - 1, have - 1)) for _ in range(2))
        plain = int(rng.integers(len(self.program.plains)))
        step = int(rng.integers(-params.slots, params.slots))
        if call in ("add", "sub", "mult", "mult_in_parts"):
            return Step(call, (a, b))
        if call in ("add_plain", "sub_plain", "mult_plain"):
            return Step(call, (a,), (plain,))
        if call in ("add_number", "sub_number", "number_sub", "mult_number"):
            return Step(call, (a,), (_number(rng),))
        if call == "weighted_sum":
            return Step(call, (a, b), (plain, int(rng.integers(len(self.program.plains)))))
        if call == "rotate":
            return Step(call, (a,), (step,))
        if call == "rotate_many":
            return Step(call, (a,), (step, int(rng.integers(1, params.slots)), 1))
        if call == "sum_of_slots":
            return Step(call, (a,), (1 << int(rng.integers(1, 4)),))
        if call == "mod_drop":
            return Step(call, (a,), (int(rng.integers(1, self.symbolic[a].state.limbs + 1)),))
        if call == "series":
            return Step(call, (a,), _series(rng, self.clear[a]))
        return Step(call, (a,))


def draw_program(seed: int, scaling: Scaling | None = None) -> Program:
    """The program of a seed."""
    rng = np.random.default_rng(seed)
    params = draw_params(rng, scaling)
    vectors = [
        rng.uniform(-1, 1, params.slots),
        np.linspace(-1, 1, params.slots),
        rng.uniform(-1, 1, params.slots // 2),
    ]
    program = Program(seed, params, vectors)
    draft = _Draft(program, rng)
    for index in range(int(rng.integers(1, 4))):
        draft.take(Step("encrypt", (), (index,)))
    wanted = len(program.steps) + int(rng.integers(3, 16))
    for _ in range(200):
        if len(program.steps) >= wanted:
            break
        taken = draft.take(draft.candidate())
        made = draft.symbolic[-1]
        if taken and not params.scaling.automatic and made.state.degree > 1 and rng.random() < 0.85:
            draft.take(Step("rescale", (len(draft.symbolic) - 1,)))
    last = len(draft.clear) - 1
    program.results = sorted({last, *(int(each) for each in rng.integers(0, last + 1, 2))})
    return program


# Checking it.
@dataclass(frozen=True)
class Gap:
    """One result: bits of precision that were predicted (each draw's) and measured."""

    seed: int
    reading: str
    predicted: tuple[float, ...]
    measured: float
    scaling: str

    @property
    def from_median(self) -> float:
        """How much less precise than the median draw: above 0 the prediction was too optimistic."""
        return float(np.median(self.predicted)) - self.measured

    @property
    def outside(self) -> float:
        """The same against the range of the draws; 0 inside."""
        low, high = min(self.predicted), max(self.predicted)
        return max(low - self.measured, 0.0) - max(self.measured - high, 0.0)


@dataclass
class Outcome:
    """What was found of one program."""

    program: Program
    faults: list[str] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    ciphertexts: int = 0
    """Compared word by word."""


def _trace(ev: Any, program: Program) -> Trace:
    return ev.builder.finish(TraceMeta(workload="random", params=program.params.to_dict(), reading="random"))


def _decrypted(ev: Any, made: Sequence[Any], program: Program) -> list[np.ndarray | PenstockError]:
    found: list[np.ndarray | PenstockError] = []
    for index in program.results:
        try:
            found.append(ev.decrypt(made[index]).real)
        except PenstockError as error:
            found.append(error)
    return found


def check(program: Program) -> Outcome:
    """Read a program in every reading and compare."""
    outcome, params = Outcome(program), program.params
    clear = run(ClearEvaluator(params), program)
    symbolic = SymbolicEvaluator(params)
    _decrypted(symbolic, run(symbolic, program), program)
    expected = _trace(symbolic, program)
    draws = []
    for index in range(DRAWS):
        noisy = NoisyEvaluator(params, [program.seed, index])
        draws.append(_decrypted(noisy, run(noisy, program), program))
    with evaluator_pair(params, expected.view().key_ids()) as pair:
        made = {}
        for reading, ev in (("native", pair.ours), ("openfhe", pair.theirs)):
            try:
                made[reading] = run(ev, program)
            except PenstockError as error:
                outcome.faults.append(f"{reading} refuses the program: {error}")
                return outcome
        for number, (ours, theirs) in enumerate(zip(made["native"], made["openfhe"], strict=True)):
            outcome.ciphertexts += 1
            said = pair.difference(ours, theirs)
            if said:
                outcome.faults.append(f"c{number}: {said}")
        for reading, ev in (("native", pair.ours), ("openfhe", pair.theirs)):
            measured = _decrypted(ev, made[reading], program)
            outcome.faults += _compare(outcome, reading, measured, draws, [clear[i] for i in program.results])
            recorded = _trace(ev, program)
            outcome.faults += [f"{reading}: trace: {each}" for each in problems(recorded)][:3]
            wanted = expected.view() if reading == "native" else expected
            outcome.faults += [f"{reading}: trace: {each}" for each in differences(recorded, wanted)][:3]
    return outcome


def _compare(
    outcome: Outcome, reading: str, measured: Sequence[Any], draws: Sequence[Sequence[Any]], clear: Sequence[np.ndarray]
) -> Iterator[str]:
    """Precision of each result; yields what is not a number."""
    program = outcome.program
    for index, (got, exact) in enumerate(zip(measured, clear, strict=True)):
        predicted = [each[index] for each in draws]
        refused = [isinstance(each, PenstockError) for each in predicted]
        if isinstance(got, PenstockError) or all(refused):
            if not (isinstance(got, PenstockError) and any(refused)):
                yield f"{reading}: result {index}: {got if not all(refused) else predicted[0]} (only one of both)"
            continue
        values = [each for each in predicted if not isinstance(each, PenstockError)]
        found = [_precision(each, exact) for each in (*values, got)]
        outcome.gaps.append(Gap(program.seed, reading, tuple(found[:-1]), found[-1], program.params.scaling.value))


def _precision(got: np.ndarray, exact: np.ndarray) -> float:
    """Bits, no more than doubles hold."""
    found = bits(float(np.sqrt(np.mean((got - exact) ** 2))))
    most = FLOOR_BITS - float(np.log2(max(1.0, np.max(np.abs(exact)))))
    return most if found is None else min(found, most)


def summary(outcomes: Sequence[Outcome]) -> str:
    """The distribution, as a table."""
    gaps = [gap for each in outcomes for gap in each.gaps]
    counts = Counter(each.program.params.scaling.value for each in outcomes)
    lines = [
        f"{len(outcomes)} programs ({', '.join(f'{n} {name}' for name, n in sorted(counts.items()))}), "
        f"{sum(len(each.program.steps) for each in outcomes)} steps",
        f"words: {sum(each.ciphertexts for each in outcomes)} ciphertexts compared; faults in "
        f"{sum(bool(each.faults) for each in outcomes)} programs",
        "precision (bits, measured below predicted: optimistic above 0)",
        f"  {'':18} {'results':>8} {'>1 optim.':>9} {'>1 pessim.':>10} {'within 1':>9} {'p1':>6} {'p50':>6} {'p99':>6} "
        f"{'least':>6} {'most':>6}",
    ]
    for name in (*sorted(counts), "all"):
        chosen = [gap for gap in gaps if name in (gap.scaling, "all")]
        for what, found in (("median", [g.from_median for g in chosen]), ("range", [g.outside for g in chosen])):
            if found:
                p1, p50, p99 = np.percentile(found, [1, 50, 99])
                within = np.mean(np.abs(found) <= 1)
                lines.append(
                    f"  {name:18} {len(found):8} {sum(f > 1 for f in found):9} {sum(f < -1 for f in found):10} "
                    f"{within:9.2%} {p1:6.2f} {p50:6.2f} {p99:6.2f} {min(found):6.2f} {max(found):6.2f}  of the {what}"
                )
    return "\n".join(lines)


def bench(folder: Path, count: int, seed: int, jobs: int) -> list[Result]:
    """Check the programs of `count` seeds from `seed` on, and print the distribution. Nothing is written."""
    results = reported(over(case, range(seed, seed + count), jobs), count)
    outcomes = [each.detail for each in results]
    print(summary(outcomes))
    gaps = [abs(gap.from_median) for each in outcomes for gap in each.gaps]
    within = float(np.mean([gap <= 1 for gap in gaps])) if gaps else 1.0
    faults = () if within >= WITHIN or count < 100 else (f"only {within:.2%} within a bit",)
    return [*results, Result("programs", "all results", seed, f"{within:.2%} within a bit", faults, cases=0)]


def case(seed: int) -> Result:
    """The program of a seed. Keys are new in each run: a miss of the precision counts if other keys show it too."""
    began = time.monotonic()
    outcome = check(draw_program(seed))
    faults = tuple(outcome.faults)
    if missed(outcome) and missed(check(draw_program(seed))):
        faults += ("more than a bit from the predicted precision, with two key pairs",)
    notes = program_report(outcome) if faults else ""
    kind = outcome.program.params.scaling.value
    took = time.monotonic() - began
    return Result("programs", kind, seed, "faulty" if faults else "right", faults, took, notes=notes, detail=outcome)


def missed(outcome: Outcome) -> bool:
    """Whether a result is more than a bit outside of all draws."""
    return any(abs(gap.outside) > 1 for gap in outcome.gaps)


def program_report(outcome: Outcome) -> str:
    """A program and what is wrong with it."""
    gaps = [f"  {g.reading}: {g.measured:.2f} bits, predicted {min(g.predicted):.2f} to {max(g.predicted):.2f}"
            for g in outcome.gaps]  # fmt: skip
    return "\n".join([str(outcome.program), *(f"  FAULT {each}" for each in outcome.faults), *gaps])
