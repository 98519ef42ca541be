"""The precision of a program's result: its error against the clear result, predicted before encryption or measured.

The program is read in the clear and then, as often as there are draws, with the noise of every operation
(`penstock.program.evaluator.noisy`), on the same data. Each draw has a fresh secret and fresh errors, like each new key
pair, so the spread of the draws is that of runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

import numpy as np

from penstock.base.types import Row
from penstock.errors import PenstockError, check_known
from penstock.program.evaluator.circuits.bootstrap import with_few_keys
from penstock.program.evaluator.noisy import NoisyEvaluator
from penstock.program.evaluator.protocol import Evaluator
from penstock.program.running.clear import run_clear
from penstock.program.running.reading import resolve
from penstock.program.running.readings import READINGS
from penstock.program.workloads import Check
from penstock.scheme.params.ckks import CkksParameters

DRAWS = 5
"""Draws, where nothing else is asked for."""
ENCRYPTED = tuple(name for name, reader in READINGS.items() if reader.keys)
"""The readings whose encrypted run is predicted. They differ where a program bootstraps."""
REFRESH = (
    "the program bootstraps: OpenFHE's EvalBootstrap is not known step for step; refreshes were up to 1 bit less "
    "precise than predicted with sparse secrets, and up to 3.4 bits less or more with uniform ones"
)
"""The warning of a program that bootstraps with OpenFHE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One draw of the noise, or one encrypted run: how far its result is from the clear one."""

    rms_error: float
    """Root of the mean square of the differences."""
    max_error: float
    """The largest of them."""
    check: Check
    """The workload's own comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """The errors of one program at one parameter set."""

    workload: str
    size: str
    params: CkksParameters
    provenance: str
    """`predicted` or `measured`."""
    largest_value: float
    """The largest of the clear result, by absolute value."""
    draws: tuple[Draw, ...]
    warnings: tuple[str, ...] = ()

    @property
    def least_bits(self) -> float | None:
        """Precision of the worst draw."""
        return bits(max(draw.rms_error for draw in self.draws))

    def to_row(self) -> Row:
        """One row of a table: medians of the draws, and the least and the largest."""
        rms = sorted(draw.rms_error for draw in self.draws)
        largest = sorted(draw.max_error for draw in self.draws)
        middle = float(np.median(rms))
        return {
            "workload": self.workload, "size": self.size, "params": self.params.name, "provenance": self.provenance,
            "ring_dim": self.params.ring_dim, "depth": self.params.depth, "dnum": self.params.dnum,
            "scale_bits": self.params.scale_bits, "security_bits": self.params.security_bits,
            "draws": len(self.draws), "precision_bits": bits(middle), "low_bits": self.least_bits,
            "high_bits": bits(rms[0]), "rms_error": middle, "low_rms_error": rms[0], "high_rms_error": rms[-1],
            "max_error": float(np.median(largest)), "high_max_error": largest[-1],
            "largest_value": self.largest_value, "checks_passed": sum(draw.check.passed for draw in self.draws),
            "warnings": list(self.warnings),
        }  # fmt: skip


def bits(error: float) -> float | None:
    """Bits behind the binary point that an error leaves; `None` of an error that is 0 or no number.

    >>> bits(2.0**-20), bits(0.0), bits(float("inf"))
    (20.0, None, None)
    """
    return -float(np.log2(error)) if error > 0 and np.isfinite(error) else None


