"""A worker's memory over many parameter sets and many operations, against its stated memory.

`python benchmarks/bench_worker_memory.py` runs one job for each of `--sets` parameter sets, and then one of each of
`--packages` packages of `--operations` operations. It fails where the worker held more than it states, or died.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from penstock.base.units import parse_bytes
from support.worker_memory import Held, over_operations, over_sets, watched


def said(what: str, held: Held, begun: float) -> None:
    print(
        f"{what}: {held.jobs} jobs in {time.perf_counter() - begun:.0f} s; MB at first {held.first / 1e6:.0f}, at most "
        f"{held.most / 1e6:.0f}, stated {held.stated / 1e6:.0f}, kept for next jobs {held.kept / 1e6:.0f}; "
        f"deaths {held.deaths}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=1000)
    parser.add_argument("--packages", type=int, default=10)
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--kept", default="128 MB", help="of programs and evaluators that wait for their next job")
    parser.add_argument("--memory", default="200 MB", help="of the values of jobs")
    options = parser.parse_args()
    kept, memory = parse_bytes(options.kept, "--kept"), parse_bytes(options.memory, "--memory")
    failed = False
    for what, run in (
        (f"{options.sets} sets", lambda watch: over_sets(watch, options.sets)),
        (
            f"{options.packages} packages of {options.operations} operations",
            lambda watch: over_operations(watch, options.packages, options.operations),
        ),
    ):
        with tempfile.TemporaryDirectory() as folder:
            begun = time.perf_counter()
            with watched(Path(folder), kept_bytes=kept, memory_bytes=memory) as watch:
                run(watch)
            said(what, watch.held, begun)
            failed |= watch.held.most > watch.held.stated or watch.held.deaths > 0 or bool(watch.told.failed)
            if watch.told.failed:
                print(next(iter(watch.told.failed.values())))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
