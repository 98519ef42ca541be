"""The plan that the refreshes of a program follow, chosen by cost from the parameters, the program and the key budget.

More baby steps in the transforms of a refresh take more keys and fewer decompositions. SlotsToCoeffs at few limbs,
before the modulus is raised, makes a refresh cheaper, and the program between two of them dearer: it is at more limbs.
Neither changes the values. So the whole program is traced with each plan and priced: its kernel work at nominal rates,
and the bytes of keys that the budget makes it read again, by Belady's rule. Plans are only compared with each other,
for which nominal rates suffice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from penstock.base.units import format_bytes, format_seconds
from penstock.errors import ParamsError, UsageError
from penstock.program.evaluator.circuits.bootstrap import is_library, with_few_keys
from penstock.program.evaluator.circuits.openfhe.stages import FEW_KEYS
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.imaginary import complex_refresh, refreshes_real_only
from penstock.program.evaluator.protocol import Evaluator, Values
from penstock.program.evaluator.tally import tally_of
from penstock.scheme.operations import SMALL_KINDS, OpKind
from penstock.scheme.params.ckks import BootstrapPlan, CkksParameters
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import Belady
from penstock.scheme.play.hierarchy import replay
from penstock.scheme.traces.columns import ints_of
from penstock.scheme.traces.schema import Trace, text_codes
from penstock.scheme.work.kernel_work import KernelWork
from penstock.scheme.work.shapes import Objects, server_rows, shape_work, shapes_of

BABY_STEPS = (0, 8, 16)
"""Of a stage; 0: about the root of its diagonals, which takes the fewest keys in use."""
ORDERS = ("stc-last", "stc-first")
TRANSFORM_S = 0.5e-9
"""Of one butterfly. Nominal, as all rates here: one core with AVX-512, calibrated to the operations of one refresh (N =
2^16, primes of 50 bits)."""
PRODUCT_S = 1.1e-9
"""Of one modular multiplication or addition, with its share of memory traffic."""
CONVERTED_S = 0.2e-9
"""Of one multiply-add of a base conversion."""
READ_BYTES_PER_S = 2.4e9
"""Rows of keys from a local disk, checked; half of each key comes from a seed. Assumed, as all below."""
READING_SHARE = 0.5
"""Of the seconds of reading that computing loses: checks and seeds take processor time."""
MORE_LIVE = 1.25
"""Under a budget, a plan may hold this many times the ciphertexts of the plan of fewest keys."""
WORTH = 0.03
"""A plan of more key bytes must save this share of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshPlan:
    """One plan of a program's refreshes, priced."""

    params: CkksParameters
    trace: Trace
    num_keys: int
    key_bytes: int
    """Rows that key switches use, each once."""
    whole_bytes: int
    """All keys, whole."""
    read_bytes: int
    """Read in a run under the budget."""
    live_bytes: int
    """Of ciphertexts and digits, at their most."""
    compute_s: float
    read_s: float

    @property
    def predicted_s(self) -> float:
        """Computing and reading overlap, and share the processor."""
        return max(self.compute_s + READING_SHARE * self.read_s, self.read_s)

    @property
    def name(self) -> str:
        """The plan in words."""
        plan = self.params.bootstrap
        assert plan is not None
        steps = f"{plan.baby_steps} baby steps" if plan.baby_steps else "fewest keys"
        return f"{steps}, {plan.order}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshChoice:
    """The taken plan, and the others."""

    plan: RefreshPlan
    others: tuple[RefreshPlan, ...] = ()
    why: str = ""
    """A sentence; empty if only one plan was possible."""


