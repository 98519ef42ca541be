"""The parts of a server put together, and what happens at its start, its end, and from time to time."""

from __future__ import annotations

import math
import shutil
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from penstock.base.system.host import available_cores
from penstock.base.types import Row
from penstock.errors import PenstockError
from penstock.runtime.keystore import KeyStore, check_tenant
from penstock.service.http.config import Config
from penstock.service.http.jobs import Jobs
from penstock.service.http.keys import Keys
from penstock.service.http.logs import Log
from penstock.service.http.metrics import Metrics
from penstock.service.http.programs import Programs
from penstock.service.http.results import sweep_files
from penstock.service.http.uploads import Files, UnfinishedUploads
from penstock.service.state.clock import ServiceClock
from penstock.service.state.folder import (
    DatabaseLock,
    FileLock,
    FolderRefused,
    Reserve,
    StateUnusable,
    addresses,
    database_file,
    hold_database,
    is_full,
    owner_only,
    who,
)
from penstock.service.state.problems import Problem, being_removed, hide
from penstock.service.state.state import ServiceState
from penstock.service.state.tokens import ADMIN, SCOPES, Caller, NewToken, new_token
from penstock.service.work.admission import Limits
from penstock.service.work.bounds import JobBounds, places_of_one
from penstock.service.work.messages import WorkerSettings
from penstock.service.work.order import Order
from penstock.service.work.pool import Isolation, WorkerPool

SWEEP_S, TICK_S, PROBE_S = 30.0, 1.0, 1.0
SWEEPS_OF_FILES = 20
"""Of so many sweeps one looks for files without a row."""
SERVER = Caller(tenant="", token="server", scopes=frozenset())
BACKUPS = (
    "Backups of the server's folder and database that were made earlier still hold these data, encrypted under the "
    "tenant's key; the audit trail keeps the tenant's name and the identities of its tokens."
)


