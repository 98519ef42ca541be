"""The explorer, served on a free port while a test runs, and runs that look for trouble."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.base.runs.folder import RunFolder
from penstock.front.explorer.library import Library
from penstock.front.explorer.live import Live
from penstock.front.explorer.serve import bound, serve
from penstock.front.explorer.state import State
from penstock.lab.sweeps.plan import plan
from penstock.lab.sweeps.run import config_of, run_sweep
from penstock.lab.sweeps.spec import parse_sweep
from support.bench_rows import SWEEP as BENCH
from support.bench_rows import folder_of, points_of, rows_of
from support.fake_run import write_fake_run

EVIL_RUN = "run&amp;<b onmouseover=alert(1)>x"
SMALL = State(workload="bootstrapping")
SWEEP = """
workload = "inner-product"
params = "sharp"
machine = "sharp"
tier = ["hbm", "pcie5", "rdma"]
cache = ["64 MB", "256 MB"]
policy = ["lru", "belady"]
"""
EVIL = "<script>document.title='hit'</script><img src=x onerror=\"document.title='hit'\">"


@contextmanager
def serving(library: Library, state: State = SMALL, live: Live | None = None) -> Iterator[str]:
    """The address of a running explorer."""
    listening, stop = bound(0), threading.Event()
    said: list[str] = []
    ready = threading.Event()

    def say(line: str) -> None:
        said.append(line)
        ready.set()

    thread = threading.Thread(
        target=serve,
        args=(library, listening, state),
        kwargs={"browser": False, "stop": stop, "say": say, "live": live},
    )
    thread.start()
    try:
        assert ready.wait(20)
        yield said[0].rstrip("/")
    finally:
        stop.set()
        thread.join(20)
        listening.close()
        assert not thread.is_alive()


def sweep_run(path: Path) -> Path:
    """A small sweep of real points."""
    found = parse_sweep(SWEEP, "tiers")
    planned = plan(found)
    with RunFolder.open_or_resume(path, config_of(found, planned)) as folder:
        run_sweep(planned, folder, workers=1)
    return path


def bench_runs(root: Path) -> list[Path]:
    """Two benchmark runs whose times are made up."""
    points = points_of(BENCH)
    made = []
    for name, factor in (("bench-before", 1.0), ("bench-now", 1.3)):
        rows = rows_of(points, lambda point, run, factor=factor: factor * 1e-3 * (1 + 0.01 * run))
        made.append(folder_of(root / name, rows))
    return made


def predictions(path: Path) -> Path:
    """A file as `penstock predict validate --format json` writes it."""
    rows = [
        {
            "model": model,
            "protocol": protocol,
            "application": application,
            "n": 12,
            "mean_abs_error": error,
            "median_abs_error": error / 2,
            "p90_abs_error": 2 * error,
            "worst_abs_error": 3 * error,
            "bias": -error / 9,
            "coverage90": 0.9 if model == "penstock" else None,
        }
        for protocol in ("unseen-application", "unseen-ring-dim")
        for application in ("all", "resnet20")
        for model, error in (("penstock", 0.05), ("additive", 0.15), ("log-quadratic", 0.11))
    ]
    path.write_text(json.dumps(rows))
    return path


def hostile_runs(root: Path) -> Path:
    """A folder of runs that other people's software might have left: two fit to read, the others not."""
    root.mkdir(exist_ok=True)
    write_fake_run(root / "plain").close()
    with RunFolder.create(root / EVIL_RUN, {"workload": EVIL, "size": "../../etc", "params": EVIL, "seed": 0}) as run:
        run.warn(EVIL, EVIL)
        run.append_rows(
            "measured",
            [
                {"quantity": EVIL, "value": float("nan"), "unit": EVIL, "provenance": "measured", "note": EVIL},
                {"quantity": "wall_s", "value": 1e300, "unit": "s", "provenance": "measured", "kind": EVIL},
                {"quantity": "op_seconds", "value": 2.0, "unit": "s", "provenance": "measured", "kind": EVIL},
            ],
        )
    huge = root / "huge"
    huge.mkdir()
    with (huge / "run.json").open("wb") as file:
        file.truncate(2**30)  # a gigabyte that takes no room
    (root / "no-json").mkdir()
    (root / "no-json" / "run.json").write_text('{"config": {}, "schema_version": NaN}')
    (root / "deep").mkdir()
    (root / "deep" / "run.json").write_text("[" * 100_000)
    outside = root.parent / "outside"
    write_fake_run(outside).close()
    (root / "link").symlink_to(outside)
    (root / "half").mkdir()
    (root / "half" / "run.json").symlink_to(outside / "run.json")
    return root
