"""Messages between the front process and the workers: jobs, their figures, refusals.

Nothing here imports an evaluator: the front process has none.
"""

from __future__ import annotations

import json
import re
import threading
from contextlib import suppress
from dataclasses import dataclass, fields
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from penstock.base.types import Row

COUNTERS = (
    "hits", "late_hits", "misses", "requested_bytes", "miss_bytes", "read_bytes", "expanded_bytes", "evictions",
    "evicted_bytes",
)  # fmt: skip
"""Of a worker's cache, since it began (`penstock.runtime.keystore.cache.CacheStats`)."""

HEADER_BYTES = 4096
"""What the file of a ciphertext has besides its words, at most."""

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


def content_of(package: Path) -> str:
    """What tells a package's content from others: its SHA-256, where the file is named by it, or else its path.

    >>> content_of(Path("tenants/a/blobs") / ("ab" * 32)) == content_of(Path("tenants/b/blobs") / ("ab" * 32))
    True
    """
    return package.name if _SHA256.fullmatch(package.name) else str(package)


def plain(part: Path | DataclassInstance) -> str | Row:
    """For JSON: the text of a path, the fields of a dataclass."""
    return str(part) if isinstance(part, Path) else {field.name: getattr(part, field.name) for field in fields(part)}


def _paths(written: str | list[str] | dict[str, str]) -> Path | tuple[Path, ...] | dict[str, Path]:
    """A path, a table of paths, or several, from JSON."""
    if isinstance(written, dict):
        return {name: Path(path) for name, path in written.items()}
    return tuple(map(Path, written)) if isinstance(written, list) else Path(written)


class Channel(Connection):
    """One end of the socket between the front and a worker: messages are JSON objects. `tell` is thread safe."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._lock = threading.Lock()

    def tell(self, kind: str, **content: object) -> None:
        """Send a message. A dead other end is found out when it is heard."""
        with self._lock, suppress(OSError):
            self.send_bytes(json.dumps({"kind": kind, **content}, default=plain).encode())


Sent = TypeVar("Sent", bound="Message")


class Message:
    """A dataclass that a `Channel` carries."""

    __slots__ = ()

    @classmethod
    def of(cls: type[Sent], written: Row) -> Sent:
        """The message of its fields in JSON."""
        kinds = cls.__annotations__
        are_paths = {name: "Path" in kinds[name] and value is not None for name, value in written.items()}
        return cls(**{name: _paths(value) if are_paths[name] else value for name, value in written.items()})


EXPIRED = "expired: "
"""The reason of a job that failed by its deadline begins with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec(Message):
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
    most_output_bytes: int = 0
    """Of one output; 0: unknown."""
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
    yields: bool = False
    """To jobs of tenants that have had less of the machine."""
    planned_key_bytes: int = 0
    """The budget of keys for which the program was planned at its deployment; 0: the worker's own. Another plan could
    need other keys."""


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


class AdmissionRefused(PenstockError):
    """Admission takes no more now. `retry_after_s`: when to come again."""

    def __init__(self, retry_after_s: float, why: str) -> None:
        super().__init__(f"{why}; come again in {max(1, round(retry_after_s))} s")
        self.retry_after_s, self.why = retry_after_s, why


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings(Message):
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
    tenants: Path | None = None
    """A folder with one of each tenant: a worker of one tenant reads that one's, and its keys, alone."""
    writable: tuple[Path, ...] = ()
    """The first: each process has its own folder in it. The front moves whole outputs from there to their names,
    in the same file system."""
    user: str = "nobody"
    """Whom workers run as, where the server was started as root."""
    kept_bytes: int = 1 << 30
    """Of compiled programs and evaluators that wait for their next job."""
    memory_bytes: int = 0
    """Stated of the process, as all of the above and the values of its jobs; 0: no bound."""