def choose_plan(
    params: CkksParameters,
    trace_of: Callable[[CkksParameters], Trace],
    *,
    budget_bytes: int | None = None,
    memory_bytes: int | None = None,
    threads: int = 1,
    is_real: Callable[[], bool] = lambda: False,
) -> RefreshChoice:
    """The cheapest plan for a program.

    A set that states few keys itself is taken without a choice.

    Args:   trace_of: the program's trace at a set. budget_bytes: of keys in memory; `None`: all, whole.
            memory_bytes: a limit on whole keys, if a plan of fewer exists. is_real(): whether the program refreshes
            real values only. SlotsToCoeffs first needs that; it is asked only if that plan would win.
    Raises: UsageError: the budget does not hold one key switch of any plan, or the program needs a smaller ring;
            ParamsError: the program does not fit.
    """
    first = with_few_keys(params)
    plan = params.bootstrap
    trace = trace_of(first)
    if small := SMALL_KINDS & set(trace.count_by_kind()):
        raise UsageError(
            f"'{trace.meta.workload}' begins in a smaller ring ({', '.join(sorted(small))}), which `penstock run` does "
            "not encrypt in: docs/guides/similarity.md says how to search for real; `penstock predict` and `simulate` "
            "take it"
        )
    plans = [_priced(first, trace, budget_bytes, threads)]
    if plan is None or not is_library(params) or not plans[0].trace.count_by_kind().get(OpKind.BOOTSTRAP.value, 0):
        return RefreshChoice(plan=plans[0])
    if plan.rotations != FEW_KEYS:
        for varied in _others(first):
            with suppress(ParamsError):  # a program that refreshes at fewer levels than SlotsToCoeffs first takes
                plans.append(_priced(varied, trace_of(varied), budget_bytes, threads))
    fitting = [candidate for candidate in plans if _fits(candidate, budget_bytes)]
    if not fitting:
        _check(min(plans, key=lambda candidate: _largest_use(candidate.trace)), budget_bytes)
    if budget_bytes is not None:
        most = MORE_LIVE * plans[0].live_bytes
        fitting = [candidate for candidate in fitting if candidate.live_bytes <= most] or fitting
    if budget_bytes is None and memory_bytes is not None:
        within = [candidate for candidate in fitting if candidate.whole_bytes <= memory_bytes]
        fitting = within or [min(fitting, key=lambda candidate: candidate.whole_bytes)]
    taken = _cheapest(fitting)
    if _is_first(taken) and not is_real():
        plans = [candidate for candidate in plans if not _is_first(candidate)]
        if not plans:
            raise complex_refresh(first)
        taken = _cheapest([candidate for candidate in fitting if not _is_first(candidate)] or plans[:1])
    others = tuple(candidate for candidate in plans if candidate is not taken)
    return RefreshChoice(plan=taken, others=others, why=_why(taken, others, budget_bytes) if others else "")


def _cheapest(plans: Sequence[RefreshPlan]) -> RefreshPlan:
    """Of plans that are nearly as fast as the fastest, the one of the fewest bytes of keys."""
    best = min(candidate.predicted_s for candidate in plans)
    enough = [candidate for candidate in plans if candidate.predicted_s <= (1 + WORTH) * best]
    return min(enough, key=lambda candidate: (candidate.key_bytes, candidate.predicted_s))


def _is_first(plan: RefreshPlan) -> bool:
    return refreshes_real_only(plan.params)


def _others(first: CkksParameters) -> list[CkksParameters]:
    plan = first.bootstrap
    assert plan is not None
    varied: list[BootstrapPlan] = [
        replace(plan, baby_steps=steps, order=order)
        for order in ORDERS
        for steps in BABY_STEPS
        if (steps, order) != (plan.baby_steps, plan.order)
    ]
    return [replace(first, bootstrap=other) for other in varied]