def pool_of(config: Config, jobs: Jobs) -> WorkerPool:
    """The workers of a configuration, which tell `jobs` what becomes of them."""
    work = config.work
    return WorkerPool(
        WorkerSettings(
            store=config.folder / "keys",
            budget_bytes=work.key_bytes,
            floor_bytes=work.key_floor_bytes,
            abreast=work.abreast,
            threads=work.threads or max(1, available_cores() // places_of_one(work.abreast)),
            policy="lru" if work.eviction == "lru" else "future",
            tenants=config.folder / "tenants",
            writable=(config.folder / "workers",),
            user=work.user,
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
        self.files, self.notes = Files(config.folder), list[str]()
        """What an operator should hear at the start."""
        self._held = ExitStack()
        with ExitStack() as stack:
            self._hold(stack)
            self._held = stack.pop_all()
        self.files.eras = self.state.eras
        self._probing, self._probed_s, self.trouble = threading.Lock(), 0.0, ""
        """Why nothing can be written to the database; empty: it can."""
        shutil.rmtree(config.folder / "workers", ignore_errors=True)  # what workers of a killed server left
        (config.folder / "workers").mkdir(mode=0o700)
        self.keys = Keys(KeyStore(self.files.store), self.state)
        self.uploads = UnfinishedUploads(config, self.state, self.files, self.keys, self.metrics)
        self.programs = Programs(config, self.state, self.files)
        self.jobs = Jobs(config, self.state, self.files, self.keys, self.programs, self.metrics, make_pool)
        self.jobs.on_reason = partial(log.write, "job failed")
        self.jobs.pool.on_trouble = partial(log.sampled, "pool", "pool trouble")
        self._ended, self._removing = threading.Event(), threading.Lock()
        self._sweeper = threading.Thread(target=self._sweep_often, name="sweeper", daemon=True)
        self.drain_asked: Callable[[], object] = lambda: None
        """What an operator's request to drain calls."""

    def _hold(self, stack: ExitStack) -> None:
        """Lock the folder and the database, let nobody else read them, and open the state, until the stack ends."""
        config, say = self.config, self.notes.append
        real = owner_only(config.folder, say, make=True)
        stack.callback(FileLock(real / "server.lock", f"the folder {config.folder}", real).release)
        self.reserve = Reserve(real / "reserve")
        self.reserve.give_up()  # where the disk is full, SQLite could not even open its files
        # Workers confine themselves to it when they start.
        for folder in (self.files.tenants, self.files.store):
            owner_only(folder, say, make=True)
        hide(str(config.folder), str(real), socket.gethostname(), *addresses(config.database))
        file = database_file(config.database)
        if file is not None and any(self.files.tenants.iterdir()) and not (file.exists() and file.stat().st_size):
            raise FolderRefused(
                f"the folder {config.folder} holds tenants' content, and its database {file} is empty or gone: restore "
                "it from a backup, or name another folder"
            )
        try:
            lock = hold_database(config.database, say)
        except SQLAlchemyError as error:
            raise StateUnusable(
                f"the state's database does not answer ({getattr(error, 'orig', error)}); check its address"
            ) from error
        if lock is not None:
            stack.callback(lock.release)
        self._lock = lock if isinstance(lock, DatabaseLock) else None
        self.state = ServiceState(config.database, lock=self._lock)
        stack.callback(self.state.close)
        self.state.give_up_room = self.reserve.give_up
        clock = ServiceClock(self.state.noted("clock"), self.state.last_time())
        self.state.continued(clock)
        self.clock = clock
        self.notes += clock.notes()
        place, before = f"{real} {real.stat().st_ino}", self.state.noted("folder")
        if before and not {*before.rsplit(" ", 1)} & {*place.rsplit(" ", 1)}:
            say(
                f"the state was in {before.rsplit(' ', 1)[0]} before: if that is served as well, jobs run twice, "
                "and ended tokens work there"
            )
        with suppress(Problem):  # the disk is full
            self.state.note("folder", place)
            self.state.note("server", who())
        self.reserve.keep()

    @property
    def lost(self) -> str:
        """Who has taken the database over; empty: nobody."""
        return "" if self._lock is None else self._lock.lost

    def check_ready(self) -> None:
        """Raises: Problem: jobs cannot be taken now, and why."""
        if self.jobs.draining:
            raise Problem(503, "the server is draining", remedy="use another server", kind="draining", retry_after_s=10)
        if not self.jobs.pool.is_alive:
            raise Problem(
                503, "the server computes nothing any more", remedy="come again when the operator started it again",
                kind="pool", retry_after_s=30,
            )  # fmt: skip
        file = database_file(self.config.database)
        for folder in (self.config.folder, *([] if file is None else [file.parent])):
            if is_full(folder):
                raise Problem(
                    503, "the server's disk has no room", remedy="come again when the operator freed some",
                    kind="disk-full", retry_after_s=30,
                )  # fmt: skip
        self.state.check()
        self._probe()
        if self.trouble:
            raise Problem(
                503, f"the server's database takes nothing: {self.trouble}", remedy="come again later", kind="database",
                retry_after_s=5,
            )  # fmt: skip

    def _probe(self) -> None:
        """Write to the database, at most once a second and one at a time."""
        if time.monotonic() - self._probed_s >= PROBE_S and self._probing.acquire(blocking=False):
            try:
                self.state.note("clock", self.clock.word(), soon=True)
                self.trouble = ""
            except (Problem, SQLAlchemyError) as error:
                self.trouble = error.detail if isinstance(error, Problem) else "a write is refused"
            finally:
                self._probed_s = time.monotonic()
                self._probing.release()

    def start(self) -> int:
        """End removals, start the workers and submit the accepted jobs again; how many."""
        self._end_removals()
        self.programs.examiner.start()
        resumed = self.jobs.start()
        self._sweeper.start()
        return resumed

    def drain(self, timeout_s: float) -> None:
        """Take no more jobs, and wait for the running ones."""
        self.jobs.draining = True
        self.programs.examiner.close()
        self.jobs.pool.drain(0.0 if self.lost else timeout_s)

    def close(self) -> None:
        """Stop. Jobs that did not end are submitted again at the next start."""
        self._ended.set()
        self.programs.examiner.close()
        self.jobs.close()
        with suppress(Problem):
            self.state.note("clock", self.clock.word())
        self._held.close()

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
        self.reserve.give_up()
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
        if jump_s := self.clock.jumped():
            self.log.write("the machine's clock jumped, and the service's goes on", seconds=round(jump_s, 3))
        with suppress(Problem):
            self.state.note("clock", self.clock.word(), soon=True)
        self.jobs.submit_stray()
        uploads, blobs, jobs = self.state.expired()
        return self.uploads.expire(uploads, blobs) + self.jobs.expire(jobs)

    def _sweep_often(self) -> None:
        """Once at the start, files without a row; then what has expired, and now and then such files again."""
        sweeps, swept_s = 0, -math.inf
        while True:
            try:
                self._tick()
                if time.monotonic() - swept_s >= SWEEP_S:
                    swept_s, sweeps = time.monotonic(), sweeps + 1
                    gone = sweep_files(self.files, self.state) if sweeps % SWEEPS_OF_FILES == 1 else 0
                    gone += self.sweep() if sweeps > 1 else 0
                    if gone:
                        self.log.write("sweep", removed=gone)
            except (PenstockError, OSError, SQLAlchemyError) as error:
                self.log.write("sweep failed", error=type(error).__name__, detail=str(error)[:300])
            if self._ended.wait(TICK_S):
                return

    def _tick(self) -> None:
        """Keep the lock and the room, and write what could not be written."""
        self.reserve.keep()
        self.state.write_ends()
        if self._lock is not None and not self.jobs.draining:
            with suppress(Problem, SQLAlchemyError):
                self._lock.ensure()
            if self.lost:
                self.log.write("another server uses the database now, and this one stops", holder=self.lost)
                self.jobs.draining = True
                self.drain_asked()
