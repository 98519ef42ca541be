"""What the front process and those that compute say to each other: jobs, their figures, refusals.

Nothing here imports an evaluator: the front process has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from penstock.errors import PenstockError


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One job. All its data are files."""

    job: str
    """Unique in the server."""
    tenant: str
    program: str
    package: Path
    """A package file."""
    store: Path
    """Folder of the key store of all tenants."""
    secret_tag: str | None
    """OpenFHE's tag of the tenant's secret key; `None`: the tenant's oldest pair."""
    inputs: dict[str, Path]
    """Name -> file with one ciphertext in OpenFHE's bytes."""
    outputs: dict[str, Path]
    """Name -> file to write: it appears whole or not at all."""
    priority: int = 0
    """0 to 9; a higher one comes first."""
    deadline_s: float | None = None
    """From submission."""
    key_bytes: int = 0
    """That the program reads, predicted."""
    compute_s: float = 0.0
    """Predicted."""
    memory_bytes: int = 0
    """Predicted, keys aside; 0: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """What one job took."""

    queue_s: float
    """From submission to the start of computing."""
    key_wait_s: float
    """Part of `compute_s`: its waits for keys, summed over its threads."""
    compute_s: float
    """From the start to the last output on disk."""
    read_bytes: int
    """Rows of keys that the job had to wait for, read or expanded."""
    hits: int
    misses: int
    peak_bytes: int
    """Most bytes of the worker while the job ran, those of jobs at its side included."""


class Refused(PenstockError):
    """Admission takes no more now. `retry_after_s`: when to come again."""

    def __init__(self, retry_after_s: float, why: str) -> None:
        super().__init__(f"{why}; come again in {max(1, round(retry_after_s))} s")
        self.retry_after_s, self.why = retry_after_s, why


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """What a `Computing` says of its jobs, from a thread of its own, one call at a time."""

    on_started: Callable[[str], object] = lambda job: None
    """(job). Again where a job starts again after its worker died."""
    on_done: Callable[[str, JobFigures], object] = lambda job, figures: None
    """(job, figures). Its outputs are on disk."""
    on_failed: Callable[[str, str, bool], object] = lambda job, reason, retry: None
    """(job, reason, whether another try may succeed)."""


class Computing(Protocol):
    """Computes jobs. Thread safe."""

    def start(self) -> None:
        """Start the workers."""

    def submit(self, job: JobSpec) -> None:
        """Take a job. Raises: Refused, and then nothing of it is kept."""

    def cancel(self, job: str) -> bool:
        """Whether the job was there; no callback follows. A job that computes ends without results."""

    def forget_tenant(self, tenant: str) -> None:
        """Cancel the tenant's jobs, and let go of its keys."""

    def snapshot(self) -> dict[str, Any]:
        """Queue, running jobs, key bytes by tenant, hits, misses, budget."""

    def drain(self, timeout_s: float) -> None:
        """Take no more; return when all is done, or after the time."""

    def close(self) -> None:
        """Stop at once. Jobs that did not end are the caller's to submit again."""