@dataclass(frozen=True, kw_only=True)
class ProgramAtSet:
    """A program at a parameter set, with its data."""

    name: str
    """A workload, or a Python file."""
    workload: ModuleType
    size: str
    params: CkksParameters
    seed: int
    """Of the data and of the noise."""
    data: object

    @classmethod
    def of(
        cls,
        name: str,
        params: str | CkksParameters | None = None,
        size: str | None = None,
        seed: int = 0,
        data: object = None,
    ) -> ProgramAtSet:
        """Args:   data: the user's own (default: the workload's). Raises: UnknownName."""
        workload, size_name, checked = resolve(name, params, size)
        data = workload.data(workload.SIZES[size_name], checked.slots, seed) if data is None else data
        return cls(name=name, workload=workload, size=size_name, params=checked, seed=seed, data=data)

    @property
    def chosen(self) -> object:
        """The size's own values."""
        return self.workload.SIZES[self.size]

    @cached_property
    def clear(self) -> object:
        """The clear result."""
        return run_clear(self.name, self.params, self.size, self.seed, self.data)

    def drawn(self, evaluator: Evaluator) -> Draw:
        """The program's result by an evaluator with noise, held against the clear one."""
        _ = self.clear
        with np.errstate(all="ignore"):  # what overflows is found where it is decrypted
            return self.held(self.workload.program(evaluator, self.data, self.chosen))

    def held(self, got: object) -> Draw:
        """A result, held against the clear one."""
        expected, noisy = np.asarray(self.clear), np.asarray(got)
        if noisy.shape != expected.shape:
            raise PenstockError(
                f"{self.workload.NAME}: the result has shape {noisy.shape} with noise and {expected.shape} in the "
                "clear: the course of a program may not depend on what it decrypts"
            )
        check = self.workload.check(self.clear, got, self.data, self.chosen)  # before: it says what is not a result
        error = np.abs(noisy - expected).reshape(-1)
        return Draw(
            rms_error=float(np.sqrt(np.mean(error**2))) if error.size else 0.0,
            max_error=float(np.max(error, initial=0.0)),
            check=check,
        )

    def precision(self, draws: list[Draw], provenance: str, warnings: tuple[str, ...] = ()) -> Precision:
        return Precision(
            workload=self.workload.NAME,
            size=self.size,
            params=self.params,
            provenance=provenance,
            largest_value=float(np.max(np.abs(np.asarray(self.clear)), initial=0.0)),
            draws=tuple(draws),
            warnings=warnings,
        )


def predict_precision(
    given: ProgramAtSet,
    *,
    reading: str = "openfhe",
    draws: int = DRAWS,
    on_draw: Callable[[int, int], None] | None = None,
) -> Precision:
    """The errors of a program, encrypted at a parameter set.

    Args:   reading: of `ENCRYPTED`; on_draw(done, total): told after each draw.
    Raises: UnknownName; ParamsError: the set is not for OpenFHE, the program is deeper than it, or its values outgrow
            the modulus or drown in noise.
    """
    # First of all: a set whose noise cannot be computed is refused at once.
    check_known("reading", reading, ENCRYPTED)
    ours = READINGS[reading].expands
    of_run, seeds = _of_run(given, reading), [[given.seed, index] for index in range(draws)]
    evaluators = [NoisyEvaluator(of_run, seed, exact_ratio=ours, own_client=ours) for seed in seeds]
    done = []
    for index, evaluator in enumerate(evaluators, 1):
        done.append(given.drawn(evaluator))
        if on_draw is not None:
            on_draw(index, draws)
    refreshes = any(evaluator.run.refreshes for evaluator in evaluators)
    return given.precision(done, "predicted", (REFRESH,) if refreshes and not ours else ())


def measure_precision(
    given: ProgramAtSet, *, reading: str = "openfhe", runs: int = 1, on_run: Callable[[int, int], None] | None = None
) -> Precision:
    """The same for encrypted runs, each with new keys.

    The native reading takes the plan of few keys, as its prediction does, and not the plan that a run may choose.
    Raises: as `record_openfhe` and `run_native`.
    """
    read, done = READINGS[reading].read, []
    for index in range(runs):
        run = read(given.name, _of_run(given, reading), given.size, given.seed, given.data)
        done.append(given.held(run.result))
        if on_run is not None:
            on_run(index + 1, runs)
    return given.precision(done, "measured")


def _of_run(given: ProgramAtSet, reading: str) -> CkksParameters:
    return with_few_keys(given.params) if READINGS[reading].expands else given.params
