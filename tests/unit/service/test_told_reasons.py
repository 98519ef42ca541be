"""What a tenant reads of a failure: no path, address, name or process of the server; the log has it in full."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")

from sqlalchemy.exc import OperationalError

from penstock import errors
from penstock.base.system.files import FileError
from penstock.service.http.config import embedded
from penstock.service.http.logs import Log
from penstock.service.http.service import ServiceFront
from penstock.service.state.problems import Problem, problem_of, told
from penstock.service.state.state import ServiceState
from penstock.service.state.tokens import Caller
from penstock.service.work.messages import JobSpec
from support.fake_computing import FakeComputing
from support.serve_site import eventually

SECRETS = (
    "/srv/pen stock/state/tenants/alice/blobs/ab12",
    "/var/lib/penstock/keys/alice/0.pkey",
    "postgresql+pg8000://penstock:hunter2@db.internal:5432/penstock",
    "s3://bucket/keys",
    "db.internal:5432",
    "10.1.2.3:5432",
    "[::1]:5432",
    "process 4711",
    "pid 4711",
    "pid=4711",
    "0x7f00deadbeef",
)
LEAKS = re.compile(r"srv|stock/|/var|lib/|pkey|hunter2|internal|10\.1|::1|4711|deadbeef|bucket")
KINDS = [
    kind for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.PenstockError) and kind is not errors.UnknownName
]  # fmt: skip


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceFront]:
    with (tmp_path / "log").open("w") as log:
        made = ServiceFront(embedded(tmp_path / "my state"), Log(log), lambda _, jobs: FakeComputing(jobs))
        yield made
        made.close()


def failures(secret: str) -> list[Exception]:
    """An error of every kind that reaches a tenant, with something of the server in it."""
    text = f"cannot read '{secret}': {secret}: it is damaged ({secret})"
    return [
        *(kind(text) for kind in KINDS),
        OSError(errno.EIO, text, secret),
        FileError(Path(secret), "read", OSError(errno.EACCES, "no")),
        FileError(Path(secret), "write", OSError(errno.ENOSPC, "no")),
        Problem(422, text, remedy=text, rule=text),
        RuntimeError(text),
        OperationalError(text, {}, sqlite3.OperationalError(text)),
    ]


@pytest.mark.parametrize("secret", SECRETS)
def test_no_refusal_of_any_kind_tells_of_the_server(secret, service):
    for error in failures(secret):
        body = json.dumps(problem_of(error).body())
        assert not LEAKS.search(body), (type(error).__name__, body)


@pytest.mark.parametrize(
    "text",
    [
        "GET /v1/jobs/JOB?wait=30 lists them",
        "GET /openapi.json describes the members and their rules",
        "key rot:12345 has 3 of 5 limbs, and rot:78125 is lacking",
        "the next piece begins at 5, not at 0; send it with ?offset=5",
        "input 'x/1' and output y/2 differ: 1/3",
        "raise limits.examine_seconds and work.memory to 1.5 GB",
        "send the header 'Authorization: Bearer TOKEN'; at 10:30:00",
    ],
)
def test_what_a_tenant_needs_is_left_as_it_is(text):
    assert told(text) == text


def test_the_servers_folder_and_name_are_hidden_wherever_they_stand(service, tmp_path):
    for word in (str(service.config.folder), str(service.config.folder / "keys"), socket.gethostname()):
        assert word not in told(f"cannot read {word}: no")
    assert "my state" not in told(f"cannot read {service.config.folder}/tenants/alice/results: no")


class Failing(FakeComputing):
    """Computing whose jobs fail with a reason that tells of the server."""

    def submit(self, job: JobSpec, *, is_accepted: bool = False) -> None:
        reason = f"cannot read {next(iter(job.inputs.values()))}: process {os.getpid()} on {socket.gethostname()}"
        self.jobs.do_later(lambda: self.jobs.on_failed(job.job, reason, False))


def test_the_reason_of_a_job_tells_nothing_and_the_log_all(service, tmp_path):
    who = Caller(tenant="a", token="t", scopes=frozenset({"run"}))
    service.jobs.pool = Failing(service.jobs)
    from support.serve_site import PARAMS

    description = {"inputs": [{"name": "x"}], "outputs": [{"name": "y", "length": 1}], "keys": []}
    predicted = {"key_bytes": 0, "seconds": 1.0, "memory_bytes": 1}
    service.state.put_program("a", "p", "k", {**description, "predicted": predicted, "params": PARAMS.to_dict()})
    service.state.end_upload("a", "no", {"tenant": "a", "sha256": "s", "kind": "input", "bytes": 1, "expires_s": None})
    path = service.files.blob("a", "s")
    service.files.make(path)
    path.write_bytes(b"x")
    service.start()
    service.jobs.submit(who, {"job": "j", "program": "p", "inputs": {"x": "s"}, "priority": 0, "deadline_s": None})
    eventually(lambda: service.jobs.show("a", "j")["state"] == "failed")
    for shown in (service.jobs.show("a", "j"), service.jobs.listed("a")[0]):
        assert shown["reason"].startswith("cannot read ")
        for word in (str(tmp_path), "my state", str(os.getpid()), socket.gethostname(), "blobs"):
            assert word not in json.dumps(shown)
    assert str(path) in (tmp_path / "log").read_text()


def test_a_reason_of_an_earlier_version_is_not_shown_in_full(service):
    row = {
        "job": "1", "tenant": "a", "client_job": "j", "digest": "d", "request": {"inputs": {}}, "program": "p",
        "package": "k", "state": "queued", "attempts": 1, "submitted_s": 1.0, "output_bytes": 0,
    }  # fmt: skip
    state: ServiceState = service.state
    state.add_job(row, most=9)
    state.move_job("1", "failed", reason="cannot read /srv/state/tenants/a/blobs/12: it is damaged")
    assert service.jobs.show("a", "j")["reason"] == "cannot read …: it is damaged"
