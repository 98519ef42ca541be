"""The tables of the service's state. Their version is `VERSION` of `penstock.service.state.state`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from typing import TypeVar

import sqlalchemy as sa

from penstock.base.types import Row, RowView
from penstock.service.state.problems import being_removed

OPEN_STATES = ("queued", "running")
metadata = sa.MetaData()
NAME = sa.String(200)
Kept = TypeVar("Kept")


def _needed(kind: type[sa.types.TypeEngine[Kept]] | sa.types.TypeEngine[Kept], *names: str) -> list[sa.Column[Kept]]:
    return [sa.Column(name, kind, nullable=False) for name in names]


about = sa.Table("about", metadata, sa.Column("name", NAME, primary_key=True), *_needed(sa.Text, "value"))
tenants = sa.Table("tenants", metadata, sa.Column("tenant", NAME, primary_key=True), *_needed(sa.Float, "created_s"))
tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("token", NAME, primary_key=True),
    sa.Column("tenant", NAME, nullable=False, index=True),
    *_needed(NAME, "digest", "scopes"),
    *_needed(sa.Float, "created_s"),
    sa.Column("expires_s", sa.Float),
)
# A tenant has a row here from the moment of its removal until nothing of it is left.
removals = sa.Table(
    "removals",
    metadata,
    sa.Column("tenant", NAME, primary_key=True),
    *_needed(sa.Integer, "keep_tokens"),
    *_needed(sa.Float, "begun_s"),
)
uploads = sa.Table(
    "uploads",
    metadata,
    sa.Column("upload", NAME, primary_key=True),
    sa.Column("tenant", NAME, nullable=False, index=True),
    *_needed(NAME, "kind"),
    *_needed(sa.BigInteger, "bytes"),
    *_needed(NAME, "sha256"),
    *(sa.Column(name, NAME) for name in ("name", "params")),
    *_needed(sa.Float, "expires_s"),
)
# `kind`: the uses of a content, in words. `expires_s`: when its use as an input ends.
blobs = sa.Table(
    "blobs",
    metadata,
    *(sa.Column(name, NAME, primary_key=True) for name in ("tenant", "sha256")),
    *_needed(NAME, "kind"),
    *_needed(sa.BigInteger, "bytes"),
    sa.Column("expires_s", sa.Float),
)
programs = sa.Table(
    "programs",
    metadata,
    *(sa.Column(name, NAME, primary_key=True) for name in ("tenant", "program")),
    *_needed(NAME, "package"),
    *_needed(sa.Text, "description"),
    *_needed(sa.Float, "created_s"),
)
jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("job", NAME, primary_key=True),
    *_needed(NAME, "tenant", "client_job", "digest"),
    *_needed(sa.Text, "request"),
    *_needed(NAME, "program", "package", "state"),
    *_needed(sa.Integer, "attempts"),
    *_needed(sa.Float, "submitted_s"),
    *(sa.Column(name, sa.Float) for name in ("started_s", "ended_s")),
    *(sa.Column(name, sa.Text) for name in ("figures", "outputs")),
    *_needed(sa.BigInteger, "output_bytes"),
    sa.Column("reason", sa.Text),
    sa.Column("expires_s", sa.Float),
    sa.Index("jobs_of_tenant", "tenant", "client_job", unique=True),
    sa.Index("jobs_by_state", "state"),
)
sa.Index("jobs_of_state", jobs.c.tenant, jobs.c.state)
sa.Index("jobs_by_time", jobs.c.tenant, jobs.c.submitted_s)
LISTED = tuple(column for column in jobs.c if column.name != "request")
"""Of jobs: all but the inputs, which may be thousands."""
sa.Index("jobs_bytes", jobs.c.tenant, jobs.c.output_bytes)
sa.Index("blobs_bytes", blobs.c.tenant, blobs.c.bytes)
audit = sa.Table(
    "audit",
    metadata,
    sa.Column("entry", sa.Integer, primary_key=True, autoincrement=True),
    *_needed(sa.Float, "at_s"),
    *_needed(NAME, "tenant", "token", "action"),
    *_needed(sa.Text, "subject"),
    sa.Index("audit_of_tenant", "tenant", "entry"),
)
MOST_ENTRIES, TRIMMED = 100_000, 1000
"""Of one tenant in the audit trail, and those beyond that leave together."""


def has(table: sa.Table, same: RowView) -> sa.ColumnElement[bool]:
    """Whether a row has these values."""
    return sa.and_(*(table.c[name] == value for name, value in same.items()))


def count(connection: sa.Connection, table: sa.Table, which: sa.ColumnElement[bool]) -> int:
    """How many rows."""
    return int(connection.execute(sa.select(sa.func.count()).select_from(table).where(which)).scalar() or 0)


def make_tables(engine: sa.Engine) -> None:
    """Make what is missing: an earlier release had fewer indexes and tables."""
    metadata.create_all(engine)
    for table in metadata.sorted_tables:
        for index in table.indexes:
            index.create(engine, checkfirst=True)


def used_bytes(connection: sa.Connection, tenant: str) -> int:
    """Blobs, results or what open jobs may make of them, and uploads at their announced size."""
    parts = ((uploads, uploads.c.bytes), (blobs, blobs.c.bytes), (jobs, jobs.c.output_bytes))
    sums = (sa.select(sa.func.sum(column)).where(table.c.tenant == tenant, column > 0) for table, column in parts)
    found = connection.execute(sa.select(*(query.scalar_subquery() for query in sums))).one()
    return sum(int(part or 0) for part in found)


def make_room_for_job(connection: sa.Connection, tenant: str, most: int) -> bool:
    """Forget the tenant's oldest ended jobs without results, until it has fewer than `most` rows; whether it has."""
    over = count(connection, jobs, jobs.c.tenant == tenant) - most + 1
    if over <= 0:
        return True
    ended = (jobs.c.tenant == tenant) & jobs.c.state.in_(("failed", "cancelled", "expired"))
    oldest = sa.select(jobs.c.job).where(ended).order_by(jobs.c.ended_s).limit(over)
    return connection.execute(sa.delete(jobs).where(jobs.c.job.in_(oldest))).rowcount >= over


