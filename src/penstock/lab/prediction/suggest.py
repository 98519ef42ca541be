"""Parameter sets for a program: chains that carry it, at each ring dimension and number of digits with the required
security, priced on a machine and sorted.

Depth is found, not asked for: a program without bootstrapping takes the least that carries it, since limbs beyond it
only cost; one with bootstrapping every depth from the least to the last that is secure, since more limbs mean fewer
refreshes. The size of the scale stays that of the base set, and with it the precision. With a required precision it is
the least scale that gives it, for the program on real data with the noise of every operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.base.types import Row
from penstock.errors import ParamsError, UsageError
from penstock.lab.prediction.precision import Precision, ProgramAtSet, predict_precision
from penstock.lab.prediction.whatif import Carried, WhatIfAxes, Workload, what_if
from penstock.program.evaluator.tally import Tally
from penstock.scheme.machines.schema import Machine
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.params.rules import MAX_RING_DIM, MIN_RING_DIM
from penstock.scheme.params.variation import varied
from penstock.scheme.unpriced import AT_LEAST, counted

ORDERS = {"time": "predicted_s", "time-per-slot": "s_per_slot", "keys": "key_bytes", "memory": "peak_bytes"}
"""What suggestions may be put in order by -> the column."""
DEEPEST = 200
"""Multiplications in sequence beyond which no chain is tried."""
DEEPER = 24
"""Depths beyond the least that are tried for a program with bootstrapping where no security bounds them."""
INSECURE = "security does not hold"
"""The reason of a chain that is too long for its ring dimension."""
MOST_DIGITS = 8
SCALES = (20, 59)
"""Sizes of the scale, from the least that is tried to the largest, where a precision is asked for."""
PRECISION_DRAWS = 3
"""Draws of the noise that a precision is held against: the worst of them counts."""
RING_DIMS = tuple(1 << k for k in range(MIN_RING_DIM.bit_length() - 1, MAX_RING_DIM.bit_length()))


Suggestible = Workload | Carried


@dataclass(slots=True)
class Suggestions:
    """Parameter sets that a program fits, the best first."""

    rows: list[Row]
    """As of `what_if`, with `slots` and `s_per_slot` (`predicted_s / slots`)."""
    left_out: dict[int, str] = field(default_factory=dict)
    """Ring dimension -> why no set of it is there."""
    least_depth: dict[int, int] = field(default_factory=dict)
    """Ring dimension -> the least depth that carries the program."""

    def params(self, row: Row, base: CkksParameters) -> CkksParameters:
        """The parameter set of a row."""
        values = {name: row[name] for name in ("ring_dim", "depth", "dnum", "scale_bits")}
        params = varied(base, **values, security=row["security_asked"])
        return replace(params, key_form=KeyForm(row["key_form"]))


def suggest(
    program: Suggestible,
    machine: Machine,
    *,
    security: int = 128,
    ring_dims: Sequence[int] = RING_DIMS,
    digits: Sequence[int] = tuple(range(1, MOST_DIGITS + 1)),
    by: str = "time",
    threads: int | None = None,
    key_form: KeyForm | None = None,
    workers: int = 1,
    precision: float | None = None,
    on_ring: Callable[[int, int], None] | None = None,
) -> Suggestions:
    """Every set that carries the program, the best first; of equals, the one with fewer bytes of keys.

    Args:   security: required bits, 0: none; digits: numbers of digits of key switching to try; by: of `ORDERS`;
            precision: required bits behind the binary point of the result, -log2 of the root mean square of its error;
            on_ring(done, total): called after each ring dimension.
    Raises: UsageError: no set carries it, with the reason at each ring dimension; nobody knows how deep a call of it
            is. MachineError: no times at so many threads.
    """
    column = ORDERS[by]
    _check_depth_known(program)
    if threads is not None:
        machine.at(threads)
    axes = WhatIfAxes(dnum=tuple(digits), security=(security,), key_form=(key_form,), threads=(threads,))
    suggestions = Suggestions([])
    for done, ring_dim in enumerate(ring_dims):
        if on_ring is not None:
            on_ring(done, len(ring_dims))
        chosen: Suggestible = program
        precise: Precision | None = None
        try:
            _check_width(machine, ring_dim)
            least = suggestions.least_depth[ring_dim] = _least_depth(program, ring_dim)
            if precision is not None:
                _check_security(program, ring_dim, least, digits, security)
                chosen, precise = _precise(_with_values(program), ring_dim, least, precision)
        except UsageError as error:  # of a program of the user's own, too: its data may not fit in so few slots
            suggestions.left_out[ring_dim] = str(error)
            continue
        depths = tuple(_depths(chosen, ring_dim, least, security, digits))
        rows = what_if(chosen, replace(axes, ring_dim=(ring_dim,), depth=depths), [machine], workers=workers)
        possible = [row for row in rows if row["reason"] is None]
        if not possible:
            suggestions.left_out[ring_dim] = _no_plan(program, ring_dim) or _why_none(rows)
        slots = varied(program.params, ring_dim=ring_dim, depth=least, dnum=1, security=0).slots
        for row in possible:
            row["slots"] = slots
            row["scale_bits"], row["precision_bits"] = chosen.params.scale_bits, precise and precise.least_bits
            row["warnings"] += precise.warnings if precise else ()
            _add_per_slot(row, slots)
        suggestions.rows += possible
    if not suggestions.rows:
        raise _none(program, security, suggestions.left_out)
    suggestions.rows.sort(
        key=lambda row: (row[column] is None, row[column], row["key_bytes"], row["ring_dim"], row["dnum"])
    )
    return suggestions


def _none(program: Suggestible, security: int, left_out: Mapping[int, str]) -> UsageError:
    refusals = "".join(f"\n  ring dimension {ring}: {why}" for ring, why in left_out.items())
    level = f"{security}-bit security" if security else "no security asked for"
    return UsageError(f"no parameter set like '{program.params.name}' for {program.title}, {level}:{refusals}")


def _check_width(machine: Machine, ring_dim: int) -> None:
    """Raises: UsageError: the ring is larger than the machine's transforms."""
    widest = machine.architecture.ring_dim
    if widest is not None and ring_dim > widest.value:
        raise UsageError(f"the transform units of machine '{machine.name}' take {widest.value:g} points")


