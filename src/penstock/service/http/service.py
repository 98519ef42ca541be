"""The parts of a server put together, and what happens at its start, its end, and from time to time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from penstock.base.system.host import available_cores
from penstock.base.types import Row
from penstock.errors import PenstockError
from penstock.runtime.keystore import KeyStore, check_tenant
from penstock.service.http.config import Config
from penstock.service.http.jobs import Jobs
from penstock.service.http.keys import Keys
from penstock.service.http.logs import Log
from penstock.service.http.metrics import Metrics
from penstock.service.http.problems import Problem, being_removed, hide
from penstock.service.http.programs import Programs
from penstock.service.http.results import sweep_files
from penstock.service.http.state import ServiceState
from penstock.service.http.tokens import ADMIN, SCOPES, Caller, NewToken, new_token
from penstock.service.http.uploads import Files, UnfinishedUploads
from penstock.service.work.admission import Limits
from penstock.service.work.bounds import JobBounds, places_of_one
from penstock.service.work.messages import WorkerSettings
from penstock.service.work.order import Order
from penstock.service.work.pool import Isolation, WorkerPool

SWEEP_S = 30.0
SWEEPS_OF_FILES = 20
"""Of so many sweeps one looks for files without a row."""
SERVER = Caller(tenant="", token="server", scopes=frozenset())
BACKUPS = (
    "Backups of the server's folder and database that were made earlier still hold these data, encrypted under the "
    "tenant's key; the audit trail keeps the tenant's name and the identities of its tokens."
)


def pool_of(config: Config, jobs: Jobs) -> WorkerPool:
    """The workers of a configuration, which tell `jobs` what becomes of them."""
    work, tenants = config.work, config.folder / "tenants"
    return WorkerPool(
        WorkerSettings(
            store=config.folder / "keys",
            budget_bytes=work.key_bytes,
            floor_bytes=work.key_floor_bytes,
            abreast=work.abreast,
            threads=work.threads or max(1, available_cores() // places_of_one(work.abreast)),
            policy="lru" if work.eviction == "lru" else "future",
            readable=(tenants,),
            writable=(tenants,),
            kept_bytes=work.kept_bytes,
        ),
        on_started=jobs.on_started,
        on_done=jobs.on_done,
        on_failed=jobs.on_failed,
        limits=Limits(jobs=work.jobs, backlog_s=work.backlog_s, memory_bytes=work.memory_bytes),
        bounds=JobBounds(compile_s=work.compile_s, most_over=work.most_over, least_s=work.least_s),
        isolation=Isolation(work.isolation),
        max_workers=work.workers,
        order=Order.FCFS if work.order == "arrival" else Order.WEIGHED,
    )


def _check_folder(tenant: str, places: Sequence[Path]) -> None:
    """Raises: Problem: a file or another tenant has the name of the tenant's folder."""
    name = tenant.lower()
    is_file = name == "lock" or name.startswith("index.sqlite")
    # A file system that does not tell names apart by case shows the folder of another one.
    if is_file or any((place / tenant).exists() and place / tenant not in place.iterdir() for place in places):
        why = "the key store has a file of this name" if is_file else "another tenant's name differs by case only"
        raise Problem(
            422, f"tenant '{tenant}': {why}", remedy="choose another name", kind="tenant-name",
            rule="a folder gets the name: not 'lock' nor 'index.sqlite…', and none that the disk takes for another",
        )  # fmt: skip


