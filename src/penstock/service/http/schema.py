"""The tables of the service's state."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Float, Index, Integer, MetaData, String, Table, Text
from sqlalchemy.types import TypeEngine

VERSION = 1
"""Of the tables. A state of another version is refused."""

metadata = MetaData()
NAME = String(200)


def _needed(kind: type[TypeEngine[Any]] | TypeEngine[Any], *names: str) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name in names]


about = Table("about", metadata, Column("name", NAME, primary_key=True), *_needed(Text, "value"))
tenants = Table("tenants", metadata, Column("tenant", NAME, primary_key=True), *_needed(Float, "created_s"))
tokens = Table(
    "tokens",
    metadata,
    Column("token", NAME, primary_key=True),
    Column("tenant", NAME, nullable=False, index=True),
    *_needed(NAME, "digest", "scopes"),
    *_needed(Float, "created_s"),
    Column("expires_s", Float),
)
uploads = Table(
    "uploads",
    metadata,
    Column("upload", NAME, primary_key=True),
    Column("tenant", NAME, nullable=False, index=True),
    *_needed(NAME, "kind"),
    *_needed(BigInteger, "bytes"),
    *_needed(NAME, "sha256"),
    *(Column(name, NAME) for name in ("name", "params")),
    *_needed(Float, "expires_s"),
)
blobs = Table(
    "blobs",
    metadata,
    *(Column(name, NAME, primary_key=True) for name in ("tenant", "sha256")),
    *_needed(NAME, "kind"),
    *_needed(BigInteger, "bytes"),
    Column("expires_s", Float),
)
programs = Table(
    "programs",
    metadata,
    *(Column(name, NAME, primary_key=True) for name in ("tenant", "program")),
    *_needed(NAME, "package"),
    *_needed(Text, "description"),
    *_needed(Float, "created_s"),
)
jobs = Table(
    "jobs",
    metadata,
    Column("job", NAME, primary_key=True),
    *_needed(NAME, "tenant", "client_job", "digest"),
    *_needed(Text, "request"),
    *_needed(NAME, "program", "package", "state"),
    *_needed(Integer, "attempts"),
    *_needed(Float, "submitted_s"),
    *(Column(name, Float) for name in ("started_s", "ended_s")),
    *(Column(name, Text) for name in ("figures", "outputs")),
    *_needed(BigInteger, "output_bytes"),
    Column("reason", Text),
    Column("expires_s", Float),
    Index("jobs_of_tenant", "tenant", "client_job", unique=True),
    Index("jobs_by_state", "state"),
)
audit = Table(
    "audit",
    metadata,
    Column("entry", Integer, primary_key=True, autoincrement=True),
    *_needed(Float, "at_s"),
    *_needed(NAME, "tenant", "token", "action"),
    *_needed(Text, "subject"),
)
