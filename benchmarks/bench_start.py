"""The start: how long `import penstock` and the shortest commands take, in processes of their own.

CPU seconds of the process, user and system. `import penstock` is what it adds to an interpreter that does nothing.
Pairs run alternately, so that a busy spell meets both.

    .venv/bin/python benchmarks/bench_start.py [--runs 30] [--format json]

Exit 1: a median is above its bound.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys

COMMAND = "import sys; from penstock.front.cli.main import main; sys.exit(main())"
COMPLETING = {
    "_PENSTOCK_COMPLETE": "bash_complete", "COMP_WORDS": "penstock simulate inner-product --machine ", "COMP_CWORD": "4"
}  # fmt: skip
NOTHING = "an empty program"
IMPORT = "import penstock"
PROGRAMS: dict[str, tuple[list[str], dict[str, str]]] = {
    NOTHING: (["-c", "pass"], {}),
    IMPORT: (["-c", "import penstock"], {}),
    "penstock --help": (["-c", COMMAND, "--help"], {}),
    "penstock --version": (["-c", COMMAND, "--version"], {}),
    "completion of --machine": (["-c", COMMAND], COMPLETING),
}
BOUNDS_S = {IMPORT: 0.030, "penstock --help": 0.080, "completion of --machine": 0.150}
"""Median CPU seconds; of the import above the empty program's."""


def cpu_s(arguments: list[str], environ: dict[str, str]) -> float:
    """CPU seconds of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], env={**os.environ, **environ}, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def rows(runs: int) -> list[dict[str, object]]:
    """A row for each program; the first run of each, which fills caches of files, is left out."""
    found: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for run in range(runs + 1):
        for name, (arguments, environ) in PROGRAMS.items():
            taken = cpu_s(arguments, environ)
            if run:
                found[name].append(taken)
    empty = statistics.median(found[NOTHING])
    result: list[dict[str, object]] = []
    for name, samples in found.items():
        taken = [each - empty for each in samples] if name == IMPORT else samples
        bound, median = BOUNDS_S.get(name), statistics.median(taken)
        first, _, third = statistics.quantiles(taken, n=4)
        result.append(
            {
                "what": name, "n": len(taken), "median_cpu_s": median, "quartiles_cpu_s": [first, third],
                "min_cpu_s": min(taken), "max_cpu_s": max(taken), "bound_s": bound,
                "met": bound is None or median <= bound,
            }
        )  # fmt: skip
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    asked = parser.parse_args()
    if asked.runs < 2:
        parser.error("--runs: at least 2, for a spread")
    found = rows(asked.runs)
    if asked.format == "json":
        print(json.dumps(found, indent=2))
    else:
        for row in found:
            low, high = (1e3 * each for each in row["quartiles_cpu_s"])
            said = "" if row["bound_s"] is None else f"bound {1e3 * row['bound_s']:3.0f} ms  "
            said += "" if row["bound_s"] is None else "met" if row["met"] else "MISSED"
            print(
                f"{row['what']:<24} n {row['n']:>3}  CPU median {1e3 * row['median_cpu_s']:6.1f} ms  "
                f"quartiles {low:6.1f} to {high:6.1f} ms  {said}".rstrip()
            )
    return 0 if all(row["met"] for row in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
