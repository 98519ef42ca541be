"""When jobs arrive, and whose: Poisson, bursts, or as a file says; tenants by Zipf's law."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.base.system.files import os_errors
from penstock.errors import UnknownName, UsageError
from penstock.lab.simulation.servers.stream import shares

MOST_ARRIVALS = 10_000_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """One job to be."""

    at_s: float
    """From the beginning."""
    tenant: int
    """Place in the list of tenants."""


def poisson(rate_per_s: float, duration_s: float, rng: np.random.Generator) -> list[float]:
    """Times of a Poisson process, in order.

    >>> times = poisson(50.0, 100.0, np.random.default_rng(1))
    >>> abs(len(times) - 5000) < 300, times == sorted(times)
    (True, True)
    """
    _check_count(rate_per_s * duration_s)
    count = int(rng.poisson(rate_per_s * duration_s))
    return sorted(rng.uniform(0.0, duration_s, count).tolist())


def bursts(rate_per_s: float, duration_s: float, size: int, rng: np.random.Generator) -> list[float]:
    """Times of bursts: `size` jobs at once, the bursts a Poisson process, `rate_per_s` jobs in the mean."""
    return [at for at in poisson(rate_per_s / size, duration_s, rng) for _ in range(size)]


def drawn(times: Sequence[float], tenants: int, exponent: float, rng: np.random.Generator) -> list[Arrival]:
    """Arrivals at these times, each of a tenant that is drawn by its share."""
    chosen = rng.choice(tenants, size=len(times), p=shares(tenants, exponent))
    return [Arrival(at, int(tenant)) for at, tenant in zip(times, chosen, strict=True)]


def arrivals_at(rate: float, duration_s: float, burst: int, *, tenants: int, zipf: float, seed: int) -> list[Arrival]:
    """Arrivals by a seed: a Poisson process, or bursts of so many jobs; `rate` jobs a second in the mean.

    Raises: UsageError: none in that time, or too many.
    """
    rng = np.random.default_rng(seed)
    times = poisson(rate, duration_s, rng) if burst == 1 else bursts(rate, duration_s, burst, rng)
    if not times:
        raise UsageError(f"no job arrives in {duration_s:g} s at {rate:g} a second: raise --rate or --duration")
    return drawn(times, tenants, zipf, rng)


def read_arrivals(path: Path, tenants: Sequence[str]) -> list[Arrival]:
    """Arrivals of a CSV file with the columns `at_s` and `tenant`, in order of time.

    Raises: UsageError: other columns, a time that is not a number from 0 on. UnknownName: no such tenant. FileError.
    """
    with os_errors(path, "read"):
        arrivals = sorted(_rows(path, {name: place for place, name in enumerate(tenants)}), key=lambda job: job.at_s)
    if not arrivals:
        raise UsageError(f"{path}: it has no arrivals")
    return arrivals


def _rows(path: Path, places: dict[str, int]) -> Iterator[Arrival]:
    with path.open(newline="", encoding="utf-8") as file:
        try:
            reader = csv.DictReader(file)
            if not {"at_s", "tenant"} <= set(reader.fieldnames or ()):
                raise UsageError(f"{path}: arrivals are a CSV file with the columns at_s and tenant")
            for line, row in enumerate(reader, 2):
                try:
                    at_s = float(row["at_s"])
                except (TypeError, ValueError):
                    at_s = math.nan
                if not 0.0 <= at_s < math.inf:
                    raise UsageError(f"{path}, line {line}: at_s is '{row['at_s']}'; write seconds from 0 on")
                if row["tenant"] not in places:
                    raise UnknownName("tenant", str(row["tenant"]), places, where=f"{path}, line {line}")
                yield Arrival(at_s, places[row["tenant"]])
        except (UnicodeDecodeError, csv.Error) as error:
            raise UsageError(f"{path}: it cannot be read as CSV ({error})") from error


def _check_count(expected: float) -> None:
    if expected > MOST_ARRIVALS:
        raise UsageError(f"{expected:.0f} arrivals: at most {MOST_ARRIVALS} in one run; lower the rate or the duration")
