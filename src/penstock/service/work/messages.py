"""Messages between the front process and the workers: jobs, their figures, refusals.

Nothing here imports an evaluator: the front process has none.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from penstock.errors import PenstockError
from penstock.service.work.record import Recorded

COUNTERS = (
    "hits", "late_hits", "misses", "requested_bytes", "miss_bytes", "read_bytes", "expanded_bytes", "evictions",
    "evicted_bytes",
)  # fmt: skip
"""Of a worker's cache, since it began (`penstock.keystore.cache.CacheStats`)."""

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


def content_of(package: Path) -> str:
    """What tells a package's content from others: its SHA-256, where the file is named by it, or else its path.

    >>> content_of(Path("tenants/a/blobs") / ("ab" * 32)) == content_of(Path("tenants/b/blobs") / ("ab" * 32))
    True
    """
    return package.name if _SHA256.fullmatch(package.name) else str(package)


EXPIRED = "expired: "
"""The reason of a job that failed by its deadline begins with it."""


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
    planned_key_bytes: int = 0
    """The budget of keys for which the program was planned at its deployment; 0: the worker's own. Another plan could
    need other keys."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        fields = asdict(self)
        for name in ("package", "store"):
            fields[name] = str(fields[name])
        for name in ("inputs", "outputs"):
            fields[name] = {key: str(path) for key, path in fields[name].items()}
        return fields

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> JobSpec:
        """Of `to_dict`."""
        paths = {name: Path(fields[name]) for name in ("package", "store")}
        named = {name: {key: Path(path) for key, path in fields[name].items()} for name in ("inputs", "outputs")}
        return cls(**{**fields, **paths, **named})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """What one job took."""

    queue_s: float
    """From submission to the start of computing."""
    key_wait_s: float
    """Part of `compute_s`: its waits for keys, summed over its threads."""
    compute_s: float
    """From the start to the last output in its file."""
    read_bytes: int
    """Rows of keys that the job had to wait for, read or expanded."""
    hits: int
    misses: int
    peak_bytes: int
    """Most bytes of the job's values and encoded vectors, each at its most; keys aside."""


class Refused(PenstockError):
    """Admission takes no more now. `retry_after_s`: when to come again."""

    def __init__(self, retry_after_s: float, why: str) -> None:
        super().__init__(f"{why}; come again in {max(1, round(retry_after_s))} s")
        self.retry_after_s, self.why = retry_after_s, why


class Computing(Protocol):
    """Computes jobs. Thread safe.

    Its constructor takes the callbacks `on_started(job)`, `on_done(job, figures)`, `on_failed(job, reason, retry)`.
    They are called from one thread, one at a time. A job starts again where its worker died; its outputs are on disk
    when it is done; `retry` says whether the same job may succeed another time.
    """

    def start(self) -> None:
        """Start the workers."""

    def submit(self, job: JobSpec) -> None:
        """Take a job. Raises: Refused, and then nothing of it is kept."""

    def cancel(self, job: str) -> bool:
        """Whether the job was there; no callback follows. A job that computes ends without results."""

    def forget_tenant(self, tenant: str) -> None:
        """Cancel the tenant's jobs, and let go of its keys."""

    def snapshot(self, most: int | None = None) -> dict[str, Any]:
        """Queue (its first `most` jobs), running jobs, key bytes by tenant, hits, misses, budget."""

    def recorded(self) -> Recorded:
        """The latest jobs that ended, reads of keys, and samples."""

    def pause(self, is_paused: bool) -> None:
        """Take jobs, and begin none until this is called with `False`, or `drain`."""

    def drain(self, timeout_s: float) -> None:
        """Take no more; return when all is done, or after the time."""

    def close(self) -> None:
        """Stop at once. Jobs that did not end are the caller's to submit again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The settings of a worker process, sent at its start."""

    store: Path
    budget_bytes: int
    """Of keys in memory, of all tenants together."""
    floor_bytes: int = 0
    """Of each tenant, that the keys of others do not displace."""
    abreast: int = 1
    """Jobs at the same time."""
    threads: int = 1
    """Of each job."""
    policy: str = "future"
    """As of `KeyCache`."""
    readable: tuple[Path, ...] = ()
    """Folders of packages and inputs. The store is always readable, and never writable."""
    writable: tuple[Path, ...] = ()
    """Folders of outputs."""
    memory_bytes: int | None = None
    """Of addresses of the process; `None`: no limit."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        fields = asdict(self)
        folders = {name: [str(path) for path in fields[name]] for name in ("readable", "writable")}
        return {**fields, "store": str(self.store), **folders}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> WorkerSettings:
        """Of `to_dict`."""
        folders = {name: tuple(map(Path, fields[name])) for name in ("readable", "writable")}
        return cls(**{**fields, "store": Path(fields["store"]), **folders})
