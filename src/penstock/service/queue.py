"""Tenants and their jobs as a person writes them, and checked.

A tenants file says whose keys are where and how much of them is in memory; a jobs file is a queue, the first job first.

>>> tenants = parse_tenants('''
... store = "keys"
... budget = "25%"
... tenants = ["alice", "bob"]
... ''', "example")
>>> tenants.budget_bytes(all_keys=1000), tenants.scheduling
(250, <Scheduling.LOCALITY: 'locality'>)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from penstock.errors import UnknownName, UsageError
from penstock.keystore import check_tenant, local_folder
from penstock.system import toml
from penstock.units import parse_bytes
from penstock.workloads import is_file


class Scheduling(str, Enum):
    """In which order jobs run."""

    FIFO = "fifo"
    """As they are queued."""
    LOCALITY = "locality"
    """The job next for which the least has to be read; none is overtaken without end."""


class Policy(str, Enum):
    """What leaves memory."""

    LRU = "lru"
    """The key that was used longest ago. The future is unknown, so nothing is read ahead."""
    FUTURE = "future"
    """Evict the rows that the queue uses last; read the next keys while the program computes."""


class TenantsSpec(BaseModel):
    """A tenants file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    store: StrictStr
    budget: StrictStr
    tenants: Annotated[tuple[StrictStr, ...], Field(min_length=1)]
    scheduling: Scheduling = Scheduling.LOCALITY
    policy: Policy = Policy.FUTURE
    max_overtaken: Annotated[StrictInt, Field(ge=0)] = 64


class JobSpec(BaseModel):
    """One `[[job]]` of a jobs file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tenant: StrictStr
    workload: StrictStr
    size: StrictStr | None = None
    params: StrictStr | None = None
    seed: Annotated[StrictInt, Field(ge=0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenants:
    """Who may run jobs, and on how much memory."""

    store: Path
    names: tuple[str, ...]
    budget: int | float
    """Bytes of keys in memory, or (a float) a share of all keys that the queue uses."""
    scheduling: Scheduling
    policy: Policy
    max_overtaken: int
    """The number of later jobs that may overtake a job."""

    def budget_bytes(self, all_keys: int) -> int:
        """Bytes of keys in memory, where all keys of the queue are `all_keys` bytes."""
        return self.budget if isinstance(self.budget, int) else round(self.budget * all_keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One program of one tenant."""

    number: int
    """Place in the queue, from 0."""
    tenant: str
    workload: str
    size: str | None = None
    params: str | None = None
    seed: int = 0


def load_tenants(path: Path) -> Tenants:
    """A tenants file; its store is a path from the file's folder.

    Raises: UsageError: the file breaks a rule, named with its field. FileError: it cannot be read.
    """
    return parse_tenants(path, str(path), path.parent)


def parse_tenants(written: Path | str, where: str, folder: Path = Path()) -> Tenants:
    """As `load_tenants`, from text."""
    spec = toml.checked(TenantsSpec, toml.table(written, where, "a tenants file"), where)
    if len(set(spec.tenants)) < len(spec.tenants):
        raise UsageError(f"{where}: tenants: a name is there twice; each tenant has one")
    for name in spec.tenants:
        check_tenant(name, f"{where}: tenants")
    return Tenants(
        store=folder / local_folder(spec.store, f"{where}: store"),
        names=spec.tenants,
        budget=_budget(spec.budget, where),
        scheduling=spec.scheduling,
        policy=spec.policy,
        max_overtaken=spec.max_overtaken,
    )


def load_jobs(path: Path, tenants: Sequence[str]) -> tuple[Job, ...]:
    """The queue of a jobs file, whose tenants are among `tenants`; Python files are paths from the file's folder.

    Raises: UsageError, UnknownName: the file breaks a rule. FileError: it cannot be read.
    """
    return parse_jobs(path, str(path), tenants, path.parent)


def parse_jobs(written: Path | str, where: str, tenants: Sequence[str], folder: Path = Path()) -> tuple[Job, ...]:
    """As `load_jobs`, from text."""
    table = toml.table(written, where, "a jobs file")
    rows = table.pop("job", [])
    if table:
        raise UnknownName("key", next(iter(table)), ["job"], where=where)
    if not isinstance(rows, list) or not rows:
        raise UsageError(f"{where}: there are no jobs; write each as a [[job]] with tenant and workload")
    jobs = []
    for number, row in enumerate(rows):
        spec = toml.checked(JobSpec, row, f"{where}: job {number}")
        if spec.tenant not in tenants:
            raise UnknownName(f"tenant of job {number} in {where}", spec.tenant, tenants)
        fields = spec.model_dump()
        if is_file(spec.workload):
            fields["workload"] = str(folder / spec.workload)
        jobs.append(Job(number=number, **fields))
    return tuple(jobs)


def _budget(text: str, where: str) -> int | float:
    if not text.endswith("%"):
        size = parse_bytes(text, f"{where}: budget")
        if size >= 2**63:
            raise UsageError(f"{where}: budget '{text}': bytes in memory are below 8 EiB; '100%' is all keys")
        return size
    try:
        share = float(text[:-1]) / 100
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise UsageError(f"{where}: budget '{text}': a share of all keys is above 0 and at most 100%")
    return share
