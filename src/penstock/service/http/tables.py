"""The tables of the service's state. Their version is `VERSION` of `penstock.service.http.state`."""

from __future__ import annotations

from typing import TypeVar

import sqlalchemy as sa

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
audit = sa.Table(
    "audit",
    metadata,
    sa.Column("entry", sa.Integer, primary_key=True, autoincrement=True),
    *_needed(sa.Float, "at_s"),
    *_needed(NAME, "tenant", "token", "action"),
    *_needed(sa.Text, "subject"),
)