def trim_trail(connection: sa.Connection, tenant: str) -> None:
    """Let the oldest entries of a tenant leave, so that `MOST_ENTRIES` stay."""
    mine = audit.c.tenant == tenant
    newest = sa.select(audit.c.entry).where(mine).order_by(audit.c.entry.desc())
    last = connection.execute(newest.offset(MOST_ENTRIES).limit(1)).scalar()
    if last is not None:
        connection.execute(sa.delete(audit).where(mine, audit.c.entry <= last))


def add_use(connection: sa.Connection, blob: RowView) -> bool:
    """Let a content have one more use, or the same for longer; whether it was there. Other uses stay."""
    mine = has(blobs, {name: blob[name] for name in ("tenant", "sha256")})
    row = connection.execute(sa.select(blobs.c.kind, blobs.c.expires_s).where(mine)).first()
    if row is None:
        return False
    uses = " ".join(sorted({*row[0].split(), blob["kind"]}))
    ends = blob.get("expires_s") if blob["kind"] == "input" else row[1]
    connection.execute(sa.update(blobs).where(mine).values(kind=uses, expires_s=ends))
    return True


def end_use(connection: sa.Connection, tenant: str, sha256: str, use: str, now: float) -> bool:
    """Let a use of a content end, unless something needs it; whether the content has none any more, and is removed."""
    mine = has(blobs, {"tenant": tenant, "sha256": sha256})
    row = connection.execute(sa.select(blobs.c.kind, blobs.c.expires_s).where(mine)).first()
    if row is None or use not in row[0].split():
        return False
    is_package = count(connection, programs, has(programs, {"tenant": tenant, "package": sha256})) > 0
    if use == "input":
        names_it = (jobs.c.tenant == tenant) & jobs.c.state.in_(OPEN_STATES) & jobs.c.request.contains(sha256)
        is_needed = (row[1] is not None and row[1] > now) or count(connection, jobs, names_it) > 0
    else:
        is_needed = is_package
    if is_needed:
        return False
    left = sorted({*row[0].split()} - {use} | ({"package"} if is_package else set()))
    if left:
        ends = None if use == "input" else row[1]
        connection.execute(sa.update(blobs).where(mine).values(kind=" ".join(left), expires_s=ends))
    else:
        connection.execute(sa.delete(blobs).where(mine))
    return not left


