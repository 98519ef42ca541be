"""Random programs with degenerate sizes, in the clear, symbolically, natively and by OpenFHE, each in its own process.

Parameter sets have 1 slot, 2, or all of the ring; depth 0 or a few; calls have empty lists, constants, zeros in the
highest places, steps beyond the slots, operands of another kind. Each call is computed in all readings or refused with
the same words in all; what the clear reading computes is refused only for the depth. Values are the clear ones.

    python tests/faults degenerate --count 1 --seed 137        # one program again, by its seed
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from faults.frame import Result, forked, over, reported
from penstock.errors import ParamsError, PenstockError
from penstock.program.evaluator.circuits.sums import fold
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.running import READINGS
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.params.spec import CkksSpec
from penstock.scheme.traces.schema import TraceMeta
from support.degenerate_calls import CALLS

LARGEST = 4.0
"""Values of a program stay within this bound in the clear; those of a refresh within 1."""
TOLERANCE = 1e-3
SPARE_BITS = 3
"""Of the modulus above the largest value."""
ENCRYPTED = ("native", "openfhe")
MOST_SECONDS = 60.0


@dataclass(frozen=True)
class Step:
    """One call: a name of `CALLS` or `_DRAWN`, the ciphertexts that it takes (by number) and what else it takes."""

    call: str
    operands: tuple[int, ...]
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.call}({', '.join([f'c{i}' for i in self.operands] + [str(each) for each in self.arguments])})"


@dataclass
class Program:
    """A program, and what its calls do where nothing is encrypted."""

    params: CkksParameters
    steps: list[Step] = field(default_factory=list)
    ends: list[int | str] = field(default_factory=list)
    """Of each call: how many ciphertexts it makes, or its refusal."""
    values: list[np.ndarray] = field(default_factory=list)
    """Of each ciphertext, in the clear."""


_DRAWN: dict[str, Callable[..., Any]] = {
    "encrypt": lambda ev, values: ev.encrypt(values),
    "add": lambda ev, a, b: ev.add(a, b),
    "sub": lambda ev, a, b: ev.sub(a, b),
    "mult": lambda ev, a, b: ev.mult(a, b),
    "mult_in_parts": lambda ev, a, b: ev.relinearize(ev.mult_no_relin(a, b)),
    "square": lambda ev, a: ev.square(a),
    "conjugate": lambda ev, a: ev.conjugate(a),
    "rescale": lambda ev, a: ev.rescale(a),
    "rotate": lambda ev, a, step: ev.rotate(a, step),
    "rotate_many": lambda ev, a, *steps: ev.rotate_many(a, steps),
    "fold": lambda ev, a, length: fold(ev, a, length),
    "mod_drop": lambda ev, a, limbs: ev.mod_drop(a, limbs),
    "polynomial": lambda ev, a, *series: ev.polynomial(a, series),
    "series": lambda ev, a, low, high, *series: ev.chebyshev_series(a, series, low, high),
    "function": lambda ev, a, degree: ev.chebyshev_function(a, np.cos, -1, 1, degree),
    "weighted_sum": lambda ev, a, b, *values: ev.weighted_sum(
        [a, b] * (len(values) // 2) + [a] * (len(values) % 2), [partial(np.full, ev.params.slots, v) for v in values]
    ),
    "bootstrap": lambda ev, a, slots: ev.bootstrap(a, slots),
    "bootstrap_many": lambda ev, a, b, slots: ev.bootstrap_many([a, b], slots),
}
_OPERANDS = {"encrypt": 0} | dict.fromkeys(
    ("add", "sub", "mult", "mult_in_parts", "weighted_sum", "bootstrap_many"), 2
)  # fmt: skip


def taken(ev: Any, made: Sequence[Any], step: Step) -> list[Any] | str:
    """The ciphertexts of a call, or its refusal."""
    operands = [made[i] for i in step.operands]
    try:
        found = CALLS[step.call](ev, *operands) if step.call in CALLS else _DRAWN[step.call](
            ev, *operands, *step.arguments)  # fmt: skip
    except PenstockError as error:
        return f"{type(error).__name__}: {error}"
    return found if isinstance(found, list) else [found]


# Drawing a program.
def draw_params(rng: np.random.Generator) -> CkksParameters:
    """A small insecure set: of few slots or all, of little depth or some; one in twelve refreshes."""
    for _ in range(100):
        refreshes, scaling = rng.random() < 1 / 12, list(Scaling)[int(rng.integers(4))]
        ring_dim = 2048 if refreshes else 1 << int(rng.integers(10, 13))
        dense = not refreshes or scaling is Scaling.FIXED_MANUAL
        plan = {"cts_stages": int(rng.integers(1, 4)), "stc_stages": int(rng.integers(1, 4)), "extra_limbs": 1}
        plan |= {"chebyshev_degree": 104, "double_angles": 6} if dense else {"chebyshev_degree": 48, "double_angles": 3}
        try:
            return CkksSpec(
                name="insecure-random",
                ring_dim=ring_dim,
                slots=int(rng.choice([1, 2, 4, 64, ring_dim // 4, ring_dim // 2])),
                depth=28 if refreshes else int(rng.choice([0, 1, 2, 3, 5, 9])),
                scale_bits=59 if refreshes else int(rng.integers(45, 56)),
                first_mod_bits=60,
                dnum=3 if refreshes else int(rng.integers(1, 4)),
                scaling=scaling,
                secret="uniform-ternary" if dense else "sparse-ternary",
                security="none",
                bootstrap=plan if refreshes else None,
            ).build()
        except ParamsError:
            continue  # more digits than limbs
    raise AssertionError("no set could be built")


def draw_step(rng: np.random.Generator, params: CkksParameters, have: int) -> Step:
    """A call that may be refused."""
    if rng.random() < 0.3:
        names = list(CALLS)
        return Step(names[int(rng.integers(len(names)))], (int(rng.integers(have)),))
    names = list(_DRAWN)
    call, slots = names[int(rng.integers(len(names)))], params.slots
    operands = tuple(int(have - 1 - rng.integers(min(have, 4))) for _ in range(_OPERANDS.get(call, 1)))
    steps = (0, 1, -1, slots - 1, 1 - slots, slots, -slots, slots // 2, slots + 1, 3 * slots, int(rng.integers(-9, 9)))
    series = [float(each) for each in rng.uniform(-1, 1, int(rng.choice([0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 9, 14, 28])))]
    series = [each / max(len(series), 1) for each in series]
    for kind in rng.integers(6, size=2):
        if kind == 0:
            series += [0.0] * int(rng.integers(1, 4))
        elif kind == 1:
            series = [0.0] * len(series)
        elif kind == 2:
            series[1:] = [0.0] * len(series[1:])
        elif kind == 3:
            series[::2] = [0.0] * len(series[::2])
    drawn: dict[str, Callable[[], tuple[Any, ...]]] = {
        "encrypt": lambda: (rng.uniform(-1, 1, int(rng.choice([0, 1, slots // 2, slots, slots, slots + 1]))),),
        "rotate": lambda: (int(rng.choice(steps)),),
        "rotate_many": lambda: tuple(int(each) for each in rng.choice(steps, int(rng.integers(0, 5)))),
        "fold": lambda: (int(rng.choice([0, 1, 2, 3, slots, 2 * slots])),),
        "mod_drop": lambda: (int(rng.integers(-1, params.num_q + 2)),),
        "polynomial": lambda: tuple(series),
        "series": lambda: (*[(-1, 1), (-4, 4), (1, -1), (0.5, 0.5), (-4.0, 5)][int(rng.integers(5))], *series),
        "function": lambda: (int(rng.integers(-1, 9)),),
        "weighted_sum": lambda: tuple(float(each) for each in rng.choice([0, 1, -0.1, 0.2], int(rng.integers(0, 20)))),
        "bootstrap": lambda: (_period(rng, slots),),
        "bootstrap_many": lambda: (_period(rng, slots),),
    }
    return Step(call, operands, drawn.get(call, tuple)())


def _period(rng: np.random.Generator, slots: int) -> int | None:
    return None if rng.random() < 0.5 else int(rng.choice([0, 1, 2, 3, slots // 2, slots, 2 * slots]))


def draw_program(seed: int) -> tuple[Program, Any, list[str]]:
    """The program of a seed, its trace, and where the trace reading differs from the clear one."""
    rng = np.random.default_rng([seed, 41])
    params = draw_params(rng)
    program, faults = Program(params), []
    clear, symbolic = ClearEvaluator(params), SymbolicEvaluator(params)
    states: list[Any] = []
    first = Step("encrypt", (), (rng.uniform(-1, 1, params.slots),))
    wanted = int(rng.integers(4, 12))
    for step in (first, *(None for _ in range(60))):
        if len(program.steps) >= wanted or (step is None and not states):  # a set that holds no fresh ciphertext
            break
        step = step or draw_step(rng, params, len(states))
        values, made = taken(clear, program.values, step), taken(symbolic, states, step)
        if isinstance(made, str):
            if isinstance(values, str) and values != made:
                faults.append(f"{step}: clear: {values}; trace: {made}")
            program.steps.append(step)
            program.ends.append(made)
            continue
        if isinstance(values, str):
            faults.append(f"{step}: the trace reading computes, clear: {values}")
            continue
        if not _holds(params, step, program, values, made):
            continue
        program.steps.append(step)
        program.ends.append(len(made))
        program.values += values
        states += made
    trace = symbolic.builder.finish(TraceMeta(workload="random", params=params.to_dict(), reading="trace"))
    return program, trace, faults


def _holds(params: CkksParameters, step: Step, program: Program, values: list[np.ndarray], made: list[Any]) -> bool:
    """Whether the ciphertexts hold the values that a call makes of them."""
    if step.call.startswith("bootstrap") and any(np.max(np.abs(program.values[i])) > 1 for i in step.operands):
        return False
    for each, cipher in zip(values, made, strict=True):
        largest, state = float(np.max(np.abs(each))), cipher.state
        needed = state.degree * params.scale_bits + np.log2(max(largest, 1.0)) + SPARE_BITS
        if not largest <= LARGEST or needed >= sum(params.q_bits[: state.limbs]) or state.limbs < state.degree:
            return False
    return True


# Checking it.
def differences(ev: Any, program: Program) -> list[str]:
    """Where an encrypted reading differs from what nothing encrypted says."""
    found: list[str] = []
    made: list[Any] = []
    for step, expected in zip(program.steps, program.ends, strict=True):
        got = taken(ev, made, step)
        end = got if isinstance(got, str) else len(got)
        if end != expected:
            return [*found, f"{step}: {end}, not {expected}"]
        made += [] if isinstance(got, str) else got
    for number, (cipher, exact) in enumerate(zip(made, program.values, strict=True)):
        try:
            error = float(np.max(np.abs(ev.decrypt(cipher) - exact)))
        except PenstockError as refused:
            error = float("nan")
            found.append(f"c{number}: {refused}")
        if error > TOLERANCE:
            found.append(f"c{number}: differs by {error:.3g} of up to {np.max(np.abs(exact)):.3g}")
    return found


def check(seed: int, told: Path) -> int:
    """Read the program of a seed in all readings; what differs goes into a file."""
    program, trace, faults = draw_program(seed)
    params = program.params
    lines = [
        f"seed {seed}: N = {params.ring_dim}, {params.slots} slots, {params.num_q} limbs, dnum {params.dnum}, scale "
        f"2^{params.scale_bits}, {params.scaling.value}",
        *(f"  {step} -> {end}" for step, end in zip(program.steps, program.ends, strict=True)),
    ]
    said = {"program": "\n".join(lines), "faults": faults, "calls": len(program.steps)}
    said["refused"] = sum(isinstance(end, str) for end in program.ends)
    for reading in ENCRYPTED:
        told.write_text(json.dumps(said | {"faults": [*faults, f"{reading}: the process ended"]}))
        try:
            with ExitStack() as stack:
                ev = stack.enter_context(READINGS[reading].evaluator(params, trace))
                faults += [f"{reading}: {each}" for each in differences(ev, program)]
        except PenstockError as error:
            faults.append(f"{reading}: {error}")
    told.write_text(json.dumps(said))
    return 0


def case(seed: int, folder: Path) -> Result:
    """The program of a seed, in a process of its own."""
    began, own = time.monotonic(), folder / str(seed)
    own.mkdir()
    told = own / "told.json"
    ended = forked(lambda: check(seed, told), own, seconds=MOST_SECONDS)
    said = json.loads(told.read_text()) if told.exists() else {"program": f"seed {seed}", "faults": [], "refused": 0}
    faults = list(said["faults"])
    if ended.code:
        faults.append(f"the process ended with {ended.code}: {ended.errors.strip()[-300:]}")
    kind = said["program"].partition("\n")[0].rpartition(" ")[2]
    end = "faulty" if faults else f"right, {'some' if said['refused'] else 'none'} refused"
    took = time.monotonic() - began
    return Result("degenerate", kind, seed, end, tuple(faults), took, ended.peak_bytes, notes=said["program"])


def bench(folder: Path, count: int, seed: int, jobs: int) -> list[Result]:
    """Check the programs of `count` seeds from `seed` on."""
    for name in ENCRYPTED:
        _ = READINGS[name]  # loaded once, before the forks; not OpenFHE itself, which a fork must not inherit
    return reported(over(partial(case, folder=folder), range(seed, seed + count), jobs), count)
