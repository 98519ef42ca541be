"""Tenants and their jobs as a person writes them, and checked.

A tenants file says whose keys are where and how much of them is in memory; a jobs file is a queue, the first job first.

>>> tenants = parse_tenants('''
... store = "keys"
... budget = "25%"
... tenants = ["alice", "bob"]
... ''', "example")
>>> tenants.budget_bytes(all_keys=1000), tenants.scheduling
(250, 'locality')
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from penstock.base.system import toml
from penstock.base.units import parse_bytes
from penstock.errors import UnknownName, UsageError
from penstock.program.workloads import is_file
from penstock.runtime.keystore import check_tenant, local_folder

Scheduling = Literal["fifo", "locality"]
"""`fifo`: the queue's order. `locality`: the job of the smallest share of keys to read runs next."""
Policy = Literal["lru", "future"]
"""`lru` evicts the least recently used keys, and reads nothing ahead. `future` evicts the keys of the latest next
use, and reads ahead while the program computes."""


class Tenants(BaseModel):
    """A tenants file: whose jobs run, and on how much memory."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    store: StrictStr
    """Folder of the key store; once parsed, from the current folder."""
    budget: StrictStr
    """Bytes of keys in memory ('1 GiB'), or a share of all keys that the queue uses ('50%')."""
    tenants: Annotated[tuple[StrictStr, ...], Field(min_length=1)]
    scheduling: Scheduling = "locality"
    policy: Policy = "future"
    max_overtaken: Annotated[StrictInt, Field(ge=0)] = 64
    """The number of later jobs that may overtake a job."""

    def budget_bytes(self, all_keys: int, where: str = "the queue") -> int:
        """Bytes of keys in memory, where all keys of the queue are `all_keys` bytes.

        Raises: UsageError: the budget is neither bytes nor a share.
        """
        if not self.budget.endswith("%"):
            size = parse_bytes(self.budget, f"{where}: budget")
            if size >= 2**63:
                raise UsageError(
                    f"{where}: budget '{self.budget}': bytes in memory are below 8 EiB; '100%' is all keys"
                )
            return size
        try:
            share = float(self.budget[:-1]) / 100
        except ValueError:
            share = -1.0
        if not 0 < share <= 1:
            raise UsageError(f"{where}: budget '{self.budget}': a share of all keys is above 0 and at most 100%")
        return round(share * all_keys)


class Job(BaseModel):
    """One `[[job]]` of a jobs file: a program of a tenant."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tenant: StrictStr
    workload: StrictStr
    size: StrictStr | None = None
    params: StrictStr | None = None
    seed: Annotated[StrictInt, Field(ge=0)] = 0


def parse_tenants(written: Path | str, where: str, folder: Path = Path()) -> Tenants:
    """A tenants file, or its text; its store is a path from `folder`.

    Raises: UsageError: the file breaks a rule, named with its field. FileError: it cannot be read.
    """
    tenants = toml.checked(Tenants, toml.table(written, where, "a tenants file"), where)
    if len(set(tenants.tenants)) < len(tenants.tenants):
        raise UsageError(f"{where}: tenants: a name is there twice; each tenant has one")
    for name in tenants.tenants:
        check_tenant(name, f"{where}: tenants")
    tenants.budget_bytes(0, where)
    return tenants.model_copy(update={"store": str(folder / local_folder(tenants.store, f"{where}: store"))})


def parse_jobs(written: Path | str, where: str, tenants: Sequence[str], folder: Path = Path()) -> tuple[Job, ...]:
    """The queue of a jobs file, or of its text, whose tenants are among `tenants`; files are paths from `folder`.

    Raises: UsageError, UnknownName: the file breaks a rule. FileError: it cannot be read.
    """
    table = toml.table(written, where, "a jobs file")
    rows = table.pop("job", [])
    if table:
        raise UnknownName("key", next(iter(table)), ["job"], where=where)
    if not isinstance(rows, list) or not rows:
        raise UsageError(f"{where}: there are no jobs; write each as a [[job]] with tenant and workload")
    jobs = []
    for number, row in enumerate(rows):
        job = toml.checked(Job, row, f"{where}: job {number}")
        if job.tenant not in tenants:
            raise UnknownName(f"tenant of job {number} in {where}", job.tenant, tenants)
        jobs.append(job.model_copy(update={"workload": str(folder / job.workload)}) if is_file(job.workload) else job)
    return tuple(jobs)
