"""A stream of runs: which user asks for one, and when. Each user has an application and evaluation keys of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.base.arrays import Floats, Ints
from penstock.errors import UsageError

MOST_RUNS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A program on a server, with all keys of its user in the server's memory."""

    name: str
    run_s: float
    key_bytes: int
    """Every evaluation key of one user, once."""
    joules: float | None = None
    """Of one run; `None`: not known."""

    def __post_init__(self) -> None:
        if not self.run_s > 0 or self.key_bytes < 0:
            raise UsageError(
                f"application '{self.name}' of {self.run_s} s and {self.key_bytes} bytes of keys: a run takes time, "
                "and keys are not negative"
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stream:
    """Runs in the order of their arrival."""

    users: tuple[Application, ...]
    """The application of each user."""
    at_s: Floats
    """(runs,) ascending."""
    user: Ints
    """(runs,)"""
    rate_per_s: float
    """Runs that were asked for in a second, in the mean."""

    def __len__(self) -> int:
        return len(self.at_s)

    @property
    def run_s(self) -> Floats:
        """(runs,) seconds of computing."""
        return np.array([user.run_s for user in self.users])[self.user]

    @property
    def key_bytes(self) -> tuple[int, ...]:
        """Of each user."""
        return tuple(user.key_bytes for user in self.users)


def poisson(
    applications: Sequence[Application], *, users: int, rate_per_s: float, runs: int, zipf: float = 0.0, seed: int = 0
) -> Stream:
    """Runs at random: users take the applications in turn, and user number i asks with a weight of (i + 1)^-zipf.

    Raises: UsageError: no application, user or run, a rate that is not positive, a negative exponent, or more runs than
            `MOST_RUNS`.
    """
    if not applications:
        raise UsageError("no application: name one at least")
    if users < 1 or not 1 <= runs <= MOST_RUNS:
        raise UsageError(f"{runs} runs of {users} users: at least one of each, and at most {MOST_RUNS:,} runs")
    if not (0 < rate_per_s < float("inf") and 0 <= zipf < float("inf")):
        raise UsageError(
            f"{rate_per_s} runs a second, exponent {zipf}: the rate is positive, the exponent not negative"
        )
    generator = np.random.default_rng(seed)
    return Stream(
        users=tuple(applications[i % len(applications)] for i in range(users)),
        at_s=np.cumsum(generator.exponential(1.0 / rate_per_s, runs)),
        user=generator.choice(users, size=runs, p=shares(users, zipf)).astype(np.int64),
        rate_per_s=rate_per_s,
    )


def shares(users: int, zipf: float) -> Floats:
    """(users,) the share of the runs that each asks for.

    >>> shares(2, 1.0).round(3).tolist()
    [0.667, 0.333]
    """
    weights = 1.0 / np.arange(1, users + 1, dtype=np.float64) ** zipf
    return weights / weights.sum()
