"""Parameter sets for bootstrapping: chains that refresh values securely, with their levels, precision, keys and time.

A candidate is a chain of OpenFHE's parameters with an encapsulated sparse secret, and the shape of its refresh: stages
of both transforms, degree and double angles of the sine, digits of key switching. Its depth covers the
levels that the refresh consumes and those that it must leave. Each candidate holds the security of both secrets
(`params.encapsulated_security`), and its sine the probability of an overflow (`params.overflow`). The refresh is traced
step by step and priced on a machine; the noise of each step gives the precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from penstock.base.arrays import Floats
from penstock.base.types import Row
from penstock.errors import ParamsError, UsageError
from penstock.lab.prediction.prediction import predict
from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.circuits.bootstrap import input_levels
from penstock.program.evaluator.noisy import NoisyEvaluator
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.evaluator.tally import Tally, tally_of
from penstock.scheme.machines.schema import Machine
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.overflow import least_range, overflow_log2
from penstock.scheme.params.primes import MAX_PRIME_BITS
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.params.secrets import SPARSE_ENCAPSULATED, UNIFORM_ENCAPSULATED, raised_weight
from penstock.scheme.params.spec import BootstrapSpec, CkksSpec, modulus_bits
from penstock.scheme.traces.schema import TraceMeta
from penstock.scheme.unpriced import refuse

SECRETS = (UNIFORM_ENCAPSULATED, SPARSE_ENCAPSULATED)
SCALES = tuple(range(48, 60))
"""Sizes of the scale that are tried. Below, the first prime is too narrow for the sine."""
DIGITS = (3, 4, 5, 6)
STAGES = (3, 4)
"""Of each transform."""
SINES = ((36, 3), (56, 2))
"""Degree and double angles: either has 6 levels before the double angles, and an error below 2^-40."""
FIRST_WIDER_BITS = 8
"""By how much q_0 is wider than the scale, where a word holds it: OpenFHE takes no more at 2^14 slots."""
LARGEST = 0.25
"""Of the values whose error is the precision."""
ORDERS = {"time": "predicted_s", "time-per-level": "s_per_level", "keys": "key_bytes"}
"""What candidates may be put in order by -> the column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshDemands:
    """The demands on a refresh."""

    ring_dim: int = 2**16
    slots: int = 2**14
    levels: int = 8
    """That it leaves."""
    security: int = 128
    precision: float | None = None
    """Bits behind the binary point: -log2 of the root mean square of the error, of values up to 1/4."""
    secret: str | None = None
    """Its distribution; `None`: both of `SECRETS`."""
    scale_bits: Sequence[int] | None = None
    """Sizes of the scale to try; `None`: `SCALES`."""
    digits: Sequence[int] | None = None
    """Of key switching; `None`: `DIGITS`."""
    stages: tuple[int, ...] = STAGES


@dataclass(slots=True)
class Refreshes:
    """Sets that hold the demands, the best first."""

    rows: list[Row]
    sets: list[CkksParameters]
    """Of each row."""
    tried: int = 0
    """Candidates of all shapes."""
    refused: dict[str, int] = field(default_factory=dict)
    """Reason -> candidates that were left out for it."""


def refreshes(
    machine: Machine,
    asked: RefreshDemands,
    *,
    by: str = "time",
    top: int = 10,
    threads: int | None = None,
    key_form: KeyForm = KeyForm.SEEDED_TRUNCATED,
    on_set: Callable[[int, int], None] | None = None,
) -> Refreshes:
    """The first `top` sets in the order, each with its precision.

    Args:   on_set(done, total): called after each candidate that was priced.
    Raises: UsageError: no candidate holds, with the nearest that does. MachineError: no times at so many threads.
    """
    refreshing = Refreshes([], [])
    candidates = list(_candidates(asked, refreshing))
    column = ORDERS[by]
    priced: list[tuple[Row, CkksParameters]] = []
    for done, params in enumerate(candidates):
        if on_set is not None:
            on_set(done, len(candidates))
        priced.append((_row(params, machine, asked, threads, key_form), params))
    priced.sort(key=lambda candidate: (candidate[0][column], candidate[0]["key_bytes"], candidate[0]["log_qp"]))
    best, needed = -math.inf, asked.precision or 0.0
    least: dict[Hashable, float] = {}  # shape -> a scale below which the precision cannot be there
    for row, params in priced:
        shape = (params.secret, params.bootstrap)
        if params.scale_bits < least.get(shape, 0):
            continue
        row["precision_bits"] = bits = refresh_bits(params)
        best = max(best, bits)
        # A bit of scale gives two bits at most.
        least[shape] = max(least.get(shape, 0), params.scale_bits + (needed - bits) / 2)
        if bits >= needed:
            refreshing.rows.append(row)
            refreshing.sets.append(params)
        if len(refreshing.rows) == top:
            break
    if not refreshing.rows:
        raise UsageError(_none(asked, refreshing, best))
    return refreshing


def refresh_trace(params: CkksParameters) -> tuple[Tally, int]:
    """The tally of one refresh of all slots of the set, and the levels that it leaves.

    Raises: ParamsError: the chain is shorter than the refresh.
    """
    ev = SymbolicEvaluator(params)
    a = _refreshed(ev, np.zeros(params.slots))
    levels = ev.levels(a)
    meta = TraceMeta(workload="refresh", params=params.to_dict(), reading="trace")
    return tally_of(ev.builder.finish(meta)), levels


