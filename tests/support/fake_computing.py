"""Computing without cryptography, for tests of the front: the output of a job is the bytes of its first input.

Run as a program it serves with it: `python tests/support/fake_computing.py serve.toml`. Jobs whose program is `slow`
never end, and `FAKE_COMPUTING=instant|hold|N` says whether the others do: at once, never, or as soon as N of them are
there.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from penstock.base.system.files import write_atomic
from penstock.service.http.jobs import Jobs
from penstock.service.work.messages import AdmissionRefused, JobFigures, JobSpec
from penstock.service.work.record import Record

FIGURES = JobFigures(queue_s=0.0, key_wait_s=0.0, compute_s=0.001, read_bytes=7, hits=1, misses=2, peak_bytes=9)


class FakeComputing:
    """Computes at once, or holds jobs until `release`."""

    def __init__(self, jobs: Jobs, *, hold: bool = False, most: int = 1000, batch: int = 1) -> None:
        self.jobs, self.hold, self.most, self.batch = jobs, hold, most, batch
        self.held: dict[str, JobSpec] = {}
        self.seen: list[JobSpec] = []
        self.fails: list[tuple[str, bool]] = []
        """Reason and retry of the next jobs, which fail."""
        self.is_alive = True
        self.on_trouble: object = None
        self._lock = threading.Lock()

    def start(self) -> None: ...

    def check(self, job: JobSpec) -> None:
        if len(self.held) >= self.most:
            raise AdmissionRefused(7, "the queue is full")

    def submit(self, job: JobSpec, *, is_accepted: bool = False) -> None:
        self.check(job)
        with self._lock:
            self.seen.append(job)
            self.held[job.job] = job
            ready = list(self.held) if len(self.held) >= self.batch else []
        if not self.hold and ready:
            threading.Thread(target=lambda: [self.release(each) for each in ready], daemon=True).start()

    def release(self, job: str) -> None:
        with self._lock:
            spec = self.held.pop(job, None)
            failure = self.fails.pop(0) if self.fails else None
        if spec is None:
            return
        self.jobs.on_started(job)
        if failure is not None:
            self.jobs.on_failed(job, *failure)
            return
        content = next(iter(spec.inputs.values())).read_bytes()
        for path in spec.outputs.values():
            write_atomic(path, content, force=True)
        self.jobs.on_done(job, FIGURES)

    def cancel(self, job: str) -> bool:
        return self.held.pop(job, None) is not None

    def forget_tenant(self, tenant: str) -> None: ...

    def snapshot(self, most: int | None = None) -> dict[str, object]:
        return {"waiting": len(self.held), "hits": 3, "late_hits": 1, "misses": 1}

    def recorded(self) -> Record:
        return Record()

    def pause(self, is_paused: bool) -> None: ...

    def drain(self, timeout_s: float) -> None: ...

    def close(self) -> None:
        self.hold = True
        self.held.clear()


if __name__ == "__main__":
    from penstock.service.http import limits
    from penstock.service.http.config import read_config
    from penstock.service.http.logs import Log
    from penstock.service.http.serve import serve

    limits._WINDOW_S = float(os.environ.get("FAKE_WINDOW_S", limits._WINDOW_S))
    mode = os.environ.get("FAKE_COMPUTING", "instant")
    serve(
        read_config(Path(sys.argv[1])),
        make_pool=lambda config, jobs: FakeComputing(
            jobs, hold=mode == "hold", batch=int(mode) if mode.isdigit() else 1, most=10_000
        ),
        say=lambda line: print(line, flush=True),
        log=Log(),
    )