def _priced(params: CkksParameters, trace: Trace, budget_bytes: int | None, threads: int) -> RefreshPlan:
    operations = server_rows(trace.view().operations)
    shapes = shapes_of(operations, Objects(trace, params))
    counted = zip(shapes.distinct, shapes.counts.tolist(), strict=True)
    work = sum((shape_work(shape, params).times(count) for shape, count in counted), KernelWork())
    highest = trace.view().key_limbs()
    read = 0
    if budget_bytes is not None:
        used, names = text_codes(operations["key"])
        limbs = ints_of(operations, "limbs_in")[used >= 0]
        used = used[used >= 0]
        numbers = {key: number for number, key in enumerate(highest)}
        distinct, which = np.unique(used * (params.num_q + 1) + limbs, return_inverse=True)
        pairs = (divmod(each, params.num_q + 1) for each in distinct.tolist())
        sizes = [params.key_bytes(n, key=names[key]) for key, n in pairs]
        accesses = Accesses(
            np.arange(len(used) + 1, dtype=np.int64),
            np.asarray([numbers.get(name, -1) for name in names], dtype=np.int32)[used],
            np.asarray(sizes, dtype=np.int64)[which],
        )
        read = int(replay(accesses, Belady(budget_bytes)).miss_bytes)
    return RefreshPlan(
        params=params,
        trace=trace,
        num_keys=len(highest),
        key_bytes=sum(params.key_bytes(n, key=key) for key, n in highest.items()),
        whole_bytes=sum(params.key_bytes(key=key) for key in highest),
        read_bytes=read,
        live_bytes=tally_of(trace).live_bytes,
        compute_s=nominal_s(work) / threads,
        read_s=read / READ_BYTES_PER_S,
    )


def refreshes_real_values(program: Callable[[Evaluator], object], params: CkksParameters) -> bool:
    """Whether no value that the program refreshes has an imaginary part: it runs in the clear for this."""
    ev = _Refreshes(params)
    program(ev)
    return ev.real


class _Refreshes(ClearEvaluator):
    """Watches the refreshed values."""

    def __init__(self, params: CkksParameters) -> None:
        super().__init__(params)
        self.real = True

    def encrypt(self, values: Values, *, name: str | None = None) -> Values:
        vector = super().encrypt(values, name=name)
        return vector if np.any(vector.imag) else vector.real

    def bootstrap(self, a: Values, slots: int | None = None) -> Values:
        # What a complex operand reached may be complex, as in `ComplexValues`, whatever its values are.
        self.real &= not np.iscomplexobj(a)
        return super().bootstrap(a, slots)


def nominal_s(work: KernelWork) -> float:
    """Seconds of kernel work on one nominal core."""
    butterflies = work.limb_transforms * work.ring_dim * (work.ring_dim.bit_length() - 1) / 2
    elementwise = work.elementwise_mults + work.elementwise_adds + work.automorphism_coefficients
    return TRANSFORM_S * butterflies + PRODUCT_S * elementwise + CONVERTED_S * work.bconv_macs


def _largest_use(trace: Trace) -> int:
    params = trace.parameters()
    return max((params.key_bytes(limbs, key=key) for key, limbs in trace.view().key_limbs().items()), default=0)


def _fits(plan: RefreshPlan, budget_bytes: int | None) -> bool:
    return budget_bytes is None or _largest_use(plan.trace) <= budget_bytes


def _check(plan: RefreshPlan, budget_bytes: int | None) -> None:
    if not _fits(plan, budget_bytes):
        largest = _largest_use(plan.trace)
        raise UsageError(
            f"a key budget of {format_bytes(budget_bytes or 0)} does not hold one key in use: the plan of fewest bytes "
            f"('{plan.name}') needs {format_bytes(largest)}; raise --key-budget to {largest} bytes or more"
        )


def _why(taken: RefreshPlan, others: tuple[RefreshPlan, ...], budget_bytes: int | None) -> str:
    def difference(other: RefreshPlan) -> str:
        read = f", {format_bytes(other.read_bytes).split(' (')[0]} read" if budget_bytes is not None else ""
        return f"{other.num_keys} keys of {format_bytes(other.key_bytes).split(' (')[0]}{read}"

    parts = [
        f"{plan.name}: {plan.predicted_s / taken.predicted_s:.2f} of its time, {difference(plan)}" for plan in others
    ]
    of_all = f"{format_seconds(taken.predicted_s)} of computing and reading in all"
    return f"refreshes by '{taken.name}' ({difference(taken)}): {of_all}; others: {'; '.join(parts)} (nominal rates)"
