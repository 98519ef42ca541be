"""The choice of jobs to take: refusals come early, with a time to come back."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.service.work.bounds import memory_of_one
from penstock.service.work.messages import AdmissionRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the queue holds at most, in equal shares of the tenants that have work here.

    A tenant below its share is never refused for what others have here. One that had more while it was alone keeps it.
    """

    jobs: int = 10_000
    backlog_s: float = 600.0
    """Predicted seconds until a tenant's work is done, at an equal share of the machine."""
    memory_bytes: int | None = None
    """Of the values of all jobs that run at the same time; `None`: no limit."""

    def admit(
        self, jobs: int, backlog_s: float, job_s: float, memory_bytes: int, *, tenants: int = 1,
        is_draining: bool = False,
    ) -> None:  # fmt: skip
        """Let a job in, of `job_s` predicted seconds and so many bytes.

        Args:   jobs: of its tenant, waiting and running. backlog_s: their predicted seconds. tenants: with work, this
                one included.
        Raises: AdmissionRefused: come back when there is room again. UsageError: it never fits.
        """
        if self.memory_bytes is not None and memory_bytes > memory_of_one(self.memory_bytes):
            raise UsageError(
                f"the job needs {memory_bytes} bytes of memory, and one tenant's jobs have "
                f"{memory_of_one(self.memory_bytes)}: take a smaller program"
            )
        if is_draining:
            raise AdmissionRefused(max(30.0, backlog_s), "the service is about to stop and takes no more jobs")
        # The first one is taken, however long it is.
        if not jobs:
            return
        most, most_s = max(1, self.jobs // tenants), self.backlog_s / tenants
        share = "" if tenants == 1 else f", its share of {{}} while {tenants - 1} other tenants have work"
        if jobs >= most:
            over_s = (jobs - most + 1) * backlog_s / jobs * tenants
            raise AdmissionRefused(
                max(1.0, over_s), f"{jobs} jobs of this tenant wait, and {most} may{share.format(self.jobs)}"
            )
        over_s = backlog_s + job_s - most_s
        if over_s > 0:
            raise AdmissionRefused(
                over_s * tenants,
                f"{backlog_s:.1f} s of this tenant's work wait, and with this job they would exceed {most_s:.1f} s"
                f"{share.format(f'{self.backlog_s:.1f} s')}",
            )
