"""The configuration of `penstock serve`: a TOML file as a person writes it, checked once."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from penstock.base.system.toml import Strict, checked
from penstock.base.system.web import is_loopback
from penstock.base.units import parse_bytes, parse_rate, parse_seconds
from penstock.errors import UsageError
from penstock.service.work.isolation import user_of

DATABASE_VARIABLE = "PENSTOCK_DATABASE"
"""Overrides `database`: its URL may hold a password."""


def _quantity(parse: Callable[[str, str], float]) -> BeforeValidator:
    """Reads a quantity with its unit, as a person writes it."""

    def read(text: object) -> float:
        if not isinstance(text, str):
            raise ValueError(f"{text!r}: a quantity is a string with its unit")
        try:
            return parse(text, "")
        except UsageError as error:
            raise ValueError(str(error).strip()) from error

    return BeforeValidator(read)


Size = Annotated[int, _quantity(parse_bytes)]
Rate = Annotated[float, _quantity(parse_rate)]
Seconds = Annotated[float, _quantity(parse_seconds)]


class ServeTable(Strict):
    """A table of the file."""

    model_config = ConfigDict(frozen=True)


class TlsSpec(ServeTable):
    """Files in PEM."""

    certificate: str
    key: str


class ServeLimits(ServeTable):
    """Bounds for each tenant, and for the server: bytes, seconds and counts."""

    tenant_bytes: Size = parse_bytes("100 GB")
    upload_bytes: Size = parse_bytes("64 GB")
    unfinished_uploads: int = Field(default=32, ge=1)
    unfinished_jobs: int = Field(default=1000, ge=1)
    kept_jobs: int = Field(default=100_000, ge=1)
    """Jobs, ended ones included: the oldest without results are forgotten for new ones."""
    programs: int = Field(default=1000, ge=1)
    contents: int = Field(default=100_000, ge=1)
    """Packages, inputs and ciphertexts."""
    connections: int = Field(default=2048, ge=8)
    """Of each listener; strangers, who have shown no valid token, have at most half of them."""
    address_connections: int = Field(default=512, ge=1)
    """Of strangers of one address."""
    tenant_connections: int = Field(default=128, ge=1)
    """Of one tenant; further ones close idle ones."""
    keep_alive_s: Seconds = Field(default=parse_seconds("75 s"), alias="keep_alive")
    """Of a tenant's connection between two requests."""
    tenant_requests: int = Field(default=64, ge=1)
    """Of one tenant at the same time."""
    requests_per_s: float = Field(default=200.0, gt=0)
    """Of one tenant; twice as many may come at once."""
    slowest_bytes_per_s: Rate = Field(default=parse_rate("1 kB/s"), alias="slowest_upload")
    program_s: Seconds = Field(default=parse_seconds("1 h"), alias="program_seconds")
    """The most predicted seconds of a program."""
    program_bytes: Size = parse_bytes("16 GB")
    """The most predicted memory of a program, its keys included."""
    examine_s: Seconds = Field(default=parse_seconds("60 s"), alias="examine_seconds")
    """The longest time in which a package is examined."""
    examine_bytes: Size = parse_bytes("4 GB")


class Retention(ServeTable):
    """How long things stay, in seconds."""

    uploads_s: Seconds = Field(default=parse_seconds("24 h"), alias="uploads")
    inputs_s: Seconds = Field(default=parse_seconds("24 h"), alias="inputs")
    results_s: Seconds = Field(default=parse_seconds("24 h"), alias="results")
    jobs_s: Seconds = Field(default=parse_seconds("168 h"), alias="jobs")


class WorkSpec(ServeTable):
    """The processes that compute."""

    abreast: int = Field(default=4, ge=1)
    """Jobs at the same time. One tenant has half of the places, and never the last one."""
    threads: int = Field(default=0, ge=0)
    """Of each job; 0: the cores, shared by the jobs that one tenant may have at the same time."""
    key_bytes: Size = parse_bytes("2 GB")
    key_floor_bytes: Size = Field(default=parse_bytes("0 B"), alias="key_floor")
    """Of each tenant, that keys of others do not displace."""
    memory_bytes: Size = Field(default=parse_bytes("8 GB"), alias="memory")
    """Of the values of all jobs that run at the same time; one tenant has three quarters."""
    kept_bytes: Size = Field(default=parse_bytes("1 GB"), alias="kept")
    """Of compiled programs and evaluators that wait for their next job."""
    compile_s: Seconds = Field(default=parse_seconds("120 s"), alias="compile_seconds")
    """The longest time in which a worker compiles a package."""
    most_over: float = Field(default=20.0, ge=1)
    """Times its predicted seconds that a job may compute."""
    least_s: Seconds = Field(default=parse_seconds("30 s"), alias="least_seconds")
    """That each job may compute, whatever its prediction."""
    jobs: int = Field(default=10_000, ge=1)
    backlog_s: Seconds = Field(default=parse_seconds("10 min"), alias="backlog")
    isolation: str = Field(default="shared", pattern="^(shared|process)$")
    workers: int = Field(default=4, ge=1)
    """Processes at most, under `process`."""
    user: str = Field(default="nobody", min_length=1)
    """Whom workers and examinations run as, where the server is root's."""
    order: str = Field(default="planned", pattern="^(planned|arrival)$")
    """`planned`: keys to read weighed against waiting; `arrival`."""
    eviction: str = Field(default="planned", pattern="^(planned|lru)$")
    """`planned`: keys that waiting jobs use last leave, and keys of the next jobs are read ahead; `lru`."""
    machine: str = ""
    """A fitted machine for predictions; empty: a nominal core."""

    @property
    def worker_key_bytes(self) -> int:
        """The budget of keys of one worker. Under `process` the workers share the whole in equal parts."""
        return self.key_bytes // (self.workers if self.isolation == "process" else 1)


class ServeSpec(ServeTable):
    """A serve.toml."""

    folder: str
    listen: str = "127.0.0.1:8700"
    admin: str = "127.0.0.1:8701"
    database: str = ""
    tls: TlsSpec | None = None
    limits: ServeLimits = ServeLimits()
    retention: Retention = Retention()
    work: WorkSpec = WorkSpec()


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
    limits: ServeLimits
    retention: Retention
    work: WorkSpec
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
    listen, admin = _address(spec.listen, f"{where}: listen"), _address(spec.admin, f"{where}: admin")
    try:
        user_of(spec.work.user)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    for name, (host, _) in (("listen", listen), ("admin", admin)):
        if spec.tls is None and not is_loopback(host):
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
        limits=spec.limits,
        retention=spec.retention,
        work=spec.work,
        first_tenant=first_tenant,
    )


def _address(text: str, where: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host.strip("[]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{where} = '{text[:100]}': write an address and a port, such as 127.0.0.1:8700")
    return host, int(port)


def _database(text: str, folder: Path, where: str) -> str:
    if not text:
        return f"sqlite:///{folder / 'state.sqlite'}"
    if text.startswith(("sqlite://", "postgresql+pg8000://")):
        return text
    for start in ("postgresql://", "postgres://"):
        if text.startswith(start):
            return f"postgresql+pg8000://{text.removeprefix(start)}"
    raise UsageError(f"{where}: database: write sqlite:///FILE or postgresql://USER@HOST/NAME, or leave it out")
