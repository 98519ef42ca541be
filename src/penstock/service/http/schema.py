"""The tables of the service's state."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, MetaData, String, Table, Text

VERSION = 1
"""Of the tables. A state of another version is refused."""

metadata = MetaData()
NAME = String(200)

about = Table("about", metadata, Column("name", NAME, primary_key=True), Column("value", Text, nullable=False))
tenants = Table(
    "tenants", metadata, Column("tenant", NAME, primary_key=True), Column("created_s", Float, nullable=False)
)
tokens = Table(
    "tokens",
    metadata,
    Column("token", NAME, primary_key=True),
    Column("tenant", NAME, nullable=False, index=True),
    Column("digest", NAME, nullable=False),
    Column("scopes", NAME, nullable=False),
    Column("created_s", Float, nullable=False),
    Column("expires_s", Float),
)
uploads = Table(
    "uploads",
    metadata,
    Column("upload", NAME, primary_key=True),
    Column("tenant", NAME, nullable=False, index=True),
    Column("kind", NAME, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("sha256", NAME, nullable=False),
    Column("name", NAME),
    Column("params", NAME),
    Column("expires_s", Float, nullable=False),
)
blobs = Table(
    "blobs",
    metadata,
    Column("tenant", NAME, primary_key=True),
    Column("sha256", NAME, primary_key=True),
    Column("kind", NAME, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("expires_s", Float),
)
programs = Table(
    "programs",
    metadata,
    Column("tenant", NAME, primary_key=True),
    Column("program", NAME, primary_key=True),
    Column("package", NAME, nullable=False),
    Column("description", Text, nullable=False),
    Column("created_s", Float, nullable=False),
)
jobs = Table(
    "jobs",
    metadata,
    Column("job", NAME, primary_key=True),
    Column("tenant", NAME, nullable=False),
    Column("client_job", NAME, nullable=False),
    Column("digest", NAME, nullable=False),
    Column("request", Text, nullable=False),
    Column("program", NAME, nullable=False),
    Column("package", NAME, nullable=False),
    Column("state", NAME, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("submitted_s", Float, nullable=False),
    Column("started_s", Float),
    Column("ended_s", Float),
    Column("figures", Text),
    Column("outputs", Text),
    Column("output_bytes", BigInteger, nullable=False),
    Column("reason", Text),
    Column("expires_s", Float),
    Index("jobs_of_tenant", "tenant", "client_job", unique=True),
    Index("jobs_by_state", "state"),
)
audit = Table(
    "audit",
    metadata,
    Column("entry", Integer, primary_key=True, autoincrement=True),
    Column("at_s", Float, nullable=False),
    Column("tenant", NAME, nullable=False),
    Column("token", NAME, nullable=False),
    Column("action", NAME, nullable=False),
    Column("subject", Text, nullable=False),
)
