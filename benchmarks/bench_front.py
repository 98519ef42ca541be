"""The cost of a function of `import penstock` over a verb's own work: at most 2 %, paired in one process.

Prints medians of alternating rounds. Exits with 1 where a function takes more than `MOST` of its own calls' time.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import penstock as ps
from penstock.lab.prediction.prediction import predict
from penstock.lab.simulation.play import answers
from penstock.lab.simulation.worded import question_in
from penstock.lab.simulation.words import KEYS, Words
from penstock.program.running.counting import count_workload
from penstock.program.running.trace import trace_workload
from penstock.scheme.machines import load_machine, load_tiers

ROUNDS = 31
MOST = 1.02


def ratio(front: Callable[[], object], own: Callable[[], object]) -> tuple[float, float, float]:
    """Median seconds of both, and the median of the ratios of rounds next to each other."""
    front(), own()
    times: list[tuple[float, float]] = []
    for i in range(ROUNDS):
        order = (front, own) if i % 2 else (own, front)
        spent = {}
        for each in order:
            started = time.perf_counter()
            each()
            spent[each] = time.perf_counter() - started
        times.append((spent[front], spent[own]))
    return (
        statistics.median(a for a, _ in times),
        statistics.median(b for _, b in times),
        statistics.median(a / b for a, b in times),
    )


def main() -> int:
    helr = "logistic-regression"
    sharp, tiers = load_machine("sharp"), load_tiers(["hbm", "pcie5"])
    caches, policies = ["256 MB", "1 GB"], ["lru", "belady"]

    def rows() -> object:
        question = question_in(Words(machine=[sharp], tier=tiers, cache=caches, policy=policies), (), KEYS)
        return list(answers(question, sharp, trace_workload(helr, "sharp")))

    pairs = {
        "simulate": (lambda: ps.simulate(helr, sharp, tiers, params="sharp", cache=caches, policy=policies), rows),
        "predict": (
            lambda: ps.predict(helr, sharp, params="sharp"),
            lambda: predict(count_workload(helr, "sharp"), sharp),
        ),
    }
    worst = 0.0
    for name, (front, own) in pairs.items():
        took, alone, times = ratio(front, own)
        worst = max(worst, times)
        print(f"{name}: {took * 1e3:.2f} ms, its own calls {alone * 1e3:.2f} ms, ratio {times:.3f} (measured)")
    return 0 if worst <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