def are_there(connection: sa.Connection, tenant: str, package: str, program: str, inputs: Collection[str]) -> bool:
    """Whether a tenant has a program, and contents that jobs may name as inputs."""
    mine = has(programs, {"tenant": tenant, "program": program, "package": package})
    return count(connection, programs, mine) == 1 and not lacking(connection, tenant, inputs)


def lacking(connection: sa.Connection, tenant: str, inputs: Collection[str]) -> set[str]:
    """Contents that a tenant's jobs may not name as inputs."""
    may = (blobs.c.tenant == tenant) & (blobs.c.kind.contains("input") | blobs.c.kind.contains("ciphertext"))
    wanted = set(inputs)
    return wanted - set(connection.execute(sa.select(blobs.c.sha256).where(may, blobs.c.sha256.in_(wanted))).scalars())


def hold(connection: sa.Connection, tenant: str, *, adds: bool = True) -> None:
    """Let other transactions of a tenant wait for this one. Raises: Problem: it `adds`, and the tenant is removed."""
    connection.execute(sa.select(tenants.c.tenant).where(tenants.c.tenant == tenant).with_for_update())
    if adds and count(connection, removals, removals.c.tenant == tenant):
        raise being_removed(tenant)


def bury(connection: sa.Connection, tenant: str, at_s: float, *, keep_tokens: bool) -> None:
    """Begin the removal of a tenant: nothing is added to it from now on, and its tokens are gone unless it keeps them.

    One that keeps them becomes one that does not, where that is asked meanwhile.
    """
    hold(connection, tenant, adds=False)
    mine = removals.c.tenant == tenant
    if not count(connection, removals, mine):
        row = {"tenant": tenant, "keep_tokens": int(keep_tokens), "begun_s": at_s}
        connection.execute(sa.insert(removals).values(**row))
    if not keep_tokens:
        connection.execute(sa.update(removals).where(mine).values(keep_tokens=0))
        connection.execute(sa.delete(tokens).where(tokens.c.tenant == tenant))


def forget(connection: sa.Connection, tenant: str, *, keep_tokens: bool) -> None:
    """Remove every row of a tenant's data, and with `keep_tokens` not itself; its removal ends."""
    mine = removals.c.tenant == tenant
    gone = count(connection, removals, mine & (removals.c.keep_tokens == 0))
    for table in (uploads, blobs, programs, jobs, *((tokens, tenants) if gone or not keep_tokens else ()), removals):
        connection.execute(sa.delete(table).where(table.c.tenant == tenant))


def as_we_use_sqlite(connection: sqlite3.Connection, _: object) -> None:
    """What each connection is told first."""
    connection.isolation_level = None  # transactions begin where `begin_sqlite` says
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "secure_delete=ON"):
        connection.execute(f"PRAGMA {pragma}")


def begin_sqlite(connection: sa.Connection) -> None:
    """Begin a transaction, which may write or not."""
    # A writer takes its lock at once: a transaction that reads first could not wait for it later.
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def written(values: RowView) -> Row:
    """Values with the tables among them as JSON."""
    return {name: json.dumps(value) if isinstance(value, dict) else value for name, value in values.items()}


def read(row: Row) -> Row:
    """A row with its JSON read."""
    names = ("description", "request", "figures", "outputs")
    return {name: json.loads(v) if name in names and v is not None else v for name, v in row.items()}