class ServiceFront:
    """A server without its listeners.

    Args:   make_pool: as of `Jobs`.
    Raises: StateUnusable; StoreUnusable; FileError: the folder cannot be used.
    """

    def __init__(self, config: Config, log: Log, make_pool: Callable[[Config, Jobs], WorkerPool] = pool_of) -> None:
        self.config, self.log, self.metrics = config, log, Metrics()
        config.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        hide(str(config.folder), socket.gethostname())
        self.state = ServiceState(config.database)
        self.files = Files(config.folder, self.state.eras)
        # Workers confine themselves to it when they start.
        self.files.tenants.mkdir(exist_ok=True, mode=0o700)
        self.keys = Keys(KeyStore(self.files.store), self.state)
        self.uploads = UnfinishedUploads(config, self.state, self.files, self.keys, self.metrics)
        self.programs = Programs(config, self.state, self.files)
        self.jobs = Jobs(config, self.state, self.files, self.keys, self.programs, self.metrics, make_pool)
        self.jobs.on_reason = partial(log.write, "job failed")
        self._ended, self._removing, self._sweeps = threading.Event(), threading.Lock(), 0
        self._sweeper = threading.Thread(target=self._sweep_often, name="sweeper", daemon=True)
        self.drain_asked: Callable[[], object] = lambda: None
        """What an operator's request to drain calls."""

    def start(self) -> int:
        """End removals, start the workers and submit the accepted jobs again; how many."""
        self._end_removals()
        sweep_files(self.files, self.state)
        resumed = self.jobs.start()
        self._sweeper.start()
        return resumed

    def drain(self, timeout_s: float) -> None:
        """Take no more jobs, and wait for the running ones."""
        self.jobs.draining = True
        self.jobs.pool.drain(timeout_s)

    def close(self) -> None:
        """Stop. Jobs that did not end are submitted again at the next start."""
        self._ended.set()
        self.jobs.close()
        self.state.close()

    def first_tokens(self) -> dict[str, NewToken]:
        """Tokens of a new state, by whose they are; later none."""
        if self.state.tokens(""):
            return {}
        made = {"operator": self.make_token(SERVER, "", (ADMIN,), None)}
        if self.config.first_tenant is not None:
            self.add_tenant(SERVER, self.config.first_tenant)
            made[f"tenant '{self.config.first_tenant}'"] = self.make_token(
                SERVER, self.config.first_tenant, SCOPES, None
            )
        return made

    def add_tenant(self, caller: Caller, tenant: str) -> bool:
        """Whether the tenant is new. Raises: KeyRefused: not a name of a tenant. Problem: its folder cannot be made."""
        check_tenant(tenant, "tenant")
        if tenant in self.state.removing:
            raise being_removed(tenant)
        _check_folder(tenant, (self.files.store, self.files.tenants))
        added = self.state.add_tenant(tenant)
        if added:
            self.state.record(caller, "add tenant", tenant)
        return added

    def make_token(self, caller: Caller, tenant: str, scopes: tuple[str, ...], lasts_s: float | None) -> NewToken:
        """A new token; only now its text is known."""
        made = new_token()
        expires_s = None if lasts_s is None else self.state.clock() + lasts_s
        self.state.add_token(made.identity, made.digest, tenant, scopes, expires_s)
        self.state.record(caller, "make token", f"{made.identity} of {tenant or 'operators'}: {' '.join(scopes)}")
        return made

    def forget_tenant(self, caller: Caller, tenant: str, *, keep_tokens: bool) -> Row:
        """Remove all data of a tenant, and name the possible content of backups.

        From its first word on, no request of the tenant is served. What cannot be removed now is tried again later.
        """
        self.state.bury(tenant, keep_tokens=keep_tokens)
        self.state.record(caller, "forget tenant", tenant)
        keys = self._end_removal(tenant)
        state = "being removed" if keys is None else "removed"
        return {"tenant": tenant, "state": state, "removed": {"keys": keys or 0}, "remains": BACKUPS}

    def _end_removal(self, tenant: str) -> int | None:
        """Remove what is left of a tenant; how many keys. `None`: something stays, and so does the removal."""
        with self._removing:
            if tenant not in self.state.removing:  # another request has done it
                return 0
            try:
                self.files.bar(tenant)
                self.jobs.forget_tenant(tenant)
                keys = self.keys.forget(tenant)
                self.files.forget(tenant)
                self.state.forget_tenant(tenant, keep_tokens=True)
            except (PenstockError, OSError) as error:
                self.log.write("removal goes on later", tenant=tenant, error=type(error).__name__)
                return None
            self.jobs.feed.forget(tenant)
            self.files.admit(tenant)
            return keys

    def _end_removals(self) -> None:
        for tenant in sorted(self.state.removing):
            self._end_removal(tenant)

    def sweep(self) -> int:
        """Remove what has expired; how many things."""
        self._end_removals()
        self._sweeps += 1
        if self._sweeps % SWEEPS_OF_FILES == 0:
            sweep_files(self.files, self.state)
        self.jobs.submit_stray()
        uploads, blobs, jobs = self.state.expired()
        return self.uploads.expire(uploads, blobs) + self.jobs.expire(jobs)

    def _sweep_often(self) -> None:
        while not self._ended.wait(SWEEP_S):
            try:
                gone = self.sweep()
            except (PenstockError, OSError) as error:
                self.log.write("sweep failed", error=type(error).__name__)
            else:
                if gone:
                    self.log.write("sweep", removed=gone)
