"""Jobs whose acceptance is in doubt: the database broke around it, or a callback met a full disk."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from penstock.service.http.app import application
from penstock.service.http.config import embedded
from penstock.service.http.logs import Log
from penstock.service.http.service import ServiceFront
from penstock.service.state.problems import Problem
from penstock.service.state.tokens import Caller
from penstock.service.work.messages import EXPIRED, AdmissionRefused
from support.fake_computing import FakeComputing
from support.serve_site import PARAMS, eventually

WHO = Caller(tenant="a", token="t", scopes=frozenset({"run"}))
FORM = {"program": "p", "inputs": {"x": "s"}, "priority": 0, "deadline_s": None}
GONE = Problem(503, "the server's database does not answer", remedy="come again later", kind="database")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceFront]:
    """A service with a program and an input of the tenant `a`."""
    found = ServiceFront(embedded(tmp_path / "state"), Log(), lambda _, jobs: FakeComputing(jobs))
    description = {
        "inputs": [{"name": "x"}],
        "outputs": [{"name": "y"}],
        "keys": [],
        "predicted": {"key_bytes": 0, "seconds": 1.0, "memory_bytes": 1},
        "params": PARAMS.to_dict(),
    }
    found.state.put_program("a", "p", "k", description)
    blob = {"tenant": "a", "sha256": "s", "kind": "input", "bytes": 1, "expires_s": None}
    found.state.end_upload("a", "none", blob)
    path = found.files.blob("a", "s")
    found.files.make(path)
    path.write_bytes(b"x")
    found.start()
    yield found
    found.close()


def ends(service: ServiceFront, job: str, state: str = "done") -> None:
    eventually(lambda: service.jobs.show("a", job)["state"] == state)


def breaking(action: Any, error: Exception, *, before: bool, times: int = 1) -> Any:
    """`action` that breaks before or after it has worked, some times."""
    left = [times]

    def broken(*arguments: Any, **named: Any) -> Any:
        if left[0] and before:
            left[0] -= 1
            raise error
        found = action(*arguments, **named)
        if left[0]:
            left[0] -= 1
            raise error
        return found

    return broken


def test_a_job_that_the_database_took_and_did_not_confirm_runs_when_it_is_sent_again(service, monkeypatch):
    monkeypatch.setattr(service.state, "add_job", breaking(service.state.add_job, GONE, before=False))
    with pytest.raises(Problem):
        service.jobs.submit(WHO, {"job": "doubt", **FORM})
    assert service.state.job_of("a", "doubt")["state"] == "queued"
    is_new, _ = service.jobs.submit(WHO, {"job": "doubt", **FORM})
    assert not is_new
    ends(service, "doubt")


def test_a_job_that_the_database_took_and_did_not_confirm_runs_without_another_word(service, monkeypatch):
    monkeypatch.setattr(service.state, "add_job", breaking(service.state.add_job, GONE, before=False))
    with pytest.raises(Problem):
        service.jobs.submit(WHO, {"job": "doubt", **FORM})
    service.sweep()
    ends(service, "doubt")
    service.sweep()
    assert len(service.jobs.pool.seen) == 1


def test_a_refused_job_that_cannot_be_removed_is_accepted_after_all(service, monkeypatch):
    pool = service.jobs.pool
    monkeypatch.setattr(pool, "submit", breaking(pool.submit, AdmissionRefused(7, "it filled meanwhile"), before=True))
    monkeypatch.setattr(service.state, "remove_job", breaking(service.state.remove_job, GONE, before=True))
    with pytest.raises(Problem) as refused:
        service.jobs.submit(WHO, {"job": "kept", **FORM})
    assert refused.value.status == 503
    ends(service, "kept")


def test_a_job_that_the_queue_refuses_after_all_is_not_kept(service, monkeypatch):
    pool = service.jobs.pool
    monkeypatch.setattr(pool, "submit", breaking(pool.submit, AdmissionRefused(7, "it filled meanwhile"), before=True))
    with pytest.raises(Problem) as refused:
        service.jobs.submit(WHO, {"job": "full", **FORM})
    assert (refused.value.status, refused.value.retry_after_s) == (429, 7)
    assert service.state.job_of("a", "full") is None
    assert service.jobs.submit(WHO, {"job": "full", **FORM})[0]
    ends(service, "full")


def test_a_job_without_room_for_its_folder_is_refused_and_not_kept(service, monkeypatch):
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(service.jobs, "_spec", breaking(service.jobs._spec, full, before=True))
    with pytest.raises(OSError, match="No space"):
        service.jobs.submit(WHO, {"job": "full", **FORM})
    assert service.state.job_of("a", "full") is None
    is_new, _ = service.jobs.submit(WHO, {"job": "full", **FORM})
    assert is_new
    ends(service, "full")


@pytest.mark.parametrize("error", [GONE, OSError(errno.EIO, "Input/output error")])
def test_what_a_worker_says_is_kept_until_the_database_and_the_disk_take_it(service, monkeypatch, error):
    monkeypatch.setattr(service.state, "move_job", breaking(service.state.move_job, error, before=True, times=2))
    service.jobs.submit(WHO, {"job": "late", **FORM})
    ends(service, "late")


def test_a_cancellation_that_the_database_refuses_leaves_the_job_running(service, monkeypatch):
    service.jobs.pool.hold = True
    service.jobs.submit(WHO, {"job": "stays", **FORM})
    monkeypatch.setattr(service.state, "move_job", breaking(service.state.move_job, GONE, before=True))
    with pytest.raises(Problem):
        service.jobs.cancel(WHO, "stays")
    service.jobs.pool.release(service.jobs.pool.seen[0].job)
    ends(service, "stays")


def test_a_job_that_fails_by_its_deadline_has_expired_and_another_has_not(service):
    for job, reason, state in (
        ("over", f"{EXPIRED}its deadline of 1 s was over while it computed", "expired"),
        ("bad", "program 'deadline' has no such input", "failed"),
    ):
        service.jobs.pool.fails = [(reason, False)]
        service.jobs.submit(WHO, {"job": job, **FORM})
        ends(service, job, state)


def test_results_whose_file_is_gone_are_a_refusal(service):
    service.jobs.submit(WHO, {"job": "gone", **FORM})
    ends(service, "gone")
    service.jobs.output("a", "gone", "y").unlink()
    with pytest.raises(Problem) as refused:
        service.jobs.output("a", "gone", "y")
    assert (refused.value.status, refused.value.kind) == (409, "results-gone")


def test_results_that_go_while_they_are_read_are_a_refusal(service, monkeypatch, tmp_path):
    monkeypatch.setattr(service.jobs, "output", lambda *_: tmp_path / "gone")
    route = next(route for route in application(service)._app.routes if route.name == "output")
    with pytest.raises(Problem) as refused:
        asyncio.run(route.endpoint("j", "y", WHO))
    assert (refused.value.status, refused.value.kind) == (409, "results-gone")


def begun(service: ServiceFront, content: bytes) -> str:
    """An upload that has not begun to arrive."""
    asked = {"kind": "input", "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return str(service.uploads.begin(WHO, asked)["upload"])


def received(service: ServiceFront, upload: str, content: bytes) -> int:
    async def pieces() -> AsyncIterator[bytes]:
        yield content

    return int(asyncio.run(service.uploads.receive(WHO, upload, 0, pieces()))["offset"])


@pytest.mark.parametrize("act", ["receive", "commit"])
def test_an_upload_whose_tenant_is_removed_meanwhile_is_none(service, act, monkeypatch):
    upload, digest = begun(service, b"content"), service.uploads._digest

    def removed_after(row: dict[str, Any], have: int) -> Any:
        found = digest(row, have)
        shutil.rmtree(service.files.tenants / "a")
        return found

    if act == "commit":
        assert received(service, upload, b"content") == 7
    monkeypatch.setattr(service.uploads, "_digest", removed_after)
    with pytest.raises(Problem) as refused:
        received(service, upload, b"content") if act == "receive" else service.uploads.commit(WHO, upload)
    assert (refused.value.status, refused.value.kind) == (404, "no-upload")
    assert not (service.files.tenants / "a").exists()


def test_one_content_that_is_committed_many_times_at_once_is_taken(service):
    content = b"the same" * 1000
    uploads = [begun(service, content) for _ in range(8)]
    assert {received(service, upload, content) for upload in uploads} == {8000}
    failed: list[Exception] = []

    def commit(upload: str) -> None:
        try:
            service.uploads.commit(WHO, upload)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=commit, args=(upload,)) for upload in uploads]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failed == []
    path = service.files.blob("a", hashlib.sha256(content).hexdigest())
    assert path.read_bytes() == content
    assert service.uploads.listed(WHO) == []
