"""The configuration of `penstock serve`: a TOML file as a person writes it, checked once."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from penstock.errors import UsageError
from penstock.system.toml import Strict, checked
from penstock.units import parse_bytes, parse_rate, parse_seconds

DATABASE_VARIABLE = "PENSTOCK_DATABASE"
"""Overrides `database`: its URL may hold a password."""


class TlsSpec(Strict):
    """Files in PEM."""

    certificate: str
    key: str


class LimitsSpec(Strict):
    """Bounds for each tenant, and for the server."""

    tenant_bytes: str = "100 GB"
    upload_bytes: str = "64 GB"
    unfinished_uploads: int = Field(default=32, ge=1)
    unfinished_jobs: int = Field(default=1000, ge=1)
    connections: int = Field(default=256, ge=8)
    tenant_requests: int = Field(default=64, ge=1)
    requests_per_s: float = Field(default=200.0, gt=0)
    slowest_upload: str = "1 kB/s"
    program_seconds: str = "1 h"
    program_bytes: str = "16 GB"
    examine_seconds: str = "60 s"
    examine_bytes: str = "4 GB"


class RetentionSpec(Strict):
    """How long things stay."""

    uploads: str = "24 h"
    inputs: str = "24 h"
    results: str = "24 h"
    jobs: str = "168 h"


class WorkSpec(Strict):
    """The processes that compute."""

    abreast: int = Field(default=1, ge=1)
    threads: int = Field(default=0, ge=0)
    key_bytes: str = "2 GB"
    key_floor: str = "0 B"
    memory: str = "8 GB"
    jobs: int = Field(default=10_000, ge=1)
    backlog: str = "10 min"
    isolation: str = Field(default="shared", pattern="^(shared|process)$")
    workers: int = Field(default=4, ge=1)
    order: str = Field(default="planned", pattern="^(planned|arrival)$")
    eviction: str = Field(default="planned", pattern="^(planned|lru)$")
    machine: str = ""


class ServeSpec(Strict):
    """A serve.toml."""

    folder: str
    listen: str = "127.0.0.1:8700"
    admin: str = "127.0.0.1:8701"
    database: str = ""
    tls: TlsSpec | None = None
    limits: LimitsSpec = LimitsSpec()
    retention: RetentionSpec = RetentionSpec()
    work: WorkSpec = WorkSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bytes, seconds and counts."""

    tenant_bytes: int
    upload_bytes: int
    unfinished_uploads: int
    unfinished_jobs: int
    connections: int
    tenant_requests: int
    """Of one tenant at the same time."""
    requests_per_s: float
    """Of one tenant; twice as many may come at once."""
    slowest_bytes_per_s: float
    program_s: float
    """The most predicted seconds of a program."""
    program_bytes: int
    """The most predicted memory of a program, its keys included."""
    examine_s: float
    """The longest time in which a package is examined."""
    examine_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Seconds."""

    uploads_s: float
    inputs_s: float
    results_s: float
    jobs_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The processes that compute."""

    abreast: int
    """Jobs at the same time."""
    threads: int
    """Of each job; 0: the cores, shared by the jobs abreast."""
    key_bytes: int
    key_floor_bytes: int
    """Of each tenant, that keys of others do not displace."""
    memory_bytes: int
    """Of the values of all jobs that run at the same time."""
    jobs: int
    backlog_s: float
    isolation: str
    workers: int
    """Processes at most, under `process`."""
    order: str
    """`planned`: keys to read weighed against waiting; `arrival`."""
    eviction: str
    """`planned`: keys that waiting jobs use last leave, and those of the next jobs are read ahead; `lru`."""
    machine: str
    """A fitted machine for predictions; empty: a nominal core."""

    @property
    def worker_key_bytes(self) -> int:
        """The budget of keys of one worker. Under `process` the workers share the whole in equal parts."""
        return self.key_bytes // (self.workers if self.isolation == "process" else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A checked configuration."""

    folder: Path
    listen: tuple[str, int]
    admin: tuple[str, int]
    database: str
    """A URL of SQLAlchemy."""
    certificate: Path | None
    key: Path | None
    limits: Limits
    retention: Retention
    work: Work
    first_tenant: str | None = None
    """A tenant that is made with a token where the state is new."""

    @property
    def scheme(self) -> str:
        return "http" if self.certificate is None else "https"


def read_config(path: Path) -> Config:
    """The configuration in a file; relative paths begin at its folder. Raises: UsageError; FileError."""
    spec = checked(ServeSpec, path, str(path), "a configuration of the service")
    return config_of(spec, path.absolute().parent, str(path))


