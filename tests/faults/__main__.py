"""Disturb penstock in thirteen ways, each case from a seed of its own, and tell what it did not bear.

python tests/faults                                  # all, at full size (`make faults`)
python tests/faults files kills --count 100          # some
python tests/faults requests --count 1 --seed 137    # one case again
"""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.frame import ASKED, AT_MOST, Result, tally

SIZES = {"files": 10_000, "kills": 200, "strings": 100_000, "requests": 10_000, "programs": 500, "degenerate": 1_000,
         "values": 500, "physics": 1_000, "service": 200, "service_requests": 20_000, "service_tenants": 28,
         "service_packages": 1_000, "leaks": 400}  # fmt: skip
"""Bench -> its cases where `--count` does not say."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", nargs="*", help=f"of {', '.join(SIZES)}; all where none is named")
    parser.add_argument("--count", type=int, help=f"cases of each bench ({SIZES})")
    parser.add_argument("--seed", type=int, default=0, help="of the first case; each fault is printed with its own")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="cases at a time")
    parser.add_argument(
        "--seconds", type=float, help="of the service: stop after so long; service_tenants: each attack"
    )
    parser.add_argument("--only", help="service_tenants: attacks, by commas")
    parser.add_argument("--folder", type=Path, help="kept, and gone on with: for service_tenants")
    given = parser.parse_args()
    AT_MOST["seconds"] = given.seconds or AT_MOST["seconds"]
    ASKED["only"] = given.only.split(",") if given.only else []
    if unknown := set(given.bench) - set(SIZES):
        parser.error(f"no bench {', '.join(sorted(unknown))}; there are {', '.join(SIZES)}")
    everything: list[Result] = []
    for bench in given.bench or SIZES:
        count = given.count or SIZES[bench]
        print(f"== {bench}: {count} cases from seed {given.seed}", flush=True)
        began = time.monotonic()
        with ExitStack() as stack:
            folder = given.folder or stack.enter_context(tempfile.TemporaryDirectory(prefix=f"faults-{bench}-"))
            Path(folder).mkdir(parents=True, exist_ok=True)
            results = importlib.import_module(f"faults.{bench}").bench(Path(folder), count, given.seed, given.jobs)
        print(tally(results))
        print(f"{time.monotonic() - began:.0f} s", flush=True)
        everything += results
    faults = sum(bool(each.faults) for each in everything)
    largest = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cases = sum(each.cases for each in everything)
    print(f"{cases} cases, {faults} with a fault; largest process {largest / 2**10:.0f} MiB")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