def _why_none(rows: Sequence[Row]) -> str:
    """The reason of the impossible rows: of chains that are too long, the one with most digits, which has the fewest
    special primes."""
    reasons = [str(row["reason"]) for row in rows]
    return next((why for why in reversed(reasons) if INSECURE in why), reasons[0])


def _add_per_slot(row: Row, slots: int) -> None:
    for times in (row, row[AT_LEAST]):
        if times is not None:
            times["s_per_slot"] = None if times["predicted_s"] is None else times["predicted_s"] / slots


def _check_depth_known(program: Suggestible) -> None:
    """Raises: UsageError: a call of the program may need more levels than its trace shows."""
    if isinstance(program, Carried) and program.unknown:
        raise UsageError(
            f"no parameter set for {program.title}: nobody knows the levels of {counted(program.unknown)}, and so "
            "neither the least depth nor a secure ring dimension; write that part with primitive operations, or "
            "choose sets yourself and price them with 'penstock predict run --what-if'"
        )


def _with_values(program: Suggestible) -> Workload:
    """Raises: UsageError: a trace."""
    if isinstance(program, Carried):
        raise UsageError(
            f"{program.title} is a trace, which has no values to be precise: leave the precision out, or name the "
            "workload, or the .py file of your program"
        )
    return program


def _precise(program: Workload, ring_dim: int, depth: int, precision: float) -> tuple[Workload, Precision]:
    """The program at the least scale that gives the precision, and the precision that it gives.

    In one digit, which has the most special primes and so the most noise of its kind. From the least scale up: bits do
    not always grow with it, since the drift of primes may be small at one scale and large at the next, and a large one
    may leave no room above it. If `n` bits are missing, `n / 2` scales are skipped: a bit of scale gives two bits at
    most.
    Raises: ParamsError: no scale gives it, with the last reason.
    """
    scale_bits, most, refusal = SCALES[0], -math.inf, ""
    while scale_bits <= SCALES[1]:
        step = 1
        try:
            params = _with_scale(program, ring_dim, depth, scale_bits)
            given = ProgramAtSet.of(program.name, params, program.size)
            precise = predict_precision(given, draws=1)
            if (precise.least_bits or 0.0) >= precision:
                precise = predict_precision(given, draws=PRECISION_DRAWS)
            reached = precise.least_bits or 0.0
        except UsageError as error:  # no such chain, or values that drown in noise or outgrow the modulus
            refusal = str(error)
        else:
            if reached >= precision:
                return replace(program, params=params), precise
            most, step = max(most, reached), max(1, int(precision - reached) // 2)
        scale_bits += step
    reason = f"the most that any gives are {most:.1f}" if most > -math.inf else refusal
    raise ParamsError(f"no scale of {SCALES[0]} to {SCALES[1]} bits gives {precision:g} bits of precision: {reason}")


def _with_scale(program: Suggestible, ring_dim: int, depth: int, scale_bits: int) -> CkksParameters:
    """In one digit, no security asked for."""
    return varied(program.params, ring_dim=ring_dim, depth=depth, dnum=1, security=0, scale_bits=scale_bits)


def _check_security(program: Suggestible, ring_dim: int, depth: int, digits: Sequence[int], security: int) -> None:
    """Before a search: whether the least scale that there are primes for is secure with some number of digits.

    Raises: ParamsError: with none.
    """
    for scale_bits in range(SCALES[0], SCALES[1] + 1):
        try:
            least = _with_scale(program, ring_dim, depth, scale_bits)
        except ParamsError:
            continue
        refusals = [_why_not(least, ring_dim, depth, dnum, security) for dnum in digits]
        insecure = [why for why in refusals if why is not None and INSECURE in why]
        if insecure and None not in refusals:
            raise ParamsError(insecure[-1])
        return


def _fault(program: Suggestible, ring_dim: int, depth: int) -> UsageError | None:
    """Why a chain of this depth cannot be made or does not carry the program; `None`: it does."""
    try:
        _count(program, ring_dim, depth)
    except UsageError as error:
        return error
    return None


def _count(program: Suggestible, ring_dim: int, depth: int) -> Tally:
    """The program at a depth. In one digit: every chain has that, and how deep a program is does not depend on it.

    Raises: UsageError: the chain does not carry it, or nothing does at this ring dimension.
    """
    return program.count([varied(program.params, ring_dim=ring_dim, depth=depth, dnum=1, security=0)])[0]


def _least_depth(program: Suggestible, ring_dim: int) -> int:
    """The least depth that carries the program at a ring dimension.

    Raises: ParamsError: none does; names the fault at the depth of the base.
    """
    if program.params.bootstrap is not None:
        # In a program with refreshes, a longer chain may miss its refresh level: no bisection.
        for depth in range(DEEPEST + 1):
            if _fault(program, ring_dim, depth) is None:
                return depth
        raise _refused(program, ring_dim)
    low, high = -1, max(program.params.depth, 1)  # low does not carry it
    while _fault(program, ring_dim, high) is not None:
        if high >= DEEPEST:
            raise _refused(program, ring_dim)
        low, high = high, min(2 * high, DEEPEST)
    while high - low > 1:
        middle = (low + high) // 2
        if _fault(program, ring_dim, middle) is None:
            high = middle
        else:
            low = middle
    return high


def _refused(program: Suggestible, ring_dim: int) -> UsageError:
    """Why no depth carries the program."""
    deepest = ParamsError(f"{program.title} needs more than {DEEPEST} multiplications in sequence")
    return _fault(program, ring_dim, program.params.depth) or deepest


def _no_plan(program: Suggestible, ring_dim: int) -> str | None:
    """Note that the program would refresh, and the base has no plan to; `None` if it has one, or carries the
    program."""
    why = str(_fault(program, ring_dim, program.params.depth)) if program.params.bootstrap is None else ""
    return why if "bootstrap plan" in why else None


def _depths(program: Suggestible, ring_dim: int, least: int, security: int, digits: Sequence[int]) -> Iterator[int]:
    """Depths that are worth a try: the least; all that are secure where a program refreshes."""
    yield least
    if not _count(program, ring_dim, least).calls.get("bootstrap", 0):
        return
    for depth in range(least + 1, 1 + (DEEPEST if security else least + DEEPER)):
        refusals = [_why_not(program.params, ring_dim, depth, dnum, security) for dnum in digits]
        if None in refusals:
            yield depth
        elif all(INSECURE in str(why) for why in refusals):
            return


def _why_not(base: CkksParameters, ring_dim: int, depth: int, dnum: int, security: int) -> str | None:
    """Why there is no such set; `None` where there is."""
    try:
        varied(base, ring_dim=ring_dim, depth=depth, dnum=dnum, security=security)
    except ParamsError as error:
        return str(error)
    return None
