"""The choice of jobs to take: refusals come early, with a time to come back."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.service.work.messages import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the queue holds at most."""

    jobs: int = 10_000
    backlog_s: float = 600.0
    """Predicted seconds until all that waits is done."""
    memory_bytes: int | None = None
    """Of the values of all jobs that run at the same time; `None`: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What there is."""

    jobs: int
    """Waiting and running."""
    backlog_s: float
    is_draining: bool = False


def admit(limits: Limits, load: Load, job_s: float, memory_bytes: int) -> None:
    """Let a job in, of so many predicted seconds and bytes.

    Raises: Refused: come back when there is room again. UsageError: it never fits.
    """
    if limits.memory_bytes is not None and memory_bytes > limits.memory_bytes:
        raise UsageError(
            f"the job needs {memory_bytes} bytes of memory, and jobs have {limits.memory_bytes}: take a smaller program"
        )
    mean_s = load.backlog_s / load.jobs if load.jobs else 0.0
    if load.is_draining:
        raise Refused(max(30.0, load.backlog_s), "the service is about to stop and takes no more jobs")
    if load.jobs >= limits.jobs:
        raise Refused(max(1.0, (load.jobs - limits.jobs + 1) * mean_s), f"{load.jobs} jobs wait, the most there may be")
    # The first one is taken, however long it is.
    if load.jobs and load.backlog_s + job_s > limits.backlog_s:
        over_s = load.backlog_s + job_s - limits.backlog_s
        raise Refused(
            over_s, f"{load.backlog_s:.1f} s of work wait, and with this job they would exceed {limits.backlog_s:.1f} s"
        )
