"""The suite that fitting and validating need, measured again while the machine is too noisy to be believed."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path

from penstock.base.runs.folder import RunFolder
from penstock.lab.measure.bench import timing
from penstock.lab.measure.bench.spec import SuitePlan, load_suite, plan
from penstock.lab.measure.bench.store import default_store
from penstock.lab.measure.bench.suite import Options, config_of, raise_problems, run_plan
from penstock.lab.prediction.importers.bench import SUITE
from penstock.program.running.readings import DEFAULT_READING

ATTEMPTS = 3
"""Measurements at most, until one is quiet enough."""

Measure = Callable[[SuitePlan, RunFolder], None]
"""Measures a plan into a run folder, which then states its noise."""


def measure_quietly(
    root: Path = Path("runs"),
    *,
    suite: str = SUITE,
    reading: str = DEFAULT_READING,
    attempts: int = ATTEMPTS,
    measure: Measure | None = None,
    on_attempt: Callable[[str], None] = lambda text: None,
) -> Path:
    """The folder of a finished measurement: the first without noise, else the quietest of `attempts`.

    The folders of noisier attempts are deleted; none of them existed before.
    Raises: as `penstock bench run`.
    """
    planned = plan(load_suite(suite), reading=reading)
    measure = measure or _measured
    best, least = None, math.inf
    for attempt in range(1, attempts + 1):
        path = _new_path(root, f"bench-{planned.suite}")
        with RunFolder.create(path, config_of(planned, Options(store=default_store()))) as run:
            measure(planned, run)
            noise = noise_of(run)
        if best is None or noise < least:
            best, worse = path, best
            least = noise
        else:
            worse = path
        if worse is not None:
            shutil.rmtree(worse)
        if noise <= timing.NOISY_SPREAD:
            break
        again = "measuring again" if attempt < attempts else "the quietest is kept"
        on_attempt(f"attempt {attempt} of {attempts}: a fixed piece of work spread by {noise:.0%} meanwhile; {again}")
    assert best is not None
    return best


def noise_of(run: RunFolder) -> float:
    """Spread of a fixed piece of work while the run was measured; infinite where the run does not say."""
    spread = run.record.get("noise", {}).get("during_spread")
    return math.inf if spread is None else float(spread)


def _measured(planned: SuitePlan, run: RunFolder) -> None:
    raise_problems(run_plan(planned, run, Options(store=default_store())))


def _new_path(root: Path, name: str) -> Path:
    """A folder that is not there yet; its name is the time."""
    path = wanted = RunFolder.default_path(name, root=root)
    number = 1
    while path.exists():
        number += 1
        path = wanted.with_name(f"{wanted.name}-{number}")
    return path