def embedded(folder: Path, port: int = 8700, admin_port: int = 8701) -> Config:
    """The configuration without a file: a folder, SQLite, this machine only, one tenant `default`."""
    spec = ServeSpec(folder=str(folder), listen=f"127.0.0.1:{port}", admin=f"127.0.0.1:{admin_port}")
    return config_of(spec, Path.cwd(), "penstock serve", first_tenant="default")


def config_of(spec: ServeSpec, base: Path, where: str, first_tenant: str | None = None) -> Config:
    """Check a specification. Raises: UsageError, which names `where` and the field."""
    folder = base / spec.folder
    limits, kept, work = spec.limits, spec.retention, spec.work
    listen, admin = _address(spec.listen, f"{where}: listen"), _address(spec.admin, f"{where}: admin")
    for name, (host, _) in (("listen", listen), ("admin", admin)):
        if spec.tls is None and not _is_loopback(host):
            raise UsageError(
                f"{where}: {name} = '{host}' is reached from other machines, and tokens would travel in the clear; "
                "name a certificate and a key under [tls], or listen on 127.0.0.1"
            )
    certificate = key = None
    if spec.tls is not None:
        certificate, key = base / spec.tls.certificate, base / spec.tls.key
        for name, file in (("certificate", certificate), ("key", key)):
            if not file.is_file():
                raise UsageError(f"{where}: tls.{name}: there is no file {file}; name one in PEM")
        if key.stat().st_mode & 0o077:
            raise UsageError(f"{where}: tls.key: others may read {key}; take that away with 'chmod 600 {key}'")
    return Config(
        folder=folder,
        listen=listen,
        admin=admin,
        database=_database(os.environ.get(DATABASE_VARIABLE) or spec.database, folder, where),
        certificate=certificate,
        key=key,
        limits=Limits(
            tenant_bytes=parse_bytes(limits.tenant_bytes, f"{where}: limits.tenant_bytes"),
            upload_bytes=parse_bytes(limits.upload_bytes, f"{where}: limits.upload_bytes"),
            unfinished_uploads=limits.unfinished_uploads,
            unfinished_jobs=limits.unfinished_jobs,
            connections=limits.connections,
            tenant_requests=limits.tenant_requests,
            requests_per_s=limits.requests_per_s,
            slowest_bytes_per_s=parse_rate(limits.slowest_upload, f"{where}: limits.slowest_upload"),
            program_s=parse_seconds(limits.program_seconds, f"{where}: limits.program_seconds"),
            program_bytes=parse_bytes(limits.program_bytes, f"{where}: limits.program_bytes"),
            examine_s=parse_seconds(limits.examine_seconds, f"{where}: limits.examine_seconds"),
            examine_bytes=parse_bytes(limits.examine_bytes, f"{where}: limits.examine_bytes"),
        ),
        retention=Retention(
            uploads_s=parse_seconds(kept.uploads, f"{where}: retention.uploads"),
            inputs_s=parse_seconds(kept.inputs, f"{where}: retention.inputs"),
            results_s=parse_seconds(kept.results, f"{where}: retention.results"),
            jobs_s=parse_seconds(kept.jobs, f"{where}: retention.jobs"),
        ),
        work=Work(
            abreast=work.abreast,
            threads=work.threads,
            key_bytes=parse_bytes(work.key_bytes, f"{where}: work.key_bytes"),
            key_floor_bytes=parse_bytes(work.key_floor, f"{where}: work.key_floor"),
            memory_bytes=parse_bytes(work.memory, f"{where}: work.memory"),
            jobs=work.jobs,
            backlog_s=parse_seconds(work.backlog, f"{where}: work.backlog"),
            isolation=work.isolation,
            workers=work.workers,
            order=work.order,
            eviction=work.eviction,
            machine=work.machine,
        ),
        first_tenant=first_tenant,
    )


def _address(text: str, where: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host.strip("[]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{where} = '{text[:100]}': write an address and a port, such as 127.0.0.1:8700")
    return host, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _database(text: str, folder: Path, where: str) -> str:
    if not text:
        return f"sqlite:///{folder / 'state.sqlite'}"
    if text.startswith(("sqlite://", "postgresql+pg8000://")):
        return text
    for start in ("postgresql://", "postgres://"):
        if text.startswith(start):
            return f"postgresql+pg8000://{text.removeprefix(start)}"
    raise UsageError(f"{where}: database: write sqlite:///FILE or postgresql://USER@HOST/NAME, or leave it out")
