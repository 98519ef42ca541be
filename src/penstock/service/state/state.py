"""The state of the service in SQLite or PostgreSQL, behind one interface.

A method is one transaction. Rows come back as dictionaries. Every query names its tenant.

A transaction survives the end of this process, however it ends. One that is written `soon` survives a loss of power
only after `settle`, or after a later transaction that is not: SQLite's log is synced then, up to there.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from penstock.base.types import Row, Rows, RowView
from penstock.service.state import tables
from penstock.service.state.clock import ServiceClock, move_ends
from penstock.service.state.database import StateDatabase, note_word
from penstock.service.state.folder import DatabaseLock, also_if_full
from penstock.service.state.problems import Problem, being_removed, no_such, too_many
from penstock.service.state.tables import LISTED, OPEN_STATES, audit, blobs, jobs, programs, tenants, tokens, uploads
from penstock.service.state.tables import count as _count
from penstock.service.state.tables import has as _has
from penstock.service.state.tokens import Caller, is_right, parse_token

Fits = Callable[[int], None]
"""Gets the bytes that a tenant uses already, and refuses more than its quota."""


def _fits(used: int) -> None:
    """There is no quota."""


_are_open = jobs.c.state.in_(OPEN_STATES)


class ServiceState(StateDatabase):
    """The state. Thread safe.

    Args:   url: of SQLAlchemy; clock: seconds since 1970; lock: without which no connection is used.
    Raises: StateUnusable: no database, a damaged one, or one of another program or version.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.time, lock: DatabaseLock | None = None) -> None:
        super().__init__(url, lock)
        self.clock = clock
        self.give_up_room: Callable[[], bool] = lambda: False
        """Whether a full disk has more room now."""
        self._ends: dict[str, tuple[Caller, str, float]] = {}
        """Identity -> by whom, of which tenant and when a token was ended, that is not on the disk yet."""
        self._digests = {row["token"]: row["digest"] for row in self._rows(sa.select(tokens.c.token, tokens.c.digest))}
        """Identity -> digest of each token that was ever seen; of SQLite, of each token."""
        self.removing = {row["tenant"] for row in self._rows(sa.select(tables.removals))}
        """Tenants whose removal has begun, and has not ended."""
        self._burying = threading.Lock()
        self._recorded: Counter[str] = Counter()
        """Tenant -> entries of the audit trail since this server began."""
        self.eras: dict[str, int] = {}
        """Tenant -> its removals since this server began: a request from before one is not served after it."""
        self._full: set[str] = set()
        """Tenants whose quota refused the last thing that they added."""

    @contextmanager
    def _writing_of(self, tenant: str, *, soon: bool = False, adds: bool = True) -> Iterator[sa.Connection]:
        """As `_writing`; transactions of one tenant come one after another, so that each sees what the others took."""
        with self._writing(soon=soon) as connection:
            tables.hold(connection, tenant, adds=adds)
            yield connection

    def last_time(self) -> float:
        """A time that has been, from the audit trail; 0: nothing was."""
        found = self._rows(sa.select(audit.c.at_s).order_by(audit.c.entry.desc()).limit(1))
        return float(found[0]["at_s"]) if found else 0.0

    @also_if_full
    def continued(self, clock: ServiceClock) -> None:
        """Go on by a clock that knows the last server's: what was there then does not expire by a jump."""
        with self._writing() as connection:
            move_ends(connection, clock)
            note_word(connection, "clock", clock.word())
        self.clock = clock

    # Tenants and tokens

    def add_tenant(self, tenant: str) -> bool:
        """Whether it is new."""
        try:
            with self._writing() as connection:
                connection.execute(sa.insert(tenants).values(tenant=tenant, created_s=self.clock()))
        except IntegrityError:
            return False
        return True

    def tenants(self) -> Rows:
        return self._rows(sa.select(tenants).order_by(tenants.c.tenant))

    def add_token(
        self, identity: str, digest: str, tenant: str, scopes: Sequence[str], expires_s: float | None
    ) -> None:
        """Keep a token of a tenant, or of operators (an empty tenant). Raises: Problem: there is no such tenant."""
        with self._writing() as connection:
            tables.hold(connection, tenant)
            if tenant and not _count(connection, tenants, tenants.c.tenant == tenant):
                raise Problem(404, f"there is no tenant '{tenant}'", remedy="add it first", kind="no-tenant")
            row = {"token": identity, "tenant": tenant, "digest": digest, "scopes": " ".join(sorted(scopes))}
            connection.execute(sa.insert(tokens).values(**row, created_s=self.clock(), expires_s=expires_s))
        self._digests[identity] = digest

    def tokens(self, tenant: str) -> Rows:
        """Without digests."""
        columns = (tokens.c.token, tokens.c.tenant, tokens.c.scopes, tokens.c.created_s, tokens.c.expires_s)
        return self._rows(sa.select(*columns).where(tokens.c.tenant == tenant).order_by(tokens.c.created_s))

    def end_token_at_once(self, caller: Caller, tenant: str, identity: str, at_s: float) -> bool:
        """As `end_token`, also where nothing can be written: then in this process only; whether it is on the disk."""
        self._ends[identity] = (caller, tenant, at_s)
        return self.write_ends()

    def write_ends(self) -> bool:
        """Write the ends of tokens that are not on the disk yet; whether all are."""
        for identity, (caller, tenant, at_s) in list(self._ends.items()):
            try:
                self.end_token(tenant, identity, at_s)
                self.record(caller, "end token", f"{identity} of {tenant}")
            except Problem:
                return False
            self._ends.pop(identity, None)
        return True

    @also_if_full
    def end_token(self, tenant: str, identity: str, at_s: float) -> bool:
        """Let a token end at a time, or earlier where it does already; whether there is one."""
        mine = _has(tokens, {"tenant": tenant, "token": identity})
        with self._changing() as connection:
            row = connection.execute(sa.select(tokens.c.expires_s).where(mine)).first()
            if row is None:
                return False
            ends = at_s if row[0] is None else min(at_s, row[0])
            connection.execute(sa.update(tokens).where(mine).values(expires_s=ends))
        return True

    def is_known(self, text: str) -> bool | None:
        """Whether this is or was a token, from memory alone; `None`: only the database tells."""
        identity, secret = parse_token(text) or ("", "")
        digest = self._digests.get(identity)
        if digest is None:
            return None if identity and not self._is_sqlite else False
        return is_right(secret, digest)

    def is_kept(self, text: str) -> bool:
        """Whether `caller` answers from memory, without waiting."""
        parsed = parse_token(text)
        return parsed is not None and (parsed[0],) in self._kept

    def caller(self, text: str) -> Caller | None:
        """The owner of this token; `None`: nobody, or it ended. Raises: Problem: its tenant is being removed."""
        parsed = parse_token(text)
        if parsed is None:
            return None
        row = self._kept_row(tokens, token=parsed[0])
        if row is None or not is_right(parsed[1], row["digest"]):
            return None
        self._digests[parsed[0]] = row["digest"]
        ends = [at_s for at_s in (row["expires_s"], self._ends.get(parsed[0], (None, "", None))[2]) if at_s is not None]
        if ends and min(ends) <= self.clock():
            return None
        tenant = row["tenant"]
        era = self.eras.get(tenant, 0)
        if tenant in self.removing:
            raise being_removed(tenant)
        return Caller(tenant=tenant, token=parsed[0], scopes=frozenset(row["scopes"].split()), era=era)

    @also_if_full
    def record(self, caller: Caller, action: str, subject: str = "", *, soon: bool = False) -> None:
        """Add an entry to the audit trail. The oldest ones of its tenant leave where it has very many."""
        entry = {"tenant": caller.tenant, "token": caller.token, "action": action, "subject": subject[:500]}
        with self._writing(soon=soon) as connection:
            connection.execute(sa.insert(audit).values(at_s=self.clock(), **entry))
            if self._recorded[caller.tenant] % tables.TRIMMED == 0:
                tables.trim_trail(connection, caller.tenant)
            self._recorded[caller.tenant] += 1

    def trail(self, after: int = 0, most: int = 1000) -> Rows:
        """Entries of the audit trail, the oldest first."""
        return self._rows(sa.select(audit).where(audit.c.entry > after).order_by(audit.c.entry).limit(most))

    @also_if_full
    def forget_tenant(self, tenant: str, *, keep_tokens: bool) -> None:
        """Remove every row of a tenant's data; with `keep_tokens` the tenant stays. A removal that began has ended."""
        with self._burying:
            with self._changing() as connection:
                tables.forget(connection, tenant, keep_tokens=keep_tokens)
            self.removing.discard(tenant)

    @also_if_full
    def bury(self, tenant: str, *, keep_tokens: bool) -> None:
        """Begin a removal, which `forget_tenant` ends: nobody is the tenant's caller, and nothing is added to it."""
        with self._burying:
            with self._changing() as connection:
                tables.bury(connection, tenant, self.clock(), keep_tokens=keep_tokens)
            self.removing.add(tenant)
            self.eras[tenant] = self.eras.get(tenant, 0) + 1

    # Uploads and blobs

    def used_bytes(self, tenant: str) -> int:
        """Blobs, results or what open jobs may make of them, and uploads at their announced size."""
        with self._reading() as connection:
            return tables.used_bytes(connection, tenant)

    def check_fit(self, tenant: str, fits: Fits) -> None:
        """Raises: as `fits`."""
        fits(self.used_bytes(tenant))

    def _check_full(self, tenant: str, fits: Fits) -> None:
        """Of a tenant that did not fit lately: the next refusals keep no writer waiting. Raises: as `fits`."""
        if tenant in self._full:
            self.check_fit(tenant, fits)

    def _fit(self, connection: sa.Connection, tenant: str, fits: Fits) -> None:
        self._full.add(tenant)
        fits(tables.used_bytes(connection, tenant))
        self._full.discard(tenant)

    def add_upload(self, row: RowView, *, most: int, most_blobs: int | None = None, fits: Fits = _fits) -> bool:
        """Whether the tenant has fewer than `most` unfinished uploads, and has this one now.

        Raises: Problem: as `fits`; the tenant has or will have `most_blobs` contents.
        """
        self._check_full(row["tenant"], fits)
        with self._writing_of(row["tenant"]) as connection:
            mine = uploads.c.tenant == row["tenant"]
            if _count(connection, uploads, mine) >= most:
                return False
            self._fit(connection, row["tenant"], fits)
            if most_blobs is not None and row["kind"] != "key":
                there = _count(connection, blobs, blobs.c.tenant == row["tenant"])
                if there + _count(connection, uploads, mine & (uploads.c.kind != "key")) >= most_blobs:
                    raise too_many(
                        "packages, inputs and ciphertexts", most_blobs, "remove programs, or wait until inputs expire"
                    )
            connection.execute(sa.insert(uploads).values(**row))
        return True

    def upload(self, tenant: str, upload: str) -> Row | None:
        return self._row(uploads, tenant=tenant, upload=upload)

    def uploads(self, tenant: str) -> Rows:
        return self._rows(sa.select(uploads).where(uploads.c.tenant == tenant).order_by(uploads.c.upload))

    def touch_upload(self, tenant: str, upload: str, expires_s: float) -> None:
        self._update(uploads, {"tenant": tenant, "upload": upload}, soon=True, expires_s=expires_s)

    @also_if_full
    def end_upload(self, tenant: str, upload: str, blob: RowView | None = None, *, soon: bool = False) -> bool:
        """Remove an upload, and in the same transaction add the blob that it became, or one more use of it."""
        with self._writing_of(tenant, soon=soon, adds=blob is not None) as connection:
            mine = _has(uploads, {"tenant": tenant, "upload": upload})
            gone = connection.execute(sa.delete(uploads).where(mine)).rowcount
            if blob is not None and not tables.add_use(connection, blob):
                connection.execute(sa.insert(blobs).values(**blob))
        return bool(gone)

    def blob(self, tenant: str, sha256: str) -> Row | None:
        return self._row(blobs, tenant=tenant, sha256=sha256)

    def lacking(self, tenant: str, inputs: Collection[str]) -> set[str]:
        """Contents that a tenant's jobs may not name as inputs."""
        with self._reading() as connection:
            return tables.lacking(connection, tenant, inputs)

    def blobs(self, tenant: str, kind: str | None = None) -> Rows:
        query = sa.select(blobs).where(blobs.c.tenant == tenant).order_by(blobs.c.sha256)
        return self._rows(query if kind is None else query.where(blobs.c.kind.contains(kind)))

    def add_use(self, tenant: str, sha256: str, kind: str, expires_s: float | None) -> bool:
        """Let a blob stay as one of this kind would, too; whether it is there."""
        with self._writing_of(tenant) as connection:
            blob = {"tenant": tenant, "sha256": sha256, "kind": kind, "expires_s": expires_s}
            return tables.add_use(connection, blob)

    @also_if_full
    def end_use(self, tenant: str, sha256: str, kind: str) -> bool:
        """Let a blob's use end, where neither a program nor an open job needs it; whether the blob is removed."""
        with self._writing_of(tenant, adds=False) as connection:
            return tables.end_use(connection, tenant, sha256, kind, self.clock())

    def expired(self) -> tuple[Rows, Rows, Rows]:
        """Uploads, blobs and ended jobs whose time is over."""
        now = self.clock()
        ended = [self._rows(sa.select(table).where(table.c.expires_s <= now)) for table in (uploads, blobs)]
        return ended[0], ended[1], self._rows(sa.select(*LISTED).where(jobs.c.expires_s <= now))

    # Programs

    def put_program(
        self, tenant: str, program: str, package: str, description: RowView, *, most: int | None = None
    ) -> None:
        """Add a program, or replace it. Raises: Problem: the tenant has `most` others."""
        with self._changing() as connection:
            tables.hold(connection, tenant)
            same = {"tenant": tenant, "program": program}
            connection.execute(sa.delete(programs).where(_has(programs, same)))
            if most is not None and _count(connection, programs, programs.c.tenant == tenant) >= most:
                raise too_many("programs", most, "remove one (DELETE /v1/programs/NAME)")
            row = {**same, "package": package, "description": json.dumps(description), "created_s": self.clock()}
            connection.execute(sa.insert(programs).values(**row))

    def programs(self, tenant: str) -> Rows:
        return self._rows(sa.select(programs).where(programs.c.tenant == tenant))

    def program(self, tenant: str, program: str) -> Row | None:
        """It may be kept for the next call: it is not to be changed."""
        return self._kept_row(programs, tenant=tenant, program=program)

    @also_if_full
    def remove_program(self, tenant: str, program: str) -> bool:
        """Whether there was one. Raises: Problem: open jobs are of it."""
        with self._changing() as connection:
            mine = _has(programs, {"tenant": tenant, "program": program})
            if _count(connection, jobs, _has(jobs, {"tenant": tenant, "program": program}) & _are_open):
                raise Problem(409, "jobs of this program wait or run", remedy="cancel them first", kind="program-busy")
            return bool(connection.execute(sa.delete(programs).where(mine)).rowcount)

    # Jobs

    def add_job(
        self,
        row: RowView,
        *,
        most: int,
        most_kept: int | None = None,
        fits: Fits = _fits,
        inputs: Collection[str] | None = None,
    ) -> bool:
        """Whether the tenant has fewer than `most` jobs that did not end, and has this one now: `soon`.

        Raises: IntegrityError: the tenant has a job of this name. Problem: as `fits`; it has `most_kept` jobs, of which
                none can be forgotten; its program or an input, where they are given, was removed a moment ago.
        """
        tenant = row["tenant"]
        self._check_full(tenant, fits)
        with self._writing_of(tenant, soon=True) as connection:
            if _count(connection, jobs, (jobs.c.tenant == tenant) & _are_open) >= most:
                return False
            if inputs is not None and not tables.are_there(connection, tenant, row["package"], row["program"], inputs):
                raise Problem(
                    409, "the program or an input was removed while the job was submitted", kind="inputs",
                    remedy="send what is lacking, and then the job again",
                )  # fmt: skip
            self._fit(connection, tenant, fits)
            if most_kept is not None and not tables.make_room_for_job(connection, tenant, most_kept):
                raise too_many("jobs with results", most_kept, "remove results that were fetched (DELETE /v1/jobs/JOB)")
            connection.execute(sa.insert(jobs).values(**tables.written(row)))
        return True

    def job_of(self, tenant: str, client_job: str) -> Row | None:
        """Without its request."""
        rows = self._rows(sa.select(*LISTED).where(jobs.c.tenant == tenant, jobs.c.client_job == client_job))
        return rows[0] if rows else None

    def known_job(self, tenant: str, client_job: str) -> Row:
        """Raises: Problem: there is none."""
        row = self.job_of(tenant, client_job)
        if row is None:
            raise no_such("job", client_job, "GET /v1/jobs lists them; jobs are forgotten after a while")
        return row

    def job(self, job: str) -> Row | None:
        return self._row(jobs, job=job)

    def jobs(self, tenant: str, most: int = 1000) -> Rows:
        """The latest jobs of a tenant, the newest first: without requests, figures and outputs in JSON."""
        query = sa.select(*LISTED).where(jobs.c.tenant == tenant).order_by(jobs.c.submitted_s.desc()).limit(most)
        with self._reading() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def open_jobs(self, tenant: str | None = None) -> Rows:
        """Of all tenants, in the order of submission; of one, without requests."""
        query = sa.select(jobs) if tenant is None else sa.select(*LISTED).where(jobs.c.tenant == tenant)
        return self._rows(query.where(_are_open).order_by(jobs.c.submitted_s))

    def has_open_jobs(self, tenant: str) -> bool:
        with self._reading() as connection:
            return _count(connection, jobs, (jobs.c.tenant == tenant) & _are_open) > 0

    def open_names(self) -> list[str]:
        """As `open_jobs`, without their rows."""
        with self._reading() as connection:
            return list(
                connection.execute(sa.select(jobs.c.job).where(_are_open).order_by(jobs.c.submitted_s)).scalars()
            )

    @also_if_full
    def queue_again(self) -> list[str]:
        """Let all open jobs wait; their names, in the order of submission."""
        with self._writing() as connection:
            connection.execute(sa.update(jobs).where(_are_open).values(state="queued", started_s=None))
        return self.open_names()

    def state_of(self, job: str) -> str | None:
        """`None`: there is no such job."""
        with self._reading() as connection:
            return connection.execute(sa.select(jobs.c.state).where(jobs.c.job == job)).scalar()

    def done_since(self, at_s: float) -> Rows:
        """Jobs of all tenants that were done at or after a time."""
        query = sa.select(*LISTED).where(jobs.c.state == "done", jobs.c.ended_s >= at_s).order_by(jobs.c.ended_s)
        return self._rows(query)

    @also_if_full
    def move_job(self, job: str, state: str, /, *, only: Sequence[str] = OPEN_STATES, **values: object) -> bool:
        """Give a job another state, where it has one of `only` now; whether it had: `soon`."""
        with self._writing(soon=True) as connection:
            mine = (jobs.c.job == job) & jobs.c.state.in_(only)
            return bool(
                connection.execute(sa.update(jobs).where(mine).values(state=state, **tables.written(values))).rowcount
            )

    @also_if_full
    def remove_job(self, job: str) -> None:
        self._delete(jobs, job=job)

    def job_counts(self) -> dict[str, int]:
        """State -> jobs."""
        with self._reading() as connection:
            query = sa.select(jobs.c.state, sa.func.count()).group_by(jobs.c.state)
            return {str(state): int(count) for state, count in connection.execute(query)}