def refresh_bits(params: CkksParameters, seed: int = 0) -> float:
    """The bits of a refresh of random values up to 1/4 in all slots of the set, by one draw of the noise."""
    values = np.random.default_rng(seed).uniform(-LARGEST, LARGEST, params.slots)
    ev = NoisyEvaluator(params, seed=[seed, 1], exact_ratio=True, own_client=True)
    error = np.real(ev.decrypt(_refreshed(ev, values))) - values
    return float(-np.log2(np.sqrt(np.mean(error**2))))


def _refreshed(ev: SymbolicEvaluator | NoisyEvaluator, values: Floats) -> Cipher:
    return ev.bootstrap(ev.mod_drop(ev.encrypt(values), input_levels(ev.params) + 1))


def _candidates(asked: RefreshDemands, refreshing: Refreshes) -> Iterator[CkksParameters]:
    secrets = SECRETS if asked.secret is None else (asked.secret,)
    scales, digits = asked.scale_bits or SCALES, asked.digits or DIGITS
    shapes = product(secrets, scales, digits, asked.stages, asked.stages, SINES)
    for secret, scale, dnum, cts, stc, (degree, double_angles) in shapes:
        refreshing.tried += 1
        weight = raised_weight(secret)
        assert weight is not None
        plan = BootstrapSpec(
            cts_stages=cts,
            stc_stages=stc,
            chebyshev_degree=degree,
            double_angles=double_angles,
            extra_limbs=1,
            rotations="few-keys",
            sine_range=least_range(asked.ring_dim, weight),
        )
        spec = CkksSpec(
            name=f"refresh-{asked.security}",
            ring_dim=asked.ring_dim,
            slots=asked.slots,
            depth=asked.levels + consumed_levels(plan),
            first_mod_bits=min(scale + FIRST_WIDER_BITS, MAX_PRIME_BITS),
            scale_bits=scale,
            dnum=dnum,
            scaling="flexible-auto",  # type: ignore[arg-type]
            secret=secret,  # type: ignore[arg-type]
            security=asked.security or "none",  # type: ignore[arg-type]
            bootstrap=plan,
        )
        try:
            yield spec.build()
        except ParamsError as error:
            why = "security does not hold" if "security does not hold" in str(error) else str(error)
            refreshing.refused[why] = refreshing.refused.get(why, 0) + 1


def consumed_levels(plan: BootstrapSpec) -> int:
    """Levels between the full chain and the refreshed ciphertext.

    >>> consumed_levels(BootstrapSpec(cts_stages=4, stc_stages=4, chebyshev_degree=36, double_angles=3, extra_limbs=1))
    18
    """
    series = math.ceil(math.log2(plan.chebyshev_degree + 1))
    return plan.cts_stages + plan.stc_stages + series + plan.double_angles + plan.extra_limbs


def _row(
    params: CkksParameters, machine: Machine, asked: RefreshDemands, threads: int | None, key_form: KeyForm
) -> Row:
    tally, levels = refresh_trace(params)
    price = predict(tally, machine, threads=threads, key_form=key_form)
    seconds = price.server_s
    refuse(price.unpriced or {}, f"sets for bootstrapping on '{machine.name}' are ranked by their times")
    assert seconds is not None
    plan, weight = params.bootstrap, raised_weight(params.secret)
    assert plan is not None
    assert weight is not None
    return {
        "secret": params.secret, "ring_dim": params.ring_dim, "slots": params.slots, "limbs": params.num_q,
        "special_limbs": params.num_p, "first_mod_bits": params.first_mod_bits, "scale_bits": params.scale_bits,
        "dnum": params.dnum, "log_qp": modulus_bits(params)[1], "security_bits": params.security_bits,
        "cts_stages": plan.cts_stages, "stc_stages": plan.stc_stages, "chebyshev_degree": plan.chebyshev_degree,
        "double_angles": plan.double_angles, "sine_range": plan.sine_range,
        "overflow_log2": overflow_log2(params.ring_dim, weight, plan.sine_range), "levels": levels,
        "precision_bits": None, "num_keys": len(tally.keys), "key_form": key_form.value,
        "key_bytes": tally.key_bytes(key_form), "predicted_s": seconds, "s_per_level": seconds / levels,
        "provenance": "predicted", "machine": machine.name, "security_note": params.security_note,
    }  # fmt: skip


def _none(asked: RefreshDemands, refreshing: Refreshes, best: float) -> str:
    what = (
        f"no set refreshes {asked.slots} slots at ring dimension {asked.ring_dim} with {asked.levels} levels left, "
        f"{asked.security}-bit security and {asked.precision or 0:g} bits of precision"
    )
    if best > -math.inf:
        return f"{what}: the most that any of them gives are {best:.1f} bits; ask for less, or for fewer levels"
    fewer = next((n for n in reversed(range(1, asked.levels)) if _any(asked, n)), None)
    remedy = f"{fewer} levels are the most that hold" if fewer else "take a larger ring dimension"
    refusals = ", ".join(f"{why} ({count} of {refreshing.tried})" for why, count in refreshing.refused.items())
    return f"{what}: {refusals}; {remedy}"


def _any(asked: RefreshDemands, levels: int) -> bool:
    return next(_candidates(replace(asked, levels=levels), Refreshes([], [])), None) is not None
