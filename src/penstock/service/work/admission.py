"""The choice of jobs to take: refusals come early, with a time to come back."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.service.work.bounds import memory_of_one
from penstock.service.work.messages import AdmissionRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the queue holds at most."""

    jobs: int = 10_000
    backlog_s: float = 600.0
    """Predicted seconds until all that waits is done."""
    memory_bytes: int | None = None
    """Of the values of all jobs that run at the same time; `None`: no limit."""

    def admit(self, jobs: int, backlog_s: float, job_s: float, memory_bytes: int, *, is_draining: bool = False) -> None:
        """Let a job in, of `job_s` predicted seconds and so many bytes.

        Args:   jobs: waiting and running. backlog_s: their predicted seconds.
        Raises: AdmissionRefused: come back when there is room again. UsageError: it never fits.
        """
        if self.memory_bytes is not None and memory_bytes > memory_of_one(self.memory_bytes):
            raise UsageError(
                f"the job needs {memory_bytes} bytes of memory, and one tenant's jobs have "
                f"{memory_of_one(self.memory_bytes)}: take a smaller program"
            )
        if is_draining:
            raise AdmissionRefused(max(30.0, backlog_s), "the service is about to stop and takes no more jobs")
        if jobs >= self.jobs:
            over_s = (jobs - self.jobs + 1) * backlog_s / jobs if jobs else 0.0
            raise AdmissionRefused(max(1.0, over_s), f"{jobs} jobs wait, the most there may be")
        # The first one is taken, however long it is.
        over_s = backlog_s + job_s - self.backlog_s
        if jobs and over_s > 0:
            raise AdmissionRefused(
                over_s, f"{backlog_s:.1f} s of work wait, and with this job they would exceed {self.backlog_s:.1f} s"
            )
